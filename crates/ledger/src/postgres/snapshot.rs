//! What a reader sees: everything as of one moment, however many questions it takes.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::future::Future;

use deadpool_postgres::Client;
use enjamb_core::Digest;
use futures_util::future::join;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Error, Row};

use super::connect::Connections;
use super::fault::Fault;
use super::rows::unseal;
use super::sql::{PAGE_BYTES, Sql};
use crate::error::LedgerError;
use crate::index::{IndexError, Lookup, Table, Visit, is_commit_key};
use crate::look::ByNumber;
use crate::record::Record;
use crate::segments::Segments;
use crate::{Result, SealedRange};

type Parameters<'a> = &'a [&'a (dyn ToSql + Sync)];
type Pages<T> = std::result::Result<T, IndexError>;

const BEGIN: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY";
/// Rows of a range that are asked for at first; most who look at one want few.
const ROWS_FIRST: i64 = 32;
const ROWS_MAX: i64 = 2_048;
/// Commits of a chain that are fetched at first: most walks end at a compaction before that.
const CHAIN_ROWS_FIRST: i64 = 256;
const CHAIN_ROWS_MAX: i64 = 16_384;

/// One transaction that only reads. It begins with the first question, in the same exchange.
pub(super) struct Snapshot<'l> {
    connections: &'l Connections,
    sql: &'l Sql,
    segments: &'l Segments,
    /// `None` only while this is dropped.
    client: Option<Client>,
    begun: Cell<bool>,
    is_glance: Cell<bool>,
    /// Rows of commits that are likely to be asked for next, and how many to fetch when they run out; none, if 0.
    ahead: RefCell<HashMap<Vec<u8>, Vec<u8>>>,
    ahead_rows: Cell<i64>,
    /// The range that was needed last: neighbours are nearly always in the same one.
    range: Cell<Option<SealedRange>>,
}

impl<'l> Snapshot<'l> {
    pub(super) fn take(
        connections: &'l Connections,
        sql: &'l Sql,
        segments: &'l Segments,
    ) -> std::result::Result<Self, Fault> {
        let client = connections.block_on(connections.client())?;
        let (begun, is_glance) = (Cell::new(false), Cell::new(false));
        let (ahead, ahead_rows, range) = (RefCell::default(), Cell::new(0), Cell::new(None));
        Ok(Self { connections, sql, segments, client: Some(client), begun, is_glance, ahead, ahead_rows, range })
    }

    /// For one question, which is a transaction by itself.
    pub(super) fn glance(&self) {
        self.is_glance.set(true);
    }

    /// From here on, whoever looks up a commit wants its ancestors as well.
    pub(super) fn climb(&self) {
        self.ahead_rows.set(CHAIN_ROWS_FIRST);
    }

    pub(super) fn query(&self, sql: &str, parameters: Parameters<'_>) -> Result<Vec<Row>> {
        let client = self.client.as_ref().expect("it is taken only when this is dropped");
        let asked = self.connections.block_on(async {
            let statement = client.prepare_cached(sql).await?;
            self.in_transaction(client, client.query(&statement, parameters)).await
        });
        asked.map_err(|error| match Fault::of("reading", &error) {
            Fault::Lost(_) => {
                LedgerError::Unreachable { server: self.connections.shown().to_owned(), detail: error.to_string() }
            }
            other => other.into_error(),
        })
    }

    async fn in_transaction<T>(
        &self,
        client: &Client,
        question: impl Future<Output = std::result::Result<T, Error>>,
    ) -> std::result::Result<T, Error> {
        if self.is_glance.get() || self.begun.replace(true) {
            return question.await;
        }
        let (begun, answer) = join(client.batch_execute(BEGIN), question).await;
        begun.and(answer)
    }

    /// Rows of a range in pages that grow, the next one beginning where the last one ended.
    fn pages(&self, from: &[u8], to: &[u8], back: bool, visit: &mut Visit<'_>) -> Pages<()> {
        let sql = if back { &self.sql.scan_back } else { &self.sql.scan };
        let (mut from, mut to, mut count) = (from.to_vec(), to.to_vec(), ROWS_FIRST);
        loop {
            let rows = self.query(sql, &[&from, &to, &count]).map_err(engine)?;
            for row in &rows {
                let (key, value): (&[u8], &[u8]) = (row.get(0), row.get(1));
                if !visit(key, unseal(key, value)?)? {
                    return Ok(());
                }
            }
            let Some(last) = rows.last().filter(|_| rows.len() as i64 == count) else { return Ok(()) };
            let last: &[u8] = last.get(0);
            match back {
                true => to = last.to_vec(),
                false => from = [last, &[0]].concat(),
            }
            count = (count * 4).min(ROWS_MAX);
        }
    }

    /// The row of a commit, with those of its ancestors in the same exchange.
    fn commit_and_ancestors(&self, key: &[u8]) -> Pages<Option<Vec<u8>>> {
        if let Some(payload) = self.ahead.borrow_mut().remove(key) {
            return Ok(Some(payload));
        }
        let count = self.ahead_rows.get();
        self.ahead_rows.set((count * 8).min(CHAIN_ROWS_MAX));
        let rows = self.query(&self.sql.chain, &[&key, &count]).map_err(engine)?;
        let mut ahead = HashMap::with_capacity(rows.len());
        for row in &rows {
            let (key, value): (&[u8], &[u8]) = (row.get(0), row.get(1));
            ahead.insert(key.to_vec(), unseal(key, value)?.to_vec());
        }
        let own = ahead.remove(key);
        self.ahead.replace(ahead);
        Ok(own)
    }

    /// Records from `from` to `to`, up to the first that is elsewhere; a few megabytes of them, and one at least.
    pub(super) fn page(&self, from: u64, to: u64) -> Result<Vec<(u64, Record)>> {
        let rows = self.query(&self.sql.page, &[&(from as i64), &(to as i64)])?;
        let read = |row: &Row| {
            let n = row.get::<_, i64>(0) as u64;
            Ok((n, Record::decode(n, row.get(1))?))
        };
        let in_a_row = rows.iter().zip(from..).take_while(|(row, n)| row.get::<_, i64>(0) as u64 == *n);
        let page: Vec<_> = in_a_row.map(|(row, _)| read(row)).collect::<Result<_>>()?;
        match page.is_empty() {
            true => sealed_page(self.segments, &self.sealed_in(from)?.ok_or_else(|| missing(from))?, from, to),
            false => Ok(page),
        }
    }

    pub(super) fn position(&self) -> Result<u64> {
        let rows = self.query(&self.sql.position, &[])?;
        rows.first().map(|row| row.get::<_, i64>(0) as u64).ok_or_else(no_head)
    }

    /// All ranges that are in segments.
    pub(super) fn sealed(&self) -> Result<Vec<SealedRange>> {
        self.query(&self.sql.segments.sealed, &[])?.iter().map(sealed_range).collect()
    }

    /// The range that holds a record, if one does.
    pub(super) fn sealed_in(&self, n: u64) -> Result<Option<SealedRange>> {
        if let Some(range) = self.range.get().filter(|range| range.holds(n)) {
            return Ok(Some(range));
        }
        let rows = self.query(&self.sql.sealed_range, &[&(n as i64)])?;
        let range = rows.first().map(sealed_range).transpose()?.filter(|range| range.holds(n));
        self.range.set(range);
        Ok(range)
    }

    fn sealed_record(&self, n: u64) -> Result<Record> {
        match self.sealed_in(n)? {
            Some(range) => Record::unseal(n, &self.segments.record(&range.segment, n)?),
            None => Err(missing(n)),
        }
    }
}

pub(super) fn sealed_range(row: &Row) -> Result<SealedRange> {
    let number = |at| row.get::<_, i64>(at) as u64;
    let (first_n, last_n, bytes) = (number(0), number(1), number(3));
    let damaged = || LedgerError::corrupt("the table sealed", format!("the range from {first_n} names no segment"));
    let segment = Digest::from_slice(row.get(2)).ok_or_else(damaged)?;
    Ok(SealedRange { first_n, last_n, segment, bytes })
}

/// Records of a range that is in a segment, up to some bytes.
pub(super) fn sealed_page(segments: &Segments, range: &SealedRange, from: u64, to: u64) -> Result<Vec<(u64, Record)>> {
    let bodies = segments.records(&range.segment, from, to.min(range.last_n), PAGE_BYTES)?;
    (from..).zip(bodies).map(|(n, body)| Ok((n, Record::unseal(n, &body?)?))).collect()
}

pub(super) fn missing(n: u64) -> LedgerError {
    LedgerError::corrupt(format!("record {n}"), "it is missing")
}

pub(super) fn no_head() -> LedgerError {
    LedgerError::corrupt("the table head", "it has no row")
}

fn engine(error: LedgerError) -> IndexError {
    IndexError::Engine(Box::new(error))
}

impl Lookup for Snapshot<'_> {
    fn get(&self, key: &[u8]) -> Pages<Option<Vec<u8>>> {
        if self.ahead_rows.get() > 0 && is_commit_key(key) {
            return self.commit_and_ancestors(key);
        }
        let rows = self.query(&self.sql.get, &[&key]).map_err(engine)?;
        rows.first().map(|row| Ok(unseal(key, row.get(0))?.to_vec())).transpose()
    }
}

impl Table for Snapshot<'_> {
    fn scan(&self, from: &[u8], to: &[u8], visit: &mut Visit<'_>) -> Pages<()> {
        self.pages(from, to, false, visit)
    }

    fn scan_back(&self, from: &[u8], to: &[u8], visit: &mut Visit<'_>) -> Pages<()> {
        self.pages(from, to, true, visit)
    }
}

impl ByNumber for Snapshot<'_> {
    fn record(&self, n: u64) -> Result<Record> {
        let rows = self.query(&self.sql.body, &[&(n as i64)])?;
        rows.first().map_or_else(|| self.sealed_record(n), |row| Record::decode(n, row.get(0)))
    }

    fn records(&self, numbers: &[u64]) -> Result<Vec<Record>> {
        if numbers.is_empty() {
            return Ok(Vec::new());
        }
        let wanted: Vec<i64> = numbers.iter().map(|n| *n as i64).collect();
        let rows = self.query(&self.sql.bodies, &[&wanted])?;
        let bodies: HashMap<i64, &[u8]> = rows.iter().map(|row| (row.get(0), row.get(1))).collect();
        let read = |n: &i64| match bodies.get(n) {
            Some(body) => Record::decode(*n as u64, body),
            None => self.sealed_record(*n as u64),
        };
        wanted.iter().map(read).collect()
    }

    fn segment_of(&self, n: u64) -> Result<Option<Digest>> {
        Ok(self.sealed_in(n)?.map(|range| range.segment))
    }
}

impl Drop for Snapshot<'_> {
    fn drop(&mut self) {
        let Some(client) = self.client.take().filter(|_| self.begun.get()) else { return };
        // Nobody waits for the end of a transaction that changed nothing; the pool has the connection back after it.
        self.connections.spawn(async move {
            if client.batch_execute("COMMIT").await.is_err() {
                drop(Client::take(client));
            }
        });
    }
}

//! The engine for teams: records and index rows in a schema of a PostgreSQL database, any number of nodes on it.
//!
//! The records are those of the embedded engine, byte for byte, and the same function folds them; index rows are written
//! in the transaction that writes the records, so readers never wait for them. All that is truth is `bytea`.

mod address;
mod care;
mod connect;
mod fault;
mod jobs;
mod rebuild;
mod register;
mod room;
mod rows;
mod schema;
mod seal;
mod segment_sql;
mod snapshot;
mod sql;
mod stage;
mod sweep;
mod writer;

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use enjamb_core::chain::Stop;
use enjamb_core::lexicon::Postings;
use enjamb_core::order::{MarkKey, Scope};
use enjamb_core::{ArtifactId, CommitId, Digest, StreamId, Timestamp};

use crate::batch::{Appended, Batch};
use crate::error::LedgerError;
use crate::group::Group;
use crate::index::{Index, Lookup, Place, StreamOrder, Totals};
use crate::look::{self, ByNumber, Look, Looked, answers, told};
use crate::objects::ObjectsAddress;
use crate::record::{FrameRecord, Record};
use crate::segments::Segments;
use crate::{
    ArtifactSummary, Ledger, Link, Part, PartSink, Present, Result, Sink, Span, StoredCommit, StoredFrame,
    StreamSummary, Walk, clip,
};
use address::Address;
pub use address::{is_database, namespace_address, shown_address};
pub use care::ServerSettings;
use connect::Connections;
use fault::{Fault, TRIES_MAX, pause};
pub(crate) use jobs::Held;
use snapshot::Snapshot;
use sql::Sql;
use writer::Writer;

/// How long a writer tries to find out what became of a write whose connection was lost.
const RESOLVE_WAIT: Duration = Duration::from_secs(30);
/// Bytes of deltas that are read at once.
const PARTS_BYTES: u64 = 4 << 20;

/// How a store in a database is opened.
#[derive(Clone, Debug)]
pub struct PostgresOptions {
    /// What is of this machine alone; segments as well, unless the store has a place that all nodes share.
    pub dir: PathBuf,
    /// Where segments live. It is noted in the database: who names none finds it there.
    pub objects: Option<ObjectsAddress>,
    /// A node that says nothing for so long loses its turn at a background job.
    pub job_silence: Duration,
}

impl PostgresOptions {
    pub fn at(dir: &Path) -> Self {
        Self { dir: dir.to_owned(), objects: None, job_silence: jobs::JOB_SILENCE }
    }
}

/// A store in a schema of a database.
pub struct PostgresLedger {
    dir: PathBuf,
    address: Address,
    connections: Arc<Connections>,
    writing: OnceLock<Connections>,
    sql: Arc<Sql>,
    segments: Arc<Segments>,
    group: Group,
    writer: Mutex<Writer>,
    job_silence: Duration,
    /// The id given to the store when it was made.
    store_id: String,
}

impl PostgresLedger {
    /// Opens the store at an address.
    pub fn open(address: &str, options: &PostgresOptions) -> Result<Self> {
        let ledger = Self::connect(Address::parse(address)?, options)?;
        let found = ledger.alone(async |client| schema::find(client, &ledger.address.schema).await)?;
        match found {
            None => Err(LedgerError::NoStore(ledger.address.shown.clone().into())),
            Some(found) if found.is_current() => ledger.bound(&found),
            Some(_) => ledger.brought_up(None),
        }
    }

    /// Makes a store at an address. Opens it if there is one already.
    pub fn create(address: &str, options: &PostgresOptions, store_id: &str) -> Result<Self> {
        Self::connect(Address::parse(address)?, options)?.brought_up(Some(store_id))
    }

    fn connect(mut address: Address, options: &PostgresOptions) -> Result<Self> {
        address.objects = options.objects.clone().or(address.objects);
        Ok(Self {
            connections: Arc::new(Connections::new(&address)?),
            writing: OnceLock::new(),
            sql: Arc::new(Sql::new(&address.schema)),
            segments: Arc::new(Segments::open(&options.dir)?),
            dir: options.dir.clone(),
            group: Group::default(),
            writer: Mutex::default(),
            job_silence: options.job_silence,
            store_id: String::new(),
            address,
        })
    }

    fn brought_up(self, store_id: Option<&str>) -> Result<Self> {
        let Address { schema, shown, .. } = &self.address;
        self.alone(async |client| schema::bring_up(client, schema, shown, store_id).await)?;
        let found = self.alone(async |client| schema::find(client, schema).await)?;
        let found = found.ok_or_else(|| LedgerError::NoStore(shown.clone().into()))?;
        let ledger = self.bound(&found)?;
        if !found.is_current() {
            ledger.rebuild_index()?;
        }
        Ok(ledger)
    }

    /// Does something on a connection that nobody else gets afterwards.
    fn alone<T>(&self, work: impl AsyncFnOnce(&tokio_postgres::Client) -> std::result::Result<T, Fault>) -> Result<T> {
        let done = self.connections.block_on(async {
            let client = self.connections.client().await?;
            work(&deadpool_postgres::Client::take(client)).await
        });
        done.map_err(Fault::into_error)
    }

    /// The address, without a password.
    pub fn shown(&self) -> &str {
        &self.address.shown
    }

    pub fn segments(&self) -> &Segments {
        &self.segments
    }

    /// The id given to the store when it was made. Known since it was opened, so that nobody waits for the answer.
    pub fn store_id(&self) -> Result<String> {
        Ok(self.store_id.clone())
    }

    /// Asks something of the store as of one moment. A connection that was lost is made anew, and the question asked
    /// again: asking changes nothing.
    fn ask<T>(&self, question: impl Fn(&Snapshot<'_>) -> Result<T>) -> Result<T> {
        let mut tried = 0;
        loop {
            tried += 1;
            let answer = match Snapshot::take(&self.connections, &self.sql, &self.segments) {
                Ok(snapshot) => question(&snapshot),
                Err(Fault::Final(error)) => return Err(error),
                Err(Fault::Lost(error) | Fault::Conflict(error)) => Err(error),
            };
            match answer {
                Err(LedgerError::Unreachable { .. }) if tried < TRIES_MAX => {
                    self.connections.forget();
                    std::thread::sleep(pause(tried));
                }
                answer => {
                    self.make_room();
                    return answer;
                }
            }
        }
    }

    fn look<T>(&self, question: impl Fn(&Look<'_>) -> Looked<T>) -> Result<T> {
        self.ask(|snapshot| question(&Look { index: Index(snapshot), records: snapshot }).map_err(told))
    }

    /// As `look`, for questions that are one look-up, or several of which the first finds what never changes.
    fn glance<T>(&self, question: impl Fn(&Look<'_>) -> Looked<T>) -> Result<T> {
        self.ask(|snapshot| {
            snapshot.glance();
            question(&Look { index: Index(snapshot), records: snapshot }).map_err(told)
        })
    }

    /// As `look`, for questions that follow a chain of commits.
    fn climb<T>(&self, question: impl Fn(&Look<'_>) -> Looked<T>) -> Result<T> {
        self.ask(|snapshot| {
            snapshot.climb();
            question(&Look { index: Index(snapshot), records: snapshot }).map_err(told)
        })
    }

    /// The records of parts that are in the log, in one exchange; `None` for those that have to be looked up.
    fn part_bytes(&self, parts: &[Part]) -> Result<Vec<Option<Vec<u8>>>> {
        let numbers: Vec<u64> = parts.iter().map(|part| part.place).filter(|n| *n > 0).collect();
        let mut records = self.ask(|snapshot| snapshot.records(&numbers))?.into_iter();
        let bytes = |part: &Part| match records.next() {
            Some(Record::Bytes { id, bytes }) if Some(id) == part.artifact => Some(bytes),
            _ => None,
        };
        let mut bytes = bytes;
        Ok(parts.iter().map(|part| if part.place > 0 { bytes(part) } else { None }).collect())
    }
}

/// An artifact's bytes, or where they are.
enum Kept {
    Bytes(Vec<u8>),
    Segment(Digest),
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Ledger for PostgresLedger {
    fn append(&self, batch: Batch) -> Result<Appended> {
        self.admit(&batch)?;
        self.group.run(batch, |party| self.write_group(party))
    }

    fn append_all(&self, batches: Vec<Batch>) -> Vec<Result<Appended>> {
        self.group.run_admitted(batches, |batch| self.admit(batch), |party| self.write_group(party))
    }

    answers!(few: glance, any: look, deep: climb);

    fn read(&self, id: &ArtifactId, range: Option<Range<u64>>, sink: &mut Sink<'_>) -> Result<()> {
        let found = self.look(|look| {
            let Some(row) = look.index.artifact(id)? else { return Ok(None) };
            let kept = match row.place {
                Place::Record => Kept::Bytes(look.inline_bytes(id, &row)?),
                Place::Segment => Kept::Segment(look.segment_of(id, &row)?),
            };
            Ok(Some((row.len, kept)))
        })?;
        let (len, kept) = found.ok_or(LedgerError::NoArtifact(*id))?;
        let range = clip(id, len, range)?;
        match kept {
            Kept::Bytes(bytes) => sink(&bytes[range.start as usize..range.end as usize]).map_err(LedgerError::Output),
            Kept::Segment(segment) => self.segments.artifact(&segment, id, range, sink),
        }
    }

    fn read_parts(&self, parts: &[Part], sink: &mut PartSink<'_>) -> Result<()> {
        let mut first = 0;
        while first < parts.len() {
            let mut bytes = 0;
            let fits = |part: &&Part| {
                bytes += part.len;
                bytes <= PARTS_BYTES
            };
            let some = &parts[first..];
            let some = &some[..some.iter().take_while(fits).count().max(1)];
            for ((at, part), bytes) in (first..).zip(some).zip(self.part_bytes(some)?) {
                match bytes {
                    Some(bytes) => sink(at, &bytes).map_err(LedgerError::Output)?,
                    // In a segment of its own, dropped, or damaged: a proper look-up says which.
                    None => self.read(&part.named()?, None, &mut |bytes| sink(at, bytes))?,
                }
            }
            first += some.len();
        }
        Ok(())
    }

    fn each_frame(&self, from: u64, visit: &mut dyn FnMut(u64, &FrameRecord) -> Result<bool>) -> Result<()> {
        self.each_record(from.max(1), &mut |n, record| match record {
            Record::Frame(frame) => visit(n, frame),
            Record::Bytes { .. } | Record::Segment(_) | Record::Dropped { .. } => Ok(true),
        })
    }

    fn position(&self) -> Result<u64> {
        self.ask(|snapshot| {
            snapshot.glance();
            snapshot.position()
        })
    }
}

impl PostgresLedger {
    /// Records from `from` on, in order, until `visit` says to stop. No connection is held while it is asked.
    fn each_record(&self, from: u64, visit: &mut dyn FnMut(u64, &Record) -> Result<bool>) -> Result<()> {
        let last = self.position()?;
        let mut next = from;
        while next <= last {
            let page = self.ask(|snapshot| snapshot.page(next, last))?;
            for (n, record) in &page {
                if !visit(*n, record)? {
                    return Ok(());
                }
            }
            next += page.len() as u64;
        }
        Ok(())
    }

    /// What is of this machine alone.
    pub fn dir(&self) -> &Path {
        &self.dir
    }
}

//! The one place where records enter the log: one transaction for all who wait.
//!
//! A transaction begins by locking the one row of `head`, so in a schema one writes at a time, on whichever node: record
//! numbers and seqs have no gaps in the order in which they become visible, the rules of `core::order` (which look across
//! streams) are asked about what is there for good, and the rows that all streams share (totals, numbers of streams) are
//! folded without a conflict. What a lock per stream would allow to happen at once is won by groups instead: whoever
//! waits for the lock is joined by all of its node.
//!
//! An exchange with the server costs more than deciding, so there are two in the usual case: lock the head and read the
//! rows that are missing here; write everything and commit. Each transaction leaves its own random id in `batches`. When
//! the connection is lost after COMMIT was sent, whether the id is there tells what became of it: the lock, which was
//! granted to the lost transaction, is granted again only after it ended.

use std::collections::HashSet;
use std::time::Instant;

use deadpool_postgres::Client;
use futures_util::future::join;
use tokio_postgres::Row;
use uuid::Uuid;

use super::PostgresLedger;
use super::connect::Connections;
use super::fault::{Fault, TRIES_MAX, is_definite, pause};
use super::jobs::ended_turns;
use super::rows::{seal, unseal};
use super::snapshot::no_head;
use super::sql::Sql;
use super::stage::{Known, Plans, Refused, Staged, Unfolded, fold_all, plan_all};
use crate::batch::{Appended, Batch};
use crate::error::{LedgerError, Outcome};
use crate::group::Party;
use crate::index::{Changes, unreadable};
use crate::job::Fence;

/// Rounds of fetching rows that a decision turned out to need. Each goes one look-up deeper; none goes this deep.
const ROUNDS_MAX: usize = 64;
/// Others who wrote are expected to write again for so many groups. What a group costs that was prepared for being alone
/// and is not: it is folded twice, and the rows that it leaned on are fetched when the log is locked already.
const GROUPS_WITH_RIVALS: u8 = 16;
/// Groups after which the ids of old ones are forgotten.
const GROUPS_PER_FORGETTING: u64 = 10_000;

type Answers = Vec<Result<Appended, LedgerError>>;

/// Where the log stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct At {
    pub(super) n: u64,
    /// Another one whenever something but an append changed rows, or an older copy of the database was accepted.
    pub(super) epoch: i64,
}

/// What a writer remembers from one group to the next.
#[derive(Default)]
pub(super) struct Writer {
    known: Known,
    /// Where the log stood when `known` was right.
    at: At,
    /// For so many groups more, others are likely to write in between.
    rivalry: u8,
    /// Folding the last group took rows that planning it had not asked for, and so, likely, will the next.
    folds_deep: bool,
    groups: u64,
}

/// How a try to write ended that did not succeed.
enum Failed {
    /// Nothing was stored.
    Before(Fault),
    /// The connection was lost after COMMIT was sent.
    Unknown { id: Uuid, staged: Box<Staged>, at: At, cause: LedgerError },
}

impl From<Fault> for Failed {
    fn from(fault: Fault) -> Self {
        Self::Before(fault)
    }
}

impl PostgresLedger {
    /// The connections of whoever writes. Many processes never do.
    fn writing(&self) -> Result<&Connections, LedgerError> {
        if self.writing.get().is_none() {
            // One writes at a time, so nobody else has made it meanwhile.
            let _ = self.writing.set(Connections::for_one(&self.address)?);
        }
        Ok(self.writing.get().expect("it was made just above"))
    }

    /// Writes for all who wait, and answers them.
    pub(super) fn write_group(&self, party: &mut Party<'_>) {
        let mut batches = Vec::new();
        while let Some(ticket) = party.next() {
            batches.extend(ticket.take_batch());
        }
        let mut writer = super::lock(&self.writer);
        match self.writing().and_then(|connections| writer.write(connections, &self.sql, &batches)) {
            Ok(answers) => {
                for (ticket, answer) in party.tickets().iter().zip(answers) {
                    ticket.answer(answer);
                }
            }
            Err(error) => party.tickets().iter().for_each(|ticket| ticket.answer(Err(copy_of(&error)))),
        }
    }
}

impl Writer {
    /// Tries until it is known what became of the batches, or until it has been too long.
    fn write(&mut self, connections: &Connections, sql: &Sql, batches: &[Batch]) -> Result<Answers, LedgerError> {
        let mut tried = 0;
        loop {
            tried += 1;
            let fault = match connections.block_on(self.attempt(connections, sql, batches)) {
                Ok(answers) => return Ok(answers),
                Err(Failed::Before(fault)) => fault,
                Err(Failed::Unknown { id, staged, at, cause }) => {
                    if resolve(connections, sql, id, cause)? {
                        return Ok(self.take_over(*staged, at));
                    }
                    Fault::Conflict(LedgerError::Database {
                        doing: "writing",
                        detail: "the connection was lost again and again".into(),
                        outcome: Outcome::None,
                    })
                }
            };
            // What is known was meant for a transaction that did not come to be.
            self.known.clear();
            match fault {
                Fault::Final(error) => return Err(error),
                Fault::Lost(error) | Fault::Conflict(error) if tried >= TRIES_MAX => return Err(error),
                Fault::Lost(_) => connections.forget(),
                Fault::Conflict(_) => {}
            }
            std::thread::sleep(pause(tried));
        }
    }

    async fn attempt(&mut self, connections: &Connections, sql: &Sql, batches: &[Batch]) -> Result<Answers, Failed> {
        let client = connections.client().await?;
        let answers = self.attempt_on(&client, sql, batches).await;
        if answers.is_err() {
            Connections::close(client).await;
        }
        answers
    }

    async fn attempt_on(&mut self, client: &Client, sql: &Sql, batches: &[Batch]) -> Result<Answers, Failed> {
        let fences: HashSet<_> = batches.iter().filter_map(|batch| batch.fence).collect();
        // Staged with what is known from before, to find out which rows to ask for together with the lock.
        let plans = plan_all(batches, &Refused::default(), &self.known);
        // With rivals, records get other numbers than they would get now: folding them is of use only to know the rows.
        let (is_folded, planned_len) = (self.folds_deep || self.rivalry == 0, self.known.asked_len());
        let (guess, guessed_at) = (is_folded.then(|| fold_all(&plans, self.at.n, &self.known)), self.at);
        self.folds_deep = is_folded && self.known.asked_len() > planned_len;
        let wanted = if self.rivalry > 0 { self.known.take_asked() } else { self.known.take_missed() };
        let is_informed = wanted.is_empty();
        let at = self.begin(client, sql, wanted).await?;
        let staged = match guess {
            Some(Ok(changes)) if is_informed && at == guessed_at && fences.is_empty() => {
                plans.into_staged(at.n, changes)
            }
            _ => {
                let ended = ended_turns(client, sql, &fences).await?;
                let plans = Some(plans).filter(|plans| fences.is_empty() && plans.stand(&self.known));
                self.stage(client, sql, batches, plans, ended).await?
            }
        };
        if staged.records.is_empty() {
            let ended = client.batch_execute("ROLLBACK").await;
            ended.map_err(|error| Fault::of("ending a write", &error))?;
            return Ok(staged.answers);
        }
        let id = Uuid::new_v4();
        match commit(client, sql, id, &staged).await {
            Ok(()) => {}
            Err(error) if is_definite(&error) => return Err(Fault::of("writing", &error).into()),
            Err(error) => {
                let cause = Fault::of("committing", &error).into_error();
                return Err(Failed::Unknown { id, staged: Box::new(staged), at, cause });
            }
        }
        self.forget_batches(client, sql).await;
        Ok(self.take_over(staged, at))
    }

    /// Locks the head and learns the rows that are wanted, in one exchange.
    async fn begin(&mut self, client: &Client, sql: &Sql, wanted: Vec<Vec<u8>>) -> Result<At, Fault> {
        let known = |error: tokio_postgres::Error| Fault::of("beginning a write", &error);
        let lock = client.prepare_cached(&sql.lock).await.map_err(known)?;
        let get_many = client.prepare_cached(&sql.get_many).await.map_err(known)?;
        // Each statement sees what was committed before it began, so the rows are those at the time of the lock.
        let begun = client.batch_execute("BEGIN ISOLATION LEVEL READ COMMITTED");
        let rows = async {
            match wanted.is_empty() {
                true => Ok(Vec::new()),
                false => client.query(&get_many, &[&wanted]).await,
            }
        };
        let (begun, (locked, rows)) = join(begun, join(client.query(&lock, &[]), rows)).await;
        begun.map_err(known)?;
        let locked = locked.map_err(known)?;
        let row = locked.first().ok_or_else(no_head)?;
        let at = At { n: row.get::<_, i64>(0) as u64, epoch: row.get(1) };
        self.check_progress(at)?;
        if at == self.at {
            self.rivalry = self.rivalry.saturating_sub(1);
        } else {
            // Who writes for the first time knows nothing of others.
            self.rivalry = if self.groups > 0 { GROUPS_WITH_RIVALS } else { 0 };
            self.known.clear();
        }
        self.learn(wanted, &rows.map_err(known)?)?;
        self.at = at;
        Ok(at)
    }

    /// A log that is shorter than it was is another one: an older copy, or one that a failover cut short.
    fn check_progress(&self, at: At) -> Result<(), Fault> {
        if at.epoch != self.at.epoch || at.n >= self.at.n {
            return Ok(());
        }
        let detail = format!(
            "it ends at record {}, but {} were acknowledged: it is an older copy, or a failover lost what came last",
            at.n, self.at.n
        );
        Err(LedgerError::corrupt("the database", detail).into())
    }

    fn learn(&mut self, asked: Vec<Vec<u8>>, rows: &[Row]) -> Result<(), Fault> {
        for key in asked {
            self.known.learn(key, None);
        }
        for row in rows {
            let (key, value): (&[u8], &[u8]) = (row.get(0), row.get(1));
            let payload = unseal(key, value).map_err(unreadable)?.to_vec();
            self.known.learn(key.to_vec(), Some(payload));
        }
        Ok(())
    }

    /// Decides what the batches become, with every row that the decision needs. Plans that still hold are taken over.
    async fn stage(
        &mut self,
        client: &Client,
        sql: &Sql,
        batches: &[Batch],
        mut plans: Option<Plans>,
        ended: HashSet<Fence>,
    ) -> Result<Staged, Fault> {
        let mut refused = Refused { ended, ..Refused::default() };
        for _ in 0..ROUNDS_MAX + batches.len() {
            let planned = plans.take().unwrap_or_else(|| plan_all(batches, &refused, &self.known));
            let folded = fold_all(&planned, self.at.n, &self.known);
            let missed = self.known.take_missed();
            if !missed.is_empty() {
                self.folds_deep = true;
                self.fetch(client, sql, missed).await?;
                plans = Some(planned).filter(|planned| planned.stand(&self.known));
                continue;
            }
            match folded {
                Ok(changes) => return Ok(planned.into_staged(self.at.n, changes)),
                Err(Unfolded::TooLarge { at, size }) => drop(refused.too_large.insert(at, size)),
                Err(Unfolded::Unreadable(error)) => return Err(error.into()),
            }
        }
        Err(LedgerError::corrupt("the index", "what a frame needs to know leads from row to row without an end").into())
    }

    async fn fetch(&mut self, client: &Client, sql: &Sql, missed: Vec<Vec<u8>>) -> Result<(), Fault> {
        let known = |error: tokio_postgres::Error| Fault::of("reading rows for a write", &error);
        let get_many = client.prepare_cached(&sql.get_many).await.map_err(known)?;
        let rows = client.query(&get_many, &[&missed]).await.map_err(known)?;
        self.learn(missed, &rows)
    }

    fn take_over(&mut self, staged: Staged, before: At) -> Answers {
        self.known.absorb(staged.changes);
        self.at = At { n: staged.last_n, epoch: before.epoch };
        staged.answers
    }

    /// Ids of old groups are of no use to anyone. Not part of a write: if it fails, the next one does it.
    async fn forget_batches(&mut self, client: &Client, sql: &Sql) {
        if self.groups.is_multiple_of(GROUPS_PER_FORGETTING) {
            let _ = client.execute(&sql.forget_batches, &[]).await;
        }
        self.groups += 1;
    }
}

/// Writes what was staged and commits, in one exchange.
async fn commit(client: &Client, sql: &Sql, id: Uuid, staged: &Staged) -> Result<(), tokio_postgres::Error> {
    let numbers: Vec<i64> = staged.records.iter().map(|(n, _)| *n as i64).collect();
    let bodies: Vec<Vec<u8>> = staged.records.iter().map(|(n, record)| record.encode(*n)).collect();
    let Rows { keys, values, gone } = Rows::of(&staged.changes);
    let last = staged.last_n as i64;
    let id: &[u8] = id.as_bytes();
    let (add, delete) = (client.prepare_cached(&sql.add_group).await?, client.prepare_cached(&sql.delete_rows).await?);
    let add = async { client.execute(&add, &[&numbers, &bodies, &keys, &values, &id, &last]).await };
    let delete = async {
        match gone.is_empty() {
            true => Ok(0),
            false => client.execute(&delete, &[&gone]).await,
        }
    };
    // After a statement that failed, COMMIT is as good as ROLLBACK, and says that all went well.
    let ((added, deleted), committed) = join(join(add, delete), client.batch_execute("COMMIT")).await;
    added?;
    deleted?;
    committed
}

/// Changes of rows as statements take them.
#[derive(Default)]
pub(super) struct Rows {
    pub(super) keys: Vec<Vec<u8>>,
    pub(super) values: Vec<Vec<u8>>,
    pub(super) gone: Vec<Vec<u8>>,
}

impl Rows {
    pub(super) fn of(changes: &Changes) -> Self {
        let mut rows = Self::default();
        for (key, change) in changes {
            match change {
                Some(payload) => {
                    rows.values.push(seal(key, payload.clone()));
                    rows.keys.push(key.clone());
                }
                None => rows.gone.push(key.clone()),
            }
        }
        rows
    }
}

/// Finds out whether a group was stored. It takes the lock, which it gets only when the lost transaction has ended.
fn resolve(connections: &Connections, sql: &Sql, id: Uuid, cause: LedgerError) -> Result<bool, LedgerError> {
    let began = Instant::now();
    let mut tried = 0;
    connections.forget();
    loop {
        tried += 1;
        match connections.block_on(find_batch(connections, sql, id)) {
            Ok(found) => return Ok(found),
            Err(Fault::Final(_)) => return Err(cause.indeterminate()),
            Err(_) if began.elapsed() > super::RESOLVE_WAIT => return Err(cause.indeterminate()),
            Err(_) => std::thread::sleep(pause(tried)),
        }
        connections.forget();
    }
}

async fn find_batch(connections: &Connections, sql: &Sql, id: Uuid) -> Result<bool, Fault> {
    let client = connections.client().await?;
    let found = find_batch_on(&client, sql, id).await;
    Connections::close(client).await;
    found
}

async fn find_batch_on(client: &Client, sql: &Sql, id: Uuid) -> Result<bool, Fault> {
    let known = |error: tokio_postgres::Error| Fault::of("finding out what became of a write", &error);
    client.batch_execute("BEGIN ISOLATION LEVEL READ COMMITTED").await.map_err(known)?;
    client.query(&sql.lock, &[]).await.map_err(known)?;
    let id: &[u8] = id.as_bytes();
    let found = client.query(&sql.find_batch, &[&id]).await.map_err(known)?;
    Ok(!found.is_empty())
}

/// The same news for another caller. Sources cannot be cloned; the words can.
fn copy_of(error: &LedgerError) -> LedgerError {
    match error {
        LedgerError::Full { doing } => LedgerError::Full { doing },
        LedgerError::Busy { doing, waited_s } => LedgerError::Busy { doing, waited_s: *waited_s },
        LedgerError::Corrupt { what, detail } => LedgerError::corrupt(what.clone(), detail.clone()),
        LedgerError::Unreachable { server, detail } => {
            LedgerError::Unreachable { server: server.clone(), detail: detail.clone() }
        }
        LedgerError::JobLost { job } => LedgerError::JobLost { job: *job },
        LedgerError::Denied { path, detail } => LedgerError::Denied { path: path.clone(), detail: detail.clone() },
        LedgerError::Database { doing, detail, outcome } => {
            LedgerError::Database { doing, detail: detail.clone(), outcome: *outcome }
        }
        other => LedgerError::Database { doing: "writing", detail: other.to_string(), outcome: other.outcome() },
    }
}

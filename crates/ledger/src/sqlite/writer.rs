//! The one place where records enter the log.

use std::path::Path;

use rusqlite::Connection;

use super::log::{self, Log};
use super::{Records, catch_up};
use crate::batch::Appended;
use crate::error::LedgerError;
use crate::group::Party;
use crate::index::{Index, Rows, Stored, unreadable};
use crate::plan::{Layered, Recent, plan};
use crate::record::Record;
use crate::segments::Segments;

/// Facts held in memory before the index is made to take them over.
const RECENT_FACTS_MAX: usize = 100_000;
/// Commits of one process before it is worth growing the write-ahead log ahead of use.
const COMMITS_BEFORE_GROWING: u64 = 8;
/// Records of other processes that are read one by one; beyond that the index is brought up instead.
const FOREIGN_RECORDS_MAX: u64 = 2_000;

pub(super) struct Writer {
    log: Connection,
    index: Connection,
    /// All records up to this one are in the index or in `recent`.
    known_n: u64,
    data_version: i64,
    recent: Recent,
    commits: u64,
    /// After a failure `recent` holds what did not come to be.
    misled: bool,
    room: Room,
}

/// Memory that is used again for each group. The writers of a group take turns in leading it, and a thread that needs
/// memory for the first time waits for the kernel to clear it.
#[derive(Default)]
struct Room {
    batch: Recent,
    body: Vec<u8>,
    /// Of the records of the last group.
    written: u64,
}

/// What a group of batches came to, before anyone is told.
struct Staged {
    answers: Vec<Result<Appended, LedgerError>>,
    last_n: u64,
}

impl Writer {
    pub(super) fn open(dir: &Path, vfs: Option<&str>, segments: &Segments) -> Result<Self, LedgerError> {
        let log = log::open(&dir.join("log.db"), vfs)?;
        let mut index = catch_up::open(&dir.join("index.db"), vfs)?;
        let known_n = catch_up::run(&mut index, Records { log: Log(&log), segments })?;
        let (recent, room) = (Recent::default(), Room::default());
        Ok(Self { log, index, known_n, data_version: -1, recent, commits: 0, misled: false, room })
    }

    /// Bytes of the records that the last group became.
    pub(super) fn written_bytes(&self) -> u64 {
        self.room.written
    }

    pub(super) fn known_n(&self) -> u64 {
        self.known_n
    }

    /// Writes all batches with one sync and puts the answers into the tickets.
    pub(super) fn write(&mut self, party: &mut Party<'_>, segments: &Segments) -> Result<(), LedgerError> {
        match self.commit(party, segments) {
            Ok(staged) => {
                self.known_n = staged.last_n;
                for (ticket, answer) in party.tickets().iter().zip(staged.answers) {
                    ticket.answer(answer);
                }
                self.unload(segments)
            }
            Err(failure) => {
                // The statement fails outside of a transaction, which is where we want to be.
                let _ = self.log.execute_batch("ROLLBACK");
                self.misled = true;
                for ticket in party.tickets() {
                    ticket.answer(Err(failure.copy()));
                }
                Err(failure.into_error())
            }
        }
    }

    fn commit(&mut self, party: &mut Party<'_>, segments: &Segments) -> Result<Staged, Failure> {
        let begin = |error: rusqlite::Error| Failure::before_commit(LedgerError::sqlite("beginning a write", &error));
        self.log.prepare_cached("BEGIN IMMEDIATE").and_then(|mut begin| begin.execute([])).map_err(begin)?;
        self.learn_from_others(segments).map_err(Failure::before_commit)?;
        self.grow_wal().map_err(Failure::before_commit)?;
        let staged = self.stage(party).map_err(Failure::before_commit)?;
        let end = if staged.last_n > self.known_n { "COMMIT" } else { "ROLLBACK" };
        let ended = self.log.prepare_cached(end).and_then(|mut end| end.execute([]));
        ended.map_err(|error| Failure::during_commit(&error))?;
        Ok(staged)
    }

    /// Plans and inserts each batch in turn. One that is refused leaves nothing behind; the others go on.
    fn stage(&mut self, party: &mut Party<'_>) -> Result<Staged, LedgerError> {
        // One look at the index for the whole group: locking it for each question would cost more than the answers.
        let Self { log, index, recent, room, .. } = self;
        room.written = 0;
        let look = index.unchecked_transaction().map_err(|error| unreadable(error.into()))?;
        let mut staged = Staged { answers: Vec::with_capacity(party.tickets().len()), last_n: self.known_n };
        let rows = Rows(&look);
        while let Some(ticket) = party.next() {
            let Some(batch) = ticket.take_batch() else { continue };
            let index = Index(&rows);
            let below = Stored(&index);
            let facts = Layered { newer: recent, older: &below };
            match plan(batch, &mut room.batch, &facts) {
                Ok(planned) => {
                    insert(log, &planned.records, &mut staged.last_n, room)?;
                    recent.absorb(&mut room.batch);
                    staged.answers.push(Ok(planned.answer));
                }
                Err(error) => {
                    room.batch.clear();
                    staged.answers.push(Err(error));
                }
            }
        }
        Ok(staged)
    }

    /// A process that writes a few times leaves the log as it is; one that goes on writing gets it grown, once.
    fn grow_wal(&mut self) -> Result<(), LedgerError> {
        self.commits += 1;
        match self.log.path() {
            Some(path) if self.commits == COMMITS_BEFORE_GROWING => log::grow_wal(Path::new(path)),
            _ => Ok(()),
        }
    }

    /// Takes in what other processes appended since. The log is locked for writing, so what is read now stays last.
    fn learn_from_others(&mut self, segments: &Segments) -> Result<(), LedgerError> {
        let version = data_version(&self.log)?;
        if version == self.data_version && !self.misled {
            return Ok(());
        }
        let records = Records { log: Log(&self.log), segments };
        let last = records.log.last()?;
        if last < self.known_n {
            return Err(catch_up::log_is_short(last, self.known_n));
        }
        let is_much = last - self.known_n > FOREIGN_RECORDS_MAX;
        // Sealed frames are without chain values: the index knows those.
        if self.misled || is_much || records.log.last_sealed()? > self.known_n {
            catch_up::run(&mut self.index, records)?;
            self.recent = Recent::default();
        } else {
            for n in self.known_n + 1..=last {
                self.recent.learn(&records.record(n)?)?;
            }
        }
        self.known_n = last;
        self.data_version = version;
        self.misled = false;
        Ok(())
    }

    /// Keeps memory bounded: once the index has everything, what is held here is not needed.
    fn unload(&mut self, segments: &Segments) -> Result<(), LedgerError> {
        if self.recent.len() < RECENT_FACTS_MAX {
            return Ok(());
        }
        catch_up::run(&mut self.index, Records { log: Log(&self.log), segments })?;
        self.recent = Recent::default();
        Ok(())
    }
}

fn insert(log: &Connection, records: &[Record], last_n: &mut u64, room: &mut Room) -> Result<(), LedgerError> {
    for record in records {
        *last_n += 1;
        record.encode_into(*last_n, &mut room.body);
        room.written += room.body.len() as u64;
        let inserted = Log(log).insert(*last_n, &room.body);
        inserted.map_err(|error| LedgerError::sqlite("writing a record", &error))?;
    }
    Ok(())
}

fn data_version(log: &Connection) -> Result<i64, LedgerError> {
    let version = log.prepare_cached("PRAGMA data_version").and_then(|mut ask| ask.query_row([], |row| row.get(0)));
    version.map_err(|error| LedgerError::sqlite("reading the log", &error))
}

/// A failure that concerns every batch of a group.
struct Failure {
    error: LedgerError,
}

impl Failure {
    fn before_commit(error: LedgerError) -> Self {
        Self { error }
    }

    /// A full disk is found out before anything is final; after any other failure nobody can say.
    fn during_commit(error: &rusqlite::Error) -> Self {
        Self { error: LedgerError::sqlite("committing", error).indeterminate() }
    }

    fn copy(&self) -> LedgerError {
        copy_of(&self.error)
    }

    fn into_error(self) -> LedgerError {
        self.error
    }
}

/// The same news for another caller. Sources cannot be cloned; the words can.
pub(super) fn copy_of(error: &LedgerError) -> LedgerError {
    match error {
        LedgerError::Full { doing } => LedgerError::Full { doing },
        LedgerError::Busy { doing, waited_s } => LedgerError::Busy { doing, waited_s: *waited_s },
        LedgerError::Corrupt { what, detail } => LedgerError::corrupt(what.clone(), detail.clone()),
        LedgerError::Poisoned => LedgerError::Poisoned,
        other => LedgerError::Disk { doing: "writing", detail: other.to_string(), outcome: other.outcome() },
    }
}

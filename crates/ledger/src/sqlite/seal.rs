//! Sealing: cold records move from the log into a segment, and nobody notices but the disk.
//!
//! The segment is synced and read back before the log forgets a row, and the switch is one transaction. A crash leaves a
//! segment that nothing names, which the next sweep removes.

use enjamb_core::ArtifactId;
use rusqlite::{Connection, TransactionBehavior, params};

use super::log::{self, Log};
use super::{Records, SqliteLedger};
use crate::error::LedgerError;
use crate::index::{Index, Lookup, Rows, unreadable};
use crate::record::Record;
use crate::repack::repack;
use crate::seal::{
    Cold, RANGE_BYTES_MAX, RANGE_BYTES_MIN, Range, Sealed, ToSeal, absorb, into_segment, known_chunks, lay_out,
};
use crate::segment::SegmentSummary;
use crate::segments::Lease;
use crate::{Progress, Result};

/// Rows of the log with those of its index.
struct Logged<'c> {
    records: Records<'c>,
    index: Index<'c>,
}

impl Cold for Logged<'_> {
    fn record(&self, n: u64) -> Result<Record> {
        self.records.record(n)
    }

    fn each(&self, first: u64, last: u64, visit: &mut dyn FnMut(u64, &Record) -> Result<bool>) -> Result<()> {
        self.records.each(first, last, visit)
    }

    fn is_found_in(&self, id: &ArtifactId, n: u64) -> Result<bool> {
        Ok(self.index.artifact(id).map_err(unreadable)?.is_some_and(|row| row.n == n))
    }
}

impl SqliteLedger {
    /// Moves all records that are worth it into segments. Small segments at the end are taken in and made anew.
    pub fn seal(&self, progress: &mut Progress<'_>) -> Result<Sealed> {
        let mut done = Sealed::default();
        let _alone = self.maintenance()?;
        while let Some((first, last)) = self.next_range()? {
            done.add(&self.seal_range(first, last, progress)?);
        }
        if done.segments > 0 {
            self.shrink()?;
        }
        Ok(done)
    }

    /// Moves all records into segments, worth it or not: what is to be upstream cannot stay in the log.
    pub(super) fn seal_all(&self, progress: &mut Progress<'_>) -> Result<()> {
        loop {
            let log = log::open(&self.dir.join("log.db"), self.vfs())?;
            let first_hot = Log(&log).last_sealed()? + 1;
            let (last, bytes) = measure(Log(&log), first_hot)?;
            if bytes == 0 {
                return Ok(());
            }
            let first = absorb(&Log(&log).sealed()?, first_hot, bytes);
            self.seal_range(first, last, progress)?;
        }
    }

    /// Excludes other maintenance for as long as the answer is held.
    pub(super) fn maintenance(&self) -> Result<Lease> {
        self.segments.maintenance()?.ok_or(LedgerError::Busy { doing: "waiting for other maintenance", waited_s: 0 })
    }

    fn next_range(&self) -> Result<Option<(u64, u64)>> {
        let log = log::open(&self.dir.join("log.db"), self.vfs())?;
        let log = Log(&log);
        let sealed = log.sealed()?;
        let first_hot = sealed.last().map_or(1, |range| range.last_n + 1);
        let (last, bytes) = measure(log, first_hot)?;
        if bytes < RANGE_BYTES_MIN {
            return Ok(None);
        }
        Ok(Some((absorb(&sealed, first_hot, bytes), last)))
    }

    /// Writes a range of records into a new segment, without what was dropped, and switches to it.
    pub(super) fn seal_range(&self, first: u64, last: u64, progress: &mut Progress<'_>) -> Result<Sealed> {
        let _lease = self.segments.lease()?;
        let mut log = log::open(&self.dir.join("log.db"), self.vfs())?;
        let index = self.caught_up_index(&log)?;
        let rows = Rows(&index);
        let records = Records { log: Log(&log), segments: &self.segments };
        // What counted on a segment that is replaced would keep it, with all that was dropped of it.
        let mut others = records.log.sealed()?;
        others.retain(|range| range.last_n < first || range.first_n > last);
        let known = known_chunks(&self.segments, &others)?;
        let cold = Logged { records, index: Index(&rows) };
        let layout = lay_out(&cold, Range { first, last })?;
        let moved = repack(&self.segments, &cold, &layout.naming(), progress)?;
        let to_seal = ToSeal { records: &cold, layout, moved };
        let summary = into_segment(&self.segments, &to_seal, known, progress)?;
        let sealed = Sealed::of(last - first + 1, &summary, &to_seal.moved);
        switch(&mut log, first, last, &summary)?;
        Ok(sealed)
    }

    fn caught_up_index(&self, log: &Connection) -> Result<Connection> {
        let mut index = super::catch_up::open(&self.dir.join("index.db"), self.vfs())?;
        super::catch_up::run(&mut index, Records { log: Log(log), segments: &self.segments })?;
        Ok(index)
    }

    /// Gives freed pages back to the file system.
    fn shrink(&self) -> Result<()> {
        let log = log::open(&self.dir.join("log.db"), self.vfs())?;
        let shrunk = log.execute_batch("VACUUM; PRAGMA wal_checkpoint(TRUNCATE);");
        shrunk.map_err(|error| LedgerError::sqlite("shrinking the log", &error))?;
        let index = self.caught_up_index(&log)?;
        let shrunk = index.execute_batch("VACUUM; PRAGMA wal_checkpoint(TRUNCATE);");
        shrunk.map_err(|error| LedgerError::sqlite("shrinking the index", &error))
    }
}

/// The last record of the next range, and the bytes from `first` to it.
fn measure(log: Log<'_>, first: u64) -> Result<(u64, u64)> {
    let (mut last, mut bytes) = (first, 0);
    log.bodies(first, u64::MAX >> 1, &mut |n, body| {
        last = n;
        bytes += body.len() as u64;
        Ok(bytes < RANGE_BYTES_MAX)
    })?;
    Ok((last, bytes))
}

/// From here on the segment is where these records are.
fn switch(log: &mut Connection, first: u64, last: u64, summary: &SegmentSummary) -> Result<()> {
    let known = |error: rusqlite::Error| LedgerError::sqlite("switching to a segment", &error);
    let transaction = log.transaction_with_behavior(TransactionBehavior::Immediate).map_err(known)?;
    let (first, last) = (first as i64, last as i64);
    transaction.execute("DELETE FROM sealed WHERE first_n >= ?1 AND last_n <= ?2", [first, last]).map_err(known)?;
    transaction
        .execute(
            "INSERT INTO sealed(first_n, last_n, segment, bytes) VALUES(?1, ?2, ?3, ?4)",
            params![first, last, summary.digest.as_bytes(), summary.bytes as i64],
        )
        .map_err(known)?;
    transaction.execute("DELETE FROM records WHERE n >= ?1 AND n <= ?2", [first, last]).map_err(known)?;
    transaction.commit().map_err(known)
}

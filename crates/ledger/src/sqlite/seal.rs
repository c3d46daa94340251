//! Sealing: cold records move from the log into a segment, and nobody notices but the disk.
//!
//! The segment is synced and read back before the log forgets a row, and the switch is one transaction. A crash leaves a
//! segment that nothing names, which the next sweep removes.

use std::collections::HashMap;

use enjamb_core::Digest;
use enjamb_core::frame::{Body, ContextBody, RawFrame};
use rusqlite::{Connection, TransactionBehavior, params};

use super::log::{self, Log, SealedRange};
use super::{Records, SqliteLedger};
use crate::error::LedgerError;
use crate::index::{Index, Lookup, Rows, unreadable};
use crate::record::Record;
use crate::segment::{Blocks, ChunkAt, SegmentOptions, SegmentSummary, SegmentWriter};
use crate::segments::Lease;
use crate::{Progress, Result};

/// Raw bytes of one sealed range: enough for repeats to be found, few enough to rewrite.
const RANGE_BYTES_MAX: u64 = 512 << 20;
/// Below this, what is in the log is left there: a segment of its own would cost more than it saves.
const RANGE_BYTES_MIN: u64 = 64 << 10;
/// Chunks of earlier segments that are kept in mind to find repeats.
const KNOWN_CHUNKS_MAX: usize = 400_000;

/// Long blocks and a high level: sealed bytes are read rarely and kept for ever. Only large chunks are listed, since
/// each costs 34 bytes and the window finds the small repeats.
const COLD: SegmentOptions = SegmentOptions { record_chunk_bytes_min: 48 << 10, ..SegmentOptions::COLD };

/// Frames are read one by one, and by whoever looks for a commit: their blocks are short.
const FRAME_BLOCK_BYTES: usize = 512 << 10;

/// What sealing did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sealed {
    pub records: u64,
    pub segments: u64,
    /// Bytes of the records as they were in the log.
    pub raw_bytes: u64,
    /// Bytes of the segments they are in now.
    pub stored_bytes: u64,
}

/// What is known of a record before it is laid out.
struct Item {
    n: u64,
    /// Items of one group lie together: frames of a stream, bytes of a chain.
    group: (u8, u64),
}

impl Item {
    fn is_frame(&self) -> bool {
        self.group.0 == 0
    }
}

impl SqliteLedger {
    /// Moves all records that are worth it into segments. Small segments at the end are taken in and made anew.
    pub fn seal(&self, progress: &mut Progress<'_>) -> Result<Sealed> {
        let mut done = Sealed::default();
        let _alone = self.maintenance()?;
        while let Some((first, last)) = self.next_range()? {
            let summary = self.seal_range(first, last, progress)?;
            done.records += last - first + 1;
            done.segments += 1;
            done.raw_bytes += summary.raw_bytes;
            done.stored_bytes += summary.bytes;
        }
        if done.segments > 0 {
            self.shrink()?;
        }
        Ok(done)
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
    pub(super) fn seal_range(&self, first: u64, last: u64, progress: &mut Progress<'_>) -> Result<SegmentSummary> {
        let _lease = self.segments.lease()?;
        let mut log = log::open(&self.dir.join("log.db"), self.vfs())?;
        let index = self.caught_up_index(&log)?;
        let records = Records { log: Log(&log), segments: &self.segments };
        let items = lay_out(records, first, last)?;
        let known = self.known_chunks(records)?;
        let mut new = self.segments.create()?;
        let written = write(&mut new, &items, records, Index(&Rows(&index)), known, progress);
        let summary = match written {
            Ok(summary) => summary,
            Err(error) => {
                self.segments.discard(new);
                return Err(error);
            }
        };
        self.segments.publish(new, &summary.digest)?;
        self.compare(records, Index(&Rows(&index)), &items, &summary.digest)?;
        switch(&mut log, first, last, &summary)?;
        Ok(summary)
    }

    fn caught_up_index(&self, log: &Connection) -> Result<Connection> {
        let mut index = super::catch_up::open(&self.dir.join("index.db"), self.vfs())?;
        super::catch_up::run(&mut index, Records { log: Log(log), segments: &self.segments })?;
        Ok(index)
    }

    /// Chunks of the latest segments, so that repeats are stored once. Missing some costs space, never data.
    fn known_chunks(&self, records: Records<'_>) -> Result<HashMap<Digest, ChunkAt>> {
        let mut known = HashMap::new();
        for range in records.log.sealed()?.iter().rev() {
            let segment = self.segments.segment(&range.segment)?;
            known.extend(segment.footer().own_chunks(range.segment));
            if known.len() > KNOWN_CHUNKS_MAX {
                break;
            }
        }
        Ok(known)
    }

    /// Reads the new segment back: the log forgets its rows only when the copy says the same.
    fn compare(&self, records: Records<'_>, index: Index<'_>, items: &[Item], segment: &Digest) -> Result<()> {
        let sealed = self.segments.segment(segment)?;
        let mut blocks = Blocks::new(&*self.segments);
        for item in items {
            let expected = body_to_seal(records, index, item.n)?;
            if sealed.record(item.n, &mut blocks)? != expected {
                return Err(LedgerError::corrupt(
                    format!("new segment {segment}"),
                    format!("record {} differs", item.n),
                ));
            }
        }
        Ok(())
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

/// Takes in small segments at the end, so that their number grows with the logarithm of what is stored.
fn absorb(sealed: &[SealedRange], first_hot: u64, hot_bytes: u64) -> u64 {
    let (mut first, mut bytes) = (first_hot, hot_bytes);
    for range in sealed.iter().rev() {
        // Stored bytes are compressed; as raw bytes they are some eight times as many.
        let raw = range.bytes * 8;
        if raw > bytes * 2 || raw + bytes > RANGE_BYTES_MAX {
            break;
        }
        first = range.first_n;
        bytes += raw;
    }
    first
}

/// Orders the records of a range: frames by stream, then bytes chain by chain, so that reading either reads forward.
fn lay_out(records: Records<'_>, first: u64, last: u64) -> Result<Vec<Item>> {
    let mut items = Vec::new();
    let mut streams = HashMap::new();
    let mut chains = Chains::default();
    let mut loose = Vec::new();
    records.each(first, last, &mut |n, record| {
        match record {
            Record::Frame(frame) => {
                let count = streams.len() as u64;
                let stream = *streams.entry(frame.stream.clone()).or_insert(count);
                let chain = chains.of(&frame.json).unwrap_or(u64::MAX - stream);
                items.extend(loose.drain(..).map(|n| Item { n, group: (1, chain) }));
                items.push(Item { n, group: (0, stream) });
            }
            Record::Bytes { .. } => loose.push(n),
            Record::Segment(_) | Record::Dropped { .. } => items.push(Item { n, group: (2, 0) }),
        }
        Ok(true)
    })?;
    items.extend(loose.drain(..).map(|n| Item { n, group: (3, 0) }));
    items.sort_by_key(|item| (item.group, item.n));
    Ok(items)
}

/// Which chain a commit belongs to: its parent's, or a new one.
#[derive(Default)]
struct Chains(HashMap<String, u64>);

impl Chains {
    fn of(&mut self, json: &[u8]) -> Option<u64> {
        let raw = RawFrame::parse(json).ok()?;
        if raw.type_name() != "context_committed" {
            return None;
        }
        let Body::Context(ContextBody::ContextCommitted(commit)) = raw.decode().ok()?.body else { return None };
        let fresh = self.0.len() as u64;
        let chain = commit.parent.as_ref().and_then(|parent| self.0.get(parent)).copied().unwrap_or(fresh);
        self.0.insert(commit.commit_id, chain);
        Some(chain)
    }
}

fn write(
    new: &mut crate::NewSegment,
    items: &[Item],
    records: Records<'_>,
    index: Index<'_>,
    known: HashMap<Digest, ChunkAt>,
    progress: &mut Progress<'_>,
) -> Result<SegmentSummary> {
    let mut writer = SegmentWriter::new(new.writer(), COLD, |digest: &Digest| known.get(digest).copied())?;
    let mut of_frames = true;
    for (done, item) in items.iter().enumerate() {
        if of_frames {
            of_frames = item.is_frame();
            writer.end_block_from(if of_frames { FRAME_BLOCK_BYTES } else { 0 })?;
        }
        writer.add_record(item.n, &body_to_seal(records, index, item.n)?)?;
        progress(done as u64 + 1, items.len() as u64);
    }
    let (_, summary, _) = writer.finish()?;
    Ok(summary)
}

/// The body a record has from now on: bytes of dropped artifacts do not travel.
fn body_to_seal(records: Records<'_>, index: Index<'_>, n: u64) -> Result<Vec<u8>> {
    let record = records.record(n)?;
    let (ids, len) = match &record {
        Record::Bytes { id, bytes } => (vec![*id], bytes.len() as u64),
        Record::Segment(segment) => (segment.artifacts.iter().map(|(id, _)| *id).collect(), segment.bytes),
        Record::Frame(_) | Record::Dropped { .. } => return Ok(record.seal(n)),
    };
    for id in ids {
        let row = index.artifact(&id).map_err(unreadable)?;
        if row.is_some_and(|row| row.n == n) {
            return Ok(record.seal(n));
        }
    }
    Ok(Record::Dropped { len }.seal(n))
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

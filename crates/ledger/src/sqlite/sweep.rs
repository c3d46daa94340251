//! Sweeping: files that nothing names, and bytes of artifacts that were dropped.

use std::collections::HashSet;

use enjamb_core::{ArtifactId, Digest};
use rusqlite::params;

use super::log::{self, Log};
use super::{Records, SqliteLedger};
use crate::error::LedgerError;
use crate::index::{Lookup, Place};
use crate::record::Record;
use crate::segments::SegmentFile;
use crate::{Ledger, Progress, Result};

impl SqliteLedger {
    /// Segment files that no record, sealed range or other live segment names.
    pub fn unnamed_files(&self) -> Result<Vec<SegmentFile>> {
        // Any failure to learn what is named ends the sweep: what is not known to be dead is alive.
        let files = self.segments.files()?;
        let live = self.live_segments()?;
        Ok(files.into_iter().filter(|file| file.digest.is_none_or(|digest| !live.contains(&digest))).collect())
    }

    /// Removes segment files that nothing names, and returns how many bytes that freed; `None` when it must wait,
    /// because someone is writing a segment that nothing names yet.
    pub fn sweep(&self) -> Result<Option<u64>> {
        let Some(_alone) = self.segments.no_leases()? else { return Ok(None) };
        let mut freed = 0;
        for file in self.unnamed_files()? {
            self.segments.remove(&file)?;
            freed += file.bytes;
        }
        if self.segments.upstream().is_some() {
            self.sweep_upstream(&self.live_segments()?)?;
        }
        Ok(Some(freed))
    }

    /// Every segment in use: named by a sealed range or a record, or holding chunks of one that is.
    pub fn live_segments(&self) -> Result<HashSet<Digest>> {
        let log = log::open(&self.dir.join("log.db"), self.vfs())?;
        let records = Records { log: Log(&log), segments: &self.segments };
        let of_ranges = records.log.sealed()?.into_iter().map(|range| range.segment);
        self.with_deps(of_ranges.chain(self.artifact_segments(records)?).collect())
    }

    /// Segments with those that hold chunks of them.
    pub(super) fn with_deps(&self, segments: HashSet<Digest>) -> Result<HashSet<Digest>> {
        let (mut all, mut waiting) = (HashSet::new(), Vec::from_iter(segments));
        while let Some(digest) = waiting.pop() {
            if all.insert(digest) {
                waiting.extend(&self.segments.segment(&digest)?.footer().tables().deps);
            }
        }
        Ok(all)
    }

    /// Segments that hold large artifacts which the index knows.
    fn artifact_segments(&self, records: Records<'_>) -> Result<Vec<Digest>> {
        let numbers = self.look(|look| Ok(look.index.segment_records()?))?;
        numbers
            .into_iter()
            .map(|n| match records.record(n)? {
                Record::Segment(segment) => Ok(segment.segment),
                _ => Err(LedgerError::corrupt(format!("record {n}"), "it names no segment")),
            })
            .collect()
    }

    /// Frees the bytes of artifacts that were dropped, given where they were before.
    pub fn erase(&self, dropped: &[ArtifactPlace], progress: &mut Progress<'_>) -> Result<()> {
        let _alone = self.maintenance()?;
        let mut hot = Vec::new();
        for place in dropped.iter().filter(|place| !place.sealed) {
            if !self.look(|look| look.is_wanted(place.n))? {
                hot.push(place);
            }
        }
        self.erase_rows(&hot)?;
        let mut ranges: Vec<_> = dropped.iter().filter(|place| place.sealed).map(|place| place.n).collect();
        ranges.sort_unstable();
        while let Some(n) = ranges.first().copied() {
            let log = log::open(&self.dir.join("log.db"), self.vfs())?;
            let Some(range) = Log(&log).sealed_range(n)? else { break };
            self.seal_range(range.first_n, range.last_n, progress)?;
            ranges.retain(|n| *n > range.last_n);
        }
        Ok(())
    }

    fn erase_rows(&self, places: &[&ArtifactPlace]) -> Result<()> {
        let known = |error: rusqlite::Error| LedgerError::sqlite("erasing dropped bytes", &error);
        let mut log = log::open(&self.dir.join("log.db"), self.vfs())?;
        let transaction = log.transaction().map_err(known)?;
        for place in places {
            let body = Record::Dropped { len: place.len }.encode(place.n);
            let sql = "UPDATE records SET body = ?2 WHERE n = ?1";
            transaction.execute(sql, params![place.n as i64, body]).map_err(known)?;
        }
        transaction.commit().map_err(known)
    }

    /// Where an artifact's bytes are, to free them once it is dropped.
    pub fn place(&self, id: &ArtifactId) -> Result<Option<ArtifactPlace>> {
        self.look(|look| {
            let Some(row) = look.index.artifact(id)? else { return Ok(None) };
            let sealed = look.records.segment_of(row.n)?.is_some();
            let large = row.place == Place::Segment;
            Ok(Some(ArtifactPlace { id: *id, n: row.n, len: row.len, sealed, large }))
        })
    }

    /// Which of these are here, asked at once: one by one takes many times as long.
    pub fn here(&self, ids: &[ArtifactId]) -> Result<HashSet<ArtifactId>> {
        self.look(|look| {
            let mut here = HashSet::new();
            for id in ids {
                if look.index.artifact(id)?.is_some() {
                    here.insert(*id);
                }
            }
            Ok(here)
        })
    }

    /// Every artifact with its place, in the order of ids.
    pub fn all_artifacts(&self) -> Result<Vec<ArtifactId>> {
        Ok(self.artifacts(&[0; 32], &[0xff; 32], usize::MAX)?.into_iter().map(|artifact| artifact.id).collect())
    }
}

/// Where an artifact's bytes are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArtifactPlace {
    pub id: ArtifactId,
    pub n: u64,
    pub len: u64,
    /// The record is in a segment, not in the log.
    pub sealed: bool,
    /// The bytes are in a segment of their own.
    pub large: bool,
}

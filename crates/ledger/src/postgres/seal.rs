//! Sealing: cold records move from rows into a segment in the object store, and nobody notices but the disk.
//!
//! The segment was put and read back before the range is noted, and rows go after that: whoever finds none asks for the
//! range. A crash leaves a segment that nothing names, or rows that are in a range as well; the next run takes both away.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufWriter, Write};

use enjamb_core::ArtifactId;
use tokio_postgres::Client as Connection;

use super::PostgresLedger;
use super::fault::Fault;
use super::jobs::{Held, ended_turns};
use super::rows::unseal;
use super::snapshot::sealed_range;
use crate::error::LedgerError;
use crate::index::{ArtifactRow, artifact_key, unreadable};
use crate::job::{Fence, JobKind};
use crate::record::Record;
use crate::repack::Moved;
use crate::seal::{
    Cold, RANGE_BYTES_MAX, RANGE_BYTES_MIN, Range, Sealed, ToSeal, absorb, into_segment, known_chunks, lay_out,
};
use crate::segment::ReadAt;
use crate::{ArtifactPlace, Progress, Result, SealedRange};

/// Artifacts that are asked about at once.
const ASKED_MAX: usize = 10_000;

/// The records of a range, copied to this machine.
struct Spool {
    file: File,
    first: u64,
    /// Where each body ends.
    ends: Vec<u64>,
    /// The record in which the index finds an artifact.
    found_in: HashMap<ArtifactId, u64>,
}

impl Cold for Spool {
    fn record(&self, n: u64) -> Result<Record> {
        let at = n.checked_sub(self.first).map(|at| at as usize).filter(|at| *at < self.ends.len());
        let at = at.ok_or_else(|| super::snapshot::missing(n))?;
        let start = if at == 0 { 0 } else { self.ends[at - 1] };
        let mut body = vec![0; (self.ends[at] - start) as usize];
        self.file.read_at(start, &mut body).map_err(|error| LedgerError::io("a spool", error))?;
        Record::unseal(n, &body)
    }

    fn each(&self, first: u64, last: u64, visit: &mut dyn FnMut(u64, &Record) -> Result<bool>) -> Result<()> {
        for n in first..=last {
            if !visit(n, &self.record(n)?)? {
                break;
            }
        }
        Ok(())
    }

    fn is_found_in(&self, id: &ArtifactId, n: u64) -> Result<bool> {
        Ok(self.found_in.get(id) == Some(&n))
    }
}

impl PostgresLedger {
    /// Moves all records that are worth it into segments. Small segments at the end are taken in and made anew.
    pub(crate) fn seal(&self, progress: &mut Progress<'_>) -> Result<Sealed> {
        if self.segments.upstream().is_none() {
            return Err(LedgerError::NotInDatabase {
                what: "moving records into segments",
                instead: "name a place that all nodes have, with --objects s3://bucket/prefix or a directory",
            });
        }
        let turn = self.hold(JobKind::Maintain)?;
        self.push_what_is_only_here()?;
        self.drop_sealed_rows()?;
        let mut done = Sealed::default();
        while let Some((first, last)) = self.next_range()? {
            done.add(&self.seal_range(&turn, first, last, progress)?);
        }
        Ok(done)
    }

    /// Bytes of records that could be sealed, up to what one segment takes; none if there is no place for segments.
    pub(crate) fn hot_bytes(&self) -> Result<u64> {
        match self.segments.upstream() {
            Some(_) => Ok(self.hot(&self.ask(|snapshot| snapshot.sealed())?)?.map_or(0, |(_, _, bytes)| bytes)),
            None => Ok(0),
        }
    }

    /// The first and the last of the records that are not sealed, as many as go together, and their bytes.
    fn hot(&self, sealed: &[SealedRange]) -> Result<Option<(u64, u64, u64)>> {
        let first = sealed.last().map_or(1, |range| range.last_n + 1);
        let most = RANGE_BYTES_MAX as i64;
        let rows = self.ask(|snapshot| snapshot.query(&self.sql.segments.hot_bytes, &[&(first as i64), &most]))?;
        let number = |at: usize| rows.first()?.get::<_, Option<i64>>(at).map(|number| number as u64);
        Ok(number(0).zip(number(1)).map(|(last, bytes)| (first, last, bytes)))
    }

    fn next_range(&self) -> Result<Option<(u64, u64)>> {
        let sealed = self.ask(|snapshot| snapshot.sealed())?;
        let hot = self.hot(&sealed)?.filter(|(_, _, bytes)| *bytes >= RANGE_BYTES_MIN);
        Ok(hot.map(|(first, last, bytes)| (absorb(&sealed, first, bytes), last)))
    }

    /// Writes a range of records into a new segment, without what was dropped, and switches to it.
    fn seal_range(&self, turn: &Held<'_>, first: u64, last: u64, progress: &mut Progress<'_>) -> Result<Sealed> {
        let sealed = self.ask(|snapshot| snapshot.sealed())?;
        let (replaced, others): (Vec<_>, Vec<_>) =
            sealed.into_iter().partition(|range| range.first_n <= last && range.last_n >= first);
        let known = known_chunks(&self.segments, &others)?;
        let spool = self.spool(first, last)?;
        // Artifacts stay in their segments: another node may be writing one that counts on what they hold.
        let layout = lay_out(&spool, Range { first, last })?;
        let to_seal = ToSeal { records: &spool, layout, moved: Moved::default() };
        let summary = into_segment(&self.segments, &to_seal, known, progress)?;
        let range = SealedRange { first_n: first, last_n: last, segment: summary.digest, bytes: summary.bytes };
        self.switch(turn, &range, &replaced)?;
        self.drop_sealed_rows()?;
        Ok(Sealed::of(last - first + 1, &summary, &to_seal.moved))
    }

    /// Copies a range of records here, so that they can be read in any order.
    fn spool(&self, first: u64, last: u64) -> Result<Spool> {
        let full = |error| LedgerError::io("a spool", error);
        let file = self.segments.scratch()?;
        let (mut ends, mut end, mut ids) = (Vec::new(), 0, Vec::new());
        let mut writer = BufWriter::new(&file);
        let mut next = first;
        while next <= last {
            let page = self.ask(|snapshot| snapshot.page(next, last))?;
            for (n, record) in &page {
                match record {
                    Record::Bytes { id, .. } => ids.push(*id),
                    Record::Segment(segment) => ids.extend(segment.artifacts.iter().map(|(id, _)| *id)),
                    Record::Frame(_) | Record::Dropped { .. } => {}
                }
                let body = record.seal(*n);
                writer.write_all(&body).map_err(full)?;
                end += body.len() as u64;
                ends.push(end);
            }
            next += page.len() as u64;
        }
        writer.flush().map_err(full)?;
        drop(writer);
        Ok(Spool { file, first, ends, found_in: self.found_in(&ids)? })
    }

    fn found_in(&self, ids: &[ArtifactId]) -> Result<HashMap<ArtifactId, u64>> {
        let mut found = HashMap::new();
        for some in ids.chunks(ASKED_MAX) {
            let keys: HashMap<_, _> = some.iter().map(|id| (artifact_key(id), *id)).collect();
            let asked: Vec<&[u8]> = keys.keys().map(Vec::as_slice).collect();
            for row in self.ask(|snapshot| snapshot.query(&self.sql.get_many, &[&asked]))? {
                let (key, value): (&[u8], &[u8]) = (row.get(0), row.get(1));
                let row = ArtifactRow::decode(unseal(key, value).map_err(unreadable)?);
                let damaged = || LedgerError::corrupt("the index", "the row of an artifact cannot be read");
                found.insert(keys[key], row.ok_or_else(damaged)?.n);
            }
        }
        Ok(found)
    }

    /// From here on the segment is where these records are, if it is still this node's turn to say so.
    fn switch(&self, turn: &Held<'_>, range: &SealedRange, replaced: &[SealedRange]) -> Result<()> {
        self.alone(async |client| {
            let known = |error: tokio_postgres::Error| Fault::of("switching to a segment", &error);
            client.batch_execute("BEGIN ISOLATION LEVEL READ COMMITTED").await.map_err(known)?;
            // In the order in which writers take both.
            client.query(&self.sql.lock, &[]).await.map_err(known)?;
            ended_turns(client, &self.sql, &[turn.fence()].into()).await?.into_iter().try_for_each(Fence::lost)?;
            self.switch_in(client, range, replaced).await?;
            // A connection that ends without this leaves everything as it was.
            client.batch_execute("COMMIT").await.map_err(known)
        })
    }

    async fn switch_in(
        &self,
        client: &Connection,
        range: &SealedRange,
        replaced: &[SealedRange],
    ) -> std::result::Result<(), Fault> {
        let known = |error: tokio_postgres::Error| Fault::of("switching to a segment", &error);
        let (first, last, segment) = (range.first_n as i64, range.last_n as i64, range.segment.as_bytes().as_slice());
        let there = client.query(&self.sql.segments.is_nameable, &[&vec![segment]]).await.map_err(known)?;
        if there.is_empty() {
            return Err(LedgerError::SegmentGone(range.segment).into());
        }
        let dropped = client.query(&self.sql.segments.drop_sealed, &[&first, &last]).await.map_err(known)?;
        let mut dropped: Vec<_> = dropped.iter().map(sealed_range).collect::<Result<_>>()?;
        dropped.sort_by_key(|range| range.first_n);
        if dropped != replaced {
            return Err(LedgerError::Busy { doing: "other maintenance sealed the same records", waited_s: 0 }.into());
        }
        let added =
            client.execute(&self.sql.segments.add_sealed, &[&first, &last, &segment, &(range.bytes as i64)]).await;
        added.map(drop).map_err(known)
    }

    /// Rows that are in segments as well, some at a time, so that nobody waits for long.
    fn drop_sealed_rows(&self) -> Result<()> {
        self.alone(async |client| {
            loop {
                let dropped = client.execute(&self.sql.segments.drop_records, &[]).await;
                if dropped.map_err(|error| Fault::of("dropping sealed rows", &error))? == 0 {
                    return Ok(());
                }
            }
        })
    }

    /// Frees the bytes of artifacts that were dropped: a note is put in the place of a row, and a range that holds some is
    /// sealed anew without them.
    pub(crate) fn erase(&self, dropped: &[ArtifactPlace], progress: &mut Progress<'_>) -> Result<()> {
        let turn = self.hold(JobKind::Maintain)?;
        let (mut numbers, mut bodies) = (Vec::new(), Vec::new());
        for place in dropped {
            if !self.look(|look| look.is_wanted(place.n))? {
                numbers.push(place.n as i64);
                bodies.push(Record::Dropped { len: place.len }.encode(place.n));
            }
        }
        self.alone(async |client| {
            let written = client.execute(&self.sql.erase, &[&numbers, &bodies]).await;
            written.map(drop).map_err(|error| Fault::of("erasing dropped bytes", &error))
        })?;
        let mut sealed: Vec<_> = dropped.iter().filter(|place| place.sealed).map(|place| place.n).collect();
        sealed.sort_unstable();
        while let Some(n) = sealed.first().copied() {
            let Some(range) = self.ask(|snapshot| snapshot.sealed_in(n))? else { break };
            self.seal_range(&turn, range.first_n, range.last_n, progress)?;
            sealed.retain(|n| *n > range.last_n);
        }
        Ok(())
    }
}

//! Artifacts that were written in a hurry, written anew. An import compresses as fast as it reads; what it leaves may be
//! half as large, and so may a segment that holds artifacts which were dropped since.
//!
//! New segments are published and checked before a record names them. Those that were named hold what they held until they
//! are swept, so a crash leaves segments that nothing names.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::BufWriter;

use enjamb_core::{ArtifactId, Digest};

use crate::error::LedgerError;
use crate::record::{Record, SegmentRecord};
use crate::seal::Cold;
use crate::segment::{Blocks, ChunkAt, Compression, Key, SegmentOptions, SegmentSummary, SegmentWriter, verify};
use crate::segments::Segments;
use crate::{Progress, Result};

/// Two thirds of the room that an import takes, or less. The highest level would save another fourteenth and take twenty
/// times as long; blocks of twice the size a hundredth, and 40 MiB more of memory.
const OPTIONS: SegmentOptions = SegmentOptions {
    block_bytes: 16 << 20,
    compression: Compression { level: 12, window_log: 24 },
    ..SegmentOptions::COLD
};
/// Raw bytes of a new segment, about: enough for repeats to be found, few enough to rewrite.
const SEGMENT_BYTES_MAX: u64 = 1 << 30;
/// Chunks of new segments that are kept in mind to find repeats.
const KNOWN_CHUNKS_MAX: usize = 200_000;

/// What records that named segments name from now on, and what that takes.
#[derive(Debug, Default)]
pub(crate) struct Moved {
    records: HashMap<u64, SegmentRecord>,
    pub(crate) segments: u64,
    /// Of the artifacts.
    pub(crate) raw_bytes: u64,
    pub(crate) stored_bytes: u64,
}

impl Moved {
    pub(crate) fn record(&self, n: u64) -> Option<&SegmentRecord> {
        self.records.get(&n)
    }

    fn take(&mut self, some: &[Named], summary: &SegmentSummary) {
        self.segments += 1;
        self.raw_bytes += some.iter().map(Named::raw_bytes).sum::<u64>();
        self.stored_bytes += summary.bytes;
        self.records.extend(some.iter().map(|named| {
            let artifacts = named.artifacts.clone();
            (named.n, SegmentRecord { segment: summary.digest, bytes: summary.bytes, artifacts })
        }));
    }
}

/// A record that names a segment, and which of its artifacts are still wanted.
struct Named {
    n: u64,
    segment: Digest,
    artifacts: Vec<(ArtifactId, u64)>,
    lost_some: bool,
}

impl Named {
    fn raw_bytes(&self) -> u64 {
        self.artifacts.iter().map(|(_, len)| len).sum()
    }
}

/// Writes the artifacts of records anew where that is worth it. `numbers` are those of records that may name segments.
pub(crate) fn repack(
    segments: &Segments,
    records: &dyn Cold,
    numbers: &[u64],
    progress: &mut Progress<'_>,
) -> Result<Moved> {
    let named = worth_it(segments, named(records, numbers)?);
    let total = named.iter().map(Named::raw_bytes).sum();
    let (segments, moved, known) = (segments.in_passing(), Moved::default(), HashMap::new());
    let mut repacking = Repacking { segments, moved, known, total };
    let mut rest = named.as_slice();
    while !rest.is_empty() {
        let (some, others) = rest.split_at(fitting(rest));
        repacking.write_anew(some, progress)?;
        rest = others;
    }
    Ok(repacking.moved)
}

fn named(records: &dyn Cold, numbers: &[u64]) -> Result<Vec<Named>> {
    let mut named = Vec::new();
    for n in numbers {
        let Record::Segment(record) = records.record(*n)? else { continue };
        let mut artifacts = Vec::with_capacity(record.artifacts.len());
        for (id, len) in &record.artifacts {
            if records.is_found_in(id, *n)? {
                artifacts.push((*id, *len));
            }
        }
        let lost_some = artifacts.len() < record.artifacts.len();
        named.push(Named { n: *n, segment: record.segment, artifacts, lost_some });
    }
    Ok(named)
}

/// All that name a segment are written anew, or none: while one names it, it stays. A record whose artifacts were all
/// dropped names nothing any more.
fn worth_it(segments: &Segments, mut named: Vec<Named>) -> Vec<Named> {
    let lost_some: HashSet<_> = named.iter().filter(|named| named.lost_some).map(|named| named.segment).collect();
    named.retain(|named| !named.artifacts.is_empty());
    let (mut is_worth_it, mut sound) = (HashMap::new(), HashMap::new());
    for Named { segment, .. } in &named {
        is_worth_it.entry(*segment).or_insert_with(|| {
            let is_wanted = lost_some.contains(segment) || was_hurried(segments, segment);
            is_wanted && is_sound(segments, segment, &mut sound)
        });
    }
    named.retain(|named| is_worth_it[&named.segment]);
    named
}

/// Whether a segment has several blocks, of a size between that of artifacts which are read by range and that of what is
/// kept for ever. So what was written anew once is not again.
fn was_hurried(segments: &Segments, segment: &Digest) -> bool {
    let Ok(segment) = segments.segment(segment) else { return false };
    let blocks = &segment.footer().tables().blocks;
    let largest = blocks.iter().map(|block| block.raw_len).max().unwrap_or_default();
    let between = SegmentOptions::RANGES.block_bytes + 1..OPTIONS.block_bytes / 2;
    blocks.len() > 1 && between.contains(&largest)
}

/// Whether a segment is whole, and those that hold chunks of it. What is damaged stays as it is, for `verify` to tell of:
/// nothing else is to wait for it.
fn is_sound(segments: &Segments, segment: &Digest, sound: &mut HashMap<Digest, bool>) -> bool {
    let Ok(open) = segments.segment(segment) else { return false };
    let mut all = open.footer().tables().deps.iter().chain([segment]);
    all.all(|digest| *sound.entry(*digest).or_insert_with(|| is_whole(segments, digest)))
}

fn is_whole(segments: &Segments, segment: &Digest) -> bool {
    segments.stored(segment).is_ok_and(|stored| verify(stored, *segment).is_empty())
}

/// How many records go into one segment: one at least.
fn fitting(named: &[Named]) -> usize {
    let mut bytes = 0;
    let fits = |named: &&Named| {
        bytes += named.raw_bytes();
        bytes <= SEGMENT_BYTES_MAX
    };
    named.iter().take_while(fits).count().max(1)
}

struct Repacking {
    segments: Segments,
    moved: Moved,
    /// Where chunks are in the new segments.
    known: HashMap<Digest, ChunkAt>,
    /// Bytes of all that is to be written anew.
    total: u64,
}

impl Repacking {
    /// Puts the artifacts of some records into one new segment, which is checked before anything may name it.
    fn write_anew(&mut self, some: &[Named], progress: &mut Progress<'_>) -> Result<()> {
        let mut new = self.segments.create()?;
        let (summary, chunks) = match self.copy(some, new.writer(), progress) {
            Ok(written) => written,
            Err(error) => {
                self.segments.discard(new);
                return Err(error);
            }
        };
        let segment = summary.digest;
        self.segments.publish(new, &segment)?;
        if let Some(finding) = verify(self.segments.stored(&segment)?, segment).first() {
            return Err(LedgerError::corrupt(format!("new segment {segment}"), finding.to_string()));
        }
        if self.known.len() + chunks.len() > KNOWN_CHUNKS_MAX {
            self.known.clear();
        }
        self.known.extend(chunks);
        self.moved.take(some, &summary);
        Ok(())
    }

    /// Copies artifacts out of the segments that they are in; what was written, and its chunks.
    fn copy(
        &self,
        some: &[Named],
        new: &mut BufWriter<File>,
        progress: &mut Progress<'_>,
    ) -> Result<(SegmentSummary, Vec<(Digest, ChunkAt)>)> {
        let mut writer = SegmentWriter::new(new, OPTIONS, |digest: &Digest| self.known.get(digest).copied())?;
        let (mut blocks, mut done) = (Blocks::new(&self.segments), self.moved.raw_bytes);
        for named in some {
            let from = self.segments.segment(&named.segment)?;
            for (id, len) in &named.artifacts {
                let entry = from.entry(&Key::Artifact(*id))?;
                let mut sink = writer.artifact();
                from.read_object(&entry, 0..*len, &mut blocks, &mut |part| Ok::<_, LedgerError>(sink.write(part)?))?;
                if sink.finish()? != (*id, *len) {
                    let detail = format!("segment {} holds other bytes", named.segment);
                    return Err(LedgerError::corrupt(id.to_string(), detail));
                }
                done += len;
                progress(done, self.total);
            }
        }
        let (_, summary, footer) = writer.finish()?;
        let chunks = footer.own_chunks(summary.digest).collect();
        Ok((summary, chunks))
    }
}

//! What sealing decides, whatever engine it is for: which records go together, in which order, and what of them travels.

use std::collections::HashMap;

use enjamb_core::frame::{Body, ContextBody, RawFrame};
use enjamb_core::{ArtifactId, Digest};

use crate::error::LedgerError;
use crate::record::Record;
use crate::repack::Moved;
use crate::segment::{Blocks, ChunkAt, SegmentOptions, SegmentSummary, SegmentWriter};
use crate::segments::Segments;
use crate::{Progress, Result, SealedRange};

/// Raw bytes of one sealed range: enough for repeats to be found, few enough to rewrite.
pub(crate) const RANGE_BYTES_MAX: u64 = 512 << 20;
/// Below this, what is in the log is left there: a segment of its own would cost more than it saves.
pub(crate) const RANGE_BYTES_MIN: u64 = 64 << 10;
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
    /// Bytes of the records as they were in the log, and of the artifacts that were written anew.
    pub raw_bytes: u64,
    /// Bytes of the segments they are in now.
    pub stored_bytes: u64,
}

impl Sealed {
    pub(crate) const fn of(records: u64, summary: &SegmentSummary, moved: &Moved) -> Self {
        Self {
            records,
            segments: 1 + moved.segments,
            raw_bytes: summary.raw_bytes + moved.raw_bytes,
            stored_bytes: summary.bytes + moved.stored_bytes,
        }
    }

    pub(crate) const fn add(&mut self, other: &Self) {
        self.records += other.records;
        self.segments += other.segments;
        self.raw_bytes += other.raw_bytes;
        self.stored_bytes += other.stored_bytes;
    }
}

/// Records that are to be sealed.
pub(crate) trait Cold {
    fn record(&self, n: u64) -> Result<Record>;
    /// Records `first..=last`, in order, until `visit` says to stop.
    fn each(&self, first: u64, last: u64, visit: &mut dyn FnMut(u64, &Record) -> Result<bool>) -> Result<()>;
    /// Whether the index finds an artifact in this very record.
    fn is_found_in(&self, id: &ArtifactId, n: u64) -> Result<bool>;
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

    fn names_segment(&self) -> bool {
        self.group.0 == 2
    }
}

/// Takes in small segments at the end, so that their number grows with the logarithm of what is stored.
pub(crate) fn absorb(sealed: &[SealedRange], first_hot: u64, hot_bytes: u64) -> u64 {
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

/// Records that go into one segment.
#[derive(Clone, Copy)]
pub(crate) struct Range {
    pub(crate) first: u64,
    pub(crate) last: u64,
}

/// Records of a range, in the order in which they go into a segment.
pub(crate) struct Layout(Vec<Item>);

impl Layout {
    /// Records that may name segments.
    pub(crate) fn naming(&self) -> Vec<u64> {
        self.0.iter().filter(|item| item.names_segment()).map(|item| item.n).collect()
    }
}

/// What records are to be in a segment.
pub(crate) struct ToSeal<'r> {
    pub(crate) records: &'r dyn Cold,
    pub(crate) layout: Layout,
    pub(crate) moved: Moved,
}

/// Writes a range of records into a new segment, without what was dropped, and reads it back. Nothing names it yet.
pub(crate) fn into_segment(
    segments: &Segments,
    to_seal: &ToSeal<'_>,
    known: HashMap<Digest, ChunkAt>,
    progress: &mut Progress<'_>,
) -> Result<SegmentSummary> {
    let mut new = segments.create()?;
    let summary = match write(&mut new, to_seal, known, progress) {
        Ok(summary) => summary,
        Err(error) => {
            segments.discard(new);
            return Err(error);
        }
    };
    segments.publish(new, &summary.digest)?;
    compare(segments, to_seal, &summary.digest)?;
    Ok(summary)
}

/// Orders the records of a range: frames by stream, then bytes chain by chain, so that reading either reads forward.
pub(crate) fn lay_out(records: &dyn Cold, range: Range) -> Result<Layout> {
    let mut items = Vec::new();
    let mut streams = HashMap::new();
    let mut chains = Chains::default();
    let mut loose = Vec::new();
    records.each(range.first, range.last, &mut |n, record| {
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
    Ok(Layout(items))
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

/// Writes the records of a range into a segment.
fn write(
    new: &mut crate::NewSegment,
    to_seal: &ToSeal<'_>,
    known: HashMap<Digest, ChunkAt>,
    progress: &mut Progress<'_>,
) -> Result<SegmentSummary> {
    let mut writer = SegmentWriter::new(new.writer(), COLD, |digest: &Digest| known.get(digest).copied())?;
    let (mut of_frames, items) = (true, &to_seal.layout.0);
    for (done, item) in items.iter().enumerate() {
        if of_frames {
            of_frames = item.is_frame();
            writer.end_block_from(if of_frames { FRAME_BLOCK_BYTES } else { 0 })?;
        }
        writer.add_record(item.n, &to_seal.body(item.n)?)?;
        progress(done as u64 + 1, items.len() as u64);
    }
    let (_, summary, _) = writer.finish()?;
    Ok(summary)
}

/// Reads a new segment back: the log forgets its rows only when the copy says the same.
fn compare(segments: &Segments, to_seal: &ToSeal<'_>, segment: &Digest) -> Result<()> {
    let sealed = segments.segment(segment)?;
    let mut blocks = Blocks::new(segments);
    for item in &to_seal.layout.0 {
        if sealed.record(item.n, &mut blocks)? != to_seal.body(item.n)? {
            let detail = format!("record {} differs", item.n);
            return Err(LedgerError::corrupt(format!("new segment {segment}"), detail));
        }
    }
    Ok(())
}

/// Chunks of the latest segments, so that repeats are stored once. Missing some costs space, never data.
pub(crate) fn known_chunks(segments: &Segments, sealed: &[SealedRange]) -> Result<HashMap<Digest, ChunkAt>> {
    let mut known = HashMap::new();
    for range in sealed.iter().rev() {
        let segment = segments.segment(&range.segment)?;
        known.extend(segment.footer().own_chunks(range.segment));
        if known.len() > KNOWN_CHUNKS_MAX {
            break;
        }
    }
    Ok(known)
}

impl ToSeal<'_> {
    /// The body a record has from now on: bytes of dropped artifacts do not travel.
    fn body(&self, n: u64) -> Result<Vec<u8>> {
        if let Some(moved) = self.moved.record(n) {
            return Ok(Record::Segment(moved.clone()).seal(n));
        }
        let record = self.records.record(n)?;
        let (ids, len) = match &record {
            Record::Bytes { id, bytes } => (vec![*id], bytes.len() as u64),
            Record::Segment(segment) => (segment.artifacts.iter().map(|(id, _)| *id).collect(), segment.bytes),
            Record::Frame(_) | Record::Dropped { .. } => return Ok(record.seal(n)),
        };
        for id in ids {
            if self.records.is_found_in(&id, n)? {
                return Ok(record.seal(n));
            }
        }
        Ok(Record::Dropped { len }.seal(n))
    }
}

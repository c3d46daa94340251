//! The thread that chunks, compresses and writes, while the next window is read and understood.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::BufWriter;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{Scope, ScopedJoinHandle};

use enjamb_core::{ArtifactId, Digest};
use enjamb_ledger::SegmentRecord;
use enjamb_ledger::segment::{ChunkAt, Compression, Cut, SegmentOptions, SegmentWriteError, SegmentWriter, cut};

use super::bounded::{Receiver, Sender, bounded};
use crate::{Result, ServiceError};

/// Larger blocks than those of single artifacts: the turns of a session are like each other, and are read together.
const OPTIONS: SegmentOptions = SegmentOptions {
    block_bytes: 1 << 20,
    // What a session says compresses nearly as well in half the time.
    compression: Compression { level: 1, window_log: 0 },
    record_chunk_bytes_min: SegmentOptions::RECORD_CHUNK_BYTES_MIN,
};
/// Bytes that wait to be written.
const WAITING_BYTES_MAX: u64 = 8 << 20;

/// Chunks that are remembered: a gigabyte and a half. What is forgotten and comes again is stored again.
const CHUNKS_MAX: usize = 200_000;

type Known<'w> = &'w dyn Fn(&Digest) -> Option<ChunkAt>;
type Writer<'w> = SegmentWriter<&'w mut BufWriter<File>, Known<'w>>;

/// Chunks of the segments that this import has stored: what comes again is not stored again, though another group has it.
#[derive(Default)]
pub(super) struct Chunks(HashMap<Digest, ChunkAt>);

impl Chunks {
    /// Those of a segment that will be named in the log before any that is written from now on.
    pub(super) fn learn(&mut self, own: Vec<(Digest, ChunkAt)>) {
        if self.0.len() + own.len() > CHUNKS_MAX {
            self.0.clear();
        }
        self.0.extend(own);
    }

    fn find(&self, digest: &Digest) -> Option<ChunkAt> {
        self.0.get(digest).copied()
    }
}

/// An artifact that lies in a window, and the pieces that it is stored as.
pub(super) struct Lying {
    pub id: ArtifactId,
    pub range: Range<usize>,
    pub cuts: Vec<Cut>,
}

impl Lying {
    pub(super) fn of(id: ArtifactId, range: Range<usize>, window: &[u8]) -> Self {
        let cuts = cut(&window[range.clone()]);
        Self { id, range, cuts }
    }
}

/// What is to be written.
pub(super) enum Bytes {
    /// Artifacts that lie in a window.
    Within(Vec<u8>, Vec<Lying>),
    /// The next part of one artifact.
    Part(Vec<u8>),
    /// The artifact of the parts so far is whole, or nobody's.
    End { whole: bool },
}

impl Bytes {
    pub(super) fn len(&self) -> u64 {
        match self {
            Self::Within(bytes, _) | Self::Part(bytes) => bytes.len() as u64,
            Self::End { .. } => 0,
        }
    }
}

/// A segment that was written, and the chunks that are in it.
pub(super) struct WrittenSegment {
    pub record: SegmentRecord,
    pub chunks: Vec<(Digest, ChunkAt)>,
}

/// Who writes a segment, unless nothing comes.
pub(super) type Writing<'scope> = ScopedJoinHandle<'scope, Result<Option<WrittenSegment>>>;

/// Starts a thread that writes a segment of whatever is sent to it, and tells how large it is so far.
pub(super) fn start<'scope, 'env>(
    scope: &'scope Scope<'scope, 'env>,
    sink: &'scope mut BufWriter<File>,
    known: &'scope Chunks,
    size: &'scope AtomicU64,
) -> (Sender<Bytes>, Writing<'scope>) {
    let (sender, receiver) = bounded(WAITING_BYTES_MAX);
    (sender, scope.spawn(move || write(sink, known, &receiver, size)))
}

fn write(
    sink: &mut BufWriter<File>,
    known: &Chunks,
    receiver: &Receiver<Bytes>,
    size: &AtomicU64,
) -> Result<Option<WrittenSegment>> {
    let find: Known<'_> = &|digest| known.find(digest);
    let mut writer = SegmentWriter::new(sink, OPTIONS, find).map_err(failed)?;
    let mut artifacts: Vec<(ArtifactId, u64)> = Vec::new();
    let mut listed = HashSet::new();
    while let Some(bytes) = receiver.recv() {
        let written = match bytes {
            Bytes::Within(window, artifacts) => write_within(&mut writer, &window, artifacts)?,
            Bytes::Part(first) => write_parts(&mut writer, &first, receiver)?,
            // An artifact without a byte.
            Bytes::End { whole: true } => vec![writer.artifact().finish().map_err(failed)?],
            Bytes::End { whole: false } => Vec::new(),
        };
        artifacts.extend(written.into_iter().filter(|(id, _)| listed.insert(*id)));
        size.store(writer.bytes_written(), Ordering::Relaxed);
    }
    if artifacts.is_empty() {
        return Ok(None);
    }
    let (_, summary, footer) = writer.finish().map_err(failed)?;
    let record = SegmentRecord { segment: summary.digest, bytes: summary.bytes, artifacts };
    Ok(Some(WrittenSegment { chunks: footer.own_chunks(record.segment).collect(), record }))
}

fn write_within(writer: &mut Writer<'_>, window: &[u8], artifacts: Vec<Lying>) -> Result<Vec<(ArtifactId, u64)>> {
    let mut written = Vec::with_capacity(artifacts.len());
    for Lying { id, range, cuts } in artifacts {
        written.push((id, range.len() as u64));
        writer.add_artifact(id, &window[range], &cuts).map_err(failed)?;
    }
    Ok(written)
}

/// Writes an artifact of which the first part has come. If it does not come to its end, its chunks are nobody's.
fn write_parts(writer: &mut Writer<'_>, first: &[u8], rest: &Receiver<Bytes>) -> Result<Vec<(ArtifactId, u64)>> {
    let mut artifact = writer.artifact();
    artifact.write(first).map_err(failed)?;
    loop {
        match rest.recv() {
            Some(Bytes::Part(next)) => artifact.write(&next).map_err(failed)?,
            Some(Bytes::End { whole: true }) => return Ok(vec![artifact.finish().map_err(failed)?]),
            Some(Bytes::End { whole: false } | Bytes::Within(..)) | None => return Ok(Vec::new()),
        }
    }
}

fn failed(error: SegmentWriteError) -> ServiceError {
    ServiceError::Ledger(error.into())
}

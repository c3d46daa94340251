//! The thread that chunks, compresses and writes, while the next window is read and understood.

use std::collections::HashSet;
use std::fs::File;
use std::io::BufWriter;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{Scope, ScopedJoinHandle};

use enjamb_core::{ArtifactId, Digest};
use enjamb_ledger::SegmentRecord;
use enjamb_ledger::segment::{ChunkAt, Compression, SegmentOptions, SegmentWriteError, SegmentWriter};

use crate::{Result, ServiceError};

/// Larger blocks than those of single artifacts: the turns of a session are like each other, and are read together.
const OPTIONS: SegmentOptions = SegmentOptions {
    block_bytes: 1 << 20,
    // What a session says compresses nearly as well in half the time.
    compression: Compression { level: 1, window_log: 0 },
    record_chunk_bytes_min: SegmentOptions::RECORD_CHUNK_BYTES_MIN,
};
/// Messages that wait to be written; each is a window at most.
const WAITING_MAX: usize = 2;

type Known = fn(&Digest) -> Option<ChunkAt>;
type Writer<'w> = SegmentWriter<&'w mut BufWriter<File>, Known>;

/// What is to be written.
pub(super) enum Bytes {
    /// Artifacts that lie in a window.
    Within(Vec<u8>, Vec<Range<usize>>),
    /// The next part of one artifact.
    Part(Vec<u8>),
    /// The artifact of the parts so far is whole, or nobody's.
    End { whole: bool },
}

/// The segment that a thread made, unless nothing came.
pub(super) type Written<'scope> = ScopedJoinHandle<'scope, Result<Option<SegmentRecord>>>;

/// Starts a thread that writes a segment of whatever is sent to it, and tells how large it is so far.
pub(super) fn start<'scope, 'env>(
    scope: &'scope Scope<'scope, 'env>,
    sink: &'scope mut BufWriter<File>,
    size: &'scope AtomicU64,
) -> (SyncSender<Bytes>, Written<'scope>) {
    let (sender, receiver) = sync_channel(WAITING_MAX);
    (sender, scope.spawn(move || write(sink, &receiver, size)))
}

fn write(sink: &mut BufWriter<File>, receiver: &Receiver<Bytes>, size: &AtomicU64) -> Result<Option<SegmentRecord>> {
    let mut writer = SegmentWriter::new(sink, OPTIONS, (|_: &Digest| None) as Known).map_err(failed)?;
    let mut artifacts: Vec<(ArtifactId, u64)> = Vec::new();
    let mut listed = HashSet::new();
    while let Ok(bytes) = receiver.recv() {
        let written = match bytes {
            Bytes::Within(window, ranges) => write_within(&mut writer, &window, ranges)?,
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
    let (_, summary, _) = writer.finish().map_err(failed)?;
    Ok(Some(SegmentRecord { segment: summary.digest, bytes: summary.bytes, artifacts }))
}

fn write_within(writer: &mut Writer<'_>, window: &[u8], ranges: Vec<Range<usize>>) -> Result<Vec<(ArtifactId, u64)>> {
    let mut written = Vec::with_capacity(ranges.len());
    for range in ranges {
        let mut artifact = writer.artifact();
        artifact.write(&window[range]).map_err(failed)?;
        written.push(artifact.finish().map_err(failed)?);
    }
    Ok(written)
}

/// Writes an artifact of which the first part has come. If it does not come to its end, its chunks are nobody's.
fn write_parts(writer: &mut Writer<'_>, first: &[u8], rest: &Receiver<Bytes>) -> Result<Vec<(ArtifactId, u64)>> {
    let mut artifact = writer.artifact();
    artifact.write(first).map_err(failed)?;
    loop {
        match rest.recv() {
            Ok(Bytes::Part(next)) => artifact.write(&next).map_err(failed)?,
            Ok(Bytes::End { whole: true }) => return Ok(vec![artifact.finish().map_err(failed)?]),
            Ok(Bytes::End { whole: false } | Bytes::Within(..)) | Err(_) => return Ok(Vec::new()),
        }
    }
}

fn failed(error: SegmentWriteError) -> ServiceError {
    ServiceError::Ledger(error.into())
}

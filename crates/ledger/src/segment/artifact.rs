//! Streaming an artifact into a segment.

use std::io::Write;

use enjamb_core::{ArtifactId, Digest, Hasher, limits};

use super::chunk;
use super::error::SegmentWriteError;
use super::footer::{ChunkAt, Run};
use super::write::{SegmentWriter, push_row};

/// Several of the largest chunks, so that the rest of the buffer is not moved at every cut.
const BUFFER_BYTES: usize = 4 * chunk::BYTES_MAX;

/// Takes the bytes of one artifact. Dropped before [`finish`](Self::finish), it leaves chunks behind that no object
/// uses, and nothing else.
pub struct ArtifactSink<'w, W, K> {
    writer: &'w mut SegmentWriter<W, K>,
    hasher: Hasher,
    buffer: Vec<u8>,
    runs: Vec<Run>,
    len: u64,
}

impl<'w, W: Write, K: FnMut(&Digest) -> Option<ChunkAt>> ArtifactSink<'w, W, K> {
    pub(super) fn new(writer: &'w mut SegmentWriter<W, K>) -> Self {
        Self { writer, hasher: Hasher::new(), buffer: Vec::new(), runs: Vec::new(), len: 0 }
    }

    pub fn write(&mut self, bytes: &[u8]) -> Result<(), SegmentWriteError> {
        if self.len + bytes.len() as u64 > limits::ARTIFACT_BYTES_MAX {
            return Err(SegmentWriteError::ArtifactTooLarge { max: limits::ARTIFACT_BYTES_MAX });
        }
        self.len += bytes.len() as u64;
        self.hasher.update(bytes);
        for part in bytes.chunks(BUFFER_BYTES - chunk::BYTES_MAX) {
            self.buffer.extend_from_slice(part);
            // Less than this might be cut elsewhere if more followed.
            self.store_while(chunk::BYTES_MAX)?;
        }
        Ok(())
    }

    /// Ends the artifact. One that the segment has already is not listed twice.
    pub fn finish(mut self) -> Result<(ArtifactId, u64), SegmentWriteError> {
        if self.len < chunk::OBJECT_BYTES_MIN as u64 {
            self.store_whole()?;
        } else {
            self.store_while(1)?;
        }
        let id = ArtifactId::from_digest(self.hasher.finish());
        self.writer.name(id, self.runs);
        Ok((id, self.len))
    }

    fn store_whole(&mut self) -> Result<(), SegmentWriteError> {
        if !self.buffer.is_empty() {
            let row = self.writer.store_chunk(&self.buffer)?;
            push_row(&mut self.runs, row);
        }
        Ok(())
    }

    /// Stores chunks while at least `rest_min` bytes are left.
    fn store_while(&mut self, rest_min: usize) -> Result<(), SegmentWriteError> {
        let mut done = 0;
        while self.buffer.len() - done >= rest_min {
            let rest = &self.buffer[done..];
            let piece = &rest[..chunk::first_len(rest)];
            let row = self.writer.store_chunk(piece)?;
            push_row(&mut self.runs, row);
            done += piece.len();
        }
        self.buffer.drain(..done);
        Ok(())
    }
}

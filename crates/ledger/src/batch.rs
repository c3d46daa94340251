//! Batches: the only way anything is written.

use std::collections::HashMap;

use enjamb_core::frame::{Draft, KeyUse};
use enjamb_core::{ArtifactId, StreamId, limits};

use crate::error::LedgerError;
use crate::job::Fence;
use crate::record::SegmentRecord;

/// One durable change: all of it is stored with one sync, or none of it is.
///
/// Bytes come before the frames that name them, so that no reader meets a reference to what is not there.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    pub artifacts: Vec<NewArtifact>,
    /// Segments already synced under their names.
    pub segments: Vec<SegmentRecord>,
    pub frames: Vec<NewFrame>,
    /// Makes a retry of this batch answer as the first did. Scoped to the streams of its frames.
    pub idempotency_key: Option<String>,
    /// What tells the request under that key from others, when it is more than what is appended.
    pub request: Option<RequestDigest>,
    /// Keys that frames were stored with elsewhere, by their places among `frames`: they are part of what the frames
    /// are, and are recorded as they were.
    pub former_keys: HashMap<usize, KeyUse>,
    /// The turn at a job that this is written for: refused, once another node has had a turn after it.
    pub fence: Option<Fence>,
}

/// Tells one request from another.
pub type RequestDigest = [u8; 16];

#[derive(Clone, Debug)]
pub struct NewArtifact {
    pub id: ArtifactId,
    /// `None` when the caller found the bytes in the store already; the append checks that they still are.
    pub bytes: Option<Vec<u8>>,
}

impl NewArtifact {
    pub fn from_bytes(bytes: Vec<u8>) -> Self {
        Self { id: ArtifactId::of(&bytes), bytes: Some(bytes) }
    }
}

/// A frame to append, and what to fill in where the draft leaves it open.
#[derive(Clone, Debug)]
pub struct NewFrame {
    pub stream: StreamId,
    pub draft: Draft,
    pub id: String,
    pub timestamp_ms: u64,
    /// The seq the frame must get; any other is a conflict.
    pub expected_seq: Option<u64>,
}

/// What became of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Appended {
    pub frames: Vec<FrameAt>,
    /// The idempotency key was known: nothing was written, and this is where the first request's frames are.
    pub replayed: bool,
}

/// Where a frame landed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FrameAt {
    pub stream: StreamId,
    pub seq: u64,
}

impl Batch {
    /// Refuses what no state of the store could make right.
    pub(crate) fn check(&self) -> Result<(), LedgerError> {
        if self.frames.len() > limits::BATCH_FRAMES_MAX {
            return Err(LedgerError::TooLarge {
                what: "a batch",
                size: Some(self.frames.len() as u64),
                limit: limits::BATCH_FRAMES_MAX as u64,
                unit: "frames",
            });
        }
        for artifact in &self.artifacts {
            artifact.check()?;
        }
        self.idempotency_key.as_deref().map_or(Ok(()), check_key)
    }
}

impl NewArtifact {
    fn check(&self) -> Result<(), LedgerError> {
        let len = self.bytes.as_ref().map_or(0, Vec::len);
        if len > limits::ARTIFACT_INLINE_BYTES_MAX {
            return Err(LedgerError::TooLarge {
                what: "an artifact of a batch",
                size: Some(len as u64),
                limit: limits::ARTIFACT_INLINE_BYTES_MAX as u64,
                unit: "bytes",
            });
        }
        Ok(())
    }
}

fn check_key(key: &str) -> Result<(), LedgerError> {
    let fits = (1..=limits::IDEMPOTENCY_KEY_BYTES_MAX).contains(&key.len());
    if fits && key.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Ok(());
    }
    Err(LedgerError::BadKey(key.chars().take(100).collect()))
}

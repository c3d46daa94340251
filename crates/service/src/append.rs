//! Appending frames.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use enjamb_core::frame::{Body, Draft};
use enjamb_core::{StreamId, limits};
use enjamb_ledger::{Appended, Batch, Job, NewArtifact, NewFrame};

use crate::{PutOptions, Result, ServiceError, Store};

/// Frames to append together, all or none.
#[derive(Debug, Default)]
pub struct Append {
    pub lines: Vec<DraftLine>,
    /// Where frames go that name no stream themselves.
    pub stream: Option<StreamId>,
    /// The seq that the first frame must get.
    pub expected_seq: Option<u64>,
    pub idempotency_key: Option<String>,
}

/// A frame as it was given, and where, so that an error can say so.
#[derive(Debug)]
pub struct DraftLine {
    pub line: u64,
    pub json: Vec<u8>,
}

impl Store {
    /// Appends frames and returns when they are on disk.
    pub fn append(&self, request: Append) -> Result<Appended> {
        Ok(self.ledger.append(self.append_batch(request)?)?)
    }

    /// What an append stores: its frames, read, each with an id and a time. Nothing is waited for.
    pub fn append_batch(&self, request: Append) -> Result<Batch> {
        let mut frames = Vec::with_capacity(request.lines.len());
        let mut expected_seq = request.expected_seq;
        for line in request.lines {
            let number = line.line;
            let frame = self.new_frame(line.json, request.stream.as_ref(), expected_seq.take());
            frames.push(frame.map_err(|source| ServiceError::Line { line: number, source: Box::new(source) })?);
        }
        Ok(Batch { frames, idempotency_key: request.idempotency_key, ..Batch::default() })
    }

    fn new_frame(&self, json: Vec<u8>, stream: Option<&StreamId>, expected_seq: Option<u64>) -> Result<NewFrame> {
        let draft = Draft::parse(json)?;
        let stream = draft.stream().or_else(|| stream.cloned()).ok_or(ServiceError::NoStreamNamed)?;
        Ok(NewFrame { stream, draft, id: self.env.new_id(), timestamp_ms: self.env.now().as_millis(), expected_seq })
    }

    /// Appends frames of our own making, with artifacts that they name.
    pub(crate) fn append_bodies(
        &self,
        stream: &StreamId,
        bodies: &[Body],
        artifacts: Vec<NewArtifact>,
    ) -> Result<Appended> {
        let frames = bodies.iter().map(|body| self.frame_of(stream, body)).collect::<Result<_>>()?;
        Ok(self.ledger.append(Batch { artifacts, frames, ..Batch::default() })?)
    }

    /// Appends one frame of a background job, as long as it is this node's turn.
    pub(crate) fn append_for(&self, job: &Job<'_>, stream: &StreamId, body: &Body) -> Result<Appended> {
        let frames = vec![self.frame_of(stream, body)?];
        Ok(self.ledger.append(Batch { frames, fence: job.fence(), ..Batch::default() })?)
    }

    /// A frame of our own making, with a fresh id.
    pub(crate) fn frame_of(&self, stream: &StreamId, body: &Body) -> Result<NewFrame> {
        Ok(NewFrame {
            stream: stream.clone(),
            draft: Draft::of(stream, body)?,
            id: self.env.new_id(),
            timestamp_ms: self.env.now().as_millis(),
            expected_seq: None,
        })
    }

    /// Bytes that frames of one batch are to name. Large ones are stored ahead of it.
    pub(crate) fn artifact_of(&self, bytes: Vec<u8>) -> Result<NewArtifact> {
        if bytes.len() <= limits::ARTIFACT_INLINE_BYTES_MAX {
            return Ok(NewArtifact::from_bytes(bytes));
        }
        let stored = self.put(&mut bytes.as_slice(), &PutOptions::default())?;
        Ok(NewArtifact { id: stored.id, bytes: None })
    }

    /// As [`Store::artifact_of`], for a file that need not fit into memory.
    pub(crate) fn artifact_of_file(&self, path: &Path) -> Result<NewArtifact> {
        let failed = |source| ServiceError::File { path: path.to_owned(), source };
        let mut file = File::open(path).map_err(failed)?;
        let mut head = Vec::new();
        let most = limits::ARTIFACT_INLINE_BYTES_MAX as u64 + 1;
        (&mut file).take(most).read_to_end(&mut head).map_err(failed)?;
        if head.len() <= limits::ARTIFACT_INLINE_BYTES_MAX {
            return self.artifact_of(head);
        }
        let stored = self.put(&mut head.chain(file), &PutOptions::default())?;
        Ok(NewArtifact { id: stored.id, bytes: None })
    }
}

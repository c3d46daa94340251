//! What is stored with one sync: commits of many files, and how far each was read.

use std::collections::HashSet;
use std::io::Read;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use enjamb_core::frame::{Body, Draft, SourceRead};
use enjamb_core::{ArtifactId, CommitId, Hasher, StreamId, StreamKind, limits};
use enjamb_ledger::{Batch, Ledger, LedgerError, NewArtifact, NewFrame};

use super::bounded::Sender;
use super::commit::Made;
use super::segment::{Bytes, Lying};
use super::storing::Underway;
use crate::{Result, ServiceError, Store};

/// Bytes of a segment after which a group is stored. That much work a kill may undo.
const SEGMENT_BYTES_FULL: u64 = 128 << 20;
/// Bytes in memory after which a group is stored.
const INLINE_BYTES_FULL: u64 = 8 << 20;
/// Bytes of a long line that are passed on at once.
const PART_BYTES: usize = 1 << 20;

/// Where the bytes of a group go.
pub(super) enum Sink<'g> {
    /// Into the batch itself, as they are few.
    Batch,
    Segment {
        sender: Sender<Bytes>,
        written: &'g AtomicU64,
    },
}

/// A commit to be, and where its bytes lie in the window that it was made of.
pub(super) struct Commit {
    pub made: Made,
    pub delta: Lying,
}

pub(super) struct Group<'g> {
    store: &'g Store,
    sink: Sink<'g>,
    /// Frames after which the group is stored.
    frames_full: usize,
    underway: Arc<Underway>,
    batch: Batch,
    commits: HashSet<CommitId>,
    inline_bytes: u64,
    /// Commits that are new, and those that were here already.
    pub made: u64,
    pub known: u64,
}

impl<'g> Group<'g> {
    pub(super) fn new(store: &'g Store, sink: Sink<'g>, frames_full: usize, underway: Arc<Underway>) -> Self {
        let (batch, commits) = (Batch::default(), HashSet::new());
        Self { store, sink, frames_full, underway, batch, commits, inline_bytes: 0, made: 0, known: 0 }
    }

    pub(super) fn is_full(&self) -> bool {
        let written = match &self.sink {
            Sink::Batch => 0,
            Sink::Segment { written, .. } => written.load(Ordering::Relaxed),
        };
        self.batch.frames.len() >= self.frames_full
            || self.inline_bytes >= INLINE_BYTES_FULL
            || written >= SEGMENT_BYTES_FULL
    }

    /// Adds commits that are not here already. Answers which bytes are for the caller to add: those of a new commit may be
    /// here all the same.
    pub(super) fn commit(&mut self, commits: Vec<Commit>) -> Result<Vec<Lying>> {
        let ids: Vec<_> = commits.iter().map(|commit| commit.made.id).collect();
        let artifacts: Vec<_> = commits.iter().map(|commit| commit.delta.id).collect();
        let here = self.store.ledger.present(&ids, &artifacts)?;
        let mut fresh = Vec::new();
        for (at, Commit { made, delta }) in commits.into_iter().enumerate() {
            let is_here = here.commits[at] || self.underway.commits.contains(&made.id);
            if is_here || !self.commits.insert(made.id) {
                self.known += 1;
                continue;
            }
            let stream = StreamId::new(StreamKind::Context, made.body.principal.clone().unwrap_or_default())?;
            self.frame(stream, made.body.into(), None)?;
            self.made += 1;
            if here.artifacts[at] || self.underway.artifacts.contains(&delta.id) {
                self.batch.artifacts.push(NewArtifact { id: delta.id, bytes: None });
            } else {
                fresh.push(delta);
            }
        }
        Ok(fresh)
    }

    /// Whether an artifact's bytes are for the caller to add.
    pub(super) fn wants(&mut self, artifact: ArtifactId) -> Result<bool> {
        let is_here = self.underway.artifacts.contains(&artifact) || self.store.ledger.artifact(&artifact)?.is_some();
        if is_here {
            self.batch.artifacts.push(NewArtifact { id: artifact, bytes: None });
        }
        Ok(!is_here)
    }

    /// Adds artifacts that lie in a window.
    pub(super) fn within(&mut self, window: Vec<u8>, artifacts: Vec<Lying>) -> Result<()> {
        if artifacts.is_empty() {
            return Ok(());
        }
        match &self.sink {
            Sink::Segment { sender, .. } => send(sender, Bytes::Within(window, artifacts)),
            Sink::Batch => {
                for Lying { range, .. } in artifacts {
                    self.inline(window[range].to_vec());
                }
                Ok(())
            }
        }
    }

    /// Adds an artifact that is small.
    pub(super) fn inline(&mut self, bytes: Vec<u8>) -> ArtifactId {
        self.inline_bytes += bytes.len() as u64;
        let artifact = NewArtifact::from_bytes(bytes);
        let id = artifact.id;
        self.batch.artifacts.push(artifact);
        id
    }

    /// Adds an artifact part by part, as it is read.
    pub(super) fn stream(&mut self, source: &mut dyn Read) -> Result<(ArtifactId, u64)> {
        let Sink::Segment { sender, .. } = &self.sink else {
            let mut bytes = Vec::new();
            source.read_to_end(&mut bytes).map_err(reading)?;
            let len = bytes.len() as u64;
            return Ok((self.inline(bytes), len));
        };
        let passed = pass(source, sender);
        send(sender, Bytes::End { whole: passed.is_ok() })?;
        passed
    }

    pub(super) fn read(&mut self, stream: &StreamId, seq: u64, read: SourceRead) -> Result<()> {
        self.frame(stream.clone(), read.into(), Some(seq))
    }

    fn frame(&mut self, stream: StreamId, body: Body, expected_seq: Option<u64>) -> Result<()> {
        let draft = Draft::of(&stream, &body)?;
        let (id, timestamp_ms) = (self.store.env.new_id(), self.store.env.now().as_millis());
        self.batch.frames.push(NewFrame { stream, draft, id, timestamp_ms, expected_seq });
        Ok(())
    }

    /// All that is to be stored, but for the segment, in batches of which each may be the last that is. The thread that
    /// writes the segment learns that nothing follows.
    pub(super) fn finish(self) -> (Vec<Batch>, HashSet<CommitId>) {
        let Batch { artifacts, frames, .. } = self.batch;
        let mut batches = vec![Batch { artifacts, ..Batch::default() }];
        for frame in frames {
            if batches.last().is_some_and(|batch| batch.frames.len() == limits::BATCH_FRAMES_MAX) {
                batches.push(Batch::default());
            }
            if let Some(last) = batches.last_mut() {
                last.frames.push(frame);
            }
        }
        (batches, self.commits)
    }
}

fn pass(source: &mut dyn Read, sender: &Sender<Bytes>) -> Result<(ArtifactId, u64)> {
    let (mut hasher, mut len) = (Hasher::new(), 0);
    loop {
        let mut part = Vec::with_capacity(PART_BYTES);
        source.take(PART_BYTES as u64).read_to_end(&mut part).map_err(reading)?;
        if part.is_empty() {
            return Ok((ArtifactId::from_digest(hasher.finish()), len));
        }
        hasher.update(&part);
        len += part.len() as u64;
        send(sender, Bytes::Part(part))?;
    }
}

/// The other end is gone only if the writer failed, and what it failed of is told when it is joined.
fn send(sender: &Sender<Bytes>, bytes: Bytes) -> Result<()> {
    let gone = || LedgerError::Output(std::io::ErrorKind::BrokenPipe.into());
    sender.send(bytes.len(), bytes).map_err(|_| gone().into())
}

fn reading(source: std::io::Error) -> ServiceError {
    ServiceError::File { path: "the input".into(), source }
}

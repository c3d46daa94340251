//! What is stored with one sync: commits of many files, and how far each was read.

use std::collections::HashSet;
use std::fs::File;
use std::io::{BufWriter, Read};

use enjamb_core::frame::{Body, Draft, SourceRead};
use enjamb_core::order::{MarkKey, Scope};
use enjamb_core::{ArtifactId, CommitId, Digest, StreamId, StreamKind};
use enjamb_ledger::segment::{ChunkAt, Compression, SegmentOptions, SegmentWriteError, SegmentWriter};
use enjamb_ledger::{Batch, Ledger, NewArtifact, NewFrame, SegmentRecord};

use super::commit::Made;
use crate::{Result, ServiceError, Store};

/// Frames after which a group is stored. One window more still fits a batch.
const FRAMES_FULL: usize = 500;
/// Bytes of a segment after which a group is stored.
const SEGMENT_BYTES_FULL: u64 = 256 << 20;
/// Bytes in memory after which a group is stored.
const INLINE_BYTES_FULL: u64 = 8 << 20;

/// Larger blocks than those of single artifacts: the turns of a session are like each other, and are read together.
const OPTIONS: SegmentOptions = SegmentOptions {
    block_bytes: 1 << 20,
    compression: Compression { level: 3, window_log: 0 },
    record_chunk_bytes_min: SegmentOptions::RECORD_CHUNK_BYTES_MIN,
};

type Known = fn(&Digest) -> Option<ChunkAt>;
pub(super) type Writer<'w> = SegmentWriter<&'w mut BufWriter<File>, Known>;

pub(super) struct Group<'s, 'w> {
    store: &'s Store,
    /// Where bytes go; without one they stay in memory, as they are few.
    writer: Option<Writer<'w>>,
    pub artifacts: Vec<NewArtifact>,
    listed: Vec<(ArtifactId, u64)>,
    frames: Vec<NewFrame>,
    commits: HashSet<CommitId>,
    inline_bytes: u64,
    /// Commits that are new, and those that were here already.
    pub made: u64,
    pub known: u64,
}

pub(super) fn writer(sink: &mut BufWriter<File>) -> Result<Writer<'_>> {
    SegmentWriter::new(sink, OPTIONS, (|_: &Digest| None) as Known).map_err(writing)
}

impl<'s, 'w> Group<'s, 'w> {
    pub(super) fn new(store: &'s Store, writer: Option<Writer<'w>>) -> Self {
        Self {
            store,
            writer,
            artifacts: Vec::new(),
            listed: Vec::new(),
            frames: Vec::new(),
            commits: HashSet::new(),
            inline_bytes: 0,
            made: 0,
            known: 0,
        }
    }

    pub(super) fn is_full(&self) -> bool {
        self.frames.len() >= FRAMES_FULL
            || self.inline_bytes >= INLINE_BYTES_FULL
            || self.writer.as_ref().is_some_and(|writer| writer.bytes_written() >= SEGMENT_BYTES_FULL)
    }

    /// Adds a commit with its bytes, unless it is here already. `None` when the bytes were streamed before.
    pub(super) fn commit(&mut self, made: Made, bytes: Option<&[u8]>) -> Result<()> {
        let is_known = self.commits.contains(&made.id)
            || self.store.ledger.mark(&Scope::Store, &MarkKey::Commit(made.id))?.is_some();
        if is_known {
            self.known += 1;
            return Ok(());
        }
        if let Some(bytes) = bytes {
            self.stream(&mut &*bytes)?;
        }
        let stream = StreamId::new(StreamKind::Context, made.body.principal.clone().unwrap_or_default())?;
        self.frame(stream, made.body.into(), None)?;
        self.commits.insert(made.id);
        self.made += 1;
        Ok(())
    }

    /// Takes bytes in, in pieces where there is a segment to take them.
    pub(super) fn stream(&mut self, source: &mut dyn Read) -> Result<(ArtifactId, u64)> {
        let reading = |source| ServiceError::File { path: "the input".into(), source };
        let Some(writer) = &mut self.writer else {
            let mut bytes = Vec::new();
            source.read_to_end(&mut bytes).map_err(reading)?;
            let len = bytes.len() as u64;
            let artifact = NewArtifact::from_bytes(bytes);
            let id = artifact.id;
            self.inline_bytes += len;
            self.artifacts.push(artifact);
            return Ok((id, len));
        };
        let mut sink = writer.artifact();
        let mut buffer = vec![0; 256 << 10];
        loop {
            match source.read(&mut buffer).map_err(reading)? {
                0 => break,
                read => sink.write(&buffer[..read]).map_err(writing)?,
            }
        }
        let (id, len) = sink.finish().map_err(writing)?;
        if !self.listed.iter().any(|(listed, _)| *listed == id) {
            self.listed.push((id, len));
        }
        Ok((id, len))
    }

    pub(super) fn read(&mut self, stream: &StreamId, seq: u64, read: SourceRead) -> Result<()> {
        self.frame(stream.clone(), read.into(), Some(seq))
    }

    fn frame(&mut self, stream: StreamId, body: Body, expected_seq: Option<u64>) -> Result<()> {
        let draft = Draft::of(&stream, &body)?;
        let (id, timestamp_ms) = (self.store.env.new_id(), self.store.env.now().as_millis());
        self.frames.push(NewFrame { stream, draft, id, timestamp_ms, expected_seq });
        Ok(())
    }

    /// Ends the segment, if there is one with anything in it, and gives all that is to be stored.
    pub(super) fn finish(self) -> Result<(Batch, Option<Digest>)> {
        let mut batch = Batch { artifacts: self.artifacts, frames: self.frames, ..Batch::default() };
        let Some(writer) = self.writer.filter(|_| !self.listed.is_empty()) else { return Ok((batch, None)) };
        let (_, summary, _) = writer.finish().map_err(writing)?;
        batch.segments.push(SegmentRecord { segment: summary.digest, bytes: summary.bytes, artifacts: self.listed });
        Ok((batch, Some(summary.digest)))
    }
}

fn writing(error: SegmentWriteError) -> ServiceError {
    ServiceError::Ledger(error.into())
}

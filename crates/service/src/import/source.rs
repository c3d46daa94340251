//! What is known of a source: the parts it was read in, and how it stood then. All of it follows from its frames.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use enjamb_core::frame::{Body, Json, RawFrame, SourceBody, SourcePart, SourceRead};
use enjamb_core::{ArtifactId, CommitId, Digest, Hasher, StreamId, StreamKind, Timestamp, limits};
use enjamb_ledger::{Ledger, LedgerError};

use crate::{Result, ServiceError, Store};

/// A source as it stood when it was last read.
#[derive(Clone, Debug, Default)]
pub struct SourceState {
    pub path: String,
    pub runtime: String,
    pub format: String,
    pub session: Option<String>,
    pub parts: Vec<KnownPart>,
    pub tail: Option<ArtifactId>,
    pub size: u64,
    pub modified: Option<Timestamp>,
    pub problems: u64,
    /// Secrets that were found in it.
    pub secrets: u64,
    /// Frames that told this.
    pub(crate) next_seq: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KnownPart {
    pub commit: CommitId,
    pub artifact: ArtifactId,
    pub bytes: u64,
}

/// How much of a file is what it was.
pub(super) struct Matched {
    pub parts: usize,
    pub bytes: u64,
    pub lines: u64,
}

/// The stream of a file: its path, or where that is no name for a stream, its digest.
pub(crate) fn stream_of(path: &str) -> StreamId {
    StreamId::new(StreamKind::Source, path).unwrap_or_else(|_| StreamId {
        kind: StreamKind::Source,
        id: format!("~{}", Digest::of(path.as_bytes()).to_hex()),
    })
}

impl Store {
    /// What is known of a source.
    pub fn source(&self, path: &str) -> Result<Option<SourceState>> {
        self.source_in(&stream_of(path))
    }

    pub(crate) fn source_in(&self, stream: &StreamId) -> Result<Option<SourceState>> {
        let mut state = SourceState::default();
        loop {
            let frames = self.ledger.frames(stream, state.next_seq, limits::PAGE_ROWS_MAX)?;
            if frames.is_empty() {
                return Ok((state.next_seq > 0).then_some(state));
            }
            for frame in frames {
                state.next_seq = frame.seq + 1;
                if let Body::Source(SourceBody::SourceRead(read)) = RawFrame::parse(frame.json)?.decode()?.body {
                    state.learn(read)?;
                }
            }
        }
    }

    /// As of its last frame alone: enough to see whether it changed.
    pub(super) fn last_read(&self, stream: &StreamId) -> Result<Option<SourceRead>> {
        let Some(summary) = self.ledger.stream(stream)? else { return Ok(None) };
        let Some(last) = self.ledger.frames(stream, summary.next_seq - 1, 1)?.pop() else { return Ok(None) };
        match RawFrame::parse(last.json)?.decode()?.body {
            Body::Source(SourceBody::SourceRead(read)) => Ok(Some(read)),
            _ => Ok(None),
        }
    }
}

impl SourceState {
    fn learn(&mut self, read: SourceRead) -> Result<()> {
        let mut bytes = 0;
        self.parts.retain(|part| {
            bytes += part.bytes;
            bytes <= read.from
        });
        for part in &read.parts {
            self.parts.push(known(part, &read.path)?);
        }
        self.tail = read.tail_artifact_id.as_deref().map(str::parse).transpose()?;
        self.problems = if read.from == 0 { read.problems } else { self.problems + read.problems };
        let secrets = read.secrets.as_ref().map_or(0, secrets_told);
        self.secrets = if read.from == 0 { secrets } else { self.secrets + secrets };
        self.size = read.size;
        self.modified = read.modified_us.map(Timestamp::from_micros);
        self.session = read.agent_session_id.or(self.session.take());
        (self.path, self.runtime, self.format) = (read.path, read.runtime, read.format);
        Ok(())
    }

    pub fn tip(&self) -> Option<CommitId> {
        self.parts.last().map(|part| part.commit)
    }

    /// Reads the file as far as its parts are what they were.
    pub(super) fn matched(&self, file: &mut File, path: &Path, size: u64) -> Result<Matched> {
        let mut matched = Matched { parts: 0, bytes: 0, lines: 0 };
        seek(file, path, 0)?;
        for part in &self.parts {
            let mut lines = 0;
            if matched.bytes + part.bytes > size
                || digest_of(file, path, part.bytes, &mut lines)? != part.artifact.digest()
            {
                break;
            }
            matched.parts += 1;
            matched.bytes += part.bytes;
            matched.lines += lines;
        }
        Ok(matched)
    }

    /// Whether what follows the parts is what it was.
    pub(super) fn tail_matches(&self, file: &mut File, path: &Path, from: u64) -> Result<bool> {
        let Some(tail) = self.tail else { return Ok(from == self.size) };
        seek(file, path, from)?;
        Ok(digest_of(file, path, self.size - from, &mut 0)? == tail.digest())
    }
}

fn secrets_told(told: &Json) -> u64 {
    let told: serde_json::Value = serde_json::from_str(told.get()).unwrap_or_default();
    told["found"].as_object().into_iter().flatten().filter_map(|(_, count)| count.as_u64()).sum()
}

fn known(part: &SourcePart, path: &str) -> Result<KnownPart> {
    let damaged = || LedgerError::corrupt(format!("source {path}"), "a part of it names no commit or no artifact");
    let commit = part.commit_id.parse().map_err(|_| damaged())?;
    let artifact = part.artifact_id.parse().map_err(|_| damaged())?;
    Ok(KnownPart { commit, artifact, bytes: part.bytes })
}

/// The digest of the next bytes of a file, and how many lines end in them.
fn digest_of(file: &mut File, path: &Path, bytes: u64, lines: &mut u64) -> Result<Digest> {
    let mut hasher = Hasher::new();
    let mut rest = bytes;
    let mut buffer = vec![0; 256 << 10];
    while rest > 0 {
        let want = buffer.len().min(usize::try_from(rest).unwrap_or(usize::MAX));
        let read = file.read(&mut buffer[..want]).map_err(|source| failed(path, source))?;
        if read == 0 {
            break;
        }
        *lines += buffer[..read].iter().filter(|byte| **byte == b'\n').count() as u64;
        hasher.update(&buffer[..read]);
        rest -= read as u64;
    }
    Ok(hasher.finish())
}

pub(super) fn seek(file: &mut File, path: &Path, offset: u64) -> Result<()> {
    file.seek(SeekFrom::Start(offset)).map(drop).map_err(|source| failed(path, source))
}

pub(super) fn failed(path: &Path, source: std::io::Error) -> ServiceError {
    ServiceError::File { path: path.to_owned(), source }
}

//! One consistent look at a store: rows of its index, and the records that they lead to. Every engine that folds the log
//! into rows answers through this, so that their answers cannot differ.

mod answers;
mod commits;
mod timeline;

use enjamb_core::order::{MarkKey, Scope};
use enjamb_core::{ArtifactId, Digest, StreamId};

use crate::error::LedgerError;
use crate::index::{ArtifactRow, Index, IndexError, Lookup, Place, StreamRow, unreadable};
use crate::record::{FrameRecord, Record, STATION};
use crate::{Result, StoredFrame, StreamSummary};

pub(crate) use answers::answers;

/// Records by their numbers, wherever they are.
pub(crate) trait ByNumber {
    fn record(&self, n: u64) -> Result<Record>;
    /// Several at once, in the order in which they are asked for.
    fn records(&self, numbers: &[u64]) -> Result<Vec<Record>>;
    /// The segment that the record is in; `None` when it is in the log.
    fn segment_of(&self, n: u64) -> Result<Option<Digest>>;
}

pub(crate) struct Look<'c> {
    pub(crate) index: Index<'c>,
    pub(crate) records: &'c dyn ByNumber,
}

/// Why a look failed: the index wants rebuilding, or the store itself has something to say.
pub(crate) enum Trouble {
    Index(IndexError),
    Store(LedgerError),
}

pub(crate) type Looked<T> = std::result::Result<T, Trouble>;

impl From<IndexError> for Trouble {
    fn from(error: IndexError) -> Self {
        Self::Index(error)
    }
}

impl From<LedgerError> for Trouble {
    fn from(error: LedgerError) -> Self {
        Self::Store(error)
    }
}

pub(crate) fn told(trouble: Trouble) -> LedgerError {
    match trouble {
        Trouble::Index(error) => unreadable(error),
        Trouble::Store(error) => error,
    }
}

impl Look<'_> {
    /// Up to `limit` frames from `from_seq` on, each checked against the chain of the one before.
    pub(crate) fn frames(&self, stream: &StreamId, from_seq: u64, limit: usize) -> Looked<Vec<StoredFrame>> {
        let Some(row) = self.index.stream(stream)? else { return Ok(Vec::new()) };
        let mut chain = self.chain_before(&row, stream, from_seq)?;
        let numbers = self.index.frames(&row, from_seq, limit)?;
        let mut frames = Vec::with_capacity(numbers.len());
        for ((record, n), seq) in self.records.records(&numbers)?.into_iter().zip(numbers).zip(from_seq..) {
            let frame = framed(record, n, stream, seq)?;
            chain = following(&frame, n, &chain)?;
            frames.push(StoredFrame { seq, chain, key: frame.key, json: frame.json });
        }
        Ok(frames)
    }

    /// The chain value that frame `seq` must follow. Sealed frames are walked from the last one that has its own.
    fn chain_before(&self, row: &StreamRow, stream: &StreamId, seq: u64) -> Looked<Digest> {
        if seq == 0 || seq > row.next_seq {
            return Ok(Digest::ZERO);
        }
        let (_, before) = self.frame_at(row, stream, seq - 1)?;
        if let Some(chain) = before.chain {
            return Ok(chain);
        }
        let first = (seq - 1) / STATION * STATION;
        let mut chain = match first {
            0 => Digest::ZERO,
            first => self.frame_at(row, stream, first - 1)?.1.recorded_chain()?,
        };
        for seq in first..seq {
            let (n, frame) = self.frame_at(row, stream, seq)?;
            chain = following(&frame, n, &chain)?;
        }
        Ok(chain)
    }

    fn frame_at(&self, row: &StreamRow, stream: &StreamId, seq: u64) -> Looked<(u64, FrameRecord)> {
        let n = self.index.frames(row, seq, 1)?[0];
        Ok((n, framed(self.records.record(n)?, n, stream, seq)?))
    }

    pub(crate) fn inline_bytes(&self, id: &ArtifactId, row: &ArtifactRow) -> Looked<Vec<u8>> {
        match self.records.record(row.n)? {
            // Decoding derives the id from the bytes, so equal ids are the digest check.
            Record::Bytes { id: found, bytes } if found == *id => Ok(bytes),
            _ => Err(LedgerError::corrupt(id.to_string(), format!("record {} does not hold its bytes", row.n)).into()),
        }
    }

    /// Where the bytes are of artifacts with one of these policies: in which segments, or `None`: in the log.
    pub(crate) fn places_of(&self, policies: &[&str]) -> Looked<Vec<Option<Digest>>> {
        let marks = self.index.marks(&Scope::Store, &MarkKey::Policy(ArtifactId::of(b"")))?;
        let kept = marks.iter().filter(|(_, policy)| policies.contains(&policy.as_str()));
        let mut places = Vec::new();
        for id in kept.filter_map(|(id, _)| id.parse::<ArtifactId>().ok()) {
            let Some(row) = self.index.artifact(&id)? else { continue };
            places.push(match row.place {
                Place::Segment => Some(self.segment_of(&id, &row)?),
                Place::Record => self.records.segment_of(row.n)?,
            });
        }
        Ok(places)
    }

    /// Whether the index finds an artifact in this very record. A segment may hold several, of which some were dropped.
    pub(crate) fn is_wanted(&self, n: u64) -> Looked<bool> {
        let ids = match self.records.record(n)? {
            Record::Bytes { id, .. } => vec![id],
            Record::Segment(segment) => segment.artifacts.into_iter().map(|(id, _)| id).collect(),
            Record::Frame(_) | Record::Dropped { .. } => Vec::new(),
        };
        for id in ids {
            if self.index.artifact(&id)?.is_some_and(|row| row.n == n) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    pub(crate) fn segment_of(&self, id: &ArtifactId, row: &ArtifactRow) -> Looked<Digest> {
        match self.records.record(row.n)? {
            Record::Segment(segment) => Ok(segment.segment),
            _ => Err(LedgerError::corrupt(id.to_string(), format!("record {} names no segment", row.n)).into()),
        }
    }
}

pub(crate) fn summary(stream: StreamId, row: &StreamRow) -> StreamSummary {
    StreamSummary {
        stream,
        next_seq: row.next_seq,
        chain: row.chain,
        first_ms: row.first_ms,
        last_ms: row.last_ms,
        bytes: row.bytes,
        messages: row.messages,
    }
}

fn framed(record: Record, n: u64, stream: &StreamId, seq: u64) -> Result<FrameRecord> {
    match record {
        Record::Frame(frame) if frame.stream == *stream && frame.seq == seq => Ok(frame),
        _ => Err(LedgerError::corrupt(format!("record {n}"), format!("it is not frame {seq} of {stream}"))),
    }
}

fn following(frame: &FrameRecord, n: u64, previous: &Digest) -> Result<Digest> {
    let subject = || format!("frame {} of {} (record {n})", frame.seq, frame.stream);
    let unlike = || LedgerError::corrupt(subject(), "its digest does not follow from the frame before");
    frame.following(previous).ok_or_else(unlike)
}

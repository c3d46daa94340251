//! Where bytes live: an append-only log of records, an index folded from it, and segments of cold or large bytes.
//!
//! [`Batch`] is the only way in. An append is answered after the sync, so what was acknowledged is on disk. Everything
//! that is looked up is folded from the log by one function, so the index may be lost at any time.

mod batch;
mod engine;
mod error;
mod group;
mod index;
mod job;
mod look;
mod memory;
mod objects;
mod plan;
mod postgres;
pub mod private;
mod record;
mod repack;
mod seal;
pub mod segment;
mod segments;
mod sqlite;
mod timeline;
mod trust;
mod turns;

use std::ops::Range;
use std::sync::Arc;

use enjamb_core::chain::{CommitKind, Stop};
use enjamb_core::frame::ContextCommitted;
use enjamb_core::lexicon::Postings;
use enjamb_core::order::{MarkKey, Scope};
use enjamb_core::{ArtifactId, CommitId, Digest, StreamId, Timestamp};

pub use batch::{Appended, Batch, FrameAt, NewArtifact, NewFrame, RequestDigest};
pub use engine::{Engine, link_database, link_objects, linked_database, linked_objects};
pub use enjamb_core::frame::KeyUse;
pub use error::{LedgerError, Outcome};
pub use index::{StreamOrder, Totals};
pub use job::{Fence, Job, JobKind};
pub use memory::MemoryLedger;
pub use objects::{ConditionalPuts, Objects, ObjectsAddress, ObjectsError};
pub use postgres::{PostgresLedger, PostgresOptions, ServerSettings, is_database, namespace_address, shown_address};
pub use record::{FrameRecord, Record, SegmentRecord};
pub use seal::Sealed;
pub use segments::{Lease, NewSegment, SegmentFile, Segments};
pub use sqlite::{ArtifactPlace, Backup, Checked, Finding, SealedRange, SqliteLedger, SqliteOptions};
pub use timeline::Span;
pub use trust::tls;

pub type Result<T> = std::result::Result<T, LedgerError>;

/// A stream as listings show it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamSummary {
    pub stream: StreamId,
    pub next_seq: u64,
    /// Covers every frame of the stream: two streams with equal chains are equal.
    pub chain: Digest,
    pub first_ms: u64,
    pub last_ms: u64,
    pub bytes: u64,
    /// Messages among the frames, if it is a thread.
    pub messages: u64,
}

/// The order in which marks are walked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Walk {
    Forward,
    /// Last first.
    Back,
}

/// A frame as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredFrame {
    pub seq: u64,
    pub chain: Digest,
    /// The key that it was stored with, if it was the first of a request.
    pub key: Option<KeyUse>,
    pub json: Vec<u8>,
}

/// An artifact as listings show it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArtifactSummary {
    pub id: ArtifactId,
    pub len: u64,
}

/// Which of what was asked for are in the store, in the order of asking.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Present {
    pub commits: Vec<bool>,
    pub artifacts: Vec<bool>,
}

/// A commit's place in its chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    pub id: CommitId,
    pub parent: Option<CommitId>,
    pub kind: CommitKind,
    /// Commits between it and the first of its chain.
    pub generation: u64,
    pub created_at: Timestamp,
}

/// What a commit holds: its place in the chain, and how to come by its delta.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    pub link: Link,
    /// `None` when what the commit names is no artifact id.
    pub artifact: Option<ArtifactId>,
    pub format: Arc<str>,
    pub messages: u64,
    pub tokens: u64,
    /// Bytes of the delta, as far as it was here when the commit came.
    pub len: u64,
    /// Where the engine has the delta, if that is quicker than looking it up.
    place: u64,
}

/// A commit with the words that were said of it last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredCommit {
    pub link: Link,
    pub stream: StreamId,
    pub seq: u64,
    pub commit: ContextCommitted,
    pub summary: Option<String>,
    pub tags: Vec<String>,
}

/// Told how much of how much is done.
pub type Progress<'a> = dyn FnMut(u64, u64) + 'a;

/// Takes bytes as they are read and verified.
pub type Sink<'a> = dyn FnMut(&[u8]) -> std::io::Result<()> + 'a;

impl Part {
    /// The artifact that the commit names.
    pub fn named(&self) -> Result<ArtifactId> {
        let nothing = || LedgerError::corrupt(format!("commit {}", self.link.id), "it names no artifact");
        self.artifact.ok_or_else(nothing)
    }
}

/// Takes pieces of parts as they are read and verified.
pub type PartSink<'a> = dyn FnMut(usize, &[u8]) -> std::io::Result<()> + 'a;

/// A store of records and what can be asked of it. Every engine answers alike.
pub trait Ledger: Send + Sync {
    /// Stores a batch, all or nothing, and returns when it is on disk.
    fn append(&self, batch: Batch) -> Result<Appended>;
    /// Stores several batches as if each had come alone, in this order, and returns when all are on disk.
    fn append_all(&self, batches: Vec<Batch>) -> Vec<Result<Appended>> {
        batches.into_iter().map(|batch| self.append(batch)).collect()
    }
    fn totals(&self) -> Result<Totals>;
    fn stream(&self, stream: &StreamId) -> Result<Option<StreamSummary>>;
    fn streams(&self, kind: Option<&str>, order: StreamOrder, limit: usize) -> Result<Vec<StreamSummary>>;
    /// Up to `limit` frames from `from_seq` on, each checked against the chain of the one before.
    fn frames(&self, stream: &StreamId, from_seq: u64, limit: usize) -> Result<Vec<StoredFrame>>;
    fn artifact(&self, id: &ArtifactId) -> Result<Option<ArtifactSummary>>;
    /// Up to `limit` artifacts whose digest lies in `low..=high`, in the order of their ids.
    fn artifacts(&self, low: &[u8], high: &[u8], limit: usize) -> Result<Vec<ArtifactSummary>>;
    /// Streams an artifact, or a range of it, into `sink`. No byte is handed out before it was checked.
    fn read(&self, id: &ArtifactId, range: Option<Range<u64>>, sink: &mut Sink<'_>) -> Result<()>;
    /// Which of these are in the store, all found with one look.
    fn present(&self, commits: &[CommitId], artifacts: &[ArtifactId]) -> Result<Present>;
    fn mark(&self, scope: &Scope, key: &MarkKey) -> Result<Option<String>>;
    /// The marks of a scope that are of the same kind as `like`: (what each is about, value), in order.
    fn marks(&self, scope: &Scope, like: &MarkKey) -> Result<Vec<(String, String)>>;
    /// Up to `limit` marks of a scope whose encoded keys lie in `from..=to`.
    fn marks_in(
        &self,
        scope: &Scope,
        from: &MarkKey,
        to: &MarkKey,
        walk: Walk,
        limit: usize,
    ) -> Result<Vec<(MarkKey, String)>>;
    /// The seq of a thread's message by its number, the first being 1.
    fn message_numbered(&self, thread: &StreamId, ordinal: u64) -> Result<Option<u64>>;
    /// Up to `limit` messages of a thread, up to a seq, in which a word comes (`core::lexicon`); the last first.
    fn postings(&self, thread: &StreamId, word: &str, upto_seq: u64, limit: usize) -> Result<Postings>;
    /// The words that begin so, each with the threads that it comes in: by word, and then by the name of the thread.
    fn words(&self, prefix: &str) -> Result<Vec<(String, StreamId)>>;
    fn commit(&self, id: &CommitId) -> Result<Option<StoredCommit>>;
    /// Up to `limit` commits whose id lies in `low..=high`, in the order of their ids.
    fn commits(&self, low: &[u8], high: &[u8], limit: usize) -> Result<Vec<CommitId>>;
    /// The commits from `tip` back to the stop, tip first, at most `limit` of them. `None` when there is no such tip.
    fn walk(&self, tip: &CommitId, stop: &Stop, limit: usize) -> Result<Option<Vec<Link>>>;
    /// As `walk`, with what each commit holds.
    fn parts(&self, tip: &CommitId, stop: &Stop, limit: usize) -> Result<Option<Vec<Part>>>;
    /// Streams the deltas of parts, one after the other, each piece with the number of its part among them. No byte is
    /// handed out before it was checked.
    fn read_parts(&self, parts: &[Part], sink: &mut PartSink<'_>) -> Result<()>;
    /// The commits whose parent this is, oldest first.
    fn children(&self, id: &CommitId) -> Result<Vec<CommitId>>;
    /// The last commit of a principal at or before an instant; of several at that instant, the one stored last.
    fn commit_at(&self, principal: &StreamId, at: Timestamp) -> Result<Option<CommitId>>;
    /// Up to `limit` commits of a span, newest first; of several at one instant, by the name of the principal, last first,
    /// and of one principal the one stored last.
    fn timeline(&self, span: &Span, limit: usize) -> Result<Vec<CommitId>> {
        timeline::read(self, span, limit)
    }
    /// Up to `limit` commits that nobody has summarised, oldest first: those stored after another one, or all.
    fn unsummarised(&self, after: Option<&CommitId>, limit: usize) -> Result<Vec<CommitId>>;
    /// Every frame from record `from` on, in the order of the log, until `visit` says to stop.
    fn each_frame(&self, from: u64, visit: &mut dyn FnMut(u64, &FrameRecord) -> Result<bool>) -> Result<()>;
    /// The number of the last record. It grows with every append, by whichever process.
    fn position(&self) -> Result<u64>;
}

/// The part of an artifact of `len` bytes that a range asks for.
fn clip(id: &ArtifactId, len: u64, range: Option<Range<u64>>) -> Result<Range<u64>> {
    match range {
        None => Ok(0..len),
        Some(range) if range.start <= range.end && range.end <= len => Ok(range),
        Some(range) => Err(LedgerError::BadRange { id: *id, from: range.start, to: range.end, len }),
    }
}

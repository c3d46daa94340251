//! What can go wrong between a request and the disk.

use std::path::PathBuf;

use enjamb_core::frame::FrameError;
use enjamb_core::order::{Refusal, Rule};
use enjamb_core::{ArtifactId, Digest, ErrorKind, StreamId};

use crate::job::JobKind;
use crate::objects::ObjectsError;
use crate::segment::{SegmentError, SegmentWriteError};

/// What is damaged when SQLite cannot read its own pages.
const DATABASE: &str = "a database file";

/// Whether a failed write may have been stored all the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Nothing was written.
    None,
    /// It may or may not be stored; a retry with the same idempotency key settles it.
    Indeterminate,
}

#[derive(Debug, thiserror::Error)]
pub enum LedgerError {
    #[error(transparent)]
    Frame(#[from] FrameError),
    #[error(transparent)]
    Refused(#[from] Box<Refusal>),
    #[error("stream {stream} is at seq {actual}, not {expected}: read it again and append after what is there")]
    SeqConflict { stream: StreamId, expected: u64, actual: u64 },
    #[error("idempotency key {key:?} was used for another request on stream {stream}, at seq {seq}")]
    KeyReused { stream: StreamId, key: String, seq: u64 },
    #[error("idempotency key {0:?} is not 1 to 128 visible ASCII characters")]
    BadKey(String),
    #[error("{what} has {} {unit}, and the limit is {limit}", size.map_or_else(|| "too many".to_owned(), |size| size.to_string()))]
    TooLarge { what: &'static str, size: Option<u64>, limit: u64, unit: &'static str },
    #[error("artifact {0} was dropped while this was being written: send its bytes again")]
    ArtifactGone(ArtifactId),
    #[error("no artifact {0}")]
    NoArtifact(ArtifactId),
    #[error("range {from}-{to} is past the end of {id}, which has {len} bytes")]
    BadRange { id: ArtifactId, from: u64, to: u64, len: u64 },
    #[error("{what} is damaged: {detail}")]
    Corrupt { what: String, detail: String },
    #[error("no enjamb store at {}", .0.display())]
    NoStore(PathBuf),
    #[error("{} is not an enjamb store: {detail}", path.display())]
    NotAStore { path: PathBuf, detail: String },
    #[error("{} has store format {found}, and this version reads up to {supported}", path.display())]
    TooNew { path: PathBuf, found: u32, supported: u32 },
    #[error("{} cannot be used: {detail}", path.display())]
    Denied { path: PathBuf, detail: String },
    #[error("no space left while {doing}")]
    Full { doing: &'static str },
    #[error("the store is busy: another process held its lock for {waited_s} s while {doing}")]
    Busy { doing: &'static str, waited_s: u64 },
    #[error(
        "a sync failed earlier, so this process will not write again: start a new one, and retry with the same idempotency key"
    )]
    Poisoned,
    #[error("{address} is no address of a database: {detail}")]
    BadAddress { address: String, detail: String },
    #[error("{address} is no address of an object store: {detail}")]
    BadObjects { address: String, detail: String },
    #[error("the segments of {store} are in {there}, not in {named}: leave --objects out, or name where they are")]
    ObjectsDiffer { store: String, there: String, named: String },
    #[error(transparent)]
    Objects(ObjectsError),
    #[error("segment {0} was taken away while this was being written: send its bytes again")]
    SegmentGone(Digest),
    #[error("{what} is not for a store in a database: {instead}")]
    NotInDatabase { what: &'static str, instead: &'static str },
    #[error("another node is at {job}; one that dies loses its turn within {silence_s} s")]
    JobTaken { job: JobKind, silence_s: u64 },
    #[error("this node was silent for too long and lost its turn at {job}: another one has taken over")]
    JobLost { job: JobKind },
    #[error("{server} cannot be reached: {detail}")]
    Unreachable { server: String, detail: String },
    #[error("the database failed while {doing}: {detail}")]
    Database { doing: &'static str, detail: String, outcome: Outcome },
    #[error("disk error while {doing}: {detail}")]
    Disk { doing: &'static str, detail: String, outcome: Outcome },
    #[error("disk error on {}: {source}", path.display())]
    Io { path: PathBuf, source: std::io::Error },
    #[error("the output was closed: {0}")]
    Output(std::io::Error),
    #[error(transparent)]
    Segment(#[from] SegmentError),
    #[error("cannot write a segment: {0}")]
    SegmentWrite(SegmentWriteError),
}

impl From<SegmentWriteError> for LedgerError {
    fn from(error: SegmentWriteError) -> Self {
        match error {
            SegmentWriteError::Io(source) => Self::io("a new segment", source),
            SegmentWriteError::ArtifactTooLarge { max } => {
                Self::TooLarge { what: "the artifact", size: None, limit: max, unit: "bytes" }
            }
            other => Self::SegmentWrite(other),
        }
    }
}

impl LedgerError {
    pub fn corrupt(what: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::Corrupt { what: what.into(), detail: detail.into() }
    }

    /// An operating system error on a path, with the cases that callers tell apart.
    pub fn io(path: impl Into<PathBuf>, source: std::io::Error) -> Self {
        let path = path.into();
        match source.kind() {
            std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => {
                Self::Full { doing: "writing a file" }
            }
            std::io::ErrorKind::PermissionDenied | std::io::ErrorKind::ReadOnlyFilesystem => {
                Self::Denied { path, detail: source.to_string() }
            }
            _ => Self::Io { path, source },
        }
    }

    /// What SQLite said while doing something, with the cases that callers tell apart.
    pub fn sqlite(doing: &'static str, error: &rusqlite::Error) -> Self {
        use rusqlite::ErrorCode;
        let detail = error.to_string();
        let Some(code) = error.sqlite_error_code() else {
            return Self::Disk { doing, detail, outcome: Outcome::None };
        };
        let extended = error.sqlite_error().map_or(0, |error| error.extended_code);
        match code {
            ErrorCode::DiskFull => Self::Full { doing },
            // Even a reader needs a little room, for the memory that it shares with others.
            ErrorCode::SystemIoFailure if extended == rusqlite::ffi::SQLITE_IOERR_SHMSIZE => Self::Full { doing },
            ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked => Self::Busy { doing, waited_s: 60 },
            ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase => Self::corrupt(DATABASE, detail),
            _ => Self::Disk { doing, detail, outcome: Outcome::None },
        }
    }

    /// The same failure, of a write whose commit had begun.
    pub fn indeterminate(self) -> Self {
        match self {
            Self::Disk { doing, detail, .. } => Self::Disk { doing, detail, outcome: Outcome::Indeterminate },
            Self::Database { doing, detail, .. } => Self::Database { doing, detail, outcome: Outcome::Indeterminate },
            other => other,
        }
    }

    pub fn outcome(&self) -> Outcome {
        match self {
            Self::Disk { outcome, .. } | Self::Database { outcome, .. } => *outcome,
            _ => Outcome::None,
        }
    }

    /// Whether the log cannot be read at all, so that nothing can be looked for in it. An index is simply made anew.
    pub fn is_unreadable_log(&self) -> bool {
        matches!(self, Self::Corrupt { what, .. } if what == DATABASE || what.ends_with("log.db"))
    }

    /// Whether the refusal says that this very commit is there already.
    pub fn is_duplicate_commit(&self) -> bool {
        matches!(self, Self::Refused(refusal) if refusal.rule == Rule::DuplicateCommit)
    }

    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Frame(error) => error.kind(),
            Self::Refused(refusal) => refusal.kind(),
            Self::SeqConflict { .. }
            | Self::KeyReused { .. }
            | Self::ArtifactGone(_)
            | Self::SegmentGone(_)
            | Self::JobLost { .. } => ErrorKind::Conflict,
            Self::BadKey(_)
            | Self::TooLarge { .. }
            | Self::BadRange { .. }
            | Self::NotAStore { .. }
            | Self::BadAddress { .. }
            | Self::BadObjects { .. }
            | Self::ObjectsDiffer { .. } => ErrorKind::Invalid,
            Self::NoArtifact(_) | Self::NoStore(_) => ErrorKind::NotFound,
            Self::Corrupt { .. } => ErrorKind::Corrupt,
            Self::TooNew { .. } | Self::NotInDatabase { .. } => ErrorKind::Unsupported,
            Self::Denied { .. } => ErrorKind::Denied,
            Self::Busy { .. } | Self::JobTaken { .. } => ErrorKind::Busy,
            Self::Full { .. } | Self::Poisoned | Self::Disk { .. } | Self::Io { .. } => ErrorKind::Unavailable,
            Self::Unreachable { .. } | Self::Database { .. } | Self::Objects(_) => ErrorKind::Unavailable,
            Self::Segment(error) => segment_kind(error),
            Self::Output(_) => ErrorKind::Unavailable,
            Self::SegmentWrite(_) => ErrorKind::Internal,
        }
    }

    /// A stable word for the failure, the same on every surface.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Frame(error) => error.code(),
            Self::Refused(refusal) => refusal.rule.code(),
            Self::SeqConflict { .. } => "seq-conflict",
            Self::KeyReused { .. } => "idempotency-key-reused",
            Self::BadKey(_) => "bad-idempotency-key",
            Self::TooLarge { .. } => "too-large",
            Self::ArtifactGone(_) => "artifact-gone",
            Self::NoArtifact(_) => "artifact-not-found",
            Self::BadRange { .. } => "bad-range",
            Self::Corrupt { .. } => "corrupt",
            Self::NoStore(_) => "store-not-found",
            Self::NotAStore { .. } => "not-a-store",
            Self::TooNew { .. } => "store-too-new",
            Self::Denied { .. } => "store-denied",
            Self::Full { .. } => "storage-full",
            Self::Busy { .. } => "store-busy",
            Self::Poisoned => "storage-poisoned",
            Self::BadAddress { .. } => "bad-store-address",
            Self::BadObjects { .. } => "bad-objects-address",
            Self::ObjectsDiffer { .. } => "objects-differ",
            Self::Objects(_) => "objects-unavailable",
            Self::SegmentGone(_) => "segment-gone",
            Self::NotInDatabase { .. } => "not-in-database",
            Self::JobTaken { .. } => "job-taken",
            Self::JobLost { .. } => "job-lost",
            Self::Unreachable { .. } => "store-unreachable",
            Self::Disk { .. } | Self::Database { .. } | Self::Io { .. } => "storage-error",
            Self::Output(_) => "output-closed",
            Self::Segment(SegmentError::Io { source, .. }) if is_of_objects(source) => "objects-unavailable",
            Self::Segment(SegmentError::Io { .. }) | Self::SegmentWrite(_) => "storage-error",
            Self::Segment(SegmentError::TooNew { .. }) => "store-too-new",
            Self::Segment(_) => "corrupt",
        }
    }
}

/// Whether it was an object store that failed, and not a disk.
fn is_of_objects(error: &std::io::Error) -> bool {
    error.get_ref().is_some_and(|inner| inner.is::<ObjectsError>())
}

/// A segment that is named but not there, or lacks what it is named for, is as damaged as one with flipped bits.
fn segment_kind(error: &SegmentError) -> ErrorKind {
    match error {
        SegmentError::Io { .. } => ErrorKind::Unavailable,
        SegmentError::TooNew { .. } => ErrorKind::Unsupported,
        SegmentError::Corrupt { .. } | SegmentError::MissingObject { .. } | SegmentError::MissingSegment { .. } => {
            ErrorKind::Corrupt
        }
    }
}

//! Why bytes are no frame.

use crate::{ErrorKind, ParseStreamError};

/// A fault of a frame or of a draft. Each says which field it is about and what was expected there.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    #[error("frame has {bytes} bytes: expected at most {limit}; larger content belongs in an artifact")]
    TooLarge { bytes: usize, limit: usize },
    #[error("frame is not UTF-8 at byte {offset}: expected JSON text in UTF-8")]
    InvalidUtf8 { offset: usize },
    #[error("frame is not JSON at line {line}, column {column}: {problem}")]
    InvalidJson { line: usize, column: usize, problem: String },
    #[error("frame nests deeper than {limit} at byte {offset}: expected at most {limit} levels")]
    TooDeep { offset: usize, limit: usize },
    #[error("frame field {key} is given twice: expected each envelope field once")]
    DuplicateKey { key: &'static str },
    #[error("frame field {field} is missing: expected {expected}")]
    MissingField { field: &'static str, expected: &'static str },
    #[error("frame field {field} is {got}: expected {expected}")]
    BadField { field: &'static str, expected: &'static str, got: String },
    #[error("frame field stream_id names no stream: {0}")]
    BadStream(#[from] ParseStreamError),
    #[error("frame fields session_id {session_id:?} and stream_id {stream_id:?} differ: expected the same id")]
    IdsDiffer { session_id: String, stream_id: String },
    #[error("frame field stream_kind is {given:?}: expected {expected:?}, where frames of type {type_name} live")]
    KindDiffers { type_name: String, given: String, expected: String },
    #[error("frame is of stream {given}: expected {expected}, the stream it is appended to")]
    StreamDiffers { given: String, expected: String },
    #[error("frame field seq is {given}: expected {expected}, the next of stream {stream}")]
    SeqDiffers { given: u64, expected: u64, stream: String },
    #[error("member {member} of {type_name} {problem}")]
    BadMember { type_name: String, member: String, problem: String },
}

impl FrameError {
    /// A stable word for programs.
    pub fn code(&self) -> &'static str {
        match self {
            Self::TooLarge { .. } => "frame-too-large",
            Self::InvalidUtf8 { .. } => "invalid-utf8",
            Self::InvalidJson { .. } => "invalid-json",
            Self::TooDeep { .. } => "too-deep",
            Self::DuplicateKey { .. } => "duplicate-key",
            Self::MissingField { .. } => "missing-field",
            Self::BadField { .. } => "bad-field",
            Self::BadStream(_) => "bad-stream",
            Self::IdsDiffer { .. } | Self::KindDiffers { .. } | Self::StreamDiffers { .. } => "stream-mismatch",
            Self::SeqDiffers { .. } => "seq-mismatch",
            Self::BadMember { .. } => "bad-member",
        }
    }

    pub fn kind(&self) -> ErrorKind {
        match self {
            // The same draft would have been right had the stream not moved on.
            Self::SeqDiffers { .. } => ErrorKind::Conflict,
            Self::TooLarge { .. }
            | Self::InvalidUtf8 { .. }
            | Self::InvalidJson { .. }
            | Self::TooDeep { .. }
            | Self::DuplicateKey { .. }
            | Self::MissingField { .. }
            | Self::BadField { .. }
            | Self::BadStream(_)
            | Self::IdsDiffer { .. }
            | Self::KindDiffers { .. }
            | Self::StreamDiffers { .. }
            | Self::BadMember { .. } => ErrorKind::Invalid,
        }
    }
}

impl From<serde_json::Error> for FrameError {
    fn from(error: serde_json::Error) -> Self {
        Self::InvalidJson { line: error.line(), column: error.column(), problem: problem_of(&error) }
    }
}

/// What `serde_json` has to say, without the position, which is told apart or means nothing inside a member.
pub(super) fn problem_of(error: &serde_json::Error) -> String {
    let text = error.to_string();
    excerpt(text.rsplit_once(" at line ").map_or(text.as_str(), |(problem, _)| problem))
}

/// As much of foreign text as an error message should carry.
pub(super) fn excerpt(text: &str) -> String {
    text.chars().take(200).collect()
}

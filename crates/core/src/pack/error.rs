//! Why something is no context pack.

use crate::ErrorKind;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PackError {
    #[error("this is no JSON: {0}")]
    NotJson(String),
    #[error("{path} {fault}: expected {expected}")]
    Malformed { path: String, fault: &'static str, expected: &'static str },
    #[error("{path} is {kind:?}, which is no kind of source: expected {}", super::source::KINDS.join(", "))]
    UnknownSourceKind { path: String, kind: String },
    #[error("{path} is {version:?}: this version reads context packs {}", super::VERSION)]
    UnknownVersion { path: String, version: String },
    #[error("the pack of session {session} does not match itself: {detail}")]
    Mismatch { session: String, detail: String },
    #[error("Context pack exceeds maximum size of 2 MB (current: {:.2} MB)", *bytes as f64 / f64::from(1 << 20))]
    TooLarge { bytes: u64 },
}

impl PackError {
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::NotJson(_) | Self::Malformed { .. } | Self::UnknownSourceKind { .. } | Self::TooLarge { .. } => {
                ErrorKind::Invalid
            }
            Self::UnknownVersion { .. } => ErrorKind::Unsupported,
            Self::Mismatch { .. } => ErrorKind::Corrupt,
        }
    }

    /// A stable word for programs.
    pub fn code(&self) -> &'static str {
        match self {
            Self::NotJson(_) | Self::Malformed { .. } => "malformed-pack",
            Self::UnknownSourceKind { .. } => "unknown-source-kind",
            Self::UnknownVersion { .. } => "unsupported-pack-version",
            Self::Mismatch { .. } => "pack-hash-mismatch",
            Self::TooLarge { .. } => "context-pack-too-large",
        }
    }
}

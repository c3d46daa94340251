//! What can be wrong with what another store asks or sends.

use enjamb_core::sync::PackageError;
use enjamb_core::{ArtifactId, ErrorKind, StreamId};

#[derive(Debug, thiserror::Error)]
pub enum SyncError {
    #[error(transparent)]
    Package(#[from] PackageError),
    #[error("frame {seq} of {stream} does not follow anything that is here")]
    Gap { stream: StreamId, seq: u64 },
    #[error("what was sent as frame {seq} of {stream} is of another stream or seq, or no frame: {detail}")]
    Misplaced { stream: StreamId, seq: u64, detail: String },
    #[error("streams such as {0} are a store's own, and are not sent")]
    Private(StreamId),
    #[error("{0:?} is no beginning of a digest")]
    BadPrefix(String),
    #[error("frames arrived without artifact {0}, which they need: nothing of this package was stored")]
    Incomplete(ArtifactId),
    #[error("others write to the same streams all the time: nothing of this package was stored")]
    Contended,
}

impl SyncError {
    pub(super) fn gap(stream: &StreamId, seq: u64) -> Self {
        Self::Gap { stream: stream.clone(), seq }
    }

    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Package(_) | Self::Misplaced { .. } | Self::BadPrefix(_) => ErrorKind::Invalid,
            Self::Gap { .. } | Self::Incomplete(_) => ErrorKind::Conflict,
            Self::Private(_) => ErrorKind::Denied,
            Self::Contended => ErrorKind::Busy,
        }
    }

    pub fn code(&self) -> &'static str {
        match self {
            Self::Package(_) => "bad-package",
            Self::Gap { .. } => "sync-gap",
            Self::Misplaced { .. } => "frame-misplaced",
            Self::Incomplete(_) => "sync-incomplete",
            Self::Private(_) => "stream-reserved",
            Self::BadPrefix(_) => "bad-prefix",
            Self::Contended => "sync-contended",
        }
    }
}

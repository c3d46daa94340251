//! Where in the bytes something stands.

use std::fmt;

/// A place in a delta. Lines and items are counted from one, as editors and people do; bytes from zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Position {
    Line { number: u64, offset: u64 },
    Item { number: u64, offset: u64 },
}

impl Position {
    pub const fn offset(self) -> u64 {
        match self {
            Self::Line { offset, .. } | Self::Item { offset, .. } => offset,
        }
    }

    pub const fn number(self) -> u64 {
        match self {
            Self::Line { number, .. } | Self::Item { number, .. } => number,
        }
    }

    /// The same place, after as many lines or items and as many bytes of earlier deltas.
    #[must_use]
    pub(crate) const fn after(self, numbers: u64, bytes: u64) -> Self {
        match self {
            Self::Line { number, offset } => Self::Line { number: number + numbers, offset: offset + bytes },
            Self::Item { number, offset } => Self::Item { number: number + numbers, offset: offset + bytes },
        }
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Line { number, offset } => write!(f, "line {number} (byte {offset})"),
            Self::Item { number, offset } => write!(f, "item {number} (byte {offset})"),
        }
    }
}

/// Bytes that are not what the declared format says they are.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not {format}: {position}: {reason}")]
pub struct FormatError {
    pub format: &'static str,
    pub position: Position,
    pub reason: String,
}

impl FormatError {
    pub const fn kind(&self) -> enjamb_core::ErrorKind {
        enjamb_core::ErrorKind::Invalid
    }
}

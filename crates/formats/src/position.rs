//! Where in the bytes something stands, and what is wrong there.

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
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Line { number, offset } => write!(f, "line {number} (byte {offset})"),
            Self::Item { number, offset } => write!(f, "item {number} (byte {offset})"),
        }
    }
}

/// Something about a transcript that its runtime or provider may not take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Stable, for programs.
    pub code: &'static str,
    pub severity: Severity,
    pub at: Position,
    /// For people.
    pub sentence: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// The runtime or the provider would refuse to go on.
    Error,
    /// It would go on, with less than there was.
    Warning,
}

impl Problem {
    pub fn error(code: &'static str, at: Position, sentence: impl Into<String>) -> Self {
        Self { code, severity: Severity::Error, at, sentence: sentence.into() }
    }

    pub fn warning(code: &'static str, at: Position, sentence: impl Into<String>) -> Self {
        Self { code, severity: Severity::Warning, at, sentence: sentence.into() }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} [{}]", self.at, self.sentence, self.code)
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

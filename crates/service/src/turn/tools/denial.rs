//! Why a call is not made.

use std::fmt;

use enjamb_core::ErrorKind;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Denial {
    Unknown(String),
    /// Arguments that are not what the tool's schema says.
    Arguments(String),
    /// A path that leads out of the workspace.
    Outside(String),
    /// The files that it may change could not be set aside.
    NoCheckpoint(String),
    /// The run was called off.
    Cancelled,
}

impl Denial {
    /// A stable word.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Unknown(_) => "unknown-tool",
            Self::Arguments(_) => "invalid-arguments",
            Self::Outside(_) => "path-outside-workspace",
            Self::NoCheckpoint(_) => "no-checkpoint",
            Self::Cancelled => "cancelled",
        }
    }

    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Unknown(_) => ErrorKind::NotFound,
            Self::Arguments(_) => ErrorKind::Invalid,
            Self::Outside(_) => ErrorKind::Denied,
            Self::NoCheckpoint(_) | Self::Cancelled => ErrorKind::Unavailable,
        }
    }
}

impl fmt::Display for Denial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown(said) => write!(f, "unknown tool: {said}"),
            Self::Arguments(said) => write!(f, "invalid arguments: {said}"),
            Self::Outside(said) => write!(f, "path outside the workspace: {said}"),
            Self::NoCheckpoint(said) => write!(f, "no checkpoint of the workspace: {said}"),
            Self::Cancelled => f.write_str("cancelled"),
        }
    }
}

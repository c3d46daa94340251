//! The signals that a task may be sent.

use std::str::FromStr;

use rustix::process::Signal;
use serde::{Deserialize, Serialize};

use super::TaskError;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TaskSignal {
    Int,
    Quit,
    Term,
    Hup,
    Kill,
}

const NAMES: &[(&str, TaskSignal)] = &[
    ("INT", TaskSignal::Int),
    ("QUIT", TaskSignal::Quit),
    ("TERM", TaskSignal::Term),
    ("HUP", TaskSignal::Hup),
    ("KILL", TaskSignal::Kill),
];

impl TaskSignal {
    pub(super) fn raw(self) -> Signal {
        match self {
            Self::Int => Signal::INT,
            Self::Quit => Signal::QUIT,
            Self::Term => Signal::TERM,
            Self::Hup => Signal::HUP,
            Self::Kill => Signal::KILL,
        }
    }
}

/// `INT`, `SIGINT`, in any case.
impl FromStr for TaskSignal {
    type Err = TaskError;

    fn from_str(text: &str) -> Result<Self, TaskError> {
        let upper = text.to_ascii_uppercase();
        let name = upper.strip_prefix("SIG").unwrap_or(&upper);
        let known = NAMES.iter().find(|(known, _)| *known == name);
        known.map(|(_, signal)| *signal).ok_or_else(|| TaskError::UnknownSignal(text.chars().take(40).collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_go_by_their_names() {
        for text in ["TERM", "SIGTERM", "term", "SigTerm"] {
            assert_eq!(text.parse::<TaskSignal>().unwrap(), TaskSignal::Term);
        }
        for text in ["", "SIG", "USR1", "15", "SIGSIGTERM"] {
            assert_eq!(text.parse::<TaskSignal>().unwrap_err().code(), "unknown-signal");
        }
    }
}

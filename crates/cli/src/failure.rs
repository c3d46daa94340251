//! Failures as people and programs see them: one sentence, what to do, and an exit code that never changes.

use std::process::ExitCode;

use enjamb_core::ErrorKind;
use enjamb_ledger::{LedgerError, Outcome};
use enjamb_service::ServiceError;

use crate::text::safe;
use crate::ui::Ui;

/// How a command ended when nothing went wrong with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    Done,
    /// The answer is no.
    No,
    /// Something stored is damaged; it was named.
    Damaged,
    /// Some inputs were not taken; they were named.
    Partly,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(match exit {
            Exit::Done => 0,
            Exit::No => 1,
            Exit::Damaged => 6,
            Exit::Partly => 10,
        })
    }
}

#[derive(Debug)]
pub enum Failure {
    Service(ServiceError),
    /// The command was used in a way that it cannot be.
    Usage { message: String, help: Option<String> },
    /// Our output could not be written.
    Output(std::io::Error),
}

pub type Result<T> = std::result::Result<T, Failure>;

impl From<ServiceError> for Failure {
    fn from(error: ServiceError) -> Self {
        Self::Service(error)
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        Self::Output(error)
    }
}

/// The one table from kinds of failure to exit codes.
fn exit_code(kind: ErrorKind) -> u8 {
    match kind {
        ErrorKind::Invalid | ErrorKind::Unsupported => 2,
        ErrorKind::NotFound => 3,
        ErrorKind::Ambiguous => 4,
        ErrorKind::Conflict => 5,
        ErrorKind::Corrupt => 6,
        ErrorKind::Denied => 7,
        ErrorKind::Unavailable => 8,
        ErrorKind::Busy => 9,
        ErrorKind::Internal => 70,
    }
}

const CLOSED_PIPE: u8 = 141;

impl Failure {
    pub fn usage(message: impl Into<String>) -> Self {
        Self::Usage { message: message.into(), help: None }
    }

    /// Says what happened on stderr and returns the exit code. A closed pipe is not worth a word.
    pub fn report(&self, ui: &Ui) -> ExitCode {
        if self.is_closed_output() {
            return ExitCode::from(CLOSED_PIPE);
        }
        if ui.is_json() {
            ui.error_line(&self.problem().to_string());
        } else {
            self.lines().iter().for_each(|line| ui.error_line(line));
        }
        ExitCode::from(self.exit_code())
    }

    fn is_closed_output(&self) -> bool {
        match self {
            Self::Service(error) => error.is_closed_output(),
            Self::Output(error) => error.kind() == std::io::ErrorKind::BrokenPipe,
            Self::Usage { .. } => false,
        }
    }

    fn exit_code(&self) -> u8 {
        match self {
            Self::Service(error) => exit_code(error.kind()),
            Self::Usage { .. } => 2,
            Self::Output(_) => 8,
        }
    }

    fn code(&self) -> &'static str {
        match self {
            Self::Service(error) => error.code(),
            Self::Usage { .. } => "bad-request",
            Self::Output(_) => "output-error",
        }
    }

    fn message(&self) -> String {
        match self {
            Self::Service(error) => error.to_string(),
            Self::Usage { message, .. } => message.clone(),
            Self::Output(error) => format!("cannot write the output: {error}"),
        }
    }

    fn help(&self) -> Option<String> {
        match self {
            Self::Service(error) => error.help(),
            Self::Usage { help, .. } => help.clone(),
            Self::Output(_) => None,
        }
    }

    fn candidates(&self) -> &[String] {
        match self {
            Self::Service(ServiceError::Ambiguous { candidates, .. }) => candidates,
            _ => &[],
        }
    }

    fn outcome(&self) -> Outcome {
        match self {
            Self::Service(error) => error.outcome(),
            Self::Usage { .. } | Self::Output(_) => Outcome::None,
        }
    }

    fn lines(&self) -> Vec<String> {
        let mut lines = vec![format!("error: {}", safe(&self.message()))];
        lines.extend(self.candidates().iter().map(|candidate| format!("  {}", safe(candidate))));
        if self.outcome() == Outcome::Indeterminate {
            lines.push("why:   the disk failed in the middle, so it may or may not be stored".into());
            lines.push("help:  try again with the same --key: it will be there once".into());
        }
        lines.extend(self.help().map(|help| format!("help:  {}", safe(&help))));
        lines
    }

    fn problem(&self) -> serde_json::Value {
        let outcome = match self.outcome() {
            Outcome::None => "none",
            Outcome::Indeterminate => "indeterminate",
        };
        let mut problem = serde_json::json!({
            "schema": "enjamb.problem/1",
            "type": format!("https://enjamb.dev/errors/{}", self.code()),
            "code": self.code(),
            "title": self.message(),
            "exit": self.exit_code(),
            "outcome": outcome,
            "retryable": matches!(self, Self::Service(error) if matches!(error.kind(), ErrorKind::Busy | ErrorKind::Unavailable)),
        });
        if !self.candidates().is_empty() {
            problem["candidates"] = self.candidates().into();
        }
        if let Some(help) = self.help() {
            problem["help"] = help.into();
        }
        problem
    }
}

impl From<LedgerError> for Failure {
    fn from(error: LedgerError) -> Self {
        Self::Service(error.into())
    }
}

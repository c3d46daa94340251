//! Failures as people and programs see them: one sentence, what to do, and an exit code that never changes.

use std::process::ExitCode;

use enjamb_ledger::LedgerError;
use enjamb_server::wire;
use enjamb_service::{Outcome, ServiceError};

use crate::text::{safe_json, safe_line};
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
    /// Somebody else's program ended so.
    Passed(u8),
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(match exit {
            Exit::Done => 0,
            Exit::No => 1,
            Exit::Damaged => 6,
            Exit::Partly => 10,
            Exit::Passed(code) => code,
        })
    }
}

#[derive(Debug)]
pub enum Failure {
    Service(ServiceError),
    /// The command was used in a way that it cannot be.
    Usage {
        message: String,
        help: Option<String>,
    },
    /// Our output could not be written.
    Output(std::io::Error),
    /// An operation was refused, here or by a server, as a problem document.
    Problem(serde_json::Value),
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
            ui.error_line(&safe_json(&self.problem()));
        } else {
            self.lines().iter().for_each(|line| ui.error_line(line));
        }
        ExitCode::from(self.exit_code())
    }

    fn is_closed_output(&self) -> bool {
        match self {
            Self::Service(error) => error.is_closed_output(),
            Self::Output(error) => error.kind() == std::io::ErrorKind::BrokenPipe,
            Self::Usage { .. } | Self::Problem(_) => false,
        }
    }

    fn exit_code(&self) -> u8 {
        match self {
            Self::Service(error) => wire::numbers(error.kind()).exit,
            Self::Usage { .. } => 2,
            Self::Output(_) => 8,
            Self::Problem(problem) => problem["exit"].as_u64().and_then(|exit| exit.try_into().ok()).unwrap_or(70),
        }
    }

    fn message(&self) -> String {
        match self {
            Self::Service(error) => error.to_string(),
            Self::Usage { message, .. } => message.clone(),
            Self::Output(error) => format!("cannot write the output: {error}"),
            Self::Problem(problem) => problem["title"].as_str().unwrap_or_default().to_owned(),
        }
    }

    fn help(&self) -> Option<String> {
        match self {
            Self::Service(error) => error.help(),
            Self::Usage { help, .. } => help.clone(),
            Self::Output(_) => None,
            Self::Problem(problem) => problem["help"].as_str().map(str::to_owned),
        }
    }

    fn candidates(&self) -> Vec<String> {
        match self {
            Self::Service(ServiceError::Ambiguous { candidates, .. }) => candidates.clone(),
            Self::Problem(problem) => {
                let listed = problem["candidates"].as_array().into_iter().flatten();
                listed.filter_map(|one| one.as_str().map(str::to_owned)).collect()
            }
            _ => Vec::new(),
        }
    }

    fn outcome(&self) -> Outcome {
        match self {
            Self::Service(error) => error.outcome(),
            Self::Usage { .. } | Self::Output(_) => Outcome::None,
            Self::Problem(problem) if problem["outcome"] == "indeterminate" => Outcome::Indeterminate,
            Self::Problem(_) => Outcome::None,
        }
    }

    fn lines(&self) -> Vec<String> {
        let mut lines = vec![format!("error: {}", safe_line(&self.message()))];
        lines.extend(self.candidates().iter().map(|candidate| format!("  {}", safe_line(candidate))));
        if self.outcome() == Outcome::Indeterminate {
            lines.push("why:   it failed in the middle, so it may or may not be stored".into());
            lines.push("help:  try again: bytes are kept once, and so are frames with the same --key".into());
        }
        lines.extend(self.help().map(|help| format!("help:  {}", safe_line(&help))));
        lines
    }

    fn problem(&self) -> serde_json::Value {
        let mut problem = match self {
            Self::Service(error) => wire::problem(error),
            Self::Usage { help, .. } => {
                serde_json::json!({"code": "bad-request", "title": self.message(), "exit": 2, "help": help})
            }
            Self::Output(_) => serde_json::json!({"code": "output-error", "title": self.message(), "exit": 8}),
            Self::Problem(problem) => problem.clone(),
        };
        problem["schema"] = "enjamb.problem/1".into();
        problem
    }
}

impl From<LedgerError> for Failure {
    fn from(error: LedgerError) -> Self {
        Self::Service(error.into())
    }
}

//! What can be wrong with a request about a task.

use enjamb_core::ErrorKind;

#[derive(Debug, thiserror::Error)]
pub enum TaskError {
    #[error("task {task} runs on pipes, and {what} needs a terminal")]
    NoPty { task: String, what: &'static str },
    #[error("no signal {0:?}")]
    UnknownSignal(String),
    #[error("task {task} has ended: {status}")]
    Ended { task: String, status: String },
    #[error("task {task} is not run from this store")]
    Elsewhere { task: String },
    #[error("{command:?} did not start: {detail}")]
    NotStarted { command: String, detail: String },
    #[error("a task needs a command")]
    NoCommand,
    #[error("a terminal of {rows} rows and {cols} columns shows nothing")]
    BadSize { rows: u16, cols: u16 },
    #[error("what runs task {task} does not answer: {detail}")]
    Unreachable { task: String, detail: String },
    #[error("task {task} has no {stream}: it has {has}")]
    NoStream { task: String, stream: String, has: &'static str },
}

impl TaskError {
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::NoPty { .. }
            | Self::UnknownSignal(_)
            | Self::NotStarted { .. }
            | Self::NoCommand
            | Self::BadSize { .. }
            | Self::NoStream { .. } => ErrorKind::Invalid,
            Self::Ended { .. } | Self::Elsewhere { .. } => ErrorKind::Conflict,
            Self::Unreachable { .. } => ErrorKind::Unavailable,
        }
    }

    pub fn code(&self) -> &'static str {
        match self {
            Self::NoPty { .. } => "task-no-pty",
            Self::UnknownSignal(_) => "unknown-signal",
            Self::Ended { .. } => "task-ended",
            Self::Elsewhere { .. } => "task-elsewhere",
            Self::NotStarted { .. } => "task-not-started",
            Self::NoCommand => "task-without-command",
            Self::BadSize { .. } => "bad-terminal-size",
            Self::Unreachable { .. } => "task-unreachable",
            Self::NoStream { .. } => "task-no-stream",
        }
    }

    pub fn help(&self) -> Option<String> {
        match self {
            Self::NoPty { .. } => Some("enjamb task run --pty -- COMMAND    runs one on a terminal".into()),
            Self::UnknownSignal(_) => Some("there are INT, QUIT, TERM, HUP and KILL".into()),
            Self::Ended { task, .. } => Some(format!("enjamb task output {task}    shows what it wrote")),
            Self::NotStarted { .. } => Some("enjamb task run --shell 'COMMAND | COMMAND'    asks a shell".into()),
            Self::NoCommand => Some("enjamb task run -- cargo test".into()),
            Self::Elsewhere { .. } | Self::BadSize { .. } | Self::Unreachable { .. } | Self::NoStream { .. } => None,
        }
    }
}

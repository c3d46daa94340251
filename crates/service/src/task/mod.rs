//! Tasks: commands in the background, each told of by a stream `task/<id>`.
//!
//! A task is run by a process of its own, its supervisor, so it outlives whoever started it and needs no server. The
//! supervisor holds a lock while it lives; what it leaves behind when it is killed is found by the next command, which
//! ends the task and keeps its output ([`Store::end_lost_tasks`]).

mod child;
mod control;
mod dir;
mod error;
mod launch;
mod lost;
mod output;
mod signal;
mod supervise;
mod view;

#[cfg(test)]
mod tests;

use std::path::PathBuf;

use enjamb_core::frame::ExecutionMode;
use enjamb_core::{StreamId, StreamKind};
use serde::{Deserialize, Serialize};
use serde_json::json;

pub use control::TaskRequest;
pub use error::TaskError;
pub use launch::TaskOrder;
pub use signal::TaskSignal;
pub use view::{TaskLog, TaskView};

use crate::Result;

/// Bytes of each output that are kept unless more is asked for.
pub const TASK_OUTPUT_BYTES_MAX: u64 = 64 << 20;

/// A command to run in the background.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskSpec {
    pub command: TaskCommand,
    pub cwd: Option<PathBuf>,
    pub title: Option<String>,
    /// On a terminal of so many rows and columns, and not on pipes.
    pub pty: Option<(u16, u16)>,
    /// The session that asked for it.
    pub origin_session_id: Option<String>,
    /// Bytes of each output that are kept; what comes after is counted.
    pub output_bytes_max: u64,
    /// After how long it is cancelled.
    pub timeout_ms: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TaskCommand {
    /// A program and what it is given.
    Words(Vec<String>),
    /// A line for a shell.
    Shell(String),
}

impl TaskCommand {
    /// The program and its arguments.
    fn words(&self) -> Vec<String> {
        match self {
            Self::Words(words) => words.clone(),
            Self::Shell(line) => vec!["/bin/sh".into(), "-c".into(), line.clone()],
        }
    }

    /// As frames name the tool, and what it was given.
    fn told(&self) -> (&'static str, serde_json::Value) {
        match self {
            Self::Words(words) => ("exec", json!({"argv": words})),
            Self::Shell(line) => ("bash", json!({"command": line})),
        }
    }

    /// As a person would type it.
    pub fn line(&self) -> String {
        match self {
            Self::Words(words) => words.join(" "),
            Self::Shell(line) => line.clone(),
        }
    }
}

impl TaskSpec {
    pub fn new(command: TaskCommand) -> Self {
        Self {
            command,
            cwd: None,
            title: None,
            pty: None,
            origin_session_id: None,
            output_bytes_max: TASK_OUTPUT_BYTES_MAX,
            timeout_ms: None,
        }
    }

    fn mode(&self) -> ExecutionMode {
        if self.pty.is_some() { ExecutionMode::Pty } else { ExecutionMode::Pipes }
    }

    /// Refuses what no process could be started for.
    fn check(&self) -> Result<()> {
        if self.command.line().trim().is_empty() {
            return Err(TaskError::NoCommand.into());
        }
        match self.pty {
            Some((rows, cols)) => check_size(rows, cols),
            None => Ok(()),
        }
    }
}

fn check_size(rows: u16, cols: u16) -> Result<()> {
    if rows == 0 || cols == 0 { Err(TaskError::BadSize { rows, cols }.into()) } else { Ok(()) }
}

fn stream_of(task: &str) -> Result<StreamId> {
    Ok(StreamId::new(StreamKind::Task, task)?)
}

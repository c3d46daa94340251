//! Tasks: commands in the background.

use std::collections::BTreeMap;

use enjamb_service::TaskView;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::instant;

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Task {
    pub task: String,
    /// `queued`, `running`, `exited`, `cancelled` or `failed`
    pub status: String,
    /// As a person would type it
    pub command: String,
    pub title: Option<String>,
    pub cwd: Option<String>,
    /// `pipes` or `pty`
    pub mode: String,
    pub exit_code: Option<i32>,
    pub spawned_at: String,
    pub ended_at: Option<String>,
    pub error: Option<String>,
    /// By the name of the output
    pub logs: BTreeMap<String, TaskLog>,
}

/// What a task wrote to one of its outputs.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct TaskLog {
    /// Nothing while the task runs
    pub artifact: Option<String>,
    pub bytes: u64,
    pub kept: u64,
    pub truncated: bool,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Tasks {
    pub tasks: Vec<Task>,
}

/// A task that was asked to do something.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct TaskAsked {
    pub task: String,
}

impl Task {
    pub fn is_over(&self) -> bool {
        matches!(self.status.as_str(), "exited" | "cancelled" | "failed")
    }
}

impl From<&TaskView> for Task {
    fn from(view: &TaskView) -> Self {
        let log = |log: &enjamb_service::TaskLog| {
            let told = TaskLog {
                artifact: log.artifact.map(|id| id.to_string()),
                bytes: log.total,
                kept: log.stored,
                truncated: log.stored < log.total,
            };
            (log.stream.clone(), told)
        };
        Self {
            task: view.id.clone(),
            status: view.status.as_str().to_owned(),
            command: view.command.clone(),
            title: view.title.clone(),
            cwd: view.cwd.clone(),
            mode: if view.pty { "pty" } else { "pipes" }.to_owned(),
            exit_code: view.exit_code,
            spawned_at: instant(view.spawned_at_ms),
            ended_at: view.ended_at_ms.map(instant),
            error: view.error.clone(),
            logs: view.logs.iter().map(log).collect(),
        }
    }
}

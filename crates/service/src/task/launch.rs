//! Starting a supervisor: this program once more, on its own, told on its stdin what to run.

use std::io::{self, BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use enjamb_ledger::Ledger;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{TaskError, TaskSpec, stream_of};
use crate::{Result, ServiceError, Store};

/// What a supervisor is told.
#[derive(Debug, Serialize, Deserialize)]
pub struct TaskOrder {
    pub task: String,
    pub spec: TaskSpec,
}

impl Store {
    /// Runs a command in the background and returns its id once it runs. `program` is asked as `program ARGUMENTS`, and is
    /// to call [`Store::run_task_order`].
    pub fn launch_task(&self, spec: TaskSpec, program: &Path, arguments: &[&str]) -> Result<String> {
        spec.check()?;
        let task = self.env.new_id();
        // A request that comes again has the id of its first time, and the task runs, or has run.
        if self.ledger.stream(&stream_of(&task)?)?.is_some() {
            return Ok(task);
        }
        let failed = |source: io::Error| ServiceError::File { path: program.to_owned(), source };
        let mut supervisor = Command::new(program)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(failed)?;
        let order = TaskOrder { task: task.clone(), spec };
        let told = supervisor.stdin.take().map(|mut stdin| serde_json::to_writer(&mut stdin, &order));
        told.transpose().map_err(|error| failed(error.into()))?;
        let mut line = String::new();
        if let Some(stdout) = supervisor.stdout.take() {
            BufReader::new(stdout).read_line(&mut line).map_err(failed)?;
        }
        answered(&task, &line, &order.spec)?;
        Ok(task)
    }

    /// What a supervisor does: leaves the terminal and the group of whoever started it, says whether the task runs, and
    /// stays until it has ended.
    pub fn run_task_order(&self, order: &TaskOrder, mut ready: impl Write) -> Result<()> {
        // It leads a group already if it was started so; then it has none of ours to leave.
        let _ = rustix::process::setsid();
        self.supervise_task(&order.task, &order.spec, |started| {
            let line = match started {
                Ok(()) => json!({"ok": true}),
                Err(error) => json!({"code": error.code(), "error": error.to_string()}),
            };
            // Whoever asked may have gone; the task runs all the same.
            let _ = writeln!(ready, "{line}").and_then(|()| ready.flush());
        })
    }
}

fn answered(task: &str, line: &str, spec: &TaskSpec) -> Result<()> {
    let unreachable = |detail: &str| TaskError::Unreachable { task: task.to_owned(), detail: detail.to_owned() };
    let answer: serde_json::Value = serde_json::from_str(line).map_err(|_| unreachable("it did not start"))?;
    match (answer["code"].as_str(), answer["error"].as_str()) {
        (None, None) => Ok(()),
        (Some("task-not-started"), Some(error)) => {
            let detail = error.rsplit_once("did not start: ").map_or(error, |(_, detail)| detail).to_owned();
            Err(TaskError::NotStarted { command: spec.command.line(), detail }.into())
        }
        (_, error) => Err(unreachable(error.unwrap_or_default()).into()),
    }
}

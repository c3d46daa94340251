//! Tasks whose supervisors are gone: what still runs of them is ended, what they wrote is kept, and their streams say so.

use std::fs::File;

use enjamb_core::frame::{Body, OutputStream, TaskStatus, TaskStatusChanged};
use enjamb_ledger::Ledger;
use rustix::process::Signal;
use serde_json::{Map, json};

use super::dir::TaskDir;
use super::{child, stream_of};
use crate::{Result, Store};

const REASON: &str = "supervisor lost: what ran it was killed, or the machine went down";

impl Store {
    /// Ends every task of this store that nobody runs any more, and returns their ids. Costs a look at one directory.
    pub fn end_lost_tasks(&self) -> Result<Vec<String>> {
        let mut ended = Vec::new();
        for (name, dir) in self.task_dirs().map_err(|source| self.task_dir("").failed(source))? {
            // Whoever has the lock in the meantime does the same, or runs the task.
            let Some(lock) = dir.abandoned().map_err(|source| dir.failed(source))? else { continue };
            if TaskDir::is_unfinished(&name) {
                dir.remove().map_err(|source| dir.failed(source))?;
            } else if self.end_lost(&name, &dir, lock)? {
                ended.push(name);
            }
        }
        Ok(ended)
    }

    /// Whether there was an end to record.
    fn end_lost(&self, task: &str, dir: &TaskDir, _lock: File) -> Result<bool> {
        let process = dir.process();
        if let Some(process) = process.as_ref().filter(|process| process.is_ours()) {
            child::signal_group(process.pid, Signal::KILL);
        }
        let stream = stream_of(task)?;
        // Killed before it said anything, or after it had said all.
        let is_told = self.ledger.stream(&stream)?.is_some() && !self.task(task)?.is_over();
        if is_told {
            let mut logs = Map::new();
            for stream in [OutputStream::Stdout, OutputStream::Stderr, OutputStream::Pty] {
                logs.extend(self.keep_log(dir, &stream, None)?.map(|log| (stream.as_str().to_owned(), log)));
            }
            let body: Body = TaskStatusChanged {
                task_id: task.to_owned(),
                status: TaskStatus::Failed,
                exit_code: None,
                started_at_ms: process.map(|process| process.started_at_ms),
                ended_at_ms: Some(self.env.now().as_millis()),
                artifacts: Some(json!({"logs": logs}).into()),
                error: Some(REASON.to_owned()),
            }
            .into();
            self.append_bodies(&stream, &[body], Vec::new())?;
        }
        dir.remove().map_err(|source| dir.failed(source))?;
        Ok(is_told)
    }
}

//! Looking at tasks: what became of them, and what they wrote.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::ops::Range;

use enjamb_core::frame::{Body, ExecutionMode, Frame, OutputStream, TaskBody, TaskSpawned, TaskStatus};
use enjamb_core::{ArtifactId, StreamId, limits};
use enjamb_ledger::{Ledger, Sink, StreamOrder};
use serde_json::Value;

use super::{TaskError, stream_of};
use crate::{Result, ServiceError, Store};

/// Streams of tasks that are looked at for the beginning of an id.
const LOOKED_AT_MAX: usize = 100_000;
const READ_BYTES: usize = 256 << 10;

/// A task as listings show it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskView {
    pub id: String,
    pub status: TaskStatus,
    /// As a person would type it.
    pub command: String,
    pub title: Option<String>,
    pub cwd: Option<String>,
    pub pty: bool,
    pub exit_code: Option<i32>,
    pub spawned_at_ms: u64,
    pub ended_at_ms: Option<u64>,
    pub error: Option<String>,
    pub logs: Vec<TaskLog>,
}

/// What a task wrote to one of its outputs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskLog {
    pub stream: String,
    /// `None` while the task runs.
    pub artifact: Option<ArtifactId>,
    pub total: u64,
    pub stored: u64,
}

impl TaskView {
    pub fn is_over(&self) -> bool {
        self.status.is_terminal()
    }

    fn spawned(id: &str, at_ms: u64, spawned: TaskSpawned) -> Self {
        let args: Value = serde_json::from_str(spawned.args.get()).unwrap_or_default();
        let words = args["argv"].as_array().map(|words| words.iter().filter_map(Value::as_str).collect::<Vec<_>>());
        let line = words.map(|words| words.join(" ")).or_else(|| Some(args["command"].as_str()?.to_owned()));
        Self {
            id: id.to_owned(),
            status: TaskStatus::Queued,
            command: line.unwrap_or_else(|| format!("{} {}", spawned.tool_name, spawned.args.get())),
            title: spawned.title,
            cwd: spawned.cwd,
            pty: spawned.execution_mode == ExecutionMode::Pty,
            exit_code: None,
            spawned_at_ms: at_ms,
            ended_at_ms: None,
            error: None,
            logs: Vec::new(),
        }
    }

    /// What the last frame adds: a task that has ended says so there, and any other runs.
    fn later(&mut self, body: Body) {
        let Body::Task(body) = body else { return };
        match body {
            TaskBody::TaskStatusChanged(changed) => {
                self.status = changed.status;
                self.exit_code = changed.exit_code;
                self.ended_at_ms = changed.ended_at_ms;
                self.error = changed.error;
                self.logs = changed.artifacts.and_then(|json| logs(json.get())).unwrap_or_default();
            }
            TaskBody::TaskSpawned(_) => {}
            TaskBody::TaskCancelRequested(_)
            | TaskBody::TaskCancelled(_)
            | TaskBody::TaskOutputDelta(_)
            | TaskBody::TaskStdinWritten(_)
            | TaskBody::TaskResized(_)
            | TaskBody::TaskSignalled(_) => self.status = TaskStatus::Running,
        }
    }
}

fn logs(json: &str) -> Option<Vec<TaskLog>> {
    let json: Value = serde_json::from_str(json).ok()?;
    let log = |(stream, log): (&String, &Value)| TaskLog {
        stream: stream.clone(),
        artifact: log["id"].as_str().and_then(|hex| hex.parse().ok()),
        total: log["bytes_total"].as_u64().unwrap_or(0),
        stored: log["bytes_stored"].as_u64().unwrap_or(0),
    };
    Some(json["logs"].as_object()?.iter().map(log).collect())
}

impl Store {
    /// Up to `limit` tasks, the one that was last heard of first.
    pub fn tasks(&self, limit: usize) -> Result<Vec<TaskView>> {
        let streams = self.ledger.streams(Some("task"), StreamOrder::Recent, limit)?;
        streams.iter().map(|summary| self.task_in(&summary.stream)).collect()
    }

    /// The task that a person means: by id, or by the beginning of one.
    pub fn task(&self, word: &str) -> Result<TaskView> {
        let unknown = || ServiceError::Unknown { what: "task", name: word.to_owned() };
        if let Some(summary) = stream_of(word).ok().map(|stream| self.ledger.stream(&stream)).transpose()?.flatten() {
            return self.task_in(&summary.stream);
        }
        if word.len() < limits::ID_PREFIX_DIGITS_MIN {
            return Err(unknown());
        }
        let all = self.ledger.streams(Some("task"), StreamOrder::Recent, LOOKED_AT_MAX)?;
        let fitting: Vec<_> = all.iter().filter(|summary| summary.stream.id.starts_with(word)).collect();
        match fitting.as_slice() {
            [] => Err(unknown()),
            [one] => self.task_in(&one.stream),
            many => {
                let candidates = many.iter().take(limits::CANDIDATES_MAX).map(|one| one.stream.id.clone()).collect();
                Err(ServiceError::Ambiguous { prefix: word.to_owned(), candidates })
            }
        }
    }

    fn task_in(&self, stream: &StreamId) -> Result<TaskView> {
        let unknown = || ServiceError::Unknown { what: "task", name: stream.id.clone() };
        let summary = self.ledger.stream(stream)?.ok_or_else(unknown)?;
        let read = |seq| -> Result<Option<Frame>> {
            Ok(self.ledger.frames(stream, seq, 1)?.first().map(|stored| Frame::parse(&stored.json)).transpose()?)
        };
        let first = read(0)?.ok_or_else(unknown)?;
        let Body::Task(TaskBody::TaskSpawned(spawned)) = first.body else { return Err(unknown()) };
        let mut view = TaskView::spawned(&stream.id, first.timestamp_ms, spawned);
        if let Some(last) = read(summary.next_seq - 1)? {
            view.later(last.body);
        }
        if !view.is_over() {
            view.logs = self.logs_so_far(&view);
        }
        Ok(view)
    }

    fn logs_so_far(&self, view: &TaskView) -> Vec<TaskLog> {
        let dir = self.task_dir(&view.id);
        let log = |stream: &OutputStream| {
            let len = dir.log(stream).metadata().ok()?.len();
            Some(TaskLog { stream: stream.as_str().to_owned(), artifact: None, total: len, stored: len })
        };
        streams_of(view.pty).iter().filter_map(log).collect()
    }

    /// Streams what a task wrote, or a part of it, and returns how much is kept so far. `None` is the first of its outputs;
    /// a part that goes past the end ends there.
    pub fn task_output(
        &self,
        view: &TaskView,
        stream: Option<&str>,
        range: Range<u64>,
        sink: &mut Sink<'_>,
    ) -> Result<u64> {
        let has = streams_of(view.pty);
        let stream = stream.unwrap_or_else(|| has[0].as_str());
        if !has.iter().any(|known| known.as_str() == stream) {
            let has = if view.pty { "pty" } else { "stdout and stderr" };
            return Err(TaskError::NoStream { task: view.id.clone(), stream: stream.to_owned(), has }.into());
        }
        let log = view.logs.iter().find(|log| log.stream == stream);
        match log.map(|log| (log.artifact, log.stored)) {
            None => Ok(0),
            Some((Some(artifact), stored)) => {
                let range = range.start.min(stored)..range.end.min(stored);
                self.get(&artifact, Some(range), sink)?;
                Ok(stored)
            }
            Some((None, _)) => self.running_output(view, stream, range, sink),
        }
    }

    fn running_output(&self, view: &TaskView, stream: &str, range: Range<u64>, sink: &mut Sink<'_>) -> Result<u64> {
        let path = self.task_dir(&view.id).log(&OutputStream::from(stream));
        let failed = |source| ServiceError::File { path: path.clone(), source };
        let mut file = match File::open(&path) {
            Ok(file) => file,
            // It has ended meanwhile, and what it wrote is an artifact.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                let view = self.task(&view.id)?;
                return if view.is_over() { self.task_output(&view, Some(stream), range, sink) } else { Ok(0) };
            }
            Err(error) => return Err(failed(error)),
        };
        let len = file.metadata().map_err(failed)?.len();
        let range = range.start.min(len)..range.end.min(len);
        file.seek(SeekFrom::Start(range.start)).map_err(failed)?;
        let mut source = file.take(range.end.saturating_sub(range.start));
        let mut buffer = vec![0; READ_BYTES];
        loop {
            match source.read(&mut buffer).map_err(failed)? {
                0 => return Ok(len),
                read => sink(&buffer[..read]).map_err(enjamb_ledger::LedgerError::Output)?,
            }
        }
    }
}

fn streams_of(pty: bool) -> &'static [OutputStream] {
    if pty { &[OutputStream::Pty] } else { &[OutputStream::Stdout, OutputStream::Stderr] }
}

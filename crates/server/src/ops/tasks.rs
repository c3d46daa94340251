//! Tasks: commands that run in the background, for the owner of the store. Their streams are frames like all others, so
//! whoever may read sees what they say.

use std::ops::Range;
use std::path::PathBuf;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use enjamb_core::{StreamId, StreamKind};
use enjamb_service::{
    ServiceError, TASK_OUTPUT_BYTES_MAX, TaskCommand, TaskRequest, TaskSignal, TaskSpec, TaskView, WorkspaceError,
};
use schemars::JsonSchema;
use serde::Deserialize;

use super::rows;
use crate::call::{Call, Reply, ReplyBody, Source, invalid};
use crate::problem::{Problem, Result};
use crate::route::{Gives, Method, Route, Scope, at};
use crate::sse::{self, Filter, Follow, Subject};
use crate::view;

/// How long a task that is cancelled may take to end by itself.
const GRACE_MS: u64 = 5_000;

pub fn routes() -> Vec<Route> {
    use Method::{Get, Post};
    let ask = |path, operation, summary| at(Post, path, operation, Scope::Owner, summary).status(202);
    vec![
        at(Get, "/v1/tasks", "tasks", Scope::Read, "List tasks, the one last heard of first").json(list),
        at(Post, "/v1/tasks", "run_task", Scope::Owner, "Run a command in the background")
            .status(201)
            .answers::<RunTask, view::Task>(run),
        at(Get, "/v1/tasks/{task}", "task", Scope::Read, "Show a task").json(show),
        at(Get, "/v1/tasks/{task}/output", "task_output", Scope::Read, "What a task wrote, or a part of it")
            .gives(Gives::Bytes)
            .replies(output),
        at(Get, "/v1/tasks/{task}/events", "follow_task", Scope::Read, "Follow a task")
            .gives(Gives::Events)
            .replies(follow),
        ask("/v1/tasks/{task}/cancel", "cancel_task", "End a task and all that it started").json(cancel),
        ask("/v1/tasks/{task}/stdin", "write_task", "Write to the terminal of a task").json(stdin),
        ask("/v1/tasks/{task}/resize", "resize_task", "Resize the terminal of a task").json(resize),
        ask("/v1/tasks/{task}/signal", "signal_task", "Send a signal to a task and all that it started").json(signal),
    ]
}

/// A task by the beginning of its id. One whose supervisor is gone is ended first.
pub(super) fn found(call: &Call, word: &str) -> Result<TaskView> {
    call.store().end_lost_tasks()?;
    Ok(call.store().task(word)?)
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct List {
    limit: Option<usize>,
}

fn list(call: &Call, asked: List) -> Result<view::Tasks> {
    call.store().end_lost_tasks()?;
    let tasks = call.store().tasks(rows(asked.limit))?;
    Ok(view::Tasks { tasks: tasks.iter().map(view::Task::from).collect() })
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct RunTask {
    /// The program and its arguments
    argv: Option<Vec<String>>,
    /// A line for a shell instead
    shell: Option<String>,
    /// A directory of the machine that the store is on
    cwd: Option<String>,
    title: Option<String>,
    /// Give it a terminal of this size
    pty: Option<Size>,
    /// Cancel it after so long
    timeout_ms: Option<u64>,
    /// Bytes of each output that are kept
    output_bytes_max: Option<u64>,
    /// The session that asks for it
    origin_session_id: Option<String>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Size {
    rows: u16,
    cols: u16,
}

fn run(call: &Call, asked: RunTask) -> Result<Reply> {
    let command = match (asked.argv, asked.shell) {
        (Some(words), None) => TaskCommand::Words(words),
        (None, Some(line)) => TaskCommand::Shell(line),
        _ => return Err(Problem::schema("", "give argv or shell")),
    };
    let spec = TaskSpec {
        cwd: asked.cwd.map(PathBuf::from),
        title: asked.title,
        pty: asked.pty.map(|size| (size.rows, size.cols)),
        origin_session_id: asked.origin_session_id,
        output_bytes_max: asked.output_bytes_max.unwrap_or(TASK_OUTPUT_BYTES_MAX),
        timeout_ms: asked.timeout_ms,
        ..TaskSpec::new(command)
    };
    let task = launched(call, spec)?;
    let view = view::Task::from(&call.store().task(&task)?);
    Ok(Reply::json(201, &view).header("location", format!("/v1/tasks/{task}")))
}

pub(super) fn launched(call: &Call, spec: TaskSpec) -> Result<String> {
    let runner = call.runner()?;
    if let Some(cwd) = spec.cwd.as_ref().filter(|cwd| !cwd.is_dir()) {
        return Err(ServiceError::from(WorkspaceError::NotADirectory(cwd.clone())).into());
    }
    let arguments: Vec<&str> = runner.arguments.iter().map(String::as_str).collect();
    Ok(call.store().launch_task(spec, &runner.program, &arguments)?)
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct One {
    /// An id, or the beginning of one
    task: String,
}

fn show(call: &Call, asked: One) -> Result<view::Task> {
    Ok(view::Task::from(&found(call, &asked.task)?))
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Output {
    task: String,
    /// stdout, stderr or pty; the first that it has if not given
    stream: Option<String>,
    /// Where to begin
    offset: Option<u64>,
    /// How many bytes at most
    length: Option<u64>,
}

fn output(call: &Call, asked: Output) -> Result<Reply> {
    let view = found(call, &asked.task)?;
    let start = asked.offset.unwrap_or(0);
    let range = start..asked.length.map_or(u64::MAX, |length| start.saturating_add(length));
    let stream = checked(call, &view, asked.stream)?;
    let reply = Reply::bytes(200, None, part(call, view, stream, range)).header("content-disposition", "attachment");
    Ok(reply.header("content-security-policy", "sandbox; default-src 'none'"))
}

/// An output that the task has: known before an answer begins.
fn checked(call: &Call, view: &TaskView, stream: Option<String>) -> Result<Option<String>> {
    call.store().task_output(view, stream.as_deref(), 0..0, &mut |_| Ok(()))?;
    Ok(stream)
}

fn part(call: &Call, view: TaskView, stream: Option<String>, range: Range<u64>) -> Source {
    let space = call.space.clone();
    Box::new(move |out| Ok(space.store.task_output(&view, stream.as_deref(), range, out).map(drop)?))
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct FollowTask {
    task: String,
    after: Option<u64>,
    #[serde(default, rename = "type")]
    types: Vec<String>,
}

fn follow(call: &Call, asked: FollowTask) -> Result<Reply> {
    let stream = StreamId::new(StreamKind::Task, found(call, &asked.task)?.id)?;
    let end = call.store().stream(&stream)?.next_seq;
    let next = sse::after(call.headers.last_event_id.as_deref(), asked.after, 0, end)?;
    let filter = Filter { subject: Subject::Stream(stream), types: asked.types, seed: false };
    Ok(Reply { status: 200, headers: Vec::new(), body: ReplyBody::Events(Follow { filter, next }) })
}

fn asked_to(call: &Call, word: &str, request: &TaskRequest) -> Result<view::TaskAsked> {
    let task = found(call, word)?.id;
    call.store().ask_task(&task, request)?;
    Ok(view::TaskAsked { task })
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Cancel {
    task: String,
    #[serde(default = "cancelled")]
    reason: String,
    /// How long it may take to end by itself; 5 seconds if not given
    grace_ms: Option<u64>,
}

pub(super) fn cancelled() -> String {
    "cancel".into()
}

fn cancel(call: &Call, asked: Cancel) -> Result<view::TaskAsked> {
    let grace_ms = asked.grace_ms.unwrap_or(GRACE_MS);
    asked_to(call, &asked.task, &TaskRequest::Cancel { reason: asked.reason, grace_ms })
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Stdin {
    task: String,
    /// At most 8 KiB, as base64
    chunk_b64: String,
}

fn stdin(call: &Call, asked: Stdin) -> Result<view::TaskAsked> {
    asked_to(call, &asked.task, &typed(&asked.chunk_b64)?)
}

/// What is to be written to a terminal.
pub(super) fn typed(chunk_b64: &str) -> Result<TaskRequest> {
    const BYTES_MAX: usize = 8 << 10;
    let bytes = STANDARD.decode(chunk_b64).ok().filter(|bytes| bytes.len() <= BYTES_MAX);
    let shown: String = chunk_b64.chars().take(40).collect();
    bytes.map(TaskRequest::Stdin).ok_or_else(|| invalid("chunk_b64", &shown, "at most 8 KiB, as base64"))
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Resize {
    task: String,
    rows: u16,
    cols: u16,
}

fn resize(call: &Call, asked: Resize) -> Result<view::TaskAsked> {
    asked_to(call, &asked.task, &TaskRequest::Resize { rows: asked.rows, cols: asked.cols })
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Signal {
    task: String,
    /// INT, QUIT, TERM, HUP or KILL, with SIG or without
    signal: String,
}

fn signal(call: &Call, asked: Signal) -> Result<view::TaskAsked> {
    asked_to(call, &asked.task, &signalled(asked.signal)?)
}

pub(super) fn signalled(given: String) -> Result<TaskRequest> {
    let signal: TaskSignal = given.parse().map_err(ServiceError::from)?;
    Ok(TaskRequest::Signal { signal, given })
}

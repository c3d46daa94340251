//! The task routes of the seed project, answered as its own server answers them.

use std::path::PathBuf;

use enjamb_core::{StreamId, StreamKind};
use enjamb_service::{TaskCommand, TaskLog, TaskRequest, TaskSpec, TaskView};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::rows;
use super::tasks::{cancelled, found, launched, signalled, typed};
use crate::call::{Call, Reply, ReplyBody, invalid};
use crate::problem::{Problem, Result};
use crate::route::{Gives, Method, Route, Scope, at};
use crate::sse::{Filter, Follow, Subject};

/// A terminal whose size nobody says.
const SIZE: (u16, u16) = (24, 80);
/// What one answer holds of an output.
const OUTPUT_BYTES_MAX: u64 = 1 << 20;
/// The seed project ends a task at once.
const GRACE_MS: u64 = 0;

pub fn routes() -> Vec<Route> {
    use Method::{Get, Post};
    let get = |path, operation| at(Get, path, operation, Scope::Read, "As the seed project has it").seed();
    let post = |path, operation| at(Post, path, operation, Scope::Owner, "As the seed project has it").seed();
    vec![
        post("/tasks", "seed_run_task").replies(spawn),
        get("/tasks", "seed_tasks").replies(list),
        get("/tasks/{task}", "seed_task").replies(show),
        get("/tasks/{task}/output", "seed_task_output").replies(output),
        get("/tasks/{task}/events", "seed_task_events").gives(Gives::Events).replies(events),
        post("/tasks/{task}/cancel", "seed_cancel_task").replies(cancel),
        post("/tasks/{task}/stdin", "seed_write_task").replies(stdin),
        post("/tasks/{task}/resize", "seed_resize_task").replies(resize),
        post("/tasks/{task}/signal", "seed_signal_task").replies(signal),
    ]
}

#[derive(Deserialize, JsonSchema)]
struct Spawn {
    /// `bash` or `shell`
    tool: String,
    #[serde(default)]
    args: Value,
    title: Option<String>,
    /// `pipes` or `pty`
    execution_mode: Option<String>,
    origin_session_id: Option<String>,
}

fn spawn(call: &Call, asked: Spawn) -> Result<Reply> {
    if !matches!(asked.tool.as_str(), "bash" | "shell") {
        return Err(invalid("tool", &asked.tool, "bash or shell"));
    }
    let Some(line) = asked.args["command"].as_str() else {
        return Err(invalid("args", &asked.args.to_string(), "an object with a command"));
    };
    let pty = match asked.execution_mode.as_deref() {
        None | Some("pipes") => None,
        Some("pty") => Some(SIZE),
        Some(other) => return Err(invalid("execution_mode", other, "pipes or pty")),
    };
    let spec = TaskSpec {
        cwd: asked.args["cwd"].as_str().map(PathBuf::from),
        title: asked.title,
        pty,
        origin_session_id: asked.origin_session_id,
        ..TaskSpec::new(TaskCommand::Shell(line.to_owned()))
    };
    Ok(Reply::json(201, &json!({"task_id": launched(call, spec)?})))
}

#[derive(Deserialize, JsonSchema)]
struct Nothing {}

fn list(call: &Call, _: Nothing) -> Result<Reply> {
    call.store().end_lost_tasks()?;
    Ok(Reply::json(200, &call.store().tasks(rows(None))?.iter().map(told).collect::<Vec<_>>()))
}

fn told(view: &TaskView) -> Value {
    let log = |log: &TaskLog| {
        let id = log.artifact.map(|id| id.to_hex());
        let truncated = log.stored < log.total;
        let told = json!({"id": id, "bytes_total": log.total, "bytes_stored": log.stored, "truncated": truncated});
        (log.stream.clone(), told)
    };
    let logs: Map<String, Value> = view.logs.iter().map(log).collect();
    json!({
        "task_id": view.id, "status": view.status.as_str(), "title": view.title, "cwd": view.cwd,
        "execution_mode": if view.pty { "pty" } else { "pipes" }, "exit_code": view.exit_code,
        "started_at_ms": view.spawned_at_ms, "ended_at_ms": view.ended_at_ms, "error": view.error,
        "artifacts": {"logs": logs},
    })
}

#[derive(Deserialize, JsonSchema)]
struct One {
    task: String,
}

/// Ids are whole here.
fn whole(call: &Call, id: &str) -> Result<TaskView> {
    let view = found(call, id)?;
    if view.id == id { Ok(view) } else { Err(Problem::not_found("task", id)) }
}

fn show(call: &Call, asked: One) -> Result<Reply> {
    Ok(Reply::json(200, &told(&whole(call, &asked.task)?)))
}

#[derive(Deserialize, JsonSchema)]
struct Output {
    task: String,
    stream: Option<String>,
    offset_bytes: Option<u64>,
    max_bytes: Option<u64>,
}

fn output(call: &Call, asked: Output) -> Result<Reply> {
    let view = whole(call, &asked.task)?;
    let start = asked.offset_bytes.unwrap_or(0);
    let most = asked.max_bytes.unwrap_or(OUTPUT_BYTES_MAX).min(OUTPUT_BYTES_MAX);
    let mut bytes = Vec::new();
    let range = start..start.saturating_add(most);
    let total = call.store().task_output(&view, asked.stream.as_deref(), range, &mut |part| {
        bytes.extend_from_slice(part);
        Ok(())
    })?;
    let stream = asked.stream.unwrap_or_else(|| if view.pty { "pty" } else { "stdout" }.to_owned());
    let (read, content) = (bytes.len() as u64, String::from_utf8_lossy(&bytes));
    let truncated = start.saturating_add(read) < total;
    let value = json!({
        "task_id": view.id, "stream": stream, "content": content, "offset_bytes": start, "bytes": read,
        "total_bytes": total, "truncated": truncated,
    });
    Ok(Reply::json(200, &value))
}

fn events(call: &Call, asked: One) -> Result<Reply> {
    let subject = Subject::Stream(StreamId::new(StreamKind::Task, whole(call, &asked.task)?.id)?);
    let body = ReplyBody::Events(Follow { filter: Filter { subject, types: Vec::new(), seed: true }, next: 0 });
    Ok(Reply { status: 200, headers: Vec::new(), body })
}

fn asked_to(call: &Call, id: &str, request: &TaskRequest) -> Result<Reply> {
    call.store().ask_task(&whole(call, id)?.id, request)?;
    Ok(Reply::nothing(202))
}

#[derive(Deserialize, JsonSchema)]
struct Cancel {
    task: String,
    reason: Option<String>,
}

fn cancel(call: &Call, asked: Cancel) -> Result<Reply> {
    let reason = asked.reason.filter(|reason| !reason.is_empty()).unwrap_or_else(cancelled);
    asked_to(call, &asked.task, &TaskRequest::Cancel { reason, grace_ms: GRACE_MS })
}

#[derive(Deserialize, JsonSchema)]
struct Stdin {
    task: String,
    chunk_b64: String,
}

fn stdin(call: &Call, asked: Stdin) -> Result<Reply> {
    asked_to(call, &asked.task, &typed(&asked.chunk_b64)?)
}

#[derive(Deserialize, JsonSchema)]
struct Resize {
    task: String,
    rows: u16,
    cols: u16,
}

fn resize(call: &Call, asked: Resize) -> Result<Reply> {
    asked_to(call, &asked.task, &TaskRequest::Resize { rows: asked.rows, cols: asked.cols })
}

#[derive(Deserialize, JsonSchema)]
struct Signal {
    task: String,
    signal: String,
}

fn signal(call: &Call, asked: Signal) -> Result<Reply> {
    asked_to(call, &asked.task, &signalled(asked.signal)?)
}

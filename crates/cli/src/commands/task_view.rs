//! What the commands about tasks say.

use enjamb_service::{TaskLog, TaskView};
use serde_json::{Value, json};

use super::Context;
use super::status::{iso, now_ms};
use crate::failure::{Exit, Result};
use crate::text::{ago, bytes};
use crate::ui::{Cell, Table};

pub fn show_list(context: &mut Context<'_>, tasks: &[TaskView]) -> Result<Exit> {
    if context.ui.is_json() {
        let rows: Vec<_> = tasks.iter().map(task_json).collect();
        context.ui.json("task_list", json!({"tasks": rows}))?;
        return Ok(Exit::Done);
    }
    let now = now_ms();
    let mut table = Table::new(&["id", "status", "began", "command"]);
    for task in tasks {
        let id = Cell::new(task.id.get(..8).unwrap_or(&task.id), &task.id);
        let began = Cell::new(ago(now, task.spawned_at_ms), iso(task.spawned_at_ms));
        let command = task.title.as_deref().unwrap_or(&task.command);
        table.row([id, standing(task).into(), began, command.into()]);
    }
    context.ui.table(&table)?;
    Ok(Exit::Done)
}

/// The status, and how it ended where that says more.
fn standing(task: &TaskView) -> String {
    match task.exit_code {
        Some(code) => format!("{} {code}", task.status.as_str()),
        None => task.status.as_str().to_owned(),
    }
}

pub fn show_task(context: &mut Context<'_>, task: &TaskView) -> Result<Exit> {
    if context.ui.is_json() {
        context.ui.json("task", task_json(task))?;
        return Ok(Exit::Done);
    }
    let took = task.ended_at_ms.map(|ended| ended.saturating_sub(task.spawned_at_ms));
    let mut lines = vec![("task", task.id.clone()), ("status", standing(task)), ("command", task.command.clone())];
    lines.extend(task.title.clone().map(|title| ("title", title)));
    lines.extend(task.cwd.clone().map(|cwd| ("in", cwd)));
    lines.push(("began", iso(task.spawned_at_ms)));
    lines.extend(took.map(|ms| ("took", format!("{:.1} s", ms as f64 / 1e3))));
    lines.extend(task.error.clone().map(|error| ("why", error)));
    for (name, text) in lines {
        context.ui.line(format!("{name:<8} {text}"))?;
    }
    for log in &task.logs {
        context.ui.line(format!("{:<8} {}", log.stream, told(log)))?;
    }
    Ok(Exit::Done)
}

fn told(log: &TaskLog) -> String {
    let cut = if log.stored < log.total { format!(", the first {} kept", bytes(log.stored)) } else { String::new() };
    let id = log.artifact.map(|id| format!("  {id}")).unwrap_or_default();
    format!("{}{cut}{id}", bytes(log.total))
}

fn task_json(task: &TaskView) -> Value {
    let logs: serde_json::Map<String, Value> = task
        .logs
        .iter()
        .map(|log| {
            let id = log.artifact.map(|id| id.to_string());
            let value = json!({
                "artifact": id, "bytes": log.total, "kept": log.stored, "truncated": log.stored < log.total,
            });
            (log.stream.clone(), value)
        })
        .collect();
    json!({
        "task": task.id, "status": task.status.as_str(), "command": task.command, "title": task.title, "cwd": task.cwd,
        "mode": if task.pty { "pty" } else { "pipes" }, "exit_code": task.exit_code,
        "spawned_at": iso(task.spawned_at_ms), "ended_at": task.ended_at_ms.map(iso), "error": task.error, "logs": logs,
    })
}

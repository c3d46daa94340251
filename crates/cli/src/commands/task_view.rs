//! What the commands about tasks say.

use enjamb_server::view::{Task, TaskLog};
use serde_json::json;

use super::Context;
use super::status::{millis, now_ms};
use crate::failure::{Exit, Result};
use crate::text::{ago, bytes};
use crate::ui::{Cell, Table};

pub fn show_list(context: &mut Context<'_>, tasks: &[Task]) -> Result<Exit> {
    if context.ui.is_json() {
        context.ui.json("task_list", json!({"tasks": tasks}))?;
        return Ok(Exit::Done);
    }
    let now = now_ms();
    let mut table = Table::new(&["id", "status", "began", "command"]);
    for task in tasks {
        let id = Cell::new(task.task.get(..8).unwrap_or(&task.task), &task.task);
        let began = Cell::new(ago(now, millis(&task.spawned_at)), &task.spawned_at);
        let command = task.title.as_deref().unwrap_or(&task.command);
        table.row([id, standing(task).into(), began, command.into()]);
    }
    context.ui.table(&table)?;
    Ok(Exit::Done)
}

/// The status, and how it ended where that says more.
fn standing(task: &Task) -> String {
    match task.exit_code {
        Some(code) => format!("{} {code}", task.status),
        None => task.status.clone(),
    }
}

pub fn show_task(context: &mut Context<'_>, task: &Task) -> Result<Exit> {
    if context.ui.is_json() {
        context.ui.json("task", json!(task))?;
        return Ok(Exit::Done);
    }
    let took = task.ended_at.as_ref().map(|ended| millis(ended).saturating_sub(millis(&task.spawned_at)));
    let mut lines = vec![("task", task.task.clone()), ("status", standing(task)), ("command", task.command.clone())];
    lines.extend(task.title.clone().map(|title| ("title", title)));
    lines.extend(task.cwd.clone().map(|cwd| ("in", cwd)));
    lines.push(("began", task.spawned_at.clone()));
    lines.extend(took.map(|ms| ("took", format!("{:.1} s", ms as f64 / 1e3))));
    lines.extend(task.error.clone().map(|error| ("why", error)));
    for (name, text) in lines {
        context.ui.line(format!("{name:<8} {text}"))?;
    }
    for (stream, log) in &task.logs {
        context.ui.line(format!("{stream:<8} {}", told(log)))?;
    }
    Ok(Exit::Done)
}

fn told(log: &TaskLog) -> String {
    let cut = if log.truncated { format!(", the first {} kept", bytes(log.kept)) } else { String::new() };
    let id = log.artifact.as_ref().map(|id| format!("  {id}")).unwrap_or_default();
    format!("{}{cut}{id}", bytes(log.bytes))
}

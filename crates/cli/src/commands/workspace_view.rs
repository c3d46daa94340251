//! What the commands about workspaces say.

use enjamb_core::CommitId;
use enjamb_core::workspace::{Node, NodeKind};
use enjamb_service::{RewindPlan, Rewound, WorkspaceChange, WorkspaceCheckpointed, WorkspaceDiff, WorkspaceView};
use serde_json::{Value, json};

use super::Context;
use super::status::{iso, now_ms};
use crate::failure::{Exit, Result};
use crate::text::{ago, bytes, plural};
use crate::ui::{Cell, Table};

/// Digits of an id that a person is shown.
const SHORT: usize = 8;
/// Changes that a person is shown before the rest is counted.
const SHOWN_MAX: usize = 100;

pub fn show_made(context: &mut Context<'_>, made: &WorkspaceCheckpointed, commit: Option<CommitId>) -> Result<Exit> {
    if context.ui.is_json() {
        let value = json!({
            "checkpoint": made.id, "stream": made.stream.to_string(), "seq": made.seq,
            "manifest": made.manifest.to_string(), "files": made.files, "bytes": made.bytes,
            "changed": made.changed, "commit": commit.map(|id| id.to_string()),
        });
        context.ui.json("workspace_checkpoint", value)?;
        return Ok(Exit::Done);
    }
    context.ui.answer(&made.id)?;
    let linked = commit.map_or_else(String::new, |id| format!(", linked to {id}"));
    let changed = made.changed.len();
    let size = bytes(made.bytes);
    context.ui.note(&format!("{}, {size}; {changed} changed{linked}", plural(made.files, "file")));
    Ok(Exit::Done)
}

pub fn view_json(view: &WorkspaceView) -> Value {
    json!({
        "checkpoint": view.id, "label": view.label, "created_at": iso(view.created_at_ms), "auto": view.auto,
        "tool": view.tool_name, "workspace": view.workspace, "manifest": view.manifest.map(|id| id.to_string()),
        "changed": view.files_changed, "stream": view.stream.to_string(), "seq": view.seq,
    })
}

pub fn show_list(context: &mut Context<'_>, found: &[WorkspaceView], all: bool) -> Result<Exit> {
    if context.ui.is_json() {
        let rows: Vec<_> = found.iter().map(view_json).collect();
        context.ui.json("workspace_list", json!({"checkpoints": rows}))?;
        return Ok(Exit::Done);
    }
    let now = now_ms();
    let mut table = Table::new(if all { &["id", "when", "changed", "label", "workspace"] } else { HEAD });
    for view in found {
        let id = Cell::new(short(&view.id), &view.id);
        let when = Cell::new(ago(now, view.created_at_ms), iso(view.created_at_ms));
        let (changed, label) = (view.files_changed.to_string().into(), view.label.as_str().into());
        if all {
            table.row([id, when, changed, label, view.workspace.as_deref().unwrap_or("elsewhere").into()]);
        } else {
            table.row([id, when, changed, label]);
        }
    }
    context.ui.table(&table)?;
    Ok(Exit::Done)
}

const HEAD: &[&str] = &["id", "when", "changed", "label"];

fn short(id: &str) -> &str {
    id.get(..SHORT).unwrap_or(id)
}

pub fn show_diff(context: &mut Context<'_>, diff: &WorkspaceDiff) -> Result<Exit> {
    let exit = if diff.changes.is_empty() { Exit::Done } else { Exit::No };
    if context.ui.is_json() {
        let value = json!({
            "from": diff.from.id, "to": diff.to.as_ref().map(|to| &to.id),
            "changes": diff.changes.iter().map(change_json).collect::<Vec<_>>(),
        });
        context.ui.json("workspace_diff", value)?;
        return Ok(exit);
    }
    let mut table = Table::new(&["", "path", "before", "after"]);
    for change in &diff.changes {
        let (from, to) = (told(change.from.as_ref()), told(change.to.as_ref()));
        table.row([change.what.into(), change.path.as_str().into(), from.into(), to.into()]);
    }
    context.ui.table(&table)?;
    context.ui.note(&count_of(diff));
    Ok(exit)
}

pub fn count_of(diff: &WorkspaceDiff) -> String {
    let to = diff.to.as_ref().map_or("the files now", |to| short(&to.id));
    let count = plural(diff.changes.len() as u64, "path");
    format!("{count} differ from {} to {to}", short(&diff.from.id))
}

/// What stands at a path, in a few words.
pub fn told(node: Option<&Node>) -> String {
    match node {
        None => String::new(),
        Some(Node { kind: NodeKind::Dir, mode, .. }) => format!("dir {mode:o}"),
        Some(Node { kind: NodeKind::Link, .. }) => "link".into(),
        Some(Node { kind: NodeKind::File, mode, size, .. }) => format!("{} {mode:o}", bytes(*size)),
    }
}

fn change_json(change: &WorkspaceChange) -> Value {
    let side = |node: &Option<Node>| {
        node.map(|node| {
            let kind = match node.kind {
                NodeKind::File => "file",
                NodeKind::Link => "link",
                NodeKind::Dir => "dir",
            };
            json!({"kind": kind, "mode": format!("{:o}", node.mode), "bytes": node.size, "artifact": node.id.to_hex()})
        })
    };
    json!({"path": change.path, "what": change.what, "from": side(&change.from), "to": side(&change.to)})
}

/// What a rewind would do, for a person who is about to be asked; a program gets it as its answer.
pub fn show_plan(context: &mut Context<'_>, plan: &RewindPlan) -> Result<()> {
    if context.ui.is_json() {
        let changes: Vec<_> = plan.changes.iter().map(change_json).collect();
        let value = json!({"dry_run": true, "checkpoint": plan.target.id, "saved": null, "changes": changes});
        return Ok(context.ui.json("workspace_rewind", value)?);
    }
    for change in plan.changes.iter().take(SHOWN_MAX) {
        context.ui.line(format!("{}  {}", verb(change), change.path))?;
    }
    let more = plan.changes.len().saturating_sub(SHOWN_MAX);
    if more > 0 {
        context.ui.line(format!("and {more} more"))?;
    }
    let (count, id) = (plural(plan.changes.len() as u64, "path"), short(&plan.target.id));
    Ok(context
        .ui
        .line(format!("{count} would change; what is there now is kept first    {id} {}", plan.target.label))?)
}

fn verb(change: &WorkspaceChange) -> &'static str {
    match change.what {
        "added" => "restore",
        "removed" => "remove ",
        "mode" => "mode   ",
        _ => "rewrite",
    }
}

pub fn show_rewound(context: &mut Context<'_>, rewound: &Rewound) -> Result<Exit> {
    if context.ui.is_json() {
        let changes: Vec<_> = rewound.changes.iter().map(change_json).collect();
        let (target, saved) = (&rewound.target.id, &rewound.saved.id);
        let value = json!({"dry_run": false, "checkpoint": target, "saved": saved, "changes": changes});
        context.ui.json("workspace_rewind", value)?;
        return Ok(Exit::Done);
    }
    let (count, id) = (plural(rewound.changes.len() as u64, "path"), short(&rewound.target.id));
    context.ui.line(format!("rewound {count} to {id}"))?;
    context.ui.line(format!("undo with  enjamb workspace rewind {}", short(&rewound.saved.id)))?;
    Ok(Exit::Done)
}

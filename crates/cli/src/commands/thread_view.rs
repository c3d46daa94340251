//! Threads as tables and as JSON.

use enjamb_core::frame::SelectionDecided;
use enjamb_core::{Json, Timestamp};
use enjamb_service::{ThreadChild, ThreadEdge, ThreadHit, ThreadView};
use serde_json::{Value, json};

use super::Context;
use crate::failure::{Exit, Result};
use crate::text::count;
use crate::ui::{Cell, Table};

pub fn print_thread(context: &mut Context<'_>, schema: &str, view: &ThreadView) -> Result<Exit> {
    if context.ui.is_json() {
        context.ui.json(schema, thread_json(view))?;
        return Ok(Exit::Done);
    }
    let mut rows = vec![("thread", view.id.clone())];
    rows.extend(view.title.clone().map(|title| ("title", title)));
    rows.extend(view.workspace.clone().map(|workspace| ("workspace", workspace)));
    if let Some(origin) = &view.origin {
        rows.push((origin.kind, format!("of {} at {}", origin.thread, origin.seq)));
    }
    rows.push(("messages", format!("{} in {} frames", count(view.messages), count(view.frames))));
    rows.push(("begun", time(view.created_ms)));
    if !view.tags.is_empty() {
        rows.push(("tags", view.tags.join(" ")));
    }
    if view.archived {
        rows.push(("archived", "yes".into()));
    }
    for (name, value) in rows {
        context.ui.answer(format!("{name:12}{value}"))?;
    }
    Ok(Exit::Done)
}

pub fn thread_json(view: &ThreadView) -> Value {
    let origin = view.origin.as_ref().map(|origin| {
        json!({
            "kind": origin.kind, "thread_id": origin.thread, "seq": origin.seq, "message_id": origin.message,
            "summary_artifact": origin.summary_artifact,
        })
    });
    json!({
        "thread_id": view.id, "workspace": view.workspace, "title": view.title, "created_at_ms": view.created_ms,
        "updated_at_ms": view.updated_ms, "frames": view.frames, "messages": view.messages,
        "archived": view.archived, "tags": view.tags, "origin": origin,
    })
}

pub fn thread_table(views: &[ThreadView]) -> Table {
    let mut table = Table::new(&["thread", "begun", "messages", "title", "tags"]);
    for view in views {
        let messages = Cell::new(count(view.messages), view.messages);
        let title = view.title.clone().or_else(|| view.workspace.clone()).unwrap_or_default();
        let title = if view.archived { format!("{title} (archived)") } else { title };
        table.row([
            view.id.clone().into(),
            time(view.created_ms).into(),
            messages,
            title.into(),
            view.tags.join(" ").into(),
        ]);
    }
    table
}

pub fn child_json(child: &ThreadChild) -> Value {
    json!({
        "thread_id": child.thread.id, "parent_thread_id": child.parent.id, "parent_seq": child.cut.seq,
        "parent_message_id": child.cut.message, "summary_artifact": child.summary.map(|id| id.to_string()),
    })
}

pub fn hit_json(hit: &ThreadHit) -> Value {
    json!({
        "thread_id": hit.thread, "seq": hit.seq, "at_ms": hit.at_ms, "actor_id": hit.actor_id, "id": hit.id,
        "text": hit.text,
    })
}

pub fn hit_table(hits: &[ThreadHit]) -> Table {
    let mut table = Table::new(&["thread", "seq", "who", "text"]);
    for hit in hits {
        let first = hit.text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
        let shown: String = first.chars().take(100).collect();
        table.row([hit.thread.clone().into(), hit.seq.to_string().into(), hit.actor_id.clone().into(), shown.into()]);
    }
    table
}

fn parsed(json: &Json) -> Value {
    serde_json::from_str(json.get()).unwrap_or(Value::Null)
}

pub fn decision_json((seq, decision): &(u64, SelectionDecided)) -> Value {
    let checkpoints = decision
        .compaction_checkpoints
        .iter()
        .map(|checkpoint| json!({"checkpoint_id": checkpoint.checkpoint_id, "to_seq": checkpoint.to_seq}));
    json!({
        "seq": seq, "run": decision.run_session_id, "message_id": decision.message_id,
        "strategy": decision.compiler_strategy, "limits": parsed(&decision.limits),
        "reason": decision.reason.as_ref().map(parsed), "checkpoints": checkpoints.collect::<Vec<_>>(),
        "resets": decision.resets.len(),
    })
}

pub fn decision_table(decisions: &[(u64, SelectionDecided)]) -> Table {
    let mut table = Table::new(&["seq", "run", "strategy", "because"]);
    for (seq, decision) in decisions {
        let cause = decision.reason.as_ref().map(parsed).unwrap_or_default();
        table.row([
            seq.to_string().into(),
            decision.run_session_id.clone().into(),
            decision.compiler_strategy.clone().into(),
            cause["cause"].as_str().unwrap_or("-").into(),
        ]);
    }
    table
}

pub fn edge_json(edge: &ThreadEdge) -> Value {
    json!({"kind": edge.kind, "from": edge.from, "to": edge.to, "to_seq": edge.to_seq})
}

pub fn edge_table(edges: &[ThreadEdge]) -> Table {
    let mut table = Table::new(&["thread", "is a", "of", "at"]);
    for edge in edges {
        let at = edge.to_seq.map(|seq| seq.to_string()).unwrap_or_default();
        table.row([edge.from.clone().into(), edge.kind.into(), edge.to.clone().into(), at.into()]);
    }
    table
}

fn time(ms: u64) -> String {
    Timestamp::from_millis(ms as i64).to_string()
}

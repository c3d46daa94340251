//! Threads as tables and as JSON.

use enjamb_core::Timestamp;
use enjamb_server::view;

use super::Context;
use super::show::as_json;
use crate::failure::{Exit, Result};
use crate::text::count;
use crate::ui::{Cell, Table};

pub fn print_thread(context: &mut Context<'_>, thread: &view::Thread) -> Result<Exit> {
    if context.ui.is_json() {
        context.ui.json("thread", as_json(thread))?;
        return Ok(Exit::Done);
    }
    let mut rows = vec![("thread", thread.thread_id.clone())];
    rows.extend(thread.title.clone().map(|title| ("title", title)));
    rows.extend(thread.workspace.clone().map(|workspace| ("workspace", workspace)));
    if let Some(origin) = &thread.origin {
        rows.push((origin.kind.as_str(), format!("of {} at {}", origin.thread_id, origin.seq)));
    }
    rows.push(("messages", format!("{} in {} frames", count(thread.messages), count(thread.frames))));
    rows.push(("begun", time(thread.created_at_ms)));
    if !thread.tags.is_empty() {
        rows.push(("tags", thread.tags.join(" ")));
    }
    if thread.archived {
        rows.push(("archived", "yes".into()));
    }
    for (name, value) in rows {
        context.ui.answer(format!("{name:12}{value}"))?;
    }
    Ok(Exit::Done)
}

pub fn thread_table(threads: &[view::Thread]) -> Table {
    let mut table = Table::new(&["thread", "begun", "messages", "title", "tags"]);
    for thread in threads {
        let messages = Cell::new(count(thread.messages), thread.messages);
        let title = thread.title.clone().or_else(|| thread.workspace.clone()).unwrap_or_default();
        let title = if thread.archived { format!("{title} (archived)") } else { title };
        table.row([
            thread.thread_id.clone().into(),
            time(thread.created_at_ms).into(),
            messages,
            title.into(),
            thread.tags.join(" ").into(),
        ]);
    }
    table
}

pub fn hit_table(hits: &[view::Hit]) -> Table {
    let mut table = Table::new(&["thread", "seq", "who", "text"]);
    for hit in hits {
        let first = hit.text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
        let shown: String = first.chars().take(100).collect();
        let (thread, who) = (hit.thread_id.clone(), hit.actor_id.clone());
        table.row([thread.into(), hit.seq.to_string().into(), who.into(), shown.into()]);
    }
    table
}

pub fn decision_table(decisions: &[view::Decision]) -> Table {
    let mut table = Table::new(&["seq", "run", "strategy", "because"]);
    for decision in decisions {
        let cause = decision.reason.as_ref().and_then(|reason| reason["cause"].as_str());
        table.row([
            decision.seq.to_string().into(),
            decision.run.clone().into(),
            decision.strategy.clone().into(),
            cause.unwrap_or("-").into(),
        ]);
    }
    table
}

pub fn edge_table(edges: &[view::Edge]) -> Table {
    let mut table = Table::new(&["thread", "is a", "of", "at"]);
    for edge in edges {
        let at = edge.to_seq.map(|seq| seq.to_string()).unwrap_or_default();
        table.row([edge.from.clone().into(), edge.kind.clone().into(), edge.to.clone().into(), at.into()]);
    }
    table
}

fn time(ms: u64) -> String {
    Timestamp::from_millis(ms as i64).to_string()
}

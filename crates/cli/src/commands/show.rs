//! `enjamb show`

use clap::Args;
use enjamb_server::view;
use serde_json::{Value, json};

use super::Context;
use crate::failure::{Exit, Result};
use crate::text::count;

#[derive(Args)]
#[command(
    after_help = "Example:\n  enjamb show ctx-3f2a\n  enjamb show @-\n  enjamb show agent/reviewer@2026-11-15T09:12:00Z"
)]
pub struct Show {
    /// The commit: an id or its beginning, a ref, @, @-, @~3, PRINCIPAL@TIME
    #[arg(default_value = "@")]
    revision: String,
}

impl Show {
    pub fn run(self, context: &mut Context<'_>) -> Result<Exit> {
        let commit: view::Context = context.operations()?.call("show", json!({"context": self.revision}))?;
        if context.ui.is_json() {
            context.ui.json("show", as_json(&commit))?;
            return Ok(Exit::Done);
        }
        for (name, value) in rows(&commit) {
            context.ui.answer(format!("{name:12}{value}"))?;
        }
        Ok(Exit::Done)
    }
}

fn rows(commit: &view::Context) -> Vec<(&'static str, String)> {
    let tokens = format!("{} by {}", count(commit.tokens.value), commit.tokens.method.as_deref().unwrap_or("?"));
    let mut rows = vec![("commit", commit.id.clone()), ("type", commit.kind.clone())];
    let optional = [
        ("parent", &commit.parent),
        ("principal", &commit.principal),
        ("template", &commit.template),
        ("machine", &commit.machine),
        ("session", &commit.session_id),
        ("thread", &commit.thread_id),
        ("summary", &commit.summary),
    ];
    rows.extend(optional.into_iter().filter_map(|(name, value)| value.clone().map(|value| (name, value))));
    rows.extend(commit.tickets.iter().map(|ticket| ("ticket", ticket.clone())));
    rows.extend([
        ("trigger", commit.checkpoint.clone()),
        ("format", commit.format.clone()),
        ("artifact", commit.artifact.clone()),
        ("messages", count(commit.messages)),
        ("tokens", tokens),
        ("created", commit.created_at.clone()),
    ]);
    if !commit.tags.is_empty() {
        rows.push(("tags", commit.tags.join(" ")));
    }
    rows.extend(commit.children.iter().flatten().map(|child| ("child", child.clone())));
    rows
}

/// A view as a document.
pub fn as_json(view: &impl serde::Serialize) -> Value {
    serde_json::to_value(view).unwrap_or_default()
}

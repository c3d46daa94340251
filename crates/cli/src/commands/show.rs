//! `enjamb show`

use clap::Args;
use enjamb_core::CommitId;
use enjamb_ledger::StoredCommit;
use enjamb_service::{tags_of, tickets_of};
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
        let (commit, children) = match context.remote()? {
            Some(remote) => remote.show(&self.revision)?,
            None => {
                let store = context.open()?;
                let id = store.revision(&self.revision)?;
                (store.show(&id)?, store.children(&id)?)
            }
        };
        if context.ui.is_json() {
            context.ui.json("show", commit_json(&commit, Some(&children)))?;
            return Ok(Exit::Done);
        }
        for (name, value) in rows(&commit, &children) {
            context.ui.answer(format!("{name:12}{value}"))?;
        }
        Ok(Exit::Done)
    }
}

fn rows(stored: &StoredCommit, children: &[CommitId]) -> Vec<(&'static str, String)> {
    let commit = &stored.commit;
    let tokens = format!("{} by {}", count(commit.token_count), commit.token_method.as_deref().unwrap_or("?"));
    let mut rows = vec![("commit", commit.commit_id.clone()), ("type", stored.link.kind.as_str().into())];
    let optional = [
        ("parent", &commit.parent),
        ("principal", &commit.principal),
        ("template", &commit.template),
        ("machine", &commit.machine),
        ("session", &commit.agent_session_id),
        ("thread", &commit.thread_id),
        ("summary", &stored.summary),
    ];
    rows.extend(optional.into_iter().filter_map(|(name, value)| value.clone().map(|value| (name, value))));
    rows.extend(tickets_of(stored).into_iter().map(|ticket| ("ticket", ticket.to_owned())));
    rows.extend([
        ("trigger", commit.checkpoint.as_str().into()),
        ("format", commit.format.clone()),
        ("artifact", commit.artifact_ref.clone()),
        ("messages", count(commit.message_count)),
        ("tokens", tokens),
        ("created", commit.created_at.clone()),
    ]);
    if !tags_of(stored).is_empty() {
        rows.push(("tags", tags_of(stored).join(" ")));
    }
    rows.extend(children.iter().map(|child| ("child", child.to_string())));
    rows
}

pub fn commit_json(stored: &StoredCommit, children: Option<&[CommitId]>) -> Value {
    let commit = &stored.commit;
    let mut value = json!({
        "id": commit.commit_id, "type": stored.link.kind.as_str(), "parent": commit.parent,
        "generation": stored.link.generation, "principal": commit.principal, "template": commit.template,
        "machine": commit.machine, "session_id": commit.agent_session_id, "ticket_id": commit.ticket_id,
        "thread_id": commit.thread_id, "checkpoint": commit.checkpoint.as_str(), "format": commit.format,
        "artifact": commit.artifact_ref, "messages": commit.message_count,
        "tokens": {"value": commit.token_count, "method": commit.token_method},
        "created_at": commit.created_at, "summary": stored.summary, "tags": tags_of(stored), "tickets": tickets_of(stored),
        "attributes": commit.attributes.as_ref().and_then(|json| serde_json::from_str::<Value>(json.get()).ok()),
        "stream": stored.stream.to_string(), "seq": stored.seq,
    });
    if let Some(children) = children {
        value["children"] = children.iter().map(ToString::to_string).collect();
    }
    value
}

//! `enjamb log`

use clap::Args;
use enjamb_core::CommitId;
use enjamb_core::chain::CommitKind;
use enjamb_ledger::StoredCommit;
use enjamb_service::Store;
use renderdag::{Ancestor, GraphRowRenderer, Renderer};
use serde_json::json;

use super::Context;
use super::show::commit_json;
use super::status::now_ms;
use crate::failure::{Exit, Result};
use crate::text::{ago, count, safe};
use crate::ui::{Cell, Table};

#[derive(Args)]
#[command(after_help = "Example:\n  enjamb log\n  enjamb log reviewer-a -n 5\n  enjamb log --graph")]
pub struct Log {
    /// Where to begin: an id or its beginning, a ref, @, @-, PRINCIPAL@TIME
    #[arg(default_value = "@")]
    revision: String,
    /// At most so many
    #[arg(short = 'n', long, default_value_t = 20, value_name = "COUNT")]
    limit: usize,
    /// Draw the branches that leave this history too
    #[arg(long)]
    graph: bool,
}

impl Log {
    pub fn run(self, context: &mut Context<'_>) -> Result<Exit> {
        let store = context.open()?;
        let tip = store.revision(&self.revision)?;
        let history = store.history(&tip, self.limit)?;
        if context.ui.is_json() {
            let rows: Vec<_> = history.iter().map(|commit| commit_json(commit, None)).collect();
            context.ui.json("log", json!({"contexts": rows}))?;
        } else if self.graph {
            for line in graph(&store, &history, tip, self.limit)? {
                context.ui.answer(line)?;
            }
        } else {
            context.ui.table(&table(&history))?;
        }
        Ok(Exit::Done)
    }
}

fn table(history: &[StoredCommit]) -> Table {
    let now = now_ms();
    let mut table = Table::new(&["", "commit", "age", "who", "tokens", "what"]);
    for stored in history {
        let id = &stored.commit.commit_id;
        table.row([
            sign(stored.link.kind).into(),
            Cell::new(&id[..12], id),
            Cell::new(ago(now, stored.link.created_at.as_millis()), &stored.commit.created_at),
            stored.commit.principal.clone().unwrap_or_default().into(),
            Cell::new(count(stored.commit.token_count), stored.commit.token_count),
            stored.summary.clone().unwrap_or_default().into(),
        ]);
    }
    table
}

fn sign(kind: CommitKind) -> &'static str {
    match kind {
        CommitKind::Delta => "○",
        CommitKind::Compaction => "◆",
        CommitKind::Snapshot => "◇",
    }
}

/// The history and the branches that leave it, newest first, drawn as lanes.
fn graph(store: &Store, history: &[StoredCommit], tip: CommitId, limit: usize) -> Result<Vec<String>> {
    let mut all = history.to_vec();
    for stored in history {
        for child in store.children(&stored.link.id)? {
            add_branch(store, &mut all, child, limit)?;
        }
    }
    // Children before parents, and of two branches the younger first.
    all.sort_by_key(|stored| std::cmp::Reverse((stored.link.created_at, stored.link.generation)));
    let now = now_ms();
    let mut renderer = GraphRowRenderer::new().output().with_min_row_height(0).build_box_drawing();
    let mut lines = Vec::new();
    for stored in all.iter().take(limit) {
        let parents = stored.link.parent.map(|parent| match all.iter().any(|other| other.link.id == parent) {
            true => Ancestor::Parent(parent),
            false => Ancestor::Ancestor(parent),
        });
        let glyph = if stored.link.id == tip { "@" } else { sign(stored.link.kind) };
        let row = renderer.next_row(stored.link.id, parents.into_iter().collect(), glyph.into(), describe(stored, now));
        lines.extend(row.lines().map(str::to_owned));
    }
    Ok(lines)
}

fn add_branch(store: &Store, all: &mut Vec<StoredCommit>, id: CommitId, limit: usize) -> Result<()> {
    let mut waiting = vec![id];
    while let Some(id) = waiting.pop().filter(|_| all.len() < limit * 4) {
        if all.iter().any(|stored| stored.link.id == id) {
            continue;
        }
        all.push(store.show(&id)?);
        waiting.extend(store.children(&id)?);
    }
    Ok(())
}

fn describe(stored: &StoredCommit, now: u64) -> String {
    let age = ago(now, stored.link.created_at.as_millis());
    let who = stored.commit.principal.as_deref().unwrap_or_default();
    let what = stored.summary.as_deref().unwrap_or_default();
    let text =
        format!("{}  {age}  {who}  {}  {what}", &stored.commit.commit_id[..12], count(stored.commit.token_count));
    safe(text.trim_end()).replace('\n', " ")
}

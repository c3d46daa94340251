//! `enjamb log`

use clap::Args;
use enjamb_core::CommitId;
use enjamb_core::chain::CommitKind;
use enjamb_ledger::StoredCommit;
use enjamb_service::{Filter, Page, Source, Store};
use renderdag::{Ancestor, GraphRowRenderer, Renderer};
use serde_json::json;

use super::Context;
use super::filter::Filters;
use super::show::commit_json;
use super::status::now_ms;
use crate::failure::{Exit, Failure, Result};
use crate::text::{ago, count, safe};
use crate::ui::{Cell, Table};

#[derive(Args)]
#[command(
    after_help = "Example:\n  enjamb log\n  enjamb log reviewer-a -n 5\n  enjamb log --graph\n  enjamb log --all --since 7d\n  \
    enjamb log --principal agent/reviewer --ticket tkt-12\n  enjamb log --no-summary\n\n\
    A filter without a commit to begin at looks at all commits, whosever they are."
)]
pub struct Log {
    /// Where to begin, @ if not given: an id or its beginning, a ref, @-, PRINCIPAL@TIME
    revision: Option<String>,
    /// All commits, not one history
    #[arg(long, conflicts_with = "revision")]
    all: bool,
    /// At most so many
    #[arg(short = 'n', long, default_value_t = 20, value_name = "COUNT")]
    limit: usize,
    /// Go on after this commit, which ended a list
    #[arg(long, value_name = "ID")]
    after: Option<String>,
    /// Draw the branches that leave this history too
    #[arg(long, conflicts_with_all = ["all", "after"])]
    graph: bool,
    /// Only commits without a summary; of all commits, the oldest first
    #[arg(long, help_heading = "Filters")]
    no_summary: bool,
    #[command(flatten)]
    filters: Filters,
}

impl Log {
    pub fn run(self, context: &mut Context<'_>) -> Result<Exit> {
        let filter = Filter { no_summary: self.no_summary, ..self.filters.read()? };
        let is_filtered = filter != Filter::default();
        if self.graph && is_filtered {
            return Err(Failure::usage("a graph shows whole branches: leave the filters or --graph out"));
        }
        if let Some(remote) = context.remote()? {
            if self.graph {
                return Err(Failure::usage("a graph is drawn of a store on this machine: leave --graph out"));
            }
            let from = match &self.revision {
                None if self.all || is_filtered => None,
                revision => Some(revision.as_deref().unwrap_or("@")),
            };
            let page = remote.list(from, &filter, self.after.as_deref(), self.limit)?;
            return report(context, "log", &page);
        }
        let store = context.open()?;
        let after = self.after.as_deref().map(|text| store.revision(text)).transpose()?;
        let is_all = self.revision.is_none() && (self.all || is_filtered);
        if is_all {
            let source = if filter.no_summary { Source::Unsummarised } else { Source::Store };
            let page = store.list(source, &filter, after, self.limit)?;
            return report(context, "log", &page);
        }
        let tip = store.revision(self.revision.as_deref().unwrap_or("@"))?;
        let page = store.list(Source::Chain(tip), &filter, after, self.limit)?;
        if !self.graph || context.ui.is_json() {
            return report(context, "log", &page);
        }
        for line in graph(&store, &page.commits, tip, self.limit)? {
            context.ui.answer(line)?;
        }
        Ok(Exit::Done)
    }
}

/// Prints a page, and how to come by the next one.
pub fn report(context: &mut Context<'_>, schema: &str, page: &Page) -> Result<Exit> {
    let next = page.next.map(|id| id.to_string());
    if context.ui.is_json() {
        let rows: Vec<_> = page.commits.iter().map(|commit| commit_json(commit, None)).collect();
        context.ui.json(schema, json!({"contexts": rows, "next": next}))?;
        return Ok(Exit::Done);
    }
    context.ui.table(&table(&page.commits))?;
    if let Some(next) = next {
        context.ui.note(&format!("there may be more: --after {next}"));
    }
    Ok(Exit::Done)
}

pub fn table(history: &[StoredCommit]) -> Table {
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

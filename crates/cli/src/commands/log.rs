//! `enjamb log`

use clap::Args;
use enjamb_core::limits;
use enjamb_server::{Operations, view};
use enjamb_service::Filter;
use renderdag::{Ancestor, GraphRowRenderer, Renderer};
use serde_json::json;

use super::Context;
use super::filter::Filters;
use super::show::as_json;
use super::status::{millis, now_ms};
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
        let operations = context.operations()?;
        let from = match self.revision {
            None if self.all || is_filtered => None,
            revision => Some(revision.unwrap_or_else(|| "@".into())),
        };
        let after = self.after.as_deref().map(|text| commit_id(&operations, text)).transpose()?;
        let is_drawn = self.graph && !context.ui.is_json();
        let wanted = Wanted { from: from.as_deref(), branches: is_drawn, limit: self.limit };
        let page = pages(&operations, wanted, &filter, after)?;
        if !is_drawn {
            return report(context, "log", &page);
        }
        for line in graph(context, page.contexts, self.limit) {
            context.ui.answer(line)?;
        }
        Ok(Exit::Done)
    }
}

/// The whole id of a commit that is named by any word.
pub fn commit_id(operations: &Operations, revision: &str) -> Result<String> {
    let found: view::Context = operations.call("show", json!({"context": revision}))?;
    Ok(found.id)
}

/// Which commits are listed.
#[derive(Clone, Copy)]
struct Wanted<'a> {
    /// Along the chain of this one; otherwise all of the store.
    from: Option<&'a str>,
    /// Also those that leave the chain.
    branches: bool,
    limit: usize,
}

/// Commits of the store, or along a chain.
pub fn list(
    operations: &Operations,
    from: Option<&str>,
    filter: &Filter,
    after: Option<String>,
    limit: usize,
) -> Result<view::Contexts> {
    pages(operations, Wanted { from, branches: false, limit }, filter, after)
}

/// As many commits as are wanted: pages of an operation are bounded.
fn pages(
    operations: &Operations,
    wanted: Wanted<'_>,
    filter: &Filter,
    after: Option<String>,
) -> Result<view::Contexts> {
    let mut all = view::Contexts { contexts: Vec::new(), next: after };
    loop {
        let left = wanted.limit.saturating_sub(all.contexts.len()).min(limits::PAGE_ROWS_MAX);
        if left == 0 {
            return Ok(all);
        }
        let page: view::Contexts = operations.call(
            "log",
            json!({
                "from": wanted.from, "branches": wanted.branches, "principal": filter.principal, "template": filter.template, "session": filter.session,
                "ticket": filter.ticket, "has_ticket": filter.has_ticket, "thread": filter.thread,
                "format": filter.format, "since": filter.since.map(|at| at.to_string()),
                "until": filter.until.map(|at| at.to_string()), "no_summary": filter.no_summary, "tips": filter.tips,
                "limit": left, "cursor": all.next,
            }),
        )?;
        all.contexts.extend(page.contexts);
        all.next = page.next;
        if all.next.is_none() {
            return Ok(all);
        }
    }
}

/// Prints a page, and how to come by the next one.
pub fn report(context: &mut Context<'_>, schema: &str, page: &view::Contexts) -> Result<Exit> {
    if context.ui.is_json() {
        context.ui.json(schema, as_json(page))?;
        return Ok(Exit::Done);
    }
    context.ui.table(&table(&page.contexts))?;
    if let Some(next) = &page.next {
        context.ui.note(&format!("there may be more: --after {next}"));
    }
    Ok(Exit::Done)
}

pub fn table(history: &[view::Context]) -> Table {
    let now = now_ms();
    let mut table = Table::new(&["", "commit", "age", "who", "tokens", "what"]);
    for commit in history {
        table.row([
            sign(&commit.kind).into(),
            short(&commit.id),
            Cell::new(ago(now, millis(&commit.created_at)), &commit.created_at),
            commit.principal.clone().unwrap_or_default().into(),
            Cell::new(count(commit.tokens.value), commit.tokens.value),
            commit.summary.clone().unwrap_or_default().into(),
        ]);
    }
    table
}

/// The beginning of an id for a person, all of it for a program.
pub fn short(id: &str) -> Cell {
    Cell::new(beginning(id), id)
}

fn beginning(id: &str) -> &str {
    id.get(..12).unwrap_or(id)
}

fn sign(kind: &str) -> &'static str {
    match kind {
        "compaction" => "◆",
        "snapshot" => "◇",
        _ => "○",
    }
}

/// A history and the branches that leave it, newest first, drawn as lanes. The first that is given is the tip.
fn graph(context: &Context<'_>, mut all: Vec<view::Context>, limit: usize) -> Vec<String> {
    let tip = all.first().map(|commit| commit.id.clone()).unwrap_or_default();
    // Children before parents, and of two branches the younger first.
    all.sort_by_key(|commit| std::cmp::Reverse((micros(&commit.created_at), commit.generation)));
    let now = now_ms();
    let mut renderer = GraphRowRenderer::new().output().with_min_row_height(0).build_box_drawing();
    let mut lines = Vec::new();
    for commit in all.iter().take(limit) {
        let parents = commit.parent.clone().map(|parent| match all.iter().any(|other| other.id == parent) {
            true => Ancestor::Parent(parent),
            false => Ancestor::Ancestor(parent),
        });
        let glyph = if commit.id == tip { "@" } else { sign(&commit.kind) };
        let when = context.ui.told(Cell::new(ago(now, millis(&commit.created_at)), &commit.created_at));
        let row =
            renderer.next_row(commit.id.clone(), parents.into_iter().collect(), glyph.into(), told(commit, &when));
        lines.extend(row.lines().map(str::to_owned));
    }
    lines
}

fn micros(at: &str) -> i64 {
    at.parse::<enjamb_core::Timestamp>().map_or(0, enjamb_core::Timestamp::as_micros)
}

fn told(commit: &view::Context, when: &str) -> String {
    let who = commit.principal.as_deref().unwrap_or_default();
    let what = commit.summary.as_deref().unwrap_or_default();
    let text = format!("{}  {when}  {who}  {}  {what}", beginning(&commit.id), count(commit.tokens.value));
    safe(text.trim_end()).replace('\n', " ")
}

//! `enjamb link`

use clap::Args;
use enjamb_server::{Operations, view};
use enjamb_service::Filter;
use serde_json::json;

use super::log::{commit_id, list, short};
use super::show::as_json;
use super::status::{millis, now_ms};
use super::{Context, current};
use crate::failure::{Exit, Result};
use crate::text::ago;
use crate::ui::{Cell, Table};

#[derive(Args)]
#[command(
    after_help = "Example:\n  enjamb link PAY-12              what this agent knows now\n  enjamb link PAY-12 ctx-3f2a\n  \
    enjamb link PAY-12 ctx-3f2a --remove\n  enjamb link                     all commits with tickets\n  \
    enjamb link PAY-12 --list\n\n\
    A commit may be linked to any number of tickets, besides the one that it was made for (enjamb checkpoint --ticket). \
    enjamb log --ticket PAY-12 lists both."
)]
pub struct Link {
    /// The ticket, as its tracker names it
    ticket: Option<String>,
    /// The commit [default: enjamb current]
    revision: Option<String>,
    /// Take the link away
    #[arg(long, requires = "ticket")]
    remove: bool,
    /// List commits, of this ticket or of any
    #[arg(long, conflicts_with_all = ["remove", "revision"])]
    list: bool,
    /// List at most so many
    #[arg(short = 'n', long, default_value_t = 20, value_name = "COUNT")]
    limit: usize,
    /// Go on after this commit, which ended a list
    #[arg(long, value_name = "ID")]
    after: Option<String>,
}

impl Link {
    pub fn run(self, context: &mut Context<'_>) -> Result<Exit> {
        let Some(ticket) = self.ticket.as_deref().filter(|_| !self.list) else {
            let operations = context.operations()?;
            let after = self.after.as_deref().map(|text| commit_id(&operations, text)).transpose()?;
            let filter = Filter { has_ticket: true, ticket: self.ticket.clone(), ..Filter::default() };
            let page = list(&operations, None, &filter, after, self.limit)?;
            return report(context, &page);
        };
        let revision = match &self.revision {
            Some(revision) => revision.clone(),
            None => current::ask(context)?.id,
        };
        let links = self.change(&context.operations()?, &revision, ticket)?;
        if context.ui.is_json() {
            context.ui.json("link", as_json(&links))?;
        } else {
            context.ui.answer(format!("{}  {}", links.id, links.tickets.join(" ")).trim_end())?;
        }
        Ok(Exit::Done)
    }

    fn change(&self, operations: &Operations, revision: &str, ticket: &str) -> Result<view::Links> {
        let operation = if self.remove { "unlink" } else { "link" };
        Ok(operations.call(operation, json!({"context": revision, "ticket": ticket}))?)
    }
}

fn report(context: &mut Context<'_>, page: &view::Contexts) -> Result<Exit> {
    if context.ui.is_json() {
        context.ui.json("links", as_json(page))?;
        return Ok(Exit::Done);
    }
    context.ui.table(&table(&page.contexts))?;
    if let Some(next) = &page.next {
        context.ui.note(&format!("there may be more: --after {next}"));
    }
    Ok(Exit::Done)
}

fn table(commits: &[view::Context]) -> Table {
    let now = now_ms();
    let mut table = Table::new(&["ticket", "commit", "age", "who", "what"]);
    for commit in commits {
        for ticket in &commit.tickets {
            table.row([
                ticket.clone().into(),
                short(&commit.id),
                Cell::new(ago(now, millis(&commit.created_at)), &commit.created_at),
                commit.principal.clone().unwrap_or_default().into(),
                commit.summary.clone().unwrap_or_default().into(),
            ]);
        }
    }
    table
}

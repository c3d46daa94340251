//! `enjamb link`

use clap::Args;
use enjamb_core::CommitId;
use enjamb_ledger::StoredCommit;
use enjamb_service::{Filter, Page, Source, Store, tickets_of};
use serde_json::json;

use super::show::commit_json;
use super::status::now_ms;
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
        let store = context.open()?;
        let Some(ticket) = self.ticket.as_deref().filter(|_| !self.list) else {
            let after = self.after.as_deref().map(|text| store.revision(text)).transpose()?;
            let filter = Filter { has_ticket: true, ticket: self.ticket.clone(), ..Filter::default() };
            let page = store.list(Source::Store, &filter, after, self.limit)?;
            return report(context, &page);
        };
        let id = self.commit(&store)?;
        let stored = match self.remove {
            true => store.unlink(&id, ticket, &context.actor())?,
            false => store.link(&id, ticket, &context.actor())?,
        };
        if context.ui.is_json() {
            context.ui.json("link", json!({"id": id.to_string(), "tickets": tickets_of(&stored)}))?;
        } else {
            context.ui.answer(format!("{id}  {}", tickets_of(&stored).join(" ")).trim_end())?;
        }
        Ok(Exit::Done)
    }

    fn commit(&self, store: &Store) -> Result<CommitId> {
        match &self.revision {
            Some(revision) => Ok(store.revision(revision)?),
            None => Ok(current::ask(store)?.id),
        }
    }
}

fn report(context: &mut Context<'_>, page: &Page) -> Result<Exit> {
    let next = page.next.map(|id| id.to_string());
    if context.ui.is_json() {
        let rows: Vec<_> = page.commits.iter().map(|stored| commit_json(stored, None)).collect();
        context.ui.json("links", json!({"contexts": rows, "next": next}))?;
        return Ok(Exit::Done);
    }
    context.ui.table(&table(&page.commits))?;
    if let Some(next) = next {
        context.ui.note(&format!("there may be more: --after {next}"));
    }
    Ok(Exit::Done)
}

fn table(commits: &[StoredCommit]) -> Table {
    let now = now_ms();
    let mut table = Table::new(&["ticket", "commit", "age", "who", "what"]);
    for stored in commits {
        let id = &stored.commit.commit_id;
        for ticket in tickets_of(stored) {
            table.row([
                ticket.into(),
                Cell::new(&id[..12], id),
                Cell::new(ago(now, stored.link.created_at.as_millis()), &stored.commit.created_at),
                stored.commit.principal.clone().unwrap_or_default().into(),
                stored.summary.clone().unwrap_or_default().into(),
            ]);
        }
    }
    table
}

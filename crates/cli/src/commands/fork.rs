//! `enjamb fork` and `enjamb refs`

use clap::Args;
use enjamb_service::Expect;
use serde_json::json;

use super::Context;
use crate::failure::{Exit, Result};
use crate::ui::{Cell, Table};

#[derive(Args)]
#[command(
    after_help = "Example:\n  enjamb fork ctx-3f2a -n reviewer-a\n  enjamb checkpoint reply.jsonl --format claude-code-v1 --parent reviewer-a\n\n\
    A fork is a name for a commit; what is committed with it as its parent is a branch. Nothing is copied."
)]
pub struct Fork {
    /// The commit to fork from
    #[arg(default_value = "@")]
    revision: String,
    /// The name of the fork
    #[arg(short = 'n', long)]
    name: String,
    /// Move the name if it is there already
    #[arg(long)]
    force: bool,
}

#[derive(Args)]
#[command(after_help = "Example:\n  enjamb refs\n  enjamb refs --delete reviewer-a")]
pub struct Refs {
    /// Take this name away; the commit stays
    #[arg(long, value_name = "NAME")]
    delete: Option<String>,
}

impl Fork {
    pub fn run(self, context: &mut Context<'_>) -> Result<Exit> {
        let store = context.open()?;
        let id = store.revision(&self.revision)?;
        let expect = if self.force { Expect::Anything } else { Expect::Nothing };
        let previous = store.move_reference(&self.name, Some(id), expect, &context.actor())?;
        if context.ui.is_json() {
            let previous = previous.map(|id| id.to_string());
            context.ui.json("fork", json!({"name": self.name, "commit": id.to_string(), "previous": previous}))?;
        } else {
            context.ui.line(format!("{} is {id}", self.name))?;
        }
        Ok(Exit::Done)
    }
}

impl Refs {
    pub fn run(self, context: &mut Context<'_>) -> Result<Exit> {
        let store = context.open()?;
        if let Some(name) = &self.delete {
            store.move_reference(name, None, Expect::Anything, &context.actor())?;
        }
        let refs = store.references()?;
        if context.ui.is_json() {
            let rows: Vec<_> =
                refs.iter().map(|view| json!({"name": view.name, "commit": view.commit.to_string()})).collect();
            context.ui.json("refs", json!({"refs": rows}))?;
            return Ok(Exit::Done);
        }
        let mut table = Table::new(&["name", "commit"]);
        for view in &refs {
            let id = view.commit.to_string();
            table.row([view.name.as_str().into(), Cell::new(&id[..12], &id)]);
        }
        context.ui.table(&table)?;
        Ok(Exit::Done)
    }
}

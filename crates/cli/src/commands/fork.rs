//! `enjamb fork` and `enjamb refs`

use clap::Args;
use enjamb_server::view;
use serde_json::json;

use super::Context;
use super::log::short;
use crate::failure::{Exit, Result};
use crate::ui::Table;

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
        // Without force the name has to be a new one.
        let headers = [("if-none-match", "*")];
        let headers = if self.force { &[][..] } else { &headers[..] };
        let asked = json!({"context": self.revision, "name": self.name});
        let made: view::Ref = context.operations()?.call_with("fork", asked, headers)?;
        let commit = made.commit.unwrap_or_default();
        if context.ui.is_json() {
            context.ui.json("fork", json!({"name": made.name, "commit": commit, "previous": made.previous}))?;
        } else {
            context.ui.line(format!("{} is {commit}", made.name))?;
        }
        Ok(Exit::Done)
    }
}

impl Refs {
    pub fn run(self, context: &mut Context<'_>) -> Result<Exit> {
        let operations = context.operations()?;
        if let Some(name) = &self.delete {
            let _: view::Ref = operations.call("delete_ref", json!({"name": name}))?;
        }
        let refs: view::Refs = operations.call("refs", json!({}))?;
        if context.ui.is_json() {
            context.ui.json("refs", super::show::as_json(&refs))?;
            return Ok(Exit::Done);
        }
        let mut table = Table::new(&["name", "commit"]);
        for view in &refs.refs {
            table.row([view.name.as_str().into(), short(view.commit.as_deref().unwrap_or_default())]);
        }
        context.ui.table(&table)?;
        Ok(Exit::Done)
    }
}

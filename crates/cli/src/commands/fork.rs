//! `enjamb fork` and `enjamb refs`

use std::path::PathBuf;

use clap::Args;
use enjamb_core::CommitId;
use enjamb_server::view;
use enjamb_service::{Expect, Forked};
use serde_json::json;

use super::Context;
use super::log::short;
use crate::failure::{Exit, Result};
use crate::text::plural;
use crate::ui::Table;

#[derive(Args)]
#[command(
    after_help = "Example:\n  enjamb fork ctx-3f2a -n reviewer-a\n  enjamb checkpoint reply.jsonl --format claude-code-v1 --parent reviewer-a\n  \
    enjamb fork ctx-3f2a -n reviewer-b --worktree ../reviewer-b\n\n\
    A fork is a name for a commit; what is committed with it as its parent is a branch. Nothing is copied, unless a \
    worktree is asked for: a git worktree is made, with the files of the workspace checkpoint that the commit belongs to."
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
    /// Also restore the files that belong to the commit, into a new git worktree
    #[arg(long, value_name = "DIR")]
    worktree: Option<PathBuf>,
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
        if let Some(dir) = &self.worktree {
            // Files are restored here, so the store has to be here too.
            let store = context.open()?;
            let id = store.revision(&self.revision)?;
            let expect = if self.force { Expect::Anything } else { Expect::Nothing };
            let forked = store.fork_worktree(&id, &self.name, expect, dir, &context.actor())?;
            return show_worktree(context, &self.name, id, &forked);
        }
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

fn show_worktree(context: &mut Context<'_>, name: &str, id: CommitId, forked: &Forked) -> Result<Exit> {
    let dir = forked.worktree.display().to_string();
    if context.ui.is_json() {
        let value = json!({
            "name": name, "commit": id.to_string(), "previous": forked.previous.map(|id| id.to_string()),
            "worktree": dir, "checkpoint": forked.checkpoint.id, "git": forked.head, "files": forked.files,
        });
        context.ui.json("fork", value)?;
        return Ok(Exit::Done);
    }
    context.ui.line(format!("{name} is {id}"))?;
    let files = plural(forked.files, "file");
    context.ui.line(format!("{dir} has {files} of {}, over git commit {}", forked.checkpoint.id, forked.head))?;
    Ok(Exit::Done)
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

//! `enjamb note`

use clap::Args;
use enjamb_server::view;
use serde_json::json;

use super::Context;
use super::show::as_json;
use crate::failure::{Exit, Failure, Result};

#[derive(Args)]
#[command(
    after_help = "Example:\n  enjamb note @ -m \"caps retries at 3\"\n  enjamb note ctx-3f2a --tag reviewed --tag payments\n\n\
    What was said before stays in the log: enjamb frames context/PRINCIPAL"
)]
pub struct Note {
    /// The commit
    revision: String,
    /// What it is about, in a line; empty takes the summary away
    #[arg(short = 'm', long)]
    summary: Option<String>,
    /// All its tags from now on
    #[arg(long = "tag", value_name = "TAG")]
    tags: Vec<String>,
    /// Take its tags away
    #[arg(long, conflicts_with = "tags")]
    no_tags: bool,
}

impl Note {
    pub fn run(self, context: &mut Context<'_>) -> Result<Exit> {
        let tags = (self.no_tags || !self.tags.is_empty()).then_some(self.tags);
        if self.summary.is_none() && tags.is_none() {
            return Err(Failure::usage("what is to be noted? Give -m or --tag"));
        }
        let asked = json!({"context": self.revision, "summary": self.summary, "tags": tags});
        let commit: view::Context = context.operations()?.call("note", asked)?;
        if context.ui.is_json() {
            context.ui.json("note", as_json(&commit))?;
        } else {
            let summary = commit.summary.as_deref().unwrap_or_default();
            context.ui.line(format!("{}  {summary}  {}", commit.id, commit.tags.join(" ")).trim_end())?;
        }
        Ok(Exit::Done)
    }
}

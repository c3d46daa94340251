//! `enjamb summarize`

use clap::Args;
use serde_json::json;

use super::Context;
use crate::failure::{Exit, Result};
use crate::text::plural;

#[derive(Args)]
#[command(
    after_help = "Example:\n  enjamb summarize\n\nBy rule: what was asked, else what was answered. No network, no model. \
    Safe to stop and to run again."
)]
pub struct Summarize {
    /// At most so many commits
    #[arg(short = 'n', long, default_value_t = 10_000, value_name = "COUNT")]
    limit: usize,
}

impl Summarize {
    pub fn run(self, context: &mut Context<'_>) -> Result<Exit> {
        let store = context.open()?;
        let done = store.summarize(self.limit, &context.actor())?;
        if context.ui.is_json() {
            context.ui.json("summarize", json!({"written": done.written, "skipped": done.skipped}))?;
        } else {
            let written = plural(done.written, "summary").replace("summarys", "summaries");
            context.ui.line(format!("wrote {written}, {} had nothing to sum up", done.skipped))?;
        }
        Ok(Exit::Done)
    }
}

//! `enjamb merge-base`

use clap::Args;
use enjamb_server::view;
use serde_json::json;

use super::Context;
use crate::failure::{Exit, Result};

#[derive(Args)]
#[command(after_help = "Example:\n  enjamb merge-base reviewer-a reviewer-b\n\n\
    The last commit that both histories have. Exits with 1 when they share none.")]
pub struct MergeBase {
    a: String,
    b: String,
}

impl MergeBase {
    pub fn run(self, context: &mut Context<'_>) -> Result<Exit> {
        let asked = json!({"context": self.a, "other": self.b});
        let view::MergeBase { id: shared } = context.operations()?.call("merge_base", asked)?;
        let exit = if shared.is_some() { Exit::Done } else { Exit::No };
        if context.ui.is_json() {
            context.ui.json("merge_base", json!({"id": shared}))?;
        } else if let Some(id) = shared {
            context.ui.answer(id)?;
        }
        Ok(exit)
    }
}

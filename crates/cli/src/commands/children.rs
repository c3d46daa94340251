//! `enjamb children`

use clap::Args;
use enjamb_server::view;
use serde_json::json;

use super::Context;
use super::log::report;
use crate::failure::{Exit, Result};

#[derive(Args)]
#[command(after_help = "Example:\n  enjamb children ctx-3f2a\n  enjamb children @-")]
pub struct Children {
    /// The commit: an id or its beginning, a ref, @, @-, PRINCIPAL@TIME
    #[arg(default_value = "@")]
    revision: String,
    /// At most so many, oldest first
    #[arg(short = 'n', long, default_value_t = 1_000, value_name = "COUNT")]
    limit: usize,
}

impl Children {
    pub fn run(self, context: &mut Context<'_>) -> Result<Exit> {
        let asked = json!({"context": self.revision, "limit": self.limit});
        let children: view::SomeContexts = context.operations()?.call("children", asked)?;
        if children.more {
            context.ui.note(&format!("there are more than {}: -n COUNT", self.limit));
        }
        report(context, "children", &view::Contexts { contexts: children.contexts, next: None })
    }
}

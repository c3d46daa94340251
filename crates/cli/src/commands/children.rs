//! `enjamb children`

use clap::Args;
use enjamb_server::{Operations, view};
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
        let children = some(&context.operations()?, "children", &self.revision, self.limit)?;
        if children.more {
            context.ui.note(&format!("there are more than {}: -n COUNT", self.limit));
        }
        report(context, "children", &view::Contexts { contexts: children.contexts, next: None })
    }
}

/// As many commits as are wanted of an operation that gives them page by page.
pub fn some(operations: &Operations, name: &str, revision: &str, limit: usize) -> Result<view::SomeContexts> {
    let mut all = view::SomeContexts { contexts: Vec::new(), more: true };
    let mut cursor: Option<String> = None;
    while all.more && all.contexts.len() < limit {
        let asked = json!({"context": revision, "limit": limit - all.contexts.len(), "cursor": cursor});
        let page: view::SomeContexts = operations.call(name, asked)?;
        all.more = page.more && !page.contexts.is_empty();
        all.contexts.extend(page.contexts);
        cursor = all.contexts.last().map(|last| last.id.clone());
    }
    Ok(all)
}

//! `enjamb artifacts`

use clap::Args;
use enjamb_core::limits;
use enjamb_server::{Operations, view};
use serde_json::json;

use super::Context;
use crate::failure::{Exit, Result};
use crate::text::bytes;
use crate::ui::{Cell, Table};

#[derive(Args)]
#[command(after_help = "Example:\n  enjamb artifacts\n  enjamb artifacts art-3f2a -n 10")]
pub struct Artifacts {
    /// Only ids that begin so
    prefix: Option<String>,
    /// At most so many
    #[arg(short = 'n', long, default_value_t = 50, value_name = "COUNT")]
    limit: usize,
}

impl Artifacts {
    pub fn run(self, context: &mut Context<'_>) -> Result<Exit> {
        let found = self.list(&context.operations()?)?;
        if context.ui.is_json() {
            context.ui.json("artifacts", json!({"artifacts": found}))?;
            return Ok(Exit::Done);
        }
        let mut table = Table::new(&["id", "size", "policy", "tags"]);
        for artifact in &found {
            let id = artifact.id.as_str();
            table.row([
                Cell::new(id.get(..20).unwrap_or(id), id),
                Cell::new(bytes(artifact.bytes), artifact.bytes),
                artifact.policy.as_str().into(),
                artifact.tags.join(" ").into(),
            ]);
        }
        context.ui.table(&table)?;
        Ok(Exit::Done)
    }

    fn list(&self, operations: &Operations) -> Result<Vec<view::Artifact>> {
        let (mut found, mut cursor) = (Vec::new(), None);
        loop {
            let left = (self.limit - found.len()).clamp(1, limits::PAGE_ROWS_MAX);
            let asked = json!({"prefix": self.prefix, "limit": left, "cursor": cursor});
            let page: view::Artifacts = operations.call("artifacts", asked)?;
            found.extend(page.artifacts);
            cursor = page.next;
            if cursor.is_none() || found.len() >= self.limit {
                found.truncate(self.limit);
                return Ok(found);
            }
        }
    }
}

//! `enjamb artifacts`

use clap::Args;
use enjamb_core::{IdKind, IdPrefix};
use enjamb_service::ServiceError;
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
        let store = context.open()?;
        let prefix = self.prefix.as_deref().map(|text| IdPrefix::parse(text, IdKind::Artifact)).transpose();
        let mut found = store.artifacts(prefix.map_err(ServiceError::Id)?.as_ref(), self.limit.max(1))?;
        found.truncate(self.limit);
        if context.ui.is_json() {
            let rows: Vec<_> = found
                .iter()
                .map(|artifact| {
                    json!({
                        "id": artifact.id.to_string(), "bytes": artifact.len,
                        "policy": artifact.policy.name(), "expires_ms": artifact.policy.expires_ms(),
                        "tags": artifact.tags,
                    })
                })
                .collect();
            context.ui.json("artifacts", json!({"artifacts": rows}))?;
            return Ok(Exit::Done);
        }
        let mut table = Table::new(&["id", "size", "policy", "tags"]);
        for artifact in &found {
            let id = artifact.id.to_string();
            table.row([
                Cell::new(&id[..20], &id),
                Cell::new(bytes(artifact.len), artifact.len),
                artifact.policy.name().into(),
                artifact.tags.join(" ").into(),
            ]);
        }
        context.ui.table(&table)?;
        Ok(Exit::Done)
    }
}

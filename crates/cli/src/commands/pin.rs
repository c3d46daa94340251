//! `enjamb pin`

use clap::Args;
use enjamb_server::view;
use serde_json::json;

use super::Context;
use crate::failure::{Exit, Failure, Result};

#[derive(Args)]
#[command(
    after_help = "Example:\n  enjamb pin art-3f2a91                              keep it here, whatever happens\n  \
    enjamb pin --policy ephemeral --ttl 30d art-77c0   may go in 30 days\n  \
    enjamb pin --policy default art-3f2a91             as if never pinned"
)]
pub struct Pin {
    /// An id, the beginning of one, or a tag
    #[arg(required = true)]
    artifacts: Vec<String>,
    /// default, pin, ephemeral or replicate
    #[arg(long, default_value = "pin")]
    policy: String,
    /// How long an ephemeral artifact is kept (90s, 15m, 12h, 30d)
    #[arg(long, value_name = "TIME")]
    ttl: Option<String>,
}

impl Pin {
    pub fn run(self, context: &mut Context<'_>) -> Result<Exit> {
        if (self.policy == "ephemeral") != self.ttl.is_some() {
            let help = Some("enjamb pin --policy ephemeral --ttl 30d ID".into());
            return Err(Failure::Usage {
                message: "--ttl goes with --policy ephemeral, and only with it".into(),
                help,
            });
        }
        let operations = context.operations()?;
        let mut done: Vec<view::Artifact> = Vec::new();
        for artifact in &self.artifacts {
            let asked = json!({"artifact": artifact, "policy": self.policy, "ttl": self.ttl});
            done.push(operations.call("pin", asked)?);
        }
        if context.ui.is_json() {
            let row = |artifact: &view::Artifact| json!({"id": artifact.id, "policy": artifact.policy, "expires_ms": artifact.expires_ms});
            context.ui.json("pin", json!({"artifacts": done.iter().map(row).collect::<Vec<_>>()}))?;
        } else {
            for artifact in &done {
                context.ui.line(format!("{}  {}", artifact.id, artifact.policy))?;
            }
        }
        Ok(Exit::Done)
    }
}

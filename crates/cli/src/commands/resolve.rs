//! `enjamb resolve`

use clap::Args;
use enjamb_core::Timestamp;
use enjamb_server::view;
use serde_json::json;

use super::Context;
use crate::failure::{Exit, Result};

#[derive(Args)]
#[command(after_help = "Example:\n  enjamb resolve agent/reviewer --at 2026-11-15T09:12:00Z")]
pub struct Resolve {
    /// Who
    principal: String,
    /// When (RFC 3339) [default: the end of time]
    #[arg(long, value_name = "TIME")]
    at: Option<Timestamp>,
}

impl Resolve {
    pub fn run(self, context: &mut Context<'_>) -> Result<Exit> {
        let asked = json!({"principal": self.principal, "at": self.at.map(|at| at.to_string())});
        let view::Resolved { id } = context.operations()?.call("resolve", asked)?;
        if context.ui.is_json() {
            context.ui.json("resolve", json!({"id": id, "principal": self.principal}))?;
        } else {
            context.ui.answer(id)?;
        }
        Ok(Exit::Done)
    }
}

//! `enjamb init`

use clap::Args;
use serde_json::json;

use super::Context;
use crate::failure::{Exit, Result};

#[derive(Args)]
#[command(after_help = "Example:\n  enjamb init\n  enjamb --store ./notes init")]
pub struct Init {}

impl Init {
    pub fn run(self, context: &mut Context<'_>) -> Result<Exit> {
        let dir = context.store_dir()?;
        let existed = dir.join("log.db").exists();
        let store = context.open_or_create()?;
        let id = store.status(0)?.store_id;
        if context.ui.is_json() {
            context.ui.json("init", json!({"path": dir.to_string_lossy(), "store_id": id, "created": !existed}))?;
        } else {
            let word = if existed { "store is there already" } else { "made a store" };
            context.ui.line(format!("{word}  {}", dir.display()))?;
        }
        Ok(Exit::Done)
    }
}

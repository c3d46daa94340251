//! `enjamb init`

use clap::Args;
use enjamb_ledger::LedgerError;
use enjamb_service::{Env, ServiceError, Store};
use serde_json::json;

use super::Context;
use crate::failure::{Exit, Result};

#[derive(Args)]
#[command(after_help = "Example:\n  enjamb init\n  enjamb --store ./notes init")]
pub struct Init {}

impl Init {
    pub fn run(self, context: &mut Context<'_>) -> Result<Exit> {
        let dir = context.store_dir()?;
        let existed = match Store::open(&dir, Env::system()) {
            Ok(_) => true,
            Err(ServiceError::Ledger(LedgerError::NoStore(_))) => false,
            // Making it says what is wrong.
            Err(_) => dir.join("log.db").exists(),
        };
        let store = context.open_or_create()?;
        let id = store.status(0)?.store_id;
        if context.ui.is_json() {
            context.ui.json("init", json!({"path": store.location(), "store_id": id, "created": !existed}))?;
        } else {
            let word = if existed { "store is there already" } else { "made a store" };
            context.ui.line(format!("{word}  {}", store.location()))?;
        }
        Ok(Exit::Done)
    }
}

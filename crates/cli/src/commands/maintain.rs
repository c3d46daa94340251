//! `enjamb maintain`

use clap::Args;
use enjamb_server::view;
use serde_json::json;

use super::Context;
use super::show::as_json;
use crate::failure::{Exit, Result};
use crate::text::{bytes, plural};

#[derive(Args)]
#[command(
    after_help = "Example:\n  enjamb maintain\n\nAn import stores quickly; what it stored takes about two thirds of the room \
    afterwards.\nSafe to stop and to run while others use the store. Nothing is \
    lost: bytes are read back from the new segment before the log lets go of them."
)]
pub struct Maintain {
    /// Throw the index away and make it anew from the log
    #[arg(long)]
    rebuild_index: bool,
}

impl Maintain {
    pub fn run(self, context: &mut Context<'_>) -> Result<Exit> {
        let done = self.done(context)?;
        if context.ui.is_json() {
            context.ui.json("maintain", as_json(&done))?;
            return Ok(Exit::Done);
        }
        match done.segments {
            0 => context.ui.line("nothing to seal")?,
            _ => context.ui.line(format!(
                "sealed {} of {} into {}",
                plural(done.sealed_records, "record"),
                bytes(done.raw_bytes),
                bytes(done.segment_bytes)
            ))?,
        }
        context.ui.line(format!("store  {} before, {} now", bytes(done.bytes_before), bytes(done.bytes_after)))?;
        Ok(Exit::Done)
    }

    /// As for `verify`: on this machine it can be watched.
    fn done(&self, context: &Context<'_>) -> Result<view::Maintenance> {
        if context.address().is_some() {
            return Ok(context.operations()?.call("maintain", json!({"rebuild_index": self.rebuild_index}))?);
        }
        let store = context.open()?;
        if self.rebuild_index {
            store.rebuild_index()?;
        }
        let done = context.ui.with_progress("sealing", |progress| store.maintain(progress))?;
        Ok(view::Maintenance::of(&done, self.rebuild_index))
    }
}

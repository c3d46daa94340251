//! `enjamb maintain`

use clap::Args;
use serde_json::json;

use super::Context;
use crate::failure::{Exit, Result};
use crate::text::{bytes, plural};

#[derive(Args)]
#[command(
    after_help = "Example:\n  enjamb maintain\n\nSafe to stop and to run while others use the store. Nothing is \
    lost: bytes are read back from the new segment before the log lets go of them."
)]
pub struct Maintain {
    /// Throw the index away and make it anew from the log
    #[arg(long)]
    rebuild_index: bool,
}

impl Maintain {
    pub fn run(self, context: &mut Context<'_>) -> Result<Exit> {
        let store = context.open()?;
        if self.rebuild_index {
            store.rebuild_index()?;
        }
        let done = context.ui.with_progress("sealing", |progress| store.maintain(progress))?;
        let sealed = done.sealed;
        if context.ui.is_json() {
            let value = json!({
                "sealed_records": sealed.records, "segments": sealed.segments, "raw_bytes": sealed.raw_bytes,
                "segment_bytes": sealed.stored_bytes, "swept_bytes": done.swept_bytes,
                "bytes_before": done.bytes_before, "bytes_after": done.bytes_after,
                "index_rebuilt": self.rebuild_index,
            });
            context.ui.json("maintain", value)?;
            return Ok(Exit::Done);
        }
        match sealed.segments {
            0 => context.ui.line("nothing to seal")?,
            _ => context.ui.line(format!(
                "sealed {} of {} into {}",
                plural(sealed.records, "record"),
                bytes(sealed.raw_bytes),
                bytes(sealed.stored_bytes)
            ))?,
        }
        context.ui.line(format!("store  {} before, {} now", bytes(done.bytes_before), bytes(done.bytes_after)))?;
        Ok(Exit::Done)
    }
}

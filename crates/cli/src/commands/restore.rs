//! `enjamb restore`

use std::path::PathBuf;

use clap::Args;
use enjamb_service::{Env, Store};
use serde_json::json;

use super::Context;
use crate::failure::{Exit, Result};
use crate::text::{bytes, plural};

#[derive(Args)]
#[command(
    after_help = "Example:\n  enjamb --store ./restored restore /mnt/backup/enjamb\n\nThe store's directory must be \
    empty or not there. Every file is compared with its digest on the way."
)]
pub struct Restore {
    /// The backup's directory
    from: PathBuf,
}

impl Restore {
    pub fn run(self, context: &mut Context<'_>) -> Result<Exit> {
        let dir = context.store_dir()?;
        let (store, done) = context
            .ui
            .with_progress("copying", |progress| Store::restore(&self.from, &dir, Env::system(), progress))?;
        let totals = store.status(0)?.totals;
        if context.ui.is_json() {
            let value = json!({"path": dir.to_string_lossy(), "files": done.files, "bytes": done.bytes, "frames": totals.frames, "artifacts": totals.artifacts});
            context.ui.json("restore", value)?;
        } else {
            let (files, frames) = (plural(done.files, "file"), plural(totals.frames, "frame"));
            context.ui.line(format!(
                "restored  {files}, {} with {frames} into {}",
                bytes(done.bytes),
                dir.display()
            ))?;
        }
        Ok(Exit::Done)
    }
}

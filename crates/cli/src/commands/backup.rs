//! `enjamb backup`

use std::path::PathBuf;

use clap::Args;
use serde_json::json;

use super::Context;
use crate::failure::{Exit, Result};
use crate::text::{bytes, plural};

#[derive(Args)]
#[command(after_help = "Example:\n  enjamb backup /mnt/backup/enjamb\n  enjamb verify --backup /mnt/backup/enjamb\n\n\
    The store may be in use. Run again to bring the same backup up to date: segments that are there are kept.")]
pub struct Backup {
    /// The directory to copy to
    to: PathBuf,
}

impl Backup {
    pub fn run(self, context: &mut Context<'_>) -> Result<Exit> {
        let store = context.open()?;
        let done = context.ui.with_progress("copying", |progress| store.backup(&self.to, progress))?;
        if context.ui.is_json() {
            let value =
                json!({"path": self.to.to_string_lossy(), "files": done.files, "bytes": done.bytes, "kept": done.kept});
            context.ui.json("backup", value)?;
        } else {
            let kept = if done.kept > 0 { format!(", {} of them there already", done.kept) } else { String::new() };
            let files = plural(done.files, "file");
            context.ui.line(format!("backed up  {files}{kept}, {} in {}", bytes(done.bytes), self.to.display()))?;
        }
        Ok(Exit::Done)
    }
}

//! `enjamb replant`

use clap::Args;
use enjamb_formats::Tier;
use enjamb_service::{FileState, Replanted, Resume, SourceState, Store};
use serde_json::json;

use super::resume::{here, homes};
use super::{Context, resume_view};
use crate::failure::{Exit, Failure, Result};
use crate::text::bytes;

#[derive(Args)]
#[command(after_help = "Example:\n  enjamb replant 0b5cfa9e\n  enjamb replant 0b5cfa9e --beside\n\n\
    For a session that its runtime deleted: its file, and what lay beside it, come back byte for byte under their own names, \
    so that the runtime resumes it as ever. A file that is there is never changed. If it is damaged, --beside writes what was \
    stored as a session with an id of its own.")]
pub struct Replant {
    /// The session: its id, or the beginning of it
    session: String,
    /// Leave the file that is there, and write what was stored as a new session
    #[arg(long)]
    beside: bool,
    /// Only say what would be written
    #[arg(long)]
    dry_run: bool,
}

impl Replant {
    pub fn run(self, context: &mut Context<'_>) -> Result<Exit> {
        let store = context.open()?;
        let source = store.source_of_session(&self.session)?;
        if self.beside {
            return self.write_beside(context, &store, &source);
        }
        let done = store.replant(&source, &homes()?, self.dry_run)?;
        report(context, &done, self.dry_run)?;
        Ok(Exit::Done)
    }

    fn write_beside(&self, context: &mut Context<'_>, store: &Store, source: &SourceState) -> Result<Exit> {
        let tip = source.tip().ok_or_else(|| Failure::usage(format!("nothing of {} was stored", source.path)))?;
        let here = here()?;
        let request = Resume {
            tip,
            runtime: None,
            stop: None,
            budget_tokens: None,
            cwd: None,
            here: here.clone(),
            tier_min: Tier::Mapped,
            homes: homes()?,
            dry_run: self.dry_run,
            by: context.actor(),
        };
        let resumed = store.resume(&request)?;
        resume_view::show(context, &resumed, &here, false)?;
        Ok(Exit::Done)
    }
}

fn report(context: &mut Context<'_>, done: &Replanted, dry_run: bool) -> Result<()> {
    if context.ui.is_json() {
        let file = |file: &enjamb_service::ReplantedFile| json!({"path": file.path.to_string_lossy(), "bytes": file.bytes, "was": file.state.as_str()});
        let value = json!({
            "session": done.session, "runtime": done.runtime.as_str(), "command": done.command, "written": !dry_run,
            "files": done.files.iter().map(file).collect::<Vec<_>>(),
        });
        return Ok(context.ui.json("replant", value)?);
    }
    for file in &done.files {
        let word = match (file.state, dry_run) {
            (FileState::Missing, false) => "put back",
            (FileState::Missing, true) => "missing",
            (FileState::There, _) => "is there",
            (FileState::Differs, _) => "differs, and was left alone:",
        };
        context.ui.line(format!("{word:<10} {}  {}", file.path.display(), bytes(file.bytes)))?;
    }
    if !dry_run {
        context.ui.line(format!("run        {}", done.command.join(" ")))?;
    }
    Ok(())
}

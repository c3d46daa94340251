//! `enjamb export`

use std::io::{BufWriter, Write};
use std::path::PathBuf;

use clap::Args;
use enjamb_service::{SourceState, Store};
use serde_json::json;

use super::Context;
use crate::failure::{Exit, Result};
use crate::text::{bytes, plural};

#[derive(Args)]
#[command(after_help = "Example:\n  enjamb export 0b5cfa9e -o session.jsonl\n  \
    enjamb export --source ~/.claude/projects/-home-dana-shop/0b5cfa9e.jsonl > session.jsonl\n\n\
    The bytes are those of the file when it was last imported: torn lines, duplicates and all. \
    So are the secrets in it, because the file is yours; --redacted leaves them out.")]
#[command(group = clap::ArgGroup::new("what").required(true))]
pub struct Export {
    /// The session: its id, or the beginning of it
    #[arg(group = "what")]
    session: Option<String>,
    /// Or the file that it was imported from
    #[arg(long, group = "what", value_name = "PATH")]
    source: Option<PathBuf>,
    /// Replace secrets by their kind: not the file as it was, but one to hand on
    #[arg(long)]
    redacted: bool,
    /// Where to write [default: stdout]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

impl Export {
    pub fn run(self, context: &mut Context<'_>) -> Result<Exit> {
        let store = context.open()?;
        let source = match (&self.source, &self.session) {
            (Some(path), _) => store.source_at(path)?,
            (None, session) => store.source_of_session(session.as_deref().unwrap_or_default())?,
        };
        let written = match &self.output {
            Some(path) => super::file::create(path, |out| self.write(&store, &source, out))?,
            None if context.ui.is_json() => self.write(&store, &source, &mut std::io::sink())?,
            None => {
                let mut out = BufWriter::with_capacity(1 << 18, context.ui.stored_writer());
                self.write(&store, &source, &mut out)?
            }
        };
        if context.ui.is_json() {
            let value = json!({
                "path": source.path, "runtime": source.runtime, "session": source.session, "bytes": written,
                "commits": commits(&source), "tip": source.tip().map(|id| id.to_string()),
            });
            context.ui.json("export", value)?;
        } else {
            let commits = plural(commits(&source), "commit");
            context.ui.note(&format!("{}, {commits}   {}", bytes(written), source.path));
        }
        Ok(Exit::Done)
    }

    fn write(&self, store: &Store, source: &SourceState, out: &mut dyn Write) -> Result<u64> {
        let mut sink = |part: &[u8]| out.write_all(part);
        let written = match self.redacted {
            true => store.export_redacted(source, &mut sink)?.0,
            false => store.export(source, &mut sink)?,
        };
        out.flush()?;
        Ok(written)
    }
}

/// Commits that tell of a source. Several parts of a document may be told by one.
fn commits(source: &SourceState) -> u64 {
    let told: std::collections::BTreeSet<_> = source.parts.iter().map(|part| part.commit.to_string()).collect();
    told.len() as u64
}

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
    The bytes are those of the file when it was last imported: torn lines, duplicates and all.")]
#[command(group = clap::ArgGroup::new("what").required(true))]
pub struct Export {
    /// The session: its id, or the beginning of it
    #[arg(group = "what")]
    session: Option<String>,
    /// Or the file that it was imported from
    #[arg(long, group = "what", value_name = "PATH")]
    source: Option<PathBuf>,
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
            Some(path) => super::file::create(path, |out| write(&store, &source, out))?,
            None if context.ui.is_json() => write(&store, &source, &mut std::io::sink())?,
            None => {
                let mut out = BufWriter::with_capacity(1 << 18, context.ui.stored_writer());
                write(&store, &source, &mut out)?
            }
        };
        if context.ui.is_json() {
            let value = json!({
                "path": source.path, "runtime": source.runtime, "session": source.session, "bytes": written,
                "commits": source.parts.len(), "tip": source.tip().map(|id| id.to_string()),
            });
            context.ui.json("export", value)?;
        } else {
            let commits = plural(source.parts.len() as u64, "commit");
            context.ui.note(&format!("{}, {commits}   {}", bytes(written), source.path));
        }
        Ok(Exit::Done)
    }
}

fn write(store: &Store, source: &SourceState, out: &mut dyn Write) -> Result<u64> {
    let written = store.export(source, &mut |part| out.write_all(part))?;
    out.flush()?;
    Ok(written)
}

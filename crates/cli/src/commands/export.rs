//! `enjamb export`

use std::io::{BufWriter, Write};
use std::path::PathBuf;

use clap::Args;
use enjamb_server::{Operations, view};
use enjamb_service::ServiceError;
use serde_json::{Value, json};

use super::Context;
use super::remote::pass_on;
use super::show::as_json;
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
        let operations = context.operations()?;
        let asked = self.asked()?;
        let source: view::ImportedFile = operations.call("source", asked.clone())?;
        let written = match &self.output {
            Some(path) => super::file::create(path, |out| self.write(&operations, asked, out))?,
            None if context.ui.is_json() => self.write(&operations, asked, &mut std::io::sink())?,
            None => {
                let mut out = BufWriter::with_capacity(1 << 18, context.ui.stored_writer());
                self.write(&operations, asked, &mut out)?
            }
        };
        if context.ui.is_json() {
            let mut value = as_json(&source);
            value["bytes"] = written.into();
            context.ui.json("export", value)?;
        } else {
            let commits = plural(source.commits, "commit");
            context.ui.note(&format!("{}, {commits}   {}", bytes(written), source.path));
        }
        Ok(Exit::Done)
    }

    /// A path is told whole: who answers may be somewhere else.
    fn asked(&self) -> Result<Value> {
        let absolute = |path: &PathBuf| {
            let whole = std::path::absolute(path);
            whole.map_err(|source| ServiceError::File { path: path.clone(), source })
        };
        let path = self.source.as_ref().map(absolute).transpose()?;
        Ok(json!({"session": self.session, "path": path.map(|path| path.to_string_lossy().into_owned())}))
    }

    fn write(&self, operations: &Operations, mut asked: Value, out: &mut dyn Write) -> Result<u64> {
        asked["redacted"] = self.redacted.into();
        Ok(pass_on(operations, "export", asked, out)?.0)
    }
}

//! `enjamb put`

use std::path::{Path, PathBuf};

use clap::Args;
use enjamb_core::ArtifactId;
use enjamb_service::{Expect, PutOptions, Store, Stored, parse_ttl};
use serde_json::json;

use super::Context;
use super::remote::Remote;
use crate::failure::{Exit, Result};
use crate::ui::{Cell, Table};

#[derive(Args)]
#[command(after_help = "Example:\n  enjamb put report.md\n  cargo test 2>&1 | enjamb put --tag last-test-run\n  \
    enjamb put big.log --ttl 30d\n\nThe id is the BLAKE3 digest of the bytes: b3sum prints the same hex. \
    Bytes that are here already stay at least as long as was asked for them before.")]
pub struct Put {
    /// Files to store; none or - reads stdin
    files: Vec<PathBuf>,
    /// Fail unless the bytes have this id
    #[arg(long, value_name = "ID")]
    id: Option<ArtifactId>,
    /// Name it
    #[arg(long, value_name = "NAME")]
    tag: Option<String>,
    /// May be collected after this long, once nothing refers to it (90s, 15m, 12h, 30d)
    #[arg(long, value_name = "TIME")]
    ttl: Option<String>,
}

impl Put {
    pub fn run(self, context: &mut Context<'_>) -> Result<Exit> {
        let ttl_ms = self.ttl.as_deref().map(parse_ttl).transpose()?;
        let files = if self.files.is_empty() { vec![PathBuf::from("-")] } else { self.files.clone() };
        if let Some(remote) = context.remote()? {
            return self.put_remote(context, &remote, files);
        }
        let store = context.open_or_create()?;
        let options = PutOptions { expected: self.id, ttl_ms, by: context.actor() };
        let mut all = Vec::new();
        for file in files {
            match self.put_named(&store, &file, &options) {
                Ok(stored) => all.push((file, stored)),
                Err(error) => {
                    tell_stored(context, &all)?;
                    return Err(error);
                }
            }
        }
        report(context, &all)
    }

    fn put_remote(&self, context: &mut Context<'_>, remote: &Remote, files: Vec<PathBuf>) -> Result<Exit> {
        let mut all = Vec::new();
        for file in files {
            let expected = self.id.map(|id| id.to_string());
            let stored = match file.as_os_str() == "-" {
                true => remote.put(&mut std::io::stdin().lock(), expected, self.ttl.as_deref())?,
                false => remote.put(&mut super::file::open(&file)?, expected, self.ttl.as_deref())?,
            };
            if let Some(name) = &self.tag {
                remote.call("tag", json!({"name": name, "artifact": stored.id.to_string()}))?;
            }
            all.push((file, stored));
        }
        report(context, &all)
    }

    fn put_named(&self, store: &Store, file: &Path, options: &PutOptions) -> Result<Stored> {
        let stored = put_one(store, file, options)?;
        if let Some(name) = &self.tag {
            store.tag(name, Some(stored.id), Expect::Anything, &options.by)?;
        }
        Ok(stored)
    }
}

/// What is on disk stays there, though a later file failed.
fn tell_stored(context: &mut Context<'_>, all: &[(PathBuf, Stored)]) -> Result<()> {
    if all.is_empty() {
        return Ok(());
    }
    report(context, all)?;
    context.ui.flush()
}

fn put_one(store: &Store, file: &Path, options: &PutOptions) -> Result<Stored> {
    if file.as_os_str() == "-" {
        return Ok(store.put(&mut std::io::stdin().lock(), options)?);
    }
    Ok(store.put(&mut super::file::open(file)?, options)?)
}

fn report(context: &mut Context<'_>, all: &[(PathBuf, Stored)]) -> Result<Exit> {
    if context.ui.is_json() {
        let row = |(file, stored): &(PathBuf, Stored)| json!({"id": stored.id.to_string(), "bytes": stored.len, "known": stored.known, "source": file.to_string_lossy()});
        context.ui.json("put", json!({"artifacts": all.iter().map(row).collect::<Vec<_>>()}))?;
        return Ok(Exit::Done);
    }
    if let [(_, stored)] = all {
        context.ui.answer(stored.id.to_string())?;
        return Ok(Exit::Done);
    }
    let mut table = Table::new(&["id", "size", "file"]);
    for (file, stored) in all {
        let size = Cell::new(crate::text::bytes(stored.len), stored.len);
        table.row([stored.id.to_string().into(), size, file.display().to_string().into()]);
    }
    context.ui.table(&table)?;
    Ok(Exit::Done)
}

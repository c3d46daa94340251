//! `enjamb get`

use std::io::{BufWriter, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};

use clap::Args;
use enjamb_core::ArtifactId;
use enjamb_ledger::LedgerError;
use enjamb_service::{ServiceError, Store};
use serde_json::json;

use super::Context;
use super::remote::Remote;
use crate::failure::{Exit, Failure, Result};

#[derive(Args)]
#[command(after_help = "Example:\n  enjamb get art-3f2a91 > report.md\n  enjamb get last-test-run --range 0-1023\n\n\
    Every byte is checked against its digest before it is written.")]
pub struct Get {
    /// An id, the beginning of one, or a tag
    artifact: String,
    /// Only bytes A to B, both included, counted from 0; A- is from A to the end
    #[arg(long, value_name = "A-B")]
    range: Option<String>,
    /// Where to write [default: stdout]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

impl Get {
    pub fn run(self, context: &mut Context<'_>) -> Result<Exit> {
        if let Some(remote) = context.remote()? {
            return self.get_remote(context, &remote);
        }
        let store = context.open()?;
        let id = store.resolve_artifact(&self.artifact)?;
        let range = self.range.as_deref().map(|text| parse_range(&store, &id, text)).transpose()?;
        match &self.output {
            None if context.ui.is_json() => describe(context, &store, &id, None)?,
            None => {
                let mut out = BufWriter::with_capacity(1 << 18, context.ui.stored_writer());
                write_all(&store, &id, range, &mut out)?;
            }
            Some(path) => {
                super::file::create(path, |out| write_all(&store, &id, range, out))?;
                if context.ui.is_json() {
                    describe(context, &store, &id, Some(path))?;
                }
            }
        }
        Ok(Exit::Done)
    }
}

impl Get {
    fn get_remote(self, context: &mut Context<'_>, remote: &Remote) -> Result<Exit> {
        if self.output.is_none() && context.ui.is_json() {
            return self.describe_remote(context, remote);
        }
        let range = self.range.as_ref().map(|range| format!("bytes={range}"));
        let headers: Vec<_> = range.as_deref().map(|range| ("range", range)).into_iter().collect();
        let mut download = remote.0.download("get", json!({"artifact": self.artifact}), &headers)?;
        let copied = match &self.output {
            Some(path) => super::file::create(path, |out| Ok(std::io::copy(&mut download.reader(), out)?))?,
            None => std::io::copy(&mut download.reader(), &mut context.ui.stored_writer())?,
        };
        let expected = download.header("content-length").and_then(|length| length.parse::<u64>().ok());
        if expected.is_some_and(|expected| expected != copied) {
            return Err(Failure::usage(format!("the answer broke off after {copied} bytes: try again")));
        }
        if context.ui.is_json() {
            return self.describe_remote(context, remote);
        }
        Ok(Exit::Done)
    }

    fn describe_remote(&self, context: &mut Context<'_>, remote: &Remote) -> Result<Exit> {
        let about = remote.call("artifact", json!({"artifact": self.artifact}))?;
        let value = json!({
            "id": about["id"], "bytes": about["bytes"], "policy": about["policy"], "tags": about["tags"],
            "path": self.output.as_ref().map(|path| path.to_string_lossy().into_owned()),
        });
        context.ui.json("get", value)?;
        Ok(Exit::Done)
    }
}

/// What is known of the artifact, for programs: bytes and a document do not go into one pipe.
fn describe(context: &mut Context<'_>, store: &Store, id: &ArtifactId, path: Option<&Path>) -> Result<()> {
    let view = store.artifact(id)?;
    let value = json!({
        "id": id.to_string(), "bytes": view.len, "policy": view.policy.name(), "tags": view.tags,
        "path": path.map(Path::to_string_lossy),
    });
    Ok(context.ui.json("get", value)?)
}

fn write_all(store: &Store, id: &ArtifactId, range: Option<Range<u64>>, out: &mut dyn Write) -> Result<()> {
    store.get(id, range, &mut |bytes| out.write_all(bytes))?;
    Ok(out.flush()?)
}

/// `A-B`, both included, or `A-`.
fn parse_range(store: &Store, id: &ArtifactId, text: &str) -> Result<Range<u64>> {
    let invalid =
        || ServiceError::Invalid { what: "range", text: text.to_owned(), expected: "A-B or A-, such as 0-1023" };
    let (from, to) = text.split_once('-').ok_or_else(invalid)?;
    let from: u64 = from.parse().map_err(|_| invalid())?;
    let to: Option<u64> = if to.is_empty() { None } else { Some(to.parse().map_err(|_| invalid())?) };
    let len = store.artifact(id)?.len;
    // Here the range can still be told as it was typed, with its last byte included.
    let past = |to| Failure::from(LedgerError::BadRange { id: *id, from, to, len });
    match to {
        None if from > len => Err(past(from)),
        None => Ok(from..len),
        Some(to) if to < from => Err(invalid().into()),
        Some(to) if to >= len => Err(past(to)),
        Some(to) => Ok(from..to + 1),
    }
}

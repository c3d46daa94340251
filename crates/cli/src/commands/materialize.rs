//! `enjamb materialize`

use std::io::{BufWriter, Write};
use std::path::PathBuf;

use clap::Args;
use enjamb_core::chain::Stop;
use enjamb_server::view::Account;
use enjamb_service::{Materialize as Request, Materialized, Store};
use serde_json::json;

use super::Context;
use super::remote::Remote;
use super::show::as_json;
use crate::failure::{Exit, Failure, Result};
use crate::text::{bytes, count, plural};

#[derive(Args)]
#[command(
    after_help = "Example:\n  enjamb materialize @ > session.jsonl\n  enjamb materialize ctx-3f2a --stop root -o whole.jsonl\n  \
    enjamb materialize @ --format narrative-v1"
)]
pub struct Materialize {
    /// The commit to go back from
    #[arg(default_value = "@")]
    revision: String,
    /// No context at all: nothing
    #[arg(long, conflicts_with = "revision")]
    none: bool,
    /// Where to begin: compaction (the nearest one), root, or an ancestor
    #[arg(long, default_value = "compaction", value_name = "STOP")]
    stop: String,
    /// The format wanted [default: that of the chain]; narrative-v1 is a written account
    #[arg(long)]
    format: Option<String>,
    /// Where to write [default: stdout]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

impl Materialize {
    pub fn run(self, context: &mut Context<'_>) -> Result<Exit> {
        if let Some(remote) = context.remote()? {
            return self.run_remote(context, &remote);
        }
        let store = context.open()?;
        let request = Request {
            tip: (!self.none).then(|| store.revision(&self.revision)).transpose()?,
            stop: parse_stop(&store, &self.stop)?,
            format: self.format.clone(),
        };
        let done = match &self.output {
            Some(path) => super::file::create(path, |out| write(&store, &request, out))?,
            None if context.ui.is_json() => write(&store, &request, &mut std::io::sink())?,
            None => {
                let mut out = BufWriter::with_capacity(1 << 15, context.ui.stored_writer());
                write(&store, &request, &mut out)?
            }
        };
        store.leave();
        report(context, &Account::from(&done))
    }
}

impl Materialize {
    fn run_remote(self, context: &mut Context<'_>, remote: &Remote) -> Result<Exit> {
        if self.none {
            return Err(Failure::usage("nothing needs no server: leave --none out"));
        }
        let asked = json!({"context": self.revision, "stop": self.stop, "format": self.format});
        if context.ui.is_json() && self.output.is_none() {
            return report(context, &remote.0.call("account", asked)?);
        }
        let mut download = remote.0.download("materialize", asked.clone(), &[])?;
        match &self.output {
            Some(path) => super::file::create(path, |out| Ok(std::io::copy(&mut download.reader(), out)?))?,
            None => std::io::copy(&mut download.reader(), &mut context.ui.stored_writer())?,
        };
        report(context, &remote.0.call("account", asked)?)
    }
}

pub(super) fn parse_stop(store: &Store, text: &str) -> Result<Stop> {
    match text {
        "compaction" => Ok(Stop::Compaction),
        "root" => Ok(Stop::Root),
        revision => Ok(Stop::At(store.revision(revision)?)),
    }
}

fn write(store: &Store, request: &Request, out: &mut dyn Write) -> Result<Materialized> {
    let done = store.materialize(request, &mut |part| out.write_all(part))?;
    out.flush()?;
    Ok(done)
}

fn report(context: &mut Context<'_>, done: &Account) -> Result<Exit> {
    if context.ui.is_json() {
        context.ui.json("materialize", as_json(done))?;
        return Ok(Exit::Done);
    }
    context.ui.note(&format!(
        "{}, {}, {} tokens, {}   {} ({})",
        plural(done.commits, "commit"),
        plural(done.messages, "message"),
        count(done.tokens),
        bytes(done.bytes),
        done.format,
        done.tier
    ));
    for fate in done.ledger.iter().flatten() {
        context.ui.note(&format!("  {:9}{}  {}", fate.outcome, plural(fate.blocks, "block"), fate.reason));
    }
    Ok(Exit::Done)
}

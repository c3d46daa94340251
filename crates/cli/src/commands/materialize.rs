//! `enjamb materialize`

use std::io::{BufWriter, Write};
use std::path::PathBuf;

use clap::Args;
use enjamb_core::chain::Stop;
use enjamb_service::{Materialize as Request, Materialized, Store};
use serde_json::{Value, json};

use super::Context;
use super::remote::Remote;
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
        report(context, &done)
    }
}

impl Materialize {
    fn run_remote(self, context: &mut Context<'_>, remote: &Remote) -> Result<Exit> {
        if self.none {
            return Err(Failure::usage("nothing needs no server: leave --none out"));
        }
        let asked = json!({"context": self.revision, "stop": self.stop, "format": self.format});
        if context.ui.is_json() && self.output.is_none() {
            context.ui.json("materialize", remote.call("account", asked)?)?;
            return Ok(Exit::Done);
        }
        let mut download = remote.0.download("materialize", asked.clone(), &[])?;
        match &self.output {
            Some(path) => super::file::create(path, |out| Ok(std::io::copy(&mut download.reader(), out)?))?,
            None => std::io::copy(&mut download.reader(), &mut context.ui.stored_writer())?,
        };
        if context.ui.is_json() {
            context.ui.json("materialize", remote.call("account", asked)?)?;
            return Ok(Exit::Done);
        }
        let told = |name: &str| download.header(name).unwrap_or("?").to_owned();
        let number = |name: &str| told(name).parse().unwrap_or(0);
        context.ui.note(&format!(
            "{}, {}, {} tokens, {}   {} ({})",
            plural(number("enjamb-commits"), "commit"),
            plural(number("enjamb-messages"), "message"),
            count(number("enjamb-tokens")),
            bytes(number("content-length")),
            told("enjamb-format"),
            told("enjamb-tier")
        ));
        Ok(Exit::Done)
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

fn report(context: &mut Context<'_>, done: &Materialized) -> Result<Exit> {
    if context.ui.is_json() {
        let ledger: Option<Vec<Value>> = done.ledger.as_ref().map(|ledger| {
            let row = |(outcome, reason, blocks): (enjamb_formats::Outcome, &str, u64)| {
                json!({"outcome": outcome.as_str(), "reason": reason, "blocks": blocks})
            };
            ledger.rows().map(row).collect()
        });
        let value = json!({
            "tier": done.tier.as_str(), "format": done.format, "commits": done.commits, "bytes": done.bytes,
            "messages": done.messages, "tokens": done.tokens, "ledger": ledger,
        });
        context.ui.json("materialize", value)?;
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
    for (outcome, reason, blocks) in done.ledger.iter().flat_map(|ledger| ledger.rows()) {
        context.ui.note(&format!("  {:9}{}  {reason}", outcome.as_str(), plural(blocks, "block")));
    }
    Ok(Exit::Done)
}

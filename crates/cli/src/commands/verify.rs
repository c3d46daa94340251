//! `enjamb verify`

use std::path::PathBuf;

use clap::Args;
use enjamb_ledger::Checked;
use enjamb_server::view;
use enjamb_service::Store;
use serde_json::json;

use super::Context;
use super::show::as_json;
use crate::failure::{Exit, Result};
use crate::text::{bytes, plural};

#[derive(Args)]
#[command(after_help = "Example:\n  enjamb verify\n  enjamb verify --quick\n  enjamb verify --backup /mnt/backup\n\n\
    In full, every record and every segment is read and compared with its digest, every frame is chained to the one \
    before and judged by every order rule again, and the index is compared with one made anew. Exits with 6 when \
    anything is damaged, and names it.")]
pub struct Verify {
    /// Only that everything is there and that its ends are whole
    #[arg(long)]
    quick: bool,
    /// Check a backup against its manifest instead
    #[arg(long, value_name = "DIR", conflicts_with = "quick")]
    backup: Option<PathBuf>,
}

impl Verify {
    pub fn run(self, context: &mut Context<'_>) -> Result<Exit> {
        if let Some(dir) = &self.backup {
            let findings = context.ui.with_progress("verifying", |progress| Store::verify_backup(dir, progress))?;
            let checked = view::Verified::from(&Checked { findings, ..Checked::default() });
            return report(context, &checked, "", "every file matches its digest");
        }
        let checked = self.checked(context)?;
        if self.quick {
            return report(context, &checked, &looked_at(&checked), "all is there");
        }
        report(context, &checked, &read(&checked), "all digests match, every rule holds")
    }

    /// Reading every byte is for who has the files, and can be watched there. Only a server elsewhere is asked to do it.
    fn checked(&self, context: &Context<'_>) -> Result<view::Verified> {
        if context.address().is_some() {
            return Ok(context.operations()?.call("verify", json!({"quick": self.quick}))?);
        }
        let store = context.open()?;
        let checked = context.ui.with_progress("verifying", |progress| store.verify(self.quick, progress))?;
        Ok(view::Verified::from(&checked))
    }
}

/// A quick look does not open records.
fn looked_at(checked: &view::Verified) -> String {
    format!("looked at {} and {}   ", plural(checked.records, "record"), plural(checked.segments, "segment"))
}

fn read(checked: &view::Verified) -> String {
    let (frames, artifacts) = (plural(checked.frames, "frame"), plural(checked.artifacts, "artifact"));
    let (segments, bytes) = (plural(checked.segments, "segment"), bytes(checked.bytes));
    format!("checked {frames}, {artifacts}, {segments}, {bytes}   ")
}

fn report(context: &mut Context<'_>, checked: &view::Verified, counted: &str, verdict: &str) -> Result<Exit> {
    let exit = if checked.ok { Exit::Done } else { Exit::Damaged };
    if context.ui.is_json() {
        context.ui.json("verify", as_json(checked))?;
        return Ok(exit);
    }
    for finding in &checked.findings {
        context.ui.bad(&format!("{}: {}  [{}]", finding.subject, finding.detail, finding.code))?;
    }
    match checked.findings.len() as u64 {
        0 => context.ui.line(format!("{counted}{verdict}"))?,
        damaged => context.ui.line(format!("{counted}{} damaged", plural(damaged, "thing")))?,
    }
    Ok(exit)
}

//! `enjamb verify`

use std::path::PathBuf;

use clap::Args;
use enjamb_ledger::{Checked, Finding};
use enjamb_service::Store;
use serde_json::{Value, json};

use super::Context;
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
            return report(context, &Checked { findings, ..Checked::default() }, "", "every file matches its digest");
        }
        let store = context.open()?;
        let checked = context.ui.with_progress("verifying", |progress| store.verify(self.quick, progress))?;
        if self.quick {
            return report(context, &checked, &looked_at(&checked), "all is there");
        }
        report(context, &checked, &read(&checked), "all digests match, every rule holds")
    }
}

/// A quick look does not open records.
fn looked_at(checked: &Checked) -> String {
    format!("looked at {} and {}   ", plural(checked.records, "record"), plural(checked.segments, "segment"))
}

fn read(checked: &Checked) -> String {
    let (frames, artifacts) = (plural(checked.frames, "frame"), plural(checked.artifacts, "artifact"));
    let (segments, bytes) = (plural(checked.segments, "segment"), bytes(checked.bytes));
    format!("checked {frames}, {artifacts}, {segments}, {bytes}   ")
}

fn report(context: &mut Context<'_>, checked: &Checked, counted: &str, verdict: &str) -> Result<Exit> {
    let exit = if checked.findings.is_empty() { Exit::Done } else { Exit::Damaged };
    if context.ui.is_json() {
        let findings: Vec<_> = checked.findings.iter().map(finding_json).collect();
        let value = json!({
            "ok": findings.is_empty(), "records": checked.records, "frames": checked.frames,
            "artifacts": checked.artifacts, "segments": checked.segments, "bytes": checked.bytes,
            "findings": findings,
        });
        context.ui.json("verify", value)?;
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

fn finding_json(finding: &Finding) -> Value {
    json!({"code": finding.code, "subject": finding.subject, "detail": finding.detail})
}

//! `enjamb check`

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clap::Args;
use enjamb_core::chain::Stop;
use enjamb_formats::{Code, Remedy, Reuse, Severity};
use enjamb_service::{CheckContext, Diagnosis, Located, Runtime, ServiceError, Store, files_in};
use serde_json::{Value, json};

use super::Context;
use crate::failure::{Exit, Result};
use crate::text::plural;

#[derive(Args)]
#[command(
    after_help = "Example:\n  enjamb check\n  enjamb check ctx-3f2a --for codex\n  enjamb check --file ~/.codex/sessions/2026/11/15/rollout-0198.jsonl\n\n\
    Says what the runtime or its provider would object to, before anything is started: each problem with a code that \
    never changes, its place, and whether `enjamb repair` mends it. Exits with 1 when the context would not load."
)]
pub struct Check {
    #[command(flatten)]
    looked_at: LookedAt,
    /// Check a transcript that a runtime left instead, as it is
    #[arg(long, value_name = "PATH", conflicts_with_all = ["revision", "stop"])]
    file: Option<PathBuf>,
}

// Which context, and in whose eyes. No doc comment: it would stand in the help of the commands.
#[derive(Args)]
pub struct LookedAt {
    /// The commit
    #[arg(default_value = "@")]
    pub revision: String,
    /// The runtime that is to go on from it, such as codex, or a format [default: the one that wrote it]
    #[arg(long = "for", value_name = "RUNTIME")]
    runtime: Option<String>,
    /// Where to begin: compaction (the nearest one), root, or an ancestor
    #[arg(long, default_value = "compaction", value_name = "STOP")]
    stop: String,
    /// It is to go on under another account, for which what a provider encrypted for this one is worth nothing
    #[arg(long)]
    other_account: bool,
}

impl LookedAt {
    /// The commit may go by another word in the store that is looked at.
    pub fn request(&self, store: &Store, revision: &str) -> Result<CheckContext> {
        let stop = super::materialize::parse_stop(store, &self.stop)?;
        let (tip, format, reuse) = (store.revision(revision)?, self.format()?, self.reuse());
        Ok(CheckContext { tip, stop, format, reuse })
    }

    fn format(&self) -> Result<Option<String>> {
        self.runtime.as_deref().map(format_of).transpose()
    }

    fn reuse(&self) -> Reuse {
        if self.other_account { Reuse::OtherAccount } else { Reuse::SameAccount }
    }
}

impl Check {
    pub fn run(self, context: &mut Context<'_>) -> Result<Exit> {
        let looked_at = &self.looked_at;
        let (diagnosis, mend) = match &self.file {
            Some(path) => (check_file(path, looked_at.format()?, looked_at.reuse())?, None),
            None => {
                let (store, revision) = context.open_chain(&looked_at.revision)?;
                let request = looked_at.request(&store, &revision)?;
                let from = match request.stop {
                    Stop::Compaction => String::new(),
                    Stop::Root | Stop::At(_) => format!(" --stop {}", looked_at.stop),
                };
                let repair = format!("enjamb repair {}{from}", looked_at.revision);
                (store.check(&request)?, Some(repair))
            }
        };
        report(context, &diagnosis, mend.as_deref())
    }
}

/// The format that a runtime reads, or the one that is named outright.
fn format_of(name: &str) -> Result<String> {
    if let Some(format) = enjamb_formats::by_id(name) {
        return Ok(format.id().to_owned());
    }
    let runtime = Runtime::from_name(name).filter(|runtime| *runtime != Runtime::Other);
    let runtime = runtime.ok_or_else(|| ServiceError::Invalid {
        what: "runtime",
        text: name.to_owned(),
        expected: "claude-code, codex, gemini, opencode, or a format such as anthropic-messages-v1",
    })?;
    Ok(runtime.format().to_owned())
}

fn check_file(path: &Path, format: Option<String>, reuse: Reuse) -> Result<Diagnosis> {
    let format = match format {
        Some(format) => format,
        None => {
            let failed = |source| ServiceError::File { path: path.to_owned(), source };
            let files = files_in(path).map_err(failed)?;
            files.first().map(|file| file.format().to_owned()).unwrap_or_default()
        }
    };
    Ok(Store::check_file(path, &format, reuse)?)
}

fn report(context: &mut Context<'_>, found: &Diagnosis, mend: Option<&str>) -> Result<Exit> {
    let exit = if found.would_load() { Exit::Done } else { Exit::No };
    if context.ui.is_json() {
        let problems: Vec<Value> = found.problems.iter().map(problem_json).collect();
        let value = json!({
            "loads": found.would_load(), "format": found.format, "translated_from": found.translated_from,
            "commits": found.commits, "messages": found.messages, "problems": problems,
        });
        context.ui.json("check", value)?;
        return Ok(exit);
    }
    problem_lines(context, &found.problems)?;
    let warnings = found.problems.len() - found.errors();
    let verdict = match (found.errors(), warnings) {
        (0, 0) => "would load".to_owned(),
        (0, warnings) => format!("would load, with {}", plural(warnings as u64, "warning")),
        (errors, 0) => format!("would not load: {}", plural(errors as u64, "error")),
        (errors, warnings) => {
            format!("would not load: {}, {}", plural(errors as u64, "error"), plural(warnings as u64, "warning"))
        }
    };
    context.ui.line(format!("{}, {}   {verdict}", found.format, plural(found.messages, "message")))?;
    if let Some(from) = &found.translated_from {
        context.ui.note(&format!("Places are those in the translation from {from}."));
    }
    if let Some(mend) = mend.filter(|_| found.mendable() > 0 && found.translated_from.is_none()) {
        context.ui.note(&format!("help:  {mend}"));
    }
    Ok(exit)
}

/// Problems that are shown of each kind. A program is given all of them.
const SHOWN_MAX: usize = 5;

/// Each problem in a line, with what can be done about it.
pub(super) fn problem_lines(context: &mut Context<'_>, problems: &[Located]) -> Result<()> {
    let mut shown: BTreeMap<Code, usize> = BTreeMap::new();
    for found in problems {
        let count = shown.entry(found.problem.code).or_default();
        *count += 1;
        if *count <= SHOWN_MAX {
            problem_line(context, found)?;
        }
    }
    for (code, count) in shown.into_iter().filter(|(_, count)| *count > SHOWN_MAX) {
        context.ui.line(format!("  … and {} more  [{code}]", count - SHOWN_MAX))?;
    }
    Ok(())
}

fn problem_line(context: &mut Context<'_>, Located { problem, .. }: &Located) -> Result<()> {
    let what = match problem.code.remedy() {
        Remedy::Repair(words) => format!("can be repaired: {words}"),
        Remedy::Advice(words) => words.to_owned(),
        Remedy::Nothing(words) => format!("cannot be repaired: {words}"),
    };
    let record = problem.record.as_ref().map(|record| format!(" {record}")).unwrap_or_default();
    let line = format!("{}{record}  {}  [{}]", problem.at, problem.sentence, problem.code);
    match problem.severity {
        Severity::Error => context.ui.bad(&line)?,
        Severity::Warning => context.ui.line(format!("! {line}"))?,
    }
    context.ui.line(format!("    {what}"))?;
    Ok(())
}

pub(super) fn problem_json(Located { problem, commit }: &Located) -> Value {
    let remedy = problem.code.remedy();
    json!({
        "code": problem.code.as_str(), "severity": problem.severity.as_str(), "number": problem.at.number(),
        "offset": problem.at.offset(), "record": problem.record, "commit": commit.map(|commit| commit.to_string()),
        "reason": problem.sentence, "repairable": remedy.is_repair(), "remedy": remedy.words(),
    })
}

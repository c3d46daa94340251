//! `enjamb import`

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clap::Args;
use enjamb_core::Timestamp;
use enjamb_core::redact::RULE_SET;
use enjamb_service::{
    Actor, DrainBounds, Env, ImportBounds, ImportIssue, ImportOptions, Imported, Place, Runtime, ServiceError,
    SourceFile, SourceSecrets, Store, files_in, known_places,
};
use serde_json::json;

use super::{Context, environment};
use crate::failure::{Exit, Result};
use crate::text::{bytes, plural};
use crate::ui::Table;

/// After so much was read it is said how much room it takes.
const ROOM_BYTES_MIN: u64 = 10 << 20;

#[derive(Args)]
#[command(after_help = "Example:\n  enjamb import\n  enjamb import --from claude,codex --since 7d\n  \
    enjamb import ~/old/sessions --dry-run\n\n\
    Copies what Claude Code, Codex, Gemini CLI and opencode keep in your home, or what is in PATH: what is about to be \
    deleted first, then the newest. May be stopped at any time and run again; what is here already is not read again. \
    Nothing but the store is ever written.")]
pub struct Import {
    /// Files or directories [default: the known places in your home]
    paths: Vec<PathBuf>,
    /// Only what these runtimes wrote: claude-code, codex, gemini, opencode, other
    #[arg(long, value_delimiter = ',', value_name = "RUNTIME", value_parser = parse_runtime)]
    from: Vec<Runtime>,
    /// Only what was written within this time, such as 7d
    #[arg(long, value_name = "TIME")]
    since: Option<String>,
    /// Only say what would be read
    #[arg(long)]
    dry_run: bool,
    /// Say what was found in each file that is no record
    #[arg(long)]
    report: bool,
    /// Whose commits they are
    #[arg(long, env = "ENJAMB_PRINCIPAL", default_value = "user")]
    principal: String,
    /// The machine that they are from [default: this one]
    #[arg(long)]
    machine: Option<String>,
}

impl Import {
    pub fn run(self, context: &mut Context<'_>) -> Result<Exit> {
        let now = Env::system().now();
        let mut files = if self.paths.is_empty() { found_at_home() } else { self.found()? };
        self.select(&mut files, now)?;
        enjamb_service::arrange(&mut files, now);
        if self.dry_run {
            return plan(context, &files, now);
        }
        let store = Store::create(&context.store_dir()?, Env::system())?;
        let machine = self.machine.clone().or_else(this_machine);
        let (principal, bounds) = (self.principal.clone(), ImportBounds::default());
        let options = ImportOptions { principal, machine, by: context.actor(), bounds, started: None };
        let done = context.ui.with_named_progress("importing", |progress| {
            store.import(files, &options, &mut |path, done, total| progress(&short_name(path), done, total))
        })?;
        // What hooks told of meanwhile is here now, for the most part; what they missed is.
        store.drain(&of_hooks(), DrainBounds::ALL)?;
        if self.paths.is_empty() && self.from.is_empty() && self.since.is_none() && done.failed.is_empty() {
            super::missed_at(store.dir()).forget();
        }
        let exit = report(context, &done, self.report)?;
        if done.bytes >= ROOM_BYTES_MIN && !context.ui.is_json() {
            let room = bytes(store.disk_use()?.total());
            context.ui.line(format!("store      {room} in all    enjamb maintain packs it closer"))?;
        }
        Ok(exit)
    }

    fn found(&self) -> Result<Vec<SourceFile>> {
        let mut files = Vec::new();
        for path in &self.paths {
            let found = files_in(path).map_err(|source| failed(path, source))?;
            files.extend(found);
        }
        Ok(files)
    }

    fn select(&self, files: &mut Vec<SourceFile>, now: Timestamp) -> Result<()> {
        if !self.from.is_empty() {
            files.retain(|file| self.from.contains(&file.runtime));
        }
        if let Some(text) = &self.since {
            let oldest_ms = now.as_millis().saturating_sub(enjamb_service::parse_ttl(text)?);
            files.retain(|file| file.modified.is_none_or(|at| at.as_millis() >= oldest_ms));
        }
        Ok(())
    }
}

/// The end of a file's name: of a rollout or a session, that is what tells it from others.
fn short_name(path: &Path) -> String {
    const CHARS_MAX: usize = 24;
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let skipped = name.chars().count().saturating_sub(CHARS_MAX);
    name.chars().skip(skipped).collect()
}

/// What runtimes keep in the home directory.
pub fn found_at_home() -> Vec<SourceFile> {
    places_at_home().iter().flat_map(Place::files).collect()
}

pub fn places_at_home() -> Vec<Place> {
    environment("HOME").map(|home| known_places(&home, &environment)).unwrap_or_default()
}

/// How transcripts are imported that hooks tell of.
pub fn of_hooks() -> ImportOptions {
    let principal = std::env::var("ENJAMB_PRINCIPAL").ok().filter(|name| !name.is_empty());
    let by = Actor { actor_id: "enjamb".into(), origin: "capture".into() };
    let principal = principal.unwrap_or_else(|| "user".to_owned());
    ImportOptions { principal, machine: this_machine(), by, bounds: ImportBounds::default(), started: None }
}

pub fn this_machine() -> Option<String> {
    gethostname::gethostname().into_string().ok()
}

fn failed(path: &Path, source: std::io::Error) -> ServiceError {
    ServiceError::File { path: path.to_owned(), source }
}

fn plan(context: &mut Context<'_>, files: &[SourceFile], now: Timestamp) -> Result<Exit> {
    if context.ui.is_json() {
        let row = |file: &SourceFile| {
            json!({
                "path": file.path.to_string_lossy(), "runtime": file.runtime.as_str(), "bytes": file.size,
                "days_left": file.days_left(now),
            })
        };
        context.ui.json("import_plan", json!({"files": files.iter().map(row).collect::<Vec<_>>()}))?;
        return Ok(Exit::Done);
    }
    summary(context, files, now)?;
    Ok(Exit::Done)
}

/// A line for each runtime: how many sessions, how large, how old, and how many are about to be deleted.
pub fn summary(context: &mut Context<'_>, files: &[SourceFile], now: Timestamp) -> Result<()> {
    let mut by_runtime: BTreeMap<Runtime, Vec<&SourceFile>> = BTreeMap::new();
    for file in files {
        by_runtime.entry(file.runtime).or_default().push(file);
    }
    let mut table = Table::new(&["runtime", "files", "size", "oldest", ""]);
    for (runtime, files) in by_runtime {
        let size: u64 = files.iter().map(|file| file.size).sum();
        let oldest = files.iter().filter_map(|file| file.modified).min().map(|at| at.to_string());
        let danger = files.iter().filter(|file| file.is_in_danger(now)).count() as u64;
        let danger = if danger == 0 { String::new() } else { format!("{danger} will be deleted within 7 days") };
        let oldest = oldest.map(|at| at.chars().take(10).collect::<String>()).unwrap_or_default();
        table.row([
            runtime.as_str().into(),
            files.len().to_string().into(),
            bytes(size).into(),
            oldest.into(),
            danger.into(),
        ]);
    }
    context.ui.table(&table)?;
    Ok(())
}

fn report(context: &mut Context<'_>, done: &Imported, in_full: bool) -> Result<Exit> {
    let exit = if done.failed.is_empty() { Exit::Done } else { Exit::Partly };
    if context.ui.is_json() {
        let issue_json = |issue: &ImportIssue| json!({"path": issue.path.to_string_lossy(), "line": issue.line, "detail": issue.detail});
        let issues: Vec<_> = done.issues.iter().map(issue_json).collect();
        let failed: Vec<_> =
            done.failed.iter().map(|(path, why)| json!({"path": path.to_string_lossy(), "detail": why})).collect();
        let value = json!({
            "files": done.files, "unchanged": done.unchanged, "rewritten": done.rewritten, "bytes": done.bytes,
            "commits": done.commits, "known": done.known, "runtimes": done.by_runtime, "records": done.records, "issues": issues, "failed": failed,
            "secrets": secrets_json(done),
        });
        context.ui.json("import", value)?;
        return Ok(exit);
    }
    let (files, commits) = (plural(done.files, "file"), plural(done.commits, "commit"));
    context.ui.line(format!("imported   {files} as {commits}, {}", bytes(done.bytes)))?;
    if done.unchanged > 0 {
        context.ui.line(format!("unchanged  {}", plural(done.unchanged, "file")))?;
    }
    if done.rewritten > 0 {
        let rewritten = plural(done.rewritten, "file");
        context.ui.line(format!("rewritten  {rewritten} since the last import; what was there before is kept"))?;
    }
    let secrets: u64 = done.secrets.iter().map(|source| source.found.total()).sum();
    if secrets > 0 {
        let found = crate::text::count(secrets);
        context.ui.line(format!(
            "secrets    {found} found, masked wherever they are shown or exported    enjamb redact list"
        ))?;
    }
    for (path, why) in &done.failed {
        context.ui.bad(&format!("{}: {why}", path.display()))?;
    }
    if in_full {
        for (kind, count) in &done.records {
            context.ui.line(format!("  {count:>9} {kind}"))?;
        }
        for source in &done.secrets {
            let kinds: Vec<_> = source.found.found.iter().map(|(rule, count)| format!("{count} {rule}")).collect();
            context.ui.line(format!("{}: {}", source.path, kinds.join(", ")))?;
        }
        for issue in &done.issues {
            context.ui.line(format!("{}:{}: {}", issue.path.display(), issue.line, issue.detail))?;
        }
    } else if !done.issues.is_empty() {
        let issues = plural(done.issues.len() as u64, "line");
        context.ui.line(format!("kept as is {issues} that hold no record    --report lists them"))?;
    }
    Ok(exit)
}

fn secrets_json(done: &Imported) -> serde_json::Value {
    let row =
        |source: &SourceSecrets| json!({"path": source.path, "session": source.session, "found": source.found.found});
    let total: u64 = done.secrets.iter().map(|source| source.found.total()).sum();
    json!({"found": total, "rules": RULE_SET, "sources": done.secrets.iter().map(row).collect::<Vec<_>>()})
}

pub fn parse_runtime(text: &str) -> std::result::Result<Runtime, String> {
    Runtime::from_name(text).ok_or_else(|| "expected claude-code, codex, gemini, opencode or other".to_owned())
}

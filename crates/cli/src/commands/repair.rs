//! `enjamb repair`

use clap::Args;
use enjamb_core::CommitId;
use enjamb_formats::Change;
use enjamb_service::{CheckContext, Located, RepairContext, RepairedContext};
use serde_json::{Value, json};

use super::Context;
use super::check::{LookedAt, problem_json, problem_lines};
use crate::failure::{Exit, Result};
use crate::text::plural;

#[derive(Args)]
#[command(
    after_help = "Example:\n  enjamb repair ctx-3f2a --dry-run\n  enjamb repair @ -n mended\n  enjamb repair @ --for codex\n\n\
    Writes a fork in which the fewest records are changed, and names each of them. The original stays as it is. Exits \
    with 1 when something is left that no repair mends."
)]
pub struct Repair {
    #[command(flatten)]
    looked_at: LookedAt,
    /// Say what would change, and write nothing
    #[arg(long)]
    dry_run: bool,
    /// A name for the fork
    #[arg(short = 'n', long)]
    name: Option<String>,
}

impl Repair {
    pub fn run(self, context: &mut Context<'_>) -> Result<Exit> {
        let store = context.open()?;
        let CheckContext { tip, stop, format, reuse } = self.looked_at.request(&store, &self.looked_at.revision)?;
        let request =
            RepairContext { tip, stop, reuse, dry_run: self.dry_run, name: self.name.clone(), by: context.actor() };
        let mut done = store.repair(&request)?;
        // Another runtime sees a translation: what is wrong with that is what is left.
        if let Some(format) = format.filter(|format| *format != done.format && !self.dry_run) {
            let tip = done.fork.unwrap_or(tip);
            done.left = store.check(&CheckContext { tip, stop, format: Some(format), reuse })?.problems;
        }
        report(context, &done, self.dry_run)
    }
}

fn report(context: &mut Context<'_>, done: &RepairedContext, dry_run: bool) -> Result<Exit> {
    let exit = if done.would_load() { Exit::Done } else { Exit::No };
    if context.ui.is_json() {
        let changes: Vec<Value> = done.changes.iter().map(change_json).collect();
        let left: Vec<Value> = done.left.iter().map(problem_json).collect();
        let value = json!({
            "tip": done.tip.to_string(), "format": done.format, "changes": changes, "left": left,
            "loads": done.would_load(), "commits": done.commits, "shared": done.shared.map(|id| id.to_string()),
            "fork": done.fork.map(|id| id.to_string()), "dry_run": dry_run,
        });
        context.ui.json("repair", value)?;
        return Ok(exit);
    }
    for (change, _) in &done.changes {
        let record = change.record.as_ref().map(|record| format!(" {record}")).unwrap_or_default();
        context.ui.line(format!("{}{record}  {}  [{}]", change.at, change.what, change.code))?;
    }
    say_left(context, &done.left)?;
    say_fork(context, done, dry_run)?;
    Ok(exit)
}

fn say_left(context: &mut Context<'_>, left: &[Located]) -> Result<()> {
    if !left.is_empty() {
        context.ui.line("left as it is:")?;
    }
    problem_lines(context, left)
}

fn say_fork(context: &mut Context<'_>, done: &RepairedContext, dry_run: bool) -> Result<()> {
    let (changes, commits) = (plural(done.changes.len() as u64, "change"), plural(done.commits, "commit"));
    match (&done.fork, dry_run) {
        (Some(fork), _) => {
            let after = done.shared.map_or_else(|| "from the root on".to_owned(), |shared| format!("after {shared}"));
            context.ui.note(&format!("{changes}, {commits} {after}; {} is as it was", done.tip));
            context.ui.answer(fork.to_string())?;
        }
        (None, true) if done.commits > 0 => context.ui.line(format!("would make {changes} in {commits}"))?,
        (None, _) => context.ui.line("nothing to repair")?,
    }
    Ok(())
}

fn change_json((change, commit): &(Change, Option<CommitId>)) -> Value {
    json!({
        "code": change.code.as_str(), "number": change.at.number(), "offset": change.at.offset(),
        "record": change.record, "commit": commit.map(|commit| commit.to_string()), "what": change.what,
    })
}

//! `enjamb capture`

use std::io::IsTerminal;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use enjamb_service::{CapturePlan, HookCommand, HookFile, Runtime, Store};
use serde_json::{Value, json};
use similar::TextDiff;

use super::delivery::{as_json, files_at_home, report, show};
use super::{Context, environment};
use crate::failure::{Exit, Failure, Result};

#[derive(Subcommand)]
pub enum Capture {
    /// Have runtimes tell of new work, through hooks
    #[command(after_help = "Example:\n  enjamb capture on\n  enjamb capture on claude-code --yes\n\n\
        Adds entries to the runtimes' own settings, shows them first, and keeps a backup. A hook only appends to a spool: \
        what it tells of is taken in by enjamb watch, or by the next command. Codex asks once whether to trust them. \
        ENJAMB_DISABLE=1 in an agent's environment makes its hooks do nothing.")]
    On(Change),
    /// Take the hooks out again
    #[command(after_help = "Example:\n  enjamb capture off\n  enjamb capture off codex --yes\n\n\
        Settings that were not changed since are put back byte for byte; of others, only our entries go.")]
    Off(Change),
    /// Show what arrives
    #[command(after_help = "Example:\n  enjamb capture status")]
    Status(Which),
}

#[derive(Args)]
pub struct Which {
    /// Which runtimes: claude-code, codex [default: those that are used here]
    #[arg(value_name = "RUNTIME", value_parser = parse_runtime)]
    runtimes: Vec<Runtime>,
}

#[derive(Args)]
pub struct Change {
    #[command(flatten)]
    which: Which,
    /// Do it without asking
    #[arg(long, short)]
    yes: bool,
    /// Only show what would be changed
    #[arg(long)]
    dry_run: bool,
}

impl Capture {
    pub fn run(self, context: &mut Context<'_>) -> Result<Exit> {
        match self {
            Self::On(change) => {
                let store = context.open_or_create()?;
                let command = this_command(context)?;
                let plans = change.which.files()?.into_iter().map(|file| Ok(store.plan_capture(file, &command)?));
                let plans = plans.collect::<Result<Vec<_>>>()?;
                change.make(context, &store, "on", &plans)
            }
            Self::Off(change) => {
                let store = context.open()?;
                let plans = change.which.files()?.into_iter().map(|file| Ok(store.plan_release(file)?));
                let plans = plans.collect::<Result<Vec<_>>>()?;
                change.make(context, &store, "off", &plans)
            }
            Self::Status(which) => {
                let store = context.open()?;
                let mut report = report(&store)?;
                if !which.runtimes.is_empty() {
                    report.runtimes.retain(|row| which.runtimes.contains(&row.file.runtime));
                }
                if context.ui.is_json() {
                    context.ui.json("capture_status", as_json(&report))?;
                } else {
                    show(context, &report)?;
                }
                Ok(Exit::Done)
            }
        }
    }
}

impl Which {
    fn files(&self) -> Result<Vec<HookFile>> {
        let mut files = files_at_home();
        if self.runtimes.is_empty() {
            files.retain(HookFile::is_used);
        } else {
            files.retain(|file| self.runtimes.contains(&file.runtime));
        }
        if files.is_empty() {
            let message = "neither Claude Code nor Codex has been used here".to_owned();
            return Err(Failure::Usage { message, help: Some("enjamb capture on claude-code".into()) });
        }
        Ok(files)
    }
}

impl Change {
    fn make(self, context: &mut Context<'_>, store: &Store, what: &str, plans: &[CapturePlan]) -> Result<Exit> {
        if !context.ui.is_json() {
            plans.iter().try_for_each(|plan| show_plan(context, plan))?;
        }
        let changes = plans.iter().any(|plan| !plan.is_nothing());
        let done = !self.dry_run && (!changes || self.is_agreed(context, what)?);
        if done {
            plans.iter().try_for_each(|plan| store.apply_capture(plan))?;
        }
        if context.ui.is_json() {
            let rows: Vec<_> = plans.iter().map(plan_json).collect();
            context.ui.json(&format!("capture_{what}"), json!({"runtimes": rows, "done": done}))?;
        } else if done && what == "on" {
            show(context, &report(store)?)?;
        }
        Ok(if done || self.dry_run { Exit::Done } else { Exit::No })
    }

    fn is_agreed(&self, context: &mut Context<'_>, what: &str) -> Result<bool> {
        if self.yes {
            return Ok(true);
        }
        if !std::io::stdin().is_terminal() || context.ui.is_json() {
            return Err(Failure::Usage {
                message: "this changes the settings of other programs, and there is nobody to ask".into(),
                help: Some(format!("enjamb capture {what} --yes")),
            });
        }
        Ok(context.ui.ask("Apply?")?)
    }
}

fn show_plan(context: &mut Context<'_>, plan: &CapturePlan) -> Result<()> {
    let path = plan.file.path.display();
    if plan.is_nothing() {
        let how = if plan.entries > 0 { "has our hooks already" } else { "has none of our hooks" };
        context.ui.line(format!("{path}  {how}"))?;
        return Ok(());
    }
    let how = match (plan.restores, plan.entries) {
        (true, _) => "as it was before".to_owned(),
        (false, 0) => "without our hooks".to_owned(),
        (false, entries) => format!("with {entries} hooks of ours; what is there now is kept beside it"),
    };
    context.ui.line(format!("{path}  {how}"))?;
    let (before, after) = (plan.before.as_deref().unwrap_or_default(), plan.after.as_deref().unwrap_or_default());
    let diff = TextDiff::from_lines(before, after);
    for line in diff.unified_diff().context_radius(2).to_string().lines() {
        context.ui.line(line)?;
    }
    Ok(())
}

fn plan_json(plan: &CapturePlan) -> Value {
    json!({
        "runtime": plan.file.runtime.as_str(), "settings": plan.file.path.to_string_lossy(), "entries": plan.entries,
        "changes": !plan.is_nothing(), "restores": plan.restores,
    })
}

/// What runtimes are to call: this program, and the store if they would not find it by themselves.
fn this_command(context: &Context<'_>) -> Result<HookCommand> {
    let text = |path: PathBuf| {
        let shown = path.to_string_lossy().into_owned();
        path.into_os_string()
            .into_string()
            .map_err(|_| Failure::usage(format!("{shown} is not text: no settings can hold it")))
    };
    let store = std::path::absolute(context.store_dir()?)?;
    let is_usual = super::usual_store_dir().is_some_and(|usual| usual == store);
    Ok(HookCommand { program: text(this_program()?)?, store: if is_usual { None } else { Some(text(store)?) } })
}

/// Where this program is, under the name by which it was called: a link outlives what it leads to when it is upgraded.
fn this_program() -> Result<PathBuf> {
    let called = std::env::args_os().next().map(PathBuf::from).unwrap_or_default();
    if called.components().count() > 1 {
        return Ok(std::path::absolute(called)?);
    }
    let path = environment("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).map(|dir| dir.join(&called)).find(|program| is_program(program));
    found.map_or_else(|| Ok(std::env::current_exe()?), |found| Ok(std::path::absolute(found)?))
}

fn is_program(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    path.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

fn parse_runtime(text: &str) -> std::result::Result<Runtime, String> {
    let runtime = Runtime::from_name(text).filter(|runtime| matches!(runtime, Runtime::ClaudeCode | Runtime::Codex));
    runtime.ok_or_else(|| "expected claude-code or codex".to_owned())
}

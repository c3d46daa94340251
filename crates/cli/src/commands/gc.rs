//! `enjamb gc`

use clap::Args;
use enjamb_service::{Candidate, GcPlan, GcRun};
use serde_json::{Value, json};

use super::Context;
use crate::failure::{Exit, Result};
use crate::text::{bytes, plural};

#[derive(Args)]
#[command(
    after_help = "Example:\n  enjamb gc           what would go, and why nothing else\n  enjamb gc --run     one cycle\n\n\
    Only an ephemeral artifact whose time is over, which no tag names and no frame mentions, ever goes. One cycle \
    condemns it, a later one drops it, unless something has mentioned it in between."
)]
pub struct Gc {
    /// Run a cycle
    #[arg(long)]
    run: bool,
    /// Only show what would be done (the default)
    #[arg(long, conflicts_with = "run")]
    dry_run: bool,
}

impl Gc {
    pub fn run(self, context: &mut Context<'_>) -> Result<Exit> {
        let store = context.open()?;
        if !self.run {
            return show_plan(context, &store.gc_plan()?);
        }
        let actor = context.actor();
        let run = context.ui.with_progress("collecting", |progress| store.gc_run(&actor, progress))?;
        show_run(context, &run)
    }
}

fn show_plan(context: &mut Context<'_>, plan: &GcPlan) -> Result<Exit> {
    if context.ui.is_json() {
        let rows: Vec<Value> = plan.candidates.iter().map(candidate_json).collect();
        let value = json!({
            "dry_run": true, "candidates": rows, "waiting": plan.waiting, "needed": plan.needed,
            "unnamed_files": plan.unnamed_files, "unnamed_bytes": plan.unnamed_bytes,
        });
        context.ui.json("gc", value)?;
        return Ok(Exit::Done);
    }
    for candidate in &plan.candidates {
        let step = if candidate.condemned { "drop" } else { "condemn" };
        context.ui.answer(format!("would {step}  {}  {}", candidate.id, bytes(candidate.len)))?;
    }
    if plan.unnamed_files > 0 {
        let files = plural(plan.unnamed_files, "file");
        context.ui.answer(format!("would remove  {files} that nothing names, {}", bytes(plan.unnamed_bytes)))?;
    }
    context.ui.line(format!(
        "{} would go; {} kept until their time is over, {} because something needs them",
        plural(plan.candidates.len() as u64, "artifact"),
        plan.waiting,
        plan.needed
    ))?;
    context.ui.note("nothing was changed: enjamb gc --run");
    Ok(Exit::Done)
}

fn candidate_json(candidate: &Candidate) -> Value {
    json!({"id": candidate.id.to_string(), "bytes": candidate.len, "condemned": candidate.condemned})
}

fn show_run(context: &mut Context<'_>, run: &GcRun) -> Result<Exit> {
    if context.ui.is_json() {
        let value = json!({
            "dry_run": false, "condemned": run.condemned, "dropped": run.dropped,
            "dropped_bytes": run.dropped_bytes, "files_bytes": run.files_bytes, "sweep_skipped": run.sweep_skipped,
        });
        context.ui.json("gc", value)?;
        return Ok(Exit::Done);
    }
    context.ui.line(format!(
        "dropped {} of {}, condemned {} for the next cycle, removed {} of unnamed files",
        plural(run.dropped, "artifact"),
        bytes(run.dropped_bytes),
        run.condemned,
        bytes(run.files_bytes)
    ))?;
    if run.sweep_skipped {
        context.ui.note("someone is writing a segment, so files were left for the next cycle");
    }
    Ok(Exit::Done)
}

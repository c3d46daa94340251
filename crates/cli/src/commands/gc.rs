//! `enjamb gc`

use clap::Args;
use enjamb_server::view;
use serde_json::json;

use super::Context;
use super::show::as_json;
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
        let done: view::Collection = context.operations()?.call("gc", json!({"run": self.run}))?;
        if context.ui.is_json() {
            context.ui.json("gc", as_json(&done))?;
            return Ok(Exit::Done);
        }
        match (&done.plan, &done.run) {
            (_, Some(run)) => show_run(context, run),
            (plan, None) => plan.as_ref().map_or(Ok(Exit::Done), |plan| show_plan(context, plan)),
        }
    }
}

fn show_plan(context: &mut Context<'_>, plan: &view::CollectionPlan) -> Result<Exit> {
    for candidate in &plan.candidates {
        let step = if candidate.condemned { "drop" } else { "condemn" };
        context.ui.answer(format!("would {step}  {}  {}", candidate.id, bytes(candidate.bytes)))?;
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

fn show_run(context: &mut Context<'_>, run: &view::CollectionRun) -> Result<Exit> {
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

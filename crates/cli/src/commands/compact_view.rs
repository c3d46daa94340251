//! Compactions as tables and as lines.

use enjamb_server::view;

use super::Context;
use super::show::as_json;
use crate::failure::{Exit, Result};
use crate::text::count;
use crate::ui::Table;

pub fn cut_table(cuts: &[view::Cut]) -> Table {
    let mut table = Table::new(&["message", "seq", "id", "checkpoint"]);
    for cut in cuts {
        table.row([
            cut.target_message_ordinal.to_string().into(),
            cut.to_seq.to_string().into(),
            cut.to_message_id.clone().into(),
            cut.latest_checkpoint_id.clone().unwrap_or_else(|| "-".into()).into(),
        ]);
    }
    table
}

pub fn status_rows(status: &view::CompactionState) -> Vec<(&'static str, String)> {
    let mut rows = vec![("messages", count(status.message_count))];
    let none = || "none".to_owned();
    let latest = &status.latest_checkpoint;
    let latest = latest.as_ref().map(|latest| format!("{} up to {}", latest.checkpoint_id, latest.to_seq));
    rows.push(("latest", latest.unwrap_or_else(none)));
    let next = &status.next_cut_point;
    let next = next.as_ref().map(|next| format!("message {} at {}", count(next.target_message_ordinal), next.to_seq));
    rows.push(("next cut", next.unwrap_or_else(none)));
    rows.push(("in flight", status.inflight_job_id.clone().unwrap_or_else(none)));
    rows.extend(status.last_schedule_decision.as_ref().map(|decision| ("decided", decision.decision.clone())));
    rows.extend(status.last_job_outcome.as_ref().map(|job| ("last job", job_line(job))));
    rows
}

fn job_line(job: &view::Job) -> String {
    format!("{} {}", job.job_id, job.status.as_deref().unwrap_or("in flight"))
}

pub fn job_table(jobs: &[view::Job]) -> Table {
    let mut table = Table::new(&["job", "kind", "spawned", "status"]);
    for job in jobs {
        table.row([
            job.job_id.clone().into(),
            job.job_kind.clone().into(),
            job.spawned_seq.to_string().into(),
            job.status.clone().unwrap_or_else(|| "in flight".into()).into(),
        ]);
    }
    table
}

/// How much of what was said a summary still says, and what it does not.
pub fn print_loss(context: &mut Context<'_>, loss: &view::Loss) -> Result<Exit> {
    if context.ui.is_json() {
        context.ui.json("compact_diff", as_json(loss))?;
        return Ok(Exit::Done);
    }
    context.ui.line(format!("{} keeps {} %", loss.of, loss.score))?;
    for counted in &loss.categories {
        context.ui.line(format!("  {:12}{} of {}", counted.category, counted.kept, counted.of))?;
    }
    let mut table = Table::new(&["lost", "fact"]);
    for lost in &loss.lost {
        table.row([lost.category.as_str().into(), lost.fact.clone().into()]);
    }
    context.ui.table(&table)?;
    Ok(Exit::Done)
}

//! Compactions as tables and as JSON.

use enjamb_core::StreamId;
use enjamb_core::compact::Score;
use enjamb_core::frame::PlannedCut;
use enjamb_service::{AutoCompacted, CheckpointView, CompactionStatus, CutPoint, JobView, Scheduled};
use serde_json::{Value, json};

use super::Context;
use crate::failure::{Exit, Result};
use crate::text::count;
use crate::ui::Table;

pub fn cut_json(cut: &CutPoint) -> Value {
    json!({
        "target_message_ordinal": cut.ordinal, "to_seq": cut.to_seq, "to_message_id": cut.to_message_id,
        "already_checkpointed": cut.checkpoint_id.is_some(), "latest_checkpoint_id": cut.checkpoint_id,
    })
}

pub fn cut_table(cuts: &[CutPoint]) -> Table {
    let mut table = Table::new(&["message", "seq", "id", "checkpoint"]);
    for cut in cuts {
        table.row([
            cut.ordinal.to_string().into(),
            cut.to_seq.to_string().into(),
            cut.to_message_id.clone().into(),
            cut.checkpoint_id.clone().unwrap_or_else(|| "-".into()).into(),
        ]);
    }
    table
}

pub fn checkpoint_json(checkpoint: &CheckpointView) -> Value {
    json!({
        "checkpoint_id": checkpoint.checkpoint_id, "cut_rule_id": checkpoint.cut_rule_id,
        "summary_artifact": format!("art-{}", checkpoint.summary_artifact_id), "to_seq": checkpoint.to_seq,
        "to_message_id": checkpoint.to_message_id,
    })
}

fn planned_json(cut: &PlannedCut) -> Value {
    json!({
        "target_message_ordinal": cut.target_message_ordinal, "to_seq": cut.to_seq,
        "to_message_id": cut.to_message_id,
    })
}

pub fn auto_json(thread: &StreamId, done: &AutoCompacted) -> Value {
    json!({
        "thread_id": thread.id, "status": done.status, "job_id": done.job_id,
        "planned": done.planned.iter().map(planned_json).collect::<Vec<_>>(),
        "created": done.created.iter().map(checkpoint_json).collect::<Vec<_>>(), "error": done.error,
    })
}

pub fn scheduled_json(thread: &StreamId, done: &Scheduled) -> Value {
    let mut value = auto_json(thread, &done.done);
    value["decision"] = done.decision.into();
    value["decision_id"] = json!(done.decision_id);
    value["policy_id"] = done.policy_id.clone().into();
    value["inflight_job_id"] = json!(done.inflight_job_id);
    value
}

pub fn status_json(thread: &StreamId, status: &CompactionStatus) -> Value {
    let decision = status.last_decision.as_ref().map(|decision| {
        json!({"decision_id": decision.decision_id, "decision": decision.decision, "policy_id": decision.policy_id, "job_id": decision.job_id})
    });
    json!({
        "thread_id": thread.id, "message_count": status.messages,
        "latest_checkpoint": status.latest.as_ref().map(checkpoint_json),
        "next_cut_point": status.next.as_ref().map(cut_json), "inflight_job_id": status.inflight_job_id,
        "last_schedule_decision": decision, "last_job_outcome": status.last_job.as_ref().map(job_json),
    })
}

pub fn status_rows(status: &CompactionStatus) -> Vec<(&'static str, String)> {
    let mut rows = vec![("messages", count(status.messages))];
    let none = || "none".to_owned();
    let latest = status.latest.as_ref().map(|latest| format!("{} up to {}", latest.checkpoint_id, latest.to_seq));
    rows.push(("latest", latest.unwrap_or_else(none)));
    let next = status.next.as_ref().map(|next| format!("message {} at {}", count(next.ordinal), next.to_seq));
    rows.push(("next cut", next.unwrap_or_else(none)));
    rows.push(("in flight", status.inflight_job_id.clone().unwrap_or_else(none)));
    rows.extend(status.last_decision.as_ref().map(|decision| ("decided", decision.decision.clone())));
    rows.extend(status.last_job.as_ref().map(|job| ("last job", job_line(job))));
    rows
}

fn job_line(job: &JobView) -> String {
    format!("{} {}", job.job_id, job.status.as_deref().unwrap_or("in flight"))
}

pub fn job_json(job: &JobView) -> Value {
    json!({
        "job_id": job.job_id, "job_kind": job.kind, "spawned_seq": job.spawned_seq, "ended_seq": job.ended_seq,
        "status": job.status, "error": job.error,
    })
}

pub fn job_table(jobs: &[JobView]) -> Table {
    let mut table = Table::new(&["job", "kind", "spawned", "status"]);
    for job in jobs {
        table.row([
            job.job_id.clone().into(),
            job.kind.clone().into(),
            job.spawned_seq.to_string().into(),
            job.status.clone().unwrap_or_else(|| "in flight".into()).into(),
        ]);
    }
    table
}

/// How much of what was said a summary still says, and what it does not.
pub fn print_score(context: &mut Context<'_>, what: &str, score: &Score) -> Result<Exit> {
    if context.ui.is_json() {
        let categories = score
            .categories
            .iter()
            .map(|counted| json!({"category": counted.category.as_str(), "kept": counted.kept, "of": counted.of}));
        let lost = score.lost.iter().map(|lost| json!({"category": lost.category.as_str(), "fact": lost.fact}));
        let value = json!({
            "of": what, "score": score.percent, "categories": categories.collect::<Vec<_>>(),
            "lost": lost.collect::<Vec<_>>(),
        });
        context.ui.json("compact_diff", value)?;
        return Ok(Exit::Done);
    }
    context.ui.line(format!("{what} keeps {} %", score.percent))?;
    for counted in &score.categories {
        context.ui.line(format!("  {:12}{} of {}", counted.category.as_str(), counted.kept, counted.of))?;
    }
    let mut table = Table::new(&["lost", "fact"]);
    for lost in &score.lost {
        table.row([lost.category.as_str().into(), lost.fact.clone().into()]);
    }
    context.ui.table(&table)?;
    Ok(Exit::Done)
}

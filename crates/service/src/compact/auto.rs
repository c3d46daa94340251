//! Summaries by jobs: planned, spawned, written and ended, each step a frame.

use enjamb_core::StreamId;
use enjamb_core::compact::{JOB_RESULT_SCHEMA, JOB_SCHEMA, stride_rule};
use enjamb_core::compile::Summary;
use enjamb_core::frame::{Body, JobEnded, JobSpawned, Json, PlannedCut};
use serde_json::{Value, json};

use super::{CheckpointView, Growth, ThreadSummarizer, checkpoint_body, produced};
use crate::{Actor, Result, Store};

/// How far a job goes.
#[derive(Clone, Debug)]
pub struct AutoCompact {
    pub stride: u64,
    pub new_max: u32,
    pub dry_run: bool,
    pub summarizer: ThreadSummarizer,
    pub growth: Growth,
}

/// What became of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AutoCompacted {
    /// `noop`, `completed` or `failed`.
    pub status: &'static str,
    pub job_id: Option<String>,
    pub planned: Vec<PlannedCut>,
    pub created: Vec<CheckpointView>,
    pub error: Option<String>,
}

/// A job as it was spawned.
pub(super) struct Job {
    pub(super) id: String,
    pub(super) kind: String,
    pub(super) stride: u64,
    pub(super) planned: Vec<PlannedCut>,
    pub(super) summarizer: ThreadSummarizer,
    pub(super) growth: Growth,
}

impl Store {
    /// Runs a job for the next cuts that nobody has made.
    pub fn compact_auto(&self, thread: &StreamId, request: &AutoCompact, by: &Actor) -> Result<AutoCompacted> {
        let (_, planned) = self.planned_cuts(thread, request.stride, request.new_max)?;
        if planned.is_empty() || request.dry_run {
            return Ok(noop(planned));
        }
        let job = self.job_of(request, planned);
        self.rehearse(thread, &job)?;
        self.append_bodies(thread, &[spawned(&job, by)], Vec::new())?;
        self.work(thread, &job, by)
    }

    /// Refuses a job whose first summary would be refused, before there is a job: by rule, the same messages give the same
    /// words, and whoever schedules again and again would leave as many jobs that failed.
    pub(super) fn rehearse(&self, thread: &StreamId, job: &Job) -> Result<()> {
        let first = job.planned.iter().min_by_key(|cut| cut.to_seq);
        match (&job.summarizer, job.growth, first) {
            (ThreadSummarizer::Rule, Growth::Refused, Some(cut)) => self.write_summary(thread, job, cut).map(drop),
            _ => Ok(()),
        }
    }

    pub(super) fn job_of(&self, request: &AutoCompact, planned: Vec<PlannedCut>) -> Job {
        let AutoCompact { stride, summarizer, growth, .. } = request.clone();
        Job { id: self.env.new_id(), kind: summarizer.job_kind().into(), stride, planned, summarizer, growth }
    }

    /// Makes the cuts of a job, the nearest first so that each goes on from the one before, and ends it.
    pub(super) fn work(&self, thread: &StreamId, job: &Job, by: &Actor) -> Result<AutoCompacted> {
        let mut cuts = job.planned.clone();
        cuts.sort_by_key(|cut| cut.to_seq);
        let mut created = Vec::new();
        let mut failure = None;
        for cut in &cuts {
            match self.make_cut(thread, job, cut, by) {
                Ok(view) => created.push(view),
                Err(error) => {
                    failure = Some(error.to_string());
                    break;
                }
            }
        }
        let status = if failure.is_some() { "failed" } else { "completed" };
        let result =
            json!({"schema": JOB_RESULT_SCHEMA, "created": created.iter().map(created_json).collect::<Vec<_>>()});
        let ended = ended(job, status, Some(result), failure.clone(), by);
        self.append_bodies(thread, &[ended], Vec::new())?;
        let planned = job.planned.clone();
        Ok(AutoCompacted { status, job_id: Some(job.id.clone()), planned, created, error: failure })
    }

    fn make_cut(&self, thread: &StreamId, job: &Job, cut: &PlannedCut, by: &Actor) -> Result<CheckpointView> {
        let written = self.write_summary(thread, job, cut)?;
        let to = (cut.to_seq, cut.to_message_id.clone());
        let provenance = produced("job", &job.id, by);
        let summary = Summary::cumulative(&thread.id, to.clone(), provenance, written.basis, written.markdown);
        let artifact = self.artifact_of(summary.to_bytes())?;
        let body = checkpoint_body(self.env.new_id(), &stride_rule(job.stride), artifact.id.to_hex(), to, by);
        self.record_checkpoint(thread, vec![artifact], body)
    }
}

pub(super) fn noop(planned: Vec<PlannedCut>) -> AutoCompacted {
    AutoCompacted { status: "noop", job_id: None, planned, created: Vec::new(), error: None }
}

pub(super) fn spawned(job: &Job, by: &Actor) -> Body {
    let details = json!({
        "schema": JOB_SCHEMA, "cut_rule_id": stride_rule(job.stride), "stride_messages": job.stride,
        "planned": job.planned.iter().map(planned_json).collect::<Vec<_>>(),
    });
    JobSpawned {
        job_id: job.id.clone(),
        job_kind: job.kind.clone(),
        details: Some(Json::from(details)),
        actor_id: by.actor_id.clone(),
        origin: by.origin.clone(),
    }
    .into()
}

fn ended(job: &Job, status: &str, result: Option<Value>, error: Option<String>, by: &Actor) -> Body {
    JobEnded {
        job_id: job.id.clone(),
        job_kind: job.kind.clone(),
        status: status.into(),
        result: result.map(Json::from),
        error,
        actor_id: by.actor_id.clone(),
        origin: by.origin.clone(),
    }
    .into()
}

fn planned_json(cut: &PlannedCut) -> Value {
    json!({
        "target_message_ordinal": cut.target_message_ordinal, "to_seq": cut.to_seq,
        "to_message_id": cut.to_message_id,
    })
}

fn created_json(created: &CheckpointView) -> Value {
    json!({
        "checkpoint_id": created.checkpoint_id, "summary_artifact_id": created.summary_artifact_id,
        "to_seq": created.to_seq, "to_message_id": created.to_message_id, "cut_rule_id": created.cut_rule_id,
    })
}

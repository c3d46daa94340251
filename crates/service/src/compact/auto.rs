//! Summaries by jobs: planned, spawned, written and ended, each step a frame.

use enjamb_core::StreamId;
use enjamb_core::compact::{JOB_RESULT_SCHEMA, JOB_SCHEMA, schedule_policy, stride_rule};
use enjamb_core::compile::{CUMULATIVE, Coverage, ProducedBy, SUMMARY_SCHEMA, Summary, SummaryProvenance};
use enjamb_core::frame::{Body, CompactionScheduleDecided, ContinuityBody, JobEnded, JobSpawned, Json, PlannedCut};
use enjamb_core::order::MarkKey;
use enjamb_ledger::{Batch, Ledger};
use serde_json::{Value, json};

use super::summarizer::COMMAND_JOB;
use super::{CheckpointView, Summarizer, checkpoint_body};
use crate::{Actor, Result, Store, ThreadError};

/// How far a job goes.
#[derive(Clone, Debug)]
pub struct AutoCompact {
    pub stride: u64,
    pub new_max: u32,
    pub dry_run: bool,
    pub summarizer: Summarizer,
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

/// What was decided about a job, and what became of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scheduled {
    /// `noop`, `dry_run`, `skipped_inflight`, `scheduled`, `completed` or `failed`.
    pub decision: &'static str,
    pub policy_id: String,
    pub decision_id: Option<String>,
    pub inflight_job_id: Option<String>,
    pub done: AutoCompacted,
}

/// A job as it was spawned.
struct Job {
    id: String,
    kind: String,
    stride: u64,
    planned: Vec<PlannedCut>,
    summarizer: Summarizer,
}

impl Store {
    /// Runs a job for the next cuts that nobody has made.
    pub fn compact_auto(&self, thread: &StreamId, request: &AutoCompact, by: &Actor) -> Result<AutoCompacted> {
        let (_, planned) = self.planned_cuts(thread, request.stride, request.new_max)?;
        if planned.is_empty() || request.dry_run {
            return Ok(noop(planned));
        }
        let job = self.job_of(request, planned);
        self.append_bodies(thread, &[spawned(&job, by)], Vec::new())?;
        self.work(thread, &job, by)
    }

    fn job_of(&self, request: &AutoCompact, planned: Vec<PlannedCut>) -> Job {
        let (stride, summarizer) = (request.stride, request.summarizer.clone());
        Job { id: self.env.new_id(), kind: summarizer.job_kind().into(), stride, planned, summarizer }
    }

    /// Decides by policy whether a job is to run, records the decision, and runs it if `execute`.
    pub fn compact_schedule(
        &self,
        thread: &StreamId,
        request: &AutoCompact,
        block_on_inflight: bool,
        execute: bool,
        by: &Actor,
    ) -> Result<Scheduled> {
        let (points, planned) = self.planned_cuts(thread, request.stride, request.new_max)?;
        let new_max = request.new_max.clamp(1, enjamb_core::compact::CUTS_MAX as u32);
        let policy_id = schedule_policy(request.stride, new_max, block_on_inflight);
        let mut answer = Scheduled {
            decision: if planned.is_empty() { "noop" } else { "dry_run" },
            policy_id: policy_id.clone(),
            decision_id: None,
            inflight_job_id: None,
            done: noop(planned.clone()),
        };
        if planned.is_empty() || request.dry_run {
            return Ok(answer);
        }
        let inflight = if block_on_inflight { self.inflight_job(thread)? } else { None };
        let job = self.job_of(request, planned.clone());
        let decided = |job: Option<&Job>, reason: Option<Value>, id: &str| CompactionScheduleDecided {
            decision_id: id.to_owned(),
            policy_id: policy_id.clone(),
            decision: if job.is_some() { "scheduled" } else { "skipped_inflight" }.into(),
            execute,
            stride_messages: request.stride,
            max_new_checkpoints: new_max,
            block_on_inflight,
            message_count: points.messages,
            cut_rule_id: points.rule.clone(),
            planned: planned.clone(),
            job_id: job.map(|job| job.id.clone()),
            job_kind: job.map(|job| job.kind.clone()),
            reason: reason.map(Json::from),
            actor_id: by.actor_id.clone(),
            origin: by.origin.clone(),
        };
        let id = self.env.new_id();
        answer.decision_id = Some(id.clone());
        if let Some(running) = inflight {
            let reason = json!({"kind": "inflight_job", "job_id": running});
            self.record_decision(thread, None, decided(None, Some(reason), &id))?;
            answer.decision = "skipped_inflight";
            answer.inflight_job_id = Some(running);
            return Ok(answer);
        }
        self.record_decision(thread, Some(spawned(&job, by)), decided(Some(&job), None, &id))?;
        answer.decision = "scheduled";
        answer.done.job_id = Some(job.id.clone());
        if execute {
            answer.done = self.work(thread, &job, by)?;
            answer.decision = answer.done.status;
        }
        Ok(answer)
    }

    /// The job first, so that the decision can name it; both in one batch. The frame's id is the decision's.
    fn record_decision(
        &self,
        thread: &StreamId,
        spawned: Option<Body>,
        decision: CompactionScheduleDecided,
    ) -> Result<()> {
        let id = decision.decision_id.clone();
        let mut frames = spawned.iter().map(|body| self.frame_of(thread, body)).collect::<Result<Vec<_>>>()?;
        let mut decided = self.frame_of(thread, &decision.into())?;
        decided.id = id;
        frames.push(decided);
        self.ledger.append(Batch { frames, ..Batch::default() })?;
        Ok(())
    }

    /// Makes the cuts of a job, the nearest first so that each goes on from the one before, and ends it.
    fn work(&self, thread: &StreamId, job: &Job, by: &Actor) -> Result<AutoCompacted> {
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
        let written = self.write_summary(thread, job.stride, cut, &job.summarizer)?;
        let summary = Summary {
            schema: SUMMARY_SCHEMA.into(),
            kind: CUMULATIVE.into(),
            coverage: Coverage {
                thread_id: thread.id.clone(),
                from_seq: 0,
                from_message_id: None,
                to_seq: cut.to_seq,
                to_message_id: Some(cut.to_message_id.clone()),
            },
            provenance: SummaryProvenance {
                actor_id: by.actor_id.clone(),
                origin: by.origin.clone(),
                produced_by: Some(ProducedBy { kind: "job".into(), id: job.id.clone() }),
            },
            basis: written.basis,
            summary_markdown: written.markdown,
        };
        let artifact = self.artifact_of(summary.to_bytes())?;
        let to = (cut.to_seq, cut.to_message_id.clone());
        let body = checkpoint_body(self.env.new_id(), &stride_rule(job.stride), artifact.id.to_hex(), to, by);
        self.record_checkpoint(thread, vec![artifact], body)
    }

    /// Runs a job that was spawned and left: what it has made already is not made again.
    pub fn run_job(
        &self,
        thread: &StreamId,
        job_id: &str,
        summarizer: Summarizer,
        by: &Actor,
    ) -> Result<AutoCompacted> {
        let spawned = self.open_job(thread, job_id)?;
        let details = spawned.details.as_ref().and_then(|json| serde_json::from_str::<Value>(json.get()).ok());
        let unknown = || ThreadError::UnknownJobKind { job: job_id.to_owned(), kind: spawned.job_kind.clone() };
        let known = is_summarizer(&spawned.job_kind);
        let details = details.filter(|details| known && details["schema"] == JOB_SCHEMA).ok_or_else(unknown)?;
        let stride = details["stride_messages"].as_u64().ok_or_else(unknown)?;
        let planned: Vec<PlannedCut> = serde_json::from_str(&details["planned"].to_string()).map_err(|_| unknown())?;
        let mut left = Vec::new();
        for cut in planned {
            if self.cut_point(thread, cut.target_message_ordinal)?.checkpoint_id.is_none() {
                left.push(cut);
            }
        }
        let kind = spawned.job_kind;
        self.work(thread, &Job { id: job_id.to_owned(), kind, stride, planned: left, summarizer }, by)
    }

    /// Ends a job that was spawned and will not be run.
    pub fn cancel_job(&self, thread: &StreamId, job_id: &str, by: &Actor) -> Result<()> {
        let spawned = self.open_job(thread, job_id)?;
        let body = JobEnded {
            job_id: job_id.to_owned(),
            job_kind: spawned.job_kind,
            status: "cancelled".into(),
            result: None,
            error: None,
            actor_id: by.actor_id.clone(),
            origin: by.origin.clone(),
        };
        self.append_bodies(thread, &[body.into()], Vec::new()).map(drop)
    }

    /// A job that was spawned and has not ended.
    fn open_job(&self, thread: &StreamId, job_id: &str) -> Result<JobSpawned> {
        self.thread_summary(thread)?;
        let (id, name) = (thread.id.clone(), job_id.to_owned());
        let Some(seq) = self.seq_of(thread, &MarkKey::JobSpawned(name.clone()))? else {
            return Err(ThreadError::UnknownJob { thread: id, job: name }.into());
        };
        if self.seq_of(thread, &MarkKey::JobEnded(name.clone()))?.is_some() {
            return Err(ThreadError::JobEnded { thread: id, job: name }.into());
        }
        match self.said_at(thread, seq)? {
            ContinuityBody::JobSpawned(spawned) => Ok(spawned),
            _ => Err(ThreadError::UnknownJob { thread: id, job: name }.into()),
        }
    }
}

/// Whether a job writes summaries.
pub(super) fn is_summarizer(kind: &str) -> bool {
    kind == Summarizer::Rule.job_kind() || kind == COMMAND_JOB
}

fn noop(planned: Vec<PlannedCut>) -> AutoCompacted {
    AutoCompacted { status: "noop", job_id: None, planned, created: Vec::new(), error: None }
}

fn spawned(job: &Job, by: &Actor) -> Body {
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

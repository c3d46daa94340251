//! Scheduled compaction: a policy decides whether a job runs, and the decision is a frame.

use enjamb_core::StreamId;
use enjamb_core::compact::{CUTS_MAX, schedule_policy};
use enjamb_core::frame::{CompactionScheduleDecided, Json, PlannedCut};
use enjamb_ledger::{Batch, LedgerError};
use serde_json::json;

use super::CutPoints;
use super::auto::{AutoCompact, AutoCompacted, Job, noop, spawned};
use crate::{Actor, Result, ServiceError, Store};

/// What a policy asks for besides the job itself.
#[derive(Clone, Copy, Debug)]
pub struct Policy {
    /// No job while another one is in flight.
    pub block_on_inflight: bool,
    /// Run the job now; else it is left for someone to run.
    pub execute: bool,
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

/// A decision in the making.
struct Deciding<'a> {
    request: &'a AutoCompact,
    policy: Policy,
    policy_id: String,
    points: CutPoints,
    planned: Vec<PlannedCut>,
    by: &'a Actor,
}

impl Store {
    /// Decides by policy whether a job is to run, records the decision, and runs it if asked to.
    pub fn compact_schedule(
        &self,
        thread: &StreamId,
        request: &AutoCompact,
        policy: Policy,
        by: &Actor,
    ) -> Result<Scheduled> {
        loop {
            let next_seq = self.thread_summary(thread)?.next_seq;
            let (points, planned) = self.planned_cuts(thread, request.stride, request.new_max)?;
            let policy_id = schedule_policy(request.stride, new_max(request), policy.block_on_inflight);
            let deciding = Deciding { request, policy, policy_id, points, planned, by };
            if deciding.planned.is_empty() || request.dry_run {
                let decision = if deciding.planned.is_empty() { "noop" } else { "dry_run" };
                return Ok(deciding.answer(decision));
            }
            let running = if policy.block_on_inflight { self.inflight_job(thread)? } else { None };
            let decided = match running {
                Some(running) => self.skip(thread, next_seq, &deciding, running),
                None => self.start(thread, next_seq, &deciding),
            };
            match decided {
                // The thread has grown, maybe by a job: what was seen may not hold any more.
                Err(ServiceError::Ledger(LedgerError::SeqConflict { .. })) => {}
                decided => return decided,
            }
        }
    }

    fn skip(&self, thread: &StreamId, next_seq: u64, deciding: &Deciding<'_>, running: String) -> Result<Scheduled> {
        let decision = deciding.frame(self.env.new_id(), None, Some(&running));
        let mut answer = deciding.answer("skipped_inflight");
        answer.decision_id = Some(decision.decision_id.clone());
        answer.inflight_job_id = Some(running);
        self.record_decision(thread, next_seq, None, decision)?;
        Ok(answer)
    }

    fn start(&self, thread: &StreamId, next_seq: u64, deciding: &Deciding<'_>) -> Result<Scheduled> {
        let job = self.job_of(deciding.request, deciding.planned.clone());
        self.rehearse(thread, &job)?;
        let decision = deciding.frame(self.env.new_id(), Some(&job), None);
        let mut answer = deciding.answer("scheduled");
        answer.decision_id = Some(decision.decision_id.clone());
        answer.done.job_id = Some(job.id.clone());
        self.record_decision(thread, next_seq, Some((&job, deciding.by)), decision)?;
        if deciding.policy.execute {
            answer.done = self.work(thread, &job, deciding.by)?;
            answer.decision = answer.done.status;
        }
        Ok(answer)
    }

    /// The job first, so that the decision can name it; both in one batch. The frame's id is the decision's.
    fn record_decision(
        &self,
        thread: &StreamId,
        next_seq: u64,
        job: Option<(&Job, &Actor)>,
        decision: CompactionScheduleDecided,
    ) -> Result<()> {
        let id = decision.decision_id.clone();
        let bodies = job.map(|(job, by)| spawned(job, by)).into_iter().chain([decision.into()]);
        let mut frames = bodies.map(|body| self.frame_of(thread, &body)).collect::<Result<Vec<_>>>()?;
        frames[0].expected_seq = Some(next_seq);
        if let Some(decided) = frames.last_mut() {
            decided.id = id;
        }
        self.ledger.append(Batch { frames, ..Batch::default() })?;
        Ok(())
    }
}

impl Deciding<'_> {
    fn answer(&self, decision: &'static str) -> Scheduled {
        Scheduled {
            decision,
            policy_id: self.policy_id.clone(),
            decision_id: None,
            inflight_job_id: None,
            done: noop(self.planned.clone()),
        }
    }

    fn frame(&self, id: String, job: Option<&Job>, running: Option<&String>) -> CompactionScheduleDecided {
        CompactionScheduleDecided {
            decision_id: id,
            policy_id: self.policy_id.clone(),
            decision: if job.is_some() { "scheduled" } else { "skipped_inflight" }.into(),
            execute: self.policy.execute,
            stride_messages: self.request.stride,
            max_new_checkpoints: new_max(self.request),
            block_on_inflight: self.policy.block_on_inflight,
            message_count: self.points.messages,
            cut_rule_id: self.points.rule.clone(),
            planned: self.planned.clone(),
            job_id: job.map(|job| job.id.clone()),
            job_kind: job.map(|job| job.kind.clone()),
            reason: running.map(|running| Json::from(json!({"kind": "inflight_job", "job_id": running}))),
            actor_id: self.by.actor_id.clone(),
            origin: self.by.origin.clone(),
        }
    }
}

fn new_max(request: &AutoCompact) -> u32 {
    request.new_max.clamp(1, CUTS_MAX as u32)
}

//! Where the compaction of a thread stands, and which jobs there were.

use enjamb_core::StreamId;
use enjamb_core::compact::CUTS_MAX;
use enjamb_core::frame::{CompactionScheduleDecided, ContinuityBody};
use enjamb_core::order::MarkKey;
use enjamb_ledger::Ledger;

use super::{CheckpointView, CutPoint, ThreadSummarizer};
use crate::timeline::in_stream;
use crate::{Result, Store};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompactionStatus {
    pub messages: u64,
    pub latest: Option<CheckpointView>,
    /// The last of the latest 32 cuts that nobody has made.
    pub next: Option<CutPoint>,
    pub inflight_job_id: Option<String>,
    pub last_decision: Option<CompactionScheduleDecided>,
    pub last_job: Option<JobView>,
}

/// A job of a thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobView {
    pub job_id: String,
    pub kind: String,
    pub spawned_seq: u64,
    /// `None` while it is in flight.
    pub ended_seq: Option<u64>,
    pub status: Option<String>,
    pub error: Option<String>,
}

impl Store {
    pub fn compaction_status(&self, thread: &StreamId, stride: u64) -> Result<CompactionStatus> {
        let points = self.cut_points(thread, stride, CUTS_MAX)?;
        let mut latest = None;
        self.checkpoints_back(thread, u64::MAX, &mut |at| {
            latest = Some(CheckpointView::of(&at.checkpoint));
            false
        })?;
        let last_decision = match self.seq_of(thread, &MarkKey::ScheduleDecided)? {
            Some(seq) => match self.said_at(thread, seq)? {
                ContinuityBody::CompactionScheduleDecided(decision) => Some(decision),
                _ => None,
            },
            None => None,
        };
        let jobs: Vec<_> = self.jobs(thread)?.into_iter().filter(|job| ThreadSummarizer::is_job(&job.kind)).collect();
        Ok(CompactionStatus {
            messages: points.messages,
            latest,
            next: points.cuts.into_iter().find(|cut| cut.checkpoint_id.is_none()),
            inflight_job_id: self.inflight_job(thread)?,
            last_decision,
            last_job: jobs.into_iter().filter(|job| job.ended_seq.is_some()).max_by_key(|job| job.ended_seq),
        })
    }

    /// The jobs of a thread, in the order in which they were spawned.
    pub fn jobs(&self, thread: &StreamId) -> Result<Vec<JobView>> {
        self.thread_summary(thread)?;
        let mut jobs = Vec::new();
        for (job_id, seq) in self.ledger.marks(&in_stream(thread), &MarkKey::JobSpawned(String::new()))? {
            let Ok(spawned_seq) = seq.parse() else { continue };
            let ContinuityBody::JobSpawned(spawned) = self.said_at(thread, spawned_seq)? else { continue };
            let ended_seq = self.seq_of(thread, &MarkKey::JobEnded(job_id.clone()))?;
            let mut job = JobView { job_id, kind: spawned.job_kind, spawned_seq, ended_seq, status: None, error: None };
            if let Some(seq) = ended_seq
                && let ContinuityBody::JobEnded(ended) = self.said_at(thread, seq)?
            {
                (job.status, job.error) = (Some(ended.status), ended.error);
            }
            jobs.push(job);
        }
        jobs.sort_by_key(|job| job.spawned_seq);
        Ok(jobs)
    }

    /// The last compaction job that was spawned and has not ended.
    pub(super) fn inflight_job(&self, thread: &StreamId) -> Result<Option<String>> {
        let running =
            self.jobs(thread)?.into_iter().rfind(|job| job.ended_seq.is_none() && ThreadSummarizer::is_job(&job.kind));
        Ok(running.map(|job| job.job_id))
    }
}

//! Jobs that were spawned and left: run, or called off.

use enjamb_core::StreamId;
use enjamb_core::compact::JOB_SCHEMA;
use enjamb_core::frame::{ContinuityBody, JobEnded, JobSpawned, PlannedCut};
use enjamb_core::order::MarkKey;
use serde_json::Value;

use super::auto::{AutoCompacted, Job};
use super::{Growth, ThreadSummarizer};
use crate::{Actor, Result, Store, ThreadError};

impl Store {
    /// Runs a job that was spawned and left: what it has made already is not made again.
    pub fn run_job(
        &self,
        thread: &StreamId,
        job_id: &str,
        summarizer: ThreadSummarizer,
        by: &Actor,
    ) -> Result<AutoCompacted> {
        let spawned = self.open_job(thread, job_id)?;
        let details = spawned.details.as_ref().and_then(|json| serde_json::from_str::<Value>(json.get()).ok());
        let unknown = || ThreadError::UnknownJobKind { job: job_id.to_owned(), kind: spawned.job_kind.clone() };
        let known = ThreadSummarizer::is_job(&spawned.job_kind);
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
        let growth = Growth::Refused;
        self.work(thread, &Job { id: job_id.to_owned(), kind, stride, planned: left, summarizer, growth }, by)
    }

    /// Ends a job that was spawned and will not be run.
    pub fn cancel_job(&self, thread: &StreamId, job_id: &str, by: &Actor) -> Result<()> {
        if self.earlier(thread)?.is_some() {
            return Ok(());
        }
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

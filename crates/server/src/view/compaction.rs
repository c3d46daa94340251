//! Compactions of threads and of chains, and jobs.

use enjamb_core::compact::Score;
use enjamb_core::frame::PlannedCut;
use enjamb_service::{
    AutoCompacted, ChainCompacted, CheckpointView, CompactionStatus, CutPoint, CutPoints, JobView, Scheduled,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Made;

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Cut {
    pub target_message_ordinal: u64,
    pub to_seq: u64,
    pub to_message_id: String,
    pub already_checkpointed: bool,
    pub latest_checkpoint_id: Option<String>,
}

impl From<&CutPoint> for Cut {
    fn from(cut: &CutPoint) -> Self {
        Self {
            target_message_ordinal: cut.ordinal,
            to_seq: cut.to_seq,
            to_message_id: cut.to_message_id.clone(),
            already_checkpointed: cut.checkpoint_id.is_some(),
            latest_checkpoint_id: cut.checkpoint_id.clone(),
        }
    }
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Cuts {
    pub thread_id: String,
    pub stride_messages: u64,
    pub message_count: u64,
    pub cut_rule_id: String,
    pub cut_points: Vec<Cut>,
}

impl Cuts {
    pub fn of(thread: &str, points: &CutPoints) -> Self {
        Self {
            thread_id: thread.to_owned(),
            stride_messages: points.stride,
            message_count: points.messages,
            cut_rule_id: points.rule.clone(),
            cut_points: points.cuts.iter().map(Cut::from).collect(),
        }
    }
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct CompactionCheckpoint {
    pub checkpoint_id: String,
    pub cut_rule_id: String,
    pub summary_artifact: String,
    pub to_seq: u64,
    pub to_message_id: String,
}

impl From<&CheckpointView> for CompactionCheckpoint {
    fn from(view: &CheckpointView) -> Self {
        Self {
            checkpoint_id: view.checkpoint_id.clone(),
            cut_rule_id: view.cut_rule_id.clone(),
            summary_artifact: format!("art-{}", view.summary_artifact_id),
            to_seq: view.to_seq,
            to_message_id: view.to_message_id.clone(),
        }
    }
}

/// A checkpoint that was made, and of which thread.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct MadeCheckpoint {
    pub thread_id: String,
    #[serde(flatten)]
    pub checkpoint: CompactionCheckpoint,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Planned {
    pub target_message_ordinal: u64,
    pub to_seq: u64,
    pub to_message_id: String,
}

impl From<&PlannedCut> for Planned {
    fn from(cut: &PlannedCut) -> Self {
        let to_message_id = cut.to_message_id.clone();
        Self { target_message_ordinal: cut.target_message_ordinal, to_seq: cut.to_seq, to_message_id }
    }
}

/// What became of a job.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Compacted {
    pub thread_id: String,
    /// `noop`, `completed` or `failed`
    pub status: String,
    pub job_id: Option<String>,
    pub planned: Vec<Planned>,
    pub created: Vec<CompactionCheckpoint>,
    pub error: Option<String>,
    #[serde(flatten)]
    pub schedule: Option<Schedule>,
}

/// What a policy decided about a job.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Schedule {
    pub decision: String,
    pub decision_id: Option<String>,
    pub policy_id: String,
    pub inflight_job_id: Option<String>,
}

impl Compacted {
    pub fn of(thread: &str, done: &AutoCompacted) -> Self {
        Self {
            thread_id: thread.to_owned(),
            status: done.status.to_owned(),
            job_id: done.job_id.clone(),
            planned: done.planned.iter().map(Planned::from).collect(),
            created: done.created.iter().map(CompactionCheckpoint::from).collect(),
            error: done.error.clone(),
            schedule: None,
        }
    }

    pub fn scheduled(thread: &str, scheduled: &Scheduled) -> Self {
        let schedule = Schedule {
            decision: scheduled.decision.to_owned(),
            decision_id: scheduled.decision_id.clone(),
            policy_id: scheduled.policy_id.clone(),
            inflight_job_id: scheduled.inflight_job_id.clone(),
        };
        Self { schedule: Some(schedule), ..Self::of(thread, &scheduled.done) }
    }
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Job {
    pub job_id: String,
    pub job_kind: String,
    pub spawned_seq: u64,
    pub ended_seq: Option<u64>,
    /// Null while it is in flight.
    pub status: Option<String>,
    pub error: Option<String>,
}

impl From<&JobView> for Job {
    fn from(job: &JobView) -> Self {
        Self {
            job_id: job.job_id.clone(),
            job_kind: job.kind.clone(),
            spawned_seq: job.spawned_seq,
            ended_seq: job.ended_seq,
            status: job.status.clone(),
            error: job.error.clone(),
        }
    }
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Jobs {
    pub jobs: Vec<Job>,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct LastDecision {
    pub decision_id: String,
    pub decision: String,
    pub policy_id: String,
    pub job_id: Option<String>,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct CompactionState {
    pub thread_id: String,
    pub message_count: u64,
    pub latest_checkpoint: Option<CompactionCheckpoint>,
    pub next_cut_point: Option<Cut>,
    pub inflight_job_id: Option<String>,
    pub last_schedule_decision: Option<LastDecision>,
    pub last_job_outcome: Option<Job>,
}

impl CompactionState {
    pub fn of(thread: &str, status: &CompactionStatus) -> Self {
        let decision = status.last_decision.as_ref().map(|decision| LastDecision {
            decision_id: decision.decision_id.clone(),
            decision: decision.decision.clone(),
            policy_id: decision.policy_id.clone(),
            job_id: decision.job_id.clone(),
        });
        Self {
            thread_id: thread.to_owned(),
            message_count: status.messages,
            latest_checkpoint: status.latest.as_ref().map(CompactionCheckpoint::from),
            next_cut_point: status.next.as_ref().map(Cut::from),
            inflight_job_id: status.inflight_job_id.clone(),
            last_schedule_decision: decision,
            last_job_outcome: status.last_job.as_ref().map(Job::from),
        }
    }
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Category {
    pub category: String,
    pub kept: u64,
    pub of: u64,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct LostFact {
    pub category: String,
    pub fact: String,
}

/// How much of what was said a summary still says.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Loss {
    pub of: String,
    pub score: u64,
    pub categories: Vec<Category>,
    pub lost: Vec<LostFact>,
}

impl Loss {
    pub fn of(what: String, score: &Score) -> Self {
        let category = |counted: &enjamb_core::compact::CategoryScore| Category {
            category: counted.category.as_str().to_owned(),
            kept: counted.kept,
            of: counted.of,
        };
        let lost = |lost: &enjamb_core::compact::Lost| LostFact {
            category: lost.category.as_str().to_owned(),
            fact: lost.fact.clone(),
        };
        Self {
            of: what,
            score: score.percent,
            categories: score.categories.iter().map(category).collect(),
            lost: score.lost.iter().map(lost).collect(),
        }
    }
}

/// A chain with a summary in place of what came before.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct CompactedChain {
    pub tip: String,
    pub tokens_before: u64,
    pub tokens_after: u64,
    pub summary: String,
    pub pinned: u64,
    pub score: u64,
    /// What the summary still says, and what it does not.
    pub loss: Loss,
    /// Null when nothing was written.
    pub commit: Option<Made>,
}

impl From<&ChainCompacted> for CompactedChain {
    fn from(done: &ChainCompacted) -> Self {
        Self {
            tip: done.tip.to_string(),
            tokens_before: done.tokens_before,
            tokens_after: done.tokens_after,
            summary: done.summary.clone(),
            pinned: done.pinned,
            score: done.score.percent,
            loss: Loss::of(done.tip.to_string(), &done.score),
            commit: done.commit.as_ref().map(Made::from),
        }
    }
}

//! Compaction of threads: where it may be cut, summaries by hand or by a job, and where all that stands.

mod auto;
mod chain;
mod jobs;
mod manual;
mod schedule;
mod status;
mod summarizer;
#[cfg(test)]
mod tests;

use enjamb_core::StreamId;
use enjamb_core::compact::{CUTS_MAX, cut_ordinals, stride_rule};
use enjamb_core::compile::{ProducedBy, SummaryProvenance};
use enjamb_core::frame::{CompactionCheckpointCreated, PlannedCut};
use enjamb_core::order::MarkKey;
use enjamb_ledger::{Batch, Ledger, LedgerError, NewArtifact};

pub use auto::{AutoCompact, AutoCompacted};
pub(crate) use chain::ChainSaid;
pub use chain::{ChainCompact, ChainCompacted, ChainSummary};
pub use manual::ManualCompact;
pub use schedule::{Policy as SchedulePolicy, Scheduled};
pub use status::{CompactionStatus, JobView};
pub use summarizer::{ThreadSummarizer, Writer};

use crate::timeline::in_stream;
use crate::{Actor, Result, Store, ThreadError};

/// What becomes of a summary that takes no fewer tokens than what it stands for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Growth {
    #[default]
    Refused,
    /// It is a checkpoint all the same. The contract's routes promise one at every cut, however short its messages.
    Allowed,
}

/// A message at which a stride cuts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CutPoint {
    pub ordinal: u64,
    pub to_seq: u64,
    pub to_message_id: String,
    /// The last checkpoint made there, of whatever kind.
    pub checkpoint_id: Option<String>,
}

/// Where a stride cuts a thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CutPoints {
    pub stride: u64,
    pub messages: u64,
    pub rule: String,
    /// The last first.
    pub cuts: Vec<CutPoint>,
}

/// A compaction checkpoint as it was recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckpointView {
    pub checkpoint_id: String,
    pub cut_rule_id: String,
    pub summary_artifact_id: String,
    pub to_seq: u64,
    pub to_message_id: String,
}

impl CheckpointView {
    fn of(checkpoint: &CompactionCheckpointCreated) -> Self {
        Self {
            checkpoint_id: checkpoint.checkpoint_id.clone(),
            cut_rule_id: checkpoint.cut_rule_id.clone(),
            summary_artifact_id: checkpoint.summary_artifact_id.clone(),
            to_seq: checkpoint.to_seq,
            to_message_id: checkpoint.to_message_id.clone().unwrap_or_default(),
        }
    }
}

impl Store {
    /// The last places at which a stride cuts; at least one is asked for and at most 32 are listed.
    pub fn cut_points(&self, thread: &StreamId, stride: u64, limit: u64) -> Result<CutPoints> {
        let messages = self.thread_summary(thread)?.messages;
        let ordinals = cut_ordinals(messages, stride, limit).ok_or(ThreadError::StrideZero)?;
        let cuts = ordinals.into_iter().map(|ordinal| self.cut_point(thread, ordinal)).collect::<Result<_>>()?;
        Ok(CutPoints { stride, messages, rule: stride_rule(stride), cuts })
    }

    fn cut_point(&self, thread: &StreamId, ordinal: u64) -> Result<CutPoint> {
        let missing = || LedgerError::corrupt(format!("message {ordinal} of {thread}"), "it was counted");
        let to_seq = self.ledger.message_numbered(thread, ordinal)?.ok_or_else(missing)?;
        let id = self.ledger.mark(&in_stream(thread), &MarkKey::Message(to_seq))?.ok_or_else(missing)?;
        let mut checkpoint_id = None;
        self.checkpoints_back(thread, to_seq, &mut |at| {
            checkpoint_id = Some(at.checkpoint.checkpoint_id).filter(|_| at.checkpoint.to_seq == to_seq);
            false
        })?;
        Ok(CutPoint { ordinal, to_seq, to_message_id: id, checkpoint_id })
    }

    /// The next cuts that nobody has made: at most `new_max` among the last 32, the last first.
    fn planned_cuts(&self, thread: &StreamId, stride: u64, new_max: u32) -> Result<(CutPoints, Vec<PlannedCut>)> {
        let points = self.cut_points(thread, stride, CUTS_MAX)?;
        let open = points.cuts.iter().filter(|cut| cut.checkpoint_id.is_none());
        let planned = open.take(new_max.clamp(1, CUTS_MAX as u32) as usize).map(|cut| PlannedCut {
            target_message_ordinal: cut.ordinal,
            to_seq: cut.to_seq,
            to_message_id: cut.to_message_id.clone(),
            extra: Vec::new(),
        });
        let planned = planned.collect();
        Ok((points, planned))
    }

    /// Records a summary as a checkpoint, with its bytes, in one batch. The frame's id is the checkpoint's.
    fn record_checkpoint(
        &self,
        thread: &StreamId,
        artifacts: Vec<NewArtifact>,
        body: CompactionCheckpointCreated,
    ) -> Result<CheckpointView> {
        let view = CheckpointView::of(&body);
        let mut frame = self.frame_of(thread, &body.into())?;
        frame.id.clone_from(&view.checkpoint_id);
        self.ledger.append(Batch { artifacts, frames: vec![frame], ..Batch::default() })?;
        Ok(view)
    }
}

fn produced(kind: &str, id: &str, by: &Actor) -> SummaryProvenance {
    SummaryProvenance {
        actor_id: by.actor_id.clone(),
        origin: by.origin.clone(),
        produced_by: Some(ProducedBy { kind: kind.into(), id: id.into() }),
    }
}

/// A checkpoint frame: it covers the thread from its beginning.
fn checkpoint_body(
    id: String,
    rule: &str,
    artifact: String,
    to: (u64, String),
    by: &Actor,
) -> CompactionCheckpointCreated {
    CompactionCheckpointCreated {
        checkpoint_id: id,
        cut_rule_id: rule.to_owned(),
        summary_kind: enjamb_core::compile::CUMULATIVE.into(),
        summary_artifact_id: artifact,
        from_seq: 0,
        from_message_id: None,
        to_seq: to.0,
        to_message_id: Some(to.1),
        actor_id: by.actor_id.clone(),
        origin: by.origin.clone(),
    }
}

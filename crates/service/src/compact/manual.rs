//! A checkpoint by hand: words that someone wrote, or a summary that is stored already.

use enjamb_core::compact::{FactSet, MANUAL_RULE, Score, cut_ordinals, score, stride_rule};
use enjamb_core::compile::{Basis, CUMULATIVE, Summary};
use enjamb_core::order::MarkKey;
use enjamb_core::thread::Selector;
use enjamb_core::{ArtifactId, StreamId};
use enjamb_ledger::{Ledger, NewArtifact};

use super::{CheckpointView, Growth, checkpoint_body, produced};
use crate::timeline::{CheckpointAt, in_stream};
use crate::{Actor, Result, ServiceError, Store, ThreadError};

/// A checkpoint to make.
#[derive(Clone, Debug)]
pub struct ManualCompact {
    pub markdown: Option<String>,
    /// A summary that is stored; it has to be of this thread and of this cut. Then the words are not looked at.
    pub artifact: Option<ArtifactId>,
    /// A message, or its seq; at the head, the stride says where.
    pub at: Selector,
    pub stride: u64,
    pub growth: Growth,
}

/// Where a checkpoint cuts, and by which rule.
pub(super) struct Cut {
    pub(super) to_seq: u64,
    pub(super) to_message_id: String,
    rule: String,
}

impl Store {
    pub fn compact_by_hand(&self, thread: &StreamId, request: &ManualCompact, by: &Actor) -> Result<CheckpointView> {
        if request.markdown.is_none() && request.artifact.is_none() {
            return Err(ThreadError::NoSummary { what: "compaction checkpoint" }.into());
        }
        let cut = self.manual_cut(thread, request)?;
        let words = match &request.artifact {
            Some(artifact) => self.checked_summary(thread, artifact, &cut)?.summary_markdown,
            None => request.markdown.clone().unwrap_or_default(),
        };
        self.check_growth(request.growth, thread, &self.summary_base(thread, cut.to_seq)?, cut.to_seq, &words)?;
        let (artifact, new) = match &request.artifact {
            Some(artifact) => (artifact.to_hex(), Vec::new()),
            None => {
                let new = self.written_summary(thread, &cut, words, by)?;
                (new.id.to_hex(), vec![new])
            }
        };
        let to = (cut.to_seq, cut.to_message_id);
        self.record_checkpoint(thread, new, checkpoint_body(self.env.new_id(), &cut.rule, artifact, to, by))
    }

    fn manual_cut(&self, thread: &StreamId, request: &ManualCompact) -> Result<Cut> {
        let count = self.thread_summary(thread)?.messages;
        if count == 0 {
            return Err(ThreadError::NoMessages(thread.id.clone()).into());
        }
        match &request.at {
            Selector::Message(id) => {
                let to_seq = self.message_seq(thread, id)?;
                Ok(Cut { to_seq, to_message_id: id.clone(), rule: MANUAL_RULE.into() })
            }
            Selector::Seq(seq) => {
                let id = self.ledger.mark(&in_stream(thread), &MarkKey::Message(*seq))?;
                let not = || ThreadError::NotAMessage { thread: thread.id.clone(), seq: *seq };
                Ok(Cut { to_seq: *seq, to_message_id: id.ok_or_else(not)?, rule: MANUAL_RULE.into() })
            }
            Selector::Head => {
                let stride = request.stride;
                let ordinals = cut_ordinals(count, stride, 1).ok_or(ThreadError::StrideZero)?;
                let not_reached = || ThreadError::CutNotReached { thread: thread.id.clone(), stride, count };
                let point = self.cut_point(thread, *ordinals.first().ok_or_else(not_reached)?)?;
                Ok(Cut { to_seq: point.to_seq, to_message_id: point.to_message_id, rule: stride_rule(stride) })
            }
        }
    }

    /// A summary that is stored, unless it is of something else.
    fn checked_summary(&self, thread: &StreamId, artifact: &ArtifactId, cut: &Cut) -> Result<Summary> {
        self.artifact(artifact)?;
        let summary = self.summary_artifact(&artifact.to_hex())?;
        let members = [
            ("kind", summary.kind.clone(), CUMULATIVE.to_owned()),
            ("thread_id", summary.coverage.thread_id.clone(), thread.id.clone()),
            ("to_seq", summary.coverage.to_seq.to_string(), cut.to_seq.to_string()),
        ];
        for (member, found, expected) in members {
            if found != expected {
                return Err(ThreadError::SummaryMismatch { artifact: *artifact, member, found, expected }.into());
            }
        }
        Ok(summary)
    }

    fn written_summary(&self, thread: &StreamId, cut: &Cut, markdown: String, by: &Actor) -> Result<NewArtifact> {
        let base = self.base_of(thread, cut.to_seq)?.map(|at| at.checkpoint.summary_artifact_id);
        let (to, provenance) = ((cut.to_seq, cut.to_message_id.clone()), produced("manual", "enjamb", by));
        let summary = Summary::cumulative(&thread.id, to, provenance, Basis::of(base, None), markdown);
        self.artifact_of(summary.to_bytes())
    }

    /// The checkpoint that a summary of a cut goes on from: the furthest cumulative one before it.
    pub(super) fn base_of(&self, thread: &StreamId, to_seq: u64) -> Result<Option<CheckpointAt>> {
        let Some(upto) = to_seq.checked_sub(1) else { return Ok(None) };
        let mut base = None;
        self.checkpoints_back(thread, upto, &mut |at| {
            if at.checkpoint.summary_kind == CUMULATIVE {
                base = Some(at);
            }
            base.is_none()
        })?;
        Ok(base)
    }

    /// What a thread's last cumulative summary lost of the messages that it stands for.
    pub fn thread_loss(&self, thread: &StreamId) -> Result<(CheckpointView, Score)> {
        self.thread_summary(thread)?;
        let none = || ServiceError::Unknown { what: "compaction checkpoint", name: format!("of {}", thread.id) };
        let at = self.base_of(thread, u64::MAX)?.ok_or_else(none)?;
        let summary = self.summary_artifact(&at.checkpoint.summary_artifact_id)?;
        let mut facts = FactSet::default();
        self.each_said(thread, None, at.checkpoint.to_seq, &mut |_, content| facts.add(content, true))?;
        let score = score(&facts, &summary.summary_markdown);
        Ok((CheckpointView::of(&at.checkpoint), score))
    }
}

//! Auditing a bundle: compile it again from what was recorded, and compare every byte.

use enjamb_core::compile::{Bundle, BundleError};
use enjamb_core::frame::{ContinuityBody, SelectionDecided};
use enjamb_core::order::MarkKey;
use enjamb_core::{ArtifactId, CommitId, StreamId, StreamKind};
use enjamb_ledger::Ledger;

use super::inputs::Inputs;
use crate::timeline::{MessageAt, in_stream};
use crate::{Result, Store, ThreadError};

const DECISIONS_MAX: usize = 50;

/// What became of an audit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Audit {
    pub bundle: ArtifactId,
    /// What the recorded inputs compile to now.
    pub recompiled: ArtifactId,
    /// Where the two differ; nothing when they are the same.
    pub differences: Vec<String>,
    /// What would have been chosen from the frames before the decision, if that is not what was chosen.
    pub other_choice: Option<String>,
}

impl Store {
    /// Reads a bundle.
    pub fn bundle(&self, artifact: &ArtifactId) -> Result<Bundle> {
        let parsed = Bundle::parse(&self.get_document(artifact)?);
        Ok(parsed.map_err(|error| match error {
            BundleError::Malformed(detail) => ThreadError::NotABundle { artifact: *artifact, detail },
            BundleError::UnknownItem { index, type_name } => ThreadError::UnknownItem { index, type_name },
        })?)
    }

    /// Compiles a bundle again from its recorded inputs.
    pub fn audit(&self, artifact: &ArtifactId) -> Result<Audit> {
        let bundle = self.bundle(artifact)?;
        if let Ok(tip) = bundle.source.thread_id.parse::<CommitId>() {
            return self.audit_chain(artifact, &bundle, &tip);
        }
        let thread = StreamId::new(StreamKind::Continuity, &bundle.source.thread_id)?;
        self.thread_summary(&thread)?;
        let (decision, decided_seq) = self.decision(&thread, &bundle.provenance.run_session_id)?;
        let id = bundle.source.from_message_id.clone().unwrap_or_else(|| decision.message_id.clone());
        let anchor = MessageAt { seq: self.message_seq(&thread, &id)?, id };
        let inputs = Inputs::recorded(&thread, anchor, bundle.source.from_seq, &decision);
        let inputs = inputs.ok_or_else(|| ThreadError::UnknownStrategy(decision.compiler_strategy.clone()))?;
        let (strategy, from_seq) = (inputs.choice.strategy, inputs.from_seq);
        let chosen = inputs.choice.checkpoints.clone();
        let (compiled, _) = self.bundled(inputs, bundle.provenance.clone(), false)?;
        let again = self.choice(&thread, from_seq, Some(decided_seq), Some(strategy), false)?;
        let differs = again.checkpoints != chosen;
        Ok(Audit {
            bundle: *artifact,
            recompiled: compiled.artifact,
            differences: differences(&bundle, &compiled.bundle),
            other_choice: differs.then(|| format!("{} summaries, not {}", again.checkpoints.len(), chosen.len())),
        })
    }

    /// What was decided for the contexts of a thread's runs, the last first; at least one and at most 50 are listed.
    pub fn decisions(&self, thread: &StreamId, limit: usize) -> Result<Vec<(u64, SelectionDecided)>> {
        self.thread_summary(thread)?;
        let marks = self.ledger.marks(&in_stream(thread), &MarkKey::RunDecided(String::new()))?;
        let mut seqs: Vec<u64> = marks.into_iter().filter_map(|(_, seq)| seq.parse().ok()).collect();
        seqs.sort_unstable_by(|a, b| b.cmp(a));
        seqs.truncate(limit.clamp(1, DECISIONS_MAX));
        let mut decisions = Vec::new();
        for seq in seqs {
            if let ContinuityBody::SelectionDecided(decision) = self.said_at(thread, seq)? {
                decisions.push((seq, decision));
            }
        }
        Ok(decisions)
    }

    /// What was decided for a run, and at which seq.
    fn decision(&self, thread: &StreamId, run: &str) -> Result<(SelectionDecided, u64)> {
        let unknown = || ThreadError::UnknownRun { thread: thread.id.clone(), run: run.to_owned() };
        let seq = self.seq_of(thread, &MarkKey::RunDecided(run.to_owned()))?.ok_or_else(unknown)?;
        match self.said_at(thread, seq)? {
            ContinuityBody::SelectionDecided(decision) => Ok((decision, seq)),
            _ => Err(unknown().into()),
        }
    }
}

pub(super) fn differences(stored: &Bundle, again: &Bundle) -> Vec<String> {
    let mut found = Vec::new();
    let mut compare = |what: &str, same: bool| {
        if !same {
            found.push(what.to_owned());
        }
    };
    compare("compiler", stored.compiler == again.compiler);
    compare("source", stored.source == again.source);
    for index in 0..stored.items.len().max(again.items.len()) {
        compare(&format!("item {index}"), stored.items.get(index) == again.items.get(index));
    }
    // Members that this version does not know are part of the bytes, and of none of the above.
    if found.is_empty() && stored.to_bytes() != again.to_bytes() {
        found.push("bytes".into());
    }
    found
}

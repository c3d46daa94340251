//! From inputs to items: what is in, what is out, and by which rule.

use enjamb_core::compile::{
    Checkpoint, Item, RECENT_MESSAGES_LIMIT, RETRIEVAL_MIME, Shown, Strategy, Turn, say, summary_item, turn_items,
};
use enjamb_core::frame::Reset;
use enjamb_core::{ArtifactId, Json, StreamId, StreamKind};
use enjamb_formats::TokenCounting;
use enjamb_ledger::{Ledger, NewArtifact};
use serde_json::{Value, json};

use super::inputs::{Inputs, is_absent};
use crate::render::shown_as;
use crate::{Result, ServiceError, Store};

/// Messages before the window that have a row each, where someone asks.
const LEFT_OUT_ROWS_MAX: usize = 64;
/// Ancestors that a lineage goes back over.
const ANCESTORS_MAX: usize = 64;

/// Something that could be in a context.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContextCandidate {
    pub included: bool,
    /// 0 where nobody asked.
    pub tokens: u64,
    /// The bound or the choice that decided.
    pub rule: &'static str,
    pub source: String,
    pub reason: String,
}

#[derive(Default)]
pub(super) struct Composed {
    pub(super) items: Vec<Item>,
    pub(super) candidates: Vec<ContextCandidate>,
    /// Bytes that items refer to and that are not stored yet.
    pub(super) artifacts: Vec<NewArtifact>,
    /// What should have been in and could not be had.
    pub(super) resets: Vec<Reset>,
}

impl Store {
    pub(super) fn compose(&self, inputs: &Inputs, explain: bool) -> Result<Composed> {
        let counting = match &inputs.budget {
            Some(budget) => Some(budget.counting),
            None => explain.then_some(TokenCounting::Exact),
        };
        let mut composer = Composer { store: self, inputs, counting, out: Composed::default() };
        match (inputs.choice.strategy, &inputs.budget) {
            (Strategy::TokenBudget, Some(budget)) => composer.within(budget)?,
            (Strategy::Lineage, _) => composer.lineage()?,
            _ => composer.recent()?,
        }
        Ok(composer.out)
    }
}

pub(super) struct Composer<'s> {
    pub(super) store: &'s Store,
    pub(super) inputs: &'s Inputs,
    pub(super) counting: Option<TokenCounting>,
    pub(super) out: Composed,
}

impl Composer<'_> {
    /// Summaries, what was asked to be referred to, and the last messages.
    fn recent(&mut self) -> Result<()> {
        self.summaries(&self.inputs.choice.checkpoints)?;
        self.retrieved()?;
        self.attachments()?;
        let Inputs { thread, from_seq, choice, .. } = self.inputs;
        let turns = self.store.turns_back(thread, choice.after_seq(), *from_seq, RECENT_MESSAGES_LIMIT)?;
        self.left_out(thread, choice.after_seq(), turns.first())?;
        turns.iter().for_each(|turn| self.turn(thread, turn));
        Ok(())
    }

    /// As `recent`, but where the thread's own messages end those of its parent go on; what was handed over comes first.
    fn lineage(&mut self) -> Result<()> {
        let Inputs { thread, from_seq, choice, .. } = self.inputs;
        let mut levels = Vec::new();
        let mut handed = None;
        let (mut at, mut upto, mut after) = (thread.clone(), *from_seq, choice.after_seq());
        let mut left = RECENT_MESSAGES_LIMIT;
        while levels.len() < ANCESTORS_MAX {
            let turns = self.store.turns_back(&at, after, upto, left)?;
            left -= turns.len();
            levels.push((at.clone(), turns));
            let Some(summary) = self.store.ledger.stream(&at)? else { break };
            let Some(origin) = self.store.thread_origin(&at, summary.next_seq)? else { break };
            if origin.kind == "handoff" {
                handed = origin.summary_artifact;
                break;
            }
            let parent = StreamId::new(StreamKind::Continuity, origin.thread)?;
            if left == 0 {
                break;
            }
            if self.store.ledger.stream(&parent)?.is_none() {
                self.out.resets.push(reset("lineage", "parent_unavailable", json!({"thread_id": parent.id})));
                break;
            }
            (at, upto, after) = (parent, origin.seq, None);
        }
        self.handed_over(handed)?;
        self.summaries(&choice.checkpoints)?;
        self.attachments()?;
        for (thread, turns) in levels.iter().rev() {
            turns.iter().for_each(|turn| self.turn(thread, turn));
        }
        Ok(())
    }

    fn handed_over(&mut self, artifact: Option<String>) -> Result<()> {
        let Some(artifact_id) = artifact else { return Ok(()) };
        let found =
            artifact_id.parse().map_err(ServiceError::from).and_then(|id| Ok((id, self.store.handoff_bundle(&id)?)));
        let (id, bundle) = match found {
            Ok(found) => found,
            Err(error) if is_absent(&error) => {
                let reference = json!({"artifact_id": artifact_id});
                self.out.resets.push(reset("handoff_bundle", "handoff_artifact_unavailable", reference));
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        let item = Item::HandoffBundleRef { artifact_id };
        let tokens = self.tokens(&say(&item, &Shown::Handoff(bundle)).content);
        let (source, reason) = (id.to_string(), "handed over by the thread before".to_owned());
        self.out.candidates.push(ContextCandidate { included: true, tokens, rule: "lineage", source, reason });
        self.out.items.push(item);
        Ok(())
    }

    fn summaries(&mut self, checkpoints: &[Checkpoint]) -> Result<()> {
        for checkpoint in checkpoints {
            let item = summary_item(checkpoint);
            let tokens = match self.counting {
                Some(_) => {
                    let summary = self.store.summary_artifact(&checkpoint.summary_artifact_id)?;
                    self.tokens(&say(&item, &Shown::Summary(summary)).content)
                }
                None => 0,
            };
            self.out.candidates.push(summary_candidate(checkpoint, true, tokens));
            self.out.items.push(item);
        }
        self.passed_over();
        Ok(())
    }

    /// Summaries that could have been in, but for what the choice says of them.
    pub(super) fn passed_over(&mut self) {
        for reset in &self.inputs.choice.resets {
            let source = reset.reference.as_ref().map_or_else(String::new, |reference| reference.get().to_owned());
            let (rule, reason) = ("hierarchical_summaries_v1_max_refs", reset.reason.clone());
            self.out.candidates.push(ContextCandidate { included: false, tokens: 0, rule, source, reason });
        }
    }

    /// What was found that is like the message answered.
    fn retrieved(&mut self) -> Result<()> {
        let Some(id) = self.inputs.retrieved else { return Ok(()) };
        let (note, mime) = (Some("retrieved".to_owned()), Some(RETRIEVAL_MIME.to_owned()));
        let item = Item::ArtifactRef { artifact_id: id.to_hex(), note, mime };
        let shown = self.attached(&item, &id)?;
        let (rule, source) = ("retrieval_recent_messages_v1", id.to_string());
        let (tokens, reason) = (self.tokens(&say(&item, &shown).content), "like the message answered".to_owned());
        self.out.candidates.push(ContextCandidate { included: true, tokens, rule, source, reason });
        self.out.items.push(item);
        Ok(())
    }

    /// Files and artifacts that were asked for.
    pub(super) fn attachments(&mut self) -> Result<()> {
        let files = self.inputs.files.iter().map(|(path, id)| {
            let (path, digest) = (path.clone(), Some(id.to_hex()));
            (Item::FileRef { path, checkpoint_id: None, digest, note: None }, *id)
        });
        let artifacts = self
            .inputs
            .artifacts
            .iter()
            .map(|id| (Item::ArtifactRef { artifact_id: id.to_hex(), note: None, mime: None }, *id));
        for (item, id) in files.chain(artifacts) {
            let tokens = match self.counting {
                Some(_) => self.tokens(&say(&item, &self.attached(&item, &id)?).content),
                None => 0,
            };
            let reason = "asked for".to_owned();
            self.out.candidates.push(ContextCandidate {
                included: true,
                tokens,
                rule: "asked",
                source: id.to_string(),
                reason,
            });
            self.out.items.push(item);
        }
        Ok(())
    }

    /// What was asked for, from memory where it is not stored yet.
    fn attached(&self, item: &Item, id: &ArtifactId) -> Result<Shown> {
        match self.inputs.fresh.iter().find(|bytes| ArtifactId::of(bytes) == *id) {
            Some(bytes) => Ok(shown_as(item, bytes.clone())),
            None => self.store.shown(item),
        }
    }

    fn turn(&mut self, thread: &StreamId, turn: &Turn) {
        let items = turn_items(turn, &self.inputs.roles);
        self.say(items, thread, turn.seq, "recent_messages_v1_limit", "among the last messages");
    }

    pub(super) fn say(&mut self, items: Vec<Item>, thread: &StreamId, seq: u64, rule: &'static str, reason: &str) {
        let tokens = items.iter().map(|item| self.tokens(&say(item, &Shown::Nothing).content)).sum();
        let source = format!("{}/{seq}", thread.id);
        self.out.candidates.push(ContextCandidate { included: true, tokens, rule, source, reason: reason.to_owned() });
        self.out.items.extend(items);
    }

    /// The messages before the window. Who asks sees each of the nearest; the rest is one row, however many they are.
    fn left_out(&mut self, thread: &StreamId, after: Option<u64>, first: Option<&Turn>) -> Result<()> {
        let Some(before) = first.and_then(|first| first.seq.checked_sub(1)) else { return Ok(()) };
        let shown = if self.counting.is_some() { LEFT_OUT_ROWS_MAX } else { 0 };
        let near = self.store.turns_back(thread, after, before, shown)?;
        let (rule, reason) = ("recent_messages_v1_limit", "earlier than the last messages");
        let upto = near.first().map_or(Some(before), |turn| turn.seq.checked_sub(1));
        self.far_out(thread, after, upto, (rule, reason))?;
        for turn in &near {
            let items = turn_items(turn, &self.inputs.roles);
            let tokens = items.iter().map(|item| self.tokens(&say(item, &Shown::Nothing).content)).sum();
            let (source, reason) = (format!("{}/{}", thread.id, turn.seq), reason.to_owned());
            self.out.candidates.push(ContextCandidate { included: false, tokens, rule, source, reason });
        }
        Ok(())
    }

    /// One row for all messages up to a seq, if there are any.
    pub(super) fn far_out(
        &mut self,
        thread: &StreamId,
        after: Option<u64>,
        upto: Option<u64>,
        (rule, reason): (&'static str, &str),
    ) -> Result<()> {
        let last = upto.map(|upto| self.store.messages_back(thread, after, upto, 1)).transpose()?;
        if let Some(last) = last.and_then(|mut last| last.pop()) {
            let source = format!("{}/{}-{}", thread.id, after.map_or(0, |after| after + 1), last.seq);
            let (included, tokens, reason) = (false, 0, reason.to_owned());
            self.out.candidates.push(ContextCandidate { included, tokens, rule, source, reason });
        }
        Ok(())
    }

    pub(super) fn tokens(&self, text: &str) -> u64 {
        self.counting.map_or(0, |counting| counting.count(text))
    }
}

fn reset(input: &str, reason: &str, reference: Value) -> Reset {
    Reset {
        input: input.into(),
        action: "skipped".into(),
        reason: reason.into(),
        reference: Some(Json::from(reference)),
        extra: Vec::new(),
    }
}

pub(super) fn summary_candidate(checkpoint: &Checkpoint, included: bool, tokens: u64) -> ContextCandidate {
    let reason = match included {
        true => format!("stands for everything up to {}", checkpoint.to_seq),
        false => format!("reaches to {}, and takes too much", checkpoint.to_seq),
    };
    let source = format!("art-{}", checkpoint.summary_artifact_id);
    ContextCandidate { included, tokens, rule: "hierarchical_summaries_v1_max_refs", source, reason }
}

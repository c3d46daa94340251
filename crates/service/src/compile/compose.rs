//! From inputs to items: what is in, what is out, and by which rule.

use enjamb_core::compile::{
    Checkpoint, Fit, Item, RECENT_MESSAGES_LIMIT, RETRIEVAL_MIME, Shown, Strategy, Turn, fit, say, summary_item,
    turn_items,
};
use enjamb_core::frame::ContinuityBody;
use enjamb_core::{ArtifactId, RawFrame, StreamId, StreamKind, limits};
use enjamb_formats::TokenCounting;
use enjamb_ledger::{Ledger, NewArtifact};

use super::Budget;
use super::inputs::Inputs;
use crate::render::{SHOWN_BYTES_MAX, shown_as};
use crate::timeline::MessageAt;
use crate::{Result, Store, ThreadError};

/// Ancestors that a lineage goes back over.
const ANCESTORS_MAX: usize = 64;
/// Of a budget, what one text may take before it is kept outside and referred to.
const LARGE_PART: u64 = 4;

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

struct Composer<'s> {
    store: &'s Store,
    inputs: &'s Inputs,
    counting: Option<TokenCounting>,
    out: Composed,
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
            if left == 0 || self.store.ledger.stream(&parent)?.is_none() {
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

    /// What has to be in (the message answered, pins, what was asked for), the furthest summary if it takes no more than
    /// half of what is left, and then messages from the last one back for as long as they fit.
    fn within(&mut self, budget: &Budget) -> Result<()> {
        let Inputs { thread, anchor, from_seq, choice, .. } = self.inputs;
        let pins = self.pins()?;
        let anchored = self.packed(budget, &self.store.turn(thread, anchor, *from_seq)?)?;
        self.attachments()?;
        let asked: u64 = self.out.candidates.iter().map(|candidate| candidate.tokens).sum();
        let required = asked + anchored.tokens + pins.iter().map(|pin| self.tokens(&pin.content)).sum::<u64>();
        if required > budget.tokens {
            return Err(ThreadError::BudgetTooSmall { budget: budget.tokens, needed: required }.into());
        }
        let (summary, summary_tokens) = self.affordable_summary(choice.checkpoints.last(), budget.tokens - required)?;
        let after = summary.map(|checkpoint| checkpoint.to_seq);
        let (packed, taken) = self.turns_within(budget, required + summary_tokens, after)?;
        self.summary_first(summary, summary_tokens);
        for pin in pins.iter().filter(|pin| packed[..taken].iter().all(|near| near.turn.id != pin.id)) {
            let quiet = Turn { reply: None, ..pin.clone() };
            self.say(turn_items(&quiet, &self.inputs.roles), thread, pin.seq, "pinned", "pins are always in");
        }
        for out in &packed[taken..] {
            self.out.candidates.push(out.candidate(thread, false));
        }
        packed.into_iter().take(taken).rev().chain([anchored]).for_each(|packed| self.pack(thread, packed));
        Ok(())
    }

    /// Messages before the one answered, last first, and how many of them fit.
    fn turns_within(&self, budget: &Budget, used: u64, after: Option<u64>) -> Result<(Vec<Packed>, usize)> {
        let Inputs { thread, anchor, from_seq, .. } = self.inputs;
        let mut packed: Vec<Packed> = Vec::new();
        let mut upto = anchor.seq.checked_sub(1);
        while let Some(last) = upto {
            let page = self.store.messages_back(thread, after, last, RECENT_MESSAGES_LIMIT)?;
            upto = page.last().and_then(|message| message.seq.checked_sub(1));
            for message in &page {
                let mut turn = self.packed(budget, &self.store.turn(thread, message, *from_seq)?)?;
                if self.inputs.pins.contains(&message.id) {
                    // What is required anyway was counted.
                    turn.cost -= self.tokens(&turn.turn.content);
                }
                packed.push(turn);
                let sizes: Vec<u64> = packed.iter().map(|packed| packed.cost).collect();
                let Fit { taken, .. } = fit(budget.tokens, used, &sizes).unwrap_or(Fit { taken: 0, tokens: used });
                if taken < packed.len() {
                    return Ok((packed, taken));
                }
            }
        }
        let taken = packed.len();
        Ok((packed, taken))
    }

    fn affordable_summary<'c>(
        &self,
        checkpoint: Option<&'c Checkpoint>,
        left: u64,
    ) -> Result<(Option<&'c Checkpoint>, u64)> {
        let Some(checkpoint) = checkpoint else { return Ok((None, 0)) };
        let summary = self.store.summary_artifact(&checkpoint.summary_artifact_id)?;
        let tokens = self.tokens(&say(&summary_item(checkpoint), &Shown::Summary(summary)).content);
        Ok(if tokens <= left / 2 { (Some(checkpoint), tokens) } else { (None, 0) })
    }

    fn summary_first(&mut self, summary: Option<&Checkpoint>, tokens: u64) {
        if let Some(checkpoint) = summary {
            self.out.items.insert(0, summary_item(checkpoint));
            self.out.candidates.insert(0, summary_candidate(checkpoint, true, tokens));
        }
        for checkpoint in &self.inputs.choice.checkpoints {
            if summary != Some(checkpoint) {
                self.out.candidates.push(summary_candidate(checkpoint, false, 0));
            }
        }
    }

    /// Pinned messages up to the cut, in the order of the thread, but for the one answered.
    fn pins(&self) -> Result<Vec<Turn>> {
        let Inputs { thread, anchor, from_seq, pins, .. } = self.inputs;
        let mut found = Vec::new();
        for id in pins.iter().filter(|id| **id != anchor.id) {
            let seq = self.store.message_seq(thread, id)?;
            if seq <= *from_seq {
                found.push(self.store.turn(thread, &MessageAt { seq, id: id.clone() }, *from_seq)?);
            }
        }
        found.sort_by_key(|turn| turn.seq);
        Ok(found)
    }

    /// A message as it goes into a budget: a large answer is kept outside, and what tools did is told.
    fn packed(&self, budget: &Budget, turn: &Turn) -> Result<Packed> {
        let mut items = turn_items(turn, &self.inputs.roles);
        let mut artifact = None;
        let mut tokens = self.tokens(&turn.content);
        if let Some(reply) = &turn.reply {
            let size = self.tokens(reply);
            if size > budget.tokens / LARGE_PART && reply.len() > SHOWN_BYTES_MAX {
                let stored = self.store.artifact_of(reply.clone().into_bytes())?;
                let note = format!("reply to {}, {size} tokens", turn.id);
                let (artifact_id, mime) = (stored.id.to_hex(), Some("text/plain".to_owned()));
                let item = Item::ArtifactRef { artifact_id, note: Some(note), mime };
                tokens += self.tokens(&say(&item, &Shown::Bytes(reply.len() as u64)).content);
                items.truncate(1);
                items.push(item);
                artifact = Some(stored);
            } else {
                tokens += size;
            }
        }
        for effect in self.side_effects(turn)? {
            tokens += self.tokens(&say(&effect, &Shown::Nothing).content);
            items.push(effect);
        }
        Ok(Packed { turn: turn.clone(), items, artifact, tokens, cost: tokens })
    }

    /// What tools did to the workspace between a message and the next.
    fn side_effects(&self, turn: &Turn) -> Result<Vec<Item>> {
        let Inputs { thread, from_seq, .. } = self.inputs;
        let next = self.store.message_after(thread, turn.seq)?.map_or(from_seq + 1, |next| next.seq);
        let count = next.min(from_seq + 1).saturating_sub(turn.seq + 1).min(limits::PAGE_ROWS_MAX as u64);
        let mut effects = Vec::new();
        for frame in self.store.ledger.frames(thread, turn.seq + 1, count as usize)? {
            if let enjamb_core::Body::Continuity(ContinuityBody::ToolSideEffects(done)) =
                RawFrame::parse(frame.json)?.decode()?.body
            {
                effects.push(Item::ToolSideEffectRef {
                    run_session_id: done.run_session_id,
                    tool_id: done.tool_id,
                    affected_paths: done.affected_paths,
                    checkpoint_id: done.checkpoint_id,
                });
            }
        }
        Ok(effects)
    }

    fn pack(&mut self, thread: &StreamId, packed: Packed) {
        self.out.candidates.push(packed.candidate(thread, true));
        self.out.artifacts.extend(packed.artifact);
        self.out.items.extend(packed.items);
    }

    fn handed_over(&mut self, artifact: Option<String>) -> Result<()> {
        let Some(artifact_id) = artifact else { return Ok(()) };
        let id = artifact_id.parse()?;
        let bundle = self.store.handoff_bundle(&id)?;
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
        Ok(())
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
    fn attachments(&mut self) -> Result<()> {
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

    fn say(&mut self, items: Vec<Item>, thread: &StreamId, seq: u64, rule: &'static str, reason: &str) {
        let tokens = items.iter().map(|item| self.tokens(&say(item, &Shown::Nothing).content)).sum();
        let source = format!("{}/{seq}", thread.id);
        self.out.candidates.push(ContextCandidate { included: true, tokens, rule, source, reason: reason.to_owned() });
        self.out.items.extend(items);
    }

    /// One row for the messages before the window, however many they are.
    fn left_out(&mut self, thread: &StreamId, after: Option<u64>, first: Option<&Turn>) -> Result<()> {
        let Some(before) = first.and_then(|first| first.seq.checked_sub(1)) else { return Ok(()) };
        let Some(last) = self.store.messages_back(thread, after, before, 1)?.pop() else { return Ok(()) };
        let from = after.map_or(0, |after| after + 1);
        let source = format!("{}/{from}-{}", thread.id, last.seq);
        let reason = "earlier than the last messages".to_owned();
        self.out.candidates.push(ContextCandidate {
            included: false,
            tokens: 0,
            rule: "recent_messages_v1_limit",
            source,
            reason,
        });
        Ok(())
    }

    fn tokens(&self, text: &str) -> u64 {
        self.counting.map_or(0, |counting| counting.count(text))
    }
}

/// A message with everything that goes into the context with it.
struct Packed {
    turn: Turn,
    items: Vec<Item>,
    artifact: Option<NewArtifact>,
    tokens: u64,
    /// What taking it adds to what is in already.
    cost: u64,
}

impl Packed {
    fn candidate(&self, thread: &StreamId, included: bool) -> ContextCandidate {
        let reason = if included { "fits the budget" } else { "does not fit the budget" };
        let source = format!("{}/{}", thread.id, self.turn.seq);
        ContextCandidate {
            included,
            tokens: self.tokens,
            rule: "token_budget_v1_max_tokens",
            source,
            reason: reason.to_owned(),
        }
    }
}

fn summary_candidate(checkpoint: &Checkpoint, included: bool, tokens: u64) -> ContextCandidate {
    let reason = match included {
        true => format!("stands for everything up to {}", checkpoint.to_seq),
        false => format!("reaches to {}, and takes too much", checkpoint.to_seq),
    };
    let source = format!("art-{}", checkpoint.summary_artifact_id);
    ContextCandidate { included, tokens, rule: "hierarchical_summaries_v1_max_refs", source, reason }
}

//! Composing within a budget of tokens.

use enjamb_core::compile::{
    Checkpoint, Fit, Item, RECENT_MESSAGES_LIMIT, Shown, Turn, fit, say, summary_item, turn_items,
};
use enjamb_core::frame::{Body, ContinuityBody, Frame};
use enjamb_core::{StreamId, limits};
use enjamb_ledger::{Ledger, NewArtifact};

use super::Budget;
use super::compose::{Composer, ContextCandidate, summary_candidate};
use super::inputs::Inputs;
use crate::render::SHOWN_BYTES_MAX;
use crate::timeline::MessageAt;
use crate::{Result, ThreadError};

/// The bound that decides.
const RULE: &str = "token_budget_v1_max_tokens";
/// Of a budget, what one text may take before it is kept outside and referred to.
const LARGE_PART: u64 = 4;

impl Composer<'_> {
    /// What has to be in (the message answered, pins, what was asked for), the furthest summary if it takes no more than
    /// half of what is left, and then messages from the last one back for as long as they fit.
    pub(super) fn within(&mut self, budget: &Budget) -> Result<()> {
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
            let upto = out.turn.seq.checked_sub(1);
            self.far_out(thread, after, upto, (RULE, "earlier than the first that does not fit"))?;
            self.out.candidates.push(out.candidate(thread, false));
        }
        packed.into_iter().take(taken).rev().chain([anchored]).for_each(|packed| self.pack(thread, packed));
        Ok(())
    }

    /// Messages before the one answered, last first, and how many of them fit.
    fn turns_within(&self, budget: &Budget, required: u64, after: Option<u64>) -> Result<(Vec<Packed>, usize)> {
        let mut used = required;
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
                let fitted = fit(budget.tokens, used, &[turn.cost]);
                packed.push(turn);
                match fitted {
                    Some(Fit { taken: 1, tokens }) => used = tokens,
                    _ => {
                        let taken = packed.len() - 1;
                        return Ok((packed, taken));
                    }
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
        self.passed_over();
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
            if let Body::Continuity(ContinuityBody::ToolSideEffects(done)) = Frame::parse(&frame.json)?.body {
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
        ContextCandidate { included, tokens: self.tokens, rule: RULE, source, reason: reason.to_owned() }
    }
}

//! `codex-v1`: lines of Codex's rollout files, `~/.codex/sessions/…/rollout-….jsonl`.
//!
//! Each line is an envelope of a time, a type and a payload. `response_item` lines are the conversation; the rest is
//! what the runtime keeps beside it. History is read as Codex replays it: a `compacted` line replaces what came before,
//! a roll-back takes the last turns away.

mod mark;
mod read;
mod repair;
mod write;

#[cfg(test)]
mod tests;

use enjamb_core::conversation::{Conversation, attribute};

use crate::adapt::{Own, Palette};
use crate::encoder::{Before, Encoder, encode_all};
use crate::fidelity::Encoded;
use crate::format::{Format, Reading};
use crate::framing::{Framing, Item};
use crate::outline::Detail;
use crate::problem::Problem;
use crate::reader::ItemReader;
use crate::{check, responses};

pub(crate) const ID: &str = "codex-v1";
const RUNTIME: &str = "codex";

pub(crate) use repair::operate;

pub(crate) struct Codex;

const PALETTE: Palette =
    Palette { own: Own::These(&[ID, responses::ID]), compaction: true, compacted: true, ..responses::PALETTE };

impl Format for Codex {
    fn id(&self) -> &'static str {
        ID
    }

    fn framing(&self) -> Framing {
        Framing::JsonLines
    }

    fn understand(&self, items: &[Item<'_>]) -> Reading {
        read::understand(items)
    }

    fn reader(&self, detail: Detail) -> Box<dyn ItemReader + '_> {
        Box::new(read::Reader::new(detail))
    }

    fn encode(&self, conversation: &Conversation) -> Encoded {
        encode_all(self.encoder(conversation, None), conversation)
    }

    fn encoder(&self, outline: &Conversation, before: Option<Before<'_>>) -> Box<dyn Encoder + '_> {
        Box::new(write::RolloutEncoder::new(&PALETTE, outline, before.map(|before| before.0)))
    }

    /// What a compaction repeats was counted where it was first said.
    fn message_count(&self, reading: &Reading) -> u64 {
        let messages = reading.conversation.messages();
        messages.filter(|entry| entry.attribute(attribute::COPIED).is_none()).count() as u64
    }

    fn check(&self, reading: &Reading) -> Vec<Problem> {
        check::codex(reading)
    }
}

//! `claude-code-v1`: lines of Claude Code's transcript files, `~/.claude/projects/<project>/<session>.jsonl`.
//!
//! Records form a tree by `uuid` and `parentUuid`. One reply of the model is written as several records, one for each
//! content block, that share a message id; they are one entry here. Results of tools are records of the user's. What
//! the harness keeps for itself (progress, titles, snapshots) is carried verbatim. The same reader takes the lines of
//! `--output-format stream-json`, which are the same records without the tree.

mod findings;
mod read;
mod repair;
mod standing;
mod write;

#[cfg(test)]
mod tests;

use enjamb_core::conversation::Conversation;

use crate::adapt::{Order, Own, Palette};
use crate::encoder::{Before, Encoder, encode_all};
use crate::fidelity::Encoded;
use crate::format::{Format, Reading};
use crate::framing::{Framing, Item};
use crate::outline::Detail;
use crate::problem::Problem;
use crate::reader::ItemReader;
use crate::{anthropic, check};

pub(crate) const ID: &str = "claude-code-v1";
const RUNTIME: &str = "claude-code";

pub(crate) use repair::operate;

pub(crate) struct ClaudeCode;

const PALETTE: Palette = Palette {
    own: Own::These(&[ID, anthropic::ID]),
    compaction: true,
    compacted: true,
    order: Order::Free,
    ..anthropic::PALETTE
};

impl Format for ClaudeCode {
    fn id(&self) -> &'static str {
        ID
    }

    fn framing(&self) -> Framing {
        Framing::JsonLines
    }

    fn understand(&self, items: &[Item<'_>]) -> Reading {
        read::understand(items, Detail::Whole)
    }

    fn measure(&self, items: &[Item<'_>]) -> Reading {
        read::understand(items, Detail::Measure)
    }

    fn reader(&self, detail: Detail) -> Box<dyn ItemReader + '_> {
        Box::new(read::Reader::new(detail))
    }

    fn encode(&self, conversation: &Conversation) -> Encoded {
        encode_all(self.encoder(conversation, None), conversation)
    }

    fn encoder(&self, outline: &Conversation, before: Option<Before<'_>>) -> Box<dyn Encoder + '_> {
        Box::new(write::TranscriptEncoder::new(&PALETTE, outline, before.map(|before| before.0)))
    }

    fn check(&self, reading: &Reading) -> Vec<Problem> {
        check::claude_code(reading)
    }
}

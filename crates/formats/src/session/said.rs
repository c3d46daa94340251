//! What a model would see, in little: enough to find it again, and to say what was not found.

use enjamb_core::conversation::{Block, Entry, Standing};
use enjamb_core::{Digest, Hasher};

use crate::narrative;

/// Bytes of what was said that are shown if it is missing.
const SHOWN_BYTES: usize = 80;

/// Something that was said, by its digest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Said {
    digest: Digest,
    begins: Box<str>,
}

impl Said {
    pub(crate) fn in_block(block: &Block) -> Option<Self> {
        match block {
            Block::Text(text) | Block::Compaction { summary: text } => Some(Self::new("text", "", text)),
            Block::ToolCall(call) => Some(Self::new("call", &call.name, call.input.get())),
            Block::ToolResult(result) => Some(Self::new("result", "", &result.text())),
            Block::Reasoning(_) | Block::Image(_) | Block::Verbatim(_) => None,
        }
    }

    /// What an entry says to the model that goes on with it.
    pub(crate) fn in_entry(entry: &Entry) -> impl Iterator<Item = Self> {
        let is_seen = entry.standing == Standing::Context;
        entry.blocks.iter().filter(move |_| is_seen).filter_map(Self::in_block)
    }

    fn new(kind: &str, name: &str, text: &str) -> Self {
        let mut hasher = Hasher::new();
        for part in [kind, name] {
            hasher.update(&(part.len() as u64).to_le_bytes()).update(part.as_bytes());
        }
        let digest = hasher.update(text.as_bytes()).finish();
        let gap = if name.is_empty() { "" } else { " " };
        let begins = format!("{kind} {name}{gap}{}", narrative::beginning(text, SHOWN_BYTES));
        Self { digest, begins: begins.into() }
    }

    /// Of which kind it is, and how it begins.
    pub fn begins(&self) -> &str {
        &self.begins
    }
}

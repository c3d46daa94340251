//! The formats there are. A new one is a module and a line in each of these lists.

use crate::anthropic::{self, AnthropicMessages};
use crate::bureau_agent::{self, BureauAgent};
use crate::chat::{self, OpenAiChat};
use crate::claude_code::{self, ClaudeCode};
use crate::codex::{self, Codex};
use crate::events::{self, Events};
use crate::format::Format;
use crate::frames::{self, Frames};
use crate::generic::{self, Generic};
use crate::responses::{self, OpenResponses};

static FORMATS: &[&dyn Format] =
    &[&AnthropicMessages, &BureauAgent, &ClaudeCode, &Codex, &Events, &Frames, &Generic, &OpenResponses, &OpenAiChat];

pub(crate) const IDS: &[&str] =
    &[anthropic::ID, bureau_agent::ID, claude_code::ID, codex::ID, events::ID, frames::ID, generic::ID, responses::ID, chat::ID];

/// Every format, by name.
pub fn all() -> &'static [&'static dyn Format] {
    FORMATS
}

/// The format that commits call by this name.
pub fn by_id(id: &str) -> Option<&'static dyn Format> {
    FORMATS.iter().copied().find(|format| format.id() == id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_format_is_found_by_its_name() {
        let found: Vec<&str> = all().iter().map(|format| format.id()).collect();
        assert_eq!(found, IDS);
        assert!(found.iter().all(|id| by_id(id).is_some_and(|format| format.id() == *id)));
        assert!(by_id("claude-code-v0").is_none());
    }
}

//! The formats there are. A new one is a module and a line here.

use crate::anthropic::AnthropicMessages;
use crate::bureau_agent::BureauAgent;
use crate::chat::OpenAiChat;
use crate::claude_code::ClaudeCode;
use crate::codex::Codex;
use crate::events::Events;
use crate::format::Format;
use crate::frames::Frames;
use crate::gemini::Gemini;
use crate::generic::Generic;
use crate::opencode::OpenCode;
use crate::responses::OpenResponses;

static FORMATS: &[&dyn Format] = &[
    &AnthropicMessages,
    &BureauAgent,
    &ClaudeCode,
    &Codex,
    &Events,
    &Frames,
    &Gemini,
    &Generic,
    &OpenResponses,
    &OpenAiChat,
    &OpenCode,
];

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
        assert!(found.iter().all(|id| by_id(id).is_some_and(|format| format.id() == *id)));
        assert!(found.is_sorted(), "{found:?}");
        assert!(by_id("claude-code-v0").is_none());
    }
}

//! What a model's provider is sent and how its answer is read: bytes in, frames out, and nothing is asked of the world.
//!
//! Every event of an answer becomes a frame, whatever it holds, so that a turn is read again without its provider. Where
//! the bytes are cut on the way makes no difference.

mod answer;
mod chat;
mod event;
mod messages;
mod request;
mod responses;
mod sse;

#[cfg(test)]
mod tests;

pub use answer::{AnswerReader, Kept};
pub use event::{overlong_kept, whole_body};
pub use request::{Request, Round, ToolOutcome, ToolSpec, body};
pub use sse::{SseEvent, SseFault, SseReader};

use crate::compile::RenderTarget;
use crate::conversation::Usage;

/// What an endpoint speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// Open Responses: `…/responses`.
    Responses,
    /// OpenAI-compatible chat: `…/chat/completions`.
    Chat,
    /// Anthropic Messages: `…/messages`.
    Messages,
}

impl Dialect {
    pub const ALL: [Self; 3] = [Self::Responses, Self::Chat, Self::Messages];

    /// The dialect that the path of an address tells.
    pub fn of_path(path: &str) -> Option<Self> {
        let path = path.trim_end_matches('/');
        let known = [("/responses", Self::Responses), ("/chat/completions", Self::Chat), ("/messages", Self::Messages)];
        known.into_iter().find(|(end, _)| path.ends_with(end)).map(|(_, dialect)| dialect)
    }

    /// As people write it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Responses => "responses",
            Self::Chat => "chat",
            Self::Messages => "messages",
        }
    }

    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|dialect| dialect.name() == name)
    }

    /// As frames name the provider.
    pub const fn provider(self) -> &'static str {
        match self {
            Self::Responses => "openresponses",
            Self::Chat => "openai_chat",
            Self::Messages => "anthropic_messages",
        }
    }

    pub fn of_provider(provider: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|dialect| dialect.provider() == provider)
    }

    /// What contexts are rendered as for it.
    pub const fn target(self) -> RenderTarget {
        match self {
            Self::Responses => RenderTarget::OpenResponses,
            Self::Chat => RenderTarget::OpenAiChat,
            Self::Messages => RenderTarget::Anthropic,
        }
    }
}

/// A tool that a model wants called.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Call {
    pub call_id: String,
    /// Open Responses names the item that holds the call as well.
    pub item_id: Option<String>,
    pub name: String,
    /// JSON, as the model wrote it.
    pub arguments: String,
}

/// Why an answer came to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stop {
    Completed,
    /// It waits for what its calls come to.
    ToolCalls,
    /// It took as many tokens as it might.
    OutputLimit,
    /// The model, or who watches over it, would not answer.
    Refused(String),
    Failed(String),
}

/// What an answer came to, as far as it was read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    pub response_id: Option<String>,
    pub text: String,
    pub calls: Vec<Call>,
    pub usage: Option<Usage>,
    /// `None` while the answer has not said that it is over.
    pub stop: Option<Stop>,
    /// What was said in refusal.
    pub(crate) refusal: String,
}

impl Answer {
    /// A call counts once: what comes again under its id says nothing new.
    fn add_call(&mut self, call: Call) {
        if !call.call_id.is_empty() && self.calls.iter().all(|known| known.call_id != call.call_id) {
            self.calls.push(call);
        }
    }

    /// The first end counts, but a failure after it does too.
    fn stop(&mut self, stop: Stop) {
        if self.stop.is_none() || matches!(stop, Stop::Failed(_)) {
            self.stop = Some(stop);
        }
    }

    fn finished(&self) -> Stop {
        match (self.refusal.is_empty(), self.calls.is_empty()) {
            (false, _) => Stop::Refused(self.refusal.clone()),
            (true, false) => Stop::ToolCalls,
            (true, true) => Stop::Completed,
        }
    }
}

/// Tokens that a usage stands for, all told.
pub fn tokens_of(usage: &Usage) -> u64 {
    let Usage { input_tokens, output_tokens, cache_read_tokens, cache_write_tokens, .. } = usage;
    [input_tokens, output_tokens, cache_read_tokens, cache_write_tokens]
        .into_iter()
        .fold(0, |sum: u64, count| sum.saturating_add(*count))
}

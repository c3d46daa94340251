//! Answers as the three kinds of providers stream them.

use enjamb_core::provider::Dialect;
use serde_json::{Value, json};

/// An answer that is being put together.
#[derive(Clone, Debug)]
pub struct Speech {
    dialect: Dialect,
    events: Vec<(Option<String>, String)>,
    calls: usize,
}

impl Speech {
    pub fn new(dialect: Dialect) -> Self {
        let speech = Self { dialect, events: Vec::new(), calls: 0 };
        match dialect {
            Dialect::Responses => speech.event(json!({"type": "response.created", "response": {"id": "resp_1"}})),
            Dialect::Chat => speech,
            Dialect::Messages => {
                let message = json!({"id": "msg_1", "usage": {"input_tokens": 10, "output_tokens": 1}});
                speech.event(json!({"type": "message_start", "message": message}))
            }
        }
    }

    /// An event, named as the dialect names it.
    #[must_use]
    pub fn event(self, data: Value) -> Self {
        let name = data["type"].as_str().map(str::to_owned).filter(|_| self.dialect != Dialect::Chat);
        self.raw(name, data.to_string())
    }

    /// An event of any bytes.
    #[must_use]
    pub fn raw(mut self, name: Option<String>, data: impl Into<String>) -> Self {
        self.events.push((name, data.into()));
        self
    }

    #[must_use]
    pub fn text(self, text: &str) -> Self {
        let event = match self.dialect {
            Dialect::Responses => json!({"type": "response.output_text.delta", "delta": text}),
            Dialect::Chat => json!({"id": "chat_1", "choices": [{"index": 0, "delta": {"content": text}}]}),
            Dialect::Messages => {
                json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}})
            }
        };
        self.event(event)
    }

    /// A tool to be called.
    #[must_use]
    pub fn call(mut self, id: &str, name: &str, arguments: &str) -> Self {
        self.calls += 1;
        let index = self.calls;
        match self.dialect {
            Dialect::Responses => {
                let item = json!({"type": "function_call", "id": format!("fc_{id}"), "call_id": id, "name": name, "arguments": arguments});
                self.event(json!({"type": "response.output_item.done", "item": item}))
            }
            Dialect::Chat => {
                let call = json!({"index": index - 1, "id": id, "function": {"name": name, "arguments": arguments}});
                self.event(json!({"id": "chat_1", "choices": [{"delta": {"tool_calls": [call]}}]}))
            }
            Dialect::Messages => {
                let block = json!({"type": "tool_use", "id": id, "name": name, "input": {}});
                let delta = json!({"type": "input_json_delta", "partial_json": arguments});
                self.event(json!({"type": "content_block_start", "index": index, "content_block": block}))
                    .event(json!({"type": "content_block_delta", "index": index, "delta": delta}))
                    .event(json!({"type": "content_block_stop", "index": index}))
            }
        }
    }

    /// The end, with what it took.
    pub fn end(self, input_tokens: u64, output_tokens: u64) -> String {
        let waits = self.calls > 0;
        let speech = match self.dialect {
            Dialect::Responses => {
                let usage = json!({"input_tokens": input_tokens, "output_tokens": output_tokens});
                self.event(json!({"type": "response.completed", "response": {"id": "resp_1", "usage": usage}}))
                    .raw(None, "[DONE]")
            }
            Dialect::Chat => {
                let reason = if waits { "tool_calls" } else { "stop" };
                let usage = json!({"prompt_tokens": input_tokens, "completion_tokens": output_tokens});
                self.event(json!({"id": "chat_1", "choices": [{"delta": {}, "finish_reason": reason}]}))
                    .event(json!({"id": "chat_1", "choices": [], "usage": usage}))
                    .raw(None, "[DONE]")
            }
            Dialect::Messages => {
                let reason = if waits { "tool_use" } else { "end_turn" };
                let usage = json!({"input_tokens": input_tokens, "output_tokens": output_tokens});
                self.event(json!({"type": "message_delta", "delta": {"stop_reason": reason}, "usage": usage}))
                    .event(json!({"type": "message_stop"}))
            }
        };
        speech.unfinished()
    }

    /// What was said so far, without an end.
    pub fn unfinished(&self) -> String {
        let event = |(name, data): &(Option<String>, String)| {
            let name = name.as_ref().map(|name| format!("event: {name}\n")).unwrap_or_default();
            let data: String = data.split('\n').map(|line| format!("data: {line}\n")).collect();
            format!("{name}{data}\n")
        };
        self.events.iter().map(event).collect()
    }
}

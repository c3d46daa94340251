//! Turns: a model is asked, and what it says is kept.

use enjamb_service::RunView;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Run {
    pub thread_id: String,
    pub message_id: String,
    pub run: String,
    /// What was said so far
    pub text: String,
    /// How it ended: `completed`, or why not; nothing while it goes on
    pub reason: Option<String>,
    pub detail: String,
    pub usage: RunUsage,
    /// In dollars, where prices are known
    pub cost_usd: Option<String>,
    pub requests: u64,
    pub tool_calls: u64,
    /// The context commit to go on from
    pub commit: Option<String>,
    /// The post was made before, and nothing was run now
    pub replayed: bool,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct RunUsage {
    pub input_tokens: u64,
    pub output_tokens: u64,
    pub cache_read_tokens: u64,
    pub cache_write_tokens: u64,
    /// Counted here, since the provider did not
    pub measured: bool,
}

impl Run {
    pub fn of(thread: &str, view: RunView, replayed: bool) -> Self {
        let usage = RunUsage {
            input_tokens: view.usage.input_tokens,
            output_tokens: view.usage.output_tokens,
            cache_read_tokens: view.usage.cache_read_tokens,
            cache_write_tokens: view.usage.cache_write_tokens,
            measured: view.usage.provisional,
        };
        Self {
            thread_id: thread.to_owned(),
            message_id: view.message,
            run: view.run,
            text: view.text,
            reason: view.reason,
            detail: view.detail,
            usage,
            cost_usd: view.cost,
            requests: view.requests,
            tool_calls: view.tool_calls,
            commit: view.commit.map(|id| id.to_string()),
            replayed,
        }
    }
}

//! A model that writes summaries: the flags of `enjamb summarize` and `enjamb compact`.

use std::time::Duration;

use clap::{Args, ValueEnum};
use enjamb_service::{Dialect, EndpointOptions, Key};

/// The only place a key is read from. It is neither stored nor shown.
const KEY_VARIABLE: &str = "ENJAMB_ENDPOINT_KEY";

#[derive(Args)]
pub struct EndpointArgs {
    /// Ask a model: Open Responses, OpenAI-compatible chat or Anthropic Messages
    #[arg(long, value_name = "URL", requires = "model", requires = "budget")]
    endpoint: Option<String>,
    /// The model to ask for
    #[arg(long, value_name = "NAME", requires = "endpoint")]
    model: Option<String>,
    /// Tokens that may be used
    #[arg(long, value_name = "TOKENS", requires = "endpoint")]
    budget: Option<u64>,
    /// What the endpoint speaks [default: what the end of its path says]
    #[arg(long, value_enum, requires = "endpoint")]
    api: Option<Api>,
    /// Seconds to wait for an answer
    #[arg(long, value_name = "SECONDS", default_value_t = 120, requires = "endpoint")]
    timeout: u64,
}

#[derive(Clone, Copy, ValueEnum)]
enum Api {
    Responses,
    Chat,
    Messages,
}

impl From<Api> for Dialect {
    fn from(api: Api) -> Self {
        match api {
            Api::Responses => Self::Responses,
            Api::Chat => Self::Chat,
            Api::Messages => Self::Messages,
        }
    }
}

impl EndpointArgs {
    /// The endpoint that was named, if one was.
    pub fn options(&self) -> Option<EndpointOptions> {
        let key = std::env::var(KEY_VARIABLE).ok().filter(|key| !key.is_empty()).map(Key::new);
        Some(EndpointOptions {
            url: self.endpoint.clone()?,
            dialect: self.api.map(Dialect::from),
            model: self.model.clone()?,
            key,
            budget_tokens: self.budget?,
            timeout: Duration::from_secs(self.timeout),
        })
    }
}

//! Whom to ask, and within which bounds.

use std::fmt;
use std::time::Duration;

use enjamb_core::conversation::Usage;
use enjamb_core::provider::Dialect;

use super::scrub::Scrubber;
use crate::address::Address;
use crate::http::Http;
use crate::{Key, Result, ServiceError};

const MARGIN: Duration = Duration::from_secs(5);

#[derive(Clone, Debug)]
pub struct ProviderOptions {
    pub url: String,
    /// `None` for what the path of the URL tells.
    pub dialect: Option<Dialect>,
    pub model: Option<String>,
    pub key: Option<Key>,
    /// Tokens that one answer may take.
    pub output_tokens_max: Option<u64>,
    /// Tokens that a run may take, read and written. Nobody is asked without such a bound.
    pub budget_tokens: u64,
    /// The longest that a provider may say nothing.
    pub idle_timeout: Duration,
    /// The longest that one answer may take.
    pub timeout: Duration,
    /// How often a request is sent again that was turned away before it was worked on.
    pub retries: u32,
    /// How long to wait before that when the provider does not say.
    pub backoff: Duration,
    pub prices: Option<Prices>,
    /// Keep each request's body as an artifact.
    pub dump_requests: bool,
    /// Go on from the provider's own conversation where it has one.
    pub use_cursor: bool,
}

impl ProviderOptions {
    pub fn new(url: impl Into<String>, budget_tokens: u64) -> Self {
        Self {
            url: url.into(),
            dialect: None,
            model: None,
            key: None,
            output_tokens_max: None,
            budget_tokens,
            idle_timeout: Duration::from_secs(120),
            timeout: Duration::from_secs(1_800),
            retries: 3,
            backoff: Duration::from_secs(1),
            prices: None,
            dump_requests: false,
            use_cursor: false,
        }
    }
}

/// What a million tokens cost, in millionths of a dollar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prices {
    pub input: u64,
    pub output: u64,
}

impl Prices {
    /// Reads dollars per million tokens, such as `3` or `0.25`.
    pub fn parse(text: &str) -> Option<u64> {
        let (whole, part) = text.trim().split_once('.').unwrap_or((text.trim(), ""));
        let is_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        if whole.is_empty() || part.len() > 6 || !is_digits(whole) || !is_digits(part) {
            return None;
        }
        let part: u64 = format!("{part:0<6}").parse().ok()?;
        whole.parse::<u64>().ok()?.checked_mul(1_000_000)?.checked_add(part)
    }

    /// What a usage costs, in dollars. Tokens from a cache are counted as any others: an upper bound.
    pub fn dollars(&self, usage: &Usage) -> String {
        let read = usage.input_tokens.saturating_add(usage.cache_read_tokens).saturating_add(usage.cache_write_tokens);
        let cost = |tokens: u64, price: u64| u128::from(tokens) * u128::from(price);
        let trillionths = cost(read, self.input) + cost(usage.output_tokens, self.output);
        let millionths = trillionths.div_ceil(1_000_000);
        format!("{}.{:06}", millionths / 1_000_000, millionths % 1_000_000)
    }
}

/// A provider that can be asked.
#[derive(Clone)]
pub struct Provider {
    pub(super) options: ProviderOptions,
    pub(super) address: Address,
    pub(super) http: Http,
}

impl Provider {
    pub fn new(options: ProviderOptions) -> Result<Self> {
        let address = Address::parse(&options.url, options.dialect, options.key.is_some())?;
        // Whoever waits gives up first, and says so; this only bounds the thread that asks.
        let http = Http::new(options.timeout.saturating_add(MARGIN), address.is_https);
        let provider = Self { options, address, http };
        // A key that cannot be sent is found out before anything is posted.
        provider.headers()?;
        Ok(provider)
    }

    pub fn dialect(&self) -> Dialect {
        self.address.dialect
    }

    /// The address without what may be secret in it.
    pub fn shown(&self) -> &str {
        &self.address.shown
    }

    pub fn model(&self) -> Option<&str> {
        self.options.model.as_deref()
    }

    pub(super) fn headers(&self) -> Result<Vec<(&'static str, ureq::http::HeaderValue)>> {
        let headers = self.address.headers(self.options.key.as_ref().map(Key::reveal));
        headers.ok_or_else(|| ServiceError::Invalid {
            what: "key",
            text: "(not shown)".into(),
            expected: "one without control characters",
        })
    }

    pub(super) fn scrubber(&self) -> Scrubber {
        Scrubber::new(self.options.key.as_ref().map(Key::reveal))
    }
}

impl fmt::Debug for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Provider({}, {})", self.address.shown, self.options.model.as_deref().unwrap_or("no model"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prices_are_dollars_and_costs_are_rounded_up() {
        assert_eq!(Prices::parse("3"), Some(3_000_000));
        assert_eq!(Prices::parse("0.25"), Some(250_000));
        for text in ["", "-1", "1.0000001", "x", ".5", "1e3"] {
            assert_eq!(Prices::parse(text), None, "{text}");
        }
        let prices = Prices { input: 3_000_000, output: 15_000_000 };
        let usage = Usage { input_tokens: 1_000, output_tokens: 100, ..Usage::default() };
        assert_eq!(prices.dollars(&usage), "0.004500");
        assert_eq!(prices.dollars(&Usage { input_tokens: 1, ..Usage::default() }), "0.000003");
        assert_eq!(Prices { input: 1, output: 0 }.dollars(&Usage { input_tokens: 1, ..Usage::default() }), "0.000001");
    }
}

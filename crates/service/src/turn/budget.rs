//! The token budget of a run: what a request may ask for, and when an answer has gone too far.
//!
//! What a provider counts is charged. Before it has counted, the request is measured with our tokenizer; a provider that
//! keeps writing past what it was told is cut off.

use enjamb_core::conversation::Usage;
use enjamb_core::provider::tokens_of;
use enjamb_formats::TokenCounting;

/// With fewer, an answer is hardly one.
const OUTPUT_TOKENS_MIN: u64 = 16;
/// Text that is shorter than this for each token is not worth measuring yet.
const BYTES_PER_TOKEN_MIN: u64 = 3;

/// How much an answer may take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Allowance {
    /// What the provider is told.
    pub output_tokens_max: Option<u64>,
    /// It is the budget that says so, not the bound of a single answer.
    pub is_budget: bool,
}

/// What is left for an answer; `None` when the budget does not cover the request.
pub(super) fn allow(budget: u64, used: &Usage, request: &[u8], one_max: Option<u64>) -> Option<Allowance> {
    let asked = TokenCounting::Exact.count(&String::from_utf8_lossy(request));
    let left = budget.saturating_sub(tokens_of(used)).saturating_sub(asked);
    if left < OUTPUT_TOKENS_MIN {
        return None;
    }
    let is_budget = one_max.is_none_or(|one| left < one);
    Some(Allowance { output_tokens_max: Some(one_max.map_or(left, |one| one.min(left))), is_budget })
}

/// What a request and its answer took when the provider did not say.
pub(super) fn measured(request: &[u8], answer: &str) -> Usage {
    let counting = TokenCounting::Exact;
    let input_tokens = counting.count(&String::from_utf8_lossy(request));
    Usage { input_tokens, output_tokens: counting.count(answer), provisional: true, ..Usage::default() }
}

pub(super) fn add(sum: &mut Usage, more: &Usage) {
    sum.input_tokens = sum.input_tokens.saturating_add(more.input_tokens);
    sum.output_tokens = sum.output_tokens.saturating_add(more.output_tokens);
    sum.cache_read_tokens = sum.cache_read_tokens.saturating_add(more.cache_read_tokens);
    sum.cache_write_tokens = sum.cache_write_tokens.saturating_add(more.cache_write_tokens);
    sum.provisional |= more.provisional;
}

/// Watches an answer as it grows.
#[derive(Debug)]
pub(super) struct Gauge {
    most: Option<u64>,
    /// The answer is measured again when it has this many bytes.
    next_bytes: u64,
}

impl Gauge {
    /// Only a budget is enforced from here: a bound that the provider was given is the provider's to keep.
    pub fn new(allowance: &Allowance) -> Self {
        let most = allowance.output_tokens_max.filter(|_| allowance.is_budget);
        Self { most, next_bytes: most.unwrap_or_default().saturating_mul(BYTES_PER_TOKEN_MIN) }
    }

    pub fn is_over(&mut self, text: &str) -> bool {
        let Some(most) = self.most.filter(|_| text.len() as u64 > self.next_bytes) else { return false };
        let used = TokenCounting::Exact.count(text);
        self.next_bytes = text.len() as u64 + most.saturating_sub(used).max(8) * BYTES_PER_TOKEN_MIN;
        used > most
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_covers_the_request_and_bounds_the_answer() {
        let none = Usage::default();
        let told =
            |budget, used: &Usage, one| allow(budget, used, b"hello world", one).map(|some| some.output_tokens_max);
        assert_eq!(told(10, &none, None), None);
        assert_eq!(told(102, &none, None), Some(Some(100)));
        assert_eq!(told(102, &none, Some(40)), Some(Some(40)));
        assert_eq!(told(102, &Usage { output_tokens: 50, ..none }, None), Some(Some(50)));
    }

    #[test]
    fn who_writes_on_is_found_out() {
        let mut gauge = Gauge::new(&Allowance { output_tokens_max: Some(20), is_budget: true });
        assert!(!gauge.is_over("one two three"));
        assert!(gauge.is_over(&"word ".repeat(40)));
        let mut free = Gauge::new(&Allowance { output_tokens_max: Some(20), is_budget: false });
        assert!(!free.is_over(&"word ".repeat(400)));
    }
}

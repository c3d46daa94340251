//! How many tokens a delta adds to a context.
//!
//! The count of a delta is what its own messages would take up in the context of a model that reads on from them: text,
//! reasoning, tool calls and their results, whoever wrote them. It is not what was billed: input that a provider read
//! again for each reply is counted once, where it was first said. For a reply that the provider has finished and
//! counted, its output count stands; everything else is measured, with a tokenizer or by its bytes. Records that are no
//! messages count nothing. The same delta always has the same count.

use enjamb_core::conversation::{Block, Conversation, Entry, Reasoning, Role, attribute};

use crate::outline::let_go;

/// How to measure what no provider counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TokenCounting {
    /// With the tokenizer, at some 20 MB a second.
    #[default]
    Exact,
    /// By the bytes.
    Cheap,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tokens {
    pub count: u64,
    /// How much of the count the provider vouches for.
    pub reported: u64,
    pub method: TokenMethod,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenMethod {
    /// The provider counted the replies; the rest was measured.
    Usage,
    /// Everything was measured with the tokenizer of that name.
    Tokenizer(&'static str),
    /// Everything was measured by its bytes.
    Bytes,
}

impl TokenMethod {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Usage => "usage",
            Self::Tokenizer(name) => name,
            Self::Bytes => "bytes",
        }
    }
}

pub const TOKENIZER: &str = "o200k_base";
/// What an image counts: neither its bytes nor its text say how large it is, and providers scale to about this.
const IMAGE_TOKENS: u64 = 1_500;

impl Tokens {
    pub fn of(conversation: &Conversation, counting: TokenCounting) -> Self {
        let (mut reported, mut measured) = (0, 0);
        // From the end: a provider's count stands at the end of the reply that it counts.
        let mut counted_reply = false;
        for entry in conversation.entries.iter().rev().filter(|entry| is_counted(entry)) {
            if entry.role != Role::Assistant {
                counted_reply = false;
            }
            if let Some(output) = reported_output(entry) {
                reported += output;
                counted_reply = true;
            } else if !counted_reply {
                measured += entry.blocks.iter().map(|block| measure(block, counting)).sum::<u64>() + let_go(entry);
            }
        }
        let method = if reported > 0 { TokenMethod::Usage } else { counting.method() };
        Self { count: reported + measured, reported, method }
    }
}

impl TokenCounting {
    const fn method(self) -> TokenMethod {
        match self {
            Self::Exact => TokenMethod::Tokenizer(TOKENIZER),
            Self::Cheap => TokenMethod::Bytes,
        }
    }

    /// Tokens of one text.
    pub fn count(self, text: &str) -> u64 {
        match self {
            Self::Exact => bpe_openai::o200k_base().count(text) as u64,
            Self::Cheap => Self::of_bytes(text.len() as u64),
        }
    }

    /// 2.8 bytes a token, the mean over real transcripts, in whole numbers and rounded up.
    pub(crate) const fn of_bytes(len: u64) -> u64 {
        (len * 10).div_ceil(28)
    }
}

fn is_counted(entry: &Entry) -> bool {
    entry.is_message() && entry.attribute(attribute::COPIED).is_none()
}

fn reported_output(entry: &Entry) -> Option<u64> {
    let usage = entry.usage.filter(|usage| entry.role == Role::Assistant && !usage.provisional)?;
    Some(usage.output_tokens).filter(|output| *output > 0)
}

fn measure(block: &Block, counting: TokenCounting) -> u64 {
    match block {
        Block::Text(text) | Block::Reasoning(Reasoning { text, .. }) | Block::Compaction { summary: text } => {
            counting.count(text)
        }
        Block::ToolCall(call) => counting.count(&call.name) + counting.count(call.input.get()),
        Block::ToolResult(result) => result.content.iter().map(|block| measure_within(block, counting)).sum(),
        Block::Image(_) => IMAGE_TOKENS,
        Block::Verbatim(_) => 0,
    }
}

/// Results hold text and images; what else they may hold is measured one level deep, whatever nests.
fn measure_within(block: &Block, counting: TokenCounting) -> u64 {
    match block {
        Block::Text(text) => counting.count(text),
        Block::Image(_) => IMAGE_TOKENS,
        Block::Reasoning(_)
        | Block::ToolCall(_)
        | Block::ToolResult(_)
        | Block::Compaction { .. }
        | Block::Verbatim(_) => 0,
    }
}

#[cfg(test)]
mod tests {
    use enjamb_core::conversation::Usage;

    use super::*;

    fn said(role: Role, text: &str, output_tokens: Option<u64>) -> Entry {
        let mut entry = Entry::new(role, vec![Block::Text(text.to_owned())]);
        entry.usage = output_tokens.map(|output_tokens| Usage { output_tokens, ..Usage::default() });
        entry
    }

    fn counted(entries: Vec<Entry>, counting: TokenCounting) -> Tokens {
        Tokens::of(&Conversation { entries }, counting)
    }

    #[test]
    fn what_no_provider_counted_is_measured() {
        let entries = vec![said(Role::User, "hello world", None), said(Role::Assistant, "hello world", None)];
        let exact = counted(entries.clone(), TokenCounting::Exact);
        assert_eq!((exact.count, exact.method), (4, TokenMethod::Tokenizer(TOKENIZER)));
        let cheap = counted(entries, TokenCounting::Cheap);
        assert_eq!((cheap.count, cheap.method), (8, TokenMethod::Bytes));
    }

    #[test]
    fn a_providers_count_covers_the_whole_reply_before_it() {
        let entries = vec![
            said(Role::User, "hello world", None),
            said(Role::Assistant, "thinking of it", None),
            said(Role::Assistant, "done", Some(100)),
            said(Role::User, "hello world", None),
        ];
        let tokens = counted(entries, TokenCounting::Exact);
        assert_eq!((tokens.count, tokens.reported, tokens.method), (104, 100, TokenMethod::Usage));
    }

    #[test]
    fn a_provisional_count_is_not_believed() {
        let mut entry = said(Role::Assistant, "hello world", Some(1));
        entry.usage = entry.usage.map(|usage| Usage { provisional: true, ..usage });
        assert_eq!(counted(vec![entry], TokenCounting::Exact).count, 2);
    }
}

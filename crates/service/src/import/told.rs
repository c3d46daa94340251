//! What import asks of a piece: who, when, how much, and what it takes back. The words themselves are let go as soon as
//! this is known, by the thread that read them.

use std::collections::BTreeMap;

use enjamb_core::Timestamp;
use enjamb_core::conversation::{Block, Conversation, Entry, Role, Usage, attribute};
use enjamb_core::redact::mask;
use enjamb_formats::{TokenCounting, Tokens};

use super::branches::{rewound_to, turns_taken_back};

const FACTS: [&str; 4] = [attribute::CWD, attribute::GIT_BRANCH, attribute::REPOSITORY, attribute::VERSION];
pub(super) const PARENT_SESSION: &str = attribute::PARENT_SESSION;
/// Names of what is learned from a piece for all that follow.
pub(super) const LEARNED: [&str; 6] = [FACTS[0], FACTS[1], FACTS[2], FACTS[3], "model", PARENT_SESSION];

pub(super) struct Told {
    pub messages: u64,
    pub tokens: Tokens,
    /// The beginning of what a person first asked.
    pub summary: Option<String>,
    pub usage: Option<Usage>,
    /// What all replies cost, where their runtime says so.
    pub cost: Option<f64>,
    pub last_at: Option<Timestamp>,
    /// What entries last said of where they were written.
    pub facts: BTreeMap<&'static str, String>,
    /// Of which sessions they say that they are, in order.
    pub sessions: Vec<Naming>,
    /// The message that a person's words follow, if the piece begins with them.
    pub follows: Option<String>,
    pub turns_taken_back: u64,
    /// The message that is taken back with all after it.
    pub rewound_to: Option<String>,
}

/// How an entry names its session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Naming {
    pub own: Option<String>,
    pub parent: Option<String>,
}

impl Told {
    pub(super) fn of(conversation: &Conversation) -> Self {
        let is_new = |entry: &&Entry| entry.attribute(attribute::COPIED).is_none();
        let verbatims = || conversation.entries.iter().flat_map(|entry| &entry.blocks).filter_map(Block::as_verbatim);
        Self {
            messages: conversation.messages().filter(is_new).count() as u64,
            // Bytes are measured where no provider counted: a tokenizer reads a tenth as fast as a disk.
            tokens: Tokens::of(conversation, TokenCounting::Cheap),
            summary: conversation.first_prompt().and_then(|prompt| brief(&prompt)),
            usage: usage(conversation),
            cost: cost(conversation),
            last_at: conversation.time_span().map(|(_, last)| last),
            facts: facts(conversation),
            sessions: sessions(conversation),
            follows: follows(conversation),
            turns_taken_back: verbatims().filter_map(turns_taken_back).sum(),
            rewound_to: verbatims().rev().find_map(rewound_to),
        }
    }
}

fn facts(conversation: &Conversation) -> BTreeMap<&'static str, String> {
    let last = |name| conversation.entries.iter().rev().find_map(|entry| entry.attribute(name));
    // The URL of a repository may hold the key to it.
    let told = FACTS.into_iter().filter_map(|name| Some((name, mask(last(name)?).into_owned())));
    let model = conversation.entries.iter().rev().find_map(|entry| entry.model.clone());
    told.chain(model.map(|model| ("model", model))).collect()
}

fn sessions(conversation: &Conversation) -> Vec<Naming> {
    let mut found: Vec<Naming> = Vec::new();
    for entry in &conversation.entries {
        let (own, parent) = (entry.attribute(attribute::SESSION_ID), entry.attribute(PARENT_SESSION));
        let is_known = found.last().is_some_and(|last| (last.own.as_deref(), last.parent.as_deref()) == (own, parent));
        if !is_known && (own.is_some() || parent.is_some()) {
            found.push(Naming { own: own.map(str::to_owned), parent: parent.map(str::to_owned) });
        }
    }
    found
}

fn follows(conversation: &Conversation) -> Option<String> {
    let first = conversation.entries.iter().find(|entry| entry.is_message())?;
    first.parent_id.clone().filter(|_| first.role == Role::User && !first.synthetic)
}

/// What the provider counted for all replies of a piece.
fn usage(conversation: &Conversation) -> Option<Usage> {
    conversation.entries.iter().filter_map(|entry| entry.usage).reduce(|a, b| Usage {
        input_tokens: a.input_tokens.saturating_add(b.input_tokens),
        output_tokens: a.output_tokens.saturating_add(b.output_tokens),
        cache_read_tokens: a.cache_read_tokens.saturating_add(b.cache_read_tokens),
        cache_write_tokens: a.cache_write_tokens.saturating_add(b.cache_write_tokens),
        provisional: a.provisional || b.provisional,
    })
}

fn cost(conversation: &Conversation) -> Option<f64> {
    let told = conversation.entries.iter().filter_map(|entry| entry.attribute(attribute::COST)?.parse::<f64>().ok());
    told.reduce(|a, b| a + b).filter(|cost| cost.is_finite())
}

/// The first line of what was asked, if it is not too long. A secret in it is stored in the bytes alone.
fn brief(prompt: &str) -> Option<String> {
    const CHARS_MAX: usize = 100;
    let prompt = mask(prompt);
    let line = prompt.trim().lines().next()?;
    let mut text: String = line.chars().take(CHARS_MAX).collect();
    if line.chars().nth(CHARS_MAX).is_some() {
        text.push('…');
    }
    Some(text).filter(|text| !text.is_empty())
}

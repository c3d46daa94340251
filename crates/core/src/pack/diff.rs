//! How two packs differ.

use super::{Message, Pack, Source};

#[derive(Clone, Debug, PartialEq)]
pub struct PackDiff {
    /// They have the same hash, so they say the same.
    pub same: bool,
    pub same_session: bool,
    /// The titles, when they differ.
    pub titles: Option<[Option<String>; 2]>,
    /// Messages that differ, by seq.
    pub messages: Vec<(u64, Change)>,
    /// Sources that only the first has, and those that only the second has.
    pub sources_removed: Vec<Source>,
    pub sources_added: Vec<Source>,
}

/// What became of a message from one pack to the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    Added,
    Removed,
    Said,
    /// The same was said on other grounds.
    Sources,
}

impl Change {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Added => "added",
            Self::Removed => "removed",
            Self::Said => "changed",
            Self::Sources => "other sources",
        }
    }
}

impl PackDiff {
    pub fn of(a: &Pack, b: &Pack) -> Self {
        let titles = [a.session.title.clone(), b.session.title.clone()];
        Self {
            same: a.hash() == b.hash(),
            same_session: a.session.id == b.session.id,
            titles: (titles[0] != titles[1]).then_some(titles),
            messages: changes(&a.messages, &b.messages),
            sources_removed: missing(a, b),
            sources_added: missing(b, a),
        }
    }
}

fn changes(a: &[Message], b: &[Message]) -> Vec<(u64, Change)> {
    let mut changes = Vec::new();
    let find = |messages: &[Message], seq: u64| messages.iter().position(|message| message.seq == seq);
    for message in a {
        match find(b, message.seq).map(|at| &b[at]) {
            None => changes.push((message.seq, Change::Removed)),
            Some(other) if (message.role, &message.content) != (other.role, &other.content) => {
                changes.push((message.seq, Change::Said));
            }
            Some(other) if message.sources != other.sources => changes.push((message.seq, Change::Sources)),
            Some(_) => {}
        }
    }
    changes
        .extend(b.iter().filter(|message| find(a, message.seq).is_none()).map(|message| (message.seq, Change::Added)));
    changes.sort_by_key(|(seq, _)| *seq);
    changes
}

/// Sources of `a` that `b` does not have, each once.
fn missing(a: &Pack, b: &Pack) -> Vec<Source> {
    let mut missing: Vec<Source> = Vec::new();
    for (_, source) in a.sources() {
        if !missing.contains(source) && !b.sources().any(|(_, other)| other == source) {
            missing.push(source.clone());
        }
    }
    missing
}

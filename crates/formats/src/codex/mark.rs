//! What a rollout has no place for, written beside the items that came from elsewhere: Codex passes over members that it
//! does not know. Who goes back from the rollout finds the ids, models and counts that were there before.

use enjamb_core::Json;
use enjamb_core::conversation::{Entry, Usage, attribute};

use crate::json::{Object, Writer};

/// The member under which it stands.
pub(super) const MEMBER: &str = "enjamb";

/// Attributes that differ from entry to entry and have no line of their own.
const ATTRIBUTES: [&str; 2] = [attribute::MESSAGE_ID, attribute::GIT_BRANCH];

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Mark {
    id: Option<String>,
    model: Option<String>,
    usage: Option<Usage>,
    synthetic: bool,
    attributes: Vec<(&'static str, String)>,
}

impl Mark {
    /// What is to be remembered of an entry.
    pub(super) fn of_entry(entry: &Entry) -> Self {
        let attribute = |name: &'static str| Some((name, entry.attribute(name)?.to_owned()));
        Self {
            id: entry.id.clone(),
            model: entry.model.clone(),
            usage: entry.usage,
            synthetic: entry.synthetic,
            attributes: ATTRIBUTES.into_iter().filter_map(attribute).collect(),
        }
    }

    /// What the other items of the same entry say: who spoke, and in which reply.
    pub(super) fn of_the_rest(self) -> Self {
        Self { id: None, usage: None, ..self }
    }

    /// What a line remembers.
    pub(super) fn of(line: &Object<'_>) -> Option<Self> {
        let mark = line.object(MEMBER)?;
        let attribute = |name: &'static str| Some((name, mark.text(name)?));
        Some(Self {
            id: mark.text("id"),
            model: mark.text("model"),
            usage: mark.object("usage").map(|usage| read_usage(&usage)),
            synthetic: mark.flag("synthetic"),
            attributes: ATTRIBUTES.into_iter().filter_map(attribute).collect(),
        })
    }

    pub(super) fn restore(self, entry: &mut Entry) {
        entry.id = self.id.or(entry.id.take());
        entry.model = self.model.or(entry.model.take());
        entry.usage = self.usage.or(entry.usage);
        entry.synthetic |= self.synthetic;
        for (name, value) in self.attributes {
            entry.set_attribute(name, Some(value));
        }
    }

    pub(super) fn json(&self) -> Option<Json> {
        if *self == Self::default() {
            return None;
        }
        let mark = Writer::new()
            .optional("id", self.id.as_ref())
            .optional("model", self.model.as_ref())
            .optional("usage", self.usage.map(write_usage))
            .optional("synthetic", self.synthetic.then_some(true));
        Some(mark.members(self.attributes.iter().map(|(name, value)| (*name, value))).json())
    }
}

fn read_usage(usage: &Object<'_>) -> Usage {
    let count = |key| usage.number(key).unwrap_or_default();
    Usage {
        input_tokens: count("input"),
        output_tokens: count("output"),
        cache_read_tokens: count("cache_read"),
        cache_write_tokens: count("cache_write"),
        provisional: usage.flag("provisional"),
    }
}

fn write_usage(usage: Usage) -> Json {
    Writer::new()
        .member("input", &usage.input_tokens)
        .member("output", &usage.output_tokens)
        .member("cache_read", &usage.cache_read_tokens)
        .member("cache_write", &usage.cache_write_tokens)
        .optional("provisional", usage.provisional.then_some(true))
        .json()
}

//! What a setting may be called, and what it may be.

use std::collections::BTreeMap;
use std::fmt;

use super::keys;

/// The most characters of a name that stands for `*`.
const NAME_CHARS_MAX: usize = 64;

/// A setting that some section knows.
#[derive(Debug)]
pub(super) struct Key {
    /// Its name from the top, `*` being any name: `template.*.model`.
    pub path: &'static str,
    pub kind: Kind,
    pub default: Option<&'static str>,
    /// The variable that stands for it.
    pub env: Option<&'static str>,
    /// It names what is run, with what, or whom to talk to: a repository may not say so by itself.
    pub needs_trust: bool,
}

/// What a value may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Text,
    OneOf(&'static [&'static str]),
    Count {
        min: u64,
        max: u64,
    },
    Texts,
    /// Names and values that are given to a program. They may be secrets: only the names are shown.
    Variables,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    Text(String),
    Count(u64),
    Texts(Vec<String>),
    Variables(BTreeMap<String, String>),
}

impl Key {
    pub const fn new(path: &'static str, kind: Kind) -> Self {
        Self { path, kind, default: None, env: None, needs_trust: false }
    }

    pub const fn or(self, default: &'static str) -> Self {
        Self { default: Some(default), ..self }
    }

    pub const fn env(self, name: &'static str) -> Self {
        Self { env: Some(name), ..self }
    }

    pub const fn needs_trust(self) -> Self {
        Self { needs_trust: true, ..self }
    }

    pub fn segments(&self) -> impl Iterator<Item = &'static str> {
        self.path.split('.')
    }
}

impl Kind {
    /// A value that is written as text, as variables and flags are.
    pub fn parse(self, text: &str) -> Option<Value> {
        match self {
            Self::Text => Some(Value::Text(text.to_owned())),
            Self::OneOf(words) => words.contains(&text).then(|| Value::Text(text.to_owned())),
            Self::Count { min, max } => text.parse().ok().filter(|count| (min..=max).contains(count)).map(Value::Count),
            Self::Texts | Self::Variables => None,
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text => f.write_str("text"),
            Self::OneOf(words) => write!(f, "one of \"{}\"", words.join("\", \"")),
            Self::Count { min, max } => write!(f, "a number from {min} to {max}"),
            Self::Texts => f.write_str("a list of texts"),
            Self::Variables => f.write_str("a table of texts"),
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => f.write_str(text),
            Self::Count(count) => write!(f, "{count}"),
            Self::Texts(texts) => write!(f, "{texts:?}"),
            Self::Variables(variables) => {
                let names: Vec<_> = variables.keys().map(String::as_str).collect();
                write!(f, "{} (values not shown)", names.join(", "))
            }
        }
    }
}

/// The key of a path, if some section knows it.
pub(super) fn find(path: &str) -> Option<&'static Key> {
    let segments: Vec<_> = path.split('.').collect();
    keys().find(|key| key.segments().count() == segments.len() && begins(key, &segments))
}

/// Whether a key's path begins with these segments.
pub(super) fn begins(key: &Key, segments: &[&str]) -> bool {
    let mut own = key.segments();
    segments.iter().all(|given| own.next().is_some_and(|own| own == *given || own == "*"))
}

/// Whether a name can stand for `*`.
pub(super) fn is_name(text: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    (1..=NAME_CHARS_MAX).contains(&text.len()) && text.chars().all(is_plain)
}

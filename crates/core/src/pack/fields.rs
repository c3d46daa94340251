//! The members of an object, taken one by one; what is wrong is told with the path to it.

use super::{PackError, Tree};
use crate::Timestamp;

/// The greatest integer that a double holds without doubt.
const INTEGER_MAX: f64 = 9_007_199_254_740_991.0;

pub(super) struct Fields {
    path: String,
    members: Vec<(String, Tree)>,
}

impl Fields {
    pub(super) fn of(path: &str, tree: Tree) -> Result<Self, PackError> {
        match tree {
            Tree::Object(members) => Ok(Self { path: path.to_owned(), members }),
            _ => Err(malformed(path, "is no object", "an object")),
        }
    }

    pub(super) fn path(&self, name: &str) -> String {
        if self.path.is_empty() { name.to_owned() } else { format!("{}.{name}", self.path) }
    }

    /// The value under a name, which is then gone; null is as good as none.
    pub(super) fn take(&mut self, name: &str) -> Option<Tree> {
        let at = self.members.iter().position(|(found, _)| found == name)?;
        Some(self.members.remove(at).1).filter(|tree| *tree != Tree::Null)
    }

    pub(super) fn text(&mut self, name: &str) -> Result<String, PackError> {
        self.text_or_none(name)?.ok_or_else(|| self.missing(name, "a string"))
    }

    pub(super) fn text_or_none(&mut self, name: &str) -> Result<Option<String>, PackError> {
        match self.take(name) {
            None => Ok(None),
            Some(Tree::Text(text)) => Ok(Some(text)),
            Some(_) => Err(malformed(&self.path(name), "is no string", "a string")),
        }
    }

    /// A string that says something.
    pub(super) fn word(&mut self, name: &str) -> Result<String, PackError> {
        self.word_or_none(name)?.ok_or_else(|| self.missing(name, "a string of at least one character"))
    }

    pub(super) fn word_or_none(&mut self, name: &str) -> Result<Option<String>, PackError> {
        match self.text_or_none(name)? {
            Some(text) if text.is_empty() => {
                Err(malformed(&self.path(name), "is empty", "a string of at least one character"))
            }
            text => Ok(text),
        }
    }

    pub(super) fn time(&mut self, name: &str) -> Result<String, PackError> {
        self.time_or_none(name)?.ok_or_else(|| self.missing(name, TIME))
    }

    pub(super) fn time_or_none(&mut self, name: &str) -> Result<Option<String>, PackError> {
        match self.word_or_none(name)? {
            Some(text) if !text.ends_with('Z') || text.parse::<Timestamp>().is_err() => {
                Err(malformed(&self.path(name), "is no time", TIME))
            }
            text => Ok(text),
        }
    }

    /// A URL, as far as anyone can tell without going there.
    pub(super) fn url_or_none(&mut self, name: &str) -> Result<Option<String>, PackError> {
        match self.word_or_none(name)? {
            Some(text) if !is_url(&text) => Err(malformed(&self.path(name), "is no URL", "a URL")),
            text => Ok(text),
        }
    }

    pub(super) fn whole(&mut self, name: &str) -> Result<u64, PackError> {
        const EXPECTED: &str = "an integer of 0 or more";
        match self.take(name) {
            None => Err(self.missing(name, EXPECTED)),
            Some(Tree::Number(number)) if number.fract() == 0.0 && (0.0..=INTEGER_MAX).contains(&number) => {
                Ok(number as u64)
            }
            Some(_) => Err(malformed(&self.path(name), "is none", EXPECTED)),
        }
    }

    pub(super) fn positive(&mut self, name: &str) -> Result<u64, PackError> {
        match self.whole(name)? {
            0 => Err(malformed(&self.path(name), "is 0", "an integer of 1 or more")),
            number => Ok(number),
        }
    }

    pub(super) fn list(&mut self, name: &str) -> Result<Vec<Tree>, PackError> {
        self.list_or_none(name)?.ok_or_else(|| self.missing(name, "an array"))
    }

    pub(super) fn list_or_none(&mut self, name: &str) -> Result<Option<Vec<Tree>>, PackError> {
        match self.take(name) {
            None => Ok(None),
            Some(Tree::List(items)) => Ok(Some(items)),
            Some(_) => Err(malformed(&self.path(name), "is no array", "an array")),
        }
    }

    pub(super) fn object(&mut self, name: &str) -> Result<Self, PackError> {
        let path = self.path(name);
        match self.take(name) {
            None => Err(self.missing(name, "an object")),
            Some(tree) => Self::of(&path, tree),
        }
    }

    /// Refuses what is left: a pack holds only what is known to be fit to be shown.
    pub(super) fn end(self) -> Result<(), PackError> {
        match self.members.first() {
            None => Ok(()),
            Some((name, _)) => {
                Err(malformed(&self.path(name), "is no member of a context pack 0.7.0", "only members that it lists"))
            }
        }
    }

    fn missing(&self, name: &str, expected: &'static str) -> PackError {
        malformed(&self.path(name), "is missing", expected)
    }
}

const TIME: &str = "a time such as 2026-01-01T12:00:00.000Z";

pub(super) fn malformed(path: &str, fault: &'static str, expected: &'static str) -> PackError {
    PackError::Malformed { path: path.chars().take(200).collect(), fault, expected }
}

fn is_url(text: &str) -> bool {
    let Some((scheme, rest)) = text.split_once(':') else { return false };
    let in_scheme = |byte: u8| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte);
    scheme.starts_with(|first: char| first.is_ascii_alphabetic())
        && scheme.bytes().all(in_scheme)
        && !rest.is_empty()
        && !text.contains(char::is_whitespace)
}

//! The members of a frame, taken one after another as its type names them.

use std::borrow::Cow;

use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use super::error::problem_of;
use crate::json::Json;
pub(super) use crate::json::{Members, ObjectWriter};

/// A member that does not hold what its frame type says it holds.
#[derive(Debug)]
pub(super) struct MemberFault {
    pub(super) member: String,
    pub(super) problem: String,
}

impl<'a> Members<'a> {
    pub(super) fn retain(mut self, keep: impl Fn(&str) -> bool) -> Self {
        self.0.retain(|(key, _)| keep(key));
        self
    }

    /// Lets a member go by the name it has today.
    pub(super) fn rename(&mut self, old: &str, new: &'static str) {
        if self.0.iter().all(|(key, _)| key != new) {
            self.0.iter_mut().filter(|(key, _)| key == old).for_each(|(key, _)| *key = Cow::Borrowed(new));
        }
    }

    pub(super) fn required<T: DeserializeOwned>(&mut self, name: &str) -> Result<T, MemberFault> {
        match self.take(name) {
            Some(raw) => read(name, raw),
            None => Err(MemberFault {
                member: name.to_owned(),
                problem: format!("is missing: expected {}", expected::<T>()),
            }),
        }
    }

    /// Absent and null are alike: the default.
    pub(super) fn optional<T: DeserializeOwned + Default>(&mut self, name: &str) -> Result<T, MemberFault> {
        match self.take(name) {
            Some(raw) if raw.get() != "null" => read(name, raw),
            Some(_) | None => Ok(T::default()),
        }
    }

    /// What nobody took.
    pub(super) fn rest(self) -> Vec<(String, Json)> {
        self.0.into_iter().map(|(key, raw)| (key.into_owned(), Json::from_raw(raw))).collect()
    }

    pub(super) fn take_rest(&mut self) -> Vec<(String, Json)> {
        std::mem::take(&mut self.0).into_iter().map(|(key, raw)| (key.into_owned(), Json::from_raw(raw))).collect()
    }

    fn take(&mut self, name: &str) -> Option<&'a RawValue> {
        // Nearly always there is one, and it is the first of those that are left.
        let at = self.0.iter().rposition(|(key, _)| key == name)?;
        let (_, last) = self.0.remove(at);
        if self.0.iter().any(|(key, _)| key == name) {
            self.0.retain(|(key, _)| key != name);
        }
        Some(last)
    }
}

fn read<T: DeserializeOwned>(name: &str, raw: &RawValue) -> Result<T, MemberFault> {
    serde_json::from_str(raw.get())
        .map_err(|error| MemberFault { member: name.to_owned(), problem: format!("is wrong: {}", problem_of(&error)) })
}

/// What a type wants to be read from, in the words with which it refuses null.
fn expected<T: DeserializeOwned>() -> String {
    let refused = serde_json::from_str::<T>("null").err().map(|error| problem_of(&error));
    let wanted = refused.as_deref().and_then(|problem| problem.split_once("expected "));
    wanted.map_or("a JSON value", |(_, wanted)| wanted).to_owned()
}

pub(super) fn borrowed(members: &[(String, Json)]) -> impl Iterator<Item = (&str, &Json)> {
    members.iter().map(|(key, value)| (key.as_str(), value))
}

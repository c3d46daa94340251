//! The members of one JSON object, in order and undecoded, and the writer that puts such an object together again.

use std::borrow::Cow;
use std::fmt;

use serde::de::{DeserializeOwned, Deserializer, MapAccess, Visitor};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::error::problem_of;
use super::json::Json;

/// A member that does not hold what its frame type says it holds.
#[derive(Debug)]
pub(super) struct MemberFault {
    pub(super) member: String,
    pub(super) problem: String,
}

/// Where a key occurs more than once, typed reading takes the last, as other JSON readers do.
pub(super) struct Members<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'a> Members<'a> {
    pub(super) fn parse(text: &'a str) -> serde_json::Result<Self> {
        serde_json::from_str(text)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &'a RawValue)> {
        self.0.iter().map(|(key, raw)| (key.as_ref(), *raw))
    }

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

impl<'de: 'a, 'a> Deserialize<'de> for Members<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(MembersVisitor).map(Self)
    }
}

struct MembersVisitor;

impl<'de> Visitor<'de> for MembersVisitor {
    type Value = Vec<(Cow<'de, str>, &'de RawValue)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut members = Vec::with_capacity(16);
        while let Some(Key(key)) = map.next_key()? {
            members.push((key, map.next_value()?));
        }
        Ok(members)
    }
}

struct Key<'a>(Cow<'a, str>);

impl<'de> Deserialize<'de> for Key<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(KeyVisitor).map(Self)
    }
}

struct KeyVisitor;

impl<'de> Visitor<'de> for KeyVisitor {
    type Value = Cow<'de, str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_borrowed_str<E>(self, key: &'de str) -> Result<Self::Value, E> {
        Ok(Cow::Borrowed(key))
    }

    fn visit_str<E>(self, key: &str) -> Result<Self::Value, E> {
        Ok(Cow::Owned(key.to_owned()))
    }
}

/// Writes one compact JSON object, member by member.
pub(super) struct ObjectWriter(Vec<u8>);

impl ObjectWriter {
    pub(super) fn new() -> Self {
        Self(vec![b'{'])
    }

    pub(super) fn member<T: Serialize + ?Sized>(&mut self, key: &str, value: &T) {
        if self.0.len() > 1 {
            self.0.push(b',');
        }
        self.value(key);
        self.0.push(b':');
        self.value(value);
    }

    pub(super) fn members<'a, T: Serialize + 'a>(&mut self, members: impl IntoIterator<Item = (&'a str, T)>) {
        members.into_iter().for_each(|(key, value)| self.member(key, &value));
    }

    /// Members that were written before, by [`ObjectWriter::into_members`].
    pub(super) fn written(&mut self, members: &[u8]) {
        if self.0.len() > 1 && !members.is_empty() {
            self.0.push(b',');
        }
        self.0.extend_from_slice(members);
    }

    /// The members alone, without the braces around them.
    pub(super) fn into_members(mut self) -> Vec<u8> {
        self.0.remove(0);
        self.0
    }

    pub(super) fn finish(mut self) -> Vec<u8> {
        self.0.push(b'}');
        self.0
    }

    pub(super) fn into_json(self) -> Json {
        let text = String::from_utf8(self.finish()).expect("only text is written");
        Json::parse(text).expect("an object was written")
    }

    fn value<T: Serialize + ?Sized>(&mut self, value: &T) {
        serde_json::to_writer(&mut self.0, value).expect("strings, numbers and parsed JSON are always written");
    }
}

pub(super) fn borrowed(members: &[(String, Json)]) -> impl Iterator<Item = (&str, &Json)> {
    members.iter().map(|(key, value)| (key.as_str(), value))
}

//! JSON as text: values kept verbatim, the members of an object in order and undecoded, and the writer that puts an
//! object together.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserializer, MapAccess, Visitor};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// One JSON value, verbatim: numbers keep their digits, strings their escapes and objects the order of their keys.
#[derive(Clone, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Json(Box<RawValue>);

impl Json {
    pub fn parse(text: impl Into<String>) -> serde_json::Result<Self> {
        RawValue::from_string(text.into()).map(Self)
    }

    pub fn get(&self) -> &str {
        self.0.get()
    }

    pub fn is_object(&self) -> bool {
        self.get().starts_with('{')
    }

    pub(crate) fn from_raw(raw: &RawValue) -> Self {
        Self(raw.to_owned())
    }
}

/// Keys come out sorted, as the frames of other writers have them.
impl From<serde_json::Value> for Json {
    fn from(value: serde_json::Value) -> Self {
        Self(serde_json::value::to_raw_value(&value).expect("a value in memory is always JSON"))
    }
}

impl PartialEq for Json {
    fn eq(&self, other: &Self) -> bool {
        self.get() == other.get()
    }
}

impl Eq for Json {}

impl fmt::Debug for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.get())
    }
}

/// The members of an object. Where a key occurs more than once, the last counts, as with other JSON readers.
#[derive(Debug)]
pub struct Members<'a>(pub(crate) Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'a> Members<'a> {
    pub fn parse(text: &'a str) -> serde_json::Result<Self> {
        serde_json::from_str(text)
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, &'a RawValue)> {
        self.0.iter().map(|(key, raw)| (key.as_ref(), *raw))
    }

    pub fn get(&self, key: &str) -> Option<&'a RawValue> {
        self.0.iter().rfind(|(name, _)| name == key).map(|(_, raw)| *raw)
    }

    /// The keys that occur more than once, each once.
    pub fn repeated(&self) -> Vec<&str> {
        let mut keys: Vec<&str> = self.0.iter().map(|(key, _)| key.as_ref()).collect();
        keys.sort_unstable();
        let mut repeated: Vec<_> = keys.windows(2).filter(|pair| pair[0] == pair[1]).map(|pair| pair[0]).collect();
        repeated.dedup();
        repeated
    }
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

/// Writes one compact JSON object, its members in the order given.
pub struct ObjectWriter(Vec<u8>);

impl Default for ObjectWriter {
    fn default() -> Self {
        Self::new()
    }
}

impl ObjectWriter {
    pub fn new() -> Self {
        Self(vec![b'{'])
    }

    /// With room for so many bytes: a large object is not copied while it grows.
    pub(crate) fn with_room(bytes: usize) -> Self {
        let mut object = Vec::with_capacity(bytes);
        object.push(b'{');
        Self(object)
    }

    /// An object with its `type`, which comes first.
    pub fn of(type_name: &str) -> Self {
        Self::new().member("type", type_name)
    }

    pub fn put<T: Serialize + ?Sized>(&mut self, key: &str, value: &T) {
        if self.0.len() > 1 {
            self.0.push(b',');
        }
        self.value(key);
        self.0.push(b':');
        self.value(value);
    }

    pub fn put_all<'a, T: Serialize + 'a>(&mut self, members: impl IntoIterator<Item = (&'a str, T)>) {
        members.into_iter().for_each(|(key, value)| self.put(key, &value));
    }

    #[must_use]
    pub fn member<T: Serialize + ?Sized>(mut self, key: &str, value: &T) -> Self {
        self.put(key, value);
        self
    }

    #[must_use]
    pub fn optional<T: Serialize>(self, key: &str, value: Option<T>) -> Self {
        match value {
            Some(value) => self.member(key, &value),
            None => self,
        }
    }

    #[must_use]
    pub fn members<'m, T: Serialize + 'm>(mut self, members: impl IntoIterator<Item = (&'m str, T)>) -> Self {
        self.put_all(members);
        self
    }

    /// Members that were written before, by [`ObjectWriter::into_members`].
    pub(crate) fn put_written(&mut self, members: &[u8]) {
        if self.0.len() > 1 && !members.is_empty() {
            self.0.push(b',');
        }
        self.0.extend_from_slice(members);
    }

    /// The members alone, without the braces around them.
    pub(crate) fn into_members(mut self) -> Vec<u8> {
        self.0.remove(0);
        self.0
    }

    pub fn finish(mut self) -> Vec<u8> {
        self.0.push(b'}');
        self.0
    }

    pub fn json(self) -> Json {
        let text = String::from_utf8(self.finish()).expect("only text is written");
        Json::parse(text).expect("an object was written")
    }

    fn value<T: Serialize + ?Sized>(&mut self, value: &T) {
        serde_json::to_writer(&mut self.0, value).expect("strings, numbers and parsed JSON are always written");
    }
}

//! JSON read in place: the members of an object, undecoded, and the writer that puts an object together.
//!
//! Transcripts have duplicate keys, integers of any size and halves of surrogate pairs. What is kept is kept as text;
//! what is read is read as far as it goes.

use std::borrow::Cow;
use std::fmt;

use enjamb_core::Json;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// Where a key occurs more than once, the last counts, as with other readers.
#[derive(Debug)]
pub(crate) struct Object<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'a> Object<'a> {
    pub(crate) fn parse(text: &'a str) -> Option<Self> {
        // What is no object is told at a glance: the error would quote all of it.
        text.trim_start().starts_with('{').then(|| serde_json::from_str(text).ok())?
    }

    /// The value under a key; null is as good as none.
    pub(crate) fn get(&self, key: &str) -> Option<&'a str> {
        let (_, value) = self.0.iter().rfind(|(name, _)| name == key)?;
        Some(value.get()).filter(|text| *text != "null")
    }

    pub(crate) fn members(&self) -> impl Iterator<Item = (&str, &'a str)> {
        self.0.iter().map(|(key, value)| (key.as_ref(), value.get()))
    }

    pub(crate) fn text(&self, key: &str) -> Option<String> {
        text(self.get(key)?)
    }

    pub(crate) fn text_or_empty(&self, key: &str) -> String {
        self.text(key).unwrap_or_default()
    }

    pub(crate) fn object(&self, key: &str) -> Option<Object<'a>> {
        Object::parse(self.get(key)?)
    }

    pub(crate) fn array(&self, key: &str) -> Option<Vec<&'a str>> {
        array(self.get(key)?)
    }

    pub(crate) fn number(&self, key: &str) -> Option<u64> {
        self.get(key)?.parse().ok()
    }

    pub(crate) fn flag(&self, key: &str) -> bool {
        self.get(key) == Some("true")
    }

    pub(crate) fn json(&self, key: &str) -> Option<Json> {
        self.get(key).map(json)
    }
}

/// A string's text. Half a surrogate pair has none, and is shown by the character for that.
pub(crate) fn text(raw: &str) -> Option<String> {
    let inner = raw.strip_prefix('"')?.strip_suffix('"')?;
    if !inner.contains('\\') {
        return Some(inner.to_owned());
    }
    serde_json::from_str(raw).ok().or_else(|| Some(unescaped_lossily(inner)))
}

fn unescaped_lossily(inner: &str) -> String {
    let mut units: Vec<u16> = Vec::new();
    let mut rest = inner.chars();
    while let Some(found) = rest.next() {
        if found == '\\' {
            units.push(escaped(&mut rest));
        } else {
            units.extend_from_slice(found.encode_utf16(&mut [0; 2]));
        }
    }
    String::from_utf16_lossy(&units)
}

fn escaped(rest: &mut std::str::Chars<'_>) -> u16 {
    match rest.next() {
        Some('n') => u16::from(b'\n'),
        Some('t') => u16::from(b'\t'),
        Some('r') => u16::from(b'\r'),
        Some('b') => 8,
        Some('f') => 12,
        Some('u') => {
            let digits: String = rest.by_ref().take(4).collect();
            u16::from_str_radix(&digits, 16).unwrap_or(0xfffd)
        }
        Some(other) => u16::try_from(u32::from(other)).unwrap_or(0xfffd),
        None => 0xfffd,
    }
}

pub(crate) fn array(raw: &str) -> Option<Vec<&str>> {
    let values: Vec<&RawValue> = raw.trim_start().starts_with('[').then(|| serde_json::from_str(raw).ok())??;
    Some(values.into_iter().map(RawValue::get).collect())
}

/// A value on one line. A line end can only stand between two tokens, where it means nothing.
pub(crate) fn json(raw: &str) -> Json {
    let text = if raw.contains(['\n', '\r']) { raw.replace(['\n', '\r'], "") } else { raw.to_owned() };
    Json::parse(text).expect("a part of parsed JSON is JSON")
}

pub(crate) fn json_text(text: &str) -> Json {
    Json::from(serde_json::Value::from(text))
}

/// Text that should be JSON, or else a JSON string of it.
pub(crate) fn json_or_text(text: &str) -> Json {
    match serde_json::from_str::<&RawValue>(text) {
        Ok(value) => json(value.get()),
        Err(_) => json_text(text),
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Object<'a> {
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
pub(crate) struct Writer(Vec<u8>);

impl Writer {
    pub(crate) fn new() -> Self {
        Self(vec![b'{'])
    }

    /// An object with its `type`, which comes first.
    pub(crate) fn of(type_name: &str) -> Self {
        Self::new().member("type", type_name)
    }

    #[must_use]
    pub(crate) fn member<T: Serialize + ?Sized>(mut self, key: &str, value: &T) -> Self {
        if self.0.len() > 1 {
            self.0.push(b',');
        }
        self.value(key);
        self.0.push(b':');
        self.value(value);
        self
    }

    #[must_use]
    pub(crate) fn optional<T: Serialize>(self, key: &str, value: Option<T>) -> Self {
        match value {
            Some(value) => self.member(key, &value),
            None => self,
        }
    }

    #[must_use]
    pub(crate) fn members<'m>(self, members: impl IntoIterator<Item = (&'m str, Json)>) -> Self {
        members.into_iter().fold(self, |out, (key, value)| out.member(key, &value))
    }

    pub(crate) fn json(mut self) -> Json {
        self.0.push(b'}');
        let text = String::from_utf8(self.0).expect("only text is written");
        Json::parse(text).expect("an object was written")
    }

    fn value<T: Serialize + ?Sized>(&mut self, value: &T) {
        serde_json::to_writer(&mut self.0, value).expect("strings, numbers and parsed JSON are always written");
    }
}

/// Objects, one a line.
pub(crate) fn write_lines<'j>(objects: impl IntoIterator<Item = &'j Json>) -> Vec<u8> {
    let mut out = Vec::new();
    for object in objects {
        out.extend_from_slice(object.get().as_bytes());
        out.push(b'\n');
    }
    out
}

pub(crate) fn write_array(items: &[Json]) -> Vec<u8> {
    serde_json::to_vec(items).expect("parsed JSON is always written")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_a_surrogate_pair_is_shown_as_such() {
        assert_eq!(text(r#""a\ud83d b""#).as_deref(), Some("a\u{fffd} b"));
        assert_eq!(text(r#""\ud83d\ude00\n\"\\\/\u0041""#).as_deref(), Some("😀\n\"\\/A"));
        assert_eq!(text(r#""\ud83d \ud83d\ude00""#).as_deref(), Some("\u{fffd} 😀"));
        assert_eq!(text("7"), None);
    }

    #[test]
    fn the_last_of_two_members_counts() {
        let object = Object::parse(r#"{"a":1,"b":null,"a":2}"#).unwrap();
        assert_eq!((object.number("a"), object.get("b"), object.get("c")), (Some(2), None, None));
    }

    #[test]
    fn a_kept_value_stands_on_one_line() {
        assert_eq!(json("{\n \"a\": [1,\r\n2]}").get(), "{ \"a\": [1,2]}");
        assert_eq!(json_or_text("{\"n\":1e999}").get(), "{\"n\":1e999}");
        assert_eq!(json_or_text("*** Begin").get(), "\"*** Begin\"");
    }
}

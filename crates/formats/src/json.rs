//! JSON read in place: what the members of an object hold, undecoded until asked for.
//!
//! Transcripts have duplicate keys, integers of any size and halves of surrogate pairs. What is kept is kept as text;
//! what is read is read as far as it goes.

mod scan;
mod split;

use std::borrow::Cow;

use enjamb_core::Json;
pub(crate) use enjamb_core::json::ObjectWriter as Writer;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

/// The members of an object. Where a key occurs more than once, the last counts, as with other JSON readers.
#[derive(Debug)]
pub(crate) struct Object<'a>(Vec<(Cow<'a, str>, &'a str)>);

impl<'a> Object<'a> {
    /// Of a text that may be anything.
    pub(crate) fn parse(text: &'a str) -> Option<Self> {
        // What is no object is told at a glance: the error would quote all of it.
        let is_object = text.trim_start().starts_with('{') && serde_json::from_str::<IgnoredAny>(text).is_ok();
        is_object.then(|| Self::within(text))?
    }

    /// Of a text that is JSON, or a value of such a text.
    pub(crate) fn within(text: &'a str) -> Option<Self> {
        split::members(text).map(Self)
    }

    /// The value under a key; null is as good as none.
    pub(crate) fn get(&self, key: &str) -> Option<&'a str> {
        let (_, value) = self.0.iter().rfind(|(name, _)| name == key)?;
        Some(*value).filter(|text| *text != "null")
    }

    pub(crate) fn members(&self) -> impl Iterator<Item = (&str, &'a str)> {
        self.0.iter().map(|(key, value)| (key.as_ref(), *value))
    }

    pub(crate) fn text(&self, key: &str) -> Option<String> {
        text(self.get(key)?)
    }

    pub(crate) fn text_or_empty(&self, key: &str) -> String {
        self.text(key).unwrap_or_default()
    }

    pub(crate) fn object(&self, key: &str) -> Option<Object<'a>> {
        Object::within(self.get(key)?)
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

/// Whether a text is one JSON value and nothing else.
pub(crate) fn is_value(text: &str) -> bool {
    scan::is_value(text)
}

/// A string's text. Half a surrogate pair has none, and is shown by the character for that.
pub(crate) fn text(raw: &str) -> Option<String> {
    let inner = raw.strip_prefix('"')?.strip_suffix('"')?;
    Some(unescaped(inner).unwrap_or_else(|| unescaped_lossily(inner)))
}

/// How many bytes the text of a string has, where that can be told without reading it.
pub(crate) fn text_len(raw: &str) -> Option<usize> {
    scan::text_len(raw.strip_prefix('"')?.strip_suffix('"')?.as_bytes())
}

/// The text, copied once from escape to escape; `None` where an escape is none that stands for a character by itself.
fn unescaped(inner: &str) -> Option<String> {
    let mut out = String::with_capacity(inner.len());
    let mut rest = inner;
    while let Some(at) = memchr::memchr(b'\\', rest.as_bytes()) {
        let (plain, escape) = rest.split_at(at);
        out.push_str(plain);
        let (found, len) = match escape.as_bytes().get(1)? {
            b'n' => ('\n', 2),
            found @ (b'"' | b'\\' | b'/') => (char::from(*found), 2),
            b't' => ('\t', 2),
            b'r' => ('\r', 2),
            b'b' => ('\u{8}', 2),
            b'f' => ('\u{c}', 2),
            b'u' => numbered(escape)?,
            _ => return None,
        };
        out.push(found);
        rest = &escape[len..];
    }
    out.push_str(rest);
    Some(out)
}

/// The character that one or two escapes by number stand for, and the bytes that they take.
fn numbered(escape: &str) -> Option<(char, usize)> {
    let unit = |at: usize| {
        let digits = escape.get(at..at + 6)?.strip_prefix("\\u")?;
        digits.bytes().all(|digit| digit.is_ascii_hexdigit()).then(|| u16::from_str_radix(digits, 16).ok())?
    };
    let first = unit(0)?;
    if let Some(found) = char::from_u32(u32::from(first)) {
        return Some((found, 6));
    }
    let found = char::decode_utf16([first, unit(6)?]).next()?.ok()?;
    Some((found, 12))
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

/// The values of an array that is a value of a text that is JSON.
pub(crate) fn array(raw: &str) -> Option<Vec<&str>> {
    split::values(raw)
}

/// A value on one line. A line end can only stand between two tokens, where it means nothing.
pub(crate) fn json(raw: &str) -> Json {
    let text = if memchr::memchr2(b'\n', b'\r', raw.as_bytes()).is_some() {
        raw.replace(['\n', '\r'], "")
    } else {
        raw.to_owned()
    };
    Json::parse(text).expect("a part of parsed JSON is JSON")
}

/// A value without the space between its tokens.
pub(crate) fn compact(raw: &str) -> String {
    let mut out = String::with_capacity(raw.len());
    let (mut is_inside, mut is_escaped) = (false, false);
    for found in raw.chars() {
        if is_inside || !found.is_ascii_whitespace() {
            out.push(found);
        }
        match found {
            '"' if !is_escaped => is_inside = !is_inside,
            _ => {}
        }
        is_escaped = is_inside && found == '\\' && !is_escaped;
    }
    out
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

/// The object with one member set, everything else as it was. A member that is new comes first.
pub(crate) fn with_member(text: &str, key: &str, value: &str) -> String {
    let Some(object) = Object::parse(text) else { return text.to_owned() };
    let old = object.members().filter(|(name, _)| *name == key).last().map(|(_, old)| old);
    match old {
        Some(old) => spliced(text, old, value),
        None => {
            let start = text.find('{').unwrap_or_default() + 1;
            let comma = if object.members().next().is_some() { "," } else { "" };
            let key = json_text(key);
            format!("{}{}:{value}{comma}{}", &text[..start], key.get(), &text[start..])
        }
    }
}

/// The object without a member.
pub(crate) fn without_member(text: &str, key: &str) -> String {
    let Some(object) = Object::parse(text) else { return text.to_owned() };
    let kept = object.members().filter(|(name, _)| *name != key).map(|(name, value)| (name, json(value)));
    Writer::new().members(kept).json().get().to_owned()
}

/// A text in which another stands in the place of a part of it.
pub(crate) fn spliced(text: &str, part: &str, new: &str) -> String {
    let start = part.as_ptr() as usize - text.as_ptr() as usize;
    format!("{}{new}{}", &text[..start], &text[start + part.len()..])
}

/// Values, in an array.
pub(crate) fn array_text<'a>(items: impl IntoIterator<Item = &'a str>) -> String {
    let items: Vec<&str> = items.into_iter().collect();
    format!("[{}]", items.join(","))
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
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn half_a_surrogate_pair_is_shown_as_such() {
        assert_eq!(text(r#""a\ud83d b""#).as_deref(), Some("a\u{fffd} b"));
        assert_eq!(text(r#""\ud83d\ude00\n\"\\\/\u0041""#).as_deref(), Some("😀\n\"\\/A"));
        assert_eq!(text(r#""\ud83d \ud83d\ude00""#).as_deref(), Some("\u{fffd} 😀"));
        assert_eq!(text("7"), None);
        assert_eq!(text("\"").as_deref(), None);
        assert_eq!(text(r#""\ud83dx\ude00 \ude00\ud83d""#).as_deref(), Some("\u{fffd}x\u{fffd} \u{fffd}\u{fffd}"));
    }

    proptest! {
        #[test]
        fn a_text_is_what_a_parser_makes_of_it(
            parts in prop::collection::vec(
                prop_oneof![
                    any::<String>().prop_map(|text| {
                        let quoted = serde_json::to_string(&text).unwrap();
                        quoted[1..quoted.len() - 1].to_owned()
                    }),
                    any::<u16>().prop_map(|unit| format!("\\u{unit:04X}")),
                    any::<char>().prop_map(|found| {
                        found.encode_utf16(&mut [0; 2]).iter().map(|unit| format!("\\u{unit:04x}")).collect()
                    }),
                    r#"\\["\\/bfnrt]"#,
                ],
                0..8,
            ),
        ) {
            let inner = parts.concat();
            let expected = serde_json::from_str(&format!("\"{inner}\"")).unwrap_or_else(|_| unescaped_lossily(&inner));
            prop_assert_eq!(text(&format!("\"{inner}\"")), Some(expected));
        }
    }

    #[test]
    fn the_last_of_two_members_counts() {
        let object = Object::parse(r#"{"a":1,"b":null,"a":2}"#).unwrap();
        assert_eq!((object.number("a"), object.get("b"), object.get("c")), (Some(2), None, None));
    }

    #[test]
    fn a_member_is_set_and_the_rest_stays() {
        assert_eq!(with_member(r#"{ "a": 1, "b" : null }"#, "b", "2"), r#"{ "a": 1, "b" : 2 }"#);
        assert_eq!(with_member(r#"{"a":1}"#, "b", "2"), r#"{"b":2,"a":1}"#);
        assert_eq!(with_member("{}", "b", "2"), r#"{"b":2}"#);
        assert_eq!(without_member(r#"{"a":1,"b":2}"#, "a"), r#"{"b":2}"#);
    }

    #[test]
    fn a_kept_value_stands_on_one_line() {
        assert_eq!(json("{\n \"a\": [1,\r\n2]}").get(), "{ \"a\": [1,2]}");
        assert_eq!(compact("{\n \"a \\\" b\\\\\" : [ 1e999 , \"\"]\t}"), "{\"a \\\" b\\\\\":[1e999,\"\"]}");
        assert_eq!(json_or_text("{\"n\":1e999}").get(), "{\"n\":1e999}");
        assert_eq!(json_or_text("*** Begin").get(), "\"*** Begin\"");
    }
}

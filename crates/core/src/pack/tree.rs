//! JSON as ECMAScript holds and writes it, because hashes are taken over its text.
//!
//! Members keep their order, except that names which are array indices come first, by number; of a name that occurs
//! twice the last value counts, in the place of the first. Numbers are doubles and written in the shortest way that
//! reads back the same; strings escape only what must be.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};

#[derive(Clone, Debug, PartialEq)]
pub enum Tree {
    Null,
    Bool(bool),
    Number(f64),
    Text(String),
    List(Vec<Tree>),
    Object(Vec<(String, Tree)>),
}

impl Tree {
    /// Numbers are read exactly, for which serde_json needs its feature `float_roundtrip`.
    pub fn parse(json: &[u8]) -> Result<Self, serde_json::Error> {
        serde_json::from_slice(json)
    }

    /// As `JSON.stringify(value)` writes it.
    pub fn compact(&self) -> String {
        let mut out = String::new();
        self.write(&mut out, None);
        out
    }

    /// As `JSON.stringify(value, null, 2)` writes it.
    pub fn pretty(&self) -> String {
        let mut out = String::new();
        self.write(&mut out, Some(0));
        out
    }

    /// The same with the members of every object in the order of the UTF-16 code units of their names.
    #[must_use]
    pub fn sorted(self) -> Self {
        match self {
            Self::List(items) => Self::List(items.into_iter().map(Self::sorted).collect()),
            Self::Object(members) => {
                let mut members: Vec<_> = members.into_iter().map(|(name, value)| (name, value.sorted())).collect();
                members.sort_by(|(a, _), (b, _)| a.encode_utf16().cmp(b.encode_utf16()));
                Self::Object(members)
            }
            other => other,
        }
    }

    /// The same with only those members, at every depth, whose names are among `names`.
    #[must_use]
    pub fn only(self, names: &[String]) -> Self {
        match self {
            Self::List(items) => Self::List(items.into_iter().map(|item| item.only(names)).collect()),
            Self::Object(members) => {
                let kept = members.into_iter().filter(|(name, _)| names.contains(name));
                Self::Object(kept.map(|(name, value)| (name, value.only(names))).collect())
            }
            other => other,
        }
    }

    fn write(&self, out: &mut String, indent: Option<usize>) {
        match self {
            Self::Null => out.push_str("null"),
            Self::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
            // What is out of a double's range has no number in JSON.
            Self::Number(value) if !value.is_finite() => out.push_str("null"),
            Self::Number(value) => out.push_str(ryu_js::Buffer::new().format(*value)),
            Self::Text(text) => out.push_str(&quoted(text)),
            Self::List(items) => {
                let parts = items.iter().map(|item| (String::new(), item));
                write_parts(out, indent, ['[', ']'], parts);
            }
            Self::Object(members) => {
                let space = if indent.is_some() { " " } else { "" };
                let parts = members.iter().map(|(name, value)| (format!("{}:{space}", quoted(name)), value));
                write_parts(out, indent, ['{', '}'], parts);
            }
        }
    }
}

fn write_parts<'t>(
    out: &mut String,
    indent: Option<usize>,
    [open, close]: [char; 2],
    parts: impl Iterator<Item = (String, &'t Tree)>,
) {
    let inner = indent.map(|depth| depth + 2);
    let new_line = |out: &mut String, indent: Option<usize>| {
        if let Some(depth) = indent {
            out.push('\n');
            out.extend(std::iter::repeat_n(' ', depth));
        }
    };
    out.push(open);
    let mut is_empty = true;
    for (label, value) in parts {
        if !is_empty {
            out.push(',');
        }
        is_empty = false;
        new_line(out, inner);
        out.push_str(&label);
        value.write(out, inner);
    }
    if !is_empty {
        new_line(out, indent);
    }
    out.push(close);
}

/// A JSON string. Both writers escape the same characters in the same way.
pub(super) fn quoted(text: &str) -> String {
    serde_json::to_string(text).expect("text is always JSON")
}

/// The number that a name is, if objects keep it among their indices.
fn index(name: &str) -> Option<u32> {
    let number: u32 = name.parse().ok()?;
    (number != u32::MAX && number.to_string() == name).then_some(number)
}

struct TreeVisitor;

impl<'de> Visitor<'de> for TreeVisitor {
    type Value = Tree;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Tree, E> {
        Ok(Tree::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Tree, E> {
        Ok(Tree::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Tree, E> {
        Ok(Tree::Number(value as f64))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Tree, E> {
        Ok(Tree::Number(value as f64))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Tree, E> {
        Ok(Tree::Number(value))
    }

    fn visit_str<E>(self, text: &str) -> Result<Tree, E> {
        Ok(Tree::Text(text.to_owned()))
    }

    fn visit_string<E>(self, text: String) -> Result<Tree, E> {
        Ok(Tree::Text(text))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Tree, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(Tree::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Tree, A::Error> {
        let mut members: Vec<(String, Tree)> = Vec::new();
        let mut places = std::collections::HashMap::new();
        while let Some((name, value)) = map.next_entry::<String, Tree>()? {
            match places.get(&name) {
                Some(&place) => members[place] = (name, value),
                None => {
                    places.insert(name.clone(), members.len());
                    members.push((name, value));
                }
            }
        }
        members.sort_by_key(|(name, _)| index(name).map_or(u64::MAX, u64::from));
        Ok(Tree::Object(members))
    }
}

impl<'de> Deserialize<'de> for Tree {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TreeVisitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(json: &str, compact: &str) {
        assert_eq!(Tree::parse(json.as_bytes()).unwrap().compact(), compact, "{json}");
    }

    #[test]
    fn text_is_what_json_stringify_makes_of_it() {
        check(r#"[1.0, -0, 1e21, 1E-7, 123456789012345680000, 0.1]"#, "[1,0,1e+21,1e-7,123456789012345680000,0.1]");
        check(r#""\u002f\u2028\u00e9\u0008\u000b\u007f""#, "\"/\u{2028}é\\b\\u000b\u{7f}\"");
        check(r#"{"b":1,"10":2,"9":3,"a":4,"b":5,"01":6}"#, r#"{"9":3,"10":2,"b":5,"a":4,"01":6}"#);
        check("[ ]", "[]");
    }

    #[test]
    fn pretty_text_is_indented_by_two() {
        let tree = Tree::parse(br#"{"a":[1,{}],"b":[]}"#).unwrap();
        assert_eq!(tree.pretty(), "{\n  \"a\": [\n    1,\n    {}\n  ],\n  \"b\": []\n}");
    }

    #[test]
    fn names_are_sorted_by_utf16() {
        let tree = Tree::parse(r#"{"\uff5e":1,"😀":2,"z":{"b":1,"a":2}}"#.as_bytes()).unwrap();
        assert_eq!(tree.sorted().compact(), "{\"z\":{\"a\":2,\"b\":1},\"😀\":2,\"～\":1}");
    }
}

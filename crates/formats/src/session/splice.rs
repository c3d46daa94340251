//! Values of an object exchanged in its text, so that every other byte stays what it was.

use crate::framing::{Framing, Item};
use crate::json::Object;

/// An object and what is to stand in it instead.
pub(super) struct Splice<'a> {
    text: &'a str,
    edits: Vec<(usize, usize, String)>,
}

impl<'a> Splice<'a> {
    pub(super) fn of(text: &'a str) -> Self {
        Self { text, edits: Vec::new() }
    }

    /// Puts `new` where `old` stands, which must be a part of the text.
    pub(super) fn put(&mut self, old: &str, new: &str) {
        let start = old.as_ptr() as usize - self.text.as_ptr() as usize;
        if self.text.get(start..start + old.len()) == Some(old) && old != new {
            self.edits.push((start, start + old.len(), new.to_owned()));
        }
    }

    /// Puts a string under every member of this name that holds one.
    pub(super) fn put_text(&mut self, object: &Object<'a>, key: &str, new: &str) {
        for (_, value) in object.members().filter(|(name, value)| *name == key && value.starts_with('"')) {
            self.put(value, &quoted(new));
        }
    }

    pub(super) fn finish(mut self) -> String {
        self.edits.sort_unstable();
        let mut out = String::with_capacity(self.text.len() + 16);
        let mut at = 0;
        for (start, end, new) in &self.edits {
            out.push_str(&self.text[at..*start]);
            out.push_str(new);
            at = *end;
        }
        out.push_str(&self.text[at..]);
        out
    }
}

pub(super) fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// Looks at each record that is an object.
pub(super) fn each_object(bytes: &[u8], mut visit: impl FnMut(&Object<'_>)) {
    let Ok(found) = Framing::JsonLines.items(bytes) else { return };
    found.items.iter().filter_map(|item| Object::parse(item.json())).for_each(|object| visit(&object));
}

/// Copies lines, with each item as `change` gives it back; what is no item stays. `None` leaves the item out.
pub(super) fn each_item(bytes: &[u8], out: &mut Vec<u8>, mut change: impl FnMut(&str) -> Option<String>) {
    let Ok(found) = Framing::JsonLines.items(bytes) else { return };
    let mut at = 0;
    for Item { range, content, .. } in &found.items {
        out.extend_from_slice(&bytes[at..range.start]);
        at = range.end;
        match content {
            // What is not text as it stands was read with signs for what could not be: it stays as it is.
            crate::framing::Content::Json(text) if text.as_bytes() != &bytes[range.clone()] => {
                out.extend_from_slice(&bytes[range.clone()]);
            }
            crate::framing::Content::Json(text) => match change(text) {
                Some(changed) => out.extend_from_slice(changed.as_bytes()),
                None => at = after_newline(bytes, range.end),
            },
            crate::framing::Content::Cbor(_) => {}
        }
    }
    out.extend_from_slice(&bytes[at..]);
    if !out.is_empty() && !out.ends_with(b"\n") {
        out.push(b'\n');
    }
}

fn after_newline(bytes: &[u8], at: usize) -> usize {
    if bytes.get(at) == Some(&b'\n') { at + 1 } else { at }
}

/// A path in its new place, if it was in the old one.
pub(super) fn moved(path: &str, from: Option<&str>, to: &str) -> Option<String> {
    let rest = path.strip_prefix(from?)?;
    (rest.is_empty() || rest.starts_with('/')).then(|| format!("{to}{rest}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_exchanged_changes() {
        let text = r#"{"a" : "x","b":[1, 2] ,"a":"y","c":"x"}"#;
        let mut splice = Splice::of(text);
        splice.put_text(&Object::parse(text).unwrap(), "a", "z\"");
        assert_eq!(splice.finish(), r#"{"a" : "z\"","b":[1, 2] ,"a":"z\"","c":"x"}"#);
    }

    #[test]
    fn what_is_no_item_stays_and_the_last_line_ends() {
        let mut out = Vec::new();
        each_item(b"{\"a\":1}{\"b\":2}\n\ntorn {\n{\"c\":3}\n{\"d\":4}", &mut out, |text| {
            (!text.contains('c')).then(|| text.replace('1', "one"))
        });
        assert_eq!(String::from_utf8(out).unwrap(), "{\"a\":one}{\"b\":2}\n\ntorn {\n{\"d\":4}\n");
    }

    #[test]
    fn a_path_moves_with_its_directory_only() {
        assert_eq!(moved("/a/b", Some("/a"), "/z").as_deref(), Some("/z/b"));
        assert_eq!(moved("/a", Some("/a"), "/z").as_deref(), Some("/z"));
        assert_eq!(moved("/ab", Some("/a"), "/z"), None);
        assert_eq!(moved("/a", None, "/z"), None);
    }
}

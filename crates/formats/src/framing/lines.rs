//! Lines of JSON: one value each, told apart by newlines alone, so that a damaged line never hides its neighbours.
//!
//! Real files have what a strict reader would refuse: two values on one line where a session was continued from a copy
//! without its last newline, a document written over several lines, a hole of NULs where a machine went down, a last line cut off. Values that can be read are
//! items; everything else is damage, with its place.

use std::borrow::Cow;

use memchr::{memchr, memchr_iter};
use serde_json::value::RawValue;

use super::{Content, Item, Items, Piece, Weight};
use crate::json;
use crate::position::Position;
use crate::problem::{Code, Problem};

pub(super) fn items(bytes: &[u8]) -> Items<'_> {
    let mut found = Items::default();
    for line in lines(bytes) {
        line.read(&mut found);
    }
    found
}

/// The end of every line that is not blank; blank lines at the end go with the last.
pub(super) fn ends(bytes: &[u8]) -> Vec<usize> {
    let filled = lines(bytes).filter(|line| !line.bytes.trim_ascii().is_empty());
    let mut ends: Vec<usize> = filled.map(|line| line.end).collect();
    if let Some(last) = ends.last_mut() {
        *last = bytes.len();
    }
    ends
}

/// The delta as it is, and a newline if it lacks one.
pub(super) fn piece(delta: &[u8]) -> Piece<'_> {
    let after: &[u8] = if delta.is_empty() || delta.ends_with(b"\n") { b"" } else { b"\n" };
    Piece { before: b"", body: delta, after, weight: Weight::default() }
}

struct Line<'a> {
    number: u64,
    start: usize,
    /// After its newline.
    end: usize,
    /// Without its newline.
    bytes: &'a [u8],
}

fn lines(bytes: &[u8]) -> impl Iterator<Item = Line<'_>> {
    let (mut start, mut number) = (0, 1);
    std::iter::from_fn(move || {
        let rest = bytes.get(start..).filter(|rest| !rest.is_empty())?;
        let one = memchr(b'\n', rest).map_or(rest.len(), |at| at + 1);
        let spread = if rest[..one].trim_ascii_end() == b"{" { spread(rest) } else { None };
        let whole = &rest[..spread.unwrap_or(one)];
        let line = Line { number, start, end: start + whole.len(), bytes: whole.strip_suffix(b"\n").unwrap_or(whole) };
        start = line.end;
        number += spread.map_or(1, |_| memchr_iter(b'\n', whole).count().max(1) as u64);
        Some(line)
    })
}

/// Where a value ends that is written over several lines, as documents are. Nothing else may stand on its last line.
fn spread(rest: &[u8]) -> Option<usize> {
    let mut values = serde_json::Deserializer::from_slice(rest).into_iter::<serde::de::IgnoredAny>();
    values.next()?.ok()?;
    let value_end = values.byte_offset();
    let line_end = memchr(b'\n', &rest[value_end..]).map_or(rest.len(), |at| value_end + at + 1);
    rest[value_end..line_end].trim_ascii().is_empty().then_some(line_end)
}

impl<'a> Line<'a> {
    fn read(&self, found: &mut Items<'a>) {
        let sound = self.without_nuls(found);
        match std::str::from_utf8(sound) {
            Ok(text) => self.read_values(sound, text, found),
            Err(cause) => {
                self.damaged(found, sound, cause.valid_up_to(), "holds bytes that are not UTF-8");
                self.read_lossily(sound, found);
            }
        }
    }

    /// A crash may leave a hole of NULs where bytes were never written.
    fn without_nuls(&self, found: &mut Items<'a>) -> &'a [u8] {
        let is_content = |byte: &u8| *byte != 0 && !byte.is_ascii_whitespace();
        let first = self.bytes.iter().position(is_content).unwrap_or(self.bytes.len());
        let last = self.bytes.iter().rposition(is_content).map_or(first, |last| last + 1);
        if self.bytes[..first].contains(&0) || self.bytes[last..].contains(&0) {
            self.damaged(found, self.bytes, 0, "holds NUL bytes");
        }
        &self.bytes[first..last]
    }

    fn read_values(&self, sound: &'a [u8], text: &'a str, found: &mut Items<'a>) {
        let base = offset_in(self.bytes, sound);
        // Nearly every line is just one value, which is told sooner than what else a line may be.
        if json::is_value(text) {
            let start = self.start + base;
            let range = start..start + text.len();
            found.items.push(Item { at: self.at(start), range, content: Content::Json(text.into()) });
            return;
        }
        let mut rest = serde_json::Deserializer::from_str(text).into_iter::<&RawValue>();
        loop {
            let begun = rest.byte_offset();
            match rest.next() {
                None => return,
                Some(Ok(value)) => {
                    let start = self.start + base + offset_in(sound, value.get().as_bytes());
                    let range = start..start + value.get().len();
                    found.items.push(Item { at: self.at(start), range, content: Content::Json(value.get().into()) });
                }
                Some(Err(cause)) => {
                    self.damaged(found, sound, begun, &format!("is not JSON: {}", cause_of(&cause)));
                    return;
                }
            }
        }
    }

    /// What is left when the bytes that are no text are replaced may still be read.
    fn read_lossily(&self, sound: &'a [u8], found: &mut Items<'a>) {
        let text = String::from_utf8_lossy(sound).into_owned();
        if serde_json::from_str::<&RawValue>(&text).is_ok() {
            let start = self.start + offset_in(self.bytes, sound);
            let content = Content::Json(Cow::Owned(text));
            found.items.push(Item { at: self.at(start), range: start..start + sound.len(), content });
        }
    }

    fn damaged(&self, found: &mut Items<'a>, sound: &[u8], offset: usize, what: &str) {
        let at = self.at(self.start + offset_in(self.bytes, sound) + offset);
        found.damage.add(|| Problem::warning(Code::DamagedLine, at, format!("The line {what}.")));
    }

    fn at(&self, offset: usize) -> Position {
        Position::Line { number: self.number, offset: offset as u64 }
    }
}

/// Where a part of some bytes begins in them.
fn offset_in(whole: &[u8], part: &[u8]) -> usize {
    part.as_ptr() as usize - whole.as_ptr() as usize
}

/// The reason alone: the line and column that serde_json adds are those of a piece, not of the delta.
fn cause_of(error: &serde_json::Error) -> String {
    let text = error.to_string();
    text.split(" at line ").next().unwrap_or(&text).to_owned()
}

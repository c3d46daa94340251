//! How a delta is cut into items, whatever the items say: lines of JSON, an array of JSON, an array of CBOR.
//!
//! Joining and splitting depend on the framing alone, never on what an item means, so that every delta can be joined to
//! its neighbours byte for byte, also one written by a runtime newer than this code.

mod array;
mod cbor_array;
mod lines;

use std::borrow::Cow;
use std::ops::{AddAssign, Range};

use crate::position::Position;
use crate::problem::Problem;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Framing {
    /// One JSON value a line.
    JsonLines,
    /// One JSON array.
    JsonArray,
    /// One CBOR array.
    CborArray,
}

/// One item of a delta.
#[derive(Debug)]
pub struct Item<'a> {
    pub at: Position,
    /// The bytes of the item itself, without separators.
    pub range: Range<usize>,
    pub content: Content<'a>,
}

#[derive(Debug)]
pub enum Content<'a> {
    Json(Cow<'a, str>),
    Cbor(Cow<'a, [u8]>),
}

impl Content<'_> {
    pub(crate) fn borrowed(&self) -> Content<'_> {
        match self {
            Self::Json(text) => Content::Json(Cow::Borrowed(text)),
            Self::Cbor(bytes) => Content::Cbor(Cow::Borrowed(bytes)),
        }
    }
}

impl Item<'_> {
    /// The item as JSON; empty where the framing is another.
    pub fn json(&self) -> &str {
        match &self.content {
            Content::Json(text) => text,
            Content::Cbor(_) => "",
        }
    }

    /// The item as CBOR; empty where the framing is another.
    pub fn cbor(&self) -> &[u8] {
        match &self.content {
            Content::Cbor(bytes) => bytes,
            Content::Json(_) => b"",
        }
    }
}

/// What a delta consists of.
#[derive(Debug, Default)]
pub struct Items<'a> {
    pub items: Vec<Item<'a>>,
    /// Places that are no items, in a framing in which the items around them can be told apart all the same.
    pub damage: DamageReport,
}

/// Damaged places: how many, and the first of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DamageReport {
    pub count: u64,
    pub first: Vec<Problem>,
}

impl DamageReport {
    /// Places that are described. A file of another kind is damaged in every line, and the rest tells nothing new.
    const DESCRIBED_MAX: usize = 20;

    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    fn add(&mut self, problem: impl FnOnce() -> Problem) {
        self.count += 1;
        if self.first.len() < Self::DESCRIBED_MAX {
            self.first.push(problem());
        }
    }
}

/// Why bytes are no delta at all.
#[derive(Debug)]
pub struct Unframed {
    pub at: Position,
    pub reason: String,
}

/// What a delta adds to the whole; weights are added up before the first byte is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Weight {
    pub items: u64,
}

impl AddAssign for Weight {
    fn add_assign(&mut self, other: Self) {
        self.items += other.items;
    }
}

/// What to write for one delta: three strings of bytes, of which only the middle one is the delta's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece<'a> {
    pub before: &'static [u8],
    pub body: &'a [u8],
    pub after: &'static [u8],
    pub weight: Weight,
}

impl Framing {
    pub const fn content_type(self) -> &'static str {
        match self {
            Self::JsonLines => "application/jsonl",
            Self::JsonArray => "application/json",
            Self::CborArray => "application/cbor",
        }
    }

    pub fn items(self, bytes: &[u8]) -> Result<Items<'_>, Unframed> {
        match self {
            Self::JsonLines => Ok(lines::items(bytes)),
            Self::JsonArray => array::items(bytes),
            Self::CborArray => cbor_array::items(bytes),
        }
    }

    /// Offsets that end an item, at any of which [`Framing::cut`] may part the delta.
    pub fn split(self, bytes: &[u8]) -> Result<Vec<usize>, Unframed> {
        match self {
            Self::JsonLines => Ok(lines::ends(bytes)),
            Self::JsonArray | Self::CborArray => {
                Ok(self.items(bytes)?.items.into_iter().map(|item| item.range.end).collect())
            }
        }
    }

    /// The delta in parts that end at rising offsets, each a delta of its own. What follows the last is left out.
    pub fn cut<'a>(self, bytes: &'a [u8], ends: &[usize]) -> Result<Vec<Cow<'a, [u8]>>, Unframed> {
        match self {
            Self::JsonLines => {
                let starts = std::iter::once(0).chain(ends.iter().copied());
                Ok(starts.zip(ends).map(|(start, end)| bytes.get(start..*end).unwrap_or_default().into()).collect())
            }
            Self::JsonArray | Self::CborArray => self.cut_array(bytes, ends),
        }
    }

    fn cut_array<'a>(self, bytes: &[u8], ends: &[usize]) -> Result<Vec<Cow<'a, [u8]>>, Unframed> {
        let items = self.items(bytes)?.items;
        let mut rest = items.as_slice();
        let mut parts = Vec::with_capacity(ends.len());
        for end in ends {
            let (part, later) = rest.split_at(rest.partition_point(|item| item.range.end <= *end));
            parts.push(self.wrapped(bytes, part).into());
            rest = later;
        }
        Ok(parts)
    }

    fn wrapped(self, bytes: &[u8], items: &[Item<'_>]) -> Vec<u8> {
        let mut out = self.head(Weight { items: items.len() as u64 });
        out.extend_from_slice(body(bytes, items));
        out.extend_from_slice(self.tail());
        out
    }

    pub fn weigh(self, delta: &[u8]) -> Result<Weight, Unframed> {
        let items = match self {
            // The items of lines need no header that counts them, so they need not be found.
            Self::JsonLines => 0,
            Self::JsonArray | Self::CborArray => self.items(delta)?.items.len() as u64,
        };
        Ok(Weight { items })
    }

    /// What comes before the first piece.
    pub fn head(self, total: Weight) -> Vec<u8> {
        match self {
            Self::JsonLines => Vec::new(),
            Self::JsonArray => b"[".to_vec(),
            Self::CborArray => cbor_array::header(total.items),
        }
    }

    /// What one delta adds, after as many items as were written before it.
    pub fn piece(self, delta: &[u8], written: Weight) -> Result<Piece<'_>, Unframed> {
        if self == Self::JsonLines {
            return Ok(lines::piece(delta));
        }
        let items = self.items(delta)?.items;
        let weight = Weight { items: items.len() as u64 };
        let body = body(delta, &items);
        let parted = self == Self::JsonArray && written.items > 0 && weight.items > 0;
        Ok(Piece { before: if parted { b"," } else { b"" }, body, after: b"", weight })
    }

    /// What comes after the last piece.
    pub const fn tail(self) -> &'static [u8] {
        match self {
            Self::JsonLines | Self::CborArray => b"",
            Self::JsonArray => b"]",
        }
    }
}

/// From the first byte of the first item to the last of the last.
fn body<'a>(delta: &'a [u8], items: &[Item<'_>]) -> &'a [u8] {
    match items {
        [] => b"",
        [first, .., last] => &delta[first.range.start..last.range.end],
        [only] => &delta[only.range.clone()],
    }
}

#[cfg(test)]
mod tests;

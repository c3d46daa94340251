//! Which artifacts a frame speaks of, whatever its type.

use std::collections::HashSet;

use crate::digest::nibble;
use crate::{ArtifactId, Digest};

const DIGITS: usize = 64;

/// Every run of exactly 64 lower-case hex digits in JSON text, each once, in order of first appearance.
///
/// What keeps artifacts from collection, so it errs towards finding too many: a foreign hash of the same length counts.
pub fn artifact_mentions(bytes: &[u8]) -> Vec<ArtifactId> {
    let mut seen = HashSet::new();
    let runs = Runs { bytes, from: 0 };
    runs.filter_map(|(start, end)| mention(bytes, start, end)).filter(|id| seen.insert(*id)).collect()
}

fn mention(bytes: &[u8], start: usize, end: usize) -> Option<ArtifactId> {
    let id_start = end - DIGITS;
    if id_start != start && !ends_with_escape(&bytes[..id_start]) {
        return None;
    }
    let hex = std::str::from_utf8(&bytes[id_start..end]).ok()?;
    Digest::from_hex(hex).map(ArtifactId::from_digest)
}

/// `\b`, `\f` and `\u00e9` end in what looks like hex digits but belongs to the character before the id.
fn ends_with_escape(before: &[u8]) -> bool {
    let unicode = before.len() >= 6 && before[before.len() - 6..].starts_with(b"\\u");
    before.ends_with(b"\\b") || before.ends_with(b"\\f") || unicode
}

/// Runs of at least 64 hex digits. Such a run covers one of every 64 positions, so only those are looked at.
struct Runs<'a> {
    bytes: &'a [u8],
    from: usize,
}

impl Iterator for Runs<'_> {
    type Item = (usize, usize);

    fn next(&mut self) -> Option<(usize, usize)> {
        while let Some(probe) = self.bytes.get(self.from + DIGITS - 1) {
            let at = self.from + DIGITS - 1;
            if nibble(*probe).is_none() {
                self.from = at + 1;
                continue;
            }
            let before = self.bytes[self.from..at].iter().rev().take_while(|byte| nibble(**byte).is_some()).count();
            let after = self.bytes[at..].iter().take_while(|byte| nibble(**byte).is_some()).count();
            let (start, end) = (at - before, at + after);
            self.from = end + 1;
            if end - start >= DIGITS {
                return Some((start, end));
            }
        }
        None
    }
}

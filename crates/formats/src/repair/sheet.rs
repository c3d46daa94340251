//! The lines of a transcript, laid out to be worked on: each knows its delta and where it stood.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use super::Change;
use crate::format::Format;
use crate::framing::{Content, Item};
use crate::position::{FormatError, Position};
use crate::problem::{Code, Problem};
use crate::reader::ItemReader;

pub(crate) struct Sheet<'d> {
    lines: Vec<Line<'d>>,
    /// For each delta, whether its bytes are no longer what they were.
    touched: Vec<bool>,
    changes: Vec<Change>,
}

struct Line<'d> {
    /// The line in its delta, as long as nothing changed it.
    text: Cow<'d, str>,
    delta: usize,
    at: Position,
}

/// What to do to lines, by their number from zero.
#[derive(Default)]
pub(crate) struct Edits {
    dropped: BTreeSet<usize>,
    replaced: BTreeMap<usize, String>,
    before: BTreeMap<usize, Vec<String>>,
    after: BTreeMap<usize, Vec<String>>,
}

impl Edits {
    pub(crate) fn is_empty(&self) -> bool {
        self.dropped.is_empty() && self.replaced.is_empty() && self.before.is_empty() && self.after.is_empty()
    }

    pub(crate) fn drop(&mut self, line: usize) {
        self.dropped.insert(line);
    }

    pub(crate) fn replace(&mut self, line: usize, text: String) {
        self.replaced.insert(line, text);
    }

    pub(crate) fn insert_before(&mut self, line: usize, text: String) {
        self.before.entry(line).or_default().push(text);
    }

    pub(crate) fn insert_after(&mut self, line: usize, text: String) {
        self.after.entry(line).or_default().push(text);
    }

    pub(crate) fn is_dropped(&self, line: usize) -> bool {
        self.dropped.contains(&line)
    }

    /// The line as it is to be, which may be changed once more.
    pub(crate) fn text<'a>(&'a self, line: usize, sheet: &'a Sheet<'_>) -> &'a str {
        self.replaced.get(&line).map_or_else(|| sheet.line(line), String::as_str)
    }
}

impl<'d> Sheet<'d> {
    /// Lays out what can be read. What cannot is left out, and so is what only a lenient reader tells apart.
    pub(crate) fn of<D: AsRef<[u8]>>(format: &dyn Format, deltas: &'d [D]) -> Result<Self, FormatError> {
        let mut sheet = Self { lines: Vec::new(), touched: vec![false; deltas.len()], changes: Vec::new() };
        let (mut numbers, mut bytes) = (0, 0);
        for (delta, content) in deltas.iter().enumerate() {
            let content = content.as_ref();
            let found = format.framing().items(content).map_err(|cause| FormatError {
                format: format.id(),
                position: cause.at,
                reason: cause.reason,
            })?;
            let is_last = delta + 1 == deltas.len();
            let untold = found.damage.count - found.damage.first.len() as u64;
            for place in found.damage.first {
                let code = if is_last && is_at_end(content, &place) { Code::TornTail } else { Code::DamagedLine };
                sheet.lay_aside(delta, code, place.at.after(numbers, bytes), &place.sentence);
            }
            if untold > 0 {
                sheet.lay_aside_more(untold);
            }
            for item in found.items {
                sheet.lay(delta, item, numbers, bytes);
            }
            let open = u64::from(!content.is_empty() && !content.ends_with(b"\n"));
            numbers += content.iter().filter(|byte| **byte == b'\n').count() as u64 + open;
            bytes += content.len() as u64 + open;
        }
        Ok(sheet)
    }

    fn lay_aside(&mut self, delta: usize, code: Code, at: Position, sentence: &str) {
        self.touched[delta] = true;
        self.changes.push(Change { code, at, record: None, what: format!("left out what cannot be read. {sentence}") });
    }

    /// Places that are damaged as the last one is, and not described.
    fn lay_aside_more(&mut self, places: u64) {
        if let Some(last) = self.changes.last().cloned() {
            self.changes.push(Change { what: format!("left out {places} more places that cannot be read"), ..last });
        }
    }

    fn lay(&mut self, delta: usize, item: Item<'d>, numbers: u64, bytes: u64) {
        let at = item.at.after(numbers, bytes);
        if self.lines.last().is_some_and(|last| last.at.number() == at.number()) {
            self.touched[delta] = true;
            let what = "put on a line of its own".to_owned();
            self.changes.push(Change { code: Code::RecordsJoined, at, record: None, what });
        }
        let text = match item.content {
            Content::Json(text) => text,
            Content::Cbor(_) => return,
        };
        self.lines.push(Line { text, delta, at });
    }

    pub(crate) fn line(&self, line: usize) -> &str {
        &self.lines[line].text
    }

    pub(crate) fn len(&self) -> usize {
        self.lines.len()
    }

    /// Lets a reader read every line. The offset of each is its number from zero.
    pub(crate) fn read(&self, reader: &mut dyn ItemReader) {
        for (index, line) in self.lines.iter().enumerate() {
            let at = Position::Line { number: index as u64 + 1, offset: index as u64 };
            let content = Content::Json(Cow::Borrowed(&line.text));
            reader.item(&Item { at, range: 0..line.text.len(), content });
        }
    }

    pub(crate) fn note(&mut self, code: Code, line: usize, record: Option<&str>, what: impl Into<String>) {
        let at =
            self.lines.get(line).or(self.lines.last()).map_or(Position::Line { number: 1, offset: 0 }, |line| line.at);
        self.changes.push(Change { code, at, record: record.map(str::to_owned), what: what.into() });
    }

    pub(crate) fn apply(&mut self, mut edits: Edits) {
        let lines = std::mem::take(&mut self.lines);
        self.lines.reserve(lines.len());
        for (index, line) in lines.into_iter().enumerate() {
            let (delta, at) = (line.delta, line.at);
            let new = |text: String| Line { text: text.into(), delta, at };
            let (before, after) = (edits.before.remove(&index), edits.after.remove(&index));
            let replaced = edits.replaced.remove(&index);
            let is_dropped = edits.dropped.contains(&index);
            self.touched[delta] |= is_dropped || before.is_some() || after.is_some() || replaced.is_some();
            self.lines.extend(before.into_iter().flatten().map(new));
            if !is_dropped {
                self.lines.push(replaced.map_or(line, new));
            }
            self.lines.extend(after.into_iter().flatten().map(new));
        }
    }

    /// The deltas that changed, and what was changed, in order of place.
    pub(super) fn finish(mut self) -> (Vec<Option<Vec<u8>>>, Vec<Change>) {
        let mut deltas: Vec<Option<Vec<u8>>> = self.touched.iter().map(|touched| touched.then(Vec::new)).collect();
        for line in self.lines {
            if let Some(delta) = &mut deltas[line.delta] {
                delta.extend_from_slice(line.text.as_bytes());
                delta.push(b'\n');
            }
        }
        self.changes.sort_by_key(|change| (change.at.offset(), change.code));
        (deltas, self.changes)
    }
}

fn is_at_end(content: &[u8], place: &Problem) -> bool {
    let last_line = content.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    last_line < content.len() && place.at.offset() >= last_line as u64
}

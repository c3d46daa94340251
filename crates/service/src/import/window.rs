//! A window of a file: whole lines, as many as memory is meant for.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use enjamb_formats::{Format, Item, Label, Position, Reading};
use serde::de::IgnoredAny;

use super::source::{failed, seek};
use crate::Result;

/// What there is to read at an offset.
pub(super) enum Window {
    Lines {
        bytes: Vec<u8>,
        /// Nothing follows but perhaps a line that is not whole.
        at_end: bool,
    },
    /// A line that is longer than a window; how it begins.
    Long(Vec<u8>),
    /// The file ends here, perhaps after a line that is not whole.
    End,
}

/// Reads a window of at most `bytes_max` of a file that is taken to end at `size`.
pub(super) fn read(file: &mut File, path: &Path, offset: u64, size: u64, bytes_max: usize) -> Result<Window> {
    seek(file, path, offset)?;
    let want = (size - offset).min(bytes_max as u64);
    let mut bytes = Vec::with_capacity(want as usize);
    file.take(want).read_to_end(&mut bytes).map_err(|source| failed(path, source))?;
    if (bytes.len() as u64) < want {
        return Err(failed(path, std::io::ErrorKind::UnexpectedEof.into()));
    }
    let at_end = offset + bytes.len() as u64 >= size;
    let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    if !at_end && whole == 0 {
        return Ok(Window::Long(bytes));
    }
    if !(at_end && is_whole(&bytes[whole..])) {
        bytes.truncate(whole);
    }
    Ok(if bytes.is_empty() { Window::End } else { Window::Lines { bytes, at_end } })
}

/// Whether a last line without a newline is all there.
fn is_whole(line: &[u8]) -> bool {
    !line.is_empty() && serde_json::from_slice::<IgnoredAny>(line).is_ok()
}

/// What a window says, and of which records it consists.
pub(super) struct Understood {
    pub reading: Reading,
    pub records: Vec<Record>,
    /// Where lines end.
    pub ends: Vec<usize>,
    /// Lines, counted from one, that hold something else than a record, and what.
    pub damage: Vec<(usize, u64, String)>,
}

/// What is told of a record, whatever it says.
pub(super) struct Record {
    pub at: usize,
    pub kind: String,
    pub uuid: Option<String>,
}

pub(super) fn understand(format: &dyn Format, bytes: &[u8]) -> Option<Understood> {
    let items = format.framing().items(bytes).ok()?;
    let mut reading = format.measure(&items.items);
    let labels = std::mem::take(&mut reading.labels);
    let is_labelled = labels.len() == items.items.len();
    let records = if is_labelled { labelled(&items.items, labels) } else { records(&items.items) };
    let mut ends = format.split(bytes).ok()?;
    // A window of blank lines alone has no items, and is not to be lost.
    if ends.is_empty() && !bytes.is_empty() {
        ends.push(bytes.len());
    }
    let damage = items.damage.first.into_iter().map(|problem| {
        let (Position::Line { number, offset } | Position::Item { number, offset }) = problem.at;
        (offset as usize, number, problem.sentence)
    });
    Some(Understood { reading, records, ends, damage: damage.collect() })
}

pub(super) fn records(items: &[Item<'_>]) -> Vec<Record> {
    labelled(items, items.iter().map(Label::of))
}

fn labelled(items: &[Item<'_>], labels: impl IntoIterator<Item = Label>) -> Vec<Record> {
    let record = |(item, Label { kind, id }): (&Item<'_>, Label)| Record { at: item.range.start, kind, uuid: id };
    items.iter().zip(labels).map(record).collect()
}

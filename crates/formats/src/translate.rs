//! From one format to another in two passes: the first sees what the model would see and in which order, the second
//! writes it. Neither holds more than an outline and the records that are being put together.

use enjamb_core::conversation::Entry;

use crate::encoder::{Before, Encoder};
use crate::fidelity::{Fate, FidelityLedger};
use crate::format::{Format, Reading};
use crate::framing::{Framing, Item};
use crate::outline::Detail;
use crate::position::FormatError;
use crate::reader::ItemReader;

/// The first pass.
pub struct Survey<'f> {
    source: &'f dyn Format,
    pass: Pass<'f>,
}

/// What the first pass saw.
pub struct Surveyed<'f> {
    source: &'f dyn Format,
    pub(crate) reading: Reading,
}

/// The second pass: the entries that the first one saw, whole.
pub(crate) struct Replay<'s, 'f> {
    reading: &'s Reading,
    pass: Pass<'f>,
    /// Entries that were given so far.
    given: usize,
}

/// The second pass, written down in another format.
pub struct Translation<'s, 'f> {
    replay: Replay<'s, 'f>,
    encoder: Box<dyn Encoder + 's>,
    out: Vec<u8>,
}

/// Deltas that are read one after another, as one transcript.
struct Pass<'f> {
    framing: Framing,
    format: &'static str,
    reader: Box<dyn ItemReader + 'f>,
    numbers: u64,
    bytes: u64,
}

impl<'f> Pass<'f> {
    fn new(format: &'f dyn Format, detail: Detail) -> Self {
        Self { framing: format.framing(), format: format.id(), reader: format.reader(detail), numbers: 0, bytes: 0 }
    }

    fn push(&mut self, delta: &[u8], mut each: impl FnMut(&mut dyn ItemReader, u64)) -> Result<(), FormatError> {
        let found = self.framing.items(delta).map_err(|cause| FormatError {
            format: self.format,
            position: cause.at.after(self.numbers, self.bytes),
            reason: cause.reason,
        })?;
        for item in &found.items {
            let at = item.at.after(self.numbers, self.bytes);
            self.reader.item(&Item { at, range: item.range.clone(), content: item.content.borrowed() });
            each(self.reader.as_mut(), at.offset());
        }
        self.numbers += found.items.len() as u64;
        self.bytes += delta.len() as u64 + 1;
        Ok(())
    }
}

impl<'f> Survey<'f> {
    pub fn new(source: &'f dyn Format) -> Self {
        Self::in_detail(source, Detail::Outline)
    }

    pub(crate) fn in_detail(source: &'f dyn Format, detail: Detail) -> Self {
        Self { source, pass: Pass::new(source, detail) }
    }

    pub fn push(&mut self, delta: &[u8]) -> Result<(), FormatError> {
        self.pass.push(delta, |_, _| {})
    }

    /// What was seen so far.
    pub fn so_far(&self) -> Surveyed<'f> {
        Surveyed { source: self.source, reading: self.pass.reader.so_far() }
    }

    pub fn finish(self) -> Surveyed<'f> {
        Surveyed { source: self.source, reading: self.pass.reader.finish() }
    }
}

impl<'f> Surveyed<'f> {
    /// What a conversation in the same format goes on from.
    pub fn before(&self) -> Before<'_> {
        Before(&self.reading)
    }

    /// The ledger of a conversation that stays as it is.
    pub fn kept(&self) -> FidelityLedger {
        FidelityLedger::kept(self.reading.conversation.block_count())
    }

    /// Begins to write it in another format, after what stands before it there.
    pub fn translate<'s>(&'s self, target: &'s dyn Format, before: Option<Before<'_>>) -> Translation<'s, 'f> {
        let encoder = target.encoder(&self.reading.conversation, before);
        Translation { replay: self.replay(), encoder, out: Vec::new() }
    }

    pub(crate) fn replay(&self) -> Replay<'_, 'f> {
        Replay { reading: &self.reading, pass: Pass::new(self.source, Detail::Whole), given: 0 }
    }
}

impl Replay<'_, '_> {
    /// Takes the same deltas as the first pass, and gives the entries that are whole by now, in their order.
    pub(crate) fn push(&mut self, delta: &[u8], mut each: impl FnMut(Entry)) -> Result<(), FormatError> {
        let Self { reading, pass, given } = self;
        pass.push(delta, |reader, offset| {
            while let Some(entry) = ready(reading, reader, *given, offset) {
                each(entry);
                *given += 1;
            }
        })
    }

    /// Gives the rest. How an entry stands is what was settled after the first pass.
    pub(crate) fn finish(self, mut each: impl FnMut(Entry)) {
        let outlines = &self.reading.conversation.entries;
        let entries = self.pass.reader.finish().conversation.entries.into_iter();
        for (entry, outline) in entries.zip(outlines).skip(self.given) {
            each(Entry { standing: outline.standing, ..entry });
        }
    }
}

impl Translation<'_, '_> {
    /// Takes the same deltas as the first pass, and gives what can be written.
    pub fn push(&mut self, delta: &[u8]) -> Result<&[u8], FormatError> {
        self.out.clear();
        let Self { replay, encoder, out } = self;
        replay.push(delta, |entry| encoder.entry(entry, out))?;
        Ok(&self.out)
    }

    /// Gives the rest, and what became of each block.
    pub fn finish(mut self) -> (Vec<u8>, FidelityLedger) {
        self.out.clear();
        let Self { replay, mut encoder, mut out } = self;
        replay.finish(|entry| encoder.entry(entry, &mut out));
        let fates: Vec<Fate> = encoder.finish(&mut out);
        (out, FidelityLedger::of(&fates))
    }
}

/// The next entry, once its last record was read.
fn ready(reading: &Reading, reader: &mut dyn ItemReader, next: usize, offset: u64) -> Option<Entry> {
    let read = reading.read_as.get(next).copied().unwrap_or(next);
    let is_whole = reading.ends.get(read).is_some_and(|end| *end <= offset);
    let blocks = is_whole.then(|| reader.blocks(read)).flatten()?;
    // The outline with its blocks as they are.
    let outline = &reading.conversation.entries[next];
    let mut entry = Entry { blocks, ..outline.clone() };
    entry.attributes.extend(reading.attributes_of(read));
    crate::outline::forget_sizes(&mut entry);
    Some(entry)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::by_id;
    use enjamb_core::conversation::{Block, Conversation, Role};

    const TURNS: usize = 200;
    const TEXT_BYTES: usize = 20_000;

    /// A conversation of long texts, in a format.
    fn long(format: &dyn Format) -> Vec<u8> {
        let text = |turn: usize| Block::Text(format!("{turn} {}", "word ".repeat(TEXT_BYTES / 5)));
        let role = |turn: usize| if turn.is_multiple_of(2) { Role::User } else { Role::Assistant };
        let entries = (0..TURNS).map(|turn| Entry::new(role(turn), vec![text(turn)])).collect();
        format.encode(&Conversation { entries }).bytes
    }

    /// Bytes of texts that a reader holds on to.
    fn held(reader: &dyn ItemReader) -> usize {
        let reading = reader.so_far();
        let blocks = reading.conversation.entries.iter().flat_map(|entry| &entry.blocks);
        blocks.map(|block| crate::narrative::brief(block).len()).sum()
    }

    #[test]
    fn a_translation_holds_the_entry_that_it_reads_and_the_outline_of_the_rest() {
        for (source, target) in [("claude-code-v1", "codex-v1"), ("codex-v1", "claude-code-v1")] {
            let (source, target) = (by_id(source).unwrap(), by_id(target).unwrap());
            let whole = long(source);
            let lines: Vec<&[u8]> = whole.split_inclusive(|byte| *byte == b'\n').collect();
            let mut survey = Survey::new(source);
            lines.iter().for_each(|line| survey.push(line).unwrap());
            assert!(held(survey.pass.reader.as_ref()) < TURNS * 500, "an outline grows with records, not with bytes");
            let surveyed = survey.finish();
            let mut translation = surveyed.translate(target, None);
            let mut written = 0;
            for (number, line) in lines.iter().enumerate() {
                let piece = translation.push(line).unwrap().len();
                assert!(piece < 4 * TEXT_BYTES, "{} wrote {piece} bytes at once", target.id());
                written += piece;
                // Looking costs a copy, so only now and then.
                if number.is_multiple_of(20) {
                    assert!(held(translation.replay.pass.reader.as_ref()) <= 3 * TEXT_BYTES);
                }
            }
            assert!(written > whole.len() / 2);
            assert_eq!(translation.finish().1.blocks(), surveyed.reading.conversation.block_count());
        }
    }
}

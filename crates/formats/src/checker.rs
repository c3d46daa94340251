//! Why a transcript would not load: its deltas are looked at one after another, and only their outline is kept.

use std::collections::HashMap;

use crate::check;
use crate::format::{Format, Reading};
use crate::framing::{Framing, Item};
use crate::outline::Detail;
use crate::position::{FormatError, Position};
use crate::problem::{Code, Problem};
use crate::reader::ItemReader;

/// Under whose name the conversation would go on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reuse {
    #[default]
    SameAccount,
    /// What a provider encrypted for one account it does not take from another.
    OtherAccount,
}

/// What was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Examined {
    /// In order of place.
    pub problems: Vec<Problem>,
    pub messages: u64,
    /// The directory that was worked in last, and where that is said.
    pub cwd: Option<(Position, String)>,
}

/// Checks a transcript that comes in deltas.
pub struct Checker<'f, F: Format + ?Sized> {
    format: &'f F,
    reader: Box<dyn ItemReader + 'f>,
    found: Vec<Problem>,
    /// The line that the last delta ended in, if it is cut off.
    torn: Option<Problem>,
    /// Lines or items, and bytes, of the deltas so far.
    numbers: u64,
    bytes: u64,
}

impl<'f, F: Format + ?Sized> Checker<'f, F> {
    pub fn new(format: &'f F) -> Self {
        let reader = format.reader(Detail::Skeleton);
        Self { format, reader, found: Vec::new(), torn: None, numbers: 0, bytes: 0 }
    }

    /// Everything that is wrong with a transcript that is one delta, in order of place.
    pub fn check(format: &'f F, bytes: &[u8]) -> Vec<Problem> {
        let mut checker = Self::new(format);
        match checker.push(bytes) {
            Ok(()) => checker.finish(Reuse::SameAccount).problems,
            Err(FormatError { position, reason, .. }) => vec![Problem::error(Code::Malformed, position, reason)],
        }
    }

    pub fn push(&mut self, delta: &[u8]) -> Result<(), FormatError> {
        let format = self.format.id();
        let found = self.format.framing().items(delta).map_err(|cause| FormatError {
            format,
            position: cause.at.after(self.numbers, self.bytes),
            reason: cause.reason,
        })?;
        self.found.extend(self.torn.take());
        let mut line = 0;
        for item in &found.items {
            let at = item.at.after(self.numbers, self.bytes);
            self.found.extend(joined(at, std::mem::replace(&mut line, at.number())));
            self.reader.item(&Item { at, range: item.range.clone(), content: item.content.borrowed() });
        }
        self.damage(delta, found.damage.first);
        self.count(delta, found.items.len() as u64);
        Ok(())
    }

    /// A last line that was cut off is no damage yet: more may follow.
    fn damage(&mut self, delta: &[u8], places: Vec<Problem>) {
        let last_line = delta.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1) as u64;
        let is_open = last_line < delta.len() as u64;
        for place in places {
            let is_torn = is_open && place.at.offset() >= last_line;
            let place = Problem { at: place.at.after(self.numbers, self.bytes), ..place };
            if is_torn {
                self.torn = Some(place);
            } else {
                self.found.push(place);
            }
        }
    }

    fn count(&mut self, delta: &[u8], items: u64) {
        self.bytes += delta.len() as u64;
        match self.format.framing() {
            Framing::JsonLines => {
                let is_open = !delta.is_empty() && !delta.ends_with(b"\n");
                self.numbers += delta.iter().filter(|byte| **byte == b'\n').count() as u64 + u64::from(is_open);
                self.bytes += u64::from(is_open);
            }
            Framing::JsonArray | Framing::CborArray => self.numbers += items,
        }
    }

    pub fn finish(self, reuse: Reuse) -> Examined {
        let reading = self.reader.finish();
        let messages = self.format.message_count(&reading);
        let cwd = reading.last_cwd();
        let mut problems = self.found;
        problems.extend(self.torn.map(|torn| Problem { code: Code::TornTail, ..torn }));
        problems.extend(self.format.check(&reading));
        if reuse == Reuse::OtherAccount {
            problems.extend(check::other_account(&reading));
        }
        problems.extend(unknown(&reading));
        name_records(&mut problems, &reading);
        problems.extend(reading.findings);
        problems.sort_by_key(|problem| (problem.at.offset(), problem.code));
        problems.dedup_by(|later, first| {
            (later.at, later.code) == (first.at, first.code) && later.sentence == first.sentence
        });
        Examined { problems, messages, cwd }
    }
}

fn joined(at: Position, line_before: u64) -> Option<Problem> {
    let is_line = matches!(at, Position::Line { .. });
    (is_line && at.number() == line_before).then(|| {
        let sentence = "The line holds another record before this one: a runtime reads neither.";
        Problem::warning(Code::RecordsJoined, at, sentence)
    })
}

fn unknown(reading: &Reading) -> impl Iterator<Item = Problem> {
    reading.unknown_at.iter().map(|(kind, at)| {
        let count = reading.unknown.get(kind).copied().unwrap_or(1);
        let sentence = format!("{count} of the unknown kind {} are kept and passed over.", check::shown(kind));
        Problem::warning(Code::RecordUnknown, *at, sentence)
    })
}

fn name_records(problems: &mut [Problem], reading: &Reading) {
    let named = reading.placed().filter_map(|(at, entry)| Some((at, entry.id.as_deref()?)));
    let ids: HashMap<Position, &str> = named.collect();
    for problem in problems.iter_mut().filter(|problem| problem.record.is_none()) {
        problem.record = ids.get(&problem.at).map(|id| (*id).to_owned());
    }
}

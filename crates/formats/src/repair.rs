//! The smallest change after which a transcript loads.
//!
//! A transcript of lines is repaired line by line: what is not broken keeps its bytes, and so does every delta without a
//! broken line. Other transcripts are read, mended as a conversation, and written again from the first broken delta on.

mod mend;
mod sheet;

use enjamb_core::conversation::Conversation;

use crate::check;
use crate::checker::{Checker, Reuse};
use crate::format::Format;
use crate::framing::Framing;
use crate::position::{FormatError, Position};
use crate::problem::{Code, Problem};
use crate::{claude_code, codex};

pub(crate) use mend::INTERRUPTED;
pub(crate) use sheet::{Edits, Sheet};

/// One block or record that is not what it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// What was wrong with it.
    pub code: Code,
    /// Its place in the transcript as it was.
    pub at: Position,
    pub record: Option<String>,
    /// What was done, for people.
    pub what: String,
}

/// What a repair came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Repaired {
    /// The deltas that changed, each in the place of its original; `None` for those that did not.
    pub deltas: Vec<Option<Vec<u8>>>,
    pub changes: Vec<Change>,
    /// What is still wrong.
    pub left: Vec<Problem>,
}

impl Repaired {
    fn untouched(deltas: usize) -> Self {
        Self { deltas: vec![None; deltas], ..Self::default() }
    }

    /// The deltas as they are now.
    fn over<'d, D: AsRef<[u8]>>(&'d self, deltas: &'d [D]) -> Vec<&'d [u8]> {
        let now = |(delta, changed): (&'d D, &'d Option<Vec<u8>>)| changed.as_deref().unwrap_or(delta.as_ref());
        deltas.iter().zip(&self.deltas).map(now).collect()
    }

    /// Takes over what was done to the deltas as they are now.
    fn add(&mut self, later: Self) {
        for (delta, changed) in self.deltas.iter_mut().zip(later.deltas) {
            *delta = changed.or(delta.take());
        }
        self.changes.extend(later.changes);
    }
}

/// Works on the lines of one format until nothing is left that it can do. Says whether it did anything.
type Surgeon = fn(&mut Sheet<'_>, Reuse) -> bool;

const SURGEONS: [(&str, Surgeon); 2] = [(claude_code::ID, claude_code::operate), (codex::ID, codex::operate)];

/// Each round mends what the one before made visible. Real transcripts need three.
const ROUNDS_MAX: usize = 16;

/// Repairs a transcript that is made of these deltas.
pub fn repair<D: AsRef<[u8]>>(format: &dyn Format, deltas: &[D], reuse: Reuse) -> Result<Repaired, FormatError> {
    let surgeon = SURGEONS.iter().find(|(id, _)| *id == format.id()).map(|(_, surgeon)| *surgeon);
    let mut repaired = match format.framing() {
        Framing::JsonLines => operated(format, deltas, surgeon.unwrap_or(|_, _| false), reuse)?,
        Framing::JsonArray | Framing::CborArray => Repaired::untouched(deltas.len()),
    };
    if surgeon.is_none() {
        let mended = mend::mended(format, &repaired.over(deltas), reuse)?;
        repaired.add(mended);
    }
    repaired.left = still_wrong(format, deltas, &repaired, reuse)?;
    Ok(repaired)
}

fn operated<D: AsRef<[u8]>>(
    format: &dyn Format,
    deltas: &[D],
    surgeon: Surgeon,
    reuse: Reuse,
) -> Result<Repaired, FormatError> {
    let mut sheet = Sheet::of(format, deltas)?;
    for _ in 0..ROUNDS_MAX {
        if !surgeon(&mut sheet, reuse) {
            break;
        }
    }
    let (deltas, changes) = sheet.finish();
    Ok(Repaired { deltas, changes, left: Vec::new() })
}

fn still_wrong<D: AsRef<[u8]>>(
    format: &dyn Format,
    deltas: &[D],
    repaired: &Repaired,
    reuse: Reuse,
) -> Result<Vec<Problem>, FormatError> {
    let mut checker = Checker::new(format);
    for delta in repaired.over(deltas) {
        checker.push(delta)?;
    }
    Ok(checker.finish(reuse).problems)
}

/// What is wrong with a conversation that was read, in the eyes of its format.
fn wrong(format: &dyn Format, conversation: &Conversation, reuse: Reuse) -> Vec<Problem> {
    let at = |index: usize| Position::Item { number: index as u64 + 1, offset: index as u64 };
    let origins = (0..conversation.entries.len()).map(at).collect();
    let reading = crate::format::Reading { conversation: conversation.clone(), origins, ..Default::default() };
    let mut problems = format.check(&reading);
    if reuse == Reuse::OtherAccount {
        problems.extend(check::other_account(&reading));
    }
    problems
}

#[cfg(test)]
mod tests;

//! A transcript under a new identity, as its runtime would load it.
//!
//! What is in the runtime's own format stays byte for byte, but for what names the session and, if it moves, the
//! directory. What was translated is put after it. Which member of which record that is, each runtime knows.
//!
//! The deltas are taken twice, so that none of them has to stay: once to learn how everything stands ([`Look`]), and
//! once to write it ([`Composition`]). What was written is read back in the same two steps ([`ReadBack`]).

mod back;
mod claude_code;
mod codex;
mod composition;
mod dressing;
mod gemini;
mod look;
mod opencode;
mod said;
mod splice;

#[cfg(test)]
mod tests;

use enjamb_core::Timestamp;

use crate::fidelity::FidelityLedger;
use crate::format::Format;

pub use back::{Comparison, Held, ReadBack, Written};
pub use composition::{Composition, Passage};
pub use look::{Look, Looked};
pub use said::Said;

/// Whose the session is to be.
#[derive(Clone, Debug)]
pub struct Identity {
    /// A UUID that no session has.
    pub session: String,
    /// Where it goes on.
    pub cwd: String,
    /// Where it was, if that is to be changed wherever it stands.
    pub moved_from: Option<String>,
    /// When it is made.
    pub at: Timestamp,
}

/// What is to become a session: stretches of deltas that follow each other, each in one format.
#[derive(Clone, Debug, Default)]
pub struct Extent {
    pub stretches: usize,
    /// Records were left out, so that what follows them has to be linked to what is left.
    pub is_cut: bool,
    /// The beginning of the chain, for what the runtime writes only there.
    pub head: Vec<u8>,
}

/// What a session amounts to.
#[derive(Debug, Default)]
pub struct Session {
    /// What became of each block.
    pub ledger: FidelityLedger,
    /// What has to be found in it, in this order.
    pub said: Vec<Said>,
    /// Calls without a result, which got one that says so: no provider takes them without.
    pub interrupted: u64,
}

/// Looks at a runtime's own records before any are written.
trait Scout {
    fn look(&mut self, bytes: &[u8]);

    /// How the records since the last time were.
    fn looked(&mut self) -> Scouted;

    fn loader<'s>(&'s self, identity: &'s Identity) -> Box<dyn Loader + 's>;
}

/// What a runtime makes of records of its own.
#[derive(Clone, Copy, Debug)]
struct Scouted {
    /// It loads them as they are.
    loads: bool,
    /// They hold what only the beginning of a session has.
    begins: bool,
}

/// Writes a session as its runtime loads it.
trait Loader {
    /// Records follow that stay as they are.
    fn begin(&mut self, _stretch: Scouted, _out: &mut Vec<u8>) {}

    /// Adds records as they are, under the new identity.
    fn native(&mut self, bytes: &[u8], out: &mut Vec<u8>);

    /// Adds records that were made for this session.
    fn made(&mut self, bytes: &[u8], out: &mut Vec<u8>);

    /// Whether the runtime keeps one message for each id, wherever it is: then none may come again.
    fn is_kept_by_id(&self) -> bool {
        false
    }

    fn finish(self: Box<Self>, _out: &mut Vec<u8>) {}
}

/// Whether sessions can be made in a format.
pub fn is_loaded(format: &str) -> bool {
    [crate::claude_code::ID, crate::codex::ID, crate::gemini::ID, crate::opencode::ID].contains(&format)
}

/// Whether a session in a format is one document, and not lines.
fn is_document(format: &dyn Format) -> bool {
    format.id() == crate::opencode::ID
}

fn scout(format: &str, extent: Extent) -> Option<Box<dyn Scout>> {
    match format {
        crate::claude_code::ID => Some(Box::new(claude_code::Records::new(&extent))),
        crate::codex::ID => Some(Box::new(codex::Lines::new(extent))),
        crate::gemini::ID => Some(Box::new(gemini::Lines::new(extent))),
        crate::opencode::ID => Some(Box::new(opencode::Rows)),
        _ => None,
    }
}

/// A directory as Gemini CLI tells projects apart.
pub fn gemini_project(cwd: &str) -> String {
    gemini::project_hash(cwd)
}

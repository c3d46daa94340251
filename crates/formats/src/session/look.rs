//! The first pass over what is to become a session: how everything in it stands, and what its runtime makes of it.

use enjamb_core::conversation::{Block, Conversation, Entry, Standing};

use super::{Composition, Extent, Identity, Scout, Scouted, is_loaded, scout};
use crate::format::Format;
use crate::position::FormatError;
use crate::translate::{Survey, Surveyed};

/// Takes the deltas of every stretch, in order.
pub struct Look {
    target: &'static dyn Format,
    scout: Box<dyn Scout>,
    done: Vec<Stretch>,
    current: Option<(&'static dyn Format, Survey<'static>)>,
}

/// What the first pass saw.
pub struct Looked {
    pub(super) target: &'static dyn Format,
    pub(super) scout: Box<dyn Scout>,
    pub(super) stretches: Vec<Stretch>,
}

/// Deltas of one format that follow each other.
pub(super) struct Stretch {
    pub surveyed: Surveyed<'static>,
    /// What the runtime makes of it, if it is in its own format.
    pub own: Option<Scouted>,
    /// Its format says what a compaction keeps.
    pub knows_compaction: bool,
}

impl Look {
    /// `None` where no runtime loads the format.
    pub fn new(target: &'static dyn Format, extent: Extent) -> Option<Self> {
        Some(Self { target, scout: scout(target.id(), extent)?, done: Vec::new(), current: None })
    }

    /// A stretch in this format follows.
    pub fn stretch(&mut self, format: &'static dyn Format) {
        self.end();
        self.current = Some((format, Survey::new(format)));
    }

    /// Takes a delta of the stretch that was begun last.
    pub fn push(&mut self, delta: &[u8]) -> Result<(), FormatError> {
        let Some((format, survey)) = &mut self.current else { return Ok(()) };
        if format.id() == self.target.id() {
            self.scout.look(delta);
        }
        survey.push(delta)
    }

    fn end(&mut self) {
        if let Some((format, survey)) = self.current.take() {
            let own = (format.id() == self.target.id()).then(|| self.scout.looked());
            self.done.push(Stretch { surveyed: survey.finish(), own, knows_compaction: is_loaded(format.id()) });
        }
    }

    pub fn finish(mut self) -> Looked {
        self.end();
        settle(&mut self.done);
        Looked { target: self.target, scout: self.scout, stretches: self.done }
    }
}

impl Looked {
    /// The directory that was worked in last.
    pub fn cwd(&self) -> Option<String> {
        self.stretches.iter().rev().find_map(|stretch| stretch.surveyed.reading.last_cwd()).map(|(_, cwd)| cwd)
    }

    /// Begins to write the session.
    pub fn compose<'l>(&'l self, identity: &'l Identity) -> Composition<'l> {
        Composition::new(self, identity)
    }
}

impl Stretch {
    pub(super) fn conversation(&self) -> &Conversation {
        &self.surveyed.reading.conversation
    }
}

/// A compaction stands for all that came before it, in its own stretch and in the earlier ones. Runtimes say themselves
/// what theirs keep; the other formats only say that there was one.
fn settle(stretches: &mut [Stretch]) {
    let Some(last) = stretches.iter().rposition(|stretch| last_compaction(stretch).is_some()) else { return };
    for stretch in &mut stretches[..last] {
        compact(&mut stretch.surveyed.reading.conversation.entries);
    }
    let stretch = &mut stretches[last];
    if let Some(place) = last_compaction(stretch).filter(|_| !stretch.knows_compaction) {
        compact(&mut stretch.surveyed.reading.conversation.entries[..place]);
    }
}

fn last_compaction(stretch: &Stretch) -> Option<usize> {
    let is_summary = |block: &Block| matches!(block, Block::Compaction { .. });
    let stands = |entry: &Entry| entry.standing == Standing::Context && entry.blocks.iter().any(is_summary);
    stretch.conversation().entries.iter().rposition(stands)
}

fn compact(entries: &mut [Entry]) {
    for entry in entries.iter_mut().filter(|entry| entry.standing == Standing::Context && entry.is_message()) {
        entry.standing = Standing::Compacted;
    }
}

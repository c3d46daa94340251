//! The second pass over what is to become a session: it is written, delta by delta.

use enjamb_core::Timestamp;
use enjamb_core::conversation::{Conversation, Entry};

use super::dressing::{Dressed, Dressing};
use super::look::Stretch;
use super::{Identity, Loader, Looked, Said, Session};
use crate::encoder::Encoder;
use crate::fidelity::{Fate, FidelityLedger, Outcome};
use crate::position::FormatError;
use crate::translate::Replay;

/// A session that is being written.
pub struct Composition<'l> {
    looked: &'l Looked,
    identity: &'l Identity,
    loader: Box<dyn Loader + 'l>,
    next: usize,
    /// The latest time so far.
    last: Timestamp,
    session: Session,
}

/// One stretch of it.
pub struct Passage<'c, 'l> {
    whole: &'c mut Composition<'l>,
    stretch: &'l Stretch,
    replay: Replay<'l, 'static>,
    /// `None` where the records stay as they are.
    making: Option<Making<'l>>,
}

/// Entries on the way into another format.
struct Making<'l> {
    dressing: Dressing<'l>,
    encoder: Box<dyn Encoder + 'l>,
    /// What each entry says, block by block; nothing for those that were added.
    said: Vec<Option<Vec<Option<Said>>>>,
    bytes: Vec<u8>,
}

impl<'l> Composition<'l> {
    pub(super) fn new(looked: &'l Looked, identity: &'l Identity) -> Self {
        let spans = looked.stretches.iter().filter_map(|stretch| stretch.conversation().time_span());
        let first = spans.map(|(first, _)| first).min().unwrap_or(identity.at);
        let loader = looked.scout.loader(identity);
        Self { looked, identity, loader, next: 0, last: identity.at.min(first), session: Session::default() }
    }

    /// Begins the next of the stretches that were looked at. `None` when there are no more.
    pub fn stretch(&mut self, out: &mut Vec<u8>) -> Option<Passage<'_, 'l>> {
        let stretch = self.looked.stretches.get(self.next)?;
        self.next += 1;
        let making = match stretch.own.filter(|own| own.loads) {
            Some(own) => {
                self.loader.begin(own, out);
                self.session.ledger.merge(&stretch.surveyed.kept());
                None
            }
            None => Some(self.making(stretch)),
        };
        Some(Passage { replay: stretch.surveyed.replay(), whole: self, stretch, making })
    }

    fn making(&mut self, stretch: &'l Stretch) -> Making<'l> {
        let target = self.looked.target;
        let outline = stretch.conversation();
        let mut dressing = Dressing::new(outline, stretch.own.map(|_| target.id()), self.identity, self.last);
        dressing.without_ids = self.loader.is_kept_by_id();
        self.session.ledger.merge(&dressing.left(outline));
        let mut ahead = dressing.clone();
        let entries = outline.entries.iter().flat_map(|entry| ahead.dress(entry.clone()));
        let outline = Conversation { entries: entries.map(|dressed| dressed.entry).collect() };
        Making { dressing, encoder: target.encoder(&outline, None), said: Vec::new(), bytes: Vec::new() }
    }

    /// Writes the rest, and says what the session amounts to.
    pub fn finish(self, out: &mut Vec<u8>) -> Session {
        self.loader.finish(out);
        self.session
    }
}

impl Passage<'_, '_> {
    /// Takes the same deltas as the first pass, and writes what can be written.
    pub fn push(&mut self, delta: &[u8], out: &mut Vec<u8>) -> Result<(), FormatError> {
        let Self { whole, replay, making, .. } = self;
        match making {
            None => {
                whole.loader.native(delta, out);
                replay.push(delta, |entry| whole.session.said.extend(Said::in_entry(&entry)))?;
            }
            Some(making) => {
                replay.push(delta, |entry| making.entry(entry))?;
                making.flush(whole.loader.as_mut(), out);
            }
        }
        Ok(())
    }

    /// Writes the rest of the stretch.
    pub fn finish(self, out: &mut Vec<u8>) {
        let Self { whole, stretch, replay, making } = self;
        match making {
            None => {
                replay.finish(|entry| whole.session.said.extend(Said::in_entry(&entry)));
                whole.last = stretch.conversation().time_span().map_or(whole.last, |(_, end)| end.max(whole.last));
            }
            Some(mut making) => {
                replay.finish(|entry| making.entry(entry));
                whole.last = making.dressing.last;
                making.finish(whole.loader.as_mut(), &mut whole.session, out);
            }
        }
    }
}

impl Making<'_> {
    fn entry(&mut self, entry: Entry) {
        for Dressed { entry, is_added } in self.dressing.dress(entry) {
            let said = (!is_added).then(|| entry.blocks.iter().map(Said::in_block).collect());
            self.said.push(said);
            self.encoder.entry(entry, &mut self.bytes);
        }
    }

    fn flush(&mut self, loader: &mut dyn Loader, out: &mut Vec<u8>) {
        if !self.bytes.is_empty() {
            loader.made(&self.bytes, out);
            self.bytes.clear();
        }
    }

    fn finish(mut self, loader: &mut dyn Loader, session: &mut Session, out: &mut Vec<u8>) {
        self.flush(loader, out);
        let Self { encoder, mut said, mut bytes, .. } = self;
        let mut fates: Vec<Fate> = encoder.finish(&mut bytes);
        loader.made(&bytes, out);
        fates.retain(|fate| said.get(fate.entry).is_some_and(Option::is_some));
        session.interrupted += said.iter().filter(|said| said.is_none()).count() as u64;
        session.ledger.merge(&FidelityLedger::of(&fates));
        for fate in fates.iter().filter(|fate| fate.outcome == Outcome::Kept) {
            let blocks = said.get_mut(fate.entry).and_then(Option::as_mut);
            session.said.extend(blocks.and_then(|blocks| blocks.get_mut(fate.block)).and_then(Option::take));
        }
    }
}

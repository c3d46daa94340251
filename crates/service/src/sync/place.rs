//! Where frames of another store go: on to the stream they are of, or into a branch of it. Nothing is written here.

use std::collections::{HashMap, HashSet};

use enjamb_core::frame::{ArtifactBody, Body, Linked, RawFrame};
use enjamb_core::sync::Tip;
use enjamb_core::{ArtifactId, Digest, StreamId};

use super::lines::{Branch, Lines};
use super::{SyncError, travels};
use crate::{Result, Store};

/// Where a frame goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// It is here.
    Known,
    /// It follows the last frame of its stream.
    Own,
    /// It is kept in a branch, at this seq of it.
    Branch(StreamId, u64),
}

/// Frames being placed, one after the other.
pub(super) struct Placing<'s> {
    store: &'s Store,
    lines: HashMap<StreamId, Lines>,
    placed: HashSet<(StreamId, u64, Digest)>,
    /// Streams whose order rules refuse what comes from elsewhere, and from which seq on.
    refused: &'s HashMap<StreamId, u64>,
}

impl<'s> Placing<'s> {
    pub fn new(store: &'s Store, refused: &'s HashMap<StreamId, u64>) -> Self {
        Self { store, lines: HashMap::new(), placed: HashSet::new(), refused }
    }

    pub fn place(&mut self, frame: &Linked) -> Result<Place> {
        if !travels(&frame.stream) {
            return Err(SyncError::Private(frame.stream.clone()).into());
        }
        let raw = check(frame)?;
        let chain = frame.chain();
        if self.is_here(frame, frame.seq, &chain)? {
            return Ok(Place::Known);
        }
        let may_be_own = self.refused.get(&frame.stream).is_none_or(|from| frame.seq < *from);
        let is_own = may_be_own && self.follows_own(frame)? && self.keeps_all(&raw)?;
        let place = match is_own {
            true => Place::Own,
            false => self.in_branch(frame, &chain)?,
        };
        self.note(frame, &place, chain)?;
        Ok(place)
    }

    fn lines(&mut self, stream: &StreamId) -> Result<&mut Lines> {
        if !self.lines.contains_key(stream) {
            self.lines.insert(stream.clone(), self.store.lines(stream)?);
        }
        Ok(self.lines.get_mut(stream).expect("it was put there"))
    }

    /// Whether a frame of the stream is here, or was placed before.
    fn is_here(&mut self, frame: &Linked, seq: u64, chain: &Digest) -> Result<bool> {
        if self.placed.contains(&(frame.stream.clone(), seq, *chain)) {
            return Ok(true);
        }
        let store = self.store;
        Ok(self.lines(&frame.stream)?.holder(store, seq, chain)?.is_some())
    }

    fn follows_own(&mut self, frame: &Linked) -> Result<bool> {
        let end = self.lines(&frame.stream)?.own;
        Ok(end.unwrap_or(Tip { len: 0, chain: Digest::ZERO }) == Tip { len: frame.seq, chain: frame.after })
    }

    /// What another store dropped may be needed here, so nothing is dropped because it says so.
    fn keeps_all(&self, raw: &RawFrame) -> Result<bool> {
        let Ok(Body::Artifact(ArtifactBody::ArtifactDropped(these))) = raw.decode().map(|frame| frame.body) else {
            return Ok(true);
        };
        for id in these.artifact_ids.iter().filter_map(|text| text.parse::<ArtifactId>().ok()) {
            if self.store.artifact_here(&id)?.is_some() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The branch that it follows, or a new one that begins with it.
    fn in_branch(&mut self, frame: &Linked, chain: &Digest) -> Result<Place> {
        let end = Tip { len: frame.seq, chain: frame.after };
        let lines = self.lines(&frame.stream)?;
        if let Some(branch) = lines.branches.iter().find(|branch| branch.tip == end) {
            return Ok(Place::Branch(branch.name.clone(), frame.seq - branch.from_seq));
        }
        let follows = match frame.seq.checked_sub(1) {
            None => frame.after == Digest::ZERO,
            Some(before) => self.is_here(frame, before, &frame.after)?,
        };
        if !follows {
            return Err(SyncError::gap(&frame.stream, frame.seq).into());
        }
        let name = frame.branch();
        let tip = Tip { len: frame.seq + 1, chain: *chain };
        let branch = Branch { name: name.clone(), from_seq: frame.seq, after: frame.after, tip };
        self.lines(&frame.stream)?.branches.push(branch);
        Ok(Place::Branch(name, 0))
    }

    /// Takes into account that a frame is where it goes.
    fn note(&mut self, frame: &Linked, place: &Place, chain: Digest) -> Result<()> {
        let tip = Tip { len: frame.seq + 1, chain };
        self.placed.insert((frame.stream.clone(), frame.seq, chain));
        let lines = self.lines(&frame.stream)?;
        match place {
            Place::Known => {}
            Place::Own => lines.own = Some(tip),
            Place::Branch(name, _) => {
                lines.branches.iter_mut().filter(|branch| branch.name == *name).for_each(|branch| branch.tip = tip);
            }
        }
        Ok(())
    }
}

fn check(frame: &Linked) -> Result<RawFrame> {
    let misplaced = |detail: String| SyncError::Misplaced { stream: frame.stream.clone(), seq: frame.seq, detail };
    let raw = RawFrame::parse(frame.json.clone()).map_err(|error| misplaced(error.to_string()))?;
    if *raw.stream() != frame.stream || raw.seq() != frame.seq {
        return Err(misplaced(format!("it says {} {}", raw.stream(), raw.seq())).into());
    }
    Ok(raw)
}

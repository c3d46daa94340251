//! The lines of a stream: the frames that were written here, and its branches, which other stores wrote.

use enjamb_core::frame::{Kept, RawFrame};
use enjamb_core::order::{MarkKey, Scope, parse_tip};
use enjamb_core::sync::{Fork, Tip};
use enjamb_core::{Digest, StreamId, StreamKind};
use enjamb_ledger::{Ledger, LedgerError, Walk};

use super::SyncError;
use crate::{Result, Store};

#[derive(Clone, Debug, Default)]
pub(super) struct Lines {
    pub own: Option<Tip>,
    pub branches: Vec<Branch>,
    stream: Option<StreamId>,
}

/// A branch: the frames from some seq on, and the frame that they follow.
#[derive(Clone, Debug)]
pub(super) struct Branch {
    pub name: StreamId,
    pub from_seq: u64,
    pub after: Digest,
    pub tip: Tip,
}

/// Which line holds a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Holder {
    Own,
    Branch(usize),
}

impl Branch {
    pub fn fork(&self) -> Fork {
        Fork { from: Tip { len: self.from_seq, chain: self.after }, tip: self.tip }
    }
}

impl Lines {
    /// The line that holds a frame, if one does.
    pub fn holder(&self, store: &Store, seq: u64, chain: &Digest) -> Result<Option<Holder>> {
        let branches = (0..self.branches.len()).map(Holder::Branch);
        for holder in [Holder::Own].into_iter().chain(branches) {
            if self.chain_at(store, holder, seq)?.as_ref() == Some(chain) {
                return Ok(Some(holder));
            }
        }
        Ok(None)
    }

    /// The line that has the frame of a seq, on the way back from what a line holds.
    pub fn holder_on_the_way(&self, store: &Store, from: Holder, seq: u64) -> Result<Holder> {
        let mut holder = from;
        while let Holder::Branch(at) = holder {
            let Branch { from_seq, after, .. } = &self.branches[at];
            if seq >= *from_seq {
                break;
            }
            let before = from_seq - 1;
            let found = self.holder(store, before, after)?;
            holder = found.ok_or_else(|| SyncError::gap(&self.branches[at].name, before))?;
        }
        Ok(holder)
    }

    /// The chain value of a line's own frame of a seq.
    pub fn chain_at(&self, store: &Store, holder: Holder, seq: u64) -> Result<Option<Digest>> {
        match holder {
            Holder::Own => match (&self.own, &self.stream) {
                (Some(tip), _) if tip.len == seq + 1 => Ok(Some(tip.chain)),
                (Some(tip), Some(stream)) if tip.len > seq => store.chain_of(stream, seq),
                _ => Ok(None),
            },
            Holder::Branch(at) => {
                let Branch { name, from_seq, tip, .. } = &self.branches[at];
                if seq + 1 == tip.len {
                    return Ok(Some(tip.chain));
                }
                let at = seq.checked_sub(*from_seq).filter(|_| seq < tip.len);
                let kept = at.map(|at| store.kept_at(name, at)).transpose()?.flatten();
                Ok(kept.map(|kept| kept.chain))
            }
        }
    }
}

impl Store {
    /// The lines of a stream.
    pub(super) fn lines(&self, stream: &StreamId) -> Result<Lines> {
        let own = self.ledger.stream(stream)?.map(|summary| Tip { len: summary.next_seq, chain: summary.chain });
        let (first, last) = (MarkKey::branch_of(stream, "", 0), MarkKey::after_branches_of(stream));
        let mut branches = Vec::new();
        for (key, after) in self.ledger.marks_in(&Scope::Store, &first, &last, Walk::Forward, usize::MAX)? {
            let MarkKey::Branch { branch, from_seq, .. } = key else { continue };
            let name = StreamId { kind: StreamKind::Branch, id: branch };
            let after = Digest::from_hex(&after).ok_or_else(|| damaged(&name))?;
            branches.push(Branch { tip: self.branch_tip(&name)?, name, from_seq, after });
        }
        Ok(Lines { own, branches, stream: Some(stream.clone()) })
    }

    /// A branch by its name, and the stream that it is a branch of.
    pub(super) fn branch(&self, name: &StreamId) -> Result<(StreamId, Branch)> {
        let first = self.kept_at(name, 0)?.ok_or_else(|| damaged(name))?;
        let tip = self.branch_tip(name)?;
        Ok((first.of, Branch { name: name.clone(), from_seq: first.of_seq, after: first.after, tip }))
    }

    fn branch_tip(&self, name: &StreamId) -> Result<Tip> {
        let mark = self.ledger.mark(&Scope::Stream(name.clone()), &MarkKey::KeptTip)?;
        let (seq, chain) = mark.as_deref().and_then(parse_tip).ok_or_else(|| damaged(name))?;
        Ok(Tip { len: seq + 1, chain })
    }

    /// What a branch keeps at a seq of its own, if it goes that far.
    fn kept_at(&self, branch: &StreamId, seq: u64) -> Result<Option<Kept>> {
        let Some(frame) = self.ledger.frames(branch, seq, 1)?.into_iter().next() else { return Ok(None) };
        let kept = RawFrame::parse(frame.json).ok().as_ref().and_then(Kept::read);
        Ok(Some(kept.ok_or_else(|| damaged(branch))?))
    }

    /// The chain value of a frame of a stream that was written here.
    pub(super) fn chain_of(&self, stream: &StreamId, seq: u64) -> Result<Option<Digest>> {
        Ok(self.ledger.frames(stream, seq, 1)?.first().map(|frame| frame.chain))
    }
}

fn damaged(branch: &StreamId) -> LedgerError {
    LedgerError::corrupt(branch.to_string(), "it does not hold what a branch holds")
}

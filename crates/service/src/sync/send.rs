//! Giving: frames that another store lacks, in the order in which they came here, and the bytes that they need.

use std::collections::{HashMap, HashSet};

use enjamb_core::frame::{Body, ContextBody, Kept, Linked, RawFrame, artifact_mentions};
use enjamb_core::sync::{Point, Writer};
use enjamb_core::{ArtifactId, Digest, StreamId, StreamKind, limits};
use enjamb_ledger::{FrameRecord, Ledger, LedgerError};

use super::lines::{Branch, Holder, Lines};
use super::travels;
use crate::{Result, Store};

/// Frames of one page, and their bytes.
const PAGE_FRAMES_MAX: usize = limits::BATCH_FRAMES_MAX;
const PAGE_BYTES_MAX: usize = 4 << 20;
/// Frames that one request looks at: most may be known to the other store.
const LOOKED_AT_MAX: usize = 100_000;
/// Bytes of artifacts in one package.
const PACKAGE_BYTES_MAX: usize = 8 << 20;
/// A longer artifact is not looked through for ids of others.
const DOCUMENT_BYTES_MAX: u64 = 16 << 20;

/// A stream of which frames are wanted, and what of it the other store has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Want {
    pub stream: StreamId,
    pub have: Vec<Point>,
}

/// Frames, and what they need.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FramePage {
    pub frames: Vec<Linked>,
    /// Artifacts that are here and that the frames, or what they name, mention: those that others name come first.
    pub needs: Vec<(ArtifactId, u64)>,
    /// The record to go on after.
    pub next: u64,
    pub done: bool,
}

/// From which seq on frames of each stored stream are wanted.
enum Wanted {
    /// All but what stays.
    AllBut(HashSet<StreamId>),
    From(HashMap<StreamId, u64>),
}

impl Store {
    /// The next frames of those that are wanted, or of all, that are stored after a record.
    pub fn sync_frames(&self, wants: Option<&[Want]>, after: u64) -> Result<FramePage> {
        let wanted = match wants {
            None => Wanted::AllBut(self.staying()?),
            Some(wants) => Wanted::From(self.seqs_wanted(wants)?),
        };
        let mut page = FramePage { next: after, done: true, ..FramePage::default() };
        let (mut found, mut bytes, mut looked_at) = (Vec::new(), 0, 0);
        self.ledger.each_frame(after + 1, &mut |n, frame| {
            let is_wanted = wanted.has(frame);
            if (is_wanted && (found.len() >= PAGE_FRAMES_MAX || bytes >= PAGE_BYTES_MAX)) || looked_at >= LOOKED_AT_MAX
            {
                page.done = false;
                return Ok(false);
            }
            if is_wanted {
                bytes += frame.json.len();
                found.push(frame.clone());
            }
            looked_at += 1;
            page.next = n;
            Ok(true)
        })?;
        page.frames = self.linked(found)?;
        page.needs = self.needs(&page.frames)?;
        Ok(page)
    }

    fn seqs_wanted(&self, wants: &[Want]) -> Result<HashMap<StreamId, u64>> {
        let (mut from, staying) = (HashMap::new(), self.staying()?);
        for want in wants.iter().filter(|want| travels(&want.stream) && !staying.contains(&want.stream)) {
            let lines = self.lines(&want.stream)?;
            from.insert(want.stream.clone(), 0);
            from.extend(lines.branches.iter().map(|branch| (branch.name.clone(), branch.from_seq)));
            for point in &want.have {
                self.leave_out(&lines, &want.stream, point.seq, &point.chain, &mut from)?;
            }
        }
        Ok(from)
    }

    /// Whoever has a frame has all that it follows.
    fn leave_out(
        &self,
        lines: &Lines,
        stream: &StreamId,
        seq: u64,
        chain: &Digest,
        from: &mut HashMap<StreamId, u64>,
    ) -> Result<()> {
        let (mut seq, mut chain) = (seq, *chain);
        while let Some(holder) = lines.holder(self, seq, &chain)? {
            let (name, before) = match holder {
                Holder::Own => (stream, None),
                Holder::Branch(at) => {
                    let Branch { name, from_seq, after, .. } = &lines.branches[at];
                    (name, from_seq.checked_sub(1).map(|before| (before, *after)))
                }
            };
            from.entry(name.clone()).and_modify(|first| *first = (*first).max(seq + 1));
            let Some(before) = before else { break };
            (seq, chain) = before;
        }
        Ok(())
    }

    /// Stored frames as they stand in their own streams.
    fn linked(&self, found: Vec<FrameRecord>) -> Result<Vec<Linked>> {
        let mut chains: HashMap<StreamId, Digest> = HashMap::new();
        let mut frames = Vec::with_capacity(found.len());
        for record in found {
            let frame = match record.stream.kind {
                StreamKind::Branch => self.unwrapped(record)?,
                _ => self.own(record, &mut chains)?,
            };
            frames.push(frame);
        }
        Ok(frames)
    }

    fn own(&self, record: FrameRecord, chains: &mut HashMap<StreamId, Digest>) -> Result<Linked> {
        let FrameRecord { stream, seq, key, json, .. } = record;
        let after = match (chains.get(&stream), seq.checked_sub(1)) {
            (Some(chain), _) => *chain,
            (None, None) => Digest::ZERO,
            (None, Some(before)) => {
                let missing = || LedgerError::corrupt(stream.to_string(), format!("frame {before} is not there"));
                self.chain_of(&stream, before)?.ok_or_else(missing)?
            }
        };
        let linked = Linked { stream, seq, key, after, json };
        chains.insert(linked.stream.clone(), linked.chain());
        Ok(linked)
    }

    fn unwrapped(&self, record: FrameRecord) -> Result<Linked> {
        let damaged = || LedgerError::corrupt(record.stream.to_string(), format!("frame {} keeps nothing", record.seq));
        let raw = RawFrame::parse(record.json.clone())?;
        let kept = Kept::read(&raw).ok_or_else(damaged)?;
        Ok(kept.linked(|id| self.get_small(id).ok()).ok_or_else(damaged)?)
    }

    /// The artifacts that frames need, those that others name before these.
    fn needs(&self, frames: &[Linked]) -> Result<Vec<(ArtifactId, u64)>> {
        let mut needs = Needs { store: self, seen: HashSet::new(), found: Vec::new() };
        for frame in frames {
            let is_document = !holds_deltas(&frame.json);
            for id in artifact_mentions(&frame.json) {
                needs.add(id, is_document)?;
            }
        }
        Ok(needs.found)
    }

    /// Artifacts in one package: as many of those asked for as it takes, each of which is here and is not large.
    pub fn sync_artifacts(&self, ids: &[ArtifactId]) -> Result<Vec<u8>> {
        let mut package = Writer::default();
        for id in ids {
            let Some(found) = self.artifact_here(id)? else { continue };
            let fits = package.len() + found.len as usize <= PACKAGE_BYTES_MAX;
            if found.len > limits::ARTIFACT_INLINE_BYTES_MAX as u64 || !(fits || package.is_empty()) {
                continue;
            }
            package.artifact(&self.get_small(id)?);
        }
        Ok(package.finish())
    }
}

impl Wanted {
    fn has(&self, frame: &FrameRecord) -> bool {
        match self {
            Self::AllBut(staying) => match frame.stream.kind {
                StreamKind::Branch => kept_in(frame).is_some_and(|kept| !staying.contains(&kept.of)),
                _ => travels(&frame.stream) && !staying.contains(&frame.stream),
            },
            Self::From(seqs) => seqs.get(&frame.stream).is_some_and(|from| match frame.stream.kind {
                StreamKind::Branch => kept_in(frame).is_some_and(|kept| kept.of_seq >= *from),
                _ => frame.seq >= *from,
            }),
        }
    }
}

/// What a frame of a branch keeps.
fn kept_in(frame: &FrameRecord) -> Option<Kept> {
    Kept::read(&RawFrame::parse(frame.json.clone()).ok()?)
}

/// What commits and sources name is what runtimes wrote, and whatever is in there names nothing of ours.
fn holds_deltas(json: &[u8]) -> bool {
    let decoded = RawFrame::parse(json.to_vec()).and_then(|raw| raw.decode());
    matches!(
        decoded.map(|frame| frame.body),
        Ok(Body::Source(_) | Body::Context(ContextBody::ContextCommitted(_) | ContextBody::ContextNoted(_)))
    )
}

/// Artifacts being gathered.
struct Needs<'s> {
    store: &'s Store,
    seen: HashSet<ArtifactId>,
    found: Vec<(ArtifactId, u64)>,
}

impl Needs<'_> {
    /// Adds what an artifact names, if it is a document, and then the artifact.
    fn add(&mut self, id: ArtifactId, is_document: bool) -> Result<()> {
        // What is still to be added after what it names has come: `true` when that has.
        let mut waiting = vec![(id, false)];
        while let Some((id, is_looked_through)) = waiting.pop() {
            let Some(artifact) = self.store.artifact_here(&id)? else { continue };
            if is_looked_through {
                self.found.push((id, artifact.len));
                continue;
            }
            if !self.seen.insert(id) {
                continue;
            }
            waiting.push((id, true));
            if is_document && artifact.len <= DOCUMENT_BYTES_MAX {
                let named = artifact_mentions(&self.store.get_small(&id)?);
                waiting.extend(named.into_iter().map(|id| (id, false)));
            }
        }
        Ok(())
    }
}

//! Moving: frames page by page in the order in which they came, after the bytes that they need.

use std::collections::HashSet;

use enjamb_core::frame::{Body, ContextBody, Linked, RawFrame};
use enjamb_core::sync::{Package, Writer};
use enjamb_core::{ArtifactId, StreamId, limits};

use super::compare::{Comparison, Roots, compare};
use super::peer::{Peer, Traffic};
use crate::client::ClientError;
use crate::view;

type Result<T> = std::result::Result<T, ClientError>;

/// Bytes of artifacts in one package.
pub(super) const PACKAGE_BYTES_MAX: u64 = 8 << 20;
/// Artifacts in one package.
const PACKAGE_ARTIFACTS_MAX: usize = 1_000;

/// What was moved.
#[derive(Clone, Debug)]
pub struct Transferred {
    pub roots: Roots,
    pub streams: u64,
    pub frames: u64,
    pub commits: u64,
    pub artifacts: u64,
    /// Bytes of frames and artifacts.
    pub bytes: u64,
    /// Frames that the other store keeps in branches, because it wrote to the same streams.
    pub kept: u64,
    /// Streams of which the other store has frames that this one lacks.
    pub more_there: u64,
    /// The record of the store that gave up to which all was given.
    pub position: u64,
    pub from: Traffic,
    pub to: Traffic,
}

/// Told how many records of how many were gone through.
pub type Tell<'t> = dyn FnMut(u64, u64) + 't;

/// Brings `to` all that `from` has. What was stored before the record `hint` is taken to be known, unless it turns out
/// not to be.
pub fn transfer(from: &Peer<'_>, to: &Peer<'_>, hint: u64, tell: &mut Tell<'_>) -> Result<Transferred> {
    let first = compare(from, to)?;
    let mut moving =
        Moving { from, to, streams: HashSet::new(), frames: 0, commits: 0, artifacts: 0, bytes: 0, kept: 0 };
    if first.is_settled() {
        return Ok(moving.ended(first));
    }
    moving.walk(&first, hint, tell)?;
    let mut last = compare(from, to)?;
    if !last.is_settled() && hint > 0 {
        // What was remembered is not so: the other store may be an older copy of itself.
        moving.walk(&last, 0, tell)?;
        last = compare(from, to)?;
    }
    Ok(moving.ended(Comparison { position: first.position, ..last }))
}

struct Moving<'p, 'o> {
    from: &'p Peer<'o>,
    to: &'p Peer<'o>,
    streams: HashSet<StreamId>,
    frames: u64,
    commits: u64,
    artifacts: u64,
    bytes: u64,
    kept: u64,
}

impl Moving<'_, '_> {
    fn ended(self, last: Comparison) -> Transferred {
        Transferred {
            roots: last.roots,
            streams: self.streams.len() as u64,
            frames: self.frames,
            commits: self.commits,
            artifacts: self.artifacts,
            bytes: self.bytes,
            kept: self.kept,
            more_there: last.more_there,
            position: last.position,
            from: self.from.traffic(),
            to: self.to.traffic(),
        }
    }

    fn walk(&mut self, comparison: &Comparison, hint: u64, tell: &mut Tell<'_>) -> Result<()> {
        let mut after = if comparison.wants.is_some() { hint } else { 0 };
        loop {
            let page = self.from.frames(comparison.wants.as_deref(), after)?;
            match self.hand_on(page.package) {
                // What the hint passed over is lacking after all: the second walk brings it.
                Err(ClientError::Refused(problem)) if hint > 0 && problem["code"] == "sync-gap" => return Ok(()),
                other => other?,
            }
            tell(page.next, comparison.position.max(page.next));
            if page.done {
                return Ok(());
            }
            after = page.next;
        }
    }

    /// Brings the artifacts that frames need, and then the frames. The last bytes and the frames are one package, and so
    /// one batch there.
    fn hand_on(&mut self, package: Package) -> Result<()> {
        if package.frames.is_empty() {
            return Ok(());
        }
        let ids: Vec<_> = package.needs.iter().map(|(id, _)| *id).collect();
        let missing: HashSet<_> = self.to.missing(&ids)?.into_iter().collect();
        let (large, small): (Vec<_>, Vec<_>) = package
            .needs
            .iter()
            .filter(|(id, _)| missing.contains(id))
            .partition(|(_, len)| *len > limits::ARTIFACT_INLINE_BYTES_MAX as u64);
        for (id, len) in large {
            self.to.fetch_large(self.from, &id)?;
            self.artifacts += 1;
            self.bytes += len;
        }
        let mut groups = grouped(&small).into_iter().peekable();
        let mut last = Writer::default();
        while let Some(ids) = groups.next() {
            let mut writer = Writer::default();
            self.from.artifacts(&ids)?.iter().for_each(|bytes| writer.artifact(bytes));
            if groups.peek().is_none() {
                last = writer;
                break;
            }
            self.send(writer)?;
        }
        package.frames.iter().for_each(|frame| last.frame(frame));
        package.needs.iter().for_each(|(id, len)| last.need(id, *len));
        self.bytes += small.iter().map(|(_, len)| len).sum::<u64>();
        let received = self.send(last)?;
        self.count(&package.frames, &received);
        Ok(())
    }

    fn send(&mut self, package: Writer) -> Result<view::SyncReceived> {
        let received = self.to.receive(package.finish())?;
        self.artifacts += received.artifacts;
        Ok(received)
    }

    fn count(&mut self, frames: &[Linked], received: &view::SyncReceived) {
        self.kept += received.kept;
        self.frames += received.appended + received.kept;
        for frame in frames {
            self.streams.insert(frame.stream.clone());
            self.commits += u64::from(is_commit(frame));
            self.bytes += frame.json.len() as u64;
        }
    }
}

pub(super) fn is_commit(frame: &Linked) -> bool {
    let decoded = RawFrame::parse(frame.json.clone()).and_then(|raw| raw.decode());
    matches!(decoded.map(|frame| frame.body), Ok(Body::Context(ContextBody::ContextCommitted(_))))
}

/// Artifacts in groups, each of which fits a package.
pub(super) fn grouped(needs: &[(ArtifactId, u64)]) -> Vec<Vec<ArtifactId>> {
    let mut groups: Vec<Vec<ArtifactId>> = Vec::new();
    let mut room = 0;
    for (id, len) in needs {
        // Each has a few bytes of its own in a package.
        let len = len + 16;
        match groups.last_mut() {
            Some(group) if len <= room && group.len() < PACKAGE_ARTIFACTS_MAX => group.push(*id),
            _ => {
                groups.push(vec![*id]);
                room = PACKAGE_BYTES_MAX - (64 << 10);
            }
        }
        room = room.saturating_sub(len);
    }
    groups
}

//! What a transfer would move, found out without moving anything, and the secrets in it.

use std::collections::{BTreeMap, HashMap, HashSet};

use enjamb_core::frame::artifact_mentions;
use enjamb_core::redact::secrets;
use enjamb_core::sync::Package;
use enjamb_core::{ArtifactId, StreamId, limits};

use super::compare::{Comparison, Roots, compare};
use super::peer::Peer;
use super::transfer::{grouped, is_commit};
use crate::client::ClientError;

type Result<T> = std::result::Result<T, ClientError>;

/// What would be moved.
#[derive(Clone, Debug)]
pub struct Plan {
    pub roots: Roots,
    pub streams: u64,
    pub frames: u64,
    pub commits: u64,
    pub artifacts: u64,
    /// Bytes of frames and artifacts.
    pub bytes: u64,
    /// Secrets in these bytes, by their kinds.
    pub secrets: BTreeMap<&'static str, u64>,
    /// The streams whose frames hold them, or name what does.
    pub secret_streams: BTreeMap<StreamId, u64>,
    /// Streams that are private and stay.
    pub private: u64,
    /// Streams of which the other store has frames that this one lacks.
    pub more_there: u64,
}

/// Finds out what [`super::transfer`] would move.
pub fn plan(from: &Peer<'_>, to: &Peer<'_>, hint: u64) -> Result<Plan> {
    let comparison = compare(from, to)?;
    let mut looking = Looking { from, to, streams: HashSet::new(), seen: HashSet::new(), plan: empty(&comparison) };
    if !comparison.is_settled() {
        let mut after = if comparison.wants.is_some() { hint } else { 0 };
        loop {
            let page = from.frames(comparison.wants.as_deref(), after)?;
            looking.look(&page.package)?;
            if page.done {
                break;
            }
            after = page.next;
        }
    }
    looking.plan.streams = looking.streams.len() as u64;
    looking.plan.private = from.private();
    Ok(looking.plan)
}

fn empty(comparison: &Comparison) -> Plan {
    let Comparison { roots, more_there, .. } = *comparison;
    let (secrets, secret_streams) = (BTreeMap::new(), BTreeMap::new());
    let (streams, frames, commits, artifacts, bytes, private) = (0, 0, 0, 0, 0, 0);
    Plan { roots, streams, frames, commits, artifacts, bytes, secrets, secret_streams, private, more_there }
}

struct Looking<'p, 'o> {
    from: &'p Peer<'o>,
    to: &'p Peer<'o>,
    streams: HashSet<StreamId>,
    seen: HashSet<ArtifactId>,
    plan: Plan,
}

impl Looking<'_, '_> {
    fn look(&mut self, package: &Package) -> Result<()> {
        for frame in &package.frames {
            self.streams.insert(frame.stream.clone());
            self.plan.frames += 1;
            self.plan.commits += u64::from(is_commit(frame));
            self.add(&frame.json, Some(&frame.stream));
        }
        let mut named_by: HashMap<ArtifactId, &StreamId> = HashMap::new();
        for frame in &package.frames {
            named_by.extend(artifact_mentions(&frame.json).into_iter().map(|id| (id, &frame.stream)));
        }
        let ids: Vec<_> = package.needs.iter().map(|(id, _)| *id).collect();
        let missing: HashSet<_> = self.to.missing(&ids)?.into_iter().collect();
        let new = package.needs.iter().filter(|(id, _)| missing.contains(id) && self.seen.insert(*id));
        let (large, small): (Vec<_>, Vec<_>) =
            new.partition(|(_, len)| *len > limits::ARTIFACT_INLINE_BYTES_MAX as u64);
        self.plan.artifacts += (large.len() + small.len()) as u64;
        for (id, _) in large {
            let from = self.from;
            from.read(&id, &mut |part| self.add(part, named_by.get(&id).copied()))?;
        }
        for ids in grouped(&small) {
            for bytes in self.from.artifacts(&ids)? {
                self.add(&bytes, named_by.get(&ArtifactId::of(&bytes)).copied());
            }
        }
        Ok(())
    }

    /// Counts bytes of a stream, or of something that is named by what is named.
    fn add(&mut self, bytes: &[u8], of: Option<&StreamId>) {
        self.plan.bytes += bytes.len() as u64;
        for secret in secrets(bytes) {
            *self.plan.secrets.entry(secret.rule).or_default() += 1;
            if let Some(stream) = of {
                *self.plan.secret_streams.entry(stream.clone()).or_default() += 1;
            }
        }
    }
}

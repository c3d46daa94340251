//! What one store tells another, gives to it and takes from it, so that both come to hold the same.

mod error;
mod lines;
mod place;
mod private;
mod receive;
mod send;

#[cfg(test)]
mod tests;

use std::collections::HashMap;

use enjamb_core::sync::{Head, Node, Point, Tip, node, tips};
use enjamb_core::{ArtifactId, Digest, StreamId, StreamKind};
use enjamb_ledger::{ArtifactSummary, Ledger, StreamOrder};

use crate::{Result, Store};

pub use error::SyncError;
pub use receive::Received;
pub use send::{FramePage, Want};

use lines::{Branch, Lines};

/// Who did what in a store is told in streams of this kind, and to nobody else.
pub const AUDIT_KIND: &str = "audit";

/// Whether frames of a stream go to other stores. Those of a branch go as what they keep.
pub(crate) fn travels(stream: &StreamId) -> bool {
    ![AUDIT_KIND, private::KIND].contains(&stream.kind.as_str()) && stream.kind != StreamKind::Branch
}

impl Store {
    /// What there is among the streams whose digests begin so, and the number of the last record.
    pub fn sync_node(&self, prefix: &str) -> Result<(Node, u64)> {
        // Asked first: what comes in between is sent once more rather than never.
        let position = self.ledger.position()?;
        let found = node(&self.heads()?, prefix).ok_or_else(|| SyncError::BadPrefix(prefix.to_owned()))?;
        Ok((found, position))
    }

    /// Every stream that travels, and where it ends.
    fn heads(&self) -> Result<Vec<Head>> {
        let staying = self.staying()?;
        let mut lines: HashMap<StreamId, Lines> = HashMap::new();
        for summary in self.ledger.streams(None, StreamOrder::Name, usize::MAX)? {
            if travels(&summary.stream) {
                let own = Some(Tip { len: summary.next_seq, chain: summary.chain });
                lines.entry(summary.stream).or_default().own = own;
            } else if summary.stream.kind == StreamKind::Branch {
                let (of, branch) = self.branch(&summary.stream)?;
                lines.entry(of).or_default().branches.push(branch);
            }
        }
        lines.retain(|stream, _| !staying.contains(stream));
        let head = |(stream, lines): (StreamId, Lines)| {
            let forks: Vec<_> = lines.branches.iter().map(Branch::fork).collect();
            Head { stream, tips: tips(lines.own, &forks) }
        };
        Ok(lines.into_iter().map(head).collect())
    }

    /// For each of some frames, whether it is here, and with it all before it.
    pub fn sync_known(&self, points: &[Point]) -> Result<Vec<bool>> {
        points
            .iter()
            .map(|point| Ok(self.lines(&point.stream)?.holder(self, point.seq, &point.chain)?.is_some()))
            .collect()
    }

    /// Frames on the way back from a tip, each twice as far from it as the one before: of these, another store says
    /// which it has.
    pub fn sync_points(&self, tip: &Point) -> Result<Vec<Point>> {
        let lines = self.lines(&tip.stream)?;
        let Some(mut holder) = lines.holder(self, tip.seq, &tip.chain)? else { return Ok(Vec::new()) };
        let mut points = Vec::new();
        let mut back = 1;
        while let Some(seq) = tip.seq.checked_sub(back) {
            holder = lines.holder_on_the_way(self, holder, seq)?;
            let chain = lines.chain_at(self, holder, seq)?.ok_or_else(|| SyncError::gap(&tip.stream, seq))?;
            points.push(Point { stream: tip.stream.clone(), seq, chain });
            back *= 2;
        }
        Ok(points)
    }

    /// Those of some artifacts that are not here.
    pub fn sync_missing(&self, ids: &[ArtifactId]) -> Result<Vec<ArtifactId>> {
        let mut missing = Vec::new();
        for id in ids {
            if self.ledger.artifact(id)?.is_none() {
                missing.push(*id);
            }
        }
        Ok(missing)
    }

    fn artifact_here(&self, id: &ArtifactId) -> Result<Option<ArtifactSummary>> {
        Ok(self.ledger.artifact(id)?)
    }

    /// The digest that covers everything that travels.
    pub fn sync_root(&self) -> Result<Digest> {
        Ok(self.sync_node("")?.0.digest)
    }
}

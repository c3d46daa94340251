//! What stores tell one another when they come to hold the same.

use enjamb_core::sync::{Head, Node, Point, Tip};
use enjamb_core::{Digest, StreamId};
use enjamb_service::{Received, Want};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Streams whose names have digests that begin alike
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct SyncNode {
    /// Covers them all; for all streams it is the root
    pub digest: String,
    pub streams: u64,
    /// The number of the last record of the store
    pub position: u64,
    /// Streams that are private and stay where they are
    #[serde(default)]
    pub private: u64,
    /// Digests by the next digit, when the streams are many
    pub children: Vec<String>,
    /// The streams, when they are few
    pub heads: Vec<SyncHead>,
}

/// A stream and its ends
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct SyncHead {
    pub stream: String,
    pub tips: Vec<SyncTip>,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SyncTip {
    /// Frames up to here
    pub len: u64,
    /// The chain value of the last of them
    pub chain: String,
}

/// A frame by its place and its chain value
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SyncPoint {
    pub stream: String,
    pub seq: u64,
    pub chain: String,
}

/// A stream of which frames are wanted, and what the other store has of it
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SyncWant {
    pub stream: String,
    pub have: Vec<SyncPoint>,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct SyncKnown {
    /// For each frame that was asked about, in the same order
    pub known: Vec<bool>,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct SyncPoints {
    /// For each tip that was asked about, frames on the way back from it
    pub points: Vec<Vec<SyncPoint>>,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct SyncMissing {
    pub missing: Vec<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SyncReceived {
    /// Artifacts that were not here
    pub artifacts: u64,
    /// Frames that went on to their own streams
    pub appended: u64,
    /// Frames that are kept in branches
    pub kept: u64,
    /// Frames that were here
    pub known: u64,
}

impl SyncNode {
    pub fn of(node: &Node, position: u64, private: u64) -> Self {
        Self {
            digest: node.digest.to_hex(),
            streams: node.streams,
            position,
            private,
            children: node.children.iter().map(Digest::to_hex).collect(),
            heads: node.heads.iter().map(SyncHead::of).collect(),
        }
    }

    /// The node as it was told, if it can be one.
    pub fn node(&self) -> Option<Node> {
        let children: Option<Vec<_>> = self.children.iter().map(|hex| Digest::from_hex(hex)).collect();
        let heads: Option<Vec<_>> = self.heads.iter().map(SyncHead::head).collect();
        let children = children.filter(|children| matches!(children.len(), 0 | 16))?;
        Some(Node { digest: Digest::from_hex(&self.digest)?, streams: self.streams, children, heads: heads? })
    }
}

impl SyncHead {
    fn of(head: &Head) -> Self {
        let tip = |tip: &Tip| SyncTip { len: tip.len, chain: tip.chain.to_hex() };
        Self { stream: head.stream.to_string(), tips: head.tips.iter().map(tip).collect() }
    }

    fn head(&self) -> Option<Head> {
        let tip = |tip: &SyncTip| Some(Tip { len: tip.len, chain: Digest::from_hex(&tip.chain)? });
        let tips: Option<_> = self.tips.iter().map(tip).collect();
        Some(Head { stream: self.stream.parse().ok()?, tips: tips? })
    }
}

impl SyncPoint {
    pub fn of(point: &Point) -> Self {
        Self { stream: point.stream.to_string(), seq: point.seq, chain: point.chain.to_hex() }
    }

    pub fn point(&self) -> Option<Point> {
        let stream: StreamId = self.stream.parse().ok()?;
        Some(Point { stream, seq: self.seq, chain: Digest::from_hex(&self.chain)? })
    }
}

impl SyncWant {
    pub fn of(want: &Want) -> Self {
        Self { stream: want.stream.to_string(), have: want.have.iter().map(SyncPoint::of).collect() }
    }

    pub fn want(&self) -> Option<Want> {
        let have: Option<_> = self.have.iter().map(SyncPoint::point).collect();
        Some(Want { stream: self.stream.parse().ok()?, have: have? })
    }
}

impl From<Received> for SyncReceived {
    fn from(received: Received) -> Self {
        let Received { artifacts, appended, kept, known } = received;
        Self { artifacts, appended, kept, known }
    }
}

//! Streams, frames and artifacts.

use enjamb_core::{Json, Timestamp};
use enjamb_ledger::{Appended, StoredFrame, StreamSummary};
use enjamb_service::{ArtifactView, Stored};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::instant;

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Stream {
    /// `kind/id`
    pub stream: String,
    pub kind: String,
    pub id: String,
    pub frames: u64,
    pub bytes: u64,
    pub first_at: String,
    pub last_at: String,
    /// Covers every frame: two streams with equal chains are equal.
    pub chain: String,
}

impl From<&StreamSummary> for Stream {
    fn from(stream: &StreamSummary) -> Self {
        Self {
            stream: stream.stream.to_string(),
            kind: stream.stream.kind.as_str().to_owned(),
            id: stream.stream.id.clone(),
            frames: stream.next_seq,
            bytes: stream.bytes,
            first_at: instant(stream.first_ms),
            last_at: instant(stream.last_ms),
            chain: stream.chain.to_hex(),
        }
    }
}

impl Stream {
    /// The stream as a listing on this machine has it. How many of its frames are messages is not told.
    pub fn summary(&self) -> Option<StreamSummary> {
        let ms = |text: &String| text.parse::<Timestamp>().ok().map(Timestamp::as_millis);
        Some(StreamSummary {
            stream: self.stream.parse().ok()?,
            next_seq: self.frames,
            chain: enjamb_core::Digest::from_hex(&self.chain)?,
            first_ms: ms(&self.first_at)?,
            last_ms: ms(&self.last_at)?,
            bytes: self.bytes,
            messages: 0,
        })
    }
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Streams {
    pub streams: Vec<Stream>,
    /// Give it as `cursor` for the next page.
    pub next: Option<String>,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Frame {
    pub seq: u64,
    pub chain: String,
    /// The frame as it is stored, byte for byte.
    #[schemars(with = "Value")]
    pub frame: Json,
}

impl From<&StoredFrame> for Frame {
    fn from(frame: &StoredFrame) -> Self {
        // What is stored was parsed when it was appended.
        let json = Json::parse(String::from_utf8_lossy(&frame.json)).unwrap_or_else(|_| Json::from(Value::Null));
        Self { seq: frame.seq, chain: frame.chain.to_hex(), frame: json }
    }
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Frames {
    pub frames: Vec<Frame>,
    /// Give it as `cursor` for the next page; null when this page ends the stream.
    pub next: Option<String>,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct FramePlace {
    pub stream: String,
    pub seq: u64,
}

/// Where appended frames are.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct AppendedFrames {
    pub frames: Vec<FramePlace>,
    /// The idempotency key was known: nothing was written, and this is the first answer again.
    pub replayed: bool,
    /// They are on disk.
    pub durable: bool,
}

impl From<&Appended> for AppendedFrames {
    fn from(appended: &Appended) -> Self {
        let place = |at: &enjamb_ledger::FrameAt| FramePlace { stream: at.stream.to_string(), seq: at.seq };
        Self { frames: appended.frames.iter().map(place).collect(), replayed: appended.replayed, durable: true }
    }
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct StoredArtifact {
    pub id: String,
    pub bytes: u64,
    /// The bytes were here already.
    pub known: bool,
}

impl From<Stored> for StoredArtifact {
    fn from(stored: Stored) -> Self {
        Self { id: stored.id.to_string(), bytes: stored.len, known: stored.known }
    }
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Artifact {
    pub id: String,
    pub bytes: u64,
    /// `default`, `pin`, `ephemeral` or `replicate`
    pub policy: String,
    pub expires_ms: Option<u64>,
    pub tags: Vec<String>,
}

impl From<&ArtifactView> for Artifact {
    fn from(view: &ArtifactView) -> Self {
        Self {
            id: view.id.to_string(),
            bytes: view.len,
            policy: view.policy.name().to_owned(),
            expires_ms: view.policy.expires_ms(),
            tags: view.tags.clone(),
        }
    }
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Artifacts {
    pub artifacts: Vec<Artifact>,
    pub next: Option<String>,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Tag {
    pub name: String,
    pub artifact: Option<String>,
    /// What it named before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous: Option<String>,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Tags {
    pub tags: Vec<Tag>,
}

//! Frames of a stream as another store has them, where this one wrote others: each is kept, byte for byte, in a frame
//! of a stream of its own, whose name says of which stream it is a branch, and from which seq on.
//!
//! A branch is made of nothing but what it holds: any store that keeps it has the same frames under the same name.

use serde::{Deserialize, Serialize};

use super::envelope::{is_storable, write};
use super::link::{FramePlace, KeyUse};
use super::members::{Members, ObjectWriter};
use super::{FrameError, Json, RawFrame};
use crate::{ArtifactId, Digest, StreamId, StreamKind, limits};

/// The type of the frames of branches.
pub const KEPT: &str = "frame_kept";
/// What a frame has around the one that it keeps, at most.
const AROUND_BYTES_MAX: usize = 8 << 10;

/// A frame as it stands in its own stream: exact bytes, and how it is linked to the one before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Linked {
    pub stream: StreamId,
    pub seq: u64,
    pub key: Option<KeyUse>,
    /// The chain value of the frame before it; zeros for the first.
    pub after: Digest,
    pub json: Vec<u8>,
}

/// What a frame of a branch says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    pub of: StreamId,
    pub of_seq: u64,
    pub after: Digest,
    pub chain: Digest,
    pub key: Option<KeyUse>,
    pub content: KeptContent,
}

/// The frame that is kept, or where it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeptContent {
    Json(Vec<u8>),
    /// It does not fit into a frame.
    Artifact(ArtifactId),
}

#[derive(Serialize, Deserialize)]
struct WrittenKey {
    key: String,
    request: String,
    frames: u32,
}

impl Linked {
    pub fn chain(&self) -> Digest {
        let place = FramePlace { stream: &self.stream, seq: self.seq, key: self.key.as_ref() };
        place.chain_after(&self.after, &self.json)
    }

    /// The branch that begins with this frame.
    pub fn branch(&self) -> StreamId {
        let point = format!("{}.{}", self.seq, &self.chain().to_hex()[..16]);
        let name = self.stream.to_string();
        let id = format!("{name}~{point}");
        let fits = id.len() <= limits::STREAM_ID_BYTES_MAX;
        let id = if fits { id } else { format!("~{}~{point}", Digest::of(name.as_bytes()).to_hex()) };
        StreamId { kind: StreamKind::Branch, id }
    }

    /// Whether its bytes fit into a frame around it. They do not if there are too many, too deep, or with space around.
    pub fn fits(&self) -> bool {
        let is_bare = self.json.first() == Some(&b'{') && self.json.last() == Some(&b'}');
        let text = std::str::from_utf8(&self.json);
        is_bare && self.json.len() + AROUND_BYTES_MAX <= limits::FRAME_BYTES_MAX && text.is_ok_and(is_storable)
    }

    /// The frame that keeps this one in a branch, at a seq of it. If it does not fit, its bytes are an artifact.
    pub fn to_kept(&self, branch: &StreamId, seq: u64) -> Result<Vec<u8>, FrameError> {
        let raw = RawFrame::parse(self.json.clone())?;
        let mut out = ObjectWriter::new();
        write(&mut out, raw.id(), branch, raw.timestamp_ms(), seq, KEPT);
        out.put("of", &self.stream.to_string());
        out.put("of_seq", &self.seq);
        out.put("after", &self.after.to_hex());
        out.put("chain", &self.chain().to_hex());
        if let Some(used) = &self.key {
            let request = used.request.iter().map(|byte| format!("{byte:02x}")).collect();
            out.put("key", &WrittenKey { key: used.key.clone(), request, frames: used.frames });
        }
        match Json::parse(raw.text()) {
            Ok(json) if self.fits() => out.put("frame", &json),
            _ => out.put("frame_artifact", &ArtifactId::of(&self.json).to_string()),
        }
        Ok(out.finish())
    }
}

impl Kept {
    /// Reads a frame of a branch. `None` when it is none, or says something that cannot be.
    pub fn read(raw: &RawFrame) -> Option<Self> {
        if raw.stream().kind != StreamKind::Branch || raw.type_name() != KEPT {
            return None;
        }
        let members = Members::parse(raw.text()).ok()?;
        let text = |name: &str| serde_json::from_str::<String>(members.get(name)?.get()).ok();
        let content = match members.get("frame") {
            Some(frame) => KeptContent::Json(frame.get().as_bytes().to_vec()),
            None => KeptContent::Artifact(text("frame_artifact")?.parse().ok()?),
        };
        let key = match members.get("key") {
            Some(key) => Some(read_key(key.get())?),
            None => None,
        };
        Some(Self {
            of: text("of")?.parse().ok()?,
            of_seq: serde_json::from_str(members.get("of_seq")?.get()).ok()?,
            after: Digest::from_hex(&text("after")?)?,
            chain: Digest::from_hex(&text("chain")?)?,
            key,
            content,
        })
    }

    /// The frame that is kept, with its bytes if they are not in here.
    pub fn linked(self, bytes: impl FnOnce(&ArtifactId) -> Option<Vec<u8>>) -> Option<Linked> {
        let json = match self.content {
            KeptContent::Json(json) => json,
            KeptContent::Artifact(id) => bytes(&id)?,
        };
        Some(Linked { stream: self.of, seq: self.of_seq, key: self.key, after: self.after, json })
    }

    /// The frame that is kept, if its bytes are in here.
    pub fn frame(&self) -> Option<RawFrame> {
        match &self.content {
            KeptContent::Json(json) => RawFrame::parse(json.clone()).ok(),
            KeptContent::Artifact(_) => None,
        }
    }
}

fn read_key(json: &str) -> Option<KeyUse> {
    let WrittenKey { key, request, frames } = serde_json::from_str(json).ok()?;
    let is_hex = request.len() == 32 && request.bytes().all(|byte| byte.is_ascii_hexdigit());
    let number = u128::from_str_radix(&request, 16).ok().filter(|_| is_hex)?;
    let fits = (1..=limits::IDEMPOTENCY_KEY_BYTES_MAX).contains(&key.len());
    fits.then(|| KeyUse { key, request: number.to_be_bytes(), frames })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn linked(json: &str) -> Linked {
        let key = Some(KeyUse { key: "k".into(), request: [7; 16], frames: 2 });
        let stream: StreamId = "context/dana".parse().unwrap();
        Linked { stream, seq: 3, key, after: Digest::of(b"before"), json: json.as_bytes().to_vec() }
    }

    const FRAME: &str = "{\"id\":\"f\",\"stream_kind\":\"context\",\"stream_id\":\"dana\", \"timestamp_ms\":5,\n\"seq\":3,\
        \"type\":\"odd\",\"n\":1.50,\"n\":2}";

    #[test]
    fn a_kept_frame_is_given_back_byte_for_byte() {
        let frame = linked(FRAME);
        let raw = RawFrame::parse(frame.to_kept(&frame.branch(), 0).unwrap()).unwrap();
        assert_eq!(Kept::read(&raw).unwrap().chain, frame.chain());
        assert_eq!(Kept::read(&raw).unwrap().linked(|_| None).unwrap(), frame);
    }

    #[test]
    fn what_does_not_fit_is_an_artifact() {
        let deep = FRAME.replace("1.50", &format!("{}{}", "[".repeat(127), "]".repeat(127)));
        for json in [format!(" {FRAME}"), deep] {
            let frame = linked(&json);
            let raw = RawFrame::parse(frame.to_kept(&frame.branch(), 0).unwrap()).unwrap();
            let bytes = json.clone().into_bytes();
            let found = |id: &ArtifactId| (*id == ArtifactId::of(&bytes)).then_some(bytes.clone());
            assert_eq!(Kept::read(&raw).unwrap().linked(found).unwrap(), frame);
        }
    }

    #[test]
    fn a_branch_is_named_by_where_it_begins() {
        let branch = linked(FRAME).branch();
        assert!(branch.to_string().starts_with("branch/context/dana~3."), "{branch}");
        let mut long = linked(FRAME);
        long.stream.id = "x".repeat(limits::STREAM_ID_BYTES_MAX);
        assert!(long.branch().id.starts_with('~') && long.branch().id.len() < 120);
    }
}

//! How frames of a stream are linked: the digest that covers a frame and, through the one before it, all that came before.

use crate::{Digest, Hasher, StreamId};

/// What a record of a frame begins with, in the log and in the digest.
const FRAME: u8 = 1;

/// An idempotency key as it was used: a retry of the same request gets the same answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyUse {
    pub key: String,
    /// The first half of a digest of the request, to tell a retry from another request under the same key.
    pub request: [u8; 16],
    /// Frames that the request appended to this stream, from this one on.
    pub frames: u32,
}

/// Where a frame stands: its stream, its seq, and the key that it was stored with, if it was the first of a request.
#[derive(Clone, Copy, Debug)]
pub struct FramePlace<'a> {
    pub stream: &'a StreamId,
    pub seq: u64,
    pub key: Option<&'a KeyUse>,
}

impl FramePlace<'_> {
    /// Writes the fields between the kind byte of a record and its chain value.
    pub fn put(&self, out: &mut Vec<u8>) {
        put_short(out, self.stream.kind.as_str());
        out.extend((self.stream.id.len() as u16).to_le_bytes());
        out.extend(self.stream.id.as_bytes());
        out.extend(self.seq.to_le_bytes());
        match self.key {
            None => out.push(0),
            Some(used) => {
                put_short(out, &used.key);
                out.extend(used.request);
                out.extend(used.frames.to_le_bytes());
            }
        }
    }

    /// The chain value of a frame here, if the frame before it has `previous`.
    pub fn chain_after(&self, previous: &Digest, json: &[u8]) -> Digest {
        let mut head = Vec::with_capacity(64 + self.stream.id.len());
        head.push(FRAME);
        self.put(&mut head);
        let mut hasher = Hasher::new();
        hasher.update(previous.as_bytes()).update(&head).update(json);
        hasher.finish()
    }
}

fn put_short(out: &mut Vec<u8>, text: &str) {
    out.push(text.len() as u8);
    out.extend(text.as_bytes());
}

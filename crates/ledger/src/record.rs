//! Records: what the log is made of, and their bytes.
//!
//! A record's body is a kind byte, fields, and a CRC-32C over the record's number and all before it, so that a flipped
//! bit or a row in another row's place is noticed whenever a body is read. Bodies are the truth: `docs/FORMAT.md` is the
//! normative description of this file.

use enjamb_core::{ArtifactId, Digest, Hasher, StreamId, StreamKind};

use crate::error::LedgerError;

/// One entry of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// The next frame of a stream.
    Frame(FrameRecord),
    /// The bytes of a small artifact.
    Bytes { id: ArtifactId, bytes: Vec<u8> },
    /// A segment that holds large artifacts.
    Segment(SegmentRecord),
    /// Where bytes of a dropped artifact, or a dropped segment, were.
    Dropped { len: u64 },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FrameRecord {
    pub stream: StreamId,
    pub seq: u64,
    /// Set on the first frame of a batch that came with an idempotency key.
    pub key: Option<KeyUse>,
    /// Covers this frame and the chain of the frame before it.
    pub chain: Digest,
    pub json: Vec<u8>,
}

/// An idempotency key as it was used: a retry of the same request gets the same answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyUse {
    pub key: String,
    /// The first half of a digest of the request, to tell a retry from another request under the same key.
    pub request: [u8; 16],
    /// Frames that the request appended to this stream, from this one on.
    pub frames: u32,
}

/// A segment made durable, and the artifacts that are readable from it on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentRecord {
    pub segment: Digest,
    pub bytes: u64,
    pub artifacts: Vec<(ArtifactId, u64)>,
}

const FRAME: u8 = 1;
const BYTES: u8 = 2;
const SEGMENT: u8 = 3;
const DROPPED: u8 = 4;
const CRC_LEN: usize = 4;

impl FrameRecord {
    /// Makes the record that follows `previous` in its stream.
    pub fn chained(previous: &Digest, stream: StreamId, seq: u64, key: Option<KeyUse>, json: Vec<u8>) -> Self {
        let mut record = Self { stream, seq, key, chain: Digest::ZERO, json };
        record.chain = record.chain_after(previous);
        record
    }

    /// The chain value this frame has if the frame before it has `previous`.
    pub fn chain_after(&self, previous: &Digest) -> Digest {
        let mut hasher = Hasher::new();
        hasher.update(previous.as_bytes()).update(&self.head_bytes()).update(&self.json);
        hasher.finish()
    }

    fn head_bytes(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(64 + self.stream.id.len());
        self.put_head(&mut out);
        out
    }

    fn put_head(&self, out: &mut Vec<u8>) {
        out.push(FRAME);
        put_short(out, self.stream.kind.as_str());
        out.extend((self.stream.id.len() as u16).to_le_bytes());
        out.extend(self.stream.id.as_bytes());
        out.extend(self.seq.to_le_bytes());
        match &self.key {
            None => out.push(0),
            Some(used) => {
                put_short(out, &used.key);
                out.extend(used.request);
                out.extend(used.frames.to_le_bytes());
            }
        }
    }
}

impl Record {
    /// The body of this record as number `n` of the log.
    pub fn encode(&self, n: u64) -> Vec<u8> {
        let mut out = Vec::new();
        self.encode_into(n, &mut out);
        out
    }

    /// As `encode`, in place of what `out` held.
    pub fn encode_into(&self, n: u64, out: &mut Vec<u8>) {
        out.clear();
        match self {
            Self::Frame(frame) => {
                frame.put_head(out);
                out.reserve(Digest::LEN + frame.json.len() + CRC_LEN);
                out.extend(frame.chain.as_bytes());
                out.extend(&frame.json);
            }
            Self::Bytes { bytes, .. } => {
                out.reserve(1 + bytes.len() + CRC_LEN);
                out.push(BYTES);
                out.extend(bytes);
            }
            Self::Segment(segment) => segment.put(out),
            Self::Dropped { len } => {
                out.push(DROPPED);
                out.extend(len.to_le_bytes());
            }
        }
        let crc = checksum(n, out);
        out.extend(crc.to_le_bytes());
    }

    /// Reads the body of record `n`, refusing one that is not what was written there.
    pub fn decode(n: u64, body: &[u8]) -> Result<Self, LedgerError> {
        let damaged = |detail: &str| LedgerError::corrupt(format!("record {n}"), detail);
        let split = body.len().checked_sub(CRC_LEN).ok_or_else(|| damaged("shorter than its checksum"))?;
        let (fields, crc) = body.split_at(split);
        if checksum(n, fields).to_le_bytes() != *crc {
            return Err(damaged("checksum does not match"));
        }
        decode_fields(fields).ok_or_else(|| damaged("fields do not parse"))
    }
}

/// The bytes in the body of a record of bytes. Whoever asks knows their digest and compares it; the checksum adds
/// nothing to that.
pub(crate) fn bytes_in(body: &[u8]) -> Option<&[u8]> {
    let (fields, _) = body.split_last_chunk::<CRC_LEN>()?;
    fields.strip_prefix(&[BYTES])
}

impl SegmentRecord {
    fn put(&self, out: &mut Vec<u8>) {
        out.push(SEGMENT);
        out.extend(self.segment.as_bytes());
        out.extend(self.bytes.to_le_bytes());
        out.extend((self.artifacts.len() as u32).to_le_bytes());
        for (id, len) in &self.artifacts {
            out.extend(id.digest().as_bytes());
            out.extend(len.to_le_bytes());
        }
    }
}

fn checksum(n: u64, fields: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&n.to_le_bytes()), fields)
}

fn decode_fields(fields: &[u8]) -> Option<Record> {
    let (kind, rest) = fields.split_first()?;
    let mut rest = Fields(rest);
    match *kind {
        FRAME => decode_frame(&mut rest).map(Record::Frame),
        BYTES => Some(Record::Bytes { id: ArtifactId::of(rest.0), bytes: rest.0.to_vec() }),
        SEGMENT => decode_segment(&mut rest).map(Record::Segment),
        DROPPED => Some(Record::Dropped { len: rest.u64()? }),
        _ => None,
    }
}

fn decode_frame(fields: &mut Fields<'_>) -> Option<FrameRecord> {
    let kind = StreamKind::from(fields.short()?);
    let id_len = usize::from(u16::from_le_bytes(fields.array()?));
    let id = std::str::from_utf8(fields.take(id_len)?).ok()?;
    let stream = StreamId::new(kind, id).ok()?;
    let seq = fields.u64()?;
    let key = match fields.short()? {
        "" => None,
        key => {
            Some(KeyUse { key: key.to_owned(), request: fields.array()?, frames: u32::from_le_bytes(fields.array()?) })
        }
    };
    let chain = Digest::from_bytes(fields.array()?);
    Some(FrameRecord { stream, seq, key, chain, json: fields.0.to_vec() })
}

fn decode_segment(fields: &mut Fields<'_>) -> Option<SegmentRecord> {
    let segment = Digest::from_bytes(fields.array()?);
    let bytes = fields.u64()?;
    let count = u32::from_le_bytes(fields.array()?);
    let artifacts = (0..count)
        .map(|_| Some((ArtifactId::from_digest(Digest::from_bytes(fields.array()?)), fields.u64()?)))
        .collect::<Option<_>>()?;
    Some(SegmentRecord { segment, bytes, artifacts })
}

fn put_short(out: &mut Vec<u8>, text: &str) {
    out.push(text.len() as u8);
    out.extend(text.as_bytes());
}

/// Stored fields being read from the front.
pub(crate) struct Fields<'a>(pub(crate) &'a [u8]);

impl<'a> Fields<'a> {
    pub(crate) fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (head, tail) = self.0.split_at_checked(len)?;
        self.0 = tail;
        Some(head)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    fn short(&mut self) -> Option<&'a str> {
        let len = self.take(1)?[0];
        std::str::from_utf8(self.take(usize::from(len))?).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn examples() -> Vec<Record> {
        let stream: StreamId = "session/s1".parse().unwrap();
        let used = KeyUse { key: "k".into(), request: [7; 16], frames: 2 };
        vec![
            Record::Frame(FrameRecord::chained(&Digest::ZERO, stream.clone(), 0, None, b"{}".to_vec())),
            Record::Frame(FrameRecord::chained(&Digest::of(b"p"), stream, 9, Some(used), b"{\"a\":1}".to_vec())),
            Record::Bytes { id: ArtifactId::of(b"hello"), bytes: b"hello".to_vec() },
            Record::Bytes { id: ArtifactId::of(b""), bytes: Vec::new() },
            Record::Segment(SegmentRecord {
                segment: Digest::of(b"s"),
                bytes: 12,
                artifacts: vec![(ArtifactId::of(b"x"), 5)],
            }),
            Record::Dropped { len: 5 },
        ]
    }

    #[test]
    fn bodies_are_read_back() {
        for record in examples() {
            assert_eq!(Record::decode(3, &record.encode(3)).unwrap(), record);
        }
    }

    #[test]
    fn any_flipped_bit_is_noticed() {
        for record in examples() {
            let body = record.encode(3);
            for bit in 0..body.len() * 8 {
                let mut flipped = body.clone();
                flipped[bit / 8] ^= 1 << (bit % 8);
                assert!(Record::decode(3, &flipped).is_err(), "bit {bit} of {record:?}");
            }
        }
    }

    #[test]
    fn a_body_in_another_rows_place_is_noticed() {
        for record in examples() {
            assert!(Record::decode(4, &record.encode(3)).is_err());
        }
    }

    #[test]
    fn truncated_bodies_are_refused() {
        for record in examples() {
            let body = record.encode(1);
            for len in 0..body.len() {
                assert!(Record::decode(1, &body[..len]).is_err());
            }
        }
    }
}

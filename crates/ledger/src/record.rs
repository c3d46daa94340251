//! Records: what the log is made of, and their bytes.
//!
//! A record's body is a kind byte, fields, and a CRC-32C over the record's number and all before it, so that a flipped
//! bit or a row in another row's place is noticed whenever a body is read. In a segment, whose blocks and tables have
//! digests, bodies are shorter: without the checksum, and frames without a chain value that follows from those before.
//! Bodies are the truth: `docs/FORMAT.md` is the normative description of this file.

use enjamb_core::frame::{FramePlace, Kept, KeyUse, RawFrame};
use enjamb_core::{ArtifactId, Digest, StreamId, StreamKind};

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
    /// Covers this frame and the chain of the frame before it. Most sealed frames are without: it follows from those
    /// before, back to one in 64 that keeps its own.
    pub chain: Option<Digest>,
    pub json: Vec<u8>,
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
const SEALED_FRAME: u8 = 5;
const SEALED_STATION: u8 = 6;
const SEALED_BYTES: u8 = 7;
const CRC_LEN: usize = 4;

/// Of so many frames of a stream the last keeps its chain value in a segment.
pub const STATION: u64 = 64;

impl FrameRecord {
    /// Makes the record that follows `previous` in its stream.
    pub fn chained(previous: &Digest, stream: StreamId, seq: u64, key: Option<KeyUse>, json: Vec<u8>) -> Self {
        let mut record = Self { stream, seq, key, chain: None, json };
        record.chain = Some(record.chain_after(previous));
        record
    }

    /// The chain value as it is recorded, where it has to be.
    pub fn recorded_chain(&self) -> Result<Digest, LedgerError> {
        let subject = || format!("frame {} of {}", self.seq, self.stream);
        self.chain.ok_or_else(|| LedgerError::corrupt(subject(), "it was sealed without its digest"))
    }

    /// The chain value this frame has after `previous`; `None` when it is recorded with another.
    pub fn following(&self, previous: &Digest) -> Option<Digest> {
        let chain = self.chain_after(previous);
        self.chain.is_none_or(|recorded| recorded == chain).then_some(chain)
    }

    /// The chain value this frame has if the frame before it has `previous`.
    pub fn chain_after(&self, previous: &Digest) -> Digest {
        self.place().chain_after(previous, &self.json)
    }

    /// The stream and the seq that what is told here is of: for a frame that is kept in a branch, its own.
    pub(crate) fn told_in(&self) -> (StreamId, u64) {
        let kept = match self.stream.kind {
            StreamKind::Branch => RawFrame::parse(self.json.clone()).ok().as_ref().and_then(Kept::read),
            _ => None,
        };
        kept.map_or_else(|| (self.stream.clone(), self.seq), |kept| (kept.of, kept.of_seq))
    }

    fn place(&self) -> FramePlace<'_> {
        FramePlace { stream: &self.stream, seq: self.seq, key: self.key.as_ref() }
    }

    /// What stands between the kind byte and the chain value.
    fn put_head(&self, out: &mut Vec<u8>) {
        self.place().put(out);
    }

    fn seal(&self) -> Vec<u8> {
        let station = self.chain.filter(|_| self.seq % STATION == STATION - 1);
        let mut out = vec![if station.is_some() { SEALED_STATION } else { SEALED_FRAME }];
        self.put_head(&mut out);
        out.extend(station.iter().flat_map(Digest::as_bytes));
        out.extend(&self.json);
        out
    }
}

impl Record {
    /// Bytes of content: a frame's JSON or an artifact's bytes.
    pub fn content_len(&self) -> u64 {
        match self {
            Self::Frame(frame) => frame.json.len() as u64,
            Self::Bytes { bytes, .. } => bytes.len() as u64,
            Self::Segment(_) | Self::Dropped { .. } => 0,
        }
    }

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
                out.push(FRAME);
                frame.put_head(out);
                out.reserve(Digest::LEN + frame.json.len() + CRC_LEN);
                out.extend(frame.chain.expect("a frame outside a segment has its chain").as_bytes());
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

    /// The body of this record in a segment.
    pub fn seal(&self, n: u64) -> Vec<u8> {
        match self {
            Self::Frame(frame) => frame.seal(),
            Self::Bytes { bytes, .. } => [&[SEALED_BYTES], &bytes[..]].concat(),
            Self::Segment(_) | Self::Dropped { .. } => self.encode(n),
        }
    }

    /// Reads the body of record `n` from a segment, which has compared its digest.
    pub fn unseal(n: u64, body: &[u8]) -> Result<Self, LedgerError> {
        let damaged = || LedgerError::corrupt(format!("record {n}"), "fields do not parse");
        match body.split_first() {
            Some((&SEALED_FRAME, rest)) => decode_frame(&mut Fields(rest), false).map(Self::Frame).ok_or_else(damaged),
            Some((&SEALED_STATION, rest)) => decode_frame(&mut Fields(rest), true).map(Self::Frame).ok_or_else(damaged),
            Some((&SEALED_BYTES, bytes)) => Ok(Self::Bytes { id: ArtifactId::of(bytes), bytes: bytes.to_vec() }),
            _ => Self::decode(n, body),
        }
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

/// The bytes in the body of a record of bytes, sealed or not. Whoever asks knows their digest and compares it; the
/// checksum adds nothing to that.
pub(crate) fn bytes_in(body: &[u8]) -> Option<&[u8]> {
    match body.split_first()? {
        (&BYTES, rest) => rest.split_last_chunk::<CRC_LEN>().map(|(bytes, _)| bytes),
        (&SEALED_BYTES, bytes) => Some(bytes),
        _ => None,
    }
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
        FRAME => decode_frame(&mut rest, true).map(Record::Frame),
        BYTES => Some(Record::Bytes { id: ArtifactId::of(rest.0), bytes: rest.0.to_vec() }),
        SEGMENT => decode_segment(&mut rest).map(Record::Segment),
        DROPPED => Some(Record::Dropped { len: rest.u64()? }),
        _ => None,
    }
}

fn decode_frame(fields: &mut Fields<'_>, has_chain: bool) -> Option<FrameRecord> {
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
    let chain = if has_chain { Some(Digest::from_bytes(fields.array()?)) } else { None };
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
    fn sealed_bodies_are_read_back_but_for_chains_that_follow() {
        for record in examples() {
            let mut expected = record.clone();
            if let Record::Frame(frame) = &mut expected {
                frame.chain = None;
            }
            let sealed = Record::unseal(3, &record.seal(3)).unwrap();
            assert_eq!(sealed, expected);
            assert_eq!(sealed.seal(3), record.seal(3), "sealing again changes nothing");
            assert!(record.seal(3).len() <= record.encode(3).len());
        }
        let stream: StreamId = "session/s1".parse().unwrap();
        let station = Record::Frame(FrameRecord::chained(&Digest::ZERO, stream, STATION - 1, None, b"{}".to_vec()));
        assert_eq!(Record::unseal(3, &station.seal(3)).unwrap(), station);
    }

    #[test]
    fn a_sealed_body_outside_a_segment_is_refused() {
        for record in examples() {
            let sealed = record.seal(3);
            let kept = Record::decode(3, &sealed).is_ok();
            assert_eq!(kept, matches!(record, Record::Segment(_) | Record::Dropped { .. }));
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

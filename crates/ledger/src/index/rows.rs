//! The rows of the index: their keys, their values, and what each value ends with to show that nothing is missing.
//!
//! Keys sort as they are meant to be walked: numbers are big-endian. The first byte says which table a row is of.

use enjamb_core::order::MarkKey;
use enjamb_core::{ArtifactId, Digest, StreamId, StreamKind};

use crate::record::Fields;

const TOTALS: u8 = b'T';
const STREAM: u8 = b'S';
const STREAM_NAME: u8 = b'N';
const FRAME: u8 = b'F';
const ARTIFACT: u8 = b'A';
const MARK: u8 = b'M';
const KEY: u8 = b'I';
const ACTIVITY: u8 = b'L';
const ORDINAL: u8 = b'G';
/// Of so many messages of a thread, the last has a row by its number.
pub const ORDINAL_STEP: u64 = 64;

/// Counts over the whole store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    pub streams: u64,
    pub frames: u64,
    pub frame_bytes: u64,
    pub artifacts: u64,
    pub artifact_bytes: u64,
}

/// A stream as the index knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamRow {
    /// Streams are numbered in the order of their first frames.
    pub number: u32,
    pub next_seq: u64,
    pub chain: Digest,
    pub first_ms: u64,
    pub last_ms: u64,
    pub bytes: u64,
    /// Messages of a thread.
    pub messages: u64,
}

/// Where an artifact's bytes are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArtifactRow {
    /// The record that holds the bytes, or names the segment that does.
    pub n: u64,
    pub len: u64,
    pub place: Place,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    Record,
    Segment,
}

/// An idempotency key as it was used on a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyRow {
    pub request: [u8; 16],
    pub first_seq: u64,
    pub frames: u32,
}

pub fn totals_key() -> Vec<u8> {
    vec![TOTALS]
}

pub fn stream_key(stream: &StreamId) -> Vec<u8> {
    let mut key = vec![STREAM];
    key.extend(stream_name(stream));
    key
}

/// The keys of all streams of a kind, or of all kinds.
pub fn stream_bounds(kind: Option<&str>) -> (Vec<u8>, Vec<u8>) {
    match kind {
        None => (vec![STREAM], vec![STREAM + 1]),
        Some(kind) => {
            let name = |end: u8| [&[STREAM], kind.as_bytes(), &[end]].concat();
            (name(0), name(1))
        }
    }
}

pub fn stream_name_key(number: u32) -> Vec<u8> {
    numbered(STREAM_NAME, number)
}

/// `kind NUL id`: no kind holds a NUL, so the name is read back as written.
pub fn stream_name(stream: &StreamId) -> Vec<u8> {
    [stream.kind.as_str().as_bytes(), b"\0", stream.id.as_bytes()].concat()
}

pub fn parse_stream_name(name: &[u8]) -> Option<StreamId> {
    let (kind, id) = std::str::from_utf8(name).ok()?.split_once('\0')?;
    StreamId::new(StreamKind::from(kind), id).ok()
}

pub fn frame_key(number: u32, seq: u64) -> Vec<u8> {
    let mut key = numbered(FRAME, number);
    key.extend(seq.to_be_bytes());
    key
}

pub fn artifact_key(id: &ArtifactId) -> Vec<u8> {
    artifact_bound(id.digest().as_bytes())
}

pub fn artifact_bound(digest: &[u8]) -> Vec<u8> {
    [&[ARTIFACT], digest].concat()
}

pub fn parse_artifact_key(key: &[u8]) -> Option<ArtifactId> {
    Digest::from_slice(key.strip_prefix(&[ARTIFACT])?).map(ArtifactId::from_digest)
}

/// The key of a mark; `stream` is the number of the scope's stream, `None` for the whole store.
pub fn mark_key(stream: Option<u32>, mark: &MarkKey) -> Vec<u8> {
    let mut key = mark_prefix(stream);
    key.extend(mark.encode());
    key
}

pub fn mark_prefix(stream: Option<u32>) -> Vec<u8> {
    match stream {
        None => vec![MARK, 0],
        Some(number) => {
            let mut key = vec![MARK, 1];
            key.extend(number.to_be_bytes());
            key
        }
    }
}

pub fn idempotency_key(number: u32, key: &str) -> Vec<u8> {
    let mut row = numbered(KEY, number);
    row.extend(key.as_bytes());
    row
}

pub fn activity_key(last_ms: u64, number: u32) -> Vec<u8> {
    let mut key = vec![ACTIVITY];
    key.extend(last_ms.to_be_bytes());
    key.extend(number.to_be_bytes());
    key
}

/// The row of a thread's message by its number, a multiple of [`ORDINAL_STEP`].
pub fn ordinal_key(number: u32, ordinal: u64) -> Vec<u8> {
    let mut key = numbered(ORDINAL, number);
    key.extend(ordinal.to_be_bytes());
    key
}

pub fn activity_bounds() -> (Vec<u8>, Vec<u8>) {
    (vec![ACTIVITY], vec![ACTIVITY + 1])
}

pub fn parse_activity_key(key: &[u8]) -> Option<u32> {
    key.last_chunk().copied().map(u32::from_be_bytes)
}

fn numbered(table: u8, number: u32) -> Vec<u8> {
    let mut key = vec![table];
    key.extend(number.to_be_bytes());
    key
}

impl Totals {
    pub fn encode(&self) -> Vec<u8> {
        varints(&[self.streams, self.frames, self.frame_bytes, self.artifacts, self.artifact_bytes])
    }

    pub fn decode(value: &[u8]) -> Option<Self> {
        let mut fields = Fields(value);
        Some(Self {
            streams: varint(&mut fields)?,
            frames: varint(&mut fields)?,
            frame_bytes: varint(&mut fields)?,
            artifacts: varint(&mut fields)?,
            artifact_bytes: varint(&mut fields)?,
        })
    }
}

impl StreamRow {
    pub fn encode(&self) -> Vec<u8> {
        let numbers = [u64::from(self.number), self.next_seq, self.first_ms, self.last_ms, self.bytes, self.messages];
        let mut out = varints(&numbers);
        out.extend(self.chain.as_bytes());
        out
    }

    pub fn decode(value: &[u8]) -> Option<Self> {
        let mut fields = Fields(value);
        Some(Self {
            number: varint(&mut fields)?.try_into().ok()?,
            next_seq: varint(&mut fields)?,
            first_ms: varint(&mut fields)?,
            last_ms: varint(&mut fields)?,
            bytes: varint(&mut fields)?,
            messages: varint(&mut fields)?,
            chain: Digest::from_slice(fields.0)?,
        })
    }
}

impl ArtifactRow {
    pub fn encode(&self) -> Vec<u8> {
        let place = match self.place {
            Place::Record => 0,
            Place::Segment => 1,
        };
        varints(&[place, self.n, self.len])
    }

    pub fn decode(value: &[u8]) -> Option<Self> {
        let mut fields = Fields(value);
        let place = match varint(&mut fields)? {
            0 => Place::Record,
            1 => Place::Segment,
            _ => return None,
        };
        Some(Self { place, n: varint(&mut fields)?, len: varint(&mut fields)? })
    }
}

impl KeyRow {
    pub fn encode(&self) -> Vec<u8> {
        let mut out = self.request.to_vec();
        out.extend(varints(&[self.first_seq, u64::from(self.frames)]));
        out
    }

    pub fn decode(value: &[u8]) -> Option<Self> {
        let mut fields = Fields(value);
        Some(Self {
            request: fields.array()?,
            first_seq: varint(&mut fields)?,
            frames: varint(&mut fields)?.try_into().ok()?,
        })
    }
}

pub fn encode_number(number: u64) -> Vec<u8> {
    varints(&[number])
}

pub fn decode_number(value: &[u8]) -> Option<u64> {
    varint(&mut Fields(value))
}

pub(super) fn varints(numbers: &[u64]) -> Vec<u8> {
    let mut out = Vec::with_capacity(numbers.len() * 5);
    for &number in numbers {
        let mut rest = number;
        while rest >= 0x80 {
            out.push(rest as u8 | 0x80);
            rest >>= 7;
        }
        out.push(rest as u8);
    }
    out
}

pub(super) fn varint(fields: &mut Fields<'_>) -> Option<u64> {
    let mut number = 0u64;
    for shift in (0..64).step_by(7) {
        let byte = fields.take(1)?[0];
        number |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(number);
        }
    }
    None
}

/// A value as stored: its payload, the link to the row before, then a checksum over key, payload and link.
pub fn seal(key: &[u8], mut payload: Vec<u8>, link: u32) -> Vec<u8> {
    payload.extend(link.to_le_bytes());
    let crc = checksum(key, &payload);
    payload.extend(crc.to_le_bytes());
    payload
}

/// The payload and the link of a stored value, or `None` when it is not what was stored under this key.
pub fn unseal<'a>(key: &[u8], value: &'a [u8]) -> Option<(&'a [u8], u32)> {
    let (sealed, crc) = value.split_last_chunk()?;
    let (payload, link) = sealed.split_last_chunk()?;
    (checksum(key, sealed) == u32::from_le_bytes(*crc)).then(|| (payload, u32::from_le_bytes(*link)))
}

/// How a row names the row before it.
pub fn link(key_before: &[u8]) -> u32 {
    crc32c::crc32c(key_before)
}

fn checksum(key: &[u8], sealed: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(key), sealed)
}

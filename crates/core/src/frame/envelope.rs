//! The envelope: the seven members that every frame has, whatever its type.

use serde_json::value::RawValue;

use super::error::{FrameError, excerpt};
use super::members::{Members, ObjectWriter};
use super::{Body, StreamId, StreamKind};
use crate::limits;

const KEYS: [&str; 7] = ["id", "session_id", "stream_kind", "stream_id", "timestamp_ms", "seq", "type"];

const TEXT: &str = "a string that is not empty";
const INTEGER: &str = "an unsigned integer below 2^64, in plain digits";

pub(super) fn is_envelope_key(key: &str) -> bool {
    KEYS.contains(&key)
}

/// Splits a frame's bytes into members, having checked everything that JSON and our limits ask of them.
pub(super) fn members_of(bytes: &[u8]) -> Result<Members<'_>, FrameError> {
    check_size(bytes)?;
    let text = std::str::from_utf8(bytes).map_err(|e| FrameError::InvalidUtf8 { offset: e.valid_up_to() })?;
    check_depth(bytes)?;
    Ok(Members::parse(text)?)
}

pub(super) fn check(bytes: &[u8]) -> Result<(), FrameError> {
    check_size(bytes)?;
    check_depth(bytes)
}

pub(super) fn check_size(bytes: &[u8]) -> Result<(), FrameError> {
    match bytes.len() {
        0..=limits::FRAME_BYTES_MAX => Ok(()),
        bytes => Err(FrameError::TooLarge { bytes, limit: limits::FRAME_BYTES_MAX }),
    }
}

/// Undecoded values are skipped without recursion and hence without a limit, but whoever decodes them later recurses.
fn check_depth(bytes: &[u8]) -> Result<(), FrameError> {
    // Fewer openings than levels allowed: the usual case, decided without looking for strings.
    if openings(bytes) <= limits::JSON_DEPTH_MAX {
        return Ok(());
    }
    match first_too_deep(bytes) {
        Some(offset) => Err(FrameError::TooDeep { offset, limit: limits::JSON_DEPTH_MAX }),
        None => Ok(()),
    }
}

/// Whether a value may be a member of a frame, as far as its depth goes.
pub(crate) fn is_storable(value: &str) -> bool {
    openings(value.as_bytes()) < limits::JSON_DEPTH_MAX || first_too_deep(&[b"[", value.as_bytes()].concat()).is_none()
}

/// How many braces and brackets open. Counted in small sums, for which processors have instructions.
fn openings(bytes: &[u8]) -> usize {
    let some = |part: &[u8]| part.iter().map(|byte| u8::from(matches!(byte, b'{' | b'['))).sum::<u8>();
    bytes.chunks(usize::from(u8::MAX)).map(|part| usize::from(some(part))).sum()
}

fn first_too_deep(bytes: &[u8]) -> Option<usize> {
    let (mut depth, mut offset) = (0_usize, 0);
    while let Some(byte) = bytes.get(offset) {
        match byte {
            b'"' => offset += string_bytes(&bytes[offset + 1..]),
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > limits::JSON_DEPTH_MAX {
            return Some(offset);
        }
        offset += 1;
    }
    None
}

/// The bytes of a string after its opening quote, the closing one included.
fn string_bytes(rest: &[u8]) -> usize {
    let mut escaped = false;
    let closing = rest.iter().position(|byte| {
        let closes = *byte == b'"' && !escaped;
        escaped = *byte == b'\\' && !escaped;
        closes
    });
    closing.map_or(rest.len(), |closing| closing + 1)
}

/// What is given of an envelope; a draft may leave out all but the type.
#[derive(Clone, Debug, Default)]
pub(super) struct Given {
    pub(super) id: Option<String>,
    session_id: Option<String>,
    stream_kind: Option<StreamKind>,
    stream_id: Option<String>,
    pub(super) timestamp_ms: Option<u64>,
    pub(super) seq: Option<u64>,
    pub(super) type_name: String,
}

impl Given {
    pub(super) fn read(members: &Members<'_>) -> Result<Self, FrameError> {
        let [id, session_id, stream_kind, stream_id, timestamp_ms, seq, type_name] = pick(members)?;
        let given = Self {
            id: text("id", id)?,
            session_id: text("session_id", session_id)?,
            stream_kind: text("stream_kind", stream_kind)?.as_deref().map(StreamKind::from),
            stream_id: text("stream_id", stream_id)?,
            timestamp_ms: integer("timestamp_ms", timestamp_ms)?,
            seq: integer("seq", seq)?,
            type_name: present("type", TEXT, text("type", type_name)?)?,
        };
        given.check_ids()?;
        given.check_kind()?;
        Ok(given)
    }

    /// What a draft that we write gives.
    pub(super) fn of(stream: &StreamId, type_name: &str) -> Result<Self, FrameError> {
        let given = Self {
            session_id: Some(stream.id.clone()),
            stream_kind: Some(stream.kind.clone()),
            stream_id: Some(stream.id.clone()),
            type_name: type_name.to_owned(),
            ..Self::default()
        };
        given.check_kind()?;
        Ok(given)
    }

    /// The stream as far as it is given or follows from the type.
    pub(super) fn stream(&self) -> Result<Option<StreamId>, FrameError> {
        let Some(id) = self.stream_text() else { return Ok(None) };
        let kind = self.stream_kind.clone().unwrap_or_else(|| Body::kind_by_prefix(&self.type_name));
        Ok(Some(StreamId::new(kind, id)?))
    }

    pub(super) fn complete(self) -> Result<Envelope, FrameError> {
        let stream = self.stream()?;
        Ok(Envelope {
            id: present("id", TEXT, self.id)?,
            stream: present("session_id", "the stream's id, here or in stream_id", stream)?,
            timestamp_ms: present("timestamp_ms", INTEGER, self.timestamp_ms)?,
            seq: present("seq", INTEGER, self.seq)?,
            type_name: self.type_name,
        })
    }

    /// Whether this may be appended to `stream`. A kind that merely follows from an unknown type's prefix does not bind.
    pub(super) fn check_stream(&self, stream: &StreamId) -> Result<(), FrameError> {
        Body::check_kind(&self.type_name, &stream.kind)?;
        let kind = self.stream_kind.as_ref().unwrap_or(&stream.kind);
        let id = self.stream_text().unwrap_or(&stream.id);
        if *kind != stream.kind || id != stream.id {
            let given = excerpt(&format!("{}/{id}", kind.as_str()));
            return Err(FrameError::StreamDiffers { given, expected: stream.to_string() });
        }
        Ok(())
    }

    fn stream_text(&self) -> Option<&str> {
        self.stream_id.as_deref().or(self.session_id.as_deref())
    }

    fn check_ids(&self) -> Result<(), FrameError> {
        match (&self.session_id, &self.stream_id) {
            (Some(session_id), Some(stream_id)) if session_id != stream_id => {
                Err(FrameError::IdsDiffer { session_id: excerpt(session_id), stream_id: excerpt(stream_id) })
            }
            (_, _) => Ok(()),
        }
    }

    fn check_kind(&self) -> Result<(), FrameError> {
        self.stream_kind.as_ref().map_or(Ok(()), |kind| Body::check_kind(&self.type_name, kind))
    }
}

/// A whole envelope.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Envelope {
    pub(super) id: String,
    pub(super) stream: StreamId,
    pub(super) timestamp_ms: u64,
    pub(super) seq: u64,
    pub(super) type_name: String,
}

/// Writes the stream's three members.
pub(super) fn write_stream(out: &mut ObjectWriter, stream: &StreamId) {
    out.put("session_id", &stream.id);
    out.put("stream_kind", stream.kind.as_str());
    out.put("stream_id", &stream.id);
}

pub(super) fn write(out: &mut ObjectWriter, id: &str, stream: &StreamId, timestamp_ms: u64, seq: u64, type_name: &str) {
    out.put("id", id);
    write_stream(out, stream);
    out.put("timestamp_ms", &timestamp_ms);
    out.put("seq", &seq);
    out.put("type", type_name);
}

fn pick<'a>(members: &Members<'a>) -> Result<[Option<&'a RawValue>; 7], FrameError> {
    let mut picked = [None; 7];
    for (key, raw) in members.iter() {
        let Some(index) = KEYS.iter().position(|known| *known == key) else { continue };
        if picked[index].replace(raw).is_some() {
            return Err(FrameError::DuplicateKey { key: KEYS[index] });
        }
    }
    Ok(picked)
}

fn text(field: &'static str, raw: Option<&RawValue>) -> Result<Option<String>, FrameError> {
    let Some(raw) = raw else { return Ok(None) };
    let text = plain_text(raw.get()).or_else(|| serde_json::from_str(raw.get()).ok());
    let bad = || FrameError::BadField { field, expected: TEXT, got: excerpt(raw.get()) };
    text.filter(|text| !text.is_empty()).map(Some).ok_or_else(bad)
}

/// A string without escapes is the text between its quotes. Nearly all are.
fn plain_text(json: &str) -> Option<String> {
    let inside = json.strip_prefix('"')?.strip_suffix('"')?;
    (!inside.contains('\\')).then(|| inside.to_owned())
}

fn integer(field: &'static str, raw: Option<&RawValue>) -> Result<Option<u64>, FrameError> {
    let Some(raw) = raw else { return Ok(None) };
    let bad = || FrameError::BadField { field, expected: INTEGER, got: excerpt(raw.get()) };
    raw.get().parse().map(Some).map_err(|_| bad())
}

fn present<T>(field: &'static str, expected: &'static str, value: Option<T>) -> Result<T, FrameError> {
    value.ok_or(FrameError::MissingField { field, expected })
}

//! What a caller hands in to be appended: a frame in which the store fills what is missing.

use super::envelope::{self, Envelope, Given, is_envelope_key, members_of};
use super::error::FrameError;
use super::members::{Members, ObjectWriter};
use super::raw::RawFrame;
use super::{Body, ContextBody, Frame, Json, MemberFault, StreamId};
use crate::Digest;

/// Room for the envelope of most frames.
const ENVELOPE_BYTES: usize = 256;

/// A JSON object with a `type`, in which any other part of the envelope may be missing.
#[derive(Clone, Debug)]
pub struct Draft {
    bytes: Vec<u8>,
    given: Given,
    /// Everything but the envelope, as it will be written.
    payload: Vec<u8>,
    reading: Result<Reading, FrameError>,
}

/// What a draft says, apart from its envelope. Made where the draft is made, so that whoever appends for others need not.
#[derive(Clone, Debug)]
struct Reading {
    body: Body,
    extra: Vec<(String, Json)>,
    /// Of a commit's payload in its one spelling.
    digest: Option<String>,
}

/// A frame made whole, and what it says.
#[derive(Debug)]
pub struct Completed {
    pub raw: RawFrame,
    pub frame: Result<Frame, FrameError>,
    /// Of a commit's payload in its one spelling.
    pub digest: Option<String>,
}

/// What the store knows when it appends, for the parts that a draft leaves out.
#[derive(Clone, Copy, Debug)]
pub struct Completion<'a> {
    pub stream: &'a StreamId,
    pub id: &'a str,
    pub seq: u64,
    pub timestamp_ms: u64,
}

impl Draft {
    pub fn parse(bytes: impl Into<Vec<u8>>) -> Result<Self, FrameError> {
        let bytes = bytes.into();
        let members = members_of(&bytes)?;
        let given = Given::read(&members)?;
        given.stream()?;
        let mut members = members.retain(|key| !is_envelope_key(key));
        let payload = payload_of(&members, bytes.len());
        let reading = Reading::of(&given.type_name, &mut members);
        Ok(Self { bytes, given, payload, reading })
    }

    /// A draft of a frame made here rather than read.
    pub fn of(stream: &StreamId, body: &Body) -> Result<Self, FrameError> {
        let mut out = ObjectWriter::new();
        body.write(&mut out);
        let payload = out.into_members();
        let mut out = ObjectWriter::new();
        envelope::write_stream(&mut out, stream);
        out.put("type", body.type_name());
        out.put_written(&payload);
        let bytes = out.finish();
        if matches!(body, Body::Unknown { .. }) {
            return Self::parse(bytes);
        }
        // What was written from a body of a known type is read as that body.
        let given = Given::of(stream, body.type_name())?;
        envelope::check(&bytes)?;
        let digest = is_commit(body).then(|| Digest::of(&braced(&payload)).to_hex());
        let reading = Ok(Reading { body: body.clone(), extra: Vec::new(), digest });
        Ok(Self { bytes, given, payload, reading })
    }

    pub fn stream(&self) -> Option<StreamId> {
        self.given.stream().expect("checked when parsed")
    }

    /// The bytes as they were handed in.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub fn seq(&self) -> Option<u64> {
        self.given.seq
    }

    pub fn type_name(&self) -> &str {
        &self.given.type_name
    }

    /// Fills what is missing and nothing else: bytes that are already this very frame stay as they are.
    pub fn complete(self, with: Completion<'_>) -> Result<Completed, FrameError> {
        self.given.check_stream(with.stream)?;
        self.check_seq(&with)?;
        let whole = self.is_whole(with.stream);
        let Self { bytes, given, payload, reading } = self;
        let raw = if whole { RawFrame::whole(bytes, given.complete()?)? } else { filled(given, &payload, &with)? };
        let (digest, frame) = match reading {
            Ok(Reading { body, extra, digest }) => (digest, Ok(raw.frame_of(body, extra))),
            Err(error) => (None, Err(error)),
        };
        Ok(Completed { raw, frame, digest })
    }

    fn check_seq(&self, with: &Completion<'_>) -> Result<(), FrameError> {
        match self.given.seq {
            Some(given) if given != with.seq => {
                Err(FrameError::SeqDiffers { given, expected: with.seq, stream: with.stream.to_string() })
            }
            Some(_) | None => Ok(()),
        }
    }

    fn is_whole(&self, stream: &StreamId) -> bool {
        let Given { id, timestamp_ms, seq, .. } = &self.given;
        id.is_some() && timestamp_ms.is_some() && seq.is_some() && self.stream().as_ref() == Some(stream)
    }
}

fn filled(given: Given, payload: &[u8], with: &Completion<'_>) -> Result<RawFrame, FrameError> {
    let envelope = Envelope {
        id: given.id.unwrap_or_else(|| with.id.to_owned()),
        stream: with.stream.clone(),
        timestamp_ms: given.timestamp_ms.unwrap_or(with.timestamp_ms),
        seq: with.seq,
        type_name: given.type_name,
    };
    let mut out = ObjectWriter::with_room(payload.len() + ENVELOPE_BYTES);
    envelope::write(&mut out, &envelope.id, with.stream, envelope.timestamp_ms, with.seq, &envelope.type_name);
    out.put_written(payload);
    RawFrame::whole(out.finish(), envelope)
}

fn payload_of(members: &Members<'_>, bytes_max: usize) -> Vec<u8> {
    let mut out = ObjectWriter::with_room(bytes_max);
    out.put_all(members.iter());
    out.into_members()
}

fn is_commit(body: &Body) -> bool {
    matches!(body, Body::Context(ContextBody::ContextCommitted(_)))
}

fn braced(members: &[u8]) -> Vec<u8> {
    [b"{", members, b"}"].concat()
}

impl Reading {
    fn of(type_name: &str, members: &mut Members<'_>) -> Result<Self, FrameError> {
        match Body::read(type_name, members) {
            Some(Ok(body)) => Ok(Self { body, extra: members.take_rest(), digest: None }),
            Some(Err(MemberFault { member, problem })) => {
                Err(FrameError::BadMember { type_name: type_name.to_owned(), member, problem })
            }
            None => {
                let body = Body::Unknown { type_name: type_name.to_owned(), members: members.take_rest() };
                Ok(Self { body, extra: Vec::new(), digest: None })
            }
        }
    }
}

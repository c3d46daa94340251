//! What a caller hands in to be appended: a frame in which the store fills what is missing.

use super::envelope::{self, Envelope, Given, is_envelope_key, members_of};
use super::error::FrameError;
use super::members::{Members, ObjectWriter};
use super::raw::RawFrame;
use super::{Body, StreamId};

/// A JSON object with a `type`, in which any other part of the envelope may be missing.
#[derive(Clone, Debug)]
pub struct Draft {
    bytes: Vec<u8>,
    given: Given,
    /// Everything but the envelope, as it will be written.
    payload: Vec<u8>,
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
        let payload = payload_of(members);
        Ok(Self { bytes, given, payload })
    }

    /// A draft of a frame made here rather than read.
    pub fn of(stream: &StreamId, body: &Body) -> Result<Self, FrameError> {
        let mut out = ObjectWriter::new();
        envelope::write_stream(&mut out, stream);
        out.put("type", body.type_name());
        body.write(&mut out);
        Self::parse(out.finish())
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
    pub fn complete(self, with: Completion<'_>) -> Result<RawFrame, FrameError> {
        self.given.check_stream(with.stream)?;
        self.check_seq(&with)?;
        if self.is_whole(with.stream) {
            RawFrame::whole(self.bytes, self.given.complete()?)
        } else {
            self.filled(&with)
        }
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

    fn filled(self, with: &Completion<'_>) -> Result<RawFrame, FrameError> {
        let envelope = Envelope {
            id: self.given.id.unwrap_or_else(|| with.id.to_owned()),
            stream: with.stream.clone(),
            timestamp_ms: self.given.timestamp_ms.unwrap_or(with.timestamp_ms),
            seq: with.seq,
            type_name: self.given.type_name,
        };
        let mut out = ObjectWriter::new();
        envelope::write(&mut out, &envelope.id, with.stream, envelope.timestamp_ms, with.seq, &envelope.type_name);
        out.put_written(&self.payload);
        RawFrame::whole(out.finish(), envelope)
    }
}

fn payload_of(members: Members<'_>) -> Vec<u8> {
    let mut out = ObjectWriter::new();
    out.put_all(members.retain(|key| !is_envelope_key(key)).iter());
    out.into_members()
}

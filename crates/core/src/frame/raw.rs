//! A frame as bytes: what is stored, sent and hashed.

use super::envelope::{Envelope, Given, check_size, members_of};
use super::error::FrameError;
use super::members::Members;
use super::{Body, Frame, Json, StreamId};

/// A frame's JSON exactly as it was given, and its envelope. The payload is JSON, and more is not known of it: that is
/// for [`RawFrame::decode`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RawFrame {
    bytes: Vec<u8>,
    envelope: Envelope,
}

impl RawFrame {
    pub fn parse(bytes: impl Into<Vec<u8>>) -> Result<Self, FrameError> {
        let bytes = bytes.into();
        let envelope = Given::read(&members_of(&bytes)?)?.complete()?;
        Ok(Self { bytes, envelope })
    }

    /// As [`RawFrame::parse`] and then [`RawFrame::decode`], with one look at the text.
    pub fn read(bytes: impl Into<Vec<u8>>) -> Result<(Self, Result<Frame, FrameError>), FrameError> {
        let bytes = bytes.into();
        let members = members_of(&bytes)?;
        let envelope = Given::read(&members)?.complete()?;
        let frame = Frame::of(members, envelope.clone());
        Ok((Self { bytes, envelope }, frame))
    }

    /// A frame whose parts have been checked already; only its size has not.
    pub(super) fn whole(bytes: Vec<u8>, envelope: Envelope) -> Result<Self, FrameError> {
        check_size(&bytes)?;
        Ok(Self { bytes, envelope })
    }

    /// The payload by its type. A type that is not known keeps its members undecoded.
    pub fn decode(&self) -> Result<Frame, FrameError> {
        Frame::read(self.text(), &self.envelope)
    }

    /// This frame with a payload that was read before its envelope was whole.
    pub(super) fn frame_of(&self, body: Body, extra: Vec<(String, Json)>) -> Frame {
        Frame {
            id: self.id().to_owned(),
            stream: self.stream().clone(),
            timestamp_ms: self.timestamp_ms(),
            seq: self.seq(),
            body,
            extra,
        }
    }

    /// Members that are given more than once. The last of each counts here, but readers differ in that.
    pub fn repeated_members(&self) -> Vec<String> {
        let members = Members::parse(self.text());
        members.map(|members| members.repeated().into_iter().map(str::to_owned).collect()).unwrap_or_default()
    }

    pub fn id(&self) -> &str {
        &self.envelope.id
    }

    pub fn stream(&self) -> &StreamId {
        &self.envelope.stream
    }

    pub fn timestamp_ms(&self) -> u64 {
        self.envelope.timestamp_ms
    }

    pub fn seq(&self) -> u64 {
        self.envelope.seq
    }

    /// The type as written, which may be an old name of it.
    pub fn type_name(&self) -> &str {
        &self.envelope.type_name
    }

    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.bytes).expect("checked when parsed, and unchanged since")
    }
}

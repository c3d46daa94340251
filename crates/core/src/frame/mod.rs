//! Frames: the entries of streams, byte-compatible with the event frames of the runtimes that write them.
//!
//! Bytes are the truth. [`RawFrame`] keeps them as they came and knows only the envelope; [`Frame`] is what they say,
//! decoded by type; [`Draft`] is what a caller may hand in. What this version does not know (a type, a member, a word)
//! survives reading and writing unchanged.

mod artifact;
mod catalogue;
mod context;
mod continuity;
mod draft;
mod envelope;
mod error;
mod kept;
mod link;
mod members;
mod mention;
mod raw;
mod session;
mod source;
mod task;

#[cfg(test)]
pub(crate) mod examples;
#[cfg(test)]
mod tests;

pub use crate::json::Json;
pub use artifact::*;
pub use context::*;
pub use continuity::*;
pub use draft::{Completed, Completion, Draft};
pub use error::FrameError;
pub use kept::{KEPT, Kept, KeptContent, Linked};
pub use link::{FramePlace, KeyUse};
pub use mention::artifact_mentions;
pub use raw::RawFrame;
pub use session::*;
pub use source::*;
pub use task::*;

pub(crate) use self::envelope::is_storable;
use self::envelope::{Envelope, Given, is_envelope_key, members_of};
use self::members::{MemberFault, Members, ObjectWriter, borrowed};
use crate::{StreamId, StreamKind};

/// A frame, decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    pub id: String,
    pub stream: StreamId,
    pub timestamp_ms: u64,
    pub seq: u64,
    pub body: Body,
    /// Members that the type is not known to have, verbatim; written after those it has.
    pub extra: Vec<(String, Json)>,
}

impl Frame {
    /// The frame as JSON: envelope, payload in the order of the catalogue, then what else there was.
    pub fn to_json(&self) -> Vec<u8> {
        let mut out = ObjectWriter::new();
        envelope::write(&mut out, &self.id, &self.stream, self.timestamp_ms, self.seq, self.body.type_name());
        self.write_payload(&mut out);
        out.finish()
    }

    pub fn into_raw(self) -> Result<RawFrame, FrameError> {
        RawFrame::parse(self.to_json())
    }

    /// What the frame says apart from its envelope, in one spelling: equal payloads have equal bytes.
    pub fn payload_json(&self) -> Vec<u8> {
        let mut out = ObjectWriter::new();
        self.write_payload(&mut out);
        out.finish()
    }

    fn write_payload(&self, out: &mut ObjectWriter) {
        self.body.write(out);
        out.put_all(borrowed(&self.extra));
    }

    /// Reads and decodes a frame at once, where its bytes are not needed any more. Says the same as [`RawFrame::parse`] and
    /// then [`RawFrame::decode`], and looks at the text once.
    pub fn parse(json: &[u8]) -> Result<Self, FrameError> {
        let members = members_of(json)?;
        let envelope = Given::read(&members)?.complete()?;
        Self::of(members, envelope)
    }

    fn read(text: &str, envelope: &Envelope) -> Result<Self, FrameError> {
        Self::of(Members::parse(text)?, envelope.clone())
    }

    fn of(members: Members<'_>, envelope: Envelope) -> Result<Self, FrameError> {
        let mut members = members.retain(|key| !is_envelope_key(key));
        let Envelope { id, stream, timestamp_ms, seq, type_name } = envelope;
        let (body, extra) = match Body::read(&type_name, &mut members) {
            Some(Ok(body)) => (body, members.rest()),
            Some(Err(MemberFault { member, problem })) => {
                return Err(FrameError::BadMember { type_name, member, problem });
            }
            None => (Body::Unknown { type_name, members: members.rest() }, Vec::new()),
        };
        Ok(Self { id, stream, timestamp_ms, seq, body, extra })
    }
}

/// What a frame says, by the family of its type.
// Bodies are decoded, looked at and dropped; they are never kept by the thousand, so a box would only cost.
#[allow(clippy::large_enum_variant)]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    Session(SessionBody),
    Task(TaskBody),
    Continuity(ContinuityBody),
    Artifact(ArtifactBody),
    Context(ContextBody),
    Source(SourceBody),
    /// Of a type that this version does not know; every member is kept.
    Unknown {
        type_name: String,
        members: Vec<(String, Json)>,
    },
}

impl Body {
    pub fn type_name(&self) -> &str {
        match self {
            Self::Session(body) => body.type_name(),
            Self::Task(body) => body.type_name(),
            Self::Continuity(body) => body.type_name(),
            Self::Artifact(body) => body.type_name(),
            Self::Context(body) => body.type_name(),
            Self::Source(body) => body.type_name(),
            Self::Unknown { type_name, .. } => type_name,
        }
    }

    /// The kind of stream in which frames of this type live when they do not say so themselves.
    pub fn kind_by_prefix(type_name: &str) -> StreamKind {
        let kinds = [
            ("continuity_", StreamKind::Continuity),
            ("tool_task_", StreamKind::Task),
            ("artifact_", StreamKind::Artifact),
            ("context_", StreamKind::Context),
            ("source_", StreamKind::Source),
        ];
        kinds
            .into_iter()
            .find(|(prefix, _)| type_name.starts_with(prefix))
            .map_or(StreamKind::Session, |(_, kind)| kind)
    }

    /// Refuses a known type in a stream of another kind. Types that are not known may live anywhere.
    fn check_kind(type_name: &str, kind: &StreamKind) -> Result<(), FrameError> {
        let expected = Self::kind_by_prefix(type_name);
        if *kind == expected || !Self::knows(type_name) {
            return Ok(());
        }
        Err(FrameError::KindDiffers {
            type_name: type_name.to_owned(),
            given: error::excerpt(kind.as_str()),
            expected: expected.as_str().to_owned(),
        })
    }

    fn knows(type_name: &str) -> bool {
        SessionBody::knows(type_name)
            || TaskBody::knows(type_name)
            || ContinuityBody::knows(type_name)
            || ArtifactBody::knows(type_name)
            || ContextBody::knows(type_name)
            || SourceBody::knows(type_name)
    }

    fn read(type_name: &str, members: &mut Members<'_>) -> Option<Result<Self, MemberFault>> {
        match Self::kind_by_prefix(type_name) {
            StreamKind::Session => Some(SessionBody::read(type_name, members)?.map(Self::Session)),
            StreamKind::Task => Some(TaskBody::read(type_name, members)?.map(Self::Task)),
            StreamKind::Continuity => Some(ContinuityBody::read(type_name, members)?.map(Self::Continuity)),
            StreamKind::Artifact => Some(ArtifactBody::read(type_name, members)?.map(Self::Artifact)),
            StreamKind::Context => Some(ContextBody::read(type_name, members)?.map(Self::Context)),
            StreamKind::Source => Some(SourceBody::read(type_name, members)?.map(Self::Source)),
            StreamKind::Branch | StreamKind::Other(_) => None,
        }
    }

    fn write(&self, out: &mut ObjectWriter) {
        match self {
            Self::Session(body) => body.write(out),
            Self::Task(body) => body.write(out),
            Self::Continuity(body) => body.write(out),
            Self::Artifact(body) => body.write(out),
            Self::Context(body) => body.write(out),
            Self::Source(body) => body.write(out),
            Self::Unknown { members, .. } => out.put_all(borrowed(members)),
        }
    }
}

//! The words of enjamb and the decisions made with them.
//!
//! Everything here takes values and returns values: no disk, no clock, no randomness, no environment. Time, ids and
//! bytes are arguments, so that the same input always gives the same output and every rule can be tested by a table.

pub mod chain;
pub mod compact;
pub mod compile;
pub mod conversation;
mod digest;
pub mod frame;
mod id;
pub mod json;
pub mod lexicon;
pub mod limits;
pub mod order;
pub mod pack;
mod problem;
pub mod provider;
pub mod redact;
mod stream;
pub mod sync;
pub mod thread;
mod time;
pub mod workspace;

pub use digest::{Digest, Hasher};
pub use frame::{Body, Completion, Draft, Frame, FrameError, RawFrame, artifact_mentions};
pub use id::{ArtifactId, CommitId, IdKind, IdPrefix, ParseIdError};
pub use json::Json;
pub use order::{Mark, MarkKey, Refusal, Rule, Scope, admit, marks};
pub use problem::ErrorKind;
pub use stream::{ParseStreamError, StreamId, StreamKind};
pub use time::{ParseTimestampError, Timestamp};

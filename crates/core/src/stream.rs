//! Streams: the ordered, gap-free sequences that frames live in.

use std::fmt;
use std::str::FromStr;

use crate::limits;

/// What kind of thing a stream tells of.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StreamKind {
    /// One run of a model.
    Session,
    /// A background tool task.
    Task,
    /// A thread.
    Continuity,
    /// What happened to stored bytes: tags, policies, collection.
    Artifact,
    /// A principal's timeline of context commits.
    Context,
    /// A file that a runtime wrote, by its path.
    Source,
    /// Frames of a stream as another store has them.
    Branch,
    /// A kind that this version does not know; kept as it is.
    Other(String),
}

impl StreamKind {
    pub fn as_str(&self) -> &str {
        match self {
            Self::Session => "session",
            Self::Task => "task",
            Self::Continuity => "continuity",
            Self::Artifact => "artifact",
            Self::Context => "context",
            Self::Source => "source",
            Self::Branch => "branch",
            Self::Other(name) => name,
        }
    }
}

impl From<&str> for StreamKind {
    fn from(text: &str) -> Self {
        match text {
            "session" => Self::Session,
            "task" => Self::Task,
            "continuity" => Self::Continuity,
            "artifact" => Self::Artifact,
            "context" => Self::Context,
            "source" => Self::Source,
            "branch" => Self::Branch,
            other => Self::Other(other.to_owned()),
        }
    }
}

/// The name of a stream: its kind and its id within that kind. Written `kind/id`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId {
    pub kind: StreamKind,
    pub id: String,
}

impl StreamId {
    /// Makes a stream id, refusing what no store could show or keep: empty, overlong, control characters.
    pub fn new(kind: StreamKind, id: impl Into<String>) -> Result<Self, ParseStreamError> {
        let id = id.into();
        check_part("kind", kind.as_str(), limits::STREAM_KIND_BYTES_MAX)?;
        if kind.as_str().contains('/') {
            return Err(ParseStreamError::new("kind", kind.as_str(), "holds a slash"));
        }
        check_part("id", &id, limits::STREAM_ID_BYTES_MAX)?;
        Ok(Self { kind, id })
    }

    /// The stream that records what happens to artifacts: tags, policies, collection.
    pub fn artifacts() -> Self {
        Self { kind: StreamKind::Artifact, id: "store".to_owned() }
    }

    /// The stream that records context packs, in the order in which they came.
    pub fn packs() -> Self {
        Self { kind: StreamKind::Artifact, id: "packs".to_owned() }
    }
}

fn check_part(part: &'static str, text: &str, bytes_max: usize) -> Result<(), ParseStreamError> {
    if text.is_empty() {
        return Err(ParseStreamError::new(part, text, "is empty"));
    }
    if text.len() > bytes_max {
        return Err(ParseStreamError::new(part, text, "is too long"));
    }
    if text.chars().any(char::is_control) {
        return Err(ParseStreamError::new(part, text, "holds a control character"));
    }
    Ok(())
}

impl fmt::Display for StreamId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.kind.as_str(), self.id)
    }
}

impl FromStr for StreamId {
    type Err = ParseStreamError;

    fn from_str(text: &str) -> Result<Self, ParseStreamError> {
        let (kind, id) = text.split_once('/').ok_or_else(|| ParseStreamError::new("name", text, "has no kind"))?;
        Self::new(StreamKind::from(kind), id)
    }
}

/// A text that names no stream.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("stream {part} {text:?} {fault}: expected kind/id, such as session/5d1c or continuity/main")]
pub struct ParseStreamError {
    part: &'static str,
    text: String,
    fault: &'static str,
}

impl ParseStreamError {
    fn new(part: &'static str, text: &str, fault: &'static str) -> Self {
        Self { part, text: text.chars().take(100).collect(), fault }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back_as_written() {
        for text in ["session/a", "context/agent/reviewer@host", "wild/x"] {
            assert_eq!(text.parse::<StreamId>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn names_no_store_could_keep_are_refused() {
        let long = format!("session/{}", "x".repeat(limits::STREAM_ID_BYTES_MAX + 1));
        for (text, fault) in [
            ("plain", "has no kind"),
            ("session/", "is empty"),
            ("/x", "is empty"),
            ("session/a\nb", "control"),
            (&long, "too long"),
        ] {
            let error = text.parse::<StreamId>().unwrap_err().to_string();
            assert!(error.contains(fault), "{error}");
        }
    }
}

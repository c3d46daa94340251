//! Threads: which one is a workspace's own, where a branch leaves its parent, and what is handed over.

use serde::{Deserialize, Serialize};

use crate::Digest;

/// A place in a thread at which another goes on, as it is asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Selector {
    /// Where the thread ends now.
    #[default]
    Head,
    Seq(u64),
    /// After a message and whatever its runs have come to.
    Message(String),
}

impl Selector {
    /// The selector that was meant, or `None` when two were given.
    pub fn of(message: Option<String>, seq: Option<u64>) -> Option<Self> {
        match (message, seq) {
            (Some(_), Some(_)) => None,
            (Some(message), None) => Some(Self::Message(message)),
            (None, Some(seq)) => Some(Self::Seq(seq)),
            (None, None) => Some(Self::Head),
        }
    }
}

/// The id of the thread that is made when a workspace has none. Two who make it at once make the same one.
pub fn workspace_thread_id(workspace: &str) -> String {
    let digest = Digest::of(&[b"enjamb thread of a workspace\0", workspace.as_bytes()].concat());
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&digest.as_bytes()[..16]);
    // A UUID of version 8: made by a rule of our own.
    bytes[6] = bytes[6] & 0x0f | 0x80;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let hex = crate::digest::to_hex(&bytes);
    [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-")
}

pub const HANDOFF_SCHEMA: &str = "rip.handoff_context_bundle.v1";

/// What one thread hands over to another: words, and where to read more.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HandoffBundle {
    pub schema: String,
    pub summary_markdown: String,
    pub refs: HandoffRefs,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HandoffRefs {
    pub threads: Vec<ThreadRef>,
    pub artifacts: Vec<ArtifactNote>,
    pub files: Vec<FileNote>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadRef {
    pub thread_id: String,
    pub seq: u64,
    pub message_id: Option<String>,
    pub note: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArtifactNote {
    pub artifact_id: String,
    pub note: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileNote {
    pub path: String,
    pub note: Option<String>,
}

impl HandoffBundle {
    /// What is written when a handoff comes as words alone.
    pub fn of_words(markdown: &str, thread_id: &str, seq: u64, message_id: Option<String>) -> Self {
        let source = ThreadRef { thread_id: thread_id.into(), seq, message_id, note: Some("source cut".into()) };
        Self {
            schema: HANDOFF_SCHEMA.into(),
            summary_markdown: markdown.into(),
            refs: HandoffRefs { threads: vec![source], ..HandoffRefs::default() },
        }
    }

    pub fn to_bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("texts and numbers are always written")
    }

    /// Reads a bundle; the error says what it is instead.
    pub fn parse(bytes: &[u8]) -> Result<Self, String> {
        let bundle: Self = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
        if bundle.schema != HANDOFF_SCHEMA {
            return Err(format!("its schema is {:?}: expected {HANDOFF_SCHEMA}", bundle.schema));
        }
        Ok(bundle)
    }
}

pub const EXTRACT_SCHEMA: &str = "enjamb.thread_extract.v1";

/// A part of a thread, taken out so that another thread can refer to it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Extract {
    pub schema: String,
    pub thread_id: String,
    pub from_seq: u64,
    pub to_seq: u64,
    pub messages: Vec<ExtractedMessage>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExtractedMessage {
    pub seq: u64,
    pub message_id: String,
    pub actor_id: String,
    pub origin: String,
    pub content: String,
    /// What the last run that ended for the message had to say.
    pub reply: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handoff_in_words_has_every_key() {
        let bundle = HandoffBundle::of_words("so far", "t", 7, None);
        let expected = r#"{"schema":"rip.handoff_context_bundle.v1","summary_markdown":"so far","refs":{"threads":[{"thread_id":"t","seq":7,"message_id":null,"note":"source cut"}],"artifacts":[],"files":[]}}"#;
        assert_eq!(String::from_utf8(bundle.to_bytes()).unwrap(), expected);
        assert_eq!(HandoffBundle::parse(expected.as_bytes()), Ok(bundle));
        let other = expected.replace("handoff_context_bundle", "context_bundle");
        assert!(HandoffBundle::parse(other.as_bytes()).unwrap_err().contains("expected rip.handoff"));
    }

    #[test]
    fn one_workspace_has_one_thread_of_its_own() {
        let id = workspace_thread_id("/w");
        assert_eq!(id, workspace_thread_id("/w"));
        assert_ne!(id, workspace_thread_id("/w/"));
        assert_eq!((id.len(), &id[14..15]), (36, "8"));
    }

    #[test]
    fn two_selectors_are_none() {
        assert_eq!(Selector::of(Some("m".into()), Some(1)), None);
        assert_eq!(Selector::of(None, None), Some(Selector::Head));
    }
}

//! Where a workspace checkpoint was made, as its mark says it: enough to list checkpoints without reading their frames.

use std::fmt;

use crate::Digest;
use crate::frame::{CheckpointCreated, Frame};

/// `<created, ms> <seq> <workspace> <session>`, the workspace being the first 16 hex digits of the digest of its path, or
/// `-` where none was named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckpointAt {
    pub created_at_ms: u64,
    pub seq: u64,
    pub workspace: Option<String>,
    /// The id of the stream, which is a session's.
    pub session: String,
}

impl CheckpointAt {
    pub(super) fn of(frame: &Frame, checkpoint: &CheckpointCreated) -> Self {
        Self {
            created_at_ms: checkpoint.created_at_ms,
            seq: frame.seq,
            workspace: checkpoint.workspace.as_deref().map(Self::key),
            session: frame.stream.id.clone(),
        }
    }

    /// A workspace's path, short enough for a mark and for the name of a directory.
    pub fn key(workspace: &str) -> String {
        let mut hex = Digest::of(workspace.as_bytes()).to_hex();
        hex.truncate(16);
        hex
    }

    pub fn parse(text: &str) -> Option<Self> {
        let mut words = text.splitn(4, ' ');
        let (created_at_ms, seq) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
        let workspace = Some(words.next()?).filter(|word| *word != "-").map(str::to_owned);
        Some(Self { created_at_ms, seq, workspace, session: words.next()?.to_owned() })
    }
}

impl fmt::Display for CheckpointAt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let workspace = self.workspace.as_deref().unwrap_or("-");
        write!(f, "{} {} {workspace} {}", self.created_at_ms, self.seq, self.session)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_read_back_as_written() {
        for (workspace, session) in [(None, "s"), (Some(CheckpointAt::key("/w")), "a b/c")] {
            let at = CheckpointAt { created_at_ms: 7, seq: 3, workspace, session: session.into() };
            assert_eq!(CheckpointAt::parse(&at.to_string()), Some(at));
        }
        assert_eq!(CheckpointAt::parse("7 x - s"), None);
    }
}

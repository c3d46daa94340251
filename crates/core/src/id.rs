//! Ids: artifacts `art-…`, commits `ctx-…`, and the prefixes people type for them.

use std::fmt;
use std::str::FromStr;

use sha2::{Digest as _, Sha256};

use crate::digest::{nibble, to_hex};
use crate::{Digest, limits};

/// The id of immutable bytes: their BLAKE3 digest. Only a function that has the bytes makes one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ArtifactId(Digest);

impl ArtifactId {
    pub fn of(bytes: &[u8]) -> Self {
        Self(Digest::of(bytes))
    }

    pub const fn from_digest(digest: Digest) -> Self {
        Self(digest)
    }

    pub const fn digest(&self) -> Digest {
        self.0
    }

    /// The 64 hex digits without `art-`, as frames and commits write it.
    pub fn to_hex(&self) -> String {
        self.0.to_hex()
    }
}

impl fmt::Display for ArtifactId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "art-{}", self.0)
    }
}

impl fmt::Debug for ArtifactId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "art-{}", &self.to_hex()[..12])
    }
}

impl FromStr for ArtifactId {
    type Err = ParseIdError;

    fn from_str(text: &str) -> Result<Self, ParseIdError> {
        let hex = text.strip_prefix("art-").unwrap_or(text);
        Digest::from_hex(hex).map(Self).ok_or_else(|| ParseIdError::new(text, "art- and 64 lower-case hex digits"))
    }
}

/// The id of a context commit: 128 bits of SHA-256 over the four strings that make it what it is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CommitId([u8; 16]);

impl CommitId {
    /// Derives the id. The first eight hex digits are the short id that other implementations give the same inputs.
    pub fn derive(parent: &str, artifact_ref: &str, created_at: &str, template: &str) -> Self {
        let mut sha = Sha256::new();
        for (index, part) in [parent, artifact_ref, created_at, template].into_iter().enumerate() {
            if index > 0 {
                sha.update([0]);
            }
            sha.update(part.as_bytes());
        }
        let whole = sha.finalize();
        let mut id = [0; 16];
        id.copy_from_slice(&whole[..16]);
        Self(id)
    }

    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    pub const fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }

    pub fn to_hex(&self) -> String {
        to_hex(&self.0)
    }
}

impl fmt::Display for CommitId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ctx-{}", self.to_hex())
    }
}

impl fmt::Debug for CommitId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ctx-{}", &self.to_hex()[..12])
    }
}

impl FromStr for CommitId {
    type Err = ParseIdError;

    fn from_str(text: &str) -> Result<Self, ParseIdError> {
        let expected = || ParseIdError::new(text, "ctx- and 32 lower-case hex digits");
        let hex = text.strip_prefix("ctx-").ok_or_else(expected)?.as_bytes();
        if hex.len() != 32 {
            return Err(expected());
        }
        let mut id = [0; 16];
        for (byte, pair) in id.iter_mut().zip(hex.chunks_exact(2)) {
            let digits = nibble(pair[0]).zip(nibble(pair[1]));
            let (high, low) = digits.ok_or_else(expected)?;
            *byte = high << 4 | low;
        }
        Ok(Self(id))
    }
}

/// What an id names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdKind {
    Artifact,
    Commit,
}

impl IdKind {
    pub const fn prefix(self) -> &'static str {
        match self {
            Self::Artifact => "art-",
            Self::Commit => "ctx-",
        }
    }

    const fn digits(self) -> usize {
        match self {
            Self::Artifact => 64,
            Self::Commit => 32,
        }
    }
}

/// The beginning of an id, as a person types it. It names whatever single id begins so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdPrefix {
    pub kind: IdKind,
    hex: String,
}

impl IdPrefix {
    /// Reads `art-3f2a`, or `3f2a` where only `kind` can be meant.
    pub fn parse(text: &str, kind: IdKind) -> Result<Self, ParseIdError> {
        let hex = text.strip_prefix(kind.prefix()).unwrap_or(text);
        let fits = (limits::ID_PREFIX_DIGITS_MIN..=kind.digits()).contains(&hex.len());
        if !fits || !hex.bytes().all(|digit| nibble(digit).is_some()) {
            return Err(ParseIdError::new(
                text,
                match kind {
                    IdKind::Artifact => "art- and 4 to 64 lower-case hex digits",
                    IdKind::Commit => "ctx- and 4 to 32 lower-case hex digits",
                },
            ));
        }
        Ok(Self { kind, hex: hex.to_owned() })
    }

    pub fn hex(&self) -> &str {
        &self.hex
    }

    /// The least and the greatest id bytes that begin with this prefix, both inclusive.
    pub fn bounds(&self) -> (Vec<u8>, Vec<u8>) {
        let fill = |digit: char| {
            let padded: String = self.hex.chars().chain(std::iter::repeat(digit)).take(self.kind.digits()).collect();
            let digits = padded.as_bytes().chunks_exact(2);
            digits.map(|pair| nibble(pair[0]).unwrap_or(0) << 4 | nibble(pair[1]).unwrap_or(0)).collect()
        };
        (fill('0'), fill('f'))
    }
}

impl fmt::Display for IdPrefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.kind.prefix(), self.hex)
    }
}

/// A text that is no id of the kind asked for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not an id: expected {expected}")]
pub struct ParseIdError {
    text: String,
    expected: &'static str,
}

impl ParseIdError {
    fn new(text: &str, expected: &'static str) -> Self {
        Self { text: text.chars().take(100).collect(), expected }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_commit(parts: [&str; 4], short: &str) {
        let id = CommitId::derive(parts[0], parts[1], parts[2], parts[3]).to_string();
        assert_eq!(&id[..12], short);
        assert_eq!(id.parse::<CommitId>().unwrap().to_string(), id);
    }

    #[test]
    fn commit_ids_begin_with_the_short_id_of_the_same_strings() {
        let artifact = "a1b2c3d4e5f6".repeat(6)[..64].to_owned();
        check_commit(
            ["ctx-a1b2c3d4", &artifact, "2026-02-22T10:30:00Z", "bureau/template:code-reviewer"],
            "ctx-a21c53db",
        );
        check_commit(["", "art-42ed4b8d8d00", "2026-01-01T00:00:00Z", ""], "ctx-3a805194");
    }

    #[test]
    fn prefixes_bound_what_begins_with_them() {
        let prefix = IdPrefix::parse("art-abc12", IdKind::Artifact).unwrap();
        let (low, high) = prefix.bounds();
        assert_eq!(&low[..3], [0xab, 0xc1, 0x20]);
        assert_eq!(&high[..4], [0xab, 0xc1, 0x2f, 0xff]);
        assert_eq!(low.len(), 32);
    }

    #[test]
    fn what_is_no_prefix_is_refused_with_the_expected_form() {
        for text in ["art-ab", "ctx-abcd", "ABCD", "art-xyz1", ""] {
            let error = IdPrefix::parse(text, IdKind::Artifact).unwrap_err().to_string();
            assert!(error.contains("expected art- and 4 to 64"), "{text}: {error}");
        }
    }
}

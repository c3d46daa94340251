//! Secrets in bytes that come piece by piece, cut anywhere.

use super::{SECRET_BYTES_MAX, Secret, mask_bytes, secrets};

/// Bytes that are looked at together.
const HELD_BYTES: usize = 1 << 20;

/// How far back a place between words is looked for.
const GAP_BYTES_MAX: usize = 4 << 10;

/// Looks for secrets in bytes as they come. What may be the beginning of one is held back until its end has come.
#[derive(Debug, Default)]
pub struct SecretStream {
    held: Vec<u8>,
    /// Where the bytes that are held begin.
    at: u64,
    found: Vec<FoundSecret>,
}

/// A secret that came, to be told of and forgotten.
#[derive(Debug, PartialEq, Eq)]
pub struct FoundSecret {
    pub rule: &'static str,
    /// Its place in all that came.
    pub at: u64,
    pub text: Vec<u8>,
}

impl SecretStream {
    /// Takes the next bytes, and gives those that are settled, masked.
    pub fn push(&mut self, bytes: &[u8]) -> Vec<u8> {
        self.held.extend_from_slice(bytes);
        if self.held.len() < HELD_BYTES {
            return Vec::new();
        }
        let found = secrets(&self.held);
        let mut end = self.held.len() - SECRET_BYTES_MAX;
        // Between words, if that is near: what stands before a word says whether it begins one.
        let is_gap = |byte: &u8| byte.is_ascii_whitespace() || *byte == b'"';
        let near = end - GAP_BYTES_MAX;
        end = self.held[near..end].iter().rposition(is_gap).map_or(end, |at| near + at);
        for secret in &found {
            if secret.range.start < end {
                end = end.max(secret.range.end);
            }
        }
        self.settle(end, found)
    }

    /// The rest, masked, once nothing follows.
    pub fn finish(&mut self) -> Vec<u8> {
        if self.held.is_empty() {
            // To look for nothing, the rules would still be made ready.
            return Vec::new();
        }
        let found = secrets(&self.held);
        self.settle(self.held.len(), found)
    }

    /// What was found so far.
    pub fn take_found(&mut self) -> Vec<FoundSecret> {
        std::mem::take(&mut self.found)
    }

    fn settle(&mut self, end: usize, found: Vec<Secret>) -> Vec<u8> {
        for Secret { rule, range } in found.into_iter().filter(|secret| secret.range.start < end) {
            let at = self.at + range.start as u64;
            self.found.push(FoundSecret { rule, at, text: self.held[range].to_vec() });
        }
        let masked = mask_bytes(&self.held[..end]).into_owned();
        self.held.drain(..end);
        self.at += end as u64;
        masked
    }
}

//! The words of a token: random, shown once, and kept only as a digest.

use std::fmt;

use subtle::ConstantTimeEq;

const PREFIX: &str = "enj_";
const BYTES: usize = 32;

/// A token as its holder has it. It is never printed by accident.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// A fresh one, of 256 random bits.
    pub fn new() -> std::io::Result<Self> {
        let mut bytes = [0; BYTES];
        getrandom::fill(&mut bytes).map_err(std::io::Error::other)?;
        Ok(Self(format!("{PREFIX}{}", blake3::Hash::from_bytes(bytes).to_hex())))
    }

    /// What looks like a token; whether it is one is for [`Secret::is`] to say.
    pub fn parse(text: &str) -> Option<Self> {
        let hex = text.strip_prefix(PREFIX)?;
        (hex.len() == 2 * BYTES && hex.bytes().all(|byte| byte.is_ascii_hexdigit())).then(|| Self(text.to_owned()))
    }

    /// The words themselves, for whoever is to hold them.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// What is stored. The secret has 256 random bits, so a plain digest cannot be turned back.
    pub fn digest(&self) -> String {
        blake3::hash(self.0.as_bytes()).to_hex().to_string()
    }

    /// Whether this is the secret with that digest. Takes as long whatever the answer.
    pub fn is(&self, digest: &str) -> bool {
        blake3::hash(self.0.as_bytes()).to_hex().as_bytes().ct_eq(digest.as_bytes()).into()
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_known_by_its_digest_and_never_shown() {
        let (one, other) = (Secret::new().unwrap(), Secret::new().unwrap());
        assert_ne!(one, other);
        assert!(one.is(&one.digest()) && !one.is(&other.digest()) && !one.is("short"));
        assert_eq!(Secret::parse(one.reveal()), Some(one.clone()));
        assert!(!format!("{one:?}").contains(&one.reveal()[8..]));
    }

    #[test]
    fn what_no_token_looks_like_is_not_taken_for_one() {
        for text in ["", "enj_", "enj_zz", "Bearer x", &format!("enj_{}", "g".repeat(64))] {
            assert_eq!(Secret::parse(text), None, "{text}");
        }
    }
}

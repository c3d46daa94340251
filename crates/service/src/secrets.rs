//! Where the secrets of imported sources are.
//!
//! A source's frames say how many secrets it holds. Where they are is found by looking at its bytes again, so that neither
//! a secret nor anything that could be one is stored a second time.

use enjamb_core::redact::{FoundSecret, SecretStream};
use enjamb_core::{CommitId, Digest};

use crate::{Result, SourceState, Store};

/// A secret in a source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecretPlace {
    pub path: String,
    pub session: Option<String>,
    /// The commit that tells of the part it is in; none for a line that is not whole.
    pub commit: Option<CommitId>,
    pub rule: &'static str,
    /// Where it begins in the source, and how long it is.
    pub offset: u64,
    pub bytes: u64,
    /// How it begins, and how it ends no more.
    pub preview: String,
    /// Equal for equal secrets; it tells nothing else of them.
    pub digest: String,
}

/// Characters of a secret that tell of what kind it is, not which one.
const PREVIEW_CHARS: usize = 4;
/// Digits that tell secrets apart. More would help whoever guesses.
const DIGEST_DIGITS: usize = 8;

impl Store {
    /// The secrets of all sources, or of one session: its id, or the beginning of it.
    pub fn secrets(&self, session: Option<&str>) -> Result<Vec<SecretPlace>> {
        let sources = match session {
            Some(session) => vec![self.source_of_session(session)?],
            None => self.sources()?,
        };
        let mut places = Vec::new();
        for source in sources.iter().filter(|source| source.secrets > 0) {
            self.secrets_in(source, &mut places)?;
        }
        Ok(places)
    }

    fn secrets_in(&self, source: &SourceState, places: &mut Vec<SecretPlace>) -> Result<()> {
        let parts = source.parts.iter().map(|part| (part.artifact, Some(part.commit)));
        let mut from = 0;
        for (artifact, commit) in parts.chain(source.tail.map(|tail| (tail, None))) {
            let (mut stream, mut len) = (SecretStream::default(), 0);
            self.get(&artifact, None, &mut |part| {
                len += part.len() as u64;
                stream.push(part);
                Ok(())
            })?;
            stream.finish();
            places.extend(stream.take_found().iter().map(|found| place(source, commit, from, found)));
            from += len;
        }
        Ok(())
    }
}

fn place(source: &SourceState, commit: Option<CommitId>, from: u64, found: &FoundSecret) -> SecretPlace {
    let FoundSecret { rule, at, text } = found;
    let shown: String = String::from_utf8_lossy(text).chars().take(PREVIEW_CHARS).collect();
    let is_named = *rule != "url-password" && *rule != "generic-api-key";
    SecretPlace {
        path: source.path.clone(),
        session: source.session.clone(),
        commit,
        rule,
        offset: from + at,
        bytes: text.len() as u64,
        preview: format!("{}…", if is_named { shown.as_str() } else { "" }),
        digest: Digest::of(text).to_hex()[..DIGEST_DIGITS].to_owned(),
    }
}

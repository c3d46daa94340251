//! Context packs 0.7.0: one session's messages and the sources of its answers, hashed so that the same content always has
//! the same hash, whoever packs it and whenever.
//!
//! A pack is built from listed members only; nothing else of a conversation can get into one. The hash covers what was
//! said, by whom, in which order and on what grounds, but no time.

mod canonical;
mod diff;
mod error;
mod fields;
mod gather;
mod markdown;
mod read;
mod reading;
mod source;
mod tree;
mod verify;
mod yaml;

pub use canonical::{Algorithm, canonical, sources_hash};
pub use diff::{Change, PackDiff};
pub use error::PackError;
pub use gather::{Gathered, Place, gather};
pub use source::{ArtifactSource, FileSnippet, Numbered, Repo, Source, Upload};
pub use tree::Tree;
pub use verify::Finding;

use sha2::{Digest as _, Sha256};

use self::source::{number, object, text};
use crate::redact::{Redacted, redact};
use crate::{Timestamp, limits};

pub const VERSION: &str = "0.7.0";

#[derive(Clone, Debug, PartialEq)]
pub struct Pack {
    pub generated_at: String,
    pub session: Session,
    /// By seq.
    pub messages: Vec<Message>,
    pub session_hash: String,
    pub message_count: u64,
    /// How many different sets of sources there are.
    pub sources_count: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Session {
    /// A UUID.
    pub id: String,
    pub title: Option<String>,
    pub created_at: String,
    pub updated_at: String,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Message {
    pub seq: u64,
    pub role: PackRole,
    pub content: String,
    pub created_at: String,
    /// Only answers have sources; canonical where this version packed them.
    pub sources: Vec<Source>,
    pub sources_hash: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PackRole {
    User,
    Assistant,
    System,
}

impl PackRole {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Assistant => "assistant",
            Self::System => "system",
        }
    }
}

impl Message {
    /// A message whose sources are put into their order, and how many of them that order does not tell apart.
    pub fn new(seq: u64, role: PackRole, content: String, created_at: String, sources: Vec<Source>) -> (Self, u64) {
        let strict = canonical(sources.clone(), Algorithm::Strict).len();
        let sources = canonical(sources, Algorithm::Compat);
        let dropped = (strict - sources.len()) as u64;
        let sources_hash = sources_hash(&sources);
        (Self { seq, role, content, created_at, sources, sources_hash }, dropped)
    }
}

impl Pack {
    /// Puts a pack together and hashes it.
    pub fn new(generated_at: Timestamp, session: Session, mut messages: Vec<Message>) -> Self {
        messages.sort_by_key(|message| message.seq);
        let mut pack = Self {
            generated_at: time_text(generated_at),
            session,
            message_count: messages.len() as u64,
            sources_count: count_sets(&messages),
            messages,
            session_hash: String::new(),
        };
        pack.session_hash = pack.hash();
        pack
    }

    /// Takes secrets out of everything that someone wrote, and hashes what is left.
    pub fn redact(&mut self) -> Redacted {
        let mut found = Redacted::default();
        let title = self.session.title.as_mut();
        for text in title.into_iter().chain(self.messages.iter_mut().map(|message| &mut message.content)) {
            redact(text, &mut found);
        }
        for message in &mut self.messages {
            message.sources.iter_mut().flat_map(Source::texts_mut).for_each(|text| redact(text, &mut found));
            message.sources = canonical(std::mem::take(&mut message.sources), Algorithm::Compat);
            message.sources_hash = sources_hash(&message.sources);
        }
        self.sources_count = count_sets(&self.messages);
        self.session_hash = self.hash();
        found
    }

    /// The hash that the pack should have.
    pub fn hash(&self) -> String {
        canonical::sha256_hex(&self.canonical())
    }

    /// What the hash covers: no times, and no hash.
    pub fn canonical(&self) -> String {
        let session =
            object(vec![("id", Some(text(&self.session.id))), ("title", Some(nullable(&self.session.title)))]);
        let mut messages: Vec<&Message> = self.messages.iter().collect();
        messages.sort_by_key(|message| message.seq);
        let messages = messages.into_iter().map(|message| message.tree(None)).collect();
        self.whole(None, session, messages, "").sorted().compact()
    }

    /// The pack with its members in the order of the contract.
    pub fn tree(&self) -> Tree {
        let session = object(vec![
            ("id", Some(text(&self.session.id))),
            ("title", Some(nullable(&self.session.title))),
            ("createdAt", Some(text(&self.session.created_at))),
            ("updatedAt", Some(text(&self.session.updated_at))),
        ]);
        let messages = self.messages.iter().map(|message| message.tree(Some(&message.created_at))).collect();
        self.whole(Some(&self.generated_at), session, messages, &self.session_hash)
    }

    fn whole(&self, generated_at: Option<&str>, session: Tree, messages: Vec<Tree>, hash: &str) -> Tree {
        let derived = object(vec![
            ("sessionHash", Some(text(hash))),
            ("messageCount", Some(number(self.message_count))),
            ("sourcesCount", Some(number(self.sources_count))),
        ]);
        object(vec![
            ("contextPackVersion", Some(text(VERSION))),
            ("generatedAt", generated_at.map(text)),
            ("session", Some(session)),
            ("messages", Some(Tree::List(messages))),
            ("derived", Some(derived)),
            // What there is to warn of is said elsewhere: here it would change the hash.
            ("warnings", Some(Tree::List(Vec::new()))),
        ])
    }

    /// The bytes that are stored.
    pub fn to_json(&self) -> Result<Vec<u8>, PackError> {
        let json = self.tree().compact().into_bytes();
        if json.len() > limits::PACK_BYTES_MAX {
            return Err(PackError::TooLarge { bytes: json.len() as u64 });
        }
        Ok(json)
    }

    /// The name that a file of it has.
    pub fn file_name(&self, extension: &str) -> String {
        format!("context-pack-{}-{}.{extension}", self.session.id, &self.session_hash[..12])
    }

    /// Every source with the seq of the message that it is of.
    pub fn sources(&self) -> impl Iterator<Item = (u64, &Source)> {
        self.messages.iter().flat_map(|message| message.sources.iter().map(|source| (message.seq, source)))
    }
}

impl Message {
    fn tree(&self, created_at: Option<&str>) -> Tree {
        let sources = match self.sources.as_slice() {
            [] => Tree::Null,
            sources => Tree::List(sources.iter().map(Source::tree).collect()),
        };
        object(vec![
            ("seq", Some(number(self.seq))),
            ("role", Some(text(self.role.as_str()))),
            ("content", Some(text(&self.content))),
            ("createdAt", created_at.map(text)),
            ("used_sources", Some(sources)),
            ("used_sources_hash", Some(nullable(&self.sources_hash))),
        ])
    }
}

fn count_sets(messages: &[Message]) -> u64 {
    let hashes = messages.iter().filter_map(|message| message.sources_hash.as_deref());
    hashes.collect::<std::collections::HashSet<_>>().len() as u64
}

fn nullable(member: &Option<String>) -> Tree {
    member.as_deref().map_or(Tree::Null, text)
}

/// An instant as packs write it: with milliseconds, in UTC.
pub fn time_text(at: Timestamp) -> String {
    let micros = at.to_string();
    match micros.strip_suffix("Z").and_then(|text| text.get(..text.len() - 3)) {
        Some(millis) => format!("{millis}Z"),
        None => micros,
    }
}

/// The id that a session has in a pack: its own if it is a UUID, otherwise one that follows from its name.
pub fn session_uuid(name: &str) -> String {
    if is_uuid(name) {
        return name.to_ascii_lowercase();
    }
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&Sha256::digest(name.as_bytes())[..16]);
    bytes[6] = bytes[6] & 0x0f | 0x80;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let hex = crate::digest::to_hex(&bytes);
    format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
}

pub(crate) fn is_uuid(text: &str) -> bool {
    let groups: Vec<&str> = text.split('-').collect();
    groups.iter().map(|group| group.len()).eq([8, 4, 4, 4, 12])
        && text.bytes().all(|byte| byte == b'-' || byte.is_ascii_hexdigit())
}

/// The first hundred UTF-16 units of what was first asked, as sessions without a title are called.
pub fn title_of(prompt: &str) -> Option<String> {
    let mut units = 0;
    let cut = |c: &char| {
        units += c.len_utf16();
        units <= 100
    };
    Some(prompt.chars().take_while(cut).collect::<String>()).filter(|title| !title.is_empty())
}

#[cfg(test)]
mod tests;

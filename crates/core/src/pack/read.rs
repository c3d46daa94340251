//! Reading a pack that someone else may have written, in whatever order its members are.

use super::fields::{Fields, malformed};
use super::{Message, Pack, PackError, PackRole, Session, Source, Tree, VERSION, is_uuid};
use crate::limits;

impl Pack {
    /// Reads a pack; whether its hashes are right is for [`Pack::verify`] to say.
    pub fn parse(json: &[u8]) -> Result<Self, PackError> {
        if json.len() > limits::PACK_FILE_BYTES_MAX {
            return Err(PackError::TooLarge { bytes: json.len() as u64 });
        }
        let tree = Tree::parse(json).map_err(|error| PackError::NotJson(error.to_string()))?;
        let mut fields = Fields::of("", tree)?;
        let version = fields.word("contextPackVersion")?;
        if version != VERSION {
            let version = version.chars().take(100).collect();
            return Err(PackError::UnknownVersion { path: "contextPackVersion".into(), version });
        }
        let pack = read(&mut fields)?;
        if fields.list_or_none("warnings")?.is_some_and(|warnings| !warnings.is_empty()) {
            return Err(malformed("warnings", "is not empty", "an empty array: 0.7.0 hashes no warnings"));
        }
        fields.end()?;
        Ok(pack)
    }
}

fn read(fields: &mut Fields) -> Result<Pack, PackError> {
    let generated_at = fields.time("generatedAt")?;
    let session = read_session(fields.object("session")?)?;
    let messages = fields.list("messages")?;
    let messages = messages.into_iter().enumerate().map(|(at, tree)| read_message(at, tree));
    let messages = messages.collect::<Result<Vec<_>, _>>()?;
    let mut derived = fields.object("derived")?;
    let pack = Pack {
        generated_at,
        session,
        messages,
        session_hash: derived.word("sessionHash")?,
        message_count: derived.whole("messageCount")?,
        sources_count: derived.whole("sourcesCount")?,
    };
    derived.end()?;
    Ok(pack)
}

fn read_session(mut fields: Fields) -> Result<Session, PackError> {
    let session = Session {
        id: fields.word("id")?,
        title: fields.text_or_none("title")?,
        created_at: fields.time("createdAt")?,
        updated_at: fields.time("updatedAt")?,
    };
    if !is_uuid(&session.id) {
        return Err(malformed(&fields.path("id"), "is no UUID", "a UUID"));
    }
    fields.end()?;
    Ok(session)
}

fn read_message(at: usize, tree: Tree) -> Result<Message, PackError> {
    let mut fields = Fields::of(&format!("messages[{at}]"), tree)?;
    let seq = fields.whole("seq")?;
    let role = read_role(&mut fields)?;
    let content = fields.text("content")?;
    let created_at = fields.time("createdAt")?;
    let path = fields.path("used_sources");
    let sources = fields.list_or_none("used_sources")?.unwrap_or_default();
    if role != PackRole::Assistant && !sources.is_empty() {
        return Err(malformed(&path, "is given", "sources of assistant messages only"));
    }
    let sources = sources.into_iter().enumerate().map(|(at, tree)| Source::read(&format!("{path}[{at}]"), tree));
    let sources = sources.collect::<Result<Vec<_>, _>>()?;
    let sources_hash = fields.word_or_none("used_sources_hash")?;
    fields.end()?;
    Ok(Message { seq, role, content, created_at, sources, sources_hash })
}

fn read_role(fields: &mut Fields) -> Result<PackRole, PackError> {
    let role = fields.word("role")?;
    let roles = [PackRole::User, PackRole::Assistant, PackRole::System];
    let known = roles.into_iter().find(|known| known.as_str() == role);
    known.ok_or_else(|| malformed(&fields.path("role"), "is no role", "user, assistant or system"))
}

//! `opencode-v1`: what opencode keeps of a session, a line a thing: the session, its messages, and their parts.
//!
//! A thing is a row of opencode's database, a file of the storage it had before, or a message of what `opencode export`
//! writes. Things are changed in place; here one that comes again replaces the one with its id.

mod parts;
mod read;
mod write;

#[cfg(test)]
mod tests;

use enjamb_core::conversation::Conversation;

use crate::adapt::{EmptyText, Own, Palette, Results};
use crate::fidelity::Encoded;
use crate::format::{Format, Reading};
use crate::framing::{Framing, Item};
use crate::json::{self, Object, Writer};
use crate::unrolled::{UnrolledLine, range_in, whole_value};

pub(crate) const ID: &str = "opencode-v1";

pub(crate) struct OpenCode;

const PALETTE: Palette = Palette {
    own: Own::These(&[ID]),
    results: Results::TextFirst,
    url_types: false,
    system: false,
    free_input: false,
    server_calls: false,
    off_line: false,
    empty_text: EmptyText::OnlySpace,
    ..Palette::WIDE
};

impl Format for OpenCode {
    fn id(&self) -> &'static str {
        ID
    }

    fn framing(&self) -> Framing {
        Framing::JsonLines
    }

    fn understand(&self, items: &[Item<'_>]) -> Reading {
        read::understand(items)
    }

    fn encode(&self, conversation: &Conversation) -> Encoded {
        PALETTE.encode(conversation, write::write)
    }

    fn revises(&self) -> bool {
        true
    }

    fn line_key(&self, line: &str) -> String {
        let thing = Object::parse(line);
        let id = thing.and_then(|thing| thing.text("id").or_else(|| thing.object("info")?.text("id")));
        id.unwrap_or_else(|| line.to_owned())
    }

    /// What `opencode export` writes is unrolled; a file of the storage is a line already.
    fn unroll(&self, document: &[u8]) -> Option<Vec<UnrolledLine>> {
        let text = whole_value(document)?;
        let offset = text.as_ptr() as usize - document.as_ptr() as usize;
        let whole = Object::parse(text)?;
        let Some(messages) = whole.array("messages") else {
            let range = Some(offset..offset + text.len());
            let line = UnrolledLine { text: json::compact(text), range };
            return read::is_thing(&whole).then(|| vec![line]);
        };
        let session = whole.object("info")?;
        let header = UnrolledLine { text: header(&session)?, range: None };
        let lines = messages.into_iter().map(|message| {
            let found = range_in(text, message);
            let range = Some(found.start + offset..found.end + offset);
            UnrolledLine { text: json::compact(message), range }
        });
        Some(std::iter::once(header).chain(lines).collect())
    }
}

/// What never changes of a session.
fn header(session: &Object<'_>) -> Option<String> {
    let created = session.object("time").and_then(|time| time.json("created"));
    let info = Writer::new()
        .member("id", &session.text("id")?)
        .optional("projectID", session.text("projectID"))
        .optional("directory", session.text("directory"))
        .optional("parentID", session.text("parentID"))
        .optional("time", created.map(|created| Writer::new().member("created", &created).json()));
    Some(Writer::new().member("info", &info.json()).json().get().to_owned())
}

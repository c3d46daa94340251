//! `gemini-v1`: lines of Gemini CLI's chats, `~/.gemini/tmp/<project>/chats/session-….jsonl`.
//!
//! A line is the session's header, a message, or a change: a message that comes again replaces the one with its id,
//! `$rewindTo` takes a message back with all that follow it, `$set` changes the header or, after a compression, all
//! messages. Older versions write one document instead, anew each time; it is read as the lines it amounts to.

mod parts;
mod read;
mod write;

#[cfg(test)]
mod tests;

use enjamb_core::conversation::{Conversation, attribute};

use crate::adapt::{Own, Palette, Thoughts};
use crate::check;
use crate::fidelity::Encoded;
use crate::format::{Format, Reading};
use crate::framing::{Framing, Item};
use crate::json::{self, Object, Writer};
use crate::problem::Problem;
use crate::unrolled::{UnrolledLine, range_in, whole_value};

pub(crate) const ID: &str = "gemini-v1";
pub(crate) const PROVIDER: &str = "google";

pub(crate) struct Gemini;

const PALETTE: Palette = Palette {
    own: Own::These(&[ID]),
    thoughts: Thoughts::Plain(PROVIDER),
    system: false,
    free_input: false,
    server_calls: false,
    off_line: false,
    ..Palette::WIDE
};

impl Format for Gemini {
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

    /// What a compression repeats was counted where it was first said.
    fn message_count(&self, reading: &Reading) -> u64 {
        let messages = reading.conversation.messages();
        messages.filter(|entry| entry.attribute(attribute::COPIED).is_none()).count() as u64
    }

    fn check(&self, reading: &Reading) -> Vec<Problem> {
        let mut problems = check::pairing(reading);
        problems.extend(read::ignored(reading));
        problems
    }

    fn revises(&self) -> bool {
        true
    }

    fn line_key(&self, line: &str) -> String {
        let id = Object::parse(line).and_then(|line| line.text("id").or_else(|| line.text("sessionId")));
        id.unwrap_or_else(|| line.to_owned())
    }

    fn unroll(&self, document: &[u8]) -> Option<Vec<UnrolledLine>> {
        let text = whole_value(document)?;
        let chat = Object::parse(text)?;
        let messages = chat.array("messages")?;
        let header = UnrolledLine { text: header(&chat)?, range: None };
        let offset = text.as_ptr() as usize - document.as_ptr() as usize;
        let lines = messages.into_iter().map(|message| {
            let found = range_in(text, message);
            let range = Some(found.start + offset..found.end + offset);
            UnrolledLine { text: json::compact(message), range }
        });
        Some(std::iter::once(header).chain(lines).collect())
    }
}

/// The line that a chat begins with. It says what never changes; when the chat was last changed is told by its messages.
fn header(chat: &Object<'_>) -> Option<String> {
    let (session, started) = (chat.text("sessionId")?, chat.text("startTime"));
    let line = Writer::new()
        .member("sessionId", &session)
        .optional("projectHash", chat.text("projectHash"))
        .optional("startTime", started.as_ref())
        .optional("lastUpdated", started.as_ref())
        .member("kind", &chat.text("kind").unwrap_or_else(|| "main".to_owned()));
    Some(line.json().get().to_owned())
}

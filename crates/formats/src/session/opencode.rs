//! opencode's session as the document that `opencode import` takes: the session, and its messages with their parts.
//!
//! opencode keeps a row for each id and leaves alone what it has, so every id in the document is new.

use super::{Identity, Loader, Scout, Scouted};
use crate::framing::Framing;
use crate::json::{Object, array_text};

/// Rows and files of opencode bear the ids that they are kept under: none is written as it is.
pub(super) struct Rows;

impl Scout for Rows {
    fn look(&mut self, _: &[u8]) {}

    fn looked(&mut self) -> Scouted {
        Scouted { loads: false, begins: false }
    }

    fn loader<'s>(&'s self, _: &'s Identity) -> Box<dyn Loader + 's> {
        Box::new(Document::default())
    }
}

#[derive(Default)]
struct Document {
    session: Option<String>,
    messages: Vec<String>,
}

impl Loader for Document {
    fn native(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        self.made(bytes, out);
    }

    /// A document is written when all of it is there.
    fn made(&mut self, bytes: &[u8], _: &mut Vec<u8>) {
        let Ok(found) = Framing::JsonLines.items(bytes) else { return };
        for item in &found.items {
            let Some(object) = Object::parse(item.json()) else { continue };
            match (object.get("parts"), object.get("info")) {
                (Some(_), _) => self.messages.push(item.json().to_owned()),
                (None, Some(info)) if self.session.is_none() => self.session = Some(info.to_owned()),
                (None, _) => {}
            }
        }
    }

    fn is_kept_by_id(&self) -> bool {
        true
    }

    fn finish(self: Box<Self>, out: &mut Vec<u8>) {
        let messages = array_text(self.messages.iter().map(String::as_str));
        let info = self.session.as_deref().unwrap_or("{}");
        out.extend(format!("{{\"info\":{info},\"messages\":{messages}}}\n").into_bytes());
    }
}

//! Gemini CLI's chat: a header that says whose session it is, then messages and changes to them, in order.

use std::collections::HashSet;

use super::splice::{Splice, each_item, each_object};
use super::{Extent, Identity, Loader, Scout, Scouted};
use crate::derived::{derived_uuid, milliseconds};
use crate::json::{Object, Writer};

/// What the lines are that may be written as they are.
pub(super) struct Lines {
    extent: Extent,
    /// Their ids, where others are made beside them.
    ids: HashSet<String>,
    /// Of the stretch that is being looked at.
    begins: bool,
}

impl Lines {
    pub(super) fn new(extent: Extent) -> Self {
        Self { extent, ids: HashSet::new(), begins: false }
    }
}

impl Scout for Lines {
    fn look(&mut self, bytes: &[u8]) {
        let is_mixed = self.extent.stretches > 1;
        each_object(bytes, |object| {
            self.begins |= is_header(object);
            self.ids.extend(object.text("id").filter(|_| is_mixed));
        });
    }

    fn looked(&mut self) -> Scouted {
        Scouted { loads: true, begins: std::mem::replace(&mut self.begins, false) }
    }

    fn loader<'s>(&'s self, identity: &'s Identity) -> Box<dyn Loader + 's> {
        Box::new(Chat { identity, head: &self.extent.head, has_header: false, ids: self.ids.clone() })
    }
}

struct Chat<'i> {
    identity: &'i Identity,
    /// Lines that hold the old beginning, for a stretch that does not have it.
    head: &'i [u8],
    has_header: bool,
    ids: HashSet<String>,
}

impl Chat<'_> {
    fn line(&mut self, text: &str, is_made: bool) -> Option<String> {
        let Some(object) = Object::parse(text) else { return Some(text.to_owned()) };
        if is_header(&object) {
            return (!std::mem::replace(&mut self.has_header, true)).then(|| self.header(text, &object));
        }
        let mut splice = Splice::of(text);
        if let Some(id) = object.text("id") {
            // The same id again would replace what was said under it before.
            if is_made && self.ids.contains(&id) {
                let free = derived_uuid(&[&id, &self.ids.len().to_string()]);
                splice.put_text(&object, "id", &free);
                self.ids.insert(free);
            }
            self.ids.insert(id);
        }
        Some(splice.finish())
    }

    fn header<'t>(&self, text: &'t str, object: &Object<'t>) -> String {
        let mut splice = Splice::of(text);
        splice.put_text(object, "sessionId", &self.identity.session);
        splice.put_text(object, "projectHash", &project_hash(&self.identity.cwd));
        splice.finish()
    }

    /// A chat without its header is none: it is that of the chain, or one is made.
    fn head(&mut self, out: &mut Vec<u8>) {
        each_item(self.head, out, |text| {
            let is_ours = !self.has_header && Object::parse(text).is_some_and(|object| is_header(&object));
            if is_ours { self.line(text, false) } else { None }
        });
        if !self.has_header {
            out.extend(header(self.identity).into_bytes());
            self.has_header = true;
        }
    }
}

impl Loader for Chat<'_> {
    fn begin(&mut self, stretch: Scouted, out: &mut Vec<u8>) {
        if !self.has_header && !stretch.begins {
            self.head(out);
        }
    }

    fn native(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        each_item(bytes, out, |text| self.line(text, false));
    }

    fn made(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        if !self.has_header && !has_header(bytes) {
            self.head(out);
        }
        each_item(bytes, out, |text| self.line(text, true));
    }
}

fn has_header(bytes: &[u8]) -> bool {
    let mut found = false;
    each_object(bytes, |object| found |= is_header(object));
    found
}

fn is_header(object: &Object<'_>) -> bool {
    object.get("sessionId").is_some() && object.get("id").is_none() && object.get("type").is_none()
}

fn header(identity: &Identity) -> String {
    let at = milliseconds(identity.at);
    let line = Writer::new()
        .member("sessionId", &identity.session)
        .member("projectHash", &project_hash(&identity.cwd))
        .member("startTime", &at)
        .member("lastUpdated", &at)
        .member("kind", "main");
    line.json().get().to_owned() + "\n"
}

/// A directory as Gemini CLI tells projects apart.
pub(super) fn project_hash(cwd: &str) -> String {
    use sha2::{Digest, Sha256};
    Sha256::digest(cwd.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
}

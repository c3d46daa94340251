//! Gemini CLI's chat: a header that says whose session it is, then messages and changes to them, in order.

use std::collections::HashSet;

use super::splice::{Splice, each_item};
use super::{Identity, Loader, Memory};
use crate::derived::{derived_uuid, milliseconds};
use crate::json::{Object, Writer};

pub(super) struct Chat<'i> {
    identity: &'i Identity,
    /// Lines that hold the old beginning, for a stretch that does not have it.
    head: &'i [u8],
    has_header: bool,
    ids: HashSet<String>,
    out: Vec<u8>,
}

impl<'i> Chat<'i> {
    pub(super) fn new(memory: &Memory<'i>, identity: &'i Identity) -> Self {
        Self { identity, head: memory.head, has_header: false, ids: HashSet::new(), out: Vec::new() }
    }

    fn add(&mut self, bytes: &[u8], is_made: bool) {
        let mut out = std::mem::take(&mut self.out);
        each_item(bytes, &mut out, |text| self.line(text, is_made));
        self.out = out;
    }

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
    fn begin(&mut self, bytes: &[u8]) {
        let begins = |bytes: &[u8]| {
            let mut found = false;
            each_item(bytes, &mut Vec::new(), |text| {
                found |= Object::parse(text).is_some_and(|object| is_header(&object));
                None
            });
            found
        };
        if self.has_header || begins(bytes) {
            return;
        }
        let mut made = Vec::new();
        each_item(self.head, &mut made, |text| {
            let is_ours = !self.has_header && Object::parse(text).is_some_and(|object| is_header(&object));
            if is_ours { self.line(text, false) } else { None }
        });
        if !self.has_header {
            made = header(self.identity).into_bytes();
            self.has_header = true;
        }
        self.out.extend(made);
    }
}

impl Loader for Chat<'_> {
    fn loads(&self, _: &[u8]) -> bool {
        true
    }

    fn native(&mut self, bytes: &[u8]) {
        self.begin(bytes);
        self.add(bytes, false);
    }

    fn made(&mut self, bytes: &[u8]) {
        self.begin(bytes);
        self.add(bytes, true);
    }

    fn finish(self: Box<Self>) -> Vec<u8> {
        self.out
    }
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

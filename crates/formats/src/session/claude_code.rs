//! Claude Code's transcript: records in a tree, each with the session's id.

use std::collections::HashSet;

use super::splice::{Splice, each_item, moved, quoted};
use super::{Identity, Loader, Memory};
use crate::framing::Framing;
use crate::json::Object;

pub(super) struct Transcript<'i> {
    identity: &'i Identity,
    /// Every record that is written as it is, where some are left out or come from elsewhere; else parents stay.
    known: Option<HashSet<String>>,
    /// All messages are a side chain's: it is a subagent's transcript, and becomes a session of its own.
    is_aside: bool,
    last: Option<String>,
    out: Vec<u8>,
}

impl<'i> Transcript<'i> {
    pub(super) fn new(memory: &Memory<'_>, identity: &'i Identity) -> Self {
        let own = memory.stretches.iter().filter(|stretch| stretch.format.id() == crate::claude_code::ID);
        let mut known = HashSet::new();
        let mut aside = None;
        for stretch in own {
            each_record(stretch.bytes, |record| {
                known.extend(record.text("uuid"));
                if is_message(record) {
                    aside = Some(aside.unwrap_or(true) && record.flag("isSidechain"));
                }
            });
        }
        let links = memory.is_cut || memory.stretches.len() > 1;
        let is_aside = aside.unwrap_or(false) && memory.stretches.len() == 1;
        Self { identity, known: links.then_some(known), is_aside, last: None, out: Vec::new() }
    }

    fn record(&mut self, text: &str, is_made: bool) -> Option<String> {
        let Some(object) = Object::parse(text) else { return Some(text.to_owned()) };
        let mut splice = Splice::of(text);
        splice.put_text(&object, "sessionId", &self.identity.session);
        splice.put_text(&object, "session_id", &self.identity.session);
        let Identity { moved_from, cwd, .. } = self.identity;
        if let Some(path) = object.text("cwd").and_then(|path| moved(&path, moved_from.as_deref(), cwd)) {
            splice.put_text(&object, "cwd", &path);
        }
        if self.is_aside && object.flag("isSidechain") {
            object.get("isSidechain").into_iter().for_each(|value| splice.put(value, "false"));
        }
        self.link(&object, &mut splice, is_made);
        if let Some(uuid) = object.text("uuid").filter(|_| self.is_aside || !object.flag("isSidechain")) {
            self.last = Some(uuid);
        }
        Some(splice.finish())
    }

    /// Links a record whose parent is not here to the one before it. A compaction has no parent, and wants none.
    fn link(&self, object: &Object<'_>, splice: &mut Splice<'_>, is_made: bool) {
        let Some(known) = &self.known else { return };
        let is_boundary = object.text("subtype").as_deref() == Some("compact_boundary");
        let Some((_, value)) = object.members().find(|(name, _)| *name == "parentUuid") else { return };
        let is_here = match crate::json::text(value) {
            Some(parent) => is_made || known.contains(&parent),
            // The first record that was made for this session has no parent yet; others without are roots.
            None => !is_made,
        };
        if !is_here && !is_boundary {
            let parent = self.last.as_deref().map_or_else(|| "null".to_owned(), quoted);
            splice.put(value, &parent);
        }
    }

    fn add(&mut self, bytes: &[u8], is_made: bool) {
        let mut out = std::mem::take(&mut self.out);
        each_item(bytes, &mut out, |text| self.record(text, is_made));
        self.out = out;
    }
}

impl Loader for Transcript<'_> {
    /// The loader wants links between messages, and times. Lines of `stream-json` have neither.
    fn loads(&self, bytes: &[u8]) -> bool {
        let (mut is_linked, mut is_timed) = (true, false);
        each_record(bytes, |record| {
            if is_message(record) {
                is_linked &= record.members().any(|(name, _)| name == "parentUuid") && record.get("uuid").is_some();
                is_timed |= record.get("timestamp").is_some();
            }
        });
        is_linked && is_timed
    }

    fn native(&mut self, bytes: &[u8]) {
        self.add(bytes, false);
    }

    fn made(&mut self, bytes: &[u8]) {
        self.add(bytes, true);
    }

    fn finish(self: Box<Self>) -> Vec<u8> {
        self.out
    }
}

fn each_record(bytes: &[u8], mut visit: impl FnMut(&Object<'_>)) {
    let Ok(found) = Framing::JsonLines.items(bytes) else { return };
    found.items.iter().filter_map(|item| Object::parse(item.json())).for_each(|object| visit(&object));
}

fn is_message(record: &Object<'_>) -> bool {
    matches!(record.text("type").as_deref(), Some("user" | "assistant")) && record.get("message").is_some()
}

//! Claude Code's transcript: records in a tree, each with the session's id.

use std::collections::HashSet;

use super::splice::{Splice, each_item, each_object, moved, quoted};
use super::{Extent, Identity, Loader, Scout, Scouted};
use crate::json::Object;

/// What the records are that may be written as they are.
pub(super) struct Records {
    /// Their ids, where some records are left out or come from elsewhere; else parents stay.
    known: Option<HashSet<String>>,
    is_only_stretch: bool,
    /// Whether all messages are a side chain's, once there are any.
    aside: Option<bool>,
    /// Of the stretch that is being looked at.
    is_linked: bool,
    is_timed: bool,
}

impl Records {
    pub(super) fn new(extent: &Extent) -> Self {
        let is_only_stretch = extent.stretches == 1;
        let links = extent.is_cut || !is_only_stretch;
        let known = links.then(HashSet::new);
        Self { known, is_only_stretch, aside: None, is_linked: true, is_timed: false }
    }
}

impl Scout for Records {
    fn look(&mut self, bytes: &[u8]) {
        each_object(bytes, |record| {
            if let Some(known) = &mut self.known {
                known.extend(record.text("uuid"));
            }
            if is_message(record) {
                self.aside = Some(self.aside.unwrap_or(true) && record.flag("isSidechain"));
                self.is_linked &=
                    record.members().any(|(name, _)| name == "parentUuid") && record.get("uuid").is_some();
                self.is_timed |= record.get("timestamp").is_some();
            }
        });
    }

    /// The loader wants links between messages, and times. Lines of `stream-json` have neither.
    fn looked(&mut self) -> Scouted {
        let is_linked = std::mem::replace(&mut self.is_linked, true);
        let is_timed = std::mem::replace(&mut self.is_timed, false);
        Scouted { loads: is_linked && is_timed, begins: true }
    }

    fn loader<'s>(&'s self, identity: &'s Identity) -> Box<dyn Loader + 's> {
        let is_aside = self.aside.unwrap_or(false) && self.is_only_stretch;
        Box::new(Transcript { identity, known: self.known.as_ref(), is_aside, last: None })
    }
}

struct Transcript<'i> {
    identity: &'i Identity,
    known: Option<&'i HashSet<String>>,
    /// All messages are a side chain's: it is a subagent's transcript, and becomes a session of its own.
    is_aside: bool,
    last: Option<String>,
}

impl Transcript<'_> {
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
        let Some(known) = self.known else { return };
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
}

impl Loader for Transcript<'_> {
    fn native(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        each_item(bytes, out, |text| self.record(text, false));
    }

    fn made(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        each_item(bytes, out, |text| self.record(text, true));
    }
}

fn is_message(record: &Object<'_>) -> bool {
    matches!(record.text("type").as_deref(), Some("user" | "assistant")) && record.get("message").is_some()
}

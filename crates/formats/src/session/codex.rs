//! Codex's rollout: a first line that says whose session it is, then everything that happened, in order.

use super::splice::{Splice, each_item, each_object, moved};
use super::{Extent, Identity, Loader, Scout, Scouted};
use crate::derived::milliseconds;
use crate::json::{Object, Writer};

/// What the lines are that may be written as they are.
pub(super) struct Lines {
    extent: Extent,
    /// Of the stretch that is being looked at.
    loads: bool,
    begins: bool,
}

impl Lines {
    pub(super) fn new(extent: Extent) -> Self {
        Self { extent, loads: true, begins: false }
    }
}

impl Scout for Lines {
    fn look(&mut self, bytes: &[u8]) {
        self.begins = self.begins || lines(bytes).any(is_meta);
        each_object(bytes, |line| self.loads &= line.get("payload").is_some());
    }

    /// Rollouts of old versions have no envelopes, and are not loaded any more.
    fn looked(&mut self) -> Scouted {
        let loads = std::mem::replace(&mut self.loads, true);
        let begins = std::mem::replace(&mut self.begins, false);
        Scouted { loads, begins }
    }

    fn loader<'s>(&'s self, identity: &'s Identity) -> Box<dyn Loader + 's> {
        let Extent { head, is_cut, .. } = &self.extent;
        Box::new(Rollout { identity, old: None, head, has_meta: false, is_cut: *is_cut, next: None })
    }
}

struct Rollout<'i> {
    identity: &'i Identity,
    /// The id that the session had.
    old: Option<String>,
    /// Lines that hold the old beginning, for a stretch that does not have it.
    head: &'i [u8],
    has_meta: bool,
    /// Lines were left out, so that those that are counted have to be counted anew.
    is_cut: bool,
    /// The number of the next line, in rollouts whose lines are numbered.
    next: Option<u64>,
}

impl Rollout<'_> {
    fn line(&mut self, text: &str, is_made: bool) -> Option<String> {
        let line = Object::parse(text);
        let Some((line, payload)) = line.and_then(|line| line.object("payload").map(|payload| (line, payload))) else {
            return Some(text.to_owned());
        };
        let mut splice = Splice::of(text);
        match line.text("type").as_deref() {
            Some("session_meta") if is_made && self.has_meta => return None,
            Some("session_meta") => self.meta(&payload, &mut splice),
            Some("turn_context") => self.cwd(&payload, &mut splice),
            _ => self.rename(&payload, &mut splice),
        }
        self.number(text, &line, &mut splice);
        Some(splice.finish())
    }

    /// Newer rollouts number their lines, and are loaded only if the last has its number.
    fn number<'a>(&mut self, text: &'a str, line: &Object<'a>, splice: &mut Splice<'a>) {
        match (line.number("ordinal"), self.next) {
            (Some(_), Some(next)) if self.is_cut => {
                line.get("ordinal").into_iter().for_each(|value| splice.put(value, &next.to_string()));
                self.next = Some(next + 1);
            }
            (Some(found), _) => self.next = Some(found + 1),
            (None, Some(next)) => {
                splice.put(&text[..1], &format!("{{\"ordinal\":{next},"));
                self.next = Some(next + 1);
            }
            (None, None) => {}
        }
    }

    /// What names the old session names the new one.
    fn rename<'a>(&self, payload: &Object<'a>, splice: &mut Splice<'a>) {
        for key in ["thread_id", "session_id"] {
            if self.old.is_some() && payload.text(key) == self.old {
                splice.put_text(payload, key, &self.identity.session);
            }
        }
    }

    /// The first says whose session it is; others are a parent's, or say it again.
    fn meta<'a>(&mut self, payload: &Object<'a>, splice: &mut Splice<'a>) {
        let id = payload.text("id");
        if !std::mem::replace(&mut self.has_meta, true) {
            self.old.clone_from(&id);
        }
        if id == self.old {
            splice.put_text(payload, "id", &self.identity.session);
            splice.put_text(payload, "session_id", &self.identity.session);
            self.cwd(payload, splice);
        }
    }

    fn cwd<'a>(&self, payload: &Object<'a>, splice: &mut Splice<'a>) {
        let Identity { moved_from, cwd, .. } = self.identity;
        if let Some(path) = payload.text("cwd").and_then(|path| moved(&path, moved_from.as_deref(), cwd)) {
            splice.put_text(payload, "cwd", &path);
        }
    }
}

impl Loader for Rollout<'_> {
    /// Begins as the old session did, or afresh.
    fn begin(&mut self, stretch: Scouted, out: &mut Vec<u8>) {
        if !self.has_meta && !stretch.begins {
            let meta = lines(self.head).find(|line| is_meta(line)).map(|line| line.to_owned() + "\n");
            let meta = meta.unwrap_or_else(|| fresh_meta(self.identity));
            self.native(meta.as_bytes(), out);
        }
    }

    fn native(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        each_item(bytes, out, |text| self.line(text, false));
    }

    fn made(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        each_item(bytes, out, |text| self.line(text, true));
    }
}

fn lines(bytes: &[u8]) -> impl Iterator<Item = &str> {
    bytes.split(|byte| *byte == b'\n').filter_map(|line| std::str::from_utf8(line).ok())
}

fn is_meta(line: &str) -> bool {
    line.contains("session_meta")
        && Object::parse(line).is_some_and(|line| {
            line.text("type").as_deref() == Some("session_meta") && line.object("payload").is_some()
        })
}

fn fresh_meta(identity: &Identity) -> String {
    let at = milliseconds(identity.at);
    let payload = Writer::new()
        .member("id", &identity.session)
        .member("timestamp", &at)
        .member("cwd", &identity.cwd)
        .member("originator", "enjamb")
        .member("cli_version", "0.0.0")
        .member("source", "cli")
        .json();
    let line = Writer::new().member("timestamp", &at).member("type", "session_meta").member("payload", &payload);
    line.json().get().to_owned() + "\n"
}

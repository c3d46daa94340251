//! A conversation as a rollout that Codex would resume.

use enjamb_core::conversation::{Block, Entry, Raw, Role, Verbatim, attribute};
use enjamb_core::{Json, Timestamp};

use super::ID;
use crate::anthropic::array;
use crate::derived::{derived_uuid, is_uuid, milliseconds};
use crate::json::{self, Writer};
use crate::responses::ItemWriter;

pub(super) fn write(entries: &[Entry]) -> Vec<u8> {
    // Codex lists and shows a session by the events it writes beside the items. A conversation that has such records
    // has its own; any other gets them.
    let echoes = !entries.iter().flat_map(|entry| &entry.blocks).any(is_record);
    let mut rollout = Rollout { echoes, ..Rollout::default() };
    if rollout.echoes && !entries.is_empty() {
        rollout.session_meta(entries);
    }
    for entry in entries {
        rollout.entry(entry);
    }
    json::write_lines(&rollout.lines)
}

#[derive(Default)]
struct Rollout {
    lines: Vec<Json>,
    items: ItemWriter,
    time_micros: i64,
    echoes: bool,
    /// A compaction was written that says itself what it keeps.
    has_copies: bool,
}

impl Rollout {
    fn session_meta(&mut self, entries: &[Entry]) {
        let named = |name: &str| entries.iter().find_map(|entry| entry.attribute(name));
        let id = named(attribute::SESSION_ID).filter(|id| is_uuid(id));
        let id = id.map_or_else(|| derived_uuid(&["session"]), str::to_owned);
        let at = entries.iter().find_map(|entry| entry.at).unwrap_or(Timestamp::from_millis(0));
        self.time_micros = at.as_micros();
        let payload = Writer::new()
            .member("id", &id)
            .member("timestamp", &milliseconds(at))
            .member("cwd", named(attribute::CWD).unwrap_or("/"))
            .member("originator", "enjamb")
            .member("cli_version", "0.0.0")
            .member("source", "cli");
        self.line("session_meta", &payload.json());
    }

    fn entry(&mut self, entry: &Entry) {
        if self.has_copies && entry.attribute(attribute::COPIED).is_some() {
            return;
        }
        self.time_micros = entry.at.map_or(self.time_micros.saturating_add(1000), Timestamp::as_micros);
        let (records, content): (Vec<&Block>, Vec<&Block>) = entry.blocks.iter().partition(|block| is_record(block));
        let records: Vec<&Verbatim> = records.into_iter().filter_map(Block::as_verbatim).collect();
        let is_marked = records.iter().any(|record| record.kind == "compacted");
        self.lines.extend(records.iter().filter_map(|record| raw(record)));
        let (summaries, said): (Vec<&Block>, Vec<&Block>) =
            content.into_iter().partition(|block| matches!(block, Block::Compaction { .. }));
        self.has_copies |= is_marked && !summaries.is_empty();
        let unwritten = summaries.into_iter().skip(usize::from(is_marked));
        unwritten.for_each(|summary| self.compacted(summary));
        self.said(&Entry { blocks: said.into_iter().cloned().collect(), ..entry.clone() });
    }

    fn said(&mut self, entry: &Entry) {
        for item in self.items.items(entry) {
            self.line("response_item", &item);
        }
        let text = entry.text();
        if !self.echoes || text.is_empty() || entry.synthetic {
            return;
        }
        match entry.role {
            Role::User => self.event("user_message", &text),
            Role::Assistant => self.event("agent_message", &text),
            Role::System | Role::Developer | Role::Tool => {}
        }
    }

    fn event(&mut self, kind: &str, text: &str) {
        let payload = Writer::of(kind).member("message", text);
        let payload = if kind == "user_message" { payload.member("images", &[""; 0]) } else { payload };
        self.line("event_msg", &payload.json());
    }

    fn compacted(&mut self, block: &Block) {
        let Block::Compaction { summary } = block else { return };
        let message = Entry::new(Role::User, vec![Block::Text(summary.clone())]);
        let items = if summary.is_empty() { Vec::new() } else { self.items.items(&message) };
        let history = array(items.into_iter());
        let payload = Writer::new().member("message", summary).member("replacement_history", &history).json();
        self.line("compacted", &payload);
    }

    fn line(&mut self, kind: &str, payload: &Json) {
        let at = milliseconds(Timestamp::from_micros(self.time_micros));
        let line = Writer::new().member("timestamp", &at).member("type", kind).member("payload", payload);
        self.lines.push(line.json());
    }
}

/// A whole line of this format, as against an item.
fn is_record(block: &Block) -> bool {
    block.as_verbatim().is_some_and(|verbatim| verbatim.format == ID)
}

fn raw(verbatim: &Verbatim) -> Option<Json> {
    match &verbatim.content {
        Raw::Json(json) => Some(json.clone()),
        Raw::Bytes(_) => None,
    }
}

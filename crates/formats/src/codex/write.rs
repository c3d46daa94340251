//! A conversation as a rollout that Codex would resume.

use enjamb_core::conversation::{Block, Conversation, Entry, Role, Verbatim, attribute};
use enjamb_core::{Json, Timestamp};

use super::ID;
use super::mark::{MEMBER, Mark};
use crate::adapt::{Adapter, Palette};
use crate::anthropic::array;
use crate::derived::{derived_uuid, is_uuid, milliseconds};
use crate::encoder::Encoder;
use crate::fidelity::Fate;
use crate::format::Reading;
use crate::json::{self, Writer};
use crate::responses::ItemWriter;
use crate::verbatim::carried;

/// Writes entries one after another.
pub(super) struct RolloutEncoder {
    adapter: Adapter,
    rollout: Rollout,
}

impl RolloutEncoder {
    pub(super) fn new(palette: &Palette, outline: &Conversation, before: Option<&Reading>) -> Self {
        let entries = palette.adapted(outline).0;
        // Codex lists and shows a session by the events it writes beside the items. A conversation that has such records
        // has its own; any other gets them.
        let echoes = !entries.iter().flat_map(|entry| &entry.blocks).any(is_record);
        let mut rollout = Rollout { echoes, ..Rollout::default() };
        match before {
            Some(before) => rollout.follow(before),
            None if echoes && !entries.is_empty() => rollout.session_meta(&entries),
            None => {}
        }
        Self { adapter: palette.adapter(outline), rollout }
    }
}

impl Encoder for RolloutEncoder {
    fn entry(&mut self, entry: Entry, out: &mut Vec<u8>) {
        if let Some(entry) = self.adapter.entry(&entry) {
            self.rollout.entry(&entry);
        }
        self.rollout.flush(out);
    }

    fn finish(mut self: Box<Self>, out: &mut Vec<u8>) -> Vec<Fate> {
        self.rollout.flush(out);
        self.adapter.ledger
    }
}

#[derive(Default)]
struct Rollout {
    lines: Vec<Json>,
    items: ItemWriter,
    time_micros: i64,
    echoes: bool,
    /// Where the session began, if it was begun here: entries that say the same need not.
    cwd: Option<String>,
    /// A compaction was written that says itself what it keeps.
    has_copies: bool,
}

impl Rollout {
    /// Goes on in the session that was read.
    fn follow(&mut self, before: &Reading) {
        self.time_micros = before.conversation.time_span().map_or(0, |(_, last)| last.as_micros());
        let cwd = before.conversation.entries.iter().rev().find_map(|entry| entry.attribute(attribute::CWD));
        self.cwd = cwd.map(str::to_owned);
        for call in before.conversation.tool_calls().filter(|call| !call.input.is_object()) {
            self.items.note_custom(&call.id);
        }
    }

    fn flush(&mut self, out: &mut Vec<u8>) {
        out.extend(json::write_lines(&self.lines));
        self.lines.clear();
    }

    fn session_meta(&mut self, entries: &[Entry]) {
        let named = |name: &str| entries.iter().find_map(|entry| entry.attribute(name));
        let id = named(attribute::SESSION_ID).filter(|id| is_uuid(id));
        let id = id.map_or_else(|| derived_uuid(&["session"]), str::to_owned);
        let at = entries.iter().find_map(|entry| entry.at).unwrap_or(Timestamp::from_millis(0));
        self.time_micros = at.as_micros();
        self.cwd = Some(named(attribute::CWD).unwrap_or("/").to_owned());
        let payload = Writer::new()
            .member("id", &id)
            .member("timestamp", &milliseconds(at))
            .member("cwd", named(attribute::CWD).unwrap_or("/"))
            .member("originator", "enjamb")
            .member("cli_version", "0.0.0")
            .member("source", "cli")
            .optional("git", git(named(attribute::GIT_BRANCH), named(attribute::REPOSITORY)));
        self.line("session_meta", &payload.json(), None);
    }

    fn entry(&mut self, entry: &Entry) {
        if self.has_copies && entry.attribute(attribute::COPIED).is_some() {
            return;
        }
        self.time_micros = entry.at.map_or(self.time_micros.saturating_add(1000), Timestamp::as_micros);
        let (records, content): (Vec<&Block>, Vec<&Block>) = entry.blocks.iter().partition(|block| is_record(block));
        let records: Vec<&Verbatim> = records.into_iter().filter_map(Block::as_verbatim).collect();
        let is_marked = records.iter().any(|record| record.kind == "compacted");
        self.lines.extend(records.iter().filter_map(|record| carried(record)));
        let (summaries, said): (Vec<&Block>, Vec<&Block>) =
            content.into_iter().partition(|block| matches!(block, Block::Compaction { .. }));
        self.has_copies |= is_marked && !summaries.is_empty();
        let unwritten = summaries.into_iter().skip(usize::from(is_marked));
        unwritten.for_each(|summary| self.compacted(summary));
        self.said(&Entry { blocks: said.into_iter().cloned().collect(), ..entry.clone() });
    }

    fn said(&mut self, entry: &Entry) {
        let mut mark = Mark::of_entry(entry, self.cwd.as_deref());
        for item in self.items.items(entry) {
            self.line("response_item", &item, mark.json());
            mark = mark.of_the_rest();
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
        self.line("event_msg", &payload.json(), None);
    }

    fn compacted(&mut self, block: &Block) {
        let Block::Compaction { summary } = block else { return };
        let message = Entry::new(Role::User, vec![Block::Text(summary.clone())]);
        let items = if summary.is_empty() { Vec::new() } else { self.items.items(&message) };
        let history = array(items.into_iter());
        let payload = Writer::new().member("message", summary).member("replacement_history", &history).json();
        self.line("compacted", &payload, None);
    }

    fn line(&mut self, kind: &str, payload: &Json, mark: Option<Json>) {
        let at = milliseconds(Timestamp::from_micros(self.time_micros));
        let line = Writer::new().member("timestamp", &at).member("type", kind).member("payload", payload);
        self.lines.push(line.optional(MEMBER, mark).json());
    }
}

fn git(branch: Option<&str>, repository: Option<&str>) -> Option<Json> {
    let git = Writer::new().optional("branch", branch).optional("repository_url", repository);
    (branch.is_some() || repository.is_some()).then(|| git.json())
}

/// A whole line of this format, as against an item.
fn is_record(block: &Block) -> bool {
    block.as_verbatim().is_some_and(|verbatim| verbatim.format == ID)
}

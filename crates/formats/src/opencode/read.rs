//! A session put together from its things.

use std::collections::HashMap;

use enjamb_core::Timestamp;
use enjamb_core::conversation::{Block, Entry, Raw, Role, Standing, Usage, attribute};

use super::ID;
use super::parts::{Said, read_part};
use crate::anthropic::{acting, verbatim};
use crate::format::Reading;
use crate::framing::Item;
use crate::json::Object;
use crate::position::Position;
use crate::verbatim::PART;

#[derive(Default)]
struct Reader {
    reading: Reading,
    things: Vec<(Position, Thing)>,
    /// Where each message is among the things, and each part in its message.
    messages: HashMap<String, usize>,
    parts: HashMap<String, (usize, usize)>,
    session: Session,
    /// From this message on, the user went back.
    reverted: Option<String>,
}

#[derive(Default)]
struct Session {
    id: Option<String>,
    directory: Option<String>,
    parent: Option<String>,
    version: Option<String>,
}

enum Thing {
    Record(Box<Entry>),
    Message(Box<Message>),
}

/// A message of which not all is known before the last line.
struct Message {
    id: String,
    /// None where only parts of it are here.
    info: Option<String>,
    parts: Vec<String>,
}

/// Whether an object is something that opencode keeps a file of.
pub(super) fn is_thing(object: &Object<'_>) -> bool {
    let has = |name| object.get(name).is_some();
    has("role") || (has("messageID") && has("type")) || is_session(object)
}

fn is_session(object: &Object<'_>) -> bool {
    let id = object.text("id").unwrap_or_default();
    id.starts_with("ses_") && object.get("role").is_none() && object.get("messageID").is_none()
}

pub(super) fn understand(items: &[Item<'_>]) -> Reading {
    let mut reader = Reader::default();
    for item in items {
        reader.line(item.at, item.json());
    }
    reader.finish()
}

impl Reader {
    fn line(&mut self, at: Position, text: &str) {
        let Some(object) = Object::within(text) else { return self.unknown(at, text, "line") };
        if let Some(table) = object.text("table") {
            return self.row(at, text, &table, &object);
        }
        match (object.object("info"), object.array("messages"), object.array("parts")) {
            (Some(info), Some(messages), _) => {
                if let Some(header) = super::header(&info) {
                    self.line(at, &header);
                }
                messages.iter().for_each(|message| self.line(at, message));
            }
            (Some(info), None, parts) if info.get("role").is_some() => {
                let id = info.text_or_empty("id");
                self.message(at, &id, object.get("info").unwrap_or("{}").to_owned(), Some(parts.unwrap_or_default()));
            }
            (Some(info), None, None) if is_session(&info) => self.session(at, text, &info),
            _ if object.get("role").is_some() => self.message(at, &object.text_or_empty("id"), text.to_owned(), None),
            _ if object.get("messageID").is_some() => {
                self.part(at, &object.text_or_empty("messageID"), &object.text_or_empty("id"), text.to_owned());
            }
            _ if is_session(&object) => self.session(at, text, &object),
            _ => self.unknown(at, text, &object.text("type").unwrap_or_else(|| "untyped".to_owned())),
        }
    }

    /// A row of a table. What the columns say is not said again in the data.
    fn row(&mut self, at: Position, text: &str, table: &str, row: &Object<'_>) {
        let (id, data) = (row.text_or_empty("id"), row.get("data").unwrap_or("{}").to_owned());
        match table {
            "session" => self.session_row(at, text, row),
            "message" => self.message(at, &id, data, None),
            "part" => self.part(at, &row.text_or_empty("message_id"), &id, data),
            other => self.record(at, text, other),
        }
    }

    fn session_row(&mut self, at: Position, text: &str, row: &Object<'_>) {
        self.session = Session {
            id: row.text("id"),
            directory: row.text("directory"),
            parent: row.text("parent_id"),
            version: row.text("version"),
        };
        let revert = row.text("revert").and_then(|revert| Object::parse(&revert)?.text("messageID"));
        self.reverted = revert.or_else(|| row.object("revert")?.text("messageID"));
        self.record(at, text, "session");
    }

    fn session(&mut self, at: Position, text: &str, info: &Object<'_>) {
        self.session = Session {
            id: info.text("id"),
            directory: info.text("directory"),
            parent: info.text("parentID"),
            version: info.text("version"),
        };
        self.reverted = info.object("revert").and_then(|revert| revert.text("messageID"));
        self.record(at, text, "session");
    }

    fn message(&mut self, at: Position, id: &str, info: String, parts: Option<Vec<&str>>) {
        let place = self.place_of(at, id);
        let Some((_, Thing::Message(message))) = self.things.get_mut(place) else { return };
        message.info = Some(info);
        if let Some(parts) = parts {
            message.parts = parts.into_iter().map(str::to_owned).collect();
        }
    }

    fn part(&mut self, at: Position, message_id: &str, id: &str, text: String) {
        let place = self.place_of(at, message_id);
        let known = self.parts.get(id).copied().filter(|(message, _)| *message == place && !id.is_empty());
        let Some((_, Thing::Message(message))) = self.things.get_mut(place) else { return };
        match known.and_then(|(_, index)| message.parts.get_mut(index)) {
            Some(part) => *part = text,
            None => {
                self.parts.insert(id.to_owned(), (place, message.parts.len()));
                message.parts.push(text);
            }
        }
    }

    fn place_of(&mut self, at: Position, id: &str) -> usize {
        if let Some(place) = self.messages.get(id).filter(|_| !id.is_empty()) {
            return *place;
        }
        let place = self.things.len();
        self.messages.insert(id.to_owned(), place);
        let message = Message { id: id.to_owned(), info: None, parts: Vec::new() };
        self.things.push((at, Thing::Message(Box::new(message))));
        place
    }

    fn record(&mut self, at: Position, text: &str, kind: &str) {
        let entry = self.described(Entry::record(verbatim(ID, kind, text, false)));
        self.things.push((at, Thing::Record(Box::new(entry))));
    }

    fn unknown(&mut self, at: Position, text: &str, kind: &str) {
        self.reading.count_unknown(kind);
        self.record(at, text, kind);
    }

    fn described(&self, mut entry: Entry) -> Entry {
        entry.set_attribute(attribute::SESSION_ID, self.session.id.clone());
        entry.set_attribute(attribute::CWD, self.session.directory.clone());
        entry.set_attribute(attribute::PARENT_SESSION, self.session.parent.clone());
        entry.set_attribute(attribute::VERSION, self.session.version.clone());
        entry
    }

    fn finish(mut self) -> Reading {
        let mut is_reverted = false;
        for (at, thing) in std::mem::take(&mut self.things) {
            let message = match thing {
                Thing::Record(entry) => {
                    self.reading.push(at, *entry);
                    continue;
                }
                Thing::Message(message) => message,
            };
            is_reverted |= self.reverted.as_ref() == Some(&message.id);
            for mut entry in self.entries(&message) {
                if entry.blocks.iter().any(|block| matches!(block, Block::Compaction { .. })) && !is_reverted {
                    self.compacted();
                }
                if is_reverted {
                    entry.standing = Standing::Abandoned;
                }
                self.reading.push(at, entry);
            }
        }
        self.reading
    }

    /// What came before, but for the tail that the marker before the summary names, is replaced by it.
    fn compacted(&mut self) {
        let tail = self.reading.conversation.entries.iter().rev().find_map(tail_start);
        let mut is_kept = false;
        for entry in &mut self.reading.conversation.entries {
            is_kept |= tail.is_some() && entry.id == tail;
            if entry.standing != Standing::Context || !entry.is_message() {
                continue;
            }
            if is_kept {
                entry.set_attribute(attribute::KEPT, Some("true"));
            } else {
                entry.standing = Standing::Compacted;
            }
        }
    }

    /// What was said, and then what the tools answered. A summary stands by itself.
    fn entries(&mut self, message: &Message) -> Vec<Entry> {
        let info = message.info.as_deref().and_then(Object::parse);
        let (mut blocks, mut results) = (Vec::new(), Vec::new());
        let (mut texts, mut made_up) = (0, 0);
        for raw in &message.parts {
            let Said { block, answer } = read_part(raw, &mut self.reading);
            if matches!(block, Some(Block::Text(_))) {
                texts += 1;
                made_up += u32::from(Object::within(raw).is_some_and(|part| part.flag("synthetic")));
            }
            blocks.extend(block);
            results.extend(answer.map(Block::ToolResult));
        }
        let role = match info.as_ref().and_then(|info| info.text("role")).as_deref() {
            Some("user") => acting(Role::User, &blocks),
            _ => Role::Assistant,
        };
        let mut entries = Vec::new();
        if info.as_ref().is_some_and(|info| info.flag("summary")) {
            let is_text = |block: &Block| block.as_text().is_some();
            let (said, rest): (Vec<Block>, Vec<Block>) = blocks.into_iter().partition(is_text);
            let summary = Entry::new(role, said).text();
            let mut entry = Entry::new(Role::User, vec![Block::Compaction { summary }]);
            entry.synthetic = true;
            entries.push(entry);
            blocks = rest;
        }
        let mut said = Entry::new(role, blocks);
        said.synthetic = texts > 0 && texts == made_up;
        entries.push(said);
        entries.extend((!results.is_empty()).then(|| Entry::new(Role::Tool, results)));
        entries.retain(|entry| !entry.blocks.is_empty());
        self.describe(entries, message, info.as_ref())
    }

    fn describe(&self, entries: Vec<Entry>, message: &Message, info: Option<&Object<'_>>) -> Vec<Entry> {
        let mut entries: Vec<Entry> = entries.into_iter().map(|entry| self.described(entry)).collect();
        let at = info.and_then(|info| info.object("time")?.get("created")?.parse::<i64>().ok());
        for entry in &mut entries {
            entry.at = at.map(Timestamp::from_millis);
            let told = info.and_then(|info| info.text("sessionID"));
            entry.set_attribute(attribute::SESSION_ID, told);
            entry.set_attribute(attribute::CWD, info.and_then(|info| info.object("path")?.text("cwd")));
        }
        if let (Some(first), Some(info)) = (entries.first_mut(), info) {
            first.id = Some(message.id.clone()).filter(|id| !id.is_empty());
            first.model = info.text("modelID");
            first.usage = info.object("tokens").map(|tokens| read_usage(&tokens));
            first.set_attribute(attribute::COST, info.get("cost").filter(|cost| *cost != "0"));
        }
        entries
    }
}

/// From which message on a compaction left the messages as they were.
fn tail_start(entry: &Entry) -> Option<String> {
    let marker =
        entry.blocks.iter().filter_map(Block::as_verbatim).find(|part| part.kind == format!("{PART}compaction"))?;
    match &marker.content {
        Raw::Json(raw) => Object::parse(raw.get())?.text("tail_start_id"),
        Raw::Bytes(_) => None,
    }
}

fn read_usage(tokens: &Object<'_>) -> Usage {
    let count = |object: &Object<'_>, key| object.number(key).unwrap_or_default();
    let cache = tokens.object("cache").unwrap_or_else(|| Object::parse("{}").expect("an object"));
    Usage {
        input_tokens: count(tokens, "input"),
        output_tokens: count(tokens, "output").saturating_add(count(tokens, "reasoning")),
        cache_read_tokens: count(&cache, "read"),
        cache_write_tokens: count(&cache, "write"),
        provisional: false,
    }
}

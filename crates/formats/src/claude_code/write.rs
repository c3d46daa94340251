//! A conversation as a transcript that Claude Code would resume.
//!
//! Ids and times that the conversation lacks are derived from what it has: the same conversation always gives the same
//! bytes. The session's id and directory are those that entries bear; who wants others sets them there first.

use std::collections::HashSet;

use enjamb_core::conversation::{Block, Conversation, Entry, Raw, Role, Usage, Verbatim, attribute};
use enjamb_core::{Json, Timestamp};

use super::{ID, RUNTIME};
use crate::adapt::{Adapter, Palette};
use crate::anthropic::{array, raw_json, write_block, write_content};
use crate::check::UNKNOWN_MODEL;
use crate::derived::{derived_uuid, is_uuid, milliseconds};
use crate::encoder::Encoder;
use crate::fidelity::Fate;
use crate::format::Reading;
use crate::json::{self, Object, Writer};

/// Writes entries one after another.
pub(super) struct TranscriptEncoder {
    adapter: Adapter,
    transcript: Transcript,
    /// A reply that may go on in the next entry.
    reply: Option<Entry>,
}

impl TranscriptEncoder {
    pub(super) fn new(palette: &Palette, outline: &Conversation, before: Option<&Reading>) -> Self {
        let adapter = palette.adapter(outline);
        let own = outline.entries.iter().find_map(|entry| entry.attribute(attribute::SESSION_ID));
        let transcript = match before {
            Some(before) => Transcript::after(before),
            None => Transcript::new(own),
        };
        Self { adapter, transcript, reply: None }
    }
}

impl Encoder for TranscriptEncoder {
    fn entry(&mut self, entry: Entry, out: &mut Vec<u8>) {
        let Some(entry) = self.adapter.entry(&entry) else { return };
        match &mut self.reply {
            Some(reply) if is_ungrouped(reply) && is_ungrouped(&entry) => reply.blocks.extend(entry.blocks),
            held => {
                if let Some(entry) = held.replace(entry) {
                    self.transcript.entry(&entry);
                }
            }
        }
        self.transcript.flush(out);
    }

    fn finish(mut self: Box<Self>, out: &mut Vec<u8>) -> Vec<Fate> {
        if let Some(entry) = self.reply.take() {
            self.transcript.entry(&entry);
        }
        self.transcript.flush(out);
        self.adapter.ledger
    }
}

/// Replies of a provider that does not group its blocks by id come as several entries; one reply is one message.
fn is_ungrouped(entry: &Entry) -> bool {
    entry.role == Role::Assistant && entry.attribute(attribute::MESSAGE_ID).is_none()
}

struct Transcript {
    lines: Vec<Json>,
    /// Lines that were written and let go.
    flushed: usize,
    session_id: String,
    /// The record that the next one follows.
    last: Option<String>,
    time: Timestamp,
    used: HashSet<String>,
}

impl Transcript {
    fn new(session_id: Option<&str>) -> Self {
        let session_id = session_id.map_or_else(|| derived_uuid(&["session"]), str::to_owned);
        let time = Timestamp::from_millis(0);
        Self { lines: Vec::new(), flushed: 0, session_id, last: None, time, used: HashSet::new() }
    }

    /// Goes on in the session that was read: after its last record, and not before its last instant.
    fn after(before: &Reading) -> Self {
        let entries = &before.conversation.entries;
        let session_id = entries.iter().rev().find_map(|entry| entry.attribute(attribute::SESSION_ID));
        let time = before.conversation.time_span().map_or(Timestamp::from_millis(0), |(_, last)| last);
        let used = entries.iter().filter_map(|entry| entry.id.clone()).collect();
        Self { last: before.leaf.clone(), time, used, ..Self::new(session_id) }
    }

    fn flush(&mut self, out: &mut Vec<u8>) {
        self.flushed += self.lines.len();
        out.extend(json::write_lines(&self.lines));
        self.lines.clear();
    }

    fn entry(&mut self, entry: &Entry) {
        // An instant of its own, or just after the one before: the order of times is the order of records.
        self.time = entry.at.unwrap_or_else(|| Timestamp::from_micros(self.time.as_micros().saturating_add(1000)));
        let (records, content): (Vec<&Block>, Vec<&Block>) = entry.blocks.iter().partition(|block| is_record(block));
        let records: Vec<&Verbatim> = records.into_iter().filter_map(Block::as_verbatim).collect();
        records.iter().for_each(|record| self.record(record));
        let mut is_marked = records.iter().any(|record| record.kind == BOUNDARY);
        let (summaries, said): (Vec<&Block>, Vec<&Block>) = content.into_iter().partition(|block| is_summary(block));
        for summary in summaries {
            self.summary(entry, summary, std::mem::take(&mut is_marked));
        }
        match entry.role {
            Role::Assistant => self.reply(entry, &said),
            Role::User | Role::System | Role::Developer | Role::Tool => self.user(entry, &said),
        }
    }

    /// A record that came from such a transcript, put where it now stands in the tree.
    fn record(&mut self, verbatim: &Verbatim) {
        let Raw::Json(raw) = &verbatim.content else { return };
        let linked = Object::parse(raw.get()).and_then(|object| self.relinked(&object));
        self.lines.push(linked.unwrap_or_else(|| raw.clone()));
    }

    fn relinked(&mut self, object: &Object<'_>) -> Option<Json> {
        let uuid = object.text("uuid").filter(|uuid| self.used.insert(uuid.clone()))?;
        let is_boundary = object.text("subtype").as_deref() == Some("compact_boundary");
        let parent = serde_json::Value::from(self.last.clone().filter(|_| !is_boundary));
        let members = object.members().map(|(key, value)| match key {
            "parentUuid" => (key, Json::from(parent.clone())),
            _ => (key, json::json(value)),
        });
        let record = Writer::new().members(members).json();
        self.last = Some(uuid);
        Some(record)
    }

    fn user(&mut self, entry: &Entry, content: &[&Block]) {
        if content.is_empty() {
            return;
        }
        let message = Writer::new().member("role", "user").member("content", &write_content(content)).json();
        let uuid = self.uuid(entry.id.as_deref(), "user");
        let is_meta = (entry.synthetic && entry.role != Role::Tool).then_some(true);
        let record = self.envelope(entry).member("type", "user").member("message", &message);
        self.end(record.optional("isMeta", is_meta), uuid);
    }

    fn summary(&mut self, entry: &Entry, block: &Block, is_marked: bool) {
        if !is_marked {
            self.boundary(entry);
        }
        let Block::Compaction { summary } = block else { unreachable!("only summaries are given") };
        let message = Writer::new().member("role", "user").member("content", summary).json();
        let uuid = self.uuid(entry.id.as_deref(), "summary");
        let record = self.envelope(entry).member("type", "user").member("message", &message);
        self.end(record.member("isVisibleInTranscriptOnly", &true).member("isCompactSummary", &true), uuid);
    }

    /// The mark of a compaction, after which nothing written before is read.
    fn boundary(&mut self, entry: &Entry) {
        let uuid = self.uuid(None, "boundary");
        let logical = serde_json::Value::from(self.last.take());
        let metadata = Writer::new().member("trigger", "manual").member("preTokens", &0).json();
        let record = self
            .envelope(entry)
            .member("logicalParentUuid", &logical)
            .member("type", "system")
            .member("subtype", "compact_boundary")
            .member("content", "Conversation compacted")
            .member("isMeta", &false)
            .member("level", "info")
            .member("compactMetadata", &metadata);
        self.end(record, uuid);
    }

    /// One record for each block, as the runtime writes them.
    fn reply(&mut self, entry: &Entry, content: &[&Block]) {
        if content.is_empty() {
            return;
        }
        let first = self.uuid(entry.id.as_deref(), "assistant");
        let message_id =
            entry.attribute(attribute::MESSAGE_ID).map_or_else(|| format!("msg_{}", hex(&first)), str::to_owned);
        let has_calls = entry.tool_calls().any(|call| !call.server);
        let stop_reason = if has_calls { "tool_use" } else { "end_turn" };
        let is_final = !entry.usage.unwrap_or_default().provisional;
        for (position, block) in content.iter().enumerate() {
            let is_last = position + 1 == content.len();
            let stop_reason = (is_last && is_final).then_some(stop_reason);
            let message = message(entry, &message_id, block, stop_reason);
            let uuid = if position == 0 { first.clone() } else { self.uuid(None, &format!("{first}{position}")) };
            let record = self.envelope(entry).member("type", "assistant").member("message", &message);
            self.end(record, uuid);
        }
    }

    fn envelope(&self, entry: &Entry) -> Writer {
        Writer::new()
            .member("parentUuid", &self.last)
            .member("isSidechain", &false)
            .member("userType", "external")
            .member("cwd", entry.attribute(attribute::CWD).unwrap_or("/"))
            .member("sessionId", &self.session_id)
            .member("version", version(entry).unwrap_or("2.1.0"))
            .optional("gitBranch", entry.attribute(attribute::GIT_BRANCH))
    }

    fn end(&mut self, record: Writer, uuid: String) {
        self.lines.push(record.member("uuid", &uuid).member("timestamp", &milliseconds(self.time)).json());
        self.last = Some(uuid);
    }

    /// The id that an entry has, if a record can bear it, else one made from where the record stands.
    fn uuid(&mut self, given: Option<&str>, what: &str) -> String {
        let given = given.filter(|id| is_uuid(id) && !self.used.contains(*id)).map(str::to_owned);
        let place = (self.flushed + self.lines.len()).to_string();
        let uuid = given.unwrap_or_else(|| {
            derived_uuid(&[&self.session_id, self.last.as_deref().unwrap_or_default(), &place, what])
        });
        self.used.insert(uuid.clone());
        uuid
    }
}

/// The version of Claude Code that wrote the entry. That of another runtime would be taken for one.
fn version(entry: &Entry) -> Option<&str> {
    let is_own = entry.attribute(attribute::RUNTIME).is_none_or(|runtime| runtime == RUNTIME);
    entry.attribute(attribute::VERSION).filter(|_| is_own)
}

/// How the reader names the record that marks a compaction.
const BOUNDARY: &str = "system/compact_boundary";

fn is_summary(block: &Block) -> bool {
    matches!(block, Block::Compaction { .. })
}

/// A whole record of this format, as against a block of a message.
fn is_record(block: &Block) -> bool {
    block.as_verbatim().is_some_and(|verbatim| verbatim.format == ID)
}

fn message(entry: &Entry, id: &str, block: &Block, stop_reason: Option<&str>) -> Json {
    let content = match block.as_verbatim() {
        Some(verbatim) => raw_json(verbatim),
        None => write_block(block),
    };
    Writer::new()
        .member("id", id)
        .member("type", "message")
        .member("role", "assistant")
        .member("model", entry.model.as_deref().unwrap_or(UNKNOWN_MODEL))
        .member("content", &array([content].into_iter()))
        .member("stop_reason", &stop_reason)
        .member("stop_sequence", &None::<&str>)
        .member("usage", &usage_json(entry.usage.unwrap_or_default()))
        .json()
}

fn usage_json(usage: Usage) -> Json {
    Writer::new()
        .member("input_tokens", &usage.input_tokens)
        .member("cache_creation_input_tokens", &usage.cache_write_tokens)
        .member("cache_read_input_tokens", &usage.cache_read_tokens)
        .member("output_tokens", &usage.output_tokens)
        .json()
}

fn hex(uuid: &str) -> String {
    uuid.replace('-', "")
}

//! Records of a transcript, read one by one and put together into entries.

use std::collections::{HashMap, HashSet};

use enjamb_core::conversation::{Block, Entry, Role, Usage, Verbatim, attribute};

use super::standing::{self, Live};
use super::{ID, RUNTIME, findings};
use crate::anthropic::{acting, read_content, read_usage, verbatim};
use crate::format::Reading;
use crate::framing::Item;
use crate::json::Object;
use crate::label::Label;
use crate::outline::{Detail, note_let_go, outlined};
use crate::position::Position;
use crate::reader::ItemReader;

/// Types of records that are known and say nothing in the conversation.
const BOOKKEEPING: &[&str] = &[
    "agent-name",
    "agent-setting",
    "ai-title",
    "atis-latch",
    "attachment",
    "bridge-session",
    "content-replacement",
    "custom-title",
    "file-history-delta",
    "file-history-snapshot",
    "frame-link",
    "last-prompt",
    "mode",
    "permission-mode",
    "pr-link",
    "progress",
    "queue-operation",
    "relocated",
    "result",
    "started",
    "stream_event",
    "summary",
    "system",
    "tag",
    "worktree-state",
];

/// Attachments that tell the model something of the work, rather than of the harness.
const TELLING: &[&str] = &[
    "compact_file_reference",
    "diagnostics",
    "edited_text_file",
    "file",
    "hook_additional_context",
    "nested_memory",
    "queued_command",
];

/// How texts begin that stand under the user's role but were not typed.
const HARNESS: &[&str] = &[
    "<bash-",
    "<command-",
    "<local-command-",
    "<system-reminder>",
    "<task-notification>",
    "<teammate-message",
    "Base directory for this skill:",
    "Caveat: The messages below were generated",
    "Continue from where you left off.",
    "This session is being continued from a previous conversation",
    "[Request interrupted by user",
];

/// Members that Claude Code looks for in an assistant's message. Where a reply is not complete, `stop_reason` is null.
const ENVELOPE: [&str; 6] = ["id", "type", "role", "model", "content", "usage"];

/// A record in the tree.
#[derive(Clone)]
pub(super) struct Node {
    pub(super) at: Position,
    pub(super) uuid: String,
    pub(super) parent: Option<String>,
    /// The entry that it is part of.
    pub(super) entry: usize,
    pub(super) kind: NodeKind,
    pub(super) is_sidechain: bool,
    /// What Claude Code needs to load the record, and it lacks.
    pub(super) lacks: Lacks,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Lacks {
    pub(super) timestamp: bool,
    /// Members of an assistant's message without which Claude Code hangs.
    pub(super) envelope: bool,
    /// What a user says, without which it fails.
    pub(super) content: bool,
    /// The word on what it follows, be it nothing.
    pub(super) link: bool,
}

#[derive(Clone)]
pub(super) enum NodeKind {
    Message,
    /// The head of the records that were carried over a compaction, and what they were put after.
    Boundary {
        carried: Option<(String, String)>,
    },
    Other,
}

struct Record<'a> {
    at: Position,
    text: &'a str,
    object: Object<'a>,
    message: Option<Object<'a>>,
    kind: String,
    uuid: Option<String>,
}

/// The entries of a reply: one, unless something was said while it went on.
#[derive(Clone, Copy)]
struct Reply {
    first: usize,
    last: usize,
}

#[derive(Clone, Default)]
pub(super) struct Reader {
    reading: Reading,
    nodes: Vec<Node>,
    /// The entries of each reply, by message id.
    replies: HashMap<String, Reply>,
    /// The last entry that the harness put into the user's mouth: a reply that goes on does so after it.
    interjected: usize,
    uuids: HashSet<String>,
    /// The entry of a boundary whose summary has not come yet.
    boundary: Option<usize>,
    /// Records whose id was used before: their place, and that among the nodes.
    repeated: Vec<(Position, usize)>,
}

pub(super) fn understand(items: &[Item<'_>], detail: Detail) -> Reading {
    let mut reader = Box::new(Reader::new(detail));
    items.iter().for_each(|item| reader.item(item));
    reader.finish()
}

impl ItemReader for Reader {
    fn item(&mut self, item: &Item<'_>) {
        self.reading.here = Some(item.at);
        self.reading.let_go = 0;
        self.line(item.at, item.json());
    }

    fn blocks(&mut self, entry: usize) -> Option<Vec<Block>> {
        self.reading.take_blocks(entry)
    }

    fn so_far(&self) -> Reading {
        Box::new(self.clone()).finish()
    }

    fn finish(self: Box<Self>) -> Reading {
        self.settle().0
    }
}

impl Reader {
    pub(super) fn new(detail: Detail) -> Self {
        Self { reading: Reading { detail, ..Reading::default() }, ..Self::default() }
    }

    /// What was read, once it is known what the model would see, and the records of the tree.
    pub(super) fn settle(self) -> (Reading, Vec<Node>, Live) {
        let Self { mut reading, nodes, repeated, .. } = self;
        let live = standing::live(&reading.conversation.entries, &nodes);
        let found = findings::of(&reading, &nodes, &live, &repeated);
        reading.findings.extend(found);
        standing::settle(&mut reading, &nodes, &live);
        reading.leaf = live.leaf.map(|leaf| nodes[leaf].uuid.clone());
        (reading, nodes, live)
    }

    fn line(&mut self, at: Position, text: &str) {
        let object = Object::within(text);
        if self.reading.detail == Detail::Measure {
            self.reading.labels.push(object.as_ref().map_or_else(Label::untyped, Label::of_object));
        }
        let Some(object) = object else {
            self.reading.count_unknown("record");
            self.reading.push(at, Entry::record(verbatim(ID, "record", text, false)));
            return;
        };
        let kind = object.text("type").unwrap_or_else(|| "untyped".to_owned());
        let message = object.object("message");
        let record = Record { at, text, uuid: object.text("uuid"), object, message, kind };
        let entry = self.record(&record);
        self.note(&record, entry);
    }

    /// Reads a record and gives the entry that it is now part of.
    fn record(&mut self, record: &Record<'_>) -> usize {
        if record.uuid.as_ref().is_some_and(|uuid| !self.uuids.insert(uuid.clone())) {
            self.repeated.push((record.at, self.nodes.len()));
            return self.bookkeeping(record);
        }
        match (record.kind.as_str(), &record.message) {
            ("user", Some(message)) => self.user(record, message),
            ("assistant", Some(message)) => self.assistant(record, message),
            ("user" | "assistant", None) => {
                self.reading.count_unknown(format!("{} without message", record.kind));
                self.bookkeeping(record)
            }
            _ if record.is_local_command() => self.local_command(record),
            (kind, _) => {
                if !BOOKKEEPING.contains(&kind) {
                    self.reading.count_unknown(kind);
                }
                self.bookkeeping(record)
            }
        }
    }

    fn user(&mut self, record: &Record<'_>, message: &Object<'_>) -> usize {
        let blocks = read_content(message.get("content"), Role::User, &mut self.reading);
        if record.object.flag("isCompactSummary") {
            return self.summary(record, blocks);
        }
        let mut entry = record.entry(acting(Role::User, &blocks), blocks);
        let is_marked = record.object.flag("isMeta") || record.object.flag("isSynthetic");
        entry.synthetic = entry.role != Role::Tool && (is_marked || is_harness(&entry));
        // A reply is over once somebody else speaks: there are endpoints that give their replies the same ids again.
        if entry.role == Role::User && !entry.synthetic && !record.is_sidechain() {
            self.replies.clear();
        }
        self.interject(record, entry)
    }

    fn interject(&mut self, record: &Record<'_>, entry: Entry) -> usize {
        let is_said = entry.role == Role::User && !record.is_sidechain();
        let index = self.push(record, entry);
        if is_said {
            self.interjected = index;
        }
        index
    }

    /// The summary goes with the boundary before it: together they are the compaction.
    fn summary(&mut self, record: &Record<'_>, blocks: Vec<Block>) -> usize {
        let summary = Block::Compaction { summary: Entry::new(Role::User, blocks).text() };
        let mut entry = record.entry(Role::User, vec![summary]);
        entry.synthetic = true;
        let Some(index) = self.boundary.take() else { return self.push(record, entry) };
        let boundary = &mut self.reading.conversation.entries[index];
        let marker = std::mem::take(&mut boundary.blocks);
        entry.blocks.splice(0..0, marker);
        *boundary = entry;
        self.reading.ends[index] = record.at.offset();
        index
    }

    fn assistant(&mut self, record: &Record<'_>, message: &Object<'_>) -> usize {
        let blocks = read_content(message.get("content"), Role::Assistant, &mut self.reading);
        let usage = read_reply_usage(message);
        let message_id = message.text("id");
        let known = message_id.as_ref().and_then(|id| self.replies.get(id)).copied();
        if let Some(Reply { first, last }) = known {
            let entries = &mut self.reading.conversation.entries;
            entries[first].usage = later_usage(entries[first].usage, usage);
            if last >= self.interjected {
                return self.go_on(record, last, blocks);
            }
        }
        let mut entry = record.entry(Role::Assistant, blocks);
        entry.model = message.text("model");
        // A reply is counted once, where it begins.
        entry.usage = usage.filter(|_| known.is_none());
        entry.set_attribute(attribute::MESSAGE_ID, message_id.clone());
        let last = self.push(record, entry);
        let reply = Reply { first: known.map_or(last, |known| known.first), last };
        self.replies.extend(message_id.map(|id| (id, reply)));
        last
    }

    /// Adds to a reply that came in several records.
    fn go_on(&mut self, record: &Record<'_>, index: usize, blocks: Vec<Block>) -> usize {
        let (detail, let_go) = (self.reading.detail, std::mem::take(&mut self.reading.let_go));
        let entry = &mut self.reading.conversation.entries[index];
        note_let_go(entry, let_go);
        let blocks = match detail {
            Detail::Whole | Detail::Measure => blocks,
            Detail::Outline | Detail::Skeleton => outlined(entry, blocks, detail),
        };
        entry.blocks.extend(blocks);
        self.reading.ends[index] = record.at.offset();
        index
    }

    /// A command of the harness's own, or what it printed: Claude Code tells the model of both among the words of the user.
    fn local_command(&mut self, record: &Record<'_>) -> usize {
        let text = record.object.text("content").unwrap_or_default();
        let mut entry = record.entry(Role::User, vec![Block::Text(text)]);
        entry.synthetic = true;
        self.interject(record, entry)
    }

    fn bookkeeping(&mut self, record: &Record<'_>) -> usize {
        let block = Block::Verbatim(record.verbatim(self.reading.detail));
        let index = self.push(record, record.entry(Role::System, vec![block]));
        if record.is_boundary() {
            self.boundary = Some(index);
        }
        index
    }

    fn push(&mut self, record: &Record<'_>, entry: Entry) -> usize {
        self.reading.push(record.at, entry);
        self.reading.conversation.entries.len() - 1
    }

    fn note(&mut self, record: &Record<'_>, entry: usize) {
        let Some(uuid) = record.uuid.clone() else { return };
        let parent = record.object.text("parentUuid");
        let kind = match record.kind.as_str() {
            "user" | "assistant" => NodeKind::Message,
            _ if record.is_boundary() => NodeKind::Boundary { carried: record.carried() },
            _ => NodeKind::Other,
        };
        let (is_sidechain, lacks) = (record.is_sidechain(), record.lacks());
        self.nodes.push(Node { at: record.at, uuid, parent, entry, kind, is_sidechain, lacks });
    }
}

impl Record<'_> {
    fn entry(&self, role: Role, blocks: Vec<Block>) -> Entry {
        let mut entry = Entry::new(role, blocks);
        let object = &self.object;
        entry.at = object.text("timestamp").and_then(|text| text.parse().ok());
        entry.id = self.uuid.clone();
        entry.parent_id = object.text("parentUuid");
        entry.set_attribute(attribute::CWD, object.text("cwd"));
        entry.set_attribute(attribute::GIT_BRANCH, object.text("gitBranch").filter(|branch| !branch.is_empty()));
        entry.set_attribute(attribute::SESSION_ID, object.text("sessionId").or_else(|| object.text("session_id")));
        let version = object.text("version");
        entry.set_attribute(attribute::RUNTIME, version.is_some().then_some(RUNTIME));
        entry.set_attribute(attribute::VERSION, version);
        entry
    }

    /// The record as it is, under its type and what its type calls its kind.
    fn verbatim(&self, detail: Detail) -> Verbatim {
        let attachment = self.object.object("attachment").and_then(|attachment| attachment.text("type"));
        let shown = attachment.as_ref().is_some_and(|kind| TELLING.contains(&kind.as_str()));
        let kind = match attachment.or_else(|| self.object.text("subtype")) {
            Some(subtype) => format!("{}/{subtype}", self.kind),
            None => self.kind.clone(),
        };
        let text = if detail == Detail::Measure { "{}" } else { self.text };
        verbatim(ID, &kind, text, shown)
    }

    fn lacks(&self) -> Lacks {
        let is_assistant = self.kind == "assistant";
        let is_user = self.kind == "user";
        let timestamp = (is_assistant || is_user) && self.object.get("timestamp").is_none();
        let lacks = |message: &Object<'_>| ENVELOPE.iter().any(|key| message.get(key).is_none());
        let envelope = is_assistant && self.message.as_ref().is_some_and(lacks);
        let content = is_user && self.message.as_ref().is_none_or(|message| message.get("content").is_none());
        let link = (is_assistant || is_user) && self.object.members().all(|(name, _)| name != "parentUuid");
        Lacks { timestamp, envelope, content, link }
    }

    fn is_boundary(&self) -> bool {
        self.kind == "system" && self.object.text("subtype").as_deref() == Some("compact_boundary")
    }

    fn is_local_command(&self) -> bool {
        let is_text = |value: &str| value.starts_with('"');
        self.kind == "system"
            && self.object.text("subtype").as_deref() == Some("local_command")
            && self.object.get("content").is_some_and(is_text)
    }

    fn is_sidechain(&self) -> bool {
        self.object.flag("isSidechain") || self.object.get("parent_tool_use_id").is_some()
    }

    /// The first record that a compaction carried over, and the record after which it now stands.
    fn carried(&self) -> Option<(String, String)> {
        let metadata = self.object.object("compactMetadata")?;
        if let Some(segment) = metadata.object("preservedSegment") {
            return Some((segment.text("headUuid")?, segment.text("anchorUuid")?));
        }
        let preserved = metadata.object("preservedMessages")?;
        let first = crate::json::text(preserved.array("uuids")?.first()?)?;
        Some((first, preserved.text("anchorUuid")?))
    }
}

fn is_harness(entry: &Entry) -> bool {
    let text = entry.blocks.iter().find_map(Block::as_text).unwrap_or_default().trim_start();
    HARNESS.iter().any(|beginning| text.starts_with(beginning))
}

/// Until a reply has its reason to stop, its output is not counted to the end.
fn read_reply_usage(message: &Object<'_>) -> Option<Usage> {
    let usage = read_usage(&message.object("usage")?);
    Some(Usage { provisional: message.text("stop_reason").is_none(), ..usage })
}

/// The last count of a reply stands, unless an earlier one was final and it is not.
fn later_usage(before: Option<Usage>, now: Option<Usage>) -> Option<Usage> {
    match (before, now) {
        (Some(before), Some(now)) if !before.provisional && now.provisional => Some(before),
        (_, Some(now)) => Some(now),
        (before, None) => before,
    }
}

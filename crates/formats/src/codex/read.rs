//! A rollout replayed line by line.

use enjamb_core::conversation::{Block, Entry, Role, Standing, Usage, attribute};

use super::mark::Mark;
use super::{ID, RUNTIME};
use crate::anthropic::verbatim;
use crate::check::shown;
use crate::format::Reading;
use crate::framing::Item;
use crate::json::Object;
use crate::outline::Detail;
use crate::position::Position;
use crate::problem::{Code, Problem};
use crate::reader::ItemReader;
use crate::responses::read_item;

/// Types of lines that are known and say nothing in the conversation.
const BOOKKEEPING: &[&str] = &[
    "event_msg",
    "inter_agent_communication",
    "inter_agent_communication_metadata",
    "security_risk_score",
    "session_meta",
    "state",
    "turn_context",
    "world_state",
];

/// How texts begin that stand under the user's role but were not typed.
const HARNESS: &[&str] = &[
    "# AGENTS.md instructions",
    "<INSTRUCTIONS>",
    "<environment_context>",
    "<permissions",
    "<skill",
    "<subagent",
    "<turn_aborted>",
    "<user_action>",
    "<user_instructions>",
];

/// How the message begins in which a compaction hands its summary on.
const SUMMARY: &str = "Another language model started to solve this problem";

/// What Codex wants a session_meta line to say.
const META_MEMBERS: [&str; 5] = ["id", "timestamp", "cwd", "originator", "cli_version"];

#[derive(Clone, Default)]
pub(super) struct Reader {
    reading: Reading,
    /// What the lines before say of those that follow.
    cwd: Option<String>,
    git_branch: Option<String>,
    repository: Option<String>,
    session_id: Option<String>,
    version: Option<String>,
    model: Option<String>,
    /// The provider's running total when it was last told, in its own words.
    total: Option<String>,
    /// The session's description, and what it lacks.
    meta: Option<Meta>,
    /// Who replies, as the last description says.
    provider: Option<String>,
    /// The compaction after which nothing was said yet.
    compaction: Option<Position>,
    /// Entries with encrypted thoughts, and who replied then.
    sealed: Vec<(usize, String)>,
}

#[derive(Clone)]
struct Meta {
    at: Position,
    lacks: Vec<&'static str>,
}

pub(super) fn understand(items: &[Item<'_>]) -> Reading {
    let mut reader = Box::new(Reader::default());
    items.iter().for_each(|item| reader.item(item));
    reader.finish()
}

impl ItemReader for Reader {
    fn item(&mut self, item: &Item<'_>) {
        self.reading.here = Some(item.at);
        self.line(item.at, item.json());
    }

    fn blocks(&mut self, entry: usize) -> Option<Vec<Block>> {
        self.reading.take_blocks(entry)
    }

    fn so_far(&self) -> Reading {
        Box::new(self.clone()).finish()
    }

    fn finish(mut self: Box<Self>) -> Reading {
        self.describe_session();
        self.find_sealed_by_others();
        self.reading
    }
}

impl Reader {
    pub(super) fn new(detail: Detail) -> Self {
        Self { reading: Reading { detail, ..Reading::default() }, ..Self::default() }
    }

    fn line(&mut self, at: Position, text: &str) {
        let Some(object) = Object::parse(text) else { return self.unknown(at, text, "line") };
        let kind = object.text("type").or_else(|| object.text("record_type")).unwrap_or_else(|| "untyped".to_owned());
        let time = object.text("timestamp").and_then(|time| time.parse().ok());
        let first = self.reading.conversation.entries.len();
        match (kind.as_str(), object.get("payload")) {
            ("response_item", Some(payload)) => {
                self.response_item(at, payload);
                if let (Some(mark), Some(entry)) = (Mark::of(&object), self.reading.conversation.entries.last_mut()) {
                    mark.restore(entry);
                }
            }
            ("compacted", Some(payload)) => self.compacted(at, text, payload),
            (_, Some(payload)) => self.record(at, text, &kind, payload),
            // Before rollouts had envelopes, items stood bare, after a line that says whose session it is.
            ("untyped", None) if object.get("id").is_some() => self.session(at, text, &object),
            ("state", None) => self.push(at, Entry::record(verbatim(ID, "state", text, false))),
            (_, None) => self.response_item(at, text),
        }
        self.reading.conversation.entries[first..].iter_mut().for_each(|entry| entry.at = time);
    }

    fn response_item(&mut self, at: Position, payload: &str) {
        let mut entry = read_item(payload, &mut self.reading);
        self.describe(&mut entry);
        if entry.is_message() {
            self.compaction = None;
        }
        if let (true, Some(provider)) = (entry.blocks.iter().any(is_sealed), &self.provider) {
            self.sealed.push((self.reading.conversation.entries.len(), provider.clone()));
        }
        self.push(at, entry);
    }

    fn describe(&self, entry: &mut Entry) {
        entry.synthetic = entry.role == Role::User && is_harness(entry);
        if entry.role == Role::Assistant {
            entry.model = self.model.clone();
        }
        entry.set_attribute(attribute::CWD, self.cwd.clone());
        entry.set_attribute(attribute::GIT_BRANCH, self.git_branch.clone());
        entry.set_attribute(attribute::REPOSITORY, self.repository.clone());
        entry.set_attribute(attribute::SESSION_ID, self.session_id.clone());
        entry.set_attribute(attribute::VERSION, self.version.clone());
        entry.set_attribute(attribute::RUNTIME, self.version.is_some().then_some(RUNTIME));
    }

    fn record(&mut self, at: Position, text: &str, kind: &str, payload: &str) {
        if !BOOKKEEPING.contains(&kind) {
            return self.unknown(at, text, kind);
        }
        let payload = Object::parse(payload);
        let subtype = payload.as_ref().filter(|_| kind == "event_msg").and_then(|payload| payload.text("type"));
        let name = subtype.as_ref().map_or_else(|| kind.to_owned(), |subtype| format!("{kind}/{subtype}"));
        self.push(at, Entry::record(verbatim(ID, &name, text, false)));
        match (kind, subtype.as_deref(), payload) {
            ("session_meta", _, Some(meta)) => self.identify(at, &meta),
            ("turn_context", _, Some(turn)) => {
                self.cwd = turn.text("cwd").or(self.cwd.take());
                self.model = turn.text("model").or(self.model.take());
            }
            (_, Some("token_count"), Some(event)) => self.count(&event),
            (_, Some("thread_rolled_back"), Some(event)) => {
                self.roll_back(event.number("num_turns").unwrap_or_default());
            }
            _ => {}
        }
    }

    fn session(&mut self, at: Position, text: &str, object: &Object<'_>) {
        self.push(at, Entry::record(verbatim(ID, "session_meta", text, false)));
        self.identify(at, object);
        // Such a line never had more.
        self.meta = Some(Meta { at, lacks: Vec::new() });
    }

    /// The first says whose session it is; others are those of a parent, or repeat it.
    fn identify(&mut self, at: Position, meta: &Object<'_>) {
        self.provider = meta.text("model_provider").or(self.provider.take());
        if self.meta.is_none() {
            let lacks = META_MEMBERS.into_iter().filter(|key| meta.text(key).is_none()).collect();
            self.meta = Some(Meta { at, lacks });
        }
        if self.session_id.is_some() {
            return;
        }
        self.session_id = meta.text("id");
        self.cwd = meta.text("cwd");
        self.version = meta.text("cli_version");
        let git = meta.object("git");
        self.git_branch = git.as_ref().and_then(|git| git.text("branch"));
        self.repository = git.as_ref().and_then(|git| git.text("repository_url"));
        // The line itself says so too: a delta may hold nothing else of the session.
        if let Some(mut entry) = self.reading.conversation.entries.pop() {
            self.describe(&mut entry);
            self.reading.conversation.entries.push(entry);
        }
    }

    /// The provider's count for the reply that was just given. It is told again unchanged at other times.
    fn count(&mut self, event: &Object<'_>) {
        let Some(info) = event.object("info") else { return };
        let total = info.get("total_token_usage").map(str::to_owned);
        if total.is_none() || std::mem::replace(&mut self.total, total.clone()) == total {
            return;
        }
        let Some(last) = info.object("last_token_usage") else { return };
        let entries = self.reading.conversation.entries.iter_mut();
        if let Some(reply) = entries.rev().find(|entry| entry.role == Role::Assistant && entry.is_message()) {
            reply.usage = Some(read_usage(&last));
        }
    }

    /// Takes the last turns away, each from the prompt that began it.
    fn roll_back(&mut self, turns: u64) {
        let entries = &mut self.reading.conversation.entries;
        let mut left = turns;
        for entry in entries.iter_mut().rev().filter(|entry| entry.standing == Standing::Context) {
            if left == 0 {
                return;
            }
            let begins = entry.role == Role::User && entry.is_message() && !entry.synthetic;
            if entry.is_message() || is_roll_back(entry) {
                entry.standing = Standing::Abandoned;
            }
            left -= u64::from(begins);
        }
    }

    fn compacted(&mut self, at: Position, text: &str, payload: &str) {
        if self.compaction.replace(at).is_some() {
            let sentence = "A compaction follows another with nothing said between them: the earlier one is not seen.";
            self.reading.findings.push(Problem::warning(Code::CompactionDoubled, at, sentence));
        }
        let payload = Object::parse(payload);
        let history = payload.as_ref().and_then(|payload| payload.array("replacement_history"));
        let mut copies: Vec<Entry> = Vec::new();
        for item in history.iter().flatten() {
            copies.push(read_item(item, &mut self.reading));
        }
        let message = payload.and_then(|payload| payload.text("message")).unwrap_or_default();
        let summary = take_summary(&mut copies, message);
        if history.is_none() && summary.trim().is_empty() {
            let sentence =
                "A compaction has neither a summary nor a history: the model would see only what the user said.";
            self.reading.findings.push(Problem::warning(Code::CompactionEmpty, at, sentence));
        }
        self.replace_history(history.is_some());
        let marker = Block::Verbatim(verbatim(ID, "compacted", text, false));
        let mut entry = Entry::new(Role::User, vec![marker, Block::Compaction { summary }]);
        self.describe(&mut entry);
        entry.synthetic = true;
        self.push(at, entry);
        for mut copy in copies {
            self.describe(&mut copy);
            copy.set_attribute(attribute::COPIED, Some("true"));
            self.push(at, copy);
        }
    }

    /// Old compactions name no replacement: they keep what the user said and drop the rest.
    fn replace_history(&mut self, replaced: bool) {
        for entry in &mut self.reading.conversation.entries {
            let goes = replaced || entry.role != Role::User;
            if goes && entry.standing == Standing::Context && entry.is_message() {
                entry.standing = Standing::Compacted;
            }
        }
    }

    fn unknown(&mut self, at: Position, text: &str, kind: &str) {
        self.reading.count_unknown(kind);
        self.push(at, Entry::record(verbatim(ID, kind, text, false)));
    }

    fn push(&mut self, at: Position, entry: Entry) {
        self.reading.push(at, entry);
    }

    fn describe_session(&mut self) {
        let findings = &mut self.reading.findings;
        match (&self.meta, self.reading.origins.first()) {
            (None, Some(at)) => {
                let sentence = "No session_meta line says whose session it is: Codex would not open it.";
                findings.push(Problem::error(Code::SessionMetaMissing, *at, sentence));
            }
            (Some(Meta { at, lacks }), _) if !lacks.is_empty() => {
                let sentence = format!("The session_meta line lacks {}: Codex would not open it.", lacks.join(", "));
                findings.push(Problem::error(Code::SessionMetaIncomplete, *at, sentence));
            }
            (Some(_), _) | (None, None) => {}
        }
        if let (None, Some(at)) = (&self.cwd, self.reading.origins.first()) {
            findings.push(Problem::warning(Code::CwdMissing, *at, "No line names the working directory."));
        }
    }

    /// Thoughts that another provider than the last one encrypted.
    fn find_sealed_by_others(&mut self) {
        let reading = &mut self.reading;
        for (index, provider) in &self.sealed {
            let is_seen = reading.conversation.entries[*index].standing == Standing::Context;
            if is_seen && self.provider.as_ref() != Some(provider) {
                let sentence = format!("A reasoning item was encrypted by another provider, {}.", shown(provider));
                reading.findings.push(Problem::error(Code::EncryptedForeign, reading.origins[*index], sentence));
            }
        }
    }
}

fn is_sealed(block: &Block) -> bool {
    matches!(block, Block::Reasoning(thought) if thought.encrypted.is_some())
}

/// The summary's text, taken out of the items that carry it. Where the provider keeps it to itself it is empty.
fn take_summary(copies: &mut Vec<Entry>, message: String) -> String {
    let carries = |entry: &Entry| {
        let text = entry.text();
        entry.role == Role::User && (text.starts_with(SUMMARY) || (!message.is_empty() && text == message))
    };
    let carrier = copies.iter().rposition(carries).map(|index| copies.remove(index).text());
    if message.is_empty() { carrier.unwrap_or_default() } else { message }
}

fn is_harness(entry: &Entry) -> bool {
    let text = entry.blocks.iter().find_map(Block::as_text).unwrap_or_default().trim_start();
    HARNESS.iter().any(|beginning| text.starts_with(beginning))
}

/// A roll-back that has been replayed must not be replayed again.
fn is_roll_back(entry: &Entry) -> bool {
    let kinds = entry.blocks.iter().filter_map(Block::as_verbatim);
    kinds.map(|verbatim| verbatim.kind.as_str()).any(|kind| kind == "event_msg/thread_rolled_back")
}

fn read_usage(usage: &Object<'_>) -> Usage {
    let count = |key| usage.number(key).unwrap_or_default();
    Usage {
        input_tokens: count("input_tokens"),
        output_tokens: count("output_tokens"),
        cache_read_tokens: count("cached_input_tokens"),
        cache_write_tokens: count("cache_write_input_tokens"),
        provisional: false,
    }
}

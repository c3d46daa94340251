//! A chat read line by line, as Gemini CLI takes it up again.

use std::collections::HashMap;

use enjamb_core::conversation::{Block, Entry, Reasoning, Role, Standing, ToolResult, Usage, attribute};

use super::ID;
use super::parts::{read_call, read_content, read_part, read_response};
use crate::anthropic::{acting, verbatim};
use crate::format::Reading;
use crate::framing::Item;
use crate::json::{self, Object};
use crate::position::Position;
use crate::problem::{Code, Problem};

/// What the id of a message begins with that stands for all before it, where we wrote it.
pub(super) const COMPACTION: &str = "compaction-";

/// How texts begin that stand under the user's role but were not said to the model, or not typed.
const IGNORED: &[&str] = &["/", "?", "<session_context>", "<hook_context>"];

#[derive(Default)]
struct Reader {
    reading: Reading,
    session_id: Option<String>,
    /// The entries that each message became: where they begin, and how many there are.
    messages: HashMap<String, (usize, usize)>,
}

pub(super) fn understand(items: &[Item<'_>]) -> Reading {
    let mut reader = Reader::default();
    for item in items {
        reader.line(item.at, item.json());
    }
    reader.reading
}

/// Prompts that Gemini CLI leaves out when it takes a chat up again.
pub(super) fn ignored(reading: &Reading) -> Vec<Problem> {
    let is_left_out = |entry: &Entry| {
        let text = entry.blocks.iter().find_map(Block::as_text).unwrap_or_default();
        entry.role == Role::User && entry.standing == Standing::Context && (text.starts_with(['/', '?']))
    };
    let left_out = reading.placed().filter(|(_, entry)| is_left_out(entry));
    let problem =
        |at| Problem::warning(Code::PromptIgnored, at, "A prompt that begins with / or ? is not taken up again.");
    left_out.map(|(at, _)| problem(at)).collect()
}

impl Reader {
    fn line(&mut self, at: Position, text: &str) {
        let Some(object) = Object::parse(text) else { return self.unknown(at, text, "line") };
        if let Some(messages) = object.array("messages") {
            return self.document(at, &object, &messages);
        }
        if let Some(change) = object.object("$set") {
            return self.set(at, text, &change);
        }
        if let Some(id) = object.text("$rewindTo") {
            return self.rewind(at, text, &id);
        }
        match object.text("type").as_deref() {
            Some("user" | "gemini") => self.message(at, &object),
            Some(kind @ ("info" | "warning" | "error")) => self.record(at, text, kind, &object),
            None if object.get("sessionId").is_some() => self.header(at, text, &object),
            kind => {
                let kind = kind.unwrap_or("untyped").to_owned();
                self.unknown(at, text, &kind);
            }
        }
    }

    /// A chat of an older version, whole. Its header is made anew when it is written as lines.
    fn document(&mut self, at: Position, chat: &Object<'_>, messages: &[&str]) {
        if let Some(header) = super::header(chat) {
            self.line(at, &header);
        }
        messages.iter().for_each(|message| self.line(at, message));
    }

    fn header(&mut self, at: Position, text: &str, object: &Object<'_>) {
        self.session_id = object.text("sessionId");
        self.record(at, text, "session", object);
    }

    fn record(&mut self, at: Position, text: &str, kind: &str, object: &Object<'_>) {
        let mut entry = Entry::record(verbatim(ID, kind, text, false));
        let time = object.text("timestamp").or_else(|| object.text("startTime"));
        entry.at = time.and_then(|time| time.parse().ok());
        entry.set_attribute(attribute::SESSION_ID, self.session_id.clone());
        self.reading.push(at, entry);
    }

    fn message(&mut self, at: Position, object: &Object<'_>) {
        let entries = self.entries(object);
        let known = object.text("id").and_then(|id| self.messages.get(&id).copied());
        let fits = known.filter(|(first, count)| self.can_replace(*first, *count));
        match (fits, object.text("id")) {
            (Some(place), Some(id)) => self.replace(id, place, at, entries),
            (_, id) => {
                let place = (self.reading.conversation.entries.len(), entries.len());
                self.messages.extend(id.map(|id| (id, place)));
                entries.into_iter().for_each(|entry| self.reading.push(at, entry));
            }
        }
    }

    /// What was compacted or taken back is over; its id may begin anew.
    fn can_replace(&self, first: usize, count: usize) -> bool {
        self.reading.conversation.entries[first..first + count].iter().all(|e| e.standing == Standing::Context)
    }

    /// The message with its later content, in its old place.
    fn replace(&mut self, id: String, (first, count): (usize, usize), at: Position, entries: Vec<Entry>) {
        let (added, origin) = (entries.len(), self.reading.origins.get(first).copied().unwrap_or(at));
        self.reading.conversation.entries.splice(first..first + count, entries);
        self.reading.origins.splice(first..first + count, std::iter::repeat_n(origin, added));
        for (begin, _) in self.messages.values_mut().filter(|(begin, _)| *begin > first) {
            *begin = *begin + added - count;
        }
        self.messages.insert(id, (first, added));
    }

    /// What was said, and then what the tools answered.
    fn entries(&mut self, object: &Object<'_>) -> Vec<Entry> {
        let is_reply = object.text("type").as_deref() == Some("gemini");
        let mut blocks: Vec<Block> =
            object.array("thoughts").unwrap_or_default().into_iter().filter_map(thought).collect();
        blocks.extend(read_content(object.get("content"), &mut self.reading));
        let results = self.calls(object, &mut blocks);
        let role = if is_reply { Role::Assistant } else { acting(Role::User, &blocks) };
        let mut said = Entry::new(role, blocks);
        said.synthetic = role == Role::User && is_ignored(&said);
        said.id = object.text("id");
        said.model = object.text("model");
        said.usage = object.object("tokens").map(|tokens| read_usage(&tokens));
        let answered = (!results.is_empty()).then(|| Entry::new(Role::Tool, results));
        let mut entries: Vec<Entry> = std::iter::once(said).chain(answered).collect();
        for entry in &mut entries {
            entry.at = object.text("timestamp").and_then(|time| time.parse().ok());
            entry.set_attribute(attribute::SESSION_ID, self.session_id.clone());
        }
        entries
    }

    /// Adds the calls that the content does not tell of, and gives the results.
    fn calls(&mut self, object: &Object<'_>, blocks: &mut Vec<Block>) -> Vec<Block> {
        let mut told: Vec<String> = blocks.iter().filter_map(Block::as_tool_call).map(|call| call.id.clone()).collect();
        let mut results = Vec::new();
        for raw in object.array("toolCalls").unwrap_or_default() {
            let call = Object::parse(raw).and_then(|object| Some((read_call(&object, "args")?, object)));
            let Some((call, object)) = call else {
                blocks.push(read_part(raw, &mut self.reading));
                continue;
            };
            results.extend(self.result(&object, &call.id).map(Block::ToolResult));
            match told.iter().position(|id| *id == call.id) {
                Some(place) => drop(told.swap_remove(place)),
                None => blocks.push(Block::ToolCall(call)),
            }
        }
        results
    }

    /// What a call came to. Where no answer was given to the model, what people were shown stands for it.
    fn result(&mut self, call: &Object<'_>, id: &str) -> Option<ToolResult> {
        let failed = call.text("status").is_some_and(|status| status == "error" || status == "cancelled");
        let raw = call.get("result");
        let parts = raw.and_then(|raw| json::array(raw).or_else(|| Some(vec![raw]))).unwrap_or_default();
        let mut result: Option<ToolResult> = None;
        for raw in parts {
            let part = Object::parse(raw);
            let response = part.as_ref().and_then(|part| part.object("functionResponse"));
            match (response, &mut result) {
                (Some(response), None) => result = Some(read_response(&response, &mut self.reading)),
                (Some(response), Some(result)) => {
                    result.content.extend(read_response(&response, &mut self.reading).content);
                }
                (None, result) => {
                    let empty = ToolResult { call_id: String::new(), content: Vec::new(), is_error: false };
                    result.get_or_insert(empty).content.push(read_part(raw, &mut self.reading));
                }
            }
        }
        let shown = call.text("resultDisplay").map(Block::Text);
        let fallback = || ToolResult { call_id: String::new(), content: shown.into_iter().collect(), is_error: failed };
        let mut result = result.or_else(|| (failed || call.get("status").is_some()).then(fallback))?;
        result.call_id = id.to_owned();
        result.is_error |= failed;
        Some(result)
    }

    /// A change of the header, or of all messages: then what was said before is compacted, unless it is said again.
    fn set(&mut self, at: Position, text: &str, change: &Object<'_>) {
        let Some(messages) = change.array("messages").filter(|messages| !messages.is_empty()) else {
            return self.record(at, text, "$set", change);
        };
        let first = Object::parse(messages[0]);
        let id = first.as_ref().and_then(|first| first.text("id")).unwrap_or_default();
        let has_said = !self.messages.is_empty();
        if !id.starts_with(COMPACTION) && (!has_said || self.messages.contains_key(&id)) {
            return self.restate(at, text, change, &messages);
        }
        self.leave(Standing::Compacted, 0);
        let summary = first.map(|first| read_content(first.get("content"), &mut self.reading)).unwrap_or_default();
        let summary = Entry::new(Role::User, summary).text();
        let marker = Block::Verbatim(verbatim(ID, "$set", text, false));
        let mut entry = Entry::new(Role::User, vec![marker, Block::Compaction { summary }]);
        entry.synthetic = true;
        entry.set_attribute(attribute::SESSION_ID, self.session_id.clone());
        self.reading.push(at, entry);
        self.copies(at, &messages[1..]);
    }

    fn copies(&mut self, at: Position, messages: &[&str]) {
        let first = self.reading.conversation.entries.len();
        messages.iter().for_each(|message| self.line(at, message));
        for entry in &mut self.reading.conversation.entries[first..] {
            entry.set_attribute(attribute::COPIED, Some("true"));
        }
    }

    /// The list begins as it did: what is no longer in it was taken back, what is there may have changed.
    fn restate(&mut self, at: Position, text: &str, change: &Object<'_>, messages: &[&str]) {
        let ids: Vec<String> = messages.iter().filter_map(|text| Object::parse(text)?.text("id")).collect();
        let gone: Vec<String> = self.messages.keys().filter(|id| !ids.contains(id)).cloned().collect();
        for id in gone {
            if let Some((first, count)) = self.messages.remove(&id) {
                self.abandon(first..first + count);
            }
        }
        messages.iter().for_each(|message| self.line(at, message));
        // Its messages stand for it.
        self.record(at, text, "$set", change);
        let last = self.reading.conversation.entries.len() - 1;
        self.abandon(last..last + 1);
    }

    /// Takes a message back, and all that follow. One that is not known takes everything back.
    fn rewind(&mut self, at: Position, text: &str, id: &str) {
        let first = self.messages.get(id).map_or(0, |(first, _)| *first);
        self.leave(Standing::Abandoned, first);
        self.messages.retain(|_, (begin, _)| *begin < first);
        let mut entry = Entry::record(verbatim(ID, "$rewindTo", text, false));
        // Done once, it must not be done again.
        entry.standing = Standing::Abandoned;
        self.reading.push(at, entry);
    }

    fn leave(&mut self, standing: Standing, first: usize) {
        for entry in &mut self.reading.conversation.entries[first..] {
            if entry.standing == Standing::Context && entry.is_message() {
                entry.standing = standing;
            }
        }
    }

    fn abandon(&mut self, places: std::ops::Range<usize>) {
        self.reading.conversation.entries[places].iter_mut().for_each(|entry| entry.standing = Standing::Abandoned);
    }

    fn unknown(&mut self, at: Position, text: &str, kind: &str) {
        self.reading.count_unknown(kind);
        self.reading.push(at, Entry::record(verbatim(ID, kind, text, false)));
    }
}

/// A thought has a subject and what is thought of it.
fn thought(raw: &str) -> Option<Block> {
    let thought = Object::parse(raw)?;
    let (subject, description) = (thought.text_or_empty("subject"), thought.text_or_empty("description"));
    let text = if subject.is_empty() { description } else { format!("**{subject}**\n\n{description}") };
    Some(Block::Reasoning(Reasoning { text, ..Reasoning::default() }))
}

fn is_ignored(entry: &Entry) -> bool {
    let text = entry.blocks.iter().find_map(Block::as_text).unwrap_or_default();
    IGNORED.iter().any(|beginning| text.starts_with(beginning))
}

fn read_usage(tokens: &Object<'_>) -> Usage {
    let count = |key| tokens.number(key).unwrap_or_default();
    Usage {
        input_tokens: count("input"),
        output_tokens: count("output").saturating_add(count("thoughts")),
        cache_read_tokens: count("cached"),
        cache_write_tokens: 0,
        provisional: false,
    }
}

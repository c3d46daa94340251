//! A conversation as a chat that Gemini CLI would take up again.

use std::collections::HashSet;

use enjamb_core::conversation::{Block, Entry, Reasoning, Role, ToolCall, ToolResult, Usage, attribute};
use enjamb_core::{Digest, Json, Timestamp};

use super::ID;
use super::parts::{write_parts, write_result};
use super::read::COMPACTION;
use crate::anthropic::array;
use crate::derived::{derived_uuid, is_uuid, milliseconds};
use crate::json::{self, Writer};
use crate::verbatim::{carried, is_line_of, is_session_of};

pub(super) fn write(entries: &[Entry]) -> Vec<u8> {
    let has_header = entries.iter().flat_map(|entry| &entry.blocks).any(|block| is_session_of(ID, block));
    let mut chat = Chat::default();
    if !has_header && !entries.is_empty() {
        chat.lines.push(Line::Written(header(entries)));
    }
    entries.iter().for_each(|entry| chat.entry(entry));
    let lines: Vec<Json> = chat.lines.into_iter().map(Line::json).collect();
    json::write_lines(&lines)
}

/// A line that is there, or a reply whose calls may yet be answered.
enum Line {
    Written(Json),
    Reply(Box<Reply>),
}

struct Reply {
    id: String,
    at: Timestamp,
    model: Option<String>,
    usage: Option<Usage>,
    thoughts: Vec<Reasoning>,
    content: Vec<Block>,
    calls: Vec<(ToolCall, Option<ToolResult>)>,
}

#[derive(Default)]
struct Chat {
    lines: Vec<Line>,
    ids: HashSet<String>,
    time_micros: i64,
    /// A compression was written that says itself what it keeps.
    has_copies: bool,
}

impl Chat {
    fn entry(&mut self, entry: &Entry) {
        if self.has_copies && entry.attribute(attribute::COPIED).is_some() {
            return;
        }
        self.time_micros = entry.at.map_or(self.time_micros.saturating_add(1000), Timestamp::as_micros);
        let mut said = Vec::new();
        let mut is_marked = false;
        for block in &entry.blocks {
            match block {
                Block::Verbatim(record) if is_line_of(ID, record) => {
                    is_marked |= record.kind == "$set";
                    self.lines.extend(carried(record).map(Line::Written));
                }
                Block::Compaction { .. } if is_marked => self.has_copies = true,
                Block::Compaction { summary } => self.compaction(summary),
                Block::ToolResult(result) if self.answer(result) => {}
                other => said.push(other.clone()),
            }
        }
        if said.is_empty() {
            return;
        }
        let id = self.id(entry.id.as_deref());
        if entry.role == Role::Assistant {
            self.reply(id, entry, said);
        } else {
            let content = if let [Block::Text(text)] = said.as_slice() { plain(text) } else { write_parts(&said) };
            let line = message(&id, self.time_micros, "user").member("content", &content);
            self.lines.push(Line::Written(line.json()));
        }
    }

    fn reply(&mut self, id: String, entry: &Entry, said: Vec<Block>) {
        let is_signed = |block: &Block| matches!(block, Block::Reasoning(Reasoning { signature: Some(_), .. }));
        // Where content tells of thoughts, it is all that Gemini CLI looks at.
        let is_all = said.iter().any(is_signed);
        let (mut thoughts, mut content, mut calls) = (Vec::new(), Vec::new(), Vec::new());
        for block in said {
            match block {
                Block::ToolCall(call) => {
                    content.extend(is_all.then(|| Block::ToolCall(call.clone())));
                    calls.push((call, None));
                }
                Block::Reasoning(thought) if !is_all => thoughts.push(thought),
                other => content.push(other),
            }
        }
        let (at, model, usage) = (Timestamp::from_micros(self.time_micros), entry.model.clone(), entry.usage);
        self.lines.push(Line::Reply(Box::new(Reply { id, at, model, usage, thoughts, content, calls })));
    }

    /// Puts a result where its call is, if there is one that has none.
    fn answer(&mut self, result: &ToolResult) -> bool {
        let waits =
            |(call, answer): &&mut (ToolCall, Option<ToolResult>)| call.id == result.call_id && answer.is_none();
        for line in self.lines.iter_mut().rev() {
            if let Line::Reply(reply) = line
                && let Some((_, answer)) = reply.calls.iter_mut().find(waits)
            {
                *answer = Some(result.clone());
                return true;
            }
        }
        false
    }

    fn compaction(&mut self, summary: &str) {
        let id = format!("{COMPACTION}{}", self.lines.len());
        let told = message(&id, self.time_micros, "user").member("content", &plain(summary)).json();
        let set = Writer::new().member("messages", &array(std::iter::once(told))).json();
        self.lines.push(Line::Written(Writer::new().member("$set", &set).json()));
    }

    /// An id that no line before has: with the same id it would replace that line.
    fn id(&mut self, own: Option<&str>) -> String {
        let own = own.filter(|id| !id.is_empty()).map(str::to_owned);
        let id = own.unwrap_or_else(|| derived_uuid(&["message", &self.lines.len().to_string()]));
        let free = if self.ids.contains(&id) { derived_uuid(&[&id, &self.lines.len().to_string()]) } else { id };
        self.ids.insert(free.clone());
        free
    }
}

impl Line {
    fn json(self) -> Json {
        match self {
            Self::Written(json) => json,
            Self::Reply(reply) => reply.json(),
        }
    }
}

impl Reply {
    fn json(&self) -> Json {
        let content = match self.content.as_slice() {
            [] => json::json_text(""),
            [Block::Text(text)] => plain(text),
            blocks => write_parts(blocks),
        };
        let thoughts = array(self.thoughts.iter().map(|thought| write_thought(thought, self.at)));
        let calls = array(self.calls.iter().map(|(call, answer)| write_call(call, answer.as_ref(), self.at)));
        message(&self.id, self.at.as_micros(), "gemini")
            .member("content", &content)
            .optional("thoughts", (!self.thoughts.is_empty()).then_some(thoughts))
            .optional("tokens", self.usage.map(write_usage))
            .optional("model", self.model.as_ref())
            .optional("toolCalls", (!self.calls.is_empty()).then_some(calls))
            .json()
    }
}

fn message(id: &str, at_micros: i64, kind: &str) -> Writer {
    let at = milliseconds(Timestamp::from_micros(at_micros));
    Writer::new().member("id", id).member("timestamp", &at).member("type", kind)
}

/// A text as a string. One without a character would be none at all, so it is a part.
fn plain(text: &str) -> Json {
    if text.is_empty() { write_parts(&[Block::Text(String::new())]) } else { json::json_text(text) }
}

fn write_thought(thought: &Reasoning, at: Timestamp) -> Json {
    let named = thought.text.strip_prefix("**").and_then(|rest| rest.split_once("**\n\n"));
    let (subject, description) = named.filter(|(subject, _)| !subject.is_empty()).unwrap_or(("", &thought.text));
    let line = Writer::new().member("subject", subject).member("description", description);
    line.member("timestamp", &milliseconds(at)).json()
}

fn write_call(call: &ToolCall, answer: Option<&ToolResult>, at: Timestamp) -> Json {
    let result = answer.map(|answer| array(std::iter::once(write_result(answer, &call.name))));
    let status = answer.map(|answer| if answer.is_error { "error" } else { "success" });
    Writer::new()
        .member("id", &call.id)
        .member("name", &call.name)
        .member("args", &call.input)
        .optional("result", result)
        .optional("status", status)
        .member("timestamp", &milliseconds(at))
        .json()
}

fn write_usage(usage: Usage) -> Json {
    let total = usage.input_tokens.saturating_add(usage.output_tokens);
    Writer::new()
        .member("input", &usage.input_tokens)
        .member("output", &usage.output_tokens)
        .member("cached", &usage.cache_read_tokens)
        .member("thoughts", &0)
        .member("tool", &0)
        .member("total", &total)
        .json()
}

fn header(entries: &[Entry]) -> Json {
    let named = |name: &str| entries.iter().find_map(|entry| entry.attribute(name));
    let id = named(attribute::SESSION_ID).filter(|id| is_uuid(id));
    let id = id.map_or_else(|| derived_uuid(&["session"]), str::to_owned);
    let at = milliseconds(entries.iter().find_map(|entry| entry.at).unwrap_or(Timestamp::from_millis(0)));
    // Whoever places the file knows its project, and says so in the name of the directory; here any will do.
    let project = Digest::of(named(attribute::CWD).unwrap_or("/").as_bytes()).to_hex();
    Writer::new()
        .member("sessionId", &id)
        .member("projectHash", &project)
        .member("startTime", &at)
        .member("lastUpdated", &at)
        .member("kind", "main")
        .json()
}

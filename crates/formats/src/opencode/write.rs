//! A conversation as the things that opencode would keep of it.

use std::collections::HashSet;

use enjamb_core::conversation::{Block, Entry, Raw, Role, ToolCall, ToolResult, Usage, Verbatim, attribute};
use enjamb_core::{Digest, Json, Timestamp};

use super::ID;
use super::parts::{placed, write_part, write_tool};
use crate::anthropic::array;
use crate::json::{self, Writer};
use crate::verbatim::{PART, carried, is_line_of, is_session_of};

/// Who made the model, where nothing says so.
const PROVIDER: &str = "unknown";

pub(super) fn write(entries: &[Entry]) -> Vec<u8> {
    let named = |name: &str| entries.iter().find_map(|entry| entry.attribute(name));
    let session = named(attribute::SESSION_ID).filter(|id| id.starts_with("ses_"));
    let session = session.map_or_else(|| derived_id("ses", 0, 0, "session"), str::to_owned);
    let cwd = named(attribute::CWD).unwrap_or("/").to_owned();
    let mut writer = Writing { session, cwd, ..Writing::default() };
    let has_session = entries.iter().flat_map(|entry| &entry.blocks).any(|block| is_session_of(ID, block));
    if !has_session && !entries.is_empty() {
        writer.session_line(entries);
    }
    entries.iter().for_each(|entry| writer.entry(entry));
    let lines: Vec<Json> = std::mem::take(&mut writer.lines).into_iter().map(|line| writer.line(line)).collect();
    json::write_lines(&lines)
}

enum Line {
    Written(Json),
    Message(Box<Message>),
}

struct Message {
    id: String,
    parent: String,
    role: Role,
    at_ms: i64,
    model: String,
    usage: Usage,
    cost: String,
    is_summary: bool,
    parts: Vec<Part>,
}

enum Part {
    Block(Block),
    /// A call, and its answer once that has come.
    Tool(ToolCall, Option<ToolResult>),
}

impl Part {
    fn is_result(&self) -> bool {
        matches!(self, Self::Block(Block::ToolResult(_)))
    }
}

#[derive(Default)]
struct Writing {
    session: String,
    cwd: String,
    lines: Vec<Line>,
    ids: HashSet<String>,
    time_micros: i64,
    /// The message that was last asked.
    asked: String,
}

impl Writing {
    fn session_line(&mut self, entries: &[Entry]) {
        let at = entries.iter().find_map(|entry| entry.at).map_or(0, millis);
        let is_prompt = |entry: &&Entry| entry.is_prompt();
        let title = entries.iter().find(is_prompt).map(Entry::text).unwrap_or_default();
        let title: String = title.lines().next().unwrap_or_default().chars().take(80).collect();
        let info = Writer::new()
            .member("id", &self.session)
            .member("projectID", "global")
            .member("directory", &self.cwd)
            .member("title", &title)
            .member("version", "0.0.0")
            .member("time", &Writer::new().member("created", &at).member("updated", &at).json());
        self.lines.push(Line::Written(Writer::new().member("info", &info.json()).json()));
    }

    fn entry(&mut self, entry: &Entry) {
        self.time_micros = entry.at.map_or(self.time_micros.saturating_add(1000), Timestamp::as_micros);
        let mut parts = Vec::new();
        for block in &entry.blocks {
            match block {
                Block::Verbatim(record) if is_line_of(ID, record) => {
                    self.lines.extend(carried(record).map(Line::Written))
                }
                Block::Compaction { summary } => self.compaction(entry, summary),
                Block::ToolResult(result) if self.answer(result, &mut parts) => {}
                Block::ToolCall(call) => self.part_of(entry, Part::Tool(call.clone(), None), &mut parts),
                other => self.part_of(entry, Part::Block(other.clone()), &mut parts),
            }
        }
        self.end_message(entry, parts);
    }

    /// Adds a part to the message. A result whose call is nowhere stands in a message of its own.
    fn part_of(&mut self, entry: &Entry, part: Part, parts: &mut Vec<Part>) {
        if parts.last().is_some_and(|last| last.is_result() != part.is_result()) {
            self.end_message(entry, std::mem::take(parts));
        }
        parts.push(part);
    }

    fn end_message(&mut self, entry: &Entry, parts: Vec<Part>) {
        if let Some(last) = parts.last() {
            let role = if last.is_result() { Role::Tool } else { entry.role };
            self.message(entry, role, parts, false);
        }
    }

    fn message(&mut self, entry: &Entry, role: Role, parts: Vec<Part>, is_summary: bool) {
        let id = self.id(entry.id.as_deref());
        let role = if role == Role::Assistant { Role::Assistant } else { Role::User };
        if role == Role::User {
            self.asked.clone_from(&id);
        }
        let message = Message {
            id,
            parent: self.asked.clone(),
            role,
            at_ms: millis(Timestamp::from_micros(self.time_micros)),
            model: entry.model.clone().unwrap_or_else(|| PROVIDER.to_owned()),
            usage: entry.usage.unwrap_or_default(),
            cost: entry.attribute(attribute::COST).unwrap_or("0").to_owned(),
            is_summary,
            parts,
        };
        self.lines.push(Line::Message(Box::new(message)));
    }

    /// A summary is asked for by a message that says no more than that.
    fn compaction(&mut self, entry: &Entry, summary: &str) {
        let is_marker = |part: &Part| {
            let Part::Block(Block::Verbatim(verbatim)) = part else { return false };
            verbatim.kind == format!("{PART}compaction")
        };
        let is_marked = matches!(self.lines.last(), Some(Line::Message(last)) if last.parts.iter().any(is_marker));
        let source = Entry { id: None, ..entry.clone() };
        if !is_marked {
            let marker = Writer::of("compaction").member("auto", &false).json();
            let marker = Verbatim {
                format: ID.to_owned(),
                kind: format!("{PART}compaction"),
                content: Raw::Json(marker),
                shown: false,
            };
            self.message(&source, Role::User, vec![Part::Block(Block::Verbatim(marker))], false);
        }
        let text = Part::Block(Block::Text(summary.to_owned()));
        self.message(&source, Role::Assistant, vec![text], true);
    }

    /// Puts a result where its call is, if there is one that has none.
    fn answer(&mut self, result: &ToolResult, parts: &mut [Part]) -> bool {
        let earlier = self.lines.iter_mut().rev().flat_map(|line| match line {
            Line::Message(message) => message.parts.as_mut_slice(),
            Line::Written(_) => &mut [],
        });
        for part in parts.iter_mut().chain(earlier) {
            if let Part::Tool(call, answer) = part
                && call.id == result.call_id
                && answer.is_none()
            {
                *answer = Some(result.clone());
                return true;
            }
        }
        false
    }

    /// An id that no message before has: with the same id it would replace that message.
    fn id(&mut self, own: Option<&str>) -> String {
        let own = own.filter(|id| id.starts_with("msg_") && !self.ids.contains(*id)).map(str::to_owned);
        // Another session's messages are others, though they say the same.
        let made = || derived_id("msg", self.time_micros / 1000, self.lines.len(), &self.session);
        let id = own.unwrap_or_else(made);
        self.ids.insert(id.clone());
        id
    }

    fn line(&self, line: Line) -> Json {
        let message = match line {
            Line::Written(json) => return json,
            Line::Message(message) => message,
        };
        let parts = message.parts.iter().enumerate().map(|(index, part)| self.part(&message, index, part));
        let parts = array(parts);
        Writer::new().member("info", &self.info(&message)).member("parts", &parts).json()
    }

    fn part(&self, message: &Message, index: usize, part: &Part) -> Json {
        let id = derived_id("prt", message.at_ms, index, &message.id);
        let part = match part {
            Part::Tool(call, answer) => write_tool(Some(call), answer.as_ref(), message.at_ms),
            Part::Block(Block::Verbatim(Verbatim { content: Raw::Json(raw), .. })) => return raw.clone(),
            Part::Block(block) => write_part(block),
        };
        placed(part, &id, &self.session, &message.id)
    }

    fn info(&self, message: &Message) -> Json {
        let info = Writer::new()
            .member("id", &message.id)
            .member("sessionID", &self.session)
            .member("role", message.role.as_str());
        let created = Writer::new().member("created", &message.at_ms);
        if message.role == Role::User {
            let model = Writer::new().member("providerID", PROVIDER).member("modelID", &message.model).json();
            return info.member("time", &created.json()).member("agent", "build").member("model", &model).json();
        }
        let has_calls = message.parts.iter().any(|part| matches!(part, Part::Tool(..)));
        info.member("time", &created.member("completed", &message.at_ms).json())
            .member("parentID", &message.parent)
            .member("modelID", &message.model)
            .member("providerID", PROVIDER)
            .member("mode", "build")
            .member("agent", "build")
            .member("path", &Writer::new().member("cwd", &self.cwd).member("root", &self.cwd).json())
            .member("cost", &json::json_or_text(&message.cost))
            .member("tokens", &write_usage(message.usage))
            .optional("summary", message.is_summary.then_some(true))
            .member("finish", if has_calls { "tool-calls" } else { "stop" })
            .json()
    }
}

fn write_usage(usage: Usage) -> Json {
    let cache =
        Writer::new().member("read", &usage.cache_read_tokens).member("write", &usage.cache_write_tokens).json();
    Writer::new()
        .member("input", &usage.input_tokens)
        .member("output", &usage.output_tokens)
        .member("reasoning", &0)
        .member("cache", &cache)
        .json()
}

fn millis(at: Timestamp) -> i64 {
    at.as_micros().div_euclid(1000)
}

/// An id in the spelling of opencode, in which ids sort by time and then by a count, that the same parts always give.
fn derived_id(prefix: &str, at_ms: i64, count: usize, name: &str) -> String {
    let digits = Digest::of(format!("{prefix}\0{name}\0{count}").as_bytes()).to_hex();
    let time = (at_ms.max(0) as u64) << 12 | count as u64 & 0xfff;
    format!("{prefix}_{:012x}{}", time & 0xffff_ffff_ffff, &digits[..14])
}

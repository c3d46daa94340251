//! A rollout mended line by line.

use std::collections::{BTreeMap, HashSet};

use enjamb_core::conversation::{Block, Standing};

use super::read::Reader;
use crate::check::{self, Pairs};
use crate::checker::Reuse;
use crate::derived::{derived_uuid, is_uuid};
use crate::format::Reading;
use crate::json::{self, Object, Writer, array_text, json_text, spliced, with_member, without_member};
use crate::narrative;
use crate::outline::Detail;
use crate::position::Position;
use crate::problem::Code;
use crate::reader::ItemReader;
use crate::repair::{Edits, INTERRUPTED, Sheet};
use crate::responses::read_item;

/// One round: the first of these that finds something to do.
pub(crate) fn operate(sheet: &mut Sheet<'_>, reuse: Reuse) -> bool {
    let mut reader = Box::new(Reader::new(Detail::Skeleton));
    sheet.read(reader.as_mut());
    let survey = Survey { reading: reader.finish(), reuse };
    let steps: [fn(&Survey, &mut Sheet<'_>) -> Edits; 4] = [describe, compactions, items, complete];
    steps.into_iter().any(|step| {
        let edits = step(&survey, sheet);
        let found = !edits.is_empty();
        sheet.apply(edits);
        found
    })
}

struct Survey {
    reading: Reading,
    reuse: Reuse,
}

impl Survey {
    fn found(&self, code: Code) -> impl Iterator<Item = usize> {
        let findings = self.reading.findings.iter().filter(move |problem| problem.code == code);
        findings.map(|problem| problem.at.offset() as usize)
    }

    /// Lines that hold something that the model would see.
    fn seen(&self) -> Vec<usize> {
        let seen = self.reading.placed().filter(|(_, entry)| entry.standing == Standing::Context && entry.is_message());
        let mut lines: Vec<usize> = seen.map(|(at, _)| at.offset() as usize).collect();
        lines.dedup();
        lines
    }
}

/// The line that says whose session it is.
fn describe(survey: &Survey, sheet: &mut Sheet<'_>) -> Edits {
    let mut edits = Edits::default();
    let known = |key: &str| {
        (0..sheet.len()).find_map(|line| {
            let object = Object::parse(sheet.line(line))?;
            object.text(key).or_else(|| object.object("payload")?.text(key))
        })
    };
    let at = known("timestamp").unwrap_or_else(|| "1970-01-01T00:00:00.000Z".to_owned());
    let cwd = known("cwd").unwrap_or_else(|| "/".to_owned());
    let first = if sheet.len() == 0 { "" } else { sheet.line(0) };
    let id = derived_uuid(&["session", first]);
    let members = [
        ("cli_version", "0.0.0"),
        ("originator", "enjamb"),
        ("cwd", cwd.as_str()),
        ("timestamp", at.as_str()),
        ("id", id.as_str()),
    ];
    let missing: Vec<usize> = survey.found(Code::SessionMetaMissing).collect();
    let incomplete: Vec<usize> = survey.found(Code::SessionMetaIncomplete).collect();
    for line in missing {
        let payload = members.iter().rev().fold(Writer::new(), |out, (key, value)| out.member(key, *value)).json();
        let record = Writer::new().member("timestamp", &at).member("type", "session_meta").member("payload", &payload);
        edits.insert_before(line, record.json().get().to_owned());
        sheet.note(Code::SessionMetaMissing, line, None, "put a session_meta line before it");
    }
    for line in incomplete {
        let text = completed(sheet.line(line), &members);
        sheet.note(Code::SessionMetaIncomplete, line, None, "filled in the members that were missing");
        edits.replace(line, text);
    }
    edits
}

fn completed(line: &str, members: &[(&str, &str)]) -> String {
    let Some(payload) = Object::parse(line).and_then(|line| line.get("payload")) else { return line.to_owned() };
    let mut whole = payload.to_owned();
    for (key, value) in members {
        let found = Object::parse(&whole).and_then(|payload| payload.text(key));
        let is_fit = found.is_some_and(|found| *key != "id" || is_uuid(&found));
        if !is_fit {
            whole = with_member(&whole, key, json_text(value).get());
        }
    }
    spliced(line, payload, &whole)
}

fn compactions(survey: &Survey, sheet: &mut Sheet<'_>) -> Edits {
    let mut edits = Edits::default();
    for line in survey.found(Code::CompactionEmpty).collect::<Vec<_>>() {
        sheet.note(Code::CompactionEmpty, line, None, "left out a compaction that has no summary");
        edits.drop(line);
    }
    for later in survey.found(Code::CompactionDoubled).collect::<Vec<_>>() {
        let earlier = (0..later).rev().find(|line| is_compaction(sheet.line(*line)));
        if let Some(line) = earlier.filter(|line| !edits.is_dropped(*line) && !edits.is_dropped(later)) {
            sheet.note(Code::CompactionDoubled, line, None, "left out, a later compaction stands for it");
            edits.drop(line);
        }
    }
    edits
}

fn is_compaction(line: &str) -> bool {
    Object::parse(line).and_then(|line| line.text("type")).as_deref() == Some("compacted")
}

/// Items that the provider would refuse.
fn items(survey: &Survey, sheet: &mut Sheet<'_>) -> Edits {
    let pairs = Pairs::of(&survey.reading);
    let mut ward = Ward {
        orphans: pairs.orphaned.iter().map(|(_, id)| *id).collect(),
        sealed_by_others: survey.found(Code::EncryptedForeign).collect(),
        reuse: survey.reuse,
        calls: HashSet::new(),
        results: HashSet::new(),
    };
    let mut edits = Edits::default();
    for line in survey.seen() {
        let text = sheet.line(line).to_owned();
        let Some(object) = Object::parse(&text) else { continue };
        let history = object.object("payload").and_then(|payload| payload.get("replacement_history"));
        let treated = match (history.and_then(|raw| Some((raw, json::array(raw)?))), object.get("payload")) {
            (Some((raw, items)), _) => ward.history(line, sheet, &text, raw, &items),
            (None, Some(payload)) => ward.note(line, sheet, payload).map(|item| spliced(&text, payload, &item)),
            (None, None) => ward.note(line, sheet, &text),
        };
        match treated {
            Some(new) if new.is_empty() || Object::parse(&new).is_none() => edits.drop(line),
            Some(new) => edits.replace(line, new),
            None => {}
        }
    }
    edits
}

/// What must be known of the conversation to judge one of its items.
struct Ward<'r> {
    orphans: HashSet<&'r str>,
    sealed_by_others: HashSet<usize>,
    reuse: Reuse,
    calls: HashSet<String>,
    results: HashSet<String>,
}

impl Ward<'_> {
    /// A compaction's history with its items treated, if any changed.
    fn history(&mut self, line: usize, sheet: &mut Sheet<'_>, text: &str, raw: &str, items: &[&str]) -> Option<String> {
        let treated: Vec<Option<String>> = items.iter().map(|item| self.note(line, sheet, item)).collect();
        if treated.iter().all(Option::is_none) {
            return None;
        }
        let kept = treated.iter().zip(items).map(|(new, old)| new.as_deref().unwrap_or(old));
        Some(spliced(text, raw, &array_text(kept.filter(|item| !item.is_empty()))))
    }

    /// The item as it must be, empty if it goes, nothing if it may stay; what was done is noted.
    fn note(&mut self, line: usize, sheet: &mut Sheet<'_>, item: &str) -> Option<String> {
        let (code, what, new) = self.treat(line, item)?;
        sheet.note(code, line, None, what);
        Some(new)
    }

    fn treat(&mut self, line: usize, item: &str) -> Option<(Code, &'static str, String)> {
        let entry = read_item(item, &mut Reading::default());
        let block = entry.blocks.first()?;
        match block {
            Block::ToolCall(call) if !self.calls.insert(call.id.clone()) => {
                return Some((Code::CallRepeated, "left out a call that was made before", String::new()));
            }
            Block::ToolResult(result) if self.orphans.contains(result.call_id.as_str()) => {
                return Some((Code::ResultOrphaned, "told as text", told(block)));
            }
            Block::ToolResult(result) if !self.results.insert(result.call_id.clone()) => {
                return Some((Code::ResultRepeated, "left out a result that was given before", String::new()));
            }
            Block::Reasoning(thought) if thought.encrypted.is_some() && self.is_foreign(line, block) => {
                let readable = !thought.text.is_empty();
                let rest = if readable { without_member(item, "encrypted_content") } else { String::new() };
                return Some((Code::EncryptedForeign, "left out its encrypted content", rest));
            }
            _ => {}
        }
        let is_oversized = |block: &Block| {
            check::responses_block(HERE, block).is_some_and(|problem| problem.code == Code::BlockOversized)
        };
        let shortens = entry.blocks.iter().any(is_oversized);
        shortens.then(|| (Code::BlockOversized, "a short text takes its place", shortened(item)))
    }

    fn is_foreign(&self, line: usize, block: &Block) -> bool {
        self.reuse == Reuse::OtherAccount
            || self.sealed_by_others.contains(&line)
            || check::responses_block(HERE, block).is_some_and(|problem| problem.code == Code::EncryptedForeign)
    }
}

/// Where a block is judged by itself, its place does not matter.
const HERE: Position = Position::Line { number: 1, offset: 0 };

/// A result as a message.
fn told(block: &Block) -> String {
    let part = Writer::of("input_text").member("text", &narrative::brief(block)).json();
    let message = Writer::of("message").member("role", "user").member("content", &[part]);
    message.json().get().to_owned()
}

/// Bytes of a text that is too large that stay.
const TEXT_BYTES_KEPT: usize = 4096;

/// The item with its longest texts cut short.
fn shortened(item: &str) -> String {
    let cut = |text: &str| {
        let kept = narrative::beginning(text, TEXT_BYTES_KEPT);
        json_text(&format!("{kept}\n[{} more bytes are left out]", text.len() - kept.len()))
    };
    let Some(object) = Object::parse(item) else { return item.to_owned() };
    for key in ["arguments", "input"] {
        if let Some(text) = object.text(key) {
            let left_out = Writer::new().member("left_out", &format!("{} bytes", text.len())).json();
            return with_member(item, key, json_text(left_out.get()).get());
        }
    }
    let Some(content) = object.get("content") else { return item.to_owned() };
    let parts = json::array(content).unwrap_or_default();
    let parts: Vec<String> = parts
        .into_iter()
        .map(|part| match Object::parse(part).and_then(|part| part.text("text")) {
            Some(text) if text.len() > TEXT_BYTES_KEPT => with_member(part, "text", cut(&text).get()),
            Some(_) | None => part.to_owned(),
        })
        .collect();
    spliced(item, content, &array_text(parts.iter().map(String::as_str)))
}

/// Calls without an answer get one.
fn complete(survey: &Survey, sheet: &mut Sheet<'_>) -> Edits {
    let pairs = Pairs::of(&survey.reading);
    let mut places: BTreeMap<usize, Vec<&str>> = BTreeMap::new();
    for (at, id, _) in &pairs.unanswered {
        places.entry(at.offset() as usize).or_default().push(id);
    }
    let mut edits = Edits::default();
    for (line, ids) in places {
        let object = Object::parse(sheet.line(line));
        let time = object.as_ref().and_then(|line| line.text("timestamp"));
        let kind = object.as_ref().and_then(|line| line.object("payload")?.text("type"));
        let kind = if kind.as_deref() == Some("custom_tool_call") { "custom_tool_call" } else { "function_call" };
        for id in ids {
            let output = Writer::of(&format!("{kind}_output")).member("call_id", id).member("output", INTERRUPTED);
            let record = Writer::new().optional("timestamp", time.as_deref()).member("type", "response_item");
            edits.insert_after(line, record.member("payload", &output.json()).json().get().to_owned());
            sheet.note(Code::CallUnanswered, line, Some(id), "a result says that it was interrupted");
        }
    }
    edits
}

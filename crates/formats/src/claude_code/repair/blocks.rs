//! Single blocks of messages that the provider would refuse.

use std::collections::HashSet;

use enjamb_core::conversation::{Block, Image, ImageSource, Role};

use super::{Plan, Survey};
use crate::adapt::{is_plain_id, plain_id};
use crate::anthropic::read_block;
use crate::check::{self, Pairs};
use crate::format::Reading;
use crate::json::{self, Object, Writer, array_text, json_text, spliced, with_member};
use crate::narrative;
use crate::position::Position;
use crate::problem::Code;

/// The blocks of a record's message, as they stand in it; none where the content is a text.
pub(super) fn content_blocks(record: &str) -> Vec<&str> {
    let content = Object::parse(record).and_then(|record| record.object("message")?.get("content"));
    content.and_then(json::array).unwrap_or_default()
}

pub(super) fn with_content(record: &str, content: &str) -> String {
    let old = Object::parse(record).and_then(|record| record.object("message")?.get("content"));
    old.map_or_else(|| record.to_owned(), |old| spliced(record, old, content))
}

pub(super) fn treat(survey: &Survey<'_>, plan: &mut Plan) {
    let pairs = Pairs::of(&survey.reading);
    let mut ward = Ward {
        orphans: pairs.orphaned.iter().map(|(_, id)| *id).collect(),
        calls: HashSet::new(),
        results: HashSet::new(),
        model: None,
    };
    for node in survey.seen() {
        let record = Object::parse(survey.text(node));
        let message = record.and_then(|record| record.object("message"));
        ward.model = message.as_ref().and_then(|message| message.text("model"));
        record_blocks(survey, plan, &mut ward, node);
    }
}

fn record_blocks(survey: &Survey<'_>, plan: &mut Plan, ward: &mut Ward<'_>, node: usize) {
    let blocks = content_blocks(survey.text(node));
    let mut kept: Vec<String> = Vec::with_capacity(blocks.len());
    let (mut changed, mut told) = (false, 0);
    for block in blocks {
        match ward.treat(block, survey.nodes[node].at) {
            Treated::Sound => kept.push(block.to_owned()),
            Treated::Gone(code, what) => {
                plan.note(survey, code, node, what);
                changed = true;
            }
            Treated::Changed(code, what, text) => {
                plan.note(survey, code, node, what);
                told += usize::from(code == Code::ResultOrphaned);
                kept.push(text);
                changed = true;
            }
        }
    }
    if !changed {
        return;
    }
    if kept.is_empty() {
        return plan.remove(survey, node);
    }
    let text = with_content(survey.text(node), &array_text(kept.iter().map(String::as_str)));
    // What a tool said is no prompt.
    let text = if told == kept.len() { with_member(&text, "isMeta", "true") } else { text };
    plan.edits.replace(survey.line(node), text);
}

enum Treated {
    Sound,
    Gone(Code, &'static str),
    Changed(Code, &'static str, String),
}

/// What must be known of the conversation to judge one of its blocks.
struct Ward<'r> {
    orphans: HashSet<&'r str>,
    calls: HashSet<String>,
    results: HashSet<String>,
    model: Option<String>,
}

impl Ward<'_> {
    fn treat(&mut self, raw: &str, at: Position) -> Treated {
        let block = read_block(raw, Role::User, &mut Reading::default());
        match &block {
            Block::ToolCall(call) if !call.server && !self.calls.insert(call.id.clone()) => {
                return Treated::Gone(Code::CallRepeated, "left out a call that was made before");
            }
            Block::ToolResult(result) if self.orphans.contains(result.call_id.as_str()) => {
                let text = Writer::of("text").member("text", &narrative::brief(&block)).json();
                return Treated::Changed(Code::ResultOrphaned, "told as text", text.get().to_owned());
            }
            Block::ToolResult(result) if !self.results.insert(result.call_id.clone()) => {
                return Treated::Gone(Code::ResultRepeated, "left out a result that was given before");
            }
            Block::ToolResult(result) if !is_plain_id(&result.call_id) => {
                let id = json_text(&plain_id(&result.call_id));
                let text = with_member(raw, "tool_use_id", id.get());
                return Treated::Changed(Code::CallIdCharacters, "its call id is written in other characters", text);
            }
            _ => {}
        }
        let problem = check::anthropic_block(at, &block);
        let problem = problem.or_else(|| check::signed_by_another(at, self.model.as_deref(), &block));
        problem.map_or(Treated::Sound, |problem| self.remedied(problem.code, raw, &block))
    }

    fn remedied(&self, code: Code, raw: &str, block: &Block) -> Treated {
        match (code, block) {
            (Code::ThinkingForeign | Code::ThinkingUnsigned, _) => {
                Treated::Gone(code, "left out a thought that the provider did not sign")
            }
            (Code::InputNotObject, Block::ToolCall(call)) => {
                let input = Writer::new().member("input", &call.input).json();
                Treated::Changed(code, "its input becomes an argument", with_member(raw, "input", input.get()))
            }
            (Code::CallIdCharacters, Block::ToolCall(call)) => {
                let id = json_text(&plain_id(&call.id));
                Treated::Changed(code, "its id is written in other characters", with_member(raw, "id", id.get()))
            }
            (Code::BlockOversized, _) => Treated::Changed(code, "a short text takes its place", shortened(raw, block)),
            _ => Treated::Sound,
        }
    }
}

/// A block that says of what is too large only how large it is.
fn shortened(raw: &str, block: &Block) -> String {
    match block {
        Block::ToolCall(call) => {
            let input = Writer::new().member("left_out", &format!("{} bytes", call.input.get().len())).json();
            with_member(raw, "input", input.get())
        }
        Block::ToolResult(result) => {
            let parts: Vec<String> = result.content.iter().map(part_text).collect();
            with_member(raw, "content", json_text(&parts.join("\n")).get())
        }
        block => Writer::of("text").member("text", &part_text(block)).json().get().to_owned(),
    }
}

/// Bytes of a text that is too large that stay.
const TEXT_BYTES_KEPT: usize = 4096;

fn part_text(block: &Block) -> String {
    match block {
        Block::Text(text) if text.len() > TEXT_BYTES_KEPT => {
            let kept = narrative::beginning(text, TEXT_BYTES_KEPT);
            format!("{kept}\n[{} more bytes are left out]", text.len() - kept.len())
        }
        Block::Image(Image { source: ImageSource::Base64(text), .. }) => {
            format!("[An image of {} bytes is left out]", text.len() / 4 * 3)
        }
        block => narrative::brief(block),
    }
}

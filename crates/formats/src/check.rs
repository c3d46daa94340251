//! What providers object to, asked of what the model would see.

use std::collections::{HashMap, HashSet};

use enjamb_core::conversation::{Block, Entry, Image, ImageSource, Reasoning, Role, Standing};

use crate::adapt::is_plain_id;
use crate::format::Reading;
use crate::position::{Position, Problem};

/// Bytes of base64 text of the largest image that Anthropic's API takes: 5 MiB of image.
const IMAGE_TEXT_BYTES_MAX: usize = 5 * 1024 * 1024 / 3 * 4;
/// Bytes of the largest request that Anthropic's API takes; one block of that size alone is too much.
const BLOCK_BYTES_MAX: usize = 32 * 1024 * 1024;

/// Messages that the model would see, with their places.
fn seen(reading: &Reading) -> impl Iterator<Item = (Position, &Entry)> {
    reading.placed().filter(|(_, entry)| entry.standing == Standing::Context && entry.is_message())
}

/// Everything that Anthropic's API asks of messages.
pub(crate) fn anthropic(reading: &Reading) -> Vec<Problem> {
    let mut problems = pairing(reading);
    problems.extend(beginning(reading));
    problems.extend(misplaced(reading));
    for (at, entry) in seen(reading) {
        problems.extend(entry.blocks.iter().filter_map(|block| anthropic_block(at, block)));
    }
    problems
}

/// Everything that the Responses API asks of items.
pub(crate) fn responses(reading: &Reading) -> Vec<Problem> {
    let mut problems = pairing(reading);
    for (at, entry) in seen(reading) {
        let thoughts = entry.blocks.iter().filter(|block| is_foreign(block));
        problems.extend(
            thoughts.map(|_| Problem::error("thinking-foreign", at, "A reasoning item is another provider's.")),
        );
    }
    problems
}

fn is_foreign(block: &Block) -> bool {
    let Block::Reasoning(Reasoning { provider: Some(provider), .. }) = block else { return false };
    provider != crate::responses::PROVIDER
}

/// Every call has one answer, after it, and every answer a call before it.
pub(crate) fn pairing(reading: &Reading) -> Vec<Problem> {
    let mut problems = Vec::new();
    let mut waiting: Vec<(Position, &str, &str)> = Vec::new();
    let mut called: HashSet<&str> = HashSet::new();
    let mut answered: HashSet<&str> = HashSet::new();
    for (at, entry) in seen(reading) {
        for call in entry.tool_calls().filter(|call| !call.server) {
            waiting.push((at, &call.id, &call.name));
            if !called.insert(&call.id) {
                problems.push(repeated(at, "call-repeated", "call", &call.id));
            }
        }
        for result in entry.tool_results() {
            if !called.contains(result.call_id.as_str()) {
                problems.push(orphaned(at, &result.call_id));
            } else if !answered.insert(&result.call_id) {
                problems.push(repeated(at, "result-repeated", "result of call", &result.call_id));
            }
        }
    }
    waiting.retain(|(_, id, _)| !answered.contains(id));
    problems.extend(waiting.into_iter().map(|(at, id, name)| unanswered(at, id, name)));
    problems
}

fn unanswered(at: Position, id: &str, name: &str) -> Problem {
    let sentence = format!("The call {} of tool {} has no result.", shown(id), shown(name));
    Problem::error("call-unanswered", at, sentence)
}

fn orphaned(at: Position, id: &str) -> Problem {
    Problem::error("result-orphaned", at, format!("The result of call {} has no call before it.", shown(id)))
}

fn repeated(at: Position, code: &'static str, what: &str, id: &str) -> Problem {
    Problem::error(code, at, format!("The {what} {} occurs more than once.", shown(id)))
}

/// An id or a name of the transcript's in a sentence of ours: short, and on one line.
fn shown(text: &str) -> String {
    format!("{:?}", text.chars().take(80).collect::<String>())
}

fn beginning(reading: &Reading) -> Option<Problem> {
    let (at, first) = seen(reading).next()?;
    (first.role == Role::Assistant)
        .then(|| Problem::error("first-not-user", at, "The first message is the assistant's; it must be a user's."))
}

/// Anthropic's API wants the answers to a reply's calls in what the user says next, not later. Messages of one side that
/// follow each other are one to it.
fn misplaced(reading: &Reading) -> Vec<Problem> {
    let mut problems = Vec::new();
    let mut turn = 0;
    let mut side = None;
    let mut calls: HashMap<&str, u64> = HashMap::new();
    for (at, entry) in seen(reading) {
        let speaks = entry.role == Role::Assistant;
        turn += u64::from(side.replace(speaks) != Some(speaks));
        calls.extend(entry.tool_calls().map(|call| (call.id.as_str(), turn)));
        let late = entry
            .tool_results()
            .filter(|result| calls.get(result.call_id.as_str()).is_some_and(|call| call + 1 < turn));
        problems.extend(late.map(|result| {
            let sentence = format!("The result of call {} does not directly follow it.", shown(&result.call_id));
            Problem::error("result-misplaced", at, sentence)
        }));
    }
    problems
}

fn anthropic_block(at: Position, block: &Block) -> Option<Problem> {
    match block {
        Block::Text(text) if text.trim().is_empty() => Some(Problem::error("text-empty", at, "A text block is empty.")),
        Block::Text(text) => oversized(at, "text", text.len(), BLOCK_BYTES_MAX),
        Block::Reasoning(reasoning) => unsigned(at, reasoning),
        Block::ToolCall(call) if !call.input.is_object() => {
            let sentence = format!("The input of call {} is not an object.", shown(&call.id));
            Some(Problem::error("input-not-object", at, sentence))
        }
        Block::ToolCall(call) if !is_plain_id(&call.id) => {
            let sentence =
                format!("The call id {} has characters other than letters, digits, _ and -.", shown(&call.id));
            Some(Problem::error("call-id-characters", at, sentence))
        }
        Block::ToolCall(call) => oversized(at, "tool call", call.input.get().len(), BLOCK_BYTES_MAX),
        Block::ToolResult(result) => result.content.iter().find_map(|part| oversized_part(at, part)),
        Block::Image(image) => oversized_image(at, image),
        Block::Compaction { .. } | Block::Verbatim(_) => None,
    }
}

fn unsigned(at: Position, Reasoning { signature, encrypted, provider, .. }: &Reasoning) -> Option<Problem> {
    if provider.as_deref().is_some_and(|provider| provider != crate::anthropic::PROVIDER) {
        return Some(Problem::error("thinking-foreign", at, "A thinking block is another provider's."));
    }
    (signature.is_none() && encrypted.is_none())
        .then(|| Problem::error("thinking-unsigned", at, "A thinking block has no signature."))
}

fn oversized_part(at: Position, part: &Block) -> Option<Problem> {
    match part {
        Block::Text(text) => oversized(at, "text", text.len(), BLOCK_BYTES_MAX),
        Block::Image(image) => oversized_image(at, image),
        Block::Reasoning(_)
        | Block::ToolCall(_)
        | Block::ToolResult(_)
        | Block::Compaction { .. }
        | Block::Verbatim(_) => None,
    }
}

fn oversized_image(at: Position, image: &Image) -> Option<Problem> {
    match &image.source {
        ImageSource::Base64(text) => oversized(at, "image", text.len(), IMAGE_TEXT_BYTES_MAX),
        ImageSource::Url(_) => None,
    }
}

fn oversized(at: Position, what: &str, bytes: usize, bytes_max: usize) -> Option<Problem> {
    (bytes > bytes_max).then(|| {
        Problem::error("block-oversized", at, format!("A block of {what} has {bytes} bytes, more than {bytes_max}."))
    })
}

/// Parents that are not there, in formats whose records form a tree.
pub(crate) fn parents<'a>(records: impl Iterator<Item = (Position, &'a str, Option<&'a str>)> + Clone) -> Vec<Problem> {
    let mut ids: HashMap<&str, Position> = HashMap::new();
    let mut problems = Vec::new();
    for (at, id, _) in records.clone() {
        if ids.insert(id, at).is_some() {
            problems.push(Problem::warning("id-repeated", at, format!("The id {} was used before.", shown(id))));
        }
    }
    let missing = records.filter_map(|(at, _, parent)| Some((at, parent.filter(|parent| !ids.contains_key(parent))?)));
    problems.extend(missing.map(|(at, parent)| {
        Problem::warning("parent-missing", at, format!("The parent {} is not in the transcript.", shown(parent)))
    }));
    problems
}

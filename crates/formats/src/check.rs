//! What providers object to, asked of what the model would see.

use std::collections::{HashMap, HashSet};

use enjamb_core::conversation::{Block, Entry, Image, ImageSource, Reasoning, Role, Standing};

use crate::adapt::is_plain_id;
use crate::format::Reading;
use crate::outline::{HEAVY_IMAGE, HEAVY_TEXT};
use crate::position::Position;
use crate::problem::{Code, Problem, Severity};

/// Bytes of base64 text of the largest image that Anthropic's API takes: 5 MiB of image.
const IMAGE_TEXT_BYTES_MAX: usize = 5 * 1024 * 1024 / 3 * 4;
/// Bytes of the largest request that Anthropic's API takes; one block of that size alone is too much.
const BLOCK_BYTES_MAX: usize = 32 * 1024 * 1024;

/// Bytes of the longest string that OpenAI's API takes.
const STRING_BYTES_MAX: usize = 10 * 1024 * 1024;

/// What stands in transcripts for a model that nobody named.
pub(crate) const UNKNOWN_MODEL: &str = "unknown";

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
        problems.extend(entry.blocks.iter().filter_map(|block| signed_by_another(at, entry.model.as_deref(), block)));
        problems.extend(heavy(at, entry, HEAVY_TEXT, "text", BLOCK_BYTES_MAX));
        problems.extend(heavy(at, entry, HEAVY_IMAGE, "image", IMAGE_TEXT_BYTES_MAX));
    }
    problems
}

/// As Anthropic's API, but Claude Code itself leaves empty texts out, and passes over calls that a session broke off at.
pub(crate) fn claude_code(reading: &Reading) -> Vec<Problem> {
    let mut problems = anthropic(reading);
    problems.retain(|problem| problem.code != Code::TextEmpty);
    let said: Vec<(Position, &Entry)> = seen(reading).filter(|(_, entry)| entry.role != Role::Tool).collect();
    let broke_off = said.last().filter(|(_, entry)| entry.role == Role::Assistant).map(|(at, _)| *at);
    lessen(&mut problems, Code::CallUnanswered, |problem| Some(problem.at) == broke_off);
    problems
}

/// Everything that the Responses API asks of items.
pub(crate) fn responses(reading: &Reading) -> Vec<Problem> {
    let mut problems = pairing(reading);
    for (at, entry) in seen(reading) {
        problems.extend(entry.blocks.iter().filter_map(|block| responses_block(at, block)));
        problems.extend(heavy(at, entry, HEAVY_TEXT, "text", STRING_BYTES_MAX));
    }
    problems
}

/// As the Responses API, but Codex says of calls without an answer that they were aborted.
pub(crate) fn codex(reading: &Reading) -> Vec<Problem> {
    let mut problems = responses(reading);
    lessen(&mut problems, Code::CallUnanswered, |_| true);
    problems
}

/// What one account's conversation cannot take along to another.
pub(crate) fn other_account(reading: &Reading) -> Vec<Problem> {
    let is_bound = |block: &&Block| matches!(block, Block::Reasoning(thought) if thought.encrypted.is_some());
    let bound = seen(reading).flat_map(|(at, entry)| entry.blocks.iter().filter(is_bound).map(move |_| at));
    let sentence = "A reasoning block is encrypted for the account that made it.";
    bound.map(|at| Problem::error(Code::EncryptedForeign, at, sentence)).collect()
}

fn lessen(problems: &mut [Problem], code: Code, which: impl Fn(&Problem) -> bool) {
    for problem in problems.iter_mut().filter(|problem| problem.code == code && which(problem)) {
        problem.severity = Severity::Warning;
    }
}

pub(crate) fn responses_block(at: Position, block: &Block) -> Option<Problem> {
    match block {
        Block::Reasoning(thought) => foreign(at, thought),
        Block::Text(text) => oversized(at, "text", text.len(), STRING_BYTES_MAX),
        Block::ToolCall(call) => oversized(at, "tool call", call.input.get().len(), STRING_BYTES_MAX),
        Block::ToolResult(_) | Block::Image(_) | Block::Compaction { .. } | Block::Verbatim(_) => None,
    }
}

fn foreign(at: Position, Reasoning { encrypted, provider, .. }: &Reasoning) -> Option<Problem> {
    if provider.as_deref().is_some_and(|provider| provider != crate::responses::PROVIDER) {
        return Some(Problem::error(Code::ThinkingForeign, at, "A reasoning item is another provider's."));
    }
    encrypted.as_ref().filter(|text| !is_cipher(text)).map(|_| {
        Problem::error(
            Code::EncryptedForeign,
            at,
            "The encrypted content of a reasoning item is none that OpenAI made.",
        )
    })
}

/// What a provider encrypts or signs is a long run of base64, of either alphabet.
fn is_cipher(text: &str) -> bool {
    let is_base64 = |byte: u8| byte.is_ascii_alphanumeric() || b"+/-_=".contains(&byte);
    text.len() >= CIPHER_BYTES_MIN && text.bytes().all(is_base64)
}

/// The shortest that could hold a key's check and a word.
const CIPHER_BYTES_MIN: usize = 32;

/// Every call has one answer, after it, and every answer a call before it.
pub(crate) fn pairing(reading: &Reading) -> Vec<Problem> {
    Pairs::of(reading).problems()
}

/// Calls and answers that do not go together, by the ids that they bear.
#[derive(Default)]
pub(crate) struct Pairs<'r> {
    /// With the name of the tool.
    pub(crate) unanswered: Vec<(Position, &'r str, &'r str)>,
    pub(crate) orphaned: Vec<(Position, &'r str)>,
    pub(crate) calls_again: Vec<(Position, &'r str)>,
    pub(crate) results_again: Vec<(Position, &'r str)>,
}

impl<'r> Pairs<'r> {
    pub(crate) fn of(reading: &'r Reading) -> Self {
        let mut pairs = Self::default();
        let mut called: HashSet<&str> = HashSet::new();
        let mut answered: HashSet<&str> = HashSet::new();
        for (at, entry) in seen(reading) {
            for call in entry.tool_calls().filter(|call| !call.server) {
                if called.insert(&call.id) {
                    pairs.unanswered.push((at, &call.id, &call.name));
                } else {
                    pairs.calls_again.push((at, &call.id));
                }
            }
            for result in entry.tool_results() {
                if !called.contains(result.call_id.as_str()) {
                    pairs.orphaned.push((at, &result.call_id));
                } else if !answered.insert(&result.call_id) {
                    pairs.results_again.push((at, &result.call_id));
                }
            }
        }
        pairs.unanswered.retain(|(_, id, _)| !answered.contains(id));
        pairs
    }

    fn problems(self) -> Vec<Problem> {
        let again = self.calls_again.iter().map(|(at, id)| repeated(*at, Code::CallRepeated, "call", id));
        let mut problems: Vec<Problem> = again.collect();
        problems.extend(self.orphaned.iter().map(|(at, id)| orphaned(*at, id)));
        let again = self.results_again.iter();
        problems.extend(again.map(|(at, id)| repeated(*at, Code::ResultRepeated, "result of call", id)));
        problems.extend(self.unanswered.iter().map(|(at, id, name)| unanswered(*at, id, name)));
        problems
    }
}

fn unanswered(at: Position, id: &str, name: &str) -> Problem {
    let sentence = format!("The call {} of tool {} has no result.", shown(id), shown(name));
    Problem::error(Code::CallUnanswered, at, sentence)
}

fn orphaned(at: Position, id: &str) -> Problem {
    Problem::error(Code::ResultOrphaned, at, format!("The result of call {} has no call before it.", shown(id)))
}

fn repeated(at: Position, code: Code, what: &str, id: &str) -> Problem {
    Problem::error(code, at, format!("The {what} {} occurs more than once.", shown(id)))
}

/// An id or a name of the transcript's in a sentence of ours: short, and on one line.
pub(crate) fn shown(text: &str) -> String {
    format!("{:?}", text.chars().take(80).collect::<String>())
}

fn beginning(reading: &Reading) -> Option<Problem> {
    let (at, first) = seen(reading).next()?;
    (first.role == Role::Assistant)
        .then(|| Problem::error(Code::FirstNotUser, at, "The first message is the assistant's; it must be a user's."))
}

/// Anthropic's API wants the answers to a reply's calls in what the user says next, not later. Messages of one side that
/// follow each other are one to it.
pub(crate) fn late(reading: &Reading) -> Vec<(Position, &str)> {
    let mut found = Vec::new();
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
        found.extend(late.map(|result| (at, result.call_id.as_str())));
    }
    found
}

fn misplaced(reading: &Reading) -> impl Iterator<Item = Problem> {
    late(reading).into_iter().map(|(at, id)| {
        let sentence = format!("The result of call {} does not directly follow it.", shown(id));
        Problem::error(Code::ResultMisplaced, at, sentence)
    })
}

pub(crate) fn anthropic_block(at: Position, block: &Block) -> Option<Problem> {
    match block {
        Block::Text(text) if text.trim().is_empty() => {
            Some(Problem::error(Code::TextEmpty, at, "A text block is empty."))
        }
        Block::Text(text) => oversized(at, "text", text.len(), BLOCK_BYTES_MAX),
        Block::Reasoning(reasoning) => unsigned(at, reasoning),
        Block::ToolCall(call) if !call.input.is_object() => {
            let sentence = format!("The input of call {} is not an object.", shown(&call.id));
            Some(Problem::error(Code::InputNotObject, at, sentence))
        }
        Block::ToolCall(call) if !is_plain_id(&call.id) => {
            let sentence =
                format!("The call id {} has characters other than letters, digits, _ and -.", shown(&call.id));
            Some(Problem::error(Code::CallIdCharacters, at, sentence))
        }
        Block::ToolCall(call) => oversized(at, "tool call", call.input.get().len(), BLOCK_BYTES_MAX),
        Block::ToolResult(result) => result.content.iter().find_map(|part| oversized_part(at, part)),
        Block::Image(image) => oversized_image(at, image),
        Block::Compaction { .. } | Block::Verbatim(_) => None,
    }
}

fn unsigned(at: Position, Reasoning { signature, encrypted, provider, .. }: &Reasoning) -> Option<Problem> {
    if provider.as_deref().is_some_and(|provider| provider != crate::anthropic::PROVIDER) {
        return Some(Problem::error(Code::ThinkingForeign, at, "A thinking block is another provider's."));
    }
    (signature.is_none() && encrypted.is_none())
        .then(|| Problem::error(Code::ThinkingUnsigned, at, "A thinking block has no signature."))
}

/// A signature that is none, or that a model of another maker put under its thoughts.
pub(crate) fn signed_by_another(at: Position, model: Option<&str>, block: &Block) -> Option<Problem> {
    let Block::Reasoning(Reasoning { signature: Some(signature), .. }) = block else { return None };
    let maker = model.filter(|model| !is_ours(model));
    let sentence = match maker {
        Some(model) => format!("A thinking block is signed by {}, not by Anthropic.", shown(model)),
        None if !is_cipher(signature) => "The signature of a thinking block is none that Anthropic made.".to_owned(),
        None => return None,
    };
    Some(Problem::error(Code::ThinkingForeign, at, sentence))
}

/// Models of Anthropic's, stand-ins of Claude Code's, and those whose name was lost in translation.
fn is_ours(model: &str) -> bool {
    model.contains("claude") || model.starts_with('<') || model == UNKNOWN_MODEL
}

/// A block that was too large to keep.
fn heavy(at: Position, entry: &Entry, name: &str, what: &str, bytes_max: usize) -> Option<Problem> {
    let bytes: usize = entry.attribute(name)?.parse().ok()?;
    oversized(at, what, bytes, bytes_max)
}

pub(crate) fn oversized_part(at: Position, part: &Block) -> Option<Problem> {
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
        Problem::error(Code::BlockOversized, at, format!("A block of {what} has {bytes} bytes, more than {bytes_max}."))
    })
}

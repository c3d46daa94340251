//! Chunks of OpenAI-compatible chat.

use serde::Deserialize;

use super::responses::Complaint;
use super::{Answer, Call, Stop};
use crate::conversation::Usage;

#[derive(Default, Deserialize)]
#[serde(default)]
struct Chunk {
    id: Option<String>,
    choices: Vec<Choice>,
    usage: Option<Counts>,
    error: Option<Complaint>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Choice {
    delta: Delta,
    finish_reason: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Delta {
    content: Option<String>,
    refusal: Option<String>,
    tool_calls: Option<Vec<CallPiece>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct CallPiece {
    index: usize,
    id: Option<String>,
    function: Function,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Function {
    name: Option<String>,
    arguments: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Counts {
    prompt_tokens: u64,
    completion_tokens: u64,
    prompt_tokens_details: Option<Details>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Details {
    cached_tokens: Option<u64>,
}

/// Calls of one answer. Who names more has lost count.
const CALLS_MAX: usize = 256;

pub(super) fn take(answer: &mut Answer, data: &str) -> serde_json::Result<Option<String>> {
    let chunk: Chunk = serde_json::from_str(data)?;
    answer.response_id = answer.response_id.take().or(chunk.id);
    answer.usage = chunk.usage.map(usage).or(answer.usage);
    if let Some(error) = chunk.error {
        answer.stop(Stop::Failed(error.words()));
    }
    let Some(choice) = chunk.choices.into_iter().next() else { return Ok(None) };
    answer.refusal.push_str(&choice.delta.refusal.unwrap_or_default());
    choice.delta.tool_calls.into_iter().flatten().for_each(|piece| take_piece(answer, piece));
    if let Some(reason) = choice.finish_reason {
        end(answer, &reason);
    }
    Ok(choice.delta.content.filter(|text| !text.is_empty()))
}

/// A call comes in pieces, told apart by their index.
fn take_piece(answer: &mut Answer, piece: CallPiece) {
    let begins = piece.index == answer.calls.len() && answer.calls.len() < CALLS_MAX;
    if begins {
        answer.calls.push(Call::default());
    }
    let Some(call) = answer.calls.get_mut(piece.index) else { return };
    if call.call_id.is_empty() {
        call.call_id = piece.id.unwrap_or_default();
    }
    call.name.push_str(&piece.function.name.unwrap_or_default());
    call.arguments.push_str(&piece.function.arguments.unwrap_or_default());
}

fn end(answer: &mut Answer, reason: &str) {
    drop_repeated(&mut answer.calls);
    answer.stop(match reason {
        "length" => Stop::OutputLimit,
        "content_filter" => Stop::Refused("the answer was filtered".into()),
        _ => answer.finished(),
    });
}

/// A call without an id has its place for one; of two with the same the first counts.
fn drop_repeated(calls: &mut Vec<Call>) {
    for (index, call) in calls.iter_mut().enumerate() {
        if call.call_id.is_empty() {
            call.call_id = format!("call_{index}");
        }
    }
    let mut seen = std::collections::BTreeSet::new();
    calls.retain(|call| seen.insert(call.call_id.clone()));
}

fn usage(counts: Counts) -> Usage {
    let cached = counts.prompt_tokens_details.unwrap_or_default().cached_tokens.unwrap_or_default();
    Usage {
        input_tokens: counts.prompt_tokens.saturating_sub(cached),
        output_tokens: counts.completion_tokens,
        cache_read_tokens: cached,
        ..Usage::default()
    }
}

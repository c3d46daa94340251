//! Events of Anthropic's Messages.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::{Answer, Call, Stop};
use crate::conversation::Usage;

/// Calls that are being written, by the index of their block.
pub(super) type Blocks = BTreeMap<u64, Call>;

#[derive(Deserialize)]
struct Event<'a> {
    #[serde(borrow, default, rename = "type")]
    kind: Cow<'a, str>,
    #[serde(default)]
    index: u64,
    #[serde(borrow)]
    delta: Option<&'a RawValue>,
    #[serde(borrow)]
    content_block: Option<&'a RawValue>,
    #[serde(borrow)]
    message: Option<&'a RawValue>,
    usage: Option<Counts>,
    error: Option<Complaint>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Delta {
    #[serde(rename = "type")]
    kind: String,
    text: String,
    partial_json: String,
    stop_reason: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Block {
    #[serde(rename = "type")]
    kind: String,
    id: String,
    name: String,
    text: String,
    input: Value,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Message {
    id: Option<String>,
    usage: Option<Counts>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Counts {
    input_tokens: Option<u64>,
    output_tokens: Option<u64>,
    cache_read_input_tokens: Option<u64>,
    cache_creation_input_tokens: Option<u64>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Complaint {
    #[serde(rename = "type")]
    kind: String,
    message: String,
}

pub(super) fn take(answer: &mut Answer, blocks: &mut Blocks, data: &str) -> serde_json::Result<Option<String>> {
    let event: Event<'_> = serde_json::from_str(data)?;
    match event.kind.as_ref() {
        "content_block_delta" => return take_delta(blocks, event.index, read(event.delta)?),
        "content_block_start" => return Ok(begin(blocks, event.index, read(event.content_block)?)),
        "content_block_stop" => blocks.remove(&event.index).into_iter().for_each(|call| answer.add_call(whole(call))),
        "message_start" => {
            let message: Message = read(event.message)?;
            answer.response_id = answer.response_id.take().or(message.id);
            count(answer, message.usage);
        }
        "message_delta" => {
            count(answer, event.usage);
            let delta: Delta = read(event.delta)?;
            delta.stop_reason.iter().for_each(|reason| end(answer, reason));
        }
        "error" => {
            let error = event.error.unwrap_or_default();
            answer.stop(Stop::Failed(format!("{}: {}", error.kind, error.message)));
        }
        _ => {}
    }
    Ok(None)
}

fn read<'a, T: Default + Deserialize<'a>>(raw: Option<&'a RawValue>) -> serde_json::Result<T> {
    raw.map_or(Ok(T::default()), |raw| serde_json::from_str(raw.get()))
}

fn take_delta(blocks: &mut Blocks, index: u64, delta: Delta) -> serde_json::Result<Option<String>> {
    if delta.kind == "text_delta" {
        return Ok(Some(delta.text).filter(|text| !text.is_empty()));
    }
    if let Some(call) = blocks.get_mut(&index) {
        call.arguments.push_str(&delta.partial_json);
    }
    Ok(None)
}

fn begin(blocks: &mut Blocks, index: u64, block: Block) -> Option<String> {
    if block.kind == "tool_use" {
        let input = block.input.as_object().filter(|input| !input.is_empty()).is_some();
        let arguments = if input { block.input.to_string() } else { String::new() };
        blocks.insert(index, Call { call_id: block.id, item_id: None, name: block.name, arguments });
    }
    Some(block.text).filter(|text| !text.is_empty())
}

/// A call without arguments is written with none at all.
fn whole(mut call: Call) -> Call {
    if call.arguments.is_empty() {
        call.arguments.push_str("{}");
    }
    call
}

/// Counts grow as the answer does; what is not told again stays.
fn count(answer: &mut Answer, counts: Option<Counts>) {
    let Some(counts) = counts else { return };
    let before = answer.usage.unwrap_or_default();
    answer.usage = Some(Usage {
        input_tokens: counts.input_tokens.unwrap_or(before.input_tokens),
        output_tokens: counts.output_tokens.unwrap_or(before.output_tokens),
        cache_read_tokens: counts.cache_read_input_tokens.unwrap_or(before.cache_read_tokens),
        cache_write_tokens: counts.cache_creation_input_tokens.unwrap_or(before.cache_write_tokens),
        provisional: false,
    });
}

fn end(answer: &mut Answer, reason: &str) {
    answer.stop(match reason {
        "max_tokens" => Stop::OutputLimit,
        "refusal" => Stop::Refused("the model refused".into()),
        _ => answer.finished(),
    });
}

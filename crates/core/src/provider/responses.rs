//! Events of Open Responses.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::{Answer, Call, Stop};
use crate::conversation::Usage;

#[derive(Deserialize)]
struct Event<'a> {
    #[serde(borrow, default, rename = "type")]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    delta: Option<&'a RawValue>,
    #[serde(borrow)]
    item: Option<&'a RawValue>,
    #[serde(borrow)]
    response: Option<&'a RawValue>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
    message: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Response {
    id: Option<String>,
    output: Vec<serde_json::Value>,
    usage: Option<Counts>,
    error: Option<Complaint>,
    incomplete_details: Option<Incomplete>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Item {
    #[serde(rename = "type")]
    kind: String,
    id: Option<String>,
    call_id: String,
    name: String,
    arguments: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Counts {
    input_tokens: u64,
    output_tokens: u64,
    input_tokens_details: Option<Details>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Details {
    cached_tokens: u64,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Incomplete {
    reason: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Complaint {
    pub code: Option<serde_json::Value>,
    pub message: Option<String>,
}

impl Complaint {
    pub fn words(self) -> String {
        let code = self.code.map(|code| code.as_str().map_or_else(|| code.to_string(), str::to_owned));
        match (code, self.message) {
            (Some(code), Some(message)) => format!("{code}: {message}"),
            (one, other) => one.or(other).unwrap_or_else(|| "it did not say why".into()),
        }
    }
}

pub(super) fn take(answer: &mut Answer, data: &str) -> serde_json::Result<Option<String>> {
    let event: Event<'_> = serde_json::from_str(data)?;
    match event.kind.as_ref() {
        "response.output_text.delta" => return text(event.delta),
        "response.refusal.delta" => answer.refusal.push_str(&text(event.delta)?.unwrap_or_default()),
        "response.created" | "response.in_progress" => {
            let response = read(event.response)?;
            answer.response_id = response.id.or(answer.response_id.take());
        }
        "response.output_item.done" => take_item(answer, event.item)?,
        "response.completed" | "response.incomplete" | "response.failed" => {
            end(answer, event.kind.as_ref(), read(event.response)?)?;
        }
        "error" => {
            let said = event.error.map(|raw| serde_json::from_str(raw.get())).transpose()?;
            let said: Complaint = said.unwrap_or(Complaint { code: None, message: event.message });
            answer.stop(Stop::Failed(said.words()));
        }
        _ => {}
    }
    Ok(None)
}

fn text(delta: Option<&RawValue>) -> serde_json::Result<Option<String>> {
    delta.map(|raw| serde_json::from_str(raw.get())).transpose()
}

fn read(response: Option<&RawValue>) -> serde_json::Result<Response> {
    response.map_or(Ok(Response::default()), |raw| serde_json::from_str(raw.get()))
}

fn take_item(answer: &mut Answer, item: Option<&RawValue>) -> serde_json::Result<()> {
    if let Some(raw) = item {
        add(answer, serde_json::from_str(raw.get())?);
    }
    Ok(())
}

fn add(answer: &mut Answer, item: Item) {
    if item.kind == "function_call" {
        let Item { id, call_id, name, arguments, .. } = item;
        answer.add_call(Call { call_id, item_id: id, name, arguments });
    }
}

fn end(answer: &mut Answer, kind: &str, response: Response) -> serde_json::Result<()> {
    answer.response_id = response.id.or(answer.response_id.take());
    answer.usage = response.usage.map(usage).or(answer.usage);
    // Who left out the events of an item has it here.
    for item in response.output {
        if item["type"] == "function_call" {
            add(answer, serde_json::from_value(item)?);
        }
    }
    let stop = match kind {
        "response.completed" => answer.finished(),
        "response.failed" => Stop::Failed(response.error.unwrap_or_default().words()),
        _ => match response.incomplete_details.unwrap_or_default().reason.as_str() {
            "content_filter" => Stop::Refused("the answer was filtered".into()),
            _ => Stop::OutputLimit,
        },
    };
    answer.stop(stop);
    Ok(())
}

fn usage(counts: Counts) -> Usage {
    let cached = counts.input_tokens_details.unwrap_or_default().cached_tokens;
    Usage {
        input_tokens: counts.input_tokens.saturating_sub(cached),
        output_tokens: counts.output_tokens,
        cache_read_tokens: cached,
        ..Usage::default()
    }
}

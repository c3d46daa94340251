//! Requests: a rendered context, what was said and done since, and the tools that may be called.

use serde_json::{Map, Value, json};

use super::{Call, Dialect};

/// Calls of tools that one answer may ask for; as other writers of such requests have it.
const TOOL_CALLS_MAX: u64 = 32;
/// Tokens of an answer where Anthropic wants a number and nobody gave one.
const OUTPUT_TOKENS: u64 = 8_192;

/// What is asked.
#[derive(Debug)]
pub struct Request<'r> {
    pub model: Option<&'r str>,
    /// As [`crate::compile::render`] wrote it for the dialect.
    pub context: &'r [u8],
    pub rounds: &'r [Round],
    pub tools: &'r [ToolSpec],
    pub output_tokens_max: Option<u64>,
    /// Go on from where the provider's own conversation stands.
    pub previous_response_id: Option<&'r str>,
}

/// What a model said and what came of its calls, before it was asked again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Round {
    pub text: String,
    pub calls: Vec<Call>,
    pub outcomes: Vec<ToolOutcome>,
}

/// What a model is told of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolOutcome {
    pub call_id: String,
    pub output: String,
    pub is_error: bool,
}

/// A tool as models are told of it.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolSpec {
    pub name: String,
    pub description: String,
    /// JSON schema of its arguments.
    pub parameters: Value,
}

/// The bytes of a request. Keys are sorted, and the same request always has the same bytes.
pub fn body(dialect: Dialect, request: &Request<'_>) -> serde_json::Result<Vec<u8>> {
    let context: Value = serde_json::from_slice(request.context)?;
    let mut body = match dialect {
        Dialect::Responses => responses(context, request),
        Dialect::Chat => chat(context, request),
        Dialect::Messages => messages(context, request),
    };
    body.insert("stream".into(), true.into());
    if let Some(model) = request.model {
        body.insert("model".into(), model.into());
    }
    serde_json::to_vec(&body)
}

fn responses(context: Value, request: &Request<'_>) -> Map<String, Value> {
    let mut input = listed(context);
    for Round { text, calls, outcomes } in request.rounds {
        if !text.is_empty() {
            input.push(json!({"type": "message", "role": "assistant", "content": text}));
        }
        input.extend(calls.iter().map(|call| {
            let id = call.item_id.clone().unwrap_or_else(|| format!("fc_{}", call.call_id));
            let Call { call_id, name, arguments, .. } = call;
            json!({"type": "function_call", "id": id, "call_id": call_id, "name": name, "arguments": arguments})
        }));
        input.extend(outcomes.iter().map(|ToolOutcome { call_id, output, .. }| {
            let id = format!("output_{call_id}");
            json!({"type": "function_call_output", "id": id, "call_id": call_id, "output": output})
        }));
    }
    let mut body = members(json!({"input": input}));
    if !request.tools.is_empty() {
        let tool = |tool: &ToolSpec| {
            let ToolSpec { name, description, parameters } = tool;
            json!({"type": "function", "name": name, "description": description, "parameters": parameters, "strict": false})
        };
        body.insert("tools".into(), request.tools.iter().map(tool).collect());
        body.insert("tool_choice".into(), "auto".into());
        body.insert("parallel_tool_calls".into(), false.into());
        body.insert("max_tool_calls".into(), TOOL_CALLS_MAX.into());
    }
    if let Some(most) = request.output_tokens_max {
        body.insert("max_output_tokens".into(), most.into());
    }
    if let Some(id) = request.previous_response_id {
        body.insert("previous_response_id".into(), id.into());
    }
    body
}

fn chat(context: Value, request: &Request<'_>) -> Map<String, Value> {
    let mut messages = listed(context);
    for Round { text, calls, outcomes } in request.rounds {
        let calls: Vec<_> = calls
            .iter()
            .map(|Call { call_id, name, arguments, .. }| {
                json!({"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}})
            })
            .collect();
        messages.push(json!({"role": "assistant", "content": text, "tool_calls": calls}));
        messages.extend(outcomes.iter().map(
            |ToolOutcome { call_id, output, .. }| json!({"role": "tool", "tool_call_id": call_id, "content": output}),
        ));
    }
    let mut body = members(json!({"messages": messages, "stream_options": {"include_usage": true}}));
    if !request.tools.is_empty() {
        let tool = |ToolSpec { name, description, parameters }: &ToolSpec| {
            let function = json!({"name": name, "description": description, "parameters": parameters});
            json!({"type": "function", "function": function})
        };
        body.insert("tools".into(), request.tools.iter().map(tool).collect());
    }
    if let Some(most) = request.output_tokens_max {
        body.insert("max_tokens".into(), most.into());
    }
    body
}

fn messages(context: Value, request: &Request<'_>) -> Map<String, Value> {
    let mut body = members(context);
    let mut turns = listed(body.remove("messages").unwrap_or_default());
    for round in request.rounds {
        turns.push(json!({"role": "assistant", "content": called(round)}));
        let results: Vec<_> = round
            .outcomes
            .iter()
            .map(|ToolOutcome { call_id, output, is_error }| {
                json!({"type": "tool_result", "tool_use_id": call_id, "content": output, "is_error": is_error})
            })
            .collect();
        turns.push(json!({"role": "user", "content": results}));
    }
    body.insert("messages".into(), turns.into());
    if !request.tools.is_empty() {
        let tool = |ToolSpec { name, description, parameters }: &ToolSpec| json!({"name": name, "description": description, "input_schema": parameters});
        body.insert("tools".into(), request.tools.iter().map(tool).collect());
    }
    body.insert("max_tokens".into(), request.output_tokens_max.unwrap_or(OUTPUT_TOKENS).into());
    body
}

fn called(round: &Round) -> Vec<Value> {
    let text = Some(&round.text).filter(|text| !text.trim().is_empty());
    let calls = round.calls.iter().map(|Call { call_id, name, arguments, .. }| {
        // What is no object cannot be said again; that it did not fit is in the result.
        let input = serde_json::from_str(arguments).ok().filter(Value::is_object).unwrap_or_else(|| json!({}));
        json!({"type": "tool_use", "id": call_id, "name": name, "input": input})
    });
    text.into_iter().map(|text| json!({"type": "text", "text": text})).chain(calls).collect()
}

fn listed(value: Value) -> Vec<Value> {
    match value {
        Value::Array(items) => items,
        _ => Vec::new(),
    }
}

fn members(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(members) => members,
        _ => Map::new(),
    }
}

//! What a request shows the model, in words that both runtimes share.

use std::collections::HashMap;

use serde_json::{Value, json};

use crate::client::Client;
use crate::written::Written;

#[derive(Clone, Debug, PartialEq)]
pub enum Seen {
    User(String),
    Assistant(String),
    /// A call and what answered it: results of calls that were made at once come in any order.
    Call {
        id: String,
        name: String,
        input: Value,
        result: Option<String>,
    },
}

/// What stands in a request, before calls and results are brought together.
enum Part {
    Said(Seen),
    Call { id: String, name: String, input: Value },
    Result { id: String, text: String },
}

/// How texts begin that the harness puts among the words of the user.
const HARNESS: &[&str] = &[
    "<system-reminder>",
    "<environment_context>",
    "<permissions",
    "<user_instructions>",
    "<INSTRUCTIONS>",
    "# AGENTS.md",
    "<skills_instructions>",
    "<apps_instructions>",
    "<collaboration_mode>",
    "<personality_spec>",
    "<model_switch>",
    "<turn_aborted>",
    // What Claude Code says itself when a history ends without an answer, or without a question.
    "No response requested.",
    "Continue from where you left off.",
    OMITTED,
];

/// How Codex begins to say that an image is not sent: its model takes none, or it is no image.
const OMITTED: &str = "image content omitted because";

/// An image in a result, whichever way the runtime sends it.
const IMAGE: &str = "[image]";

/// What Claude Code says for a user who said nothing, as where a result belongs to no call that it sends.
const NOTHING: &str = "(no content)";

/// What the runtimes, and we, say of a call whose result is not in its place.
const UNANSWERED: [&str; 3] =
    ["[Tool result missing due to internal error]", "aborted", "[Interrupted: no result was recorded.]"];

/// What a conversation shows, in its order, without what the harness says itself.
pub fn seen(client: Client, items: &[Value]) -> Vec<Seen> {
    let parts: Vec<Part> = match client {
        Client::Claude => items.iter().flat_map(message).collect(),
        Client::Codex => items.iter().flat_map(item).collect(),
    };
    let results = parts.iter().filter_map(|part| match part {
        Part::Result { id, text } => Some((id.clone(), text.clone())),
        Part::Said(_) | Part::Call { .. } => None,
    });
    let mut results: HashMap<String, String> = results.collect();
    let shown = parts.into_iter().filter_map(|part| match part {
        Part::Said(seen) => Some(seen),
        Part::Call { id, name, input } => {
            let result = results.remove(&id);
            Some(Seen::Call { id, name, input, result })
        }
        Part::Result { .. } => None,
    });
    shown.filter(|seen| !is_harness(seen)).collect()
}

fn is_harness(seen: &Seen) -> bool {
    match seen {
        Seen::User(text) | Seen::Assistant(text) => {
            let text = text.trim_start();
            text.is_empty() || text == NOTHING || HARNESS.iter().any(|beginning| text.starts_with(beginning))
        }
        Seen::Call { .. } => false,
    }
}

fn message(message: &Value) -> Vec<Part> {
    let is_user = message["role"] == "user";
    if !is_user && message["role"] != "assistant" {
        return Vec::new();
    }
    let say = |text: &str| Part::Said(if is_user { Seen::User(text.into()) } else { Seen::Assistant(text.into()) });
    if let Some(text) = message["content"].as_str() {
        return vec![say(text)];
    }
    let blocks = message["content"].as_array().map(Vec::as_slice).unwrap_or_default();
    let shown = blocks.iter().filter_map(|block| match block["type"].as_str()? {
        "text" => block["text"].as_str().map(say),
        "tool_use" => {
            Some(Part::Call { id: text(block, "id"), name: text(block, "name"), input: block["input"].clone() })
        }
        "tool_result" => Some(Part::Result { id: text(block, "tool_use_id"), text: texts(&block["content"]) }),
        _ => None,
    });
    shown.collect()
}

fn item(item: &Value) -> Vec<Part> {
    match item["type"].as_str().unwrap_or("message") {
        "message" => {
            let parts = item["content"].as_array().map(Vec::as_slice).unwrap_or_default();
            let texts = parts.iter().filter_map(|part| part["text"].as_str());
            match item["role"].as_str() {
                Some("user") => texts.map(|text| Part::Said(Seen::User(text.to_owned()))).collect(),
                Some("assistant") => texts.map(|text| Part::Said(Seen::Assistant(text.to_owned()))).collect(),
                _ => Vec::new(),
            }
        }
        "function_call" => {
            let arguments = item["arguments"].as_str().unwrap_or_default();
            let input = serde_json::from_str(arguments).unwrap_or_else(|_| json!(arguments));
            vec![Part::Call { id: text(item, "call_id"), name: text(item, "name"), input }]
        }
        "custom_tool_call" => {
            vec![Part::Call { id: text(item, "call_id"), name: text(item, "name"), input: item["input"].clone() }]
        }
        "function_call_output" | "custom_tool_call_output" => {
            vec![Part::Result { id: text(item, "call_id"), text: texts(&item["output"]) }]
        }
        _ => Vec::new(),
    }
}

fn text(value: &Value, member: &str) -> String {
    value[member].as_str().unwrap_or_default().to_owned()
}

/// The text of a result, with a word for each image.
pub fn texts(value: &Value) -> String {
    let part = |part: &Value| match part["type"].as_str() {
        Some("image" | "input_image") => Some(IMAGE.to_owned()),
        _ => part["text"].as_str().map(|text| if text.starts_with(OMITTED) { IMAGE } else { text }.to_owned()),
    };
    match value {
        Value::String(text) if text.starts_with(OMITTED) => IMAGE.to_owned(),
        Value::String(text) => text.clone(),
        Value::Array(parts) => parts.iter().filter_map(part).collect::<Vec<_>>().join("\n"),
        _ => String::new(),
    }
}

/// What is wanted and not found in its place.
pub fn missing<'w>(wanted: &'w [Seen], found: &[Seen], written: &Written) -> Option<&'w Seen> {
    let mut rest = found.iter();
    wanted.iter().find(|wanted| !rest.any(|found| fits(wanted, found, written)))
}

/// The same, as far as the other runtime can say it: free text has a name there, and an error is told in words.
fn fits(wanted: &Seen, found: &Seen, written: &Written) -> bool {
    match (wanted, found) {
        (Seen::User(a), Seen::User(b)) | (Seen::Assistant(a), Seen::Assistant(b)) => a.trim() == b.trim(),
        (Seen::Call { id, name: a, input: given, result: said }, Seen::Call { name: b, input, result, .. }) => {
            same_tool(a, b)
                && (given == input || *input == json!({"input": given}) || *given == json!({"input": input}))
                && same_result(id, said.as_deref(), result.as_deref(), written)
        }
        _ => false,
    }
}

/// Where a runtime has no result in its place it says so, though the file may have one: that is as good.
fn same_result(id: &str, wanted: Option<&str>, found: Option<&str>, written: &Written) -> bool {
    let Some(found) = found else { return wanted.is_none() };
    match wanted.filter(|wanted| !UNANSWERED.contains(wanted)) {
        // Claude Code sends no references to tools that it does not offer.
        Some(wanted) if wanted.starts_with("[Tool references removed") => {
            written.tools_found(id).iter().all(|tool| found.contains(tool))
        }
        Some(wanted) => is_told(wanted, found),
        None => UNANSWERED.contains(&found) || written.result_text(id).is_some_and(|result| is_told(&result, found)),
    }
}

fn is_told(wanted: &str, found: &str) -> bool {
    let wanted = without_reminder(wanted);
    found.contains(wanted) || lines(found).starts_with(&lines(wanted))
}

/// Claude Code puts its reminders after results as it sends them.
fn without_reminder(result: &str) -> &str {
    result.split("\n\n<system-reminder>").next().unwrap_or_default().trim()
}

/// Claude Code renamed a tool, and says the new name of old calls as well.
fn same_tool(a: &str, b: &str) -> bool {
    a == b || [a, b].iter().all(|name| ["Task", "Agent"].contains(name))
}

fn lines(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A conversation as JSON with what may differ between two sessions made the same: ids of the session, and those that
/// Codex makes up for each request.
pub fn plain(items: &[Value], sessions: &[&str]) -> Vec<Value> {
    let items = items.iter().map(|item| {
        let mut item = without_cache_marks(item.clone());
        if let Some(members) = item.as_object_mut() {
            members.remove("id");
        }
        let mut text = item.to_string();
        for session in sessions {
            text = text.replace(session, "SESSION");
        }
        serde_json::from_str(&text).unwrap_or_default()
    });
    items.collect()
}

fn without_cache_marks(mut value: Value) -> Value {
    match &mut value {
        Value::Object(members) => {
            members.remove("cache_control");
            members.values_mut().for_each(|member| *member = without_cache_marks(member.take()));
        }
        Value::Array(values) => values.iter_mut().for_each(|value| *value = without_cache_marks(value.take())),
        _ => {}
    }
    value
}

//! What a request shows the model, in words that both runtimes share.

use serde_json::{Value, json};

use crate::client::Client;

#[derive(Clone, Debug, PartialEq)]
pub enum Seen {
    User(String),
    Assistant(String),
    Call { name: String, input: Value },
    Result(String),
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
    // What Codex says where its model takes no images.
    "image content omitted because",
];

/// What a conversation shows, in its order, without what the harness says itself.
pub fn seen(client: Client, items: &[Value]) -> Vec<Seen> {
    let shown = match client {
        Client::Claude => items.iter().flat_map(message).collect::<Vec<_>>(),
        Client::Codex => items.iter().flat_map(item).collect(),
    };
    shown.into_iter().filter(|seen| !is_harness(seen)).collect()
}

fn is_harness(seen: &Seen) -> bool {
    match seen {
        Seen::User(text) | Seen::Assistant(text) => {
            let text = text.trim_start();
            text.is_empty() || HARNESS.iter().any(|beginning| text.starts_with(beginning))
        }
        Seen::Result(text) => text.starts_with("[Tool references removed"),
        Seen::Call { .. } => false,
    }
}

fn message(message: &Value) -> Vec<Seen> {
    let is_user = message["role"] == "user";
    if !is_user && message["role"] != "assistant" {
        return Vec::new();
    }
    let say = |text: &str| if is_user { Seen::User(text.to_owned()) } else { Seen::Assistant(text.to_owned()) };
    if let Some(text) = message["content"].as_str() {
        return vec![say(text)];
    }
    let blocks = message["content"].as_array().map(Vec::as_slice).unwrap_or_default();
    let shown = blocks.iter().filter_map(|block| match block["type"].as_str()? {
        "text" => block["text"].as_str().map(say),
        "tool_use" => Some(Seen::Call { name: name(block), input: block["input"].clone() }),
        "tool_result" => Some(Seen::Result(texts(&block["content"]))),
        _ => None,
    });
    shown.collect()
}

fn item(item: &Value) -> Vec<Seen> {
    match item["type"].as_str().unwrap_or("message") {
        "message" => {
            let parts = item["content"].as_array().map(Vec::as_slice).unwrap_or_default();
            let texts = parts.iter().filter_map(|part| part["text"].as_str());
            match item["role"].as_str() {
                Some("user") => texts.map(|text| Seen::User(text.to_owned())).collect(),
                Some("assistant") => texts.map(|text| Seen::Assistant(text.to_owned())).collect(),
                _ => Vec::new(),
            }
        }
        "function_call" => {
            let arguments = item["arguments"].as_str().unwrap_or_default();
            let input = serde_json::from_str(arguments).unwrap_or_else(|_| json!(arguments));
            vec![Seen::Call { name: name(item), input }]
        }
        "custom_tool_call" => vec![Seen::Call { name: name(item), input: item["input"].clone() }],
        "function_call_output" | "custom_tool_call_output" => vec![Seen::Result(texts(&item["output"]))],
        _ => Vec::new(),
    }
}

fn name(value: &Value) -> String {
    value["name"].as_str().unwrap_or_default().to_owned()
}

fn texts(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(parts) => parts.iter().filter_map(|part| part["text"].as_str()).collect::<Vec<_>>().join("\n"),
        _ => String::new(),
    }
}

/// What is wanted and not found in its place.
pub fn missing<'w>(wanted: &'w [Seen], found: &[Seen]) -> Option<&'w Seen> {
    let mut rest = found.iter();
    wanted.iter().find(|wanted| !rest.any(|found| fits(wanted, found)))
}

/// The same, as far as the other runtime can say it: free text has a name there, and an error is told in words.
fn fits(wanted: &Seen, found: &Seen) -> bool {
    match (wanted, found) {
        (Seen::User(a), Seen::User(b)) | (Seen::Assistant(a), Seen::Assistant(b)) => a.trim() == b.trim(),
        // What Codex says of a call that nothing answered is its own.
        (Seen::Result(a), Seen::Result(_)) if a == "aborted" => true,
        (Seen::Result(a), Seen::Result(b)) => {
            b.contains(without_reminder(a)) || lines(b).starts_with(&lines(without_reminder(a)))
        }
        (Seen::Call { name: a, input: given }, Seen::Call { name: b, input }) => {
            same_tool(a, b)
                && (given == input || *input == json!({"input": given}) || *given == json!({"input": input}))
        }
        _ => false,
    }
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

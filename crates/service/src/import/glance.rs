//! What can be told at a glance of transcripts that no format reads: who spoke when, with which model, at what cost.
//!
//! It is enough for a commit to be found again by its time, its session and what was asked. The bytes are kept as they
//! are, so that a format that comes later can read all of them.

use enjamb_core::conversation::{Block, Conversation, Entry, Role, Usage, attribute};
use enjamb_core::{Timestamp, limits};
use serde_json::Value;

use super::Runtime;

/// What a document, or lines of one, say at a glance; none where nothing is known of them.
pub(super) fn glance(runtime: Runtime, bytes: &[u8]) -> Option<Conversation> {
    let values: Vec<Value> = serde_json::Deserializer::from_slice(bytes).into_iter().map_while(Result::ok).collect();
    let entries: Vec<Entry> = match runtime {
        Runtime::Gemini => values.iter().flat_map(gemini).collect(),
        Runtime::OpenCode => values.iter().flat_map(opencode).collect(),
        Runtime::ClaudeCode | Runtime::Codex | Runtime::Other => return None,
    };
    (!entries.is_empty()).then(|| Conversation { entries: last_of_each(entries) })
}

/// A session's document, or a line of its log: a message, or the session's own words about itself.
fn gemini(value: &Value) -> Vec<Entry> {
    let session = value["sessionId"].as_str();
    let messages = value["messages"].as_array().map_or(std::slice::from_ref(value), Vec::as_slice);
    messages.iter().filter_map(|message| gemini_message(message, session)).collect()
}

fn gemini_message(message: &Value, session: Option<&str>) -> Option<Entry> {
    let role = match message["type"].as_str()? {
        "user" => Role::User,
        "gemini" => Role::Assistant,
        _ => return None,
    };
    let mut entry = Entry::new(role, vec![Block::Text(text_of(&message["content"]))]);
    entry.id = message["id"].as_str().map(str::to_owned);
    entry.at = message["timestamp"].as_str().and_then(|time| time.parse().ok());
    entry.model = message["model"].as_str().map(str::to_owned);
    entry.set_attribute(attribute::SESSION_ID, session);
    let tokens = &message["tokens"];
    entry.usage = tokens.is_object().then(|| Usage {
        input_tokens: number(&tokens["input"]),
        output_tokens: number(&tokens["output"]) + number(&tokens["thoughts"]),
        cache_read_tokens: number(&tokens["cached"]),
        ..Usage::default()
    });
    Some(entry)
}

/// A session as it is exported: messages, each with its parts. In storage each is a file of its own.
fn opencode(value: &Value) -> Vec<Entry> {
    match value["messages"].as_array() {
        Some(messages) => {
            let directory = value["info"]["directory"].as_str();
            messages
                .iter()
                .filter_map(|message| opencode_message(&message["info"], &message["parts"], directory))
                .collect()
        }
        None => opencode_message(value, &Value::Null, None).into_iter().collect(),
    }
}

fn opencode_message(info: &Value, parts: &Value, directory: Option<&str>) -> Option<Entry> {
    let role = Role::from_name(info["role"].as_str()?)?;
    let texts = parts.as_array().into_iter().flatten().filter(|part| part["type"] == "text");
    let typed = texts.filter(|part| part["synthetic"] != true).filter_map(|part| part["text"].as_str());
    let mut entry = Entry::new(role, vec![Block::Text(typed.collect::<Vec<_>>().join("\n\n"))]);
    entry.id = info["id"].as_str().map(str::to_owned);
    entry.at = info["time"]["created"].as_i64().map(Timestamp::from_millis);
    entry.model = info["modelID"].as_str().map(str::to_owned);
    entry.set_attribute(attribute::SESSION_ID, info["sessionID"].as_str());
    entry.set_attribute(attribute::CWD, info["path"]["cwd"].as_str().or(directory));
    let tokens = &info["tokens"];
    entry.usage = tokens.is_object().then(|| Usage {
        input_tokens: number(&tokens["input"]),
        output_tokens: number(&tokens["output"]) + number(&tokens["reasoning"]),
        cache_read_tokens: number(&tokens["cache"]["read"]),
        cache_write_tokens: number(&tokens["cache"]["write"]),
        provisional: false,
    });
    Some(entry)
}

/// A text, or the texts of its parts.
fn text_of(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(parts) => parts.iter().filter_map(|part| part["text"].as_str()).collect::<Vec<_>>().join("\n\n"),
        _ => String::new(),
    }
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or(0)
}

/// A log says a message again whenever it changes: the last time counts, in the place of the first.
fn last_of_each(entries: Vec<Entry>) -> Vec<Entry> {
    let mut places = std::collections::HashMap::new();
    let mut kept: Vec<Entry> = Vec::with_capacity(entries.len().min(limits::PAGE_ROWS_MAX));
    for entry in entries {
        let Some(id) = entry.id.clone() else {
            kept.push(entry);
            continue;
        };
        match places.get(&id) {
            Some(&place) => kept[place] = entry,
            None => {
                places.insert(id, kept.len());
                kept.push(entry);
            }
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(runtime: Runtime, text: &str, expected: &str) {
        let found = glance(runtime, text.as_bytes()).unwrap_or_default();
        let line = |entry: &Entry| {
            let time = entry.at.map(|at| at.as_millis()).unwrap_or_default();
            let output = entry.usage.map(|usage| usage.output_tokens).unwrap_or_default();
            format!("{} {} {time} {output}", entry.role.as_str(), entry.text())
        };
        assert_eq!(found.entries.iter().map(line).collect::<Vec<_>>().join("; "), expected);
    }

    #[test]
    fn a_document_of_gemini_and_its_log_say_the_same() {
        let asked = r#"{"id":"1","timestamp":"1970-01-01T00:00:01Z","type":"user","content":[{"text":"why?"}]}"#;
        let answered = r#"{"id":"2","timestamp":"1970-01-01T00:00:02Z","type":"gemini","content":"so","model":"g","tokens":{"output":3,"thoughts":4}}"#;
        let expected = "user why? 1000 0; assistant so 2000 7";
        check(Runtime::Gemini, &format!("{{\n\"sessionId\":\"s\",\"messages\":[{asked},\n{answered}]}}"), expected);
        let begun = answered.replace("\"so\"", "\"s\"");
        let log = format!("{{\"sessionId\":\"s\"}}\n{asked}\n{begun}\n{{\"$set\":{{}}}}\n{answered}\n");
        check(Runtime::Gemini, &log, expected);
    }

    #[test]
    fn an_export_of_opencode_and_a_stored_message_are_read() {
        let info = r#"{"id":"msg_1","sessionID":"ses_1","role":"assistant","time":{"created":5},"modelID":"m","tokens":{"output":2,"reasoning":1}}"#;
        let parts = r#"[{"type":"text","text":"so"},{"type":"tool"},{"type":"text","text":"x","synthetic":true}]"#;
        let export = format!(r#"{{"info":{{"id":"ses_1"}},"messages":[{{"info":{info},"parts":{parts}}}]}}"#);
        check(Runtime::OpenCode, &export, "assistant so 5 3");
        check(Runtime::OpenCode, info, "assistant  5 3");
        check(Runtime::OpenCode, "nonsense", "");
        check(Runtime::Codex, info, "");
    }
}

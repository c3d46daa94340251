//! What any program prints, as records of `generic-v1`: lines that are records already stay as they are, and other lines
//! are what it said.

use serde_json::{Value, json};

/// What a line of output is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Text,
    /// A record that ends nothing.
    Record,
    ToolResult,
    /// The agent's answer, with nothing left to do.
    TurnEnd,
}

/// Records of output that ends after whole lines, or with the output itself.
pub(super) fn records(output: &[u8], asked: Option<&str>) -> Vec<u8> {
    let mut records = Vec::new();
    if let Some(asked) = asked {
        push(&mut records, "user", asked);
    }
    let mut said: Vec<u8> = Vec::new();
    for line in output.split_inclusive(|byte| *byte == b'\n') {
        if kind(line) == Kind::Text {
            said.extend_from_slice(line);
            continue;
        }
        flush(&mut said, &mut records);
        records.extend_from_slice(line.trim_ascii());
        records.push(b'\n');
    }
    flush(&mut said, &mut records);
    records
}

fn flush(said: &mut Vec<u8>, records: &mut Vec<u8>) {
    let text = String::from_utf8_lossy(&std::mem::take(said)).into_owned();
    if !text.trim().is_empty() {
        push(records, "assistant", text.trim_end_matches('\n'));
    }
}

fn push(records: &mut Vec<u8>, role: &str, text: &str) {
    records.extend_from_slice(json!({"role": role, "content": text}).to_string().as_bytes());
    records.push(b'\n');
}

pub(super) fn kind(line: &[u8]) -> Kind {
    if !line.trim_ascii_start().starts_with(b"{") {
        return Kind::Text;
    }
    let Ok(record) = serde_json::from_slice::<Value>(line) else { return Kind::Text };
    let has_part = |name: &str| {
        let parts = record["content"].as_array().into_iter().flatten();
        parts.into_iter().any(|part| part["type"] == name)
    };
    let calls = ["tool_call", "tool_use"].iter().any(|name| has_part(name))
        || record["tool_calls"].as_array().is_some_and(|calls| !calls.is_empty());
    match record["role"].as_str() {
        None => Kind::Text,
        Some("tool" | "function") => Kind::ToolResult,
        Some(_) if has_part("tool_result") => Kind::ToolResult,
        Some("assistant" | "ai" | "model") if !calls => Kind::TurnEnd,
        Some(_) => Kind::Record,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_stay_and_text_is_what_was_said() {
        let record = r#"{"role":"tool","tool_call_id":"c","content":"7"}"#;
        let output = format!("one\ntwo\n{record}\n\n{{\"no\":\"role\"}}\nlast");
        let found = String::from_utf8(records(output.as_bytes(), Some("$ agent"))).unwrap();
        let expected = [
            r#"{"content":"$ agent","role":"user"}"#,
            r#"{"content":"one\ntwo","role":"assistant"}"#,
            record,
            r#"{"content":"\n{\"no\":\"role\"}\nlast","role":"assistant"}"#,
        ];
        assert_eq!(found.lines().collect::<Vec<_>>(), expected);
        assert!(records(b"\n \n", None).is_empty());
    }

    #[test]
    fn an_answer_without_calls_ends_the_turn() {
        for (line, expected) in [
            (r#"{"role":"assistant","content":"so"}"#, Kind::TurnEnd),
            (r#"{"role":"assistant","tool_calls":[{"id":"c"}]}"#, Kind::Record),
            (r#"{"role":"assistant","content":[{"type":"tool_use"}]}"#, Kind::Record),
            (r#"{"role":"user","content":[{"type":"tool_result"}]}"#, Kind::ToolResult),
            (r#"{"role":"user","content":"why?"}"#, Kind::Record),
            (r#"["role"]"#, Kind::Text),
        ] {
            assert_eq!(kind(line.as_bytes()), expected, "{line}");
        }
    }
}

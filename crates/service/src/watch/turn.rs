//! Whether a transcript ends where a turn does, told from its last lines. Cutting there makes a commit of each turn; where
//! it cannot be told, time has to.

use serde_json::Value;

use crate::Runtime;

/// `tail` is the end of a transcript, cut anywhere.
pub(crate) fn is_over(runtime: Runtime, tail: &[u8]) -> bool {
    let Some(tail) = tail.strip_suffix(b"\n") else { return false };
    let records = tail.rsplit(|byte| *byte == b'\n').map(|line| serde_json::from_slice::<Value>(line).ok());
    for record in records {
        let Some(record) = record else { return false };
        let told = match runtime {
            Runtime::ClaudeCode => claude_code(&record),
            Runtime::Codex => codex(&record),
            Runtime::Gemini | Runtime::OpenCode | Runtime::Other => Some(false),
        };
        if let Some(is_over) = told {
            return is_over;
        }
    }
    false
}

/// What a record of Claude Code says of the turn; nothing, for those that are written whenever it suits.
fn claude_code(record: &Value) -> Option<bool> {
    match record["type"].as_str() {
        Some("assistant") => {
            let stopped = matches!(
                record["message"]["stop_reason"].as_str(),
                Some("end_turn" | "stop_sequence" | "max_tokens" | "refusal")
            );
            Some(stopped || record["isApiErrorMessage"] == true)
        }
        Some("user") => Some(is_interruption(&record["message"]["content"])),
        Some("system") => match record["subtype"].as_str() {
            Some("turn_duration" | "stop_hook_summary") => Some(true),
            _ => None,
        },
        _ => None,
    }
}

/// Whether the last record is what a tool gave back.
pub(crate) fn is_tool_result(runtime: Runtime, tail: &[u8]) -> bool {
    let Some(tail) = tail.strip_suffix(b"\n") else { return false };
    let last = tail.rsplit(|byte| *byte == b'\n').next().unwrap_or_default();
    let Ok(record) = serde_json::from_slice::<Value>(last) else { return false };
    match runtime {
        Runtime::ClaudeCode => record["type"] == "user" && record["message"]["content"][0]["type"] == "tool_result",
        Runtime::Codex => {
            let kind = record["payload"]["type"].as_str().unwrap_or_default();
            record["type"] == "response_item" && kind.ends_with("_output")
        }
        Runtime::Gemini | Runtime::OpenCode | Runtime::Other => false,
    }
}

fn is_interruption(content: &Value) -> bool {
    let text = content.as_str().or_else(|| content[0]["text"].as_str());
    text.is_some_and(|text| text.starts_with("[Request interrupted by user"))
}

fn codex(record: &Value) -> Option<bool> {
    match (record["type"].as_str(), record["payload"]["type"].as_str()) {
        (Some("event_msg"), Some("task_complete" | "turn_complete" | "turn_aborted")) => Some(true),
        (Some("event_msg"), Some("token_count")) => None,
        _ => Some(false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(runtime: Runtime, lines: &[&str], expected: bool) {
        let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
        assert_eq!(is_over(runtime, text.as_bytes()), expected, "{text}");
    }

    #[test]
    fn claude_code_says_why_it_stopped() {
        let asks = r#"{"type":"user","message":{"content":"why?"}}"#;
        let calls = r#"{"type":"assistant","message":{"stop_reason":"tool_use"}}"#;
        let ends = r#"{"type":"assistant","message":{"stop_reason":"end_turn"}}"#;
        let mode = r#"{"type":"mode","mode":"normal"}"#;
        let stopped =
            r#"{"type":"user","message":{"content":[{"type":"text","text":"[Request interrupted by user]"}]}}"#;
        check(Runtime::ClaudeCode, &[asks, ends], true);
        check(Runtime::ClaudeCode, &[asks, ends, mode, mode], true);
        check(Runtime::ClaudeCode, &[ends, asks], false);
        check(Runtime::ClaudeCode, &[ends, asks, calls], false);
        check(Runtime::ClaudeCode, &[asks, calls, stopped], true);
        check(Runtime::ClaudeCode, &[mode], false);
        assert!(!is_over(Runtime::ClaudeCode, ends.as_bytes()), "a line that is not whole tells nothing");
        check(Runtime::ClaudeCode, &["rest of a long line\"}", mode], false);
    }

    #[test]
    fn a_result_of_a_tool_is_known() {
        let result = b"{}\n{\"type\":\"user\",\"message\":{\"content\":[{\"type\":\"tool_result\"}]}}\n";
        let output = b"{\"type\":\"response_item\",\"payload\":{\"type\":\"function_call_output\"}}\n";
        assert!(is_tool_result(Runtime::ClaudeCode, result) && is_tool_result(Runtime::Codex, output));
        assert!(!is_tool_result(Runtime::Codex, result) && !is_tool_result(Runtime::ClaudeCode, b"{}\n"));
        assert!(!is_tool_result(Runtime::Codex, output.trim_ascii()), "the line is not whole");
    }

    #[test]
    fn codex_says_that_a_task_is_complete() {
        let item = r#"{"type":"response_item","payload":{"type":"message"}}"#;
        let done = r#"{"type":"event_msg","payload":{"type":"task_complete"}}"#;
        let count = r#"{"type":"event_msg","payload":{"type":"token_count"}}"#;
        check(Runtime::Codex, &[item, done, count], true);
        check(Runtime::Codex, &[done, item], false);
        check(Runtime::Gemini, &[done], false);
    }
}

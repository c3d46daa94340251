//! Small rollouts of Codex, and what is read from them.

use enjamb_core::conversation::{Block, Entry, Role, Standing};

use super::*;
use crate::tokens::TokenMethod;

fn line(kind: &str, payload: &str) -> String {
    format!(r#"{{"timestamp":"2026-04-11T20:15:02.756Z","type":"{kind}","payload":{payload}}}{}"#, "\n")
}

fn item(payload: &str) -> String {
    line("response_item", payload)
}

fn message(role: &str, text: &str) -> String {
    let part = if role == "assistant" { "output_text" } else { "input_text" };
    item(&format!(r#"{{"type":"message","role":"{role}","content":[{{"type":"{part}","text":"{text}"}}]}}"#))
}

fn meta() -> String {
    line(
        "session_meta",
        r#"{"id":"s1","timestamp":"2026-04-11T20:15:02.756Z","originator":"codex","cwd":"/w","cli_version":"0.1","git":{"branch":"main"}}"#,
    )
}

fn tokens(total: u64, last: u64) -> String {
    let info = format!(
        r#"{{"total_token_usage":{{"output_tokens":{total}}},"last_token_usage":{{"output_tokens":{last},"input_tokens":50}}}}"#
    );
    line("event_msg", &format!(r#"{{"type":"token_count","info":{info}}}"#))
}

/// Role, standing and text of every message.
fn told(lines: &[String]) -> Vec<String> {
    let conversation = Codex.decode(lines.concat().as_bytes()).unwrap();
    let word = |entry: &Entry| match entry.blocks.last() {
        Some(Block::Compaction { summary }) => format!("summary {summary}"),
        Some(_) | None => entry.text(),
    };
    let messages = conversation.entries.iter().filter(|entry| entry.is_message());
    messages.map(|entry| format!("{} {}: {}", entry.role.as_str(), entry.standing.as_str(), word(entry))).collect()
}

#[test]
fn a_turn_is_read_with_its_model_and_its_count() {
    let lines = [
        meta(),
        line("turn_context", r#"{"cwd":"/w/sub","model":"gpt-x"}"#),
        message("user", "<environment_context>x</environment_context>"),
        message("user", "fix it"),
        line("event_msg", r#"{"type":"user_message","message":"fix it"}"#),
        item(
            r#"{"type":"reasoning","summary":[{"type":"summary_text","text":"hm"}],"encrypted_content":"gAAAAABpzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz"}"#,
        ),
        item(r#"{"type":"custom_tool_call","call_id":"c1","name":"apply_patch","input":"*** Update File: a.rs\n"}"#),
        tokens(20, 20),
        item(r#"{"type":"custom_tool_call_output","call_id":"c1","output":"ok"}"#),
        tokens(20, 20),
        item(r#"{"type":"function_call","call_id":"c2","name":"exec","arguments":"{\"cmd\":[\"ls\"]}"}"#),
        tokens(25, 5),
        item(r#"{"type":"function_call_output","call_id":"c2","output":[{"type":"input_text","text":"a.rs"}]}"#),
    ];
    let bytes = lines.concat();
    let found = Codex.inspect(bytes.as_bytes()).unwrap();
    assert_eq!((found.messages, found.records), (7, 13));
    assert_eq!((found.tokens.reported, found.tokens.method), (25, TokenMethod::Usage));
    assert_eq!((found.first_prompt.as_deref(), found.models.as_slice()), (Some("fix it"), &["gpt-x".to_owned()][..]));
    assert!(found.unknown.is_empty(), "{:?}", found.unknown);
    let conversation = Codex.decode(bytes.as_bytes()).unwrap();
    assert_eq!(conversation.files_touched().written.into_iter().collect::<Vec<_>>(), ["a.rs"]);
    assert_eq!(conversation.entries[3].attribute(attribute::CWD), Some("/w/sub"));
    assert_eq!(Codex.validate(bytes.as_bytes()), []);
}

#[test]
fn a_compaction_replaces_what_came_before_and_repeats_are_counted_once() {
    let history =
        r#"[{"type":"message","role":"user","content":"do it"},{"type":"message","role":"user","content":"the sum"}]"#;
    let lines = [
        meta(),
        message("user", "do it"),
        message("assistant", "did"),
        line("compacted", &format!(r#"{{"message":"the sum","replacement_history":{history}}}"#)),
        message("user", "next"),
    ];
    assert_eq!(
        told(&lines),
        [
            "user compacted: do it",
            "assistant compacted: did",
            "user context: summary the sum",
            "user context: do it",
            "user context: next"
        ]
    );
    assert_eq!(Codex.inspect(lines.concat().as_bytes()).unwrap().messages, 4);
}

#[test]
fn a_summary_that_nobody_else_can_read_is_passed_over_elsewhere() {
    let history =
        r#"[{"type":"message","role":"user","content":"do it"},{"type":"compaction","encrypted_content":"z"}]"#;
    let lines = [
        meta(),
        message("user", "do it"),
        message("assistant", "did"),
        line("compacted", &format!(r#"{{"message":"","replacement_history":{history}}}"#)),
        message("user", "next"),
    ];
    let conversation = Codex.decode(lines.concat().as_bytes()).unwrap();
    let elsewhere = crate::by_id("anthropic-messages-v1").unwrap();
    let encoded = elsewhere.encode(&conversation);
    let texts: Vec<String> = elsewhere.decode(&encoded.bytes).unwrap().entries.iter().map(Entry::text).collect();
    assert_eq!(texts, ["do it", "did", "next"]);
    assert_eq!(encoded.fidelity().blocks(), conversation.block_count());
    let again = Codex.decode(&Codex.encode(&conversation).bytes).unwrap();
    assert_eq!(again, conversation, "at home it stays as it is");
}

#[test]
fn a_roll_back_takes_the_last_turns_away_once() {
    let lines = [
        meta(),
        message("user", "one"),
        message("assistant", "1"),
        message("user", "two"),
        message("assistant", "2"),
        line("event_msg", r#"{"type":"thread_rolled_back","num_turns":1}"#),
        message("user", "three"),
    ];
    let expected = [
        "user context: one",
        "assistant context: 1",
        "user abandoned: two",
        "assistant abandoned: 2",
        "user context: three",
    ];
    assert_eq!(told(&lines), expected);
    let written = Codex.encode(&Codex.decode(lines.concat().as_bytes()).unwrap()).bytes;
    let again = Codex.decode(&written).unwrap();
    assert!(again.entries.iter().all(|entry| entry.standing == Standing::Context));
    assert_eq!(again.messages().map(Entry::text).collect::<Vec<_>>(), ["one", "1", "three"]);
}

#[test]
fn rollouts_without_envelopes_are_read_too() {
    let lines = [
        r#"{"id":"s0","timestamp":"2025-06-01T00:00:00Z","instructions":null}"#,
        r#"{"record_type":"state"}"#,
        r#"{"type":"message","role":"user","content":[{"type":"input_text","text":"hi"}]}"#,
    ];
    let found = Codex.inspect(lines.join("\n").as_bytes()).unwrap();
    assert_eq!((found.messages, found.records, found.first_prompt.as_deref()), (1, 3, Some("hi")));
    assert!(found.unknown.is_empty());
}

#[test]
fn a_rollout_without_its_session_would_not_open() {
    let codes: Vec<&str> =
        Codex.validate(message("user", "hi").as_bytes()).into_iter().map(|problem| problem.code.as_str()).collect();
    assert_eq!(codes, ["cwd-missing", "session-meta-missing"]);
}

#[test]
fn a_written_rollout_is_one_that_resumes() {
    let entries = vec![
        Entry::new(Role::User, vec![Block::Text("look".to_owned())]),
        Entry::new(Role::Assistant, vec![Block::Text("done".to_owned())]),
    ];
    let bytes = Codex.encode(&Conversation { entries }).bytes;
    assert_eq!(Codex.validate(&bytes), []);
    let text = String::from_utf8(bytes).unwrap();
    let kinds = ["session_meta", "response_item", "user_message", "response_item", "agent_message"];
    assert_eq!(text.lines().count(), kinds.len());
    for (line, kind) in text.lines().zip(kinds) {
        assert!(line.contains(&format!("\"type\":\"{kind}\"")), "{line}");
    }
}

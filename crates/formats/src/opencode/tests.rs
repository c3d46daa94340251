//! Sessions as opencode keeps them, in our own words.

use enjamb_core::conversation::{Block, Conversation, Entry, Standing, attribute};

use super::OpenCode;
use crate::format::Format;

const SESSION: &str =
    r#"{"info":{"id":"ses_1","projectID":"p","directory":"/w","parentID":"ses_0","time":{"created":5}}}"#;
const ASKED: &str = r#"{"info":{"id":"msg_1","sessionID":"ses_1","role":"user","time":{"created":1000}},"parts":[{"id":"prt_1","type":"text","text":"why?"}]}"#;
const REPLY: &str = r#"{"info":{"id":"msg_2","sessionID":"ses_1","role":"assistant","time":{"created":2000},"modelID":"m","cost":0.25,"tokens":{"input":9,"output":3,"reasoning":2,"cache":{"read":4,"write":1}}},"parts":[{"id":"prt_2","type":"step-start"},{"id":"prt_3","type":"reasoning","text":"hm","metadata":{"openai":{"reasoningEncryptedContent":"x"}}},{"id":"prt_4","type":"tool","callID":"c","tool":"read","state":{"status":"completed","input":{"filePath":"a"},"output":"text","attachments":[{"type":"file","mime":"image/png","url":"data:image/png;base64,AA"}]}}]}"#;

fn read(lines: &[&str]) -> Conversation {
    OpenCode.decode(lines.join("\n").as_bytes()).unwrap()
}

/// Who says what, and what the model would no longer see in brackets.
fn told(conversation: &Conversation) -> Vec<String> {
    let one = |entry: &Entry| {
        let words: Vec<String> = entry.blocks.iter().map(word).collect();
        let line = format!("{}: {}", entry.role.as_str(), words.join(", "));
        if entry.standing == Standing::Context { line } else { format!("[{line}]") }
    };
    conversation.entries.iter().map(one).collect()
}

fn word(block: &Block) -> String {
    match block {
        Block::Text(text) => text.clone(),
        Block::Reasoning(thought) => format!("thinks {}", thought.text),
        Block::ToolCall(call) => format!("calls {}", call.name),
        Block::ToolResult(result) => format!("gives {} and {} more", result.text(), result.content.len() - 1),
        Block::Image(_) => "an image".to_owned(),
        Block::Compaction { summary } => format!("sums up {summary}"),
        Block::Verbatim(verbatim) => verbatim.kind.clone(),
    }
}

#[test]
fn a_message_is_its_parts() {
    let found = read(&[SESSION, ASKED, REPLY]);
    assert_eq!(
        told(&found),
        [
            "system: session",
            "user: why?",
            "assistant: part/step-start, thinks hm, calls read",
            "tool: gives text and 1 more"
        ]
    );
    let reply = &found.entries[2];
    let usage = reply.usage.unwrap();
    assert_eq!((usage.input_tokens, usage.output_tokens, usage.cache_write_tokens), (9, 5, 1));
    let attribute = |name| reply.attribute(name);
    assert_eq!((attribute(attribute::COST), attribute(attribute::PARENT_SESSION)), (Some("0.25"), Some("ses_0")));
    assert_eq!((attribute(attribute::CWD), reply.model.as_deref()), (Some("/w"), Some("m")));
    assert_eq!(OpenCode.validate([SESSION, ASKED, REPLY].join("\n").as_bytes()), []);
    let bytes = OpenCode.encode(&found).bytes;
    assert_eq!(told(&OpenCode.decode(&bytes).unwrap()), told(&found));
}

#[test]
fn rows_and_files_say_the_same() {
    let rows = read(&[
        r#"{"table":"session","id":"ses_1","directory":"/w","parent_id":null}"#,
        r#"{"table":"message","id":"msg_1","session_id":"ses_1","data":{"role":"user","time":{"created":1000}}}"#,
        r#"{"table":"part","id":"prt_1","message_id":"msg_1","data":{"type":"text","text":"why?"}}"#,
    ]);
    let files = read(&[
        r#"{"id":"ses_1","directory":"/w"}"#,
        r#"{"id":"msg_1","sessionID":"ses_1","role":"user","time":{"created":1000}}"#,
        r#"{"id":"prt_1","messageID":"msg_1","sessionID":"ses_1","type":"text","text":"why?"}"#,
    ]);
    assert_eq!(told(&rows), told(&files));
    assert_eq!(rows.entries[1], files.entries[1]);
}

#[test]
fn the_last_of_a_thing_counts_and_what_was_reverted_is_taken_back() {
    let changed = r#"{"id":"prt_1","messageID":"msg_1","type":"text","text":"why so?"}"#;
    let found = read(&[
        SESSION,
        r#"{"id":"msg_1","role":"user"}"#,
        r#"{"id":"prt_1","messageID":"msg_1","type":"text","text":"why?"}"#,
        changed,
    ]);
    assert_eq!(told(&found)[1], "user: why so?");
    let reverted = SESSION.replace("\"time\"", "\"revert\":{\"messageID\":\"msg_1\"},\"time\"");
    assert!(told(&read(&[&reverted, ASKED]))[1].starts_with('['));
    // A part whose message is elsewhere still says what it says.
    assert_eq!(told(&read(&[changed])), ["assistant: why so?"]);
}

#[test]
fn a_summary_stands_for_what_was_said_but_for_its_tail() {
    let marker =
        r#"{"info":{"id":"msg_3","role":"user"},"parts":[{"type":"compaction","auto":true,"tail_start_id":"msg_2"}]}"#;
    let summary =
        r#"{"info":{"id":"msg_4","role":"assistant","summary":true},"parts":[{"type":"text","text":"so far"}]}"#;
    let found = read(&[SESSION, ASKED, REPLY, marker, summary]);
    let lines = told(&found);
    assert_eq!((lines[1].as_str(), lines[5].as_str()), ("[user: why?]", "user: sums up so far"));
    assert_eq!(found.entries[2].attribute(attribute::KEPT), Some("true"));
    let again = OpenCode.decode(&OpenCode.encode(&found).bytes).unwrap();
    assert_eq!(told(&again), lines);
}

#[test]
fn an_export_is_unrolled_into_its_messages() {
    let info = r#"{"id":"ses_1","directory":"/w","title":"t","time":{"created":5,"updated":9}}"#;
    let document = format!("{{\n \"info\": {info},\n \"messages\": [\n  {ASKED},\n  {REPLY}\n ]\n}}\n");
    let lines = OpenCode.unroll(document.as_bytes()).unwrap();
    let texts: Vec<&str> = lines.iter().map(|line| line.text.as_str()).collect();
    let header = r#"{"info":{"id":"ses_1","directory":"/w","time":{"created":5}}}"#;
    assert_eq!(texts, [header, ASKED, REPLY]);
    assert_eq!(&document[lines[2].range.clone().unwrap()], REPLY);
    assert_eq!(OpenCode.unroll(b"{\"id\":\"ses_1\"}").unwrap()[0].text, "{\"id\":\"ses_1\"}");
    assert!(OpenCode.unroll(b"{\"a\":1}").is_none());
}

//! Chats as Gemini CLI writes them, in our own words.

use enjamb_core::conversation::{Block, Conversation, Entry, Role, Standing, attribute};

use super::Gemini;
use crate::format::Format;

const HEADER: &str = r#"{"sessionId":"s1","projectHash":"h","startTime":"2026-01-01T00:00:00.000Z","lastUpdated":"2026-01-01T00:00:00.000Z","kind":"main"}"#;

fn read(lines: &[&str]) -> Conversation {
    Gemini.decode(lines.join("\n").as_bytes()).unwrap()
}

/// Who says what, and what the model would no longer see in brackets.
fn told(conversation: &Conversation) -> Vec<String> {
    let one = |entry: &Entry| {
        let words: Vec<String> = entry.blocks.iter().map(word).collect();
        let line = format!("{}: {}", entry.role.as_str(), words.join(", "));
        if entry.standing == Standing::Context { line } else { format!("[{line}]") }
    };
    conversation.entries.iter().filter(|entry| entry.is_message()).map(one).collect()
}

fn word(block: &Block) -> String {
    match block {
        Block::Text(text) => text.clone(),
        Block::Reasoning(thought) => format!("thinks {:?}", thought.text),
        Block::ToolCall(call) => format!("calls {} {}", call.name, call.input.get()),
        Block::ToolResult(result) => format!("{} {}", if result.is_error { "fails" } else { "gives" }, result.text()),
        Block::Image(_) => "an image".to_owned(),
        Block::Compaction { summary } => format!("sums up {summary}"),
        Block::Verbatim(verbatim) => verbatim.kind.clone(),
    }
}

const REPLY: &str = r#"{"id":"g1","timestamp":"2026-01-01T00:00:02.000Z","type":"gemini","content":"I look.","thoughts":[{"subject":"Where","description":"is it?","timestamp":"t"}],"tokens":{"input":9,"output":3,"cached":4,"thoughts":2,"tool":0,"total":14},"model":"gemini-3-pro","toolCalls":[{"id":"c1","name":"read_file","args":{"file_path":"a"},"result":[{"functionResponse":{"id":"c1","name":"read_file","response":{"output":"text"}}}],"status":"success","resultDisplay":"shown"},{"id":"c2","name":"run","args":{},"result":null,"status":"cancelled","resultDisplay":"stopped"}]}"#;

#[test]
fn a_reply_is_what_was_thought_said_called_and_answered() {
    let ask = r#"{"id":"u1","timestamp":"2026-01-01T00:00:01.000Z","type":"user","content":[{"text":"fix it"},{"inlineData":{"mimeType":"image/png","data":"AA"}}]}"#;
    let found = read(&[HEADER, ask, REPLY, r#"{"$set":{"lastUpdated":"x"}}"#]);
    assert_eq!(
        told(&found),
        [
            "user: fix it, an image",
            r#"assistant: thinks "**Where**\n\nis it?", I look., calls read_file {"file_path":"a"}, calls run {}"#,
            "tool: gives text, fails stopped",
        ]
    );
    let reply = &found.entries[2];
    let usage = reply.usage.unwrap();
    assert_eq!((usage.input_tokens, usage.output_tokens, usage.cache_read_tokens), (9, 5, 4));
    assert_eq!((reply.model.as_deref(), reply.attribute(attribute::SESSION_ID)), (Some("gemini-3-pro"), Some("s1")));
    assert_eq!(Gemini.validate([HEADER, ask, REPLY].join("\n").as_bytes()), []);
}

#[test]
fn the_last_of_a_message_counts_and_a_rewind_takes_back() {
    let user = |id: &str, text: &str| format!(r#"{{"id":"{id}","type":"user","content":"{text}"}}"#);
    let found = read(&[
        &user("a", "one"),
        &user("b", "two"),
        &user("a", "one, rather"),
        &user("c", "three"),
        r#"{"$rewindTo":"b"}"#,
        &user("d", "four"),
    ]);
    assert_eq!(told(&found), ["user: one, rather", "[user: two]", "[user: three]", "user: four"]);
    let found = read(&[&user("a", "one"), r#"{"$rewindTo":"nobody"}"#]);
    assert_eq!(told(&found), ["[user: one]"]);
}

#[test]
fn a_compression_stands_for_what_was_said() {
    let user = |id: &str, text: &str| format!(r#"{{"id":"{id}","type":"user","content":"{text}"}}"#);
    let set = format!(r#"{{"$set":{{"messages":[{},{}]}}}}"#, user("s", "so far"), user("b", "kept"));
    let lines = [user("a", "one"), user("b", "kept"), set, user("c", "on")];
    let found = read(&lines.each_ref().map(String::as_str));
    assert_eq!(told(&found), ["[user: one]", "[user: kept]", "user: $set, sums up so far", "user: kept", "user: on"]);
    let again = Gemini.decode(&Gemini.encode(&found).bytes).unwrap();
    assert_eq!(told(&again), told(&found));
    // At the beginning the list is no more than a list.
    let first = format!(r#"{{"$set":{{"messages":[{}]}}}}"#, user("a", "one"));
    assert_eq!(told(&read(&[HEADER, &first])), ["user: one"]);
}

#[test]
fn what_was_typed_for_the_program_is_no_prompt() {
    let found =
        read(&[r#"{"id":"a","type":"user","content":"/compress"}"#, r#"{"id":"b","type":"user","content":"go"}"#]);
    assert_eq!(found.first_prompt().as_deref(), Some("go"));
    let problems = Gemini.validate(br#"{"id":"a","type":"user","content":"/compress"}"#);
    assert_eq!(problems[0].code.as_str(), "prompt-ignored");
}

#[test]
fn a_document_is_unrolled_into_lines_that_only_grow() {
    let message = |id: &str| format!("{{\n      \"id\": \"{id}\", \"type\": \"user\",\n \"content\": \"a  b\"}}");
    let document = |ids: &[&str], time: &str| {
        let messages: Vec<String> = ids.iter().map(|id| message(id)).collect();
        format!(
            "{{\n  \"sessionId\": \"s1\",\n  \"projectHash\": \"h\",\n  \"startTime\": \"t\",\n  \"lastUpdated\": \"{time}\",\n  \"messages\": [\n    {}\n  ]\n}}",
            messages.join(",\n    ")
        )
    };
    let (old, new) = (document(&["a", "b"], "t1"), document(&["a", "b", "c"], "t2"));
    let lines = |text: &str| Gemini.unroll(text.as_bytes()).unwrap();
    let texts = |text: &str| lines(text).into_iter().map(|line| line.text).collect::<Vec<_>>();
    assert_eq!(texts(&new)[..3], texts(&old));
    assert_eq!(texts(&new)[3], r#"{"id":"c","type":"user","content":"a  b"}"#);
    let range = lines(&new)[2].range.clone().unwrap();
    assert_eq!(&new[range], message("b"));
    assert_eq!(told(&Gemini.decode(new.as_bytes()).unwrap()).len(), 3);
    assert!(Gemini.unroll(b"{\"messages\":[]}").is_none() && Gemini.unroll(b"[1]").is_none());
}

#[test]
fn a_conversation_from_elsewhere_is_a_chat_that_can_be_taken_up() {
    let mut reply = Entry::new(Role::Assistant, vec![Block::Text("so".to_owned())]);
    reply.model = Some("m".to_owned());
    let asked = Entry::new(Role::User, vec![Block::Text("why?".to_owned())]);
    let bytes = Gemini.encode(&Conversation { entries: vec![asked, reply] }).bytes;
    let text = String::from_utf8(bytes).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].starts_with("{\"sessionId\":\"") && lines[0].contains("\"projectHash\":\""), "{}", lines[0]);
    assert!(lines[2].contains(r#""type":"gemini","content":"so","model":"m""#), "{}", lines[2]);
}

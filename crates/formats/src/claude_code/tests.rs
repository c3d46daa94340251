//! Small transcripts of Claude Code, and what is read from them.

use enjamb_core::conversation::{Block, Entry, Role, Standing, attribute};

use super::*;
use crate::inspection::{Damage, Look};
use crate::label::Label;
use crate::tokens::{TokenCounting, TokenMethod, Tokens};

/// A record of the tree: `u1<-` is the root, `u2<u1` follows it.
fn record(link: &str, kind: &str, more: &str, message: &str) -> String {
    let (uuid, parent) = link.split_once('<').unwrap();
    let parent = if parent == "-" { "null".to_owned() } else { format!("\"{parent}\"") };
    format!(
        r#"{{"parentUuid":{parent},"isSidechain":false,"cwd":"/w","sessionId":"s","version":"2.1.1","gitBranch":"main","type":"{kind}","message":{message},{more}"uuid":"{uuid}","timestamp":"2026-01-02T03:04:05.678Z"}}{}"#,
        "\n"
    )
}

fn user(link: &str, text: &str) -> String {
    record(link, "user", "", &format!(r#"{{"role":"user","content":"{text}"}}"#))
}

fn assistant(link: &str, id: &str, block: &str, stop: &str, output: u64) -> String {
    let message = format!(
        r#"{{"id":"{id}","type":"message","role":"assistant","model":"claude-x","content":[{block}],"stop_reason":{stop},"usage":{{"input_tokens":3,"output_tokens":{output}}}}}"#
    );
    record(link, "assistant", "", &message)
}

fn said(link: &str, id: &str, text: &str) -> String {
    assistant(link, id, &format!(r#"{{"type":"text","text":"{text}"}}"#), "\"end_turn\"", 7)
}

fn call(link: &str, id: &str, tool: &str) -> String {
    let block = format!(r#"{{"type":"tool_use","id":"{tool}","name":"Read","input":{{"file_path":"/a"}}}}"#);
    assistant(link, id, &block, "\"tool_use\"", 9)
}

fn result(link: &str, tool: &str) -> String {
    let content = format!(r#"[{{"type":"tool_result","tool_use_id":"{tool}","content":"ok"}}]"#);
    record(link, "user", r#""toolUseResult":{"big":1},"#, &format!(r#"{{"role":"user","content":{content}}}"#))
}

fn boundary(link: &str, metadata: &str) -> String {
    let more = format!(r#""subtype":"compact_boundary","compactMetadata":{{{metadata}}},"#);
    record(link, "system", &more, "null")
}

fn summary(link: &str, text: &str) -> String {
    record(link, "user", r#""isCompactSummary":true,"#, &format!(r#"{{"role":"user","content":"{text}"}}"#))
}

/// Role, standing and words of every message.
fn told(lines: &[String]) -> Vec<String> {
    let conversation = ClaudeCode.decode(lines.concat().as_bytes()).unwrap();
    let word = |block: &Block| match block {
        Block::Text(text) => text.clone(),
        Block::Reasoning(_) => "thought".to_owned(),
        Block::ToolCall(call) => format!("call {}", call.id),
        Block::ToolResult(result) => format!("result {}", result.call_id),
        Block::Image(_) => "image".to_owned(),
        Block::Compaction { summary } => format!("summary {summary}"),
        Block::Verbatim(verbatim) => format!("<{}>", verbatim.kind),
    };
    let messages = conversation.entries.iter().filter(|entry| entry.is_message());
    messages
        .map(|entry| {
            let words: Vec<String> = entry.blocks.iter().map(word).collect();
            format!("{} {}: {}", entry.role.as_str(), entry.standing.as_str(), words.join(", "))
        })
        .collect()
}

#[test]
fn records_of_one_reply_are_one_message_and_counted_once() {
    let lines = [
        user("u1<-", "hello world"),
        assistant("a1<u1", "m1", r#"{"type":"thinking","thinking":"","signature":"sig"}"#, "null", 1),
        call("a2<a1", "m1", "t1"),
        result("u2<a2", "t1"),
        said("a3<u2", "m2", "done"),
    ];
    let found = ClaudeCode.inspect(lines.concat().as_bytes()).unwrap();
    assert_eq!((found.messages, found.records), (4, 5));
    // Two words asked, one word of result; nine and seven tokens as the provider counted the two replies.
    assert_eq!((found.tokens.count, found.tokens.reported, found.tokens.method), (19, 16, TokenMethod::Usage));
    assert_eq!(found.first_prompt.as_deref(), Some("hello world"));
    assert_eq!(found.models, ["claude-x"]);
    assert!(found.unknown.is_empty(), "{:?}", found.unknown);
    assert_eq!(told(&lines)[1], "assistant context: thought, call t1");
}

#[test]
fn who_spoke_and_how_much_is_told_without_the_words() {
    let (long, told) = (r#"line of \"words\"\né\\"#.repeat(30), "what a person asks ".repeat(20));
    let numbered = long.clone() + r"\u00e9";
    let thought = format!(r#"{{"type":"thinking","thinking":"{long}","signature":"s"}}"#);
    let input = format!(r#"{{"type":"tool_use","id":"t1","name":"Bash","input":{{"command":"{long}"}}}}"#);
    let results = format!(
        r#"[{{"type":"tool_result","tool_use_id":"t1","content":"{long}"}},{{"type":"tool_result","tool_use_id":"t2","content":[{{"type":"text","text":"{numbered}"}}]}}]"#
    );
    let text = [
        user("u1<-", &told),
        assistant("a1<u1", "m1", &thought, "null", 0),
        assistant("a2<a1", "m1", &input, "\"tool_use\"", 0),
        record("u2<a2", "user", "", &format!(r#"{{"role":"user","content":{results}}}"#)),
        said("a3<u2", "m2", &long),
        boundary("b<a3", ""),
        summary("u3<b", &told),
        r#"{"type":"progress","data":{"much":1}}"#.to_owned() + "\n",
    ]
    .concat();
    let items = ClaudeCode.framing().items(text.as_bytes()).unwrap().items;
    let (whole, measured) = (ClaudeCode.understand(&items), ClaudeCode.measure(&items));
    let counted = |reading: &Reading| Tokens::of(&reading.conversation, TokenCounting::Cheap);
    assert_eq!(counted(&measured), counted(&whole));
    assert!(counted(&whole).count > 5 * long.len() as u64 / 4, "{:?}", counted(&whole));
    assert_eq!(measured.labels, items.iter().map(Label::of).collect::<Vec<_>>());
    let facts = |entry: &Entry| {
        let kinds: Vec<_> = entry.blocks.iter().map(std::mem::discriminant).collect();
        (entry.role, entry.standing, entry.synthetic, entry.at, entry.id.clone(), entry.usage, kinds)
    };
    let both = measured.conversation.entries.iter().zip(&whole.conversation.entries);
    assert_eq!(measured.conversation.entries.len(), whole.conversation.entries.len());
    for (measured, whole) in both {
        assert_eq!(facts(measured), facts(whole));
        let words =
            |entry: &Entry| entry.blocks.iter().filter(|block| block.as_verbatim().is_none()).cloned().collect();
        let (kept, said): (Vec<Block>, Vec<Block>) = (words(measured), words(whole));
        assert_eq!(kept == said, whole.role == Role::User || said.is_empty(), "only people are listened to");
    }
}

#[test]
fn a_reply_that_was_cut_off_is_measured_instead() {
    let block = r#"{"type":"text","text":"hello world"}"#;
    let found = ClaudeCode.inspect(assistant("a1<-", "m1", block, "null", 1).as_bytes()).unwrap();
    assert_eq!((found.tokens.count, found.tokens.reported), (2, 0));
}

#[test]
fn results_of_parallel_calls_belong_to_the_path_they_hang_beside() {
    let lines = [
        user("u1<-", "go"),
        call("a1<u1", "m1", "t1"),
        result("r1<a1", "t1"),
        call("a2<a1", "m1", "t2"),
        result("r2<a2", "t2"),
        said("a3<r2", "m2", "done"),
    ];
    assert_eq!(
        told(&lines),
        [
            "user context: go",
            "assistant context: call t1, call t2",
            "tool context: result t1",
            "tool context: result t2",
            "assistant context: done"
        ]
    );
}

#[test]
fn a_branch_that_was_left_is_abandoned() {
    let lines = [
        user("u1<-", "a"),
        said("a1<u1", "m1", "b"),
        user("u2<a1", "wrong"),
        said("a2<u2", "m2", "c"),
        user("u3<a1", "right"),
    ];
    assert_eq!(
        told(&lines),
        [
            "user context: a",
            "assistant context: b",
            "user abandoned: wrong",
            "assistant abandoned: c",
            "user context: right"
        ]
    );
}

#[test]
fn a_compaction_stands_for_what_came_before_it() {
    let lines = [
        user("u1<-", "old"),
        said("a1<u1", "m1", "older"),
        boundary("b1<-", ""),
        summary("s1<b1", "sum"),
        user("u2<s1", "new"),
    ];
    assert_eq!(
        told(&lines),
        [
            "user compacted: old",
            "assistant compacted: older",
            "user context: <system/compact_boundary>, summary sum",
            "user context: new"
        ]
    );
}

/// The first record after such a compaction may follow the carried tail rather than the summary.
#[test]
fn what_a_compaction_carries_over_stands_after_its_summary() {
    let carried = r#""preservedSegment":{"headUuid":"u2","anchorUuid":"s1","tailUuid":"a2"}"#;
    let lines = [
        user("u1<-", "old"),
        said("a1<u1", "m1", "older"),
        user("u2<a1", "kept"),
        said("a2<u2", "m2", "kept too"),
        boundary("b1<-", carried),
        summary("s1<b1", "sum"),
        user("u3<a2", "new"),
    ];
    assert_eq!(
        told(&lines),
        [
            "user compacted: old",
            "assistant compacted: older",
            "user context: <system/compact_boundary>, summary sum",
            "user context: kept",
            "assistant context: kept too",
            "user context: new"
        ]
    );
}

#[test]
fn a_circle_of_parents_ends() {
    assert_eq!(told(&[user("u1<u2", "a"), user("u2<u1", "b")]).len(), 2);
}

#[test]
fn side_chains_are_aside_unless_the_file_is_one() {
    let aside = |line: String| line.replace(r#""isSidechain":false"#, r#""isSidechain":true"#);
    let lines = [user("u1<-", "a"), aside(user("x1<-", "task")), said("a1<u1", "m1", "b")];
    assert_eq!(told(&lines)[1], "user sidechain: task");
    assert_eq!(told(&[aside(user("x1<-", "task"))]), ["user context: task"]);
}

#[test]
fn what_was_not_typed_is_no_prompt() {
    let meta = record("u1<-", "user", r#""isMeta":true,"#, r#"{"role":"user","content":"caveat"}"#);
    let lines = [meta, user("u2<u1", "<command-name>/model</command-name>"), user("u3<u2", "fix the bug")];
    let found = ClaudeCode.inspect(lines.concat().as_bytes()).unwrap();
    assert_eq!(found.first_prompt.as_deref(), Some("fix the bug"));
}

#[test]
fn a_command_of_the_harness_stands_where_it_was_given_and_parts_the_reply() {
    let command = record("s1<a1", "system", r#""subtype":"local_command","content":"<command-name>/x","#, "null");
    let lines = [user("u1<-", "go"), said("a1<u1", "m1", "one"), command, said("a2<s1", "m1", "two")];
    assert_eq!(
        told(&lines),
        ["user context: go", "assistant context: one", "user context: <command-name>/x", "assistant context: two"]
    );
    let conversation = ClaudeCode.decode(lines.concat().as_bytes()).unwrap();
    let counted: Vec<bool> = conversation.entries.iter().map(|entry| entry.usage.is_some()).collect();
    assert_eq!(counted, [false, true, false, false], "a reply is counted once");
    assert!(conversation.entries[2].synthetic, "nobody typed it");
    let again = ClaudeCode.decode(&ClaudeCode.encode(&conversation).bytes).unwrap();
    let texts = |conversation: &Conversation| conversation.entries.iter().map(Entry::text).collect::<Vec<_>>();
    assert_eq!(texts(&again), texts(&conversation));
}

#[test]
fn a_turn_ends_before_the_next_prompt() {
    let mode = "{\"type\":\"mode\",\"mode\":\"default\"}\n".to_owned();
    let lines = [mode, user("u1<-", "a"), said("a1<u1", "m1", "b"), user("u2<a1", "<bash-input>"), user("u3<u2", "c")];
    let lengths: Vec<usize> = lines.iter().map(String::len).collect();
    let turns = ClaudeCode.turns(lines.concat().as_bytes()).unwrap();
    assert_eq!(turns, [lengths[0], lengths[..4].iter().sum(), lengths.iter().sum()]);
}

#[test]
fn unknown_records_and_blocks_are_kept_and_counted() {
    let lines = [
        r#"{"type":"hologram","x":1}"#.to_owned() + "\n",
        record(
            "u1<-",
            "user",
            "",
            r#"{"role":"user","content":[{"type":"smell","data":"x"},{"type":"text","text":"hi"}]}"#,
        ),
        r#"{"type":"file-history-snapshot","snapshot":{}}"#.to_owned() + "\n",
    ];
    let found = ClaudeCode.inspect(lines.concat().as_bytes()).unwrap();
    assert_eq!((found.messages, found.records), (1, 3));
    let unknown: Vec<(&str, u64)> = found.unknown.iter().map(|(kind, count)| (kind.as_str(), *count)).collect();
    assert_eq!(unknown, [("block smell", 1), ("hologram", 1)]);
}

#[test]
fn damage_is_refused_with_its_place_or_kept_on_demand() {
    let torn = user("u1<-", "a") + "{\"type\":\"us";
    let refused = ClaudeCode.inspect(torn.as_bytes()).unwrap_err();
    assert!(refused.to_string().starts_with("not claude-code-v1: line 2 (byte "), "{refused}");
    let found = ClaudeCode.inspect_with(torn.as_bytes(), Look { damage: Damage::Keep, ..Look::default() }).unwrap();
    assert_eq!((found.messages, found.damage.count), (1, 1));
    assert!(ClaudeCode.inspect(b"hello").is_err());
    assert_eq!(ClaudeCode.inspect(b"").unwrap().messages, 0);
}

#[test]
fn what_would_not_load_is_named() {
    let codes = |lines: &[String]| -> Vec<&str> {
        ClaudeCode.validate(lines.concat().as_bytes()).into_iter().map(|problem| problem.code.as_str()).collect()
    };
    assert_eq!(codes(&[user("u1<-", "a"), said("a1<u1", "m1", "b")]), [""; 0]);
    assert_eq!(codes(&[user("u1<-", "a"), call("a1<u1", "m1", "t1")]), ["call-unanswered"]);
    assert_eq!(codes(&[user("u1<-", "a"), result("u2<u1", "t1")]), ["result-orphaned"]);
    let late = [
        user("u1<-", "a"),
        call("a1<u1", "m1", "t1"),
        user("u2<a1", "b"),
        said("a2<u2", "m2", "c"),
        result("r<a2", "t1"),
    ];
    assert_eq!(codes(&late), ["result-misplaced"]);
    assert_eq!(codes(&[user("u1<gone", "a")]), ["parent-missing"]);
    assert_eq!(codes(&[said("a1<-", "m1", "b")]), ["first-not-user"]);
    assert_eq!(codes(&[user("u1<-", "a"), record("u2<u1", "user", "", "\"error\"")])[..1], ["envelope-incomplete"]);
    let aside = user("u1<-", "a").replace(r#""isSidechain":false"#, r#""isSidechain":true"#);
    let is_error = |lines: &[String]| ClaudeCode.validate(lines.concat().as_bytes())[0].is_error();
    let mixed = [aside.clone(), user("u2<-", "b")];
    assert_eq!(
        (codes(std::slice::from_ref(&aside)), codes(&mixed)),
        (vec!["first-sidechain"], vec!["first-sidechain"])
    );
    assert!(is_error(&[aside]) && !is_error(&mixed), "it is found if one message is not aside");
    let unsigned = assistant("a1<u1", "m1", r#"{"type":"thinking","thinking":"hm","signature":""}"#, "null", 1);
    assert_eq!(codes(&[user("u1<-", "a"), unsigned, "{".to_owned()]), ["thinking-unsigned", "torn-tail"]);
}

#[test]
fn a_written_transcript_is_one_that_resumes() {
    let call = enjamb_core::conversation::ToolCall {
        id: "call|1".to_owned(),
        name: "shell".to_owned(),
        input: enjamb_core::Json::parse(r#""ls""#).unwrap(),
        server: false,
    };
    let answer = enjamb_core::conversation::ToolResult {
        call_id: "call|1".to_owned(),
        content: vec![Block::Text("a.rs".to_owned())],
        is_error: true,
    };
    let mut entries = vec![
        Entry::new(Role::Developer, vec![Block::Text("be brief".to_owned())]),
        Entry::new(Role::User, vec![Block::Text("look".to_owned())]),
        Entry::new(Role::Assistant, vec![Block::Text("looking".to_owned())]),
        Entry::new(Role::Assistant, vec![Block::ToolCall(call)]),
        Entry::new(Role::Tool, vec![Block::ToolResult(answer)]),
    ];
    entries[1].set_attribute(attribute::SESSION_ID, Some("11111111-2222-4333-8444-555555555555"));
    let encoded = ClaudeCode.encode(&Conversation { entries });
    assert_eq!(ClaudeCode.validate(&encoded.bytes), []);
    assert!(encoded.bytes.ends_with(b"\n"));
    let written = ClaudeCode.decode(&encoded.bytes).unwrap();
    assert!(written.entries.iter().all(|entry| entry.standing == Standing::Context));
    assert_eq!(written.entries[2].blocks.len(), 2, "one reply is one message");
    assert_eq!(written.entries[2].attribute(attribute::SESSION_ID), Some("11111111-2222-4333-8444-555555555555"));
    let rows: Vec<String> = encoded
        .fidelity()
        .rows()
        .map(|(outcome, reason, count)| format!("{} {count} {reason}", outcome.as_str()))
        .collect();
    assert_eq!(
        rows,
        [
            "kept 2 ",
            "mapped 1 a system message becomes a user message",
            "mapped 1 call id in other characters",
            "mapped 1 free text becomes an argument"
        ]
    );
}

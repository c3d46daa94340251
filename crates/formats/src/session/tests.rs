//! Sessions put together from stretches of several runtimes.

use serde_json::{Value, json};

use std::collections::HashSet;

use super::*;
use crate::by_id;

const NEW: &str = "0198f3c2-7a41-4b1e-9f53-2d1f6a0c9e10";

fn identity() -> Identity {
    let at = "2026-11-15T18:20:11Z".parse().unwrap();
    Identity { session: NEW.into(), cwd: "/here".into(), moved_from: Some("/there".into()), at }
}

/// A session with its bytes, which were read back.
struct Made {
    bytes: Vec<u8>,
    session: Session,
}

impl std::ops::Deref for Made {
    type Target = Session;

    fn deref(&self) -> &Session {
        &self.session
    }
}

fn composed(target: &str, stretches: &[(&str, &str)], is_cut: bool) -> Made {
    let whole = composed_as(target, stretches, is_cut, &identity(), usize::MAX);
    // However the deltas are cut at the ends of their lines, the session is the same.
    let by_line = composed_as(target, stretches, is_cut, &identity(), 1);
    assert_eq!(by_line.bytes, whole.bytes);
    assert_eq!((&by_line.said, by_line.interrupted), (&whole.said, whole.interrupted));
    whole
}

fn composed_as(target: &str, stretches: &[(&str, &str)], is_cut: bool, identity: &Identity, lines: usize) -> Made {
    let target = by_id(target).unwrap();
    let deltas = |text: &str| -> Vec<String> {
        let found: Vec<&str> = text.split_inclusive('\n').collect();
        found.chunks(lines.min(text.len().max(1))).map(|lines| lines.concat()).collect()
    };
    let mut look = Look::new(target, Extent { stretches: stretches.len(), is_cut, head: Vec::new() }).unwrap();
    for (format, text) in stretches {
        look.stretch(by_id(format).unwrap());
        deltas(text).iter().for_each(|delta| look.push(delta.as_bytes()).unwrap());
    }
    let looked = look.finish();
    let (mut composition, mut bytes) = (looked.compose(identity), Vec::new());
    for (_, text) in stretches {
        let mut passage = composition.stretch(&mut bytes).unwrap();
        deltas(text).iter().for_each(|delta| passage.push(delta.as_bytes(), &mut bytes).unwrap());
        passage.finish(&mut bytes);
    }
    assert!(composition.stretch(&mut bytes).is_none());
    let session = composition.finish(&mut bytes);
    assert_eq!(missing(target, &bytes, &session.said), None, "{}", String::from_utf8_lossy(&bytes));
    Made { bytes, session }
}

/// What is wanted and not said in the bytes.
fn missing(target: &'static dyn Format, bytes: &[u8], wanted: &[Said]) -> Option<Said> {
    let mut back = ReadBack::new(target);
    back.push(bytes).unwrap();
    let written = back.finish().unwrap();
    let mut comparison = written.compare(wanted);
    comparison.push(bytes).unwrap();
    comparison.finish().unwrap().cloned()
}

fn text(session: &Made) -> String {
    String::from_utf8(session.bytes.clone()).unwrap()
}

fn lines(session: &Made) -> Vec<Value> {
    text(session).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn claude(uuid: &str, parent: &str, role: &str, said: &str) -> String {
    let content = if role == "user" { json!(said) } else { json!([{"type": "text", "text": said}]) };
    let parent = if parent.is_empty() { Value::Null } else { json!(parent) };
    format!(
        "{{\"parentUuid\" : {parent},\"cwd\":\"/there/sub\",\"sessionId\":\"old\",\"type\":\"{role}\",\"uuid\":\"{uuid}\",\
         \"timestamp\":\"2026-01-01T00:00:0{}.000Z\",\"message\":{{\"role\":\"{role}\",\"content\":{content}}}}}\n",
        uuid.len()
    )
}

fn codex(kind: &str, payload: &Value) -> String {
    format!("{{\"timestamp\":\"2026-02-01T00:00:00.000Z\",\"type\":\"{kind}\",\"payload\":{payload}}}\n")
}

fn codex_said(role: &str, said: &str) -> String {
    let kind = if role == "user" { "input_text" } else { "output_text" };
    codex("response_item", &json!({"type": "message", "role": role, "content": [{"type": kind, "text": said}]}))
}

fn meta() -> String {
    codex(
        "session_meta",
        &json!({"id": "old", "cwd": "/there", "originator": "x", "cli_version": "1", "timestamp": "t"}),
    )
}

#[test]
fn of_its_own_records_only_the_session_and_the_directory_change() {
    let original = [
        claude("u", "", "user", "why?"),
        "torn {\n".into(),
        claude("aa", "u", "assistant", "so"),
        "{\"type\":\"ai-title\",\"sessionId\":\"old\",\"aiTitle\":\"old\"}\n".into(),
    ]
    .concat();
    let session = composed("claude-code-v1", &[("claude-code-v1", &original)], false);
    let expected = original
        .replace("\"sessionId\":\"old\"", &format!("\"sessionId\":\"{NEW}\""))
        .replace("/there/sub", "/here/sub");
    assert_eq!(text(&session), expected);
    assert_eq!(session.ledger.tier(), crate::Tier::Native);
}

#[test]
fn a_rollout_changes_what_names_it() {
    let settings = codex("event_msg", &json!({"type": "thread_settings_applied", "thread_id": "old"}));
    let turn = codex("turn_context", &json!({"cwd": "/there", "model": "m"}));
    let original = [meta(), settings, turn, codex_said("user", "the old way")].concat();
    let session = composed("codex-v1", &[("codex-v1", &original)], false);
    let expected = original.replace("\"old\"", &format!("\"{NEW}\"")).replace("/there", "/here");
    assert_eq!(text(&session), expected);
}

#[test]
fn what_another_runtime_said_follows_the_records_that_were_there() {
    let first = claude("u", "", "user", "why?") + &claude("aa", "u", "assistant", "so");
    let away = [meta(), codex_said("user", "really?"), codex_said("assistant", "really")].concat();
    let back = claude("uuu", "lost", "user", "and then?");
    let stretches = [("claude-code-v1", &*first), ("codex-v1", &*away), ("claude-code-v1", &*back)];
    let session = composed("claude-code-v1", &stretches, false);
    assert!(text(&session).starts_with(&first.replace("\"old\"", &format!("\"{NEW}\"")).replace("/there", "/here")));
    let records = lines(&session);
    for pair in records.windows(2) {
        assert_eq!(pair[1]["parentUuid"], pair[0]["uuid"], "{}", pair[1]);
    }
    let session = composed("codex-v1", &[("codex-v1", &away), ("claude-code-v1", &first)], false);
    assert!(text(&session).starts_with(&away.replace("\"old\"", &format!("\"{NEW}\"")).replace("/there", "/here")));
    assert_eq!(lines(&session).iter().filter(|line| line["type"] == "session_meta").count(), 1);
}

#[test]
fn what_was_cut_off_is_not_pointed_at() {
    let later = claude("uu", "gone", "user", "and?") + &claude("aaa", "uu", "assistant", "so");
    let records = lines(&composed("claude-code-v1", &[("claude-code-v1", &later)], true));
    assert_eq!((&records[0]["parentUuid"], &records[1]["parentUuid"]), (&Value::Null, &json!("uu")));
    let rollout = lines(&composed("codex-v1", &[("codex-v1", &codex_said("user", "and?"))], true));
    assert_eq!((&rollout[0]["type"], &rollout[0]["payload"]["id"]), (&json!("session_meta"), &json!(NEW)));
}

#[test]
fn numbered_lines_stay_numbered() {
    let numbered = |number: u64, line: &str| line.replacen('{', &format!("{{\"ordinal\":{number},"), 1);
    let original = numbered(0, &meta()) + &numbered(1, &codex_said("user", "why?"));
    let more = claude("u", "", "user", "and?");
    let session = composed("codex-v1", &[("codex-v1", &original), ("claude-code-v1", &more)], false);
    let ordinals: Vec<_> = lines(&session).iter().map(|line| line["ordinal"].as_u64()).collect();
    assert_eq!(ordinals, (0..ordinals.len() as u64).map(Some).collect::<Vec<_>>());
    let cut = numbered(0, &meta()) + &numbered(7, &codex_said("user", "why?"));
    let ordinals: Vec<_> =
        lines(&composed("codex-v1", &[("codex-v1", &cut)], true)).iter().map(|line| line["ordinal"].as_u64()).collect();
    assert_eq!(ordinals, [Some(0), Some(1)]);
}

#[test]
fn a_subagent_becomes_a_session_of_its_own() {
    let aside = claude("u", "", "user", "look").replacen('{', "{\"isSidechain\":true,", 1);
    let records = lines(&composed("claude-code-v1", &[("claude-code-v1", &aside)], false));
    assert_eq!(records[0]["isSidechain"], json!(false));
}

#[test]
fn lines_of_a_stream_are_made_into_a_transcript() {
    let streamed = "{\"type\":\"system\",\"subtype\":\"init\",\"session_id\":\"old\",\"uuid\":\"i\"}\n\
        {\"type\":\"user\",\"session_id\":\"old\",\"uuid\":\"u\",\"message\":{\"role\":\"user\",\"content\":\"why?\"}}\n";
    let session = composed("claude-code-v1", &[("claude-code-v1", streamed)], false);
    let records = lines(&session);
    assert_eq!(records.len(), 1);
    assert!(records[0]["timestamp"].is_string() && records[0]["sessionId"] == NEW);
    assert_eq!(session.ledger.blocks(), 2);
}

#[test]
fn a_call_that_nothing_answered_gets_an_answer_that_says_so() {
    let call =
        codex("response_item", &json!({"type": "function_call", "name": "ls", "arguments": "{}", "call_id": "c"}));
    let away = [meta(), codex_said("user", "look"), call, codex_said("assistant", "done")].concat();
    let session = composed("claude-code-v1", &[("codex-v1", &away)], false);
    assert_eq!(session.interrupted, 1);
    let blocks = by_id("codex-v1").unwrap().decode(away.as_bytes()).unwrap().block_count();
    assert_eq!(session.ledger.blocks(), blocks);
    let results: Vec<_> = lines(&session).iter().map(|line| line["message"]["content"][0]["type"].clone()).collect();
    assert_eq!(results[1..3], [json!("tool_use"), json!("tool_result")]);
}

#[test]
fn a_later_compaction_stands_for_what_came_before() {
    let away = meta() + &codex_said("user", "long ago");
    let boundary = "{\"type\":\"system\",\"subtype\":\"compact_boundary\",\"uuid\":\"b\",\"parentUuid\":null,\
        \"timestamp\":\"2026-03-01T00:00:00.000Z\"}\n";
    let summary = claude("s", "b", "user", "so far").replacen('{', "{\"isCompactSummary\":true,", 1);
    let later = format!("{boundary}{summary}");
    let stretches = [("codex-v1", &*away), ("claude-code-v1", &*later)];
    let session = composed("claude-code-v1", &stretches, false);
    assert_eq!(session.said.iter().map(Said::begins).collect::<Vec<_>>(), ["text so far"]);
}

/// Lines of a chat of Gemini CLI.
fn gemini(session: &str) -> String {
    let header = json!({"sessionId": session, "projectHash": "old", "startTime": "2026-01-01T00:00:00.000Z",
        "lastUpdated": "2026-01-01T00:00:00.000Z", "kind": "main"});
    let asked = json!({"id": "g1", "timestamp": "2026-01-01T00:00:01.000Z", "type": "user", "content": "why?"});
    let told = json!({"id": "g2", "timestamp": "2026-01-01T00:00:02.000Z", "type": "gemini", "content": "so"});
    format!("{header}\n{asked}\n{told}\n")
}

#[test]
fn a_chat_of_gemini_keeps_its_lines_under_a_new_header() {
    let session = composed("gemini-v1", &[("gemini-v1", &gemini("old"))], false);
    let header = &lines(&session)[0];
    assert_eq!((header["sessionId"].as_str(), header["kind"].as_str()), (Some(NEW), Some("main")));
    assert_eq!(header["projectHash"], gemini_project("/here"));
    let rest = |text: &str| text.split_once('\n').map(|(_, rest)| rest.to_owned());
    assert_eq!(rest(&text(&session)), rest(&gemini("old")));
}

#[test]
fn what_others_said_follows_in_a_chat_and_replaces_nothing() {
    let other = [claude("u", "", "user", "first"), claude("uu", "u", "assistant", "second")].concat();
    let session = composed("gemini-v1", &[("claude-code-v1", &other), ("gemini-v1", &gemini("old"))], false);
    let found = lines(&session);
    assert_eq!(found.iter().filter(|line| line["sessionId"].is_string()).count(), 1);
    assert_eq!(found[0]["sessionId"], NEW);
    let ids: HashSet<&str> = found.iter().filter_map(|line| line["id"].as_str()).collect();
    assert_eq!(ids.len(), 4, "{found:?}");
    let cut = composed("gemini-v1", &[("gemini-v1", gemini("old").split_once('\n').unwrap().1)], true);
    assert_eq!(lines(&cut)[0]["sessionId"], NEW, "a chat without a header is none");
}

#[test]
fn a_document_for_opencode_has_new_ids_in_the_order_of_what_was_said() {
    let said = [claude("u", "", "user", "first"), claude("uu", "u", "assistant", "second")].concat();
    let document = |session: &str| {
        let identity = Identity { session: session.into(), ..identity() };
        let made = composed_as("opencode-v1", &[("claude-code-v1", &said)], false, &identity, 1);
        serde_json::from_slice::<Value>(&made.bytes).unwrap()
    };
    let (one, two) = (document("ses_1"), document("ses_2"));
    assert_eq!((one["info"]["id"].as_str(), one["info"]["directory"].as_str()), (Some("ses_1"), Some("/here")));
    let ids = |document: &Value| -> Vec<String> {
        let messages = document["messages"].as_array().unwrap();
        messages.iter().map(|message| message["info"]["id"].as_str().unwrap().to_owned()).collect()
    };
    assert!(ids(&one).is_sorted() && ids(&one).len() == 2);
    assert!(ids(&one).iter().all(|id| !ids(&two).contains(id)), "ids of two sessions differ");
    assert_eq!(one["messages"][1]["info"]["parentID"], ids(&one)[0]);
}

#[test]
fn what_is_not_said_in_its_place_is_missed() {
    let original = claude("u", "", "user", "why?") + &claude("aa", "u", "assistant", "so");
    let target = by_id("claude-code-v1").unwrap();
    let session = composed(target.id(), &[(target.id(), &original)], false);
    let missed = missing(target, text(&session).replace("\"so\"", "\"no\"").as_bytes(), &session.said);
    assert_eq!(missed.as_ref().map(Said::begins), Some("text so"));
    let swapped: Vec<Said> = session.said.iter().rev().cloned().collect();
    assert_eq!(missing(target, &session.bytes, &swapped).as_ref().map(Said::begins), Some("text why?"));
}

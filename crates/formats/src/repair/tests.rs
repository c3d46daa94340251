//! Every broken shape that users report, as small as it can be: named by a check, and made to load by a repair.

use super::*;
use crate::by_id;

const SIGNATURE: &str = "EqoBCkYICBgCKkDkJ5x0Jz0bHw8c7mVYq1vT";

/// A record of a tree: `b<a` follows `a`, `a<-` is the first.
fn record(link: &str, kind: &str, more: &str, message: &str) -> String {
    let (uuid, parent) = link.split_once('<').expect("a link");
    let parent = if parent == "-" { "null".to_owned() } else { format!("\"{parent}\"") };
    format!(
        r#"{{"parentUuid":{parent},"isSidechain":false,"cwd":"/w","sessionId":"s","type":"{kind}","message":{message},{more}"uuid":"{uuid}","timestamp":"2026-01-02T03:04:05.678Z"}}"#
    )
}

fn user(link: &str, text: &str) -> String {
    record(link, "user", "", &format!(r#"{{"role":"user","content":"{text}"}}"#))
}

fn reply(link: &str, id: &str, block: &str) -> String {
    let envelope = r#""type":"message","role":"assistant","model":"claude-x","usage":{"input_tokens":1,"output_tokens":1},"stop_reason":null"#;
    record(link, "assistant", "", &format!(r#"{{"id":"{id}",{envelope},"content":[{block}]}}"#))
}

fn said(link: &str, id: &str, text: &str) -> String {
    reply(link, id, &format!(r#"{{"type":"text","text":"{text}"}}"#))
}

fn thought(link: &str, id: &str, signature: &str) -> String {
    reply(link, id, &format!(r#"{{"type":"thinking","thinking":"hm","signature":"{signature}"}}"#))
}

fn call(link: &str, id: &str, tool: &str) -> String {
    reply(link, id, &format!(r#"{{"type":"tool_use","id":"{tool}","name":"Read","input":{{}}}}"#))
}

fn result(link: &str, tool: &str) -> String {
    let content = format!(r#"[{{"type":"tool_result","tool_use_id":"{tool}","content":"ok {tool}"}}]"#);
    record(link, "user", "", &format!(r#"{{"role":"user","content":{content}}}"#))
}

fn boundary(link: &str) -> String {
    record(link, "system", r#""subtype":"compact_boundary","#, "null")
}

fn summary(link: &str) -> String {
    record(link, "user", r#""isCompactSummary":true,"#, r#"{"role":"user","content":"in short"}"#)
}

fn codes(problems: &[Problem]) -> Vec<&'static str> {
    problems.iter().map(|problem| problem.code.as_str()).collect()
}

struct Outcome {
    whole: String,
    changes: Vec<Change>,
}

/// A transcript has these problems, and none that matters once it is repaired. Lines that no change names stay as they
/// were, and a second repair has nothing to do.
fn check(format: &str, lines: &[String], expected: &[&str]) -> Outcome {
    check_for(format, lines, expected, Reuse::SameAccount)
}

fn check_for(format: &str, lines: &[String], expected: &[&str], reuse: Reuse) -> Outcome {
    let format = by_id(format).expect("a format");
    let whole = lines.iter().map(|line| format!("{line}\n")).collect::<String>();
    let mut checker = Checker::new(format);
    checker.push(whole.as_bytes()).expect("lines");
    assert_eq!(codes(&checker.finish(reuse).problems), expected);
    let repaired = repair(format, &[whole.as_bytes()], reuse).expect("lines");
    assert_eq!(codes(&repaired.left), [""; 0], "{:?}", repaired.changes);
    let bytes = repaired.deltas[0].clone().expect("a change");
    let again = repair(format, &[&bytes], reuse).expect("lines");
    assert_eq!(again.changes, []);
    Outcome { whole: String::from_utf8(bytes).expect("text"), changes: repaired.changes }
}

fn texts(format: &str, transcript: &str) -> Vec<String> {
    let conversation = by_id(format).expect("a format").decode(transcript.as_bytes()).expect("lines");
    let seen = conversation.entries.into_iter();
    let seen =
        seen.filter(|entry| entry.is_message() && entry.standing == enjamb_core::conversation::Standing::Context);
    seen.flat_map(|entry| entry.blocks).map(|block| crate::narrative::brief(&block)).collect()
}

const CLAUDE: &str = "claude-code-v1";
const CODEX: &str = "codex-v1";

#[test]
fn a_call_without_its_result_is_answered_on_the_way_to_the_last_message() {
    let lines = [user("u1<-", "go"), call("a1<u1", "m1", "t1"), user("u2<a1", "well?"), said("a2<u2", "m2", "yes")];
    let Outcome { whole, changes } = check(CLAUDE, &lines, &["call-unanswered"]);
    assert_eq!((changes.len(), changes[0].record.as_deref()), (1, Some("a1")));
    let written: Vec<&str> = whole.lines().collect();
    assert_eq!((written[0], written[1], written[4]), (lines[0].as_str(), lines[1].as_str(), lines[3].as_str()));
    assert!(written[2].contains(INTERRUPTED) && written[2].contains(r#""parentUuid":"a1""#));
    let answer = crate::json::Object::parse(written[2]).and_then(|record| record.text("uuid")).expect("an id");
    assert_eq!(written[3], lines[2].replace(r#""parentUuid":"a1""#, &format!(r#""parentUuid":"{answer}""#)));
}

#[test]
fn one_of_two_calls_without_its_result_is_answered_beside_the_other() {
    let lines = [
        user("u1<-", "go"),
        call("a1<u1", "m1", "t1"),
        call("a2<a1", "m1", "t2"),
        result("r2<a2", "t2"),
        said("a3<r2", "m2", "done"),
    ];
    let Outcome { whole, .. } = check(CLAUDE, &lines, &["call-unanswered"]);
    assert_eq!(texts(CLAUDE, &whole).len(), 6);
}

#[test]
fn a_session_that_broke_off_at_a_call_goes_on() {
    let lines = [user("u1<-", "go"), call("a1<u1", "m1", "t1")];
    check(CLAUDE, &lines, &["call-unanswered"]);
    let problems = by_id(CLAUDE).expect("a format").validate(lines.join("\n").as_bytes());
    assert!(!problems[0].is_error(), "Claude Code passes over such a call");
}

#[test]
fn a_result_without_its_call_is_told() {
    let lines = [user("u1<-", "go"), result("r1<u1", "t9"), said("a1<r1", "m1", "ok")];
    let Outcome { whole, .. } = check(CLAUDE, &lines, &["result-orphaned"]);
    assert!(texts(CLAUDE, &whole)[1].contains("ok t9"));
    assert!(whole.contains(r#""isMeta":true"#), "what a tool said is no prompt");
}

#[test]
fn a_late_result_is_put_after_its_call() {
    let lines = [
        user("u1<-", "go"),
        call("a1<u1", "m1", "t1"),
        user("u2<a1", "and?"),
        said("a2<u2", "m2", "wait"),
        result("r1<a2", "t1"),
        said("a3<r1", "m3", "done"),
    ];
    let Outcome { whole, .. } = check(CLAUDE, &lines, &["result-misplaced"]);
    let told = texts(CLAUDE, &whole);
    assert!(told[2].contains("ok t1") && told[5] == "done", "{told:?}");
}

/// An endpoint that counts its replies anew for each turn. The records are those of Claude Code, the result's is gone.
#[test]
fn replies_of_different_turns_under_one_id_are_different_replies() {
    let lines = [
        user("u1<-", "why?"),
        said("a1<u1", "m1", "not capped"),
        user("u2<a1", "what does it say?"),
        call("a2<u2", "m1", "t1"),
        said("a3<gone", "m2", "five"),
        user("u3<a3", "cap them"),
        said("a4<u3", "m1", "capped"),
    ];
    let Outcome { whole, changes } = check(CLAUDE, &lines, &["call-unanswered", "parent-missing"]);
    let told = texts(CLAUDE, &whole);
    let said: Vec<&str> = told.iter().map(String::as_str).filter(|text| !text.contains("Read")).collect();
    assert_eq!(said.len(), 7, "{told:?}");
    assert_eq!((said[0], said[1], said[2], said[6]), ("why?", "not capped", "what does it say?", "capped"));
    assert!(changes.len() <= 2, "{changes:?}");
}

#[test]
fn what_is_there_twice_is_left_out() {
    let lines = [
        user("u1<-", "go"),
        call("a1<u1", "m1", "t1"),
        result("r1<a1", "t1"),
        result("r2<r1", "t1"),
        said("a2<r2", "m2", "done"),
        user("u1<-", "go"),
    ];
    let Outcome { whole, .. } = check(CLAUDE, &lines, &["result-repeated", "id-repeated"]);
    assert_eq!(texts(CLAUDE, &whole).len(), 4);
}

#[test]
fn thoughts_without_a_signature_go_and_their_children_are_linked_past_them() {
    let lines = [
        user("u1<-", "go"),
        thought("a1<u1", "m1", ""),
        said("a2<a1", "m1", "one"),
        user("u2<a2", "more"),
        thought("a3<u2", "m2", SIGNATURE),
        said("a4<a3", "m2", "two"),
        thought("a5<a4", "m2", "not-of-anthropic"),
    ];
    let Outcome { whole, changes } = check(CLAUDE, &lines, &["thinking-unsigned", "thinking-foreign"]);
    assert_eq!(changes.iter().map(|change| change.record.as_deref()).collect::<Vec<_>>(), [Some("a1"), Some("a5")]);
    assert_eq!(texts(CLAUDE, &whole), ["go", "one", "more", "hm", "two"]);
    assert!(whole.contains(SIGNATURE));
}

#[test]
fn a_thought_of_another_makers_model_is_foreign_however_it_is_signed() {
    let foreign = thought("a1<u1", "m1", SIGNATURE).replace("claude-x", "glm-4.6");
    let lines = [user("u1<-", "go"), foreign, said("a2<a1", "m2", "done")];
    check(CLAUDE, &lines, &["thinking-foreign"]);
}

#[test]
fn records_whose_parent_is_gone_follow_the_record_before() {
    let lines = [
        user("u1<-", "go"),
        said("a1<u1", "m1", "one"),
        user("u2<lost", "more"),
        said("a2<u2", "m2", "two"),
        user("u3<lost-too", "and?"),
    ];
    let Outcome { whole, changes } = check(CLAUDE, &lines, &["parent-missing", "parent-missing"]);
    assert_eq!(changes[0].what, "put after a1");
    assert_eq!(whole, lines.map(|line| line + "\n").concat().replace("lost-too", "a2").replace("lost", "a1"));
}

#[test]
fn a_torn_tail_a_hole_and_two_records_on_a_line_are_put_in_order() {
    let joined = user("u1<-", "go") + &said("a1<u1", "m1", "one");
    let hole = "\0\0\0\0".to_owned() + &user("u2<a1", "more");
    let lines = [joined, hole, "{\"type\":\"assi".to_owned()];
    let format = by_id(CLAUDE).expect("a format");
    let whole = lines.join("\n");
    assert_eq!(codes(&format.validate(whole.as_bytes())), ["records-joined", "damaged-line", "torn-tail"]);
    let repaired = repair(format, &[whole.as_bytes()], Reuse::SameAccount).expect("lines");
    assert_eq!((repaired.left.len(), repaired.changes.len()), (0, 3));
    let expected = [user("u1<-", "go"), said("a1<u1", "m1", "one"), user("u2<a1", "more"), String::new()].join("\n");
    assert_eq!(repaired.deltas, [Some(expected.into_bytes())]);
}

#[test]
fn of_two_compactions_in_a_row_the_first_goes() {
    let lines = [
        user("u1<-", "old"),
        boundary("b1<-"),
        summary("s1<b1"),
        boundary("b2<-"),
        summary("s2<b2"),
        user("u2<s2", "new"),
    ];
    let Outcome { whole, changes } = check(CLAUDE, &lines, &["compaction-doubled"]);
    assert_eq!(changes.iter().map(|change| change.record.as_deref()).collect::<Vec<_>>(), [Some("b1"), Some("s1")]);
    assert_eq!(whole, [0, 3, 4, 5].map(|line: usize| lines[line].clone() + "\n").concat());
}

/// A second compaction in one process writes the history before it again.
#[test]
fn a_history_that_a_compaction_wrote_again_is_left_out() {
    let first = [user("u1<-", "go"), said("a1<u1", "m1", "one"), boundary("b1<-"), summary("s1<b1")];
    let last = [boundary("b2<-"), summary("s2<b2"), user("u2<s2", "new")];
    let lines = [&first[..], &[user("u3<s1", "x")], &first[..2], &last[..]].concat();
    let Outcome { whole, .. } = check(CLAUDE, &lines, &["id-repeated", "id-repeated"]);
    assert_eq!(whole.lines().count(), 8);
}

#[test]
fn a_compaction_without_a_summary_goes_and_what_came_before_stands_again() {
    let lines = [user("u1<-", "go"), said("a1<u1", "m1", "one"), boundary("b1<-"), user("u2<b1", "new")];
    let Outcome { whole, .. } = check(CLAUDE, &lines, &["compaction-empty"]);
    assert_eq!(texts(CLAUDE, &whole), ["go", "one", "new"]);
}

#[test]
fn of_275_branches_only_the_last_stays() {
    let mut lines = vec![user("u0<-", "go"), said("a0<u0", "m0", "one")];
    for branch in 1..=275 {
        lines.push(user(&format!("u{branch}<a0"), &format!("try {branch}")));
        lines.push(said(&format!("a{branch}<u{branch}"), &format!("m{branch}"), "no"));
    }
    lines.push(user("last<a0", "this way"));
    let Outcome { whole, changes } = check(CLAUDE, &lines, &["branches-many"]);
    assert_eq!(changes.len(), 2 * 275);
    assert_eq!(texts(CLAUDE, &whole), ["go", "one", "this way"]);
    assert_eq!(whole, [&lines[..2], &lines[552..]].concat().join("\n") + "\n");
}

#[test]
fn what_the_loader_needs_is_filled_in() {
    let timeless = user("u2<a1", "more").replace(r#","timestamp":"2026-01-02T03:04:05.678Z""#, "");
    let bare = record("a1<u1", "assistant", "", r#"{"role":"assistant","content":[{"type":"text","text":"hi"}]}"#);
    let lines = [user("u1<-", "go"), bare, timeless];
    let Outcome { whole, .. } = check(CLAUDE, &lines, &["envelope-incomplete", "timestamp-missing"]);
    assert!(whole.contains(r#""usage":{"input_tokens":0,"output_tokens":0}"#));
}

#[test]
fn a_message_that_says_nothing_goes_and_what_followed_it_is_linked_past_it() {
    let empty = record("u2<a1", "user", "", r#"{"role":"user","contents":"b"}"#);
    let lines = [user("u1<-", "a"), said("a1<u1", "m1", "b"), empty, user("u3<u2", "c")];
    let Outcome { whole, changes } = check(CLAUDE, &lines, &["envelope-incomplete"]);
    assert_eq!((changes.len(), changes[0].record.as_deref()), (1, Some("u2")));
    assert_eq!(texts(CLAUDE, &whole), ["a", "b", "c"]);
}

#[test]
fn a_conversation_that_begins_with_a_reply_gets_a_beginning() {
    let lines = [said("a1<-", "m1", "so"), user("u1<a1", "go")];
    let Outcome { whole, .. } = check(CLAUDE, &lines, &["first-not-user"]);
    assert_eq!(texts(CLAUDE, &whole).len(), 3);
}

#[test]
fn blocks_that_no_provider_takes_are_made_small() {
    let image = format!(
        r#"{{"role":"user","content":[{{"type":"image","source":{{"type":"base64","media_type":"image/png","data":"{}"}}}}]}}"#,
        "A".repeat(8 << 20)
    );
    let lines = [user("u1<-", "look"), record("u2<u1", "user", "", &image), user("u3<u2", "well?")];
    let Outcome { whole, .. } = check(CLAUDE, &lines, &["block-oversized"]);
    assert!(whole.len() < 2000, "{}", whole.len());
}

#[test]
fn unknown_records_are_named_and_stay() {
    let lines = [user("u1<-", "go"), r#"{"type":"hologram"}"#.to_owned()];
    let whole = lines.join("\n");
    let format = by_id(CLAUDE).expect("a format");
    assert_eq!(codes(&format.validate(whole.as_bytes())), ["record-unknown"]);
    let repaired = repair(format, &[whole.as_bytes()], Reuse::SameAccount).expect("lines");
    assert_eq!((repaired.deltas, codes(&repaired.left)), (vec![None], vec!["record-unknown"]));
}

#[test]
fn what_holds_no_conversation_cannot_be_repaired() {
    let repaired = repair(by_id(CLAUDE).expect("a format"), &[b"{\"type\":\"mode\"}\n"], Reuse::SameAccount);
    let left = repaired.expect("lines").left;
    assert_eq!(codes(&left), ["cwd-missing", "no-messages"]);
    assert!(!left[1].code.remedy().is_repair() && left[1].is_error());
}

#[test]
fn deltas_without_a_broken_record_keep_their_bytes() {
    let deltas = [
        user("u1<-", "go") + "\n",
        call("a1<u1", "m1", "t1") + "\n",
        user("u2<a1", "so?") + "\n",
        said("a2<u2", "m2", "yes") + "\n",
    ];
    let repaired = repair(by_id(CLAUDE).expect("a format"), &deltas, Reuse::SameAccount).expect("lines");
    assert_eq!(repaired.deltas.iter().map(Option::is_some).collect::<Vec<_>>(), [false, true, true, false]);
}

fn line(kind: &str, payload: &str) -> String {
    format!(r#"{{"timestamp":"2026-04-11T20:15:02.756Z","type":"{kind}","payload":{payload}}}"#)
}

fn meta() -> String {
    let id = "019f05fa-59a1-7863-8863-855e7b57ee1a";
    let more = r#""timestamp":"2026-04-11T20:15:02.756Z","cwd":"/w","originator":"codex","cli_version":"0.1""#;
    line("session_meta", &format!(r#"{{"id":"{id}",{more}}}"#))
}

fn message(role: &str, text: &str) -> String {
    let part = if role == "assistant" { "output_text" } else { "input_text" };
    line(
        "response_item",
        &format!(r#"{{"type":"message","role":"{role}","content":[{{"type":"{part}","text":"{text}"}}]}}"#),
    )
}

fn item(payload: &str) -> String {
    line("response_item", payload)
}

#[test]
fn a_rollout_gets_the_line_that_says_whose_it_is() {
    let lines = [message("user", "hi"), message("assistant", "ho")];
    let Outcome { whole, .. } = check(CODEX, &lines, &["cwd-missing", "session-meta-missing"]);
    assert_eq!(whole.lines().skip(1).collect::<Vec<_>>(), lines);
    let lines = [meta().replace(r#","originator":"codex""#, ""), message("user", "hi")];
    check(CODEX, &lines, &["session-meta-incomplete"]);
}

#[test]
fn calls_and_outputs_of_a_rollout_are_paired() {
    let lines = [
        meta(),
        message("user", "go"),
        item(r#"{"type":"function_call","call_id":"c1","name":"exec","arguments":"{}"}"#),
        item(r#"{"type":"custom_tool_call","call_id":"c2","name":"apply_patch","input":"x"}"#),
        item(r#"{"type":"function_call_output","call_id":"c9","output":"lost"}"#),
        message("assistant", "done"),
    ];
    let Outcome { whole, .. } = check(CODEX, &lines, &["call-unanswered", "call-unanswered", "result-orphaned"]);
    assert!(whole.contains("custom_tool_call_output") && whole.contains("Result:"));
}

#[test]
fn what_another_provider_or_account_encrypted_is_left_out() {
    let cipher = "gAAAAABpT0ken0fS0meReas0ningThatIsL0ngEn0ugh";
    let sealed = |text: &str, cipher: &str| {
        let summary =
            if text.is_empty() { String::new() } else { format!(r#"{{"type":"summary_text","text":"{text}"}}"#) };
        item(&format!(r#"{{"type":"reasoning","summary":[{summary}],"encrypted_content":"{cipher}"}}"#))
    };
    let lines =
        [meta(), message("user", "go"), sealed("so", "REDACTED"), sealed("", "REDACTED"), sealed("well", cipher)];
    let Outcome { whole, changes } = check(CODEX, &lines, &["encrypted-foreign", "encrypted-foreign"]);
    assert_eq!((whole.lines().count(), changes.len()), (4, 2));
    assert!(whole.ends_with(&(sealed("well", cipher) + "\n")));
    let foreign =
        ["encrypted-foreign", "encrypted-foreign", "encrypted-foreign", "encrypted-foreign", "encrypted-foreign"];
    let Outcome { whole, .. } = check_for(CODEX, &lines, &foreign, Reuse::OtherAccount);
    assert!(!whole.contains("encrypted_content"));
    let elsewhere = |provider: &str| meta().replace(r#""cwd""#, &format!(r#""model_provider":"{provider}","cwd""#));
    let lines =
        [elsewhere("azure"), message("user", "go"), sealed("so", cipher), elsewhere("openai"), message("user", "on")];
    check(CODEX, &lines, &["encrypted-foreign"]);
}

#[test]
fn compactions_of_a_rollout_in_a_row_and_without_a_summary_go() {
    let compacted = |text: &str| {
        let item = format!(r#"{{"type":"message","role":"user","content":[{{"type":"input_text","text":"{text}"}}]}}"#);
        line("compacted", &format!(r#"{{"message":"{text}","replacement_history":[{item}]}}"#))
    };
    let lines = [meta(), message("user", "go"), compacted("one"), compacted("two"), message("user", "on")];
    let Outcome { whole, .. } = check(CODEX, &lines, &["compaction-doubled"]);
    assert!(!whole.contains("one"));
    let lines = [meta(), message("user", "go"), line("compacted", r#"{"message":""}"#), message("user", "on")];
    let Outcome { whole, .. } = check(CODEX, &lines, &["compaction-empty"]);
    assert_eq!(texts(CODEX, &whole), ["go", "on"]);
}

#[test]
fn messages_of_an_array_are_mended_from_the_first_broken_delta_on() {
    let format = by_id("anthropic-messages-v1").expect("a format");
    let deltas = [
        r#"[{"role":"user","content":"go"}]"#,
        r#"[{"role":"assistant","content":[{"type":"thinking","thinking":"hm","signature":""},{"type":"tool_use","id":"t1","name":"N","input":{}}]}]"#,
        r#"[{"role":"user","content":"well?"}]"#,
    ];
    let repaired = repair(format, &deltas, Reuse::SameAccount).expect("arrays");
    assert_eq!(repaired.left, []);
    assert_eq!(codes_of(&repaired.changes), ["call-unanswered", "thinking-unsigned"]);
    assert_eq!(repaired.deltas[0], None);
    let [_, Some(second), Some(third)] = repaired.deltas.as_slice() else { panic!("{:?}", repaired.deltas) };
    assert!(String::from_utf8_lossy(second).contains(INTERRUPTED));
    assert_eq!(third, b"[]");
}

fn codes_of(changes: &[Change]) -> Vec<&'static str> {
    changes.iter().map(|change| change.code.as_str()).collect()
}

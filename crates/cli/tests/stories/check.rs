//! Whether a context would load, and a fork of it that does: `check`, `repair`.

use serde_json::json;

use crate::expect::{check, check_json};
use crate::runner::Enjamb;

const ENVELOPE: &str = r#""type":"message","role":"assistant","model":"claude-x","stop_reason":null,"usage":{"input_tokens":1,"output_tokens":1}"#;

fn record(link: &str, kind: &str, message: &str) -> String {
    let (uuid, parent) = link.split_once('<').expect("a link");
    let parent = if parent == "-" { "null".to_owned() } else { format!("\"{parent}\"") };
    format!(
        "{{\"parentUuid\":{parent},\"isSidechain\":false,\"cwd\":\"/\",\"sessionId\":\"s\",\"type\":\"{kind}\",\
         \"message\":{message},\"uuid\":\"{uuid}\",\"timestamp\":\"2026-01-02T03:04:05.678Z\"}}\n"
    )
}

fn user(link: &str, text: &str) -> String {
    record(link, "user", &format!(r#"{{"role":"user","content":"{text}"}}"#))
}

fn reply(link: &str, id: &str, block: &str) -> String {
    record(link, "assistant", &format!(r#"{{"id":"{id}",{ENVELOPE},"content":[{block}]}}"#))
}

/// A session in three commits. The second has a call without a result and a thought without a signature.
fn broken(enjamb: &Enjamb) -> [String; 3] {
    let thought = reply("a1<u1", "m1", r#"{"type":"thinking","thinking":"hm","signature":""}"#);
    let call = reply("a2<a1", "m1", r#"{"type":"tool_use","id":"t1","name":"Read","input":{}}"#);
    let deltas = [
        user("u1<-", "why is checkout slow?"),
        thought + &call,
        user("u2<a2", "well?") + &reply("a3<u2", "m2", r#"{"type":"text","text":"two sleeps"}"#),
    ];
    let mut tip: Option<String> = None;
    deltas.map(|delta| {
        let mut arguments = vec!["checkpoint", "--format", "claude-code-v1", "--principal", "agent/a"];
        arguments.extend(tip.iter().flat_map(|tip| ["--parent", tip]));
        let made = enjamb.run_with(&arguments, delta).done().line();
        tip.insert(made).clone()
    })
}

#[test]
fn a_context_that_would_not_load_says_exactly_why() {
    let enjamb = Enjamb::new();
    let [_, second, third] = broken(&enjamb);
    let answer = enjamb.run(&["check"]).exits(1);
    check(
        &answer.out(),
        "\n✗ line 2 (byte [..]) a1  The call \"t1\" of tool \"Read\" has no result.  [call-unanswered]\n    \
         can be repaired: a result says that it was interrupted\n\
         ✗ line 2 (byte [..]) a1  A thinking block has no signature.  [thinking-unsigned]\n    \
         can be repaired: the thinking block is left out\n\
         claude-code-v1, 4 messages   would not load: 2 errors\n",
    );
    assert_eq!(answer.err(), "help:  enjamb repair @\n");
    let answer = enjamb.run(&["check", &third, "--json"]).exits(1).document();
    assert_eq!((&answer["loads"], answer["problems"].as_array().map(Vec::len)), (&json!(false), Some(2)));
    let expected = json!({
        "code": "call-unanswered", "severity": "error", "number": 2, "offset": "[..]", "record": "a1",
        "commit": second, "reason": "The call \"t1\" of tool \"Read\" has no result.", "repairable": true,
        "remedy": "a result says that it was interrupted",
    });
    check_json(&answer["problems"][0], &expected);
}

#[test]
fn a_repair_is_a_fork_that_loads_and_names_every_change() {
    let enjamb = Enjamb::new();
    let [first, second, third] = broken(&enjamb);
    let whole = enjamb.run(&["materialize", &third]).done().stdout;
    let dry = enjamb.run(&["repair", "--dry-run"]).done();
    check(
        &dry.out(),
        "\nline 2 (byte [..]) a1  left out a thought that the provider did not sign  [thinking-unsigned]\n\
         line 3 (byte [..]) a2  a result says that it was interrupted  [call-unanswered]\n\
         would make 2 changes in 2 commits\n",
    );
    assert_eq!(enjamb.json(&["show", "@"])["id"], json!(third), "a dry run writes nothing");
    let done = enjamb.json(&["repair", "@", "-n", "mended"]);
    let change = |record: &str, code: &str, what: &str, number: u64| json!({"code": code, "number": number, "offset": "[..]", "record": record, "commit": second, "what": what});
    let expected = json!({
        "schema": "enjamb.cli.repair/1", "tip": third, "format": "claude-code-v1", "left": [], "loads": true,
        "commits": 2, "shared": first, "fork": "ctx-[..]", "dry_run": false,
        "changes": [
            change("a1", "thinking-unsigned", "left out a thought that the provider did not sign", 2),
            change("a2", "call-unanswered", "a result says that it was interrupted", 3),
        ],
    });
    check_json(&done, &expected);
    check(&enjamb.run(&["check", "mended"]).done().out(), "claude-code-v1, 5 messages   would load\n");
    assert_eq!(enjamb.run(&["materialize", &third]).done().stdout, whole, "the original is as it was");
    assert_eq!(enjamb.run(&["merge-base", "mended", &third]).done().line(), first);
    check(&enjamb.run(&["repair", "mended"]).done().out(), "nothing to repair\n");
}

#[test]
fn another_runtime_is_asked_about_its_own_translation() {
    let enjamb = Enjamb::new();
    broken(&enjamb);
    let answer = enjamb.run(&["check", "--for", "codex"]).done();
    check(
        &answer.out(),
        "\n! line [..]  The call \"t1\" of tool \"Read\" has no result.  [call-unanswered]\n    \
         can be repaired: a result says that it was interrupted\n\
         codex-v1, 4 messages   would load, with 1 warning\n",
    );
    assert_eq!(answer.err(), "Places are those in the translation from claude-code-v1.\n");
    let done = enjamb.json(&["repair", "--for", "codex"]);
    assert_eq!((&done["loads"], &done["left"]), (&json!(true), &json!([])));
    let refused = enjamb.run(&["check", "--for", "cursor"]).exits(2);
    assert!(refused.err().contains("claude-code, codex, gemini, opencode"), "{}", refused.err());
}

#[test]
fn a_file_is_checked_as_it_is() {
    let enjamb = Enjamb::new();
    let torn = user("u1<-", "hi") + &user("u2<gone", "\\u001b[31mho") + "{\"type\":\"assi";
    let path = enjamb.file("0b5cfa9e.jsonl", torn);
    let answer = enjamb.run(&["check", "--file", &path]).done();
    check(
        &answer.out(),
        "\n! line 2 (byte [..]) u2  The parent \"gone\" is not in the transcript: the model would see nothing from before it.  [parent-missing]\n    \
         can be repaired: it is put after the record before it\n\
         ! line 3 (byte [..])  The line is not JSON: EOF while parsing a string.  [torn-tail]\n    \
         can be repaired: what cannot be read is left out\n\
         claude-code-v1, 2 messages   would load, with 2 warnings\n",
    );
    enjamb.run(&["check", "--file", &enjamb.path("nowhere.jsonl")]).exits(3);
    let empty = enjamb.file("empty.jsonl", "{\"type\":\"mode\",\"sessionId\":\"s\"}\n");
    let answer = enjamb.run(&["check", "--file", &empty]).exits(1);
    assert!(answer.out().contains("cannot be repaired: nothing was said"), "{}", answer.out());
}

/// A session of Claude Code that Codex went on with.
fn gone_on_in_codex(enjamb: &Enjamb) -> String {
    let asked = user("u1<-", "why is checkout slow?");
    let answered = reply("a1<u1", "m1", r#"{"type":"text","text":"two sleeps"}"#);
    let line = |payload: &str| {
        format!("{{\"timestamp\":\"2026-01-02T04:00:00.000Z\",\"type\":\"response_item\",\"payload\":{payload}}}\n")
    };
    let added = [
        r#"{"type":"message","role":"user","content":[{"type":"input_text","text":"cap them"}]}"#,
        r#"{"type":"function_call","call_id":"c1","name":"exec_command","arguments":"{\"cmd\":\"ls\"}"}"#,
        r#"{"type":"function_call_output","call_id":"c1","output":"retry.rs"}"#,
        r#"{"type":"message","role":"assistant","content":[{"type":"output_text","text":"capped"}]}"#,
    ];
    let native = format!("{asked}{answered}");
    let first = enjamb.run_with(&["checkpoint", "--format", "claude-code-v1"], asked).done().line();
    let second =
        enjamb.run_with(&["checkpoint", "--format", "claude-code-v1", "--parent", &first], answered).done().line();
    let added: String = added.into_iter().map(line).collect();
    enjamb.run_with(&["checkpoint", "--format", "codex-v1", "--parent", &second], added).done();
    native
}

#[test]
fn there_and_back_again_is_what_was_there_followed_by_what_is_new() {
    let enjamb = Enjamb::new();
    let native = gone_on_in_codex(&enjamb);
    let answer = enjamb.run(&["materialize", "@", "--format", "claude-code-v1"]).done();
    let whole = answer.out();
    let new = whole.strip_prefix(&native).expect("the bytes that were there");
    assert_eq!(new.lines().count(), 4);
    assert!(new.lines().next().is_some_and(|line| line.contains(r#""parentUuid":"a1""#)), "{new}");
    assert!(new.lines().all(|line| line.contains(r#""sessionId":"s""#)), "{new}");
    check(
        &answer.err(),
        "\n3 commits, 6 messages, [..] tokens, [..]   claude-code-v1 (mapped)\n  \
         kept     6 blocks  \n",
    );
    check(&enjamb.run(&["check", "--for", "claude-code"]).done().out(), "claude-code-v1, 6 messages   would load\n");
    let there = enjamb.run(&["materialize", "@", "--format", "codex-v1"]).done().out();
    let lines: Vec<&str> = there.lines().collect();
    assert!(lines[0].contains("session_meta") && lines.len() == 9, "{there}");
    assert!(lines[8].contains("capped") && !lines[8].contains("enjamb"), "what Codex wrote is as it was: {there}");
    check(&enjamb.run(&["check", "--for", "codex"]).done().out(), "codex-v1, 6 messages   would load\n");
}

#[test]
fn a_chain_of_two_formats_is_repaired_once_it_is_in_one() {
    let enjamb = Enjamb::new();
    let [_, _, third] = broken(&enjamb);
    let added = r#"{"timestamp":"2026-01-02T04:00:00.000Z","type":"response_item","payload":{"type":"message","role":"user","content":[{"type":"input_text","text":"cap them"}]}}"#;
    let tip = enjamb
        .run_with(&["checkpoint", "--format", "codex-v1", "--parent", &third], format!("{added}\n"))
        .done()
        .line();
    let refused = enjamb.run(&["repair", &tip]).exits(2);
    check(
        &refused.err(),
        "\nerror: [..]claude-code-v1[..]codex-v1[..]\n\
         help:  enjamb materialize ctx-[..] --format claude-code-v1 | enjamb checkpoint --type snapshot --parent ctx-[..] --format claude-code-v1\n",
    );
    let whole = enjamb.run(&["materialize", &tip, "--format", "claude-code-v1"]).done().stdout;
    let snapshot = ["checkpoint", "--type", "snapshot", "--parent", &tip, "--format", "claude-code-v1"];
    let snapshot = enjamb.run_with(&snapshot, whole).done().line();
    let done = enjamb.json(&["repair", &snapshot]);
    assert_eq!((&done["loads"], &done["left"]), (&json!(true), &json!([])));
    let mended = enjamb.run(&["materialize", done["fork"].as_str().expect("a fork")]).done().out();
    assert!(mended.contains("two sleeps") && mended.contains("cap them"), "{mended}");
}

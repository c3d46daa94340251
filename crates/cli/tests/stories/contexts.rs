//! Contexts: `compile`, `render`, `bundle show`.

use serde_json::{Value, json};

use crate::expect::{check, check_json};
use crate::runner::Enjamb;
use crate::threads::{damage_all_but, post, reply, thread};

/// A thread with a question that was answered, and one that was not.
fn asked(enjamb: &Enjamb) -> String {
    let id = thread(enjamb);
    let first = post(enjamb, &id, "why is checkout slow?", &["--spawn"]);
    reply(enjamb, &id, &first, "two sleeps");
    post(enjamb, &id, "cap it at 3", &[]);
    id
}

#[test]
fn a_context_is_compiled_recorded_shown_and_audited() {
    let enjamb = Enjamb::new();
    let id = asked(&enjamb);
    let compiled = enjamb.json(&["compile", &id]);
    let expected = json!({
        "schema": "enjamb.cli.compile/1", "bundle": "art-[..]", "bytes": "[..]", "items": 3, "thread_id": id,
        "from_seq": 5, "from_message_id": "[..]", "run": "[..]", "strategy": "recent_messages_v1",
        "limits": {"hierarchical_summaries_v1_max_refs": 3, "recent_messages_v1_limit": 16},
        "reason": {"cause": "no_compaction_checkpoint", "selected": "recent_messages_v1"}, "resets": [],
        "decided_seq": 6,
    });
    check_json(&compiled, &expected);
    let bundle = compiled["bundle"].as_str().unwrap();
    check(
        &enjamb.run(&["compile", "--audit", bundle]).done().out(),
        &format!("✓ {bundle} compiles to the same bytes\n"),
    );
    assert_eq!(enjamb.json(&["compile", "--audit", bundle])["same"], true);
    check(
        &enjamb.run(&["bundle", "show", bundle]).done().out(),
        &format!(
            "
thread      {id}
up to       5
strategy    recent_messages_v1
run         [..]
message     [..]
by          user through cli
0\tuser\t1\twhy is checkout slow?
1\tassistant\t\ttwo sleeps
2\tuser\t4\tcap it at 3
"
        ),
    );
    let decided = enjamb.run(&["thread", "decisions", &id]).done().out();
    check(&decided, "6\t[..]\trecent_messages_v1\tno_compaction_checkpoint\n");
    assert_eq!(enjamb.json(&["thread", "decisions", &id, "-n", "0"])["decisions"].as_array().unwrap().len(), 1);
    let types = enjamb.run(&["thread", "events", &id, "--from", "5"]).done().out();
    let types: Vec<Value> = types.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let types: Vec<_> = types.iter().map(|frame| frame["type"].as_str().unwrap()).collect();
    assert_eq!(
        types,
        ["continuity_run_spawned", "continuity_context_selection_decided", "continuity_context_compiled"]
    );
    enjamb.run(&["verify"]).done();
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// A message like the first one.
fn asked_again(enjamb: &Enjamb, thread: &str) -> String {
    post(enjamb, thread, "is checkout slow again?", &[])["message_id"].as_str().unwrap().to_owned()
}

#[test]
fn explain_says_of_each_candidate_by_which_rule() {
    let enjamb = Enjamb::new();
    let id = asked(&enjamb);
    (0..80).for_each(|at| drop(post(&enjamb, &id, &format!("message {at}"), &[])));
    let explained = enjamb.run(&["compile", &id, "--explain", "--dry-run"]).done().out();
    let rows: Vec<&str> = explained.lines().collect();
    check(rows[0], &format!("out\t0\trecent_messages_v1_limit\t{id}/0-4\tearlier than the last messages"));
    check(rows[1], &format!("out\t3\trecent_messages_v1_limit\t{id}/5\tearlier than the last messages"));
    check(rows[65], &format!("in\t3\trecent_messages_v1_limit\t{id}/69\tamong the last messages"));
    assert_eq!(rows.len(), 1 + 64 + 16 + 1, "what is far back, what is near, what is in, and the bundle");
    let budget = enjamb.json(&["compile", &id, "--explain", "--dry-run", "--budget", "20"]);
    assert_eq!((&budget["strategy"], &budget["decided_seq"]), (&json!("token_budget_v1"), &Value::Null));
    let rows = budget["candidates"].as_array().unwrap();
    let tokens: u64 =
        rows.iter().filter(|row| row["included"] == true).map(|row| row["tokens"].as_u64().unwrap()).sum();
    assert!(tokens <= 20, "{rows:?}");
    let out: Vec<_> = rows.iter().filter(|row| row["included"] == false).map(|row| text(&row["reason"])).collect();
    assert_eq!(out, ["earlier than the first that does not fit", "does not fit the budget"], "{rows:?}");
    let found = enjamb.json(&[
        "compile",
        &id,
        "--strategy",
        "retrieval_recent_messages_v1",
        "--message",
        &asked_again(&enjamb, &id),
    ]);
    assert_eq!((&found["items"], &found["resets"]), (&json!(17), &json!([])));
    let results = enjamb.run(&["render", found["bundle"].as_str().unwrap()]).done().out();
    assert!(results.contains("user (1): why is checkout slow?"), "{results}");
    let roles = enjamb.json(&["compile", &id, "--role", "user=developer", "--dry-run"]);
    assert_eq!(roles["strategy"], "actor_roles_recent_messages_v1");
}

#[test]
fn a_context_is_rendered_for_each_provider() {
    let enjamb = Enjamb::new();
    let id = asked(&enjamb);
    let bundle = enjamb.run(&["compile", &id]).done().line();
    let render = |target: &str| enjamb.run(&["render", &bundle, "--for", target]).done().out();
    let (user, assistant, cap) = (
        r#"{"content":"why is checkout slow?","role":"user","type":"message"}"#,
        r#"{"content":"two sleeps","role":"assistant","type":"message"}"#,
        r#"{"content":"cap it at 3","role":"user","type":"message"}"#,
    );
    assert_eq!(render("open-responses"), format!("[{user},{assistant},{cap}]\n"));
    assert_eq!(render("open-responses"), enjamb.run(&["render", &bundle]).done().out());
    assert_eq!(render("openai-chat"), format!("[{user},{assistant},{cap}]\n").replace(",\"type\":\"message\"", ""));
    let anthropic: Value = serde_json::from_str(&render("anthropic")).unwrap();
    assert_eq!(
        anthropic["messages"][1],
        json!({"role": "assistant", "content": [{"type": "text", "text": "two sleeps"}]})
    );
    assert_eq!(enjamb.json(&["render", &bundle])["rendered"].as_array().unwrap().len(), 3);
}

#[test]
fn an_audit_notices_a_bundle_that_was_not_compiled_here() {
    let enjamb = Enjamb::new();
    let id = asked(&enjamb);
    let bundle = enjamb.run(&["compile", &id]).done().line();
    let text = enjamb.run(&["get", &bundle]).done().out();
    let forged = enjamb.put(text.replace("two sleeps", "two naps"));
    let answer = enjamb.json(&["compile", "--audit", &bundle]);
    assert_eq!(answer["differences"], json!([]));
    let mut command = enjamb.command(&["compile", "--audit", &forged]);
    command.arg("--json");
    let answer = crate::runner::answer(command, b"").exits(1).document();
    assert_eq!((&answer["same"], &answer["differences"]), (&json!(false), &json!(["item 1"])));
}

#[test]
fn what_cannot_be_compiled_or_rendered_is_refused_and_nothing_is_written() {
    let enjamb = Enjamb::new();
    let (id, empty) = (asked(&enjamb), thread(&enjamb));
    let bundle = enjamb.run(&["compile", &id]).done().line();
    let text = enjamb.run(&["get", &bundle]).done().out();
    let newer = enjamb
        .put(text.replace("\"type\":\"message\",\"role\":\"assistant\"", "\"type\":\"dream\",\"role\":\"assistant\""));
    let other = enjamb.put("{}");
    let lost = enjamb.put(text.replace(
        "\"items\":[",
        &format!("\"items\":[{{\"type\":\"summary_ref\",\"artifact_id\":\"{}\"}},", "0".repeat(64)),
    ));
    let before = enjamb.run::<&str>(&[]).done().out();
    let refused = |arguments: &[&str], exit: i32, code: &str, says: &str| {
        let problem = enjamb.run(&[arguments, &["--json"]].concat()).exits(exit).problem();
        assert_eq!(problem["code"], code, "{problem}");
        assert!(problem["title"].as_str().unwrap().contains(says), "{problem}");
    };
    refused(&["compile", &id, "--message", "nobody"], 3, "message-not-found", "no message nobody");
    refused(&["compile", &id, "--run", "nobody"], 3, "run-not-found", "no run nobody");
    refused(&["compile", &empty], 5, "thread-empty", "no messages");
    refused(&["compile", "nowhere"], 3, "not-found", "no thread nowhere");
    refused(&["compile", &id, "--strategy", "guess"], 2, "unknown-strategy", "guess");
    refused(&["compile", &id, "--strategy", "token_budget_v1"], 2, "bad-request", "budget");
    refused(&["compile", &id, "--budget", "1"], 2, "budget-too-small", "1 tokens");
    refused(&["compile", &id, "--budget", "9", "--counted-by", "feel"], 2, "bad-request", "feel");
    let recent = ["compile", &id, "--strategy", "recent_messages_v1"];
    refused(&[&recent[..], &["--role", "user=system"]].concat(), 2, "bad-request", "recent_messages_v1");
    refused(&[&recent[..], &["--budget", "90"]].concat(), 2, "bad-request", "token_budget_v1");
    refused(&["compile", &id, "--role", "bob=tool"], 2, "bad-request", "bob=tool");
    refused(&["compile", "--audit", &newer], 2, "unknown-item", "item 1 of the bundle has the type \"dream\"");
    refused(&["render", &newer], 2, "unknown-item", "dream");
    refused(&["render", &other], 2, "not-a-bundle", "schema");
    refused(&["render", &lost], 3, "artifact-not-found", "art-0000");
    refused(&["render", &bundle, "--for", "nobody"], 2, "bad-request", "nobody");
    refused(&["bundle", "show", &other], 2, "not-a-bundle", "schema");
    assert_eq!(enjamb.run::<&str>(&[]).done().out(), before, "what is refused leaves nothing behind");
}

#[test]
fn a_chain_of_any_runtime_is_compiled_rendered_and_audited() {
    let enjamb = Enjamb::new();
    let call = json!({"role": "assistant", "content": [{"type": "text", "text": "let me look"}, {"type": "tool_use", "id": "t1", "name": "Read", "input": {"file_path": "a.rs"}}]});
    let result = json!({"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "line\n".repeat(2_000)}]});
    let delta =
        json!([{"role": "user", "content": "why is it slow?"}, call, result, {"role": "user", "content": "go on"}]);
    let arguments = ["checkpoint", "--format", "anthropic-messages-v1", "--principal", "a"];
    let tip = enjamb.run_with(&arguments, delta.to_string()).done().line();
    let first = enjamb.json(&["compile", &tip, "--run", "r1", "--dry-run"]);
    assert_eq!(first["decided_seq"], Value::Null);
    let whole = enjamb.json(&["compile", &tip, "--run", "r1"]);
    assert_eq!((&whole["strategy"], &whole["items"]), (&json!("chain_messages_v1"), &json!(4)));
    assert_eq!(first["bundle"], whole["bundle"], "the same chain for the same run, the same bytes");
    let again = enjamb.run(&["compile", &tip, "--run", "r1", "--json"]).exits(5).problem();
    assert_eq!(again["code"], "selection-after-compiled", "a run has one context");
    let frames = enjamb.run(&["frames", "context/a", "--from", "1"]).done().out();
    let frames: Vec<Value> = frames.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let types: Vec<_> = frames.iter().map(|frame| frame["type"].as_str().unwrap()).collect();
    assert_eq!(types, ["context_selection_decided", "context_compiled"], "both are recorded with the commit");
    assert_eq!((&frames[0]["seq"], &frames[0]["commit_id"]), (&whole["decided_seq"], &json!(tip)));
    assert!(whole["bundle"].as_str().unwrap().ends_with(frames[1]["bundle_artifact_id"].as_str().unwrap()));
    let fitted = enjamb.json(&["compile", &tip, "--budget", "200", "--explain"]);
    assert_eq!(fitted["strategy"], "chain_token_budget_v1/200/o200k_base");
    let bundle = fitted["bundle"].as_str().unwrap();
    let rendered = enjamb.run(&["render", bundle, "--for", "anthropic"]).done().out();
    assert!(rendered.contains("result of Read, 10000 bytes") && rendered.contains("[called Read"), "{rendered}");
    for bundle in [&whole["bundle"], &fitted["bundle"]] {
        assert_eq!(enjamb.json(&["compile", "--audit", bundle.as_str().unwrap()])["same"], true);
    }
    let small = enjamb.run(&["compile", &tip, "--budget", "1", "--json"]).exits(2).problem();
    assert_eq!(small["code"], "budget-too-small");
    enjamb.run(&["compile", &tip, "--role", "a=user"]).exits(2);
    enjamb.run(&["verify"]).done();
}

#[test]
fn compiling_reads_no_more_than_a_context_holds() {
    let enjamb = Enjamb::new();
    let id = thread(&enjamb);
    (0..40).for_each(|at| drop(post(&enjamb, &id, &format!("number {at:02}"), &[])));
    let before = enjamb.json(&["compile", &id, "--dry-run"]);
    assert_eq!(before["items"], 16);
    // The last 16, and the one before them: its chain is what the first is checked against.
    let spared: Vec<String> = (23..40).map(|at| format!("number {at:02}")).collect();
    damage_all_but(&enjamb, &spared.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!(enjamb.json(&["compile", &id, "--dry-run"]), before);
    enjamb.run(&["thread", "events", &id]).exits(6);
}

/// A store with a thread of every kind of history, and the contexts to compile.
fn contexts(enjamb: &Enjamb) -> Vec<Vec<String>> {
    let parent = asked(enjamb);
    let filler = "and so on, in the same few words as before ".repeat(40);
    (0..20).for_each(|at| drop(post(enjamb, &parent, &format!("retry {at}\n{filler}"), &[])));
    enjamb.run(&["compact", &parent, "--stride", "4", "--max-new", "5"]).done();
    let pinned = post(enjamb, &parent, "never push to main", &[]);
    enjamb.run(&["thread", "pin", &parent, pinned["message_id"].as_str().unwrap()]).done();
    let child = enjamb.run(&["thread", "branch", &parent]).done().line();
    post(enjamb, &child, "retry the child", &[]);
    post(enjamb, &parent, "how often is retry tried?", &[]);
    let said = json!({"role": "user", "content": "why is it slow?"}).to_string() + "\n";
    let chain = enjamb.run_with(&["checkpoint", "--format", "generic-v1"], said).done().line();
    let by_strategy = |strategy: &str| vec![parent.clone(), "--strategy".into(), strategy.into()];
    let mut all: Vec<Vec<String>> = [
        "recent_messages_v1",
        "summaries_recent_messages_v1",
        "hierarchical_summaries_recent_messages_v1",
        "retrieval_recent_messages_v1",
    ]
    .map(by_strategy)
    .into();
    all.push(vec![child, "--strategy".into(), "lineage_recent_messages_v1".into()]);
    all.push(vec![parent.clone(), "--budget".into(), "900".into()]);
    all.push(vec![parent, "--role".into(), "user=developer".into()]);
    all.push(vec![chain.clone()]);
    all.push(vec![chain, "--budget".into(), "50".into()]);
    all
}

#[test]
fn nothing_that_is_derived_changes_a_context() {
    let enjamb = Enjamb::new();
    let contexts = contexts(&enjamb);
    let bundles = || {
        let dry = |context: &Vec<String>| {
            let mut arguments = vec!["compile".to_owned()];
            arguments.extend_from_slice(context);
            enjamb.json(&[&arguments[..], &["--dry-run".to_owned()]].concat())
        };
        contexts.iter().map(dry).collect::<Vec<Value>>()
    };
    let before = bundles();
    let strategies: std::collections::BTreeSet<_> = before.iter().map(|it| it["strategy"].to_string()).collect();
    assert_eq!(strategies.len(), before.len(), "{strategies:?}");
    for round in ["everything derived is gone", "and the log is sealed"] {
        let derived = ["index.db", "index.db-wal", "index.db-shm"].map(|name| enjamb.store().join(name));
        assert!(derived[0].exists());
        derived.iter().for_each(|path| drop(std::fs::remove_file(path)));
        let _ = std::fs::remove_dir_all(enjamb.store().join("cache"));
        assert_eq!(bundles(), before, "{round}");
        enjamb.run(&["maintain"]).done();
    }
}

#[test]
fn an_audit_of_a_chain_knows_what_was_pinned_then() {
    let enjamb = Enjamb::new();
    let said = |text: &str| json!({"role": "user", "content": text}).to_string() + "\n";
    let commit = |text: &str, more: &[&str]| {
        let arguments = ["checkpoint", "--format", "generic-v1", "--principal", "a"];
        enjamb.run_with(&[&arguments[..], more].concat(), said(text)).done().line()
    };
    let first = commit("never push to main", &[]);
    let second = commit(&"some words of no consequence ".repeat(20), &["--parent", &first]);
    let tip = commit("go on", &["--parent", &second]);
    enjamb.run(&["note", &first, "--tag", "pin"]).done();
    let compiled = enjamb.json(&["compile", &tip, "--budget", "40"]);
    assert_eq!(compiled["items"], 2, "the pin and the last");
    let bundle = compiled["bundle"].as_str().unwrap();
    let decided = enjamb.run(&["frames", "context/a", "--from", "4", "-n", "1"]).done().out();
    let decided: Value = serde_json::from_str(&decided).unwrap();
    assert_eq!(decided["reason"]["pinned"], json!([first]));
    enjamb.run(&["note", &second, "--tag", "pin"]).done();
    assert_eq!(enjamb.json(&["compile", "--audit", bundle])["same"], true, "tags set since do not count");
    let text = enjamb.run(&["get", bundle]).done().out();
    let forged = enjamb.put(text.replace("never push", "always push"));
    enjamb.run(&["compile", "--audit", &forged]).exits(1);
    let elsewhere = enjamb.put(text.replace("\"run_session_id\":\"", "\"run_session_id\":\"x"));
    let problem = enjamb.run(&["compile", "--audit", &elsewhere, "--json"]).exits(3).problem();
    assert_eq!(problem["code"], "run-not-found", "{problem}");
}

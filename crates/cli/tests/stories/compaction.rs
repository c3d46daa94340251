//! Compaction: `compact` on threads and chains, `job`, `cursor`.

use serde_json::{Value, json};

use crate::expect::{check, check_json};
use crate::runner::Enjamb;
use crate::threads::{post, thread};

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// A thread of so many messages.
fn long_thread(enjamb: &Enjamb, messages: usize) -> String {
    let id = thread(enjamb);
    // Each takes more than a summary of it.
    let rest = "and so on, in the same few words as before ".repeat(40);
    (1..=messages).for_each(|at| drop(post(enjamb, &id, &format!("message {at}\n{rest}"), &[])));
    id
}

#[test]
fn a_thread_is_compacted_by_a_job_and_the_next_context_rests_on_it() {
    let enjamb = Enjamb::new();
    let id = long_thread(&enjamb, 5);
    check(
        &enjamb.run(&["compact", "cuts", &id, "--stride", "2", "-n", "9"]).done().out(),
        "4\t4\t[..]\t-\n2\t2\t[..]\t-\n",
    );
    let done = enjamb.json(&["compact", &id, "--stride", "2"]);
    assert_eq!((&done["status"], &done["created"][0]["to_seq"]), (&json!("completed"), &json!(4)));
    let summary: Value =
        serde_json::from_str(&enjamb.run(&["get", text(&done["created"][0]["summary_artifact"])]).done().out())
            .unwrap();
    assert_eq!(summary["schema"], "rip.compaction_summary.v1");
    assert_eq!(summary["coverage"]["to_seq"], 4);
    let compiled = enjamb.json(&["compile", &id]);
    assert_eq!((&compiled["strategy"], &compiled["items"]), (&json!("summaries_recent_messages_v1"), &json!(2)));
    let rendered = enjamb.run(&["render", text(&compiled["bundle"])]).done().out();
    assert!(rendered.starts_with("[{\"content\":\"Compaction summary (earlier context)\\ncompaction checkpoint to_seq=4\\n# Compaction summary (auto)"), "{rendered}");
    check(
        &enjamb.run(&["compact", "status", &id, "--stride", "2"]).done().out(),
        "
messages    5
latest      [..] up to 4
next cut    message 2 at 2
in flight   none
last job    [..] completed
",
    );
    let other = enjamb.run(&["compact", &id, "--stride", "2", "--cmd", "echo in short; cat >/dev/null"]).done().out();
    check(&other, "[..]\t2\tart-[..]\n");
    assert_eq!(enjamb.json(&["compact", &id, "--stride", "2"])["status"], "noop");
    let jobs = enjamb.run(&["job", "list", &id]).done().out();
    check(
        &jobs,
        "[..]\tcompaction_summarizer_v1\t[..]\tcompleted\n[..]\tcompaction_command_summarizer_v1\t[..]\tcompleted\n",
    );
    enjamb.run(&["verify"]).done();
}

#[test]
fn a_schedule_leaves_a_job_that_is_run_or_called_off() {
    let enjamb = Enjamb::new();
    let id = long_thread(&enjamb, 2);
    let schedule = ["compact", "schedule", &id, "--stride", "1"];
    let left = enjamb.json(&[&schedule[..], &["--no-execute"]].concat());
    let expected = json!({
        "schema": "enjamb.cli.compact_schedule/1", "thread_id": id, "status": "noop", "job_id": "[..]",
        "planned": [{"target_message_ordinal": 2, "to_seq": 2, "to_message_id": "[..]"}], "created": [], "error": null,
        "decision": "scheduled", "decision_id": "[..]", "inflight_job_id": null,
        "policy_id": "compaction_auto_schedule_v1/stride_messages_v1/1/max_new_checkpoints_v1/1/block_on_inflight_v1/true",
    });
    check_json(&left, &expected);
    let job = text(&left["job_id"]);
    check(&enjamb.run(&schedule).done().out(), &format!("skipped_inflight\t{job}\n"));
    check(&enjamb.run(&["job", "run", &id, job]).done().out(), &format!("{job}\tcompleted\n"));
    let next = enjamb.json(&[&schedule[..], &["--no-execute"]].concat());
    let job = text(&next["job_id"]);
    check(&enjamb.run(&["job", "cancel", &id, job]).done().out(), &format!("{job}\tcancelled\n"));
    check(&enjamb.run(&schedule).done().out(), "completed\t[..]\n");
    check(&enjamb.run(&schedule).done().out(), "noop\t-\n");
}

#[test]
fn a_chain_is_compacted_by_a_commit() {
    let enjamb = Enjamb::new();
    let said = |role: &str, text: &str| json!({"role": role, "content": text}).to_string() + "\n";
    let words = "the retry loop in src/pay.rs sleeps twice and that is slow. ".repeat(60);
    let delta = [said("user", &words), said("assistant", "yes"), said("user", "cap it")].concat();
    let arguments = ["checkpoint", "--format", "generic-v1", "--principal", "agent/a"];
    let tip = enjamb.run_with(&arguments, &delta).done().line();
    let diff = enjamb.json(&["compact", &tip, "--diff", "--summary", "it is slow"]);
    assert_eq!(diff["lost"], json!([{"category": "file", "fact": "src/pay.rs"}]));
    let dry = enjamb.json(&["compact", &tip, "--dry-run"]);
    assert_eq!(dry["commit"], Value::Null);
    let out = enjamb.run(&["compact", &tip]).done().out();
    check(&out, "[..] tokens become [..]; 100 % of the facts are kept\nctx-[..]\n");
    let commit = out.lines().last().unwrap();
    let shown = enjamb.json(&["show", commit]);
    assert_eq!((&shown["type"], &shown["parent"]), (&json!("compaction"), &json!(tip)));
    let read = enjamb.run(&["materialize", commit]).done().out();
    assert!(read.contains("src/pay.rs") && read.contains("cap it"), "{read}");
    check(
        &enjamb.run(&["compact", commit, "--diff"]).done().out(),
        &format!("{commit} keeps 100 %\n  file        1 of 1\n"),
    );
    enjamb.run(&["compact", commit, "--summary", &words]).exits(2);
    let other = enjamb.run(&["compact", &tip, "--summary", "it is slow"]).done().line();
    let siblings = enjamb.json(&["children", &tip])["contexts"].as_array().unwrap().clone();
    let siblings: Vec<_> = siblings.iter().map(|sibling| text(&sibling["id"])).collect();
    assert_eq!(siblings, [commit, &other], "variants stand beside each other");
}

#[test]
fn cursors_are_set_shown_and_dropped() {
    let enjamb = Enjamb::new();
    let id = thread(&enjamb);
    enjamb.run(&["cursor", "rotate", &id]).exits(1);
    let data = r#"{"previous_response_id":"resp_1"}"#;
    enjamb.run(&["cursor", "set", &id, "--model", "m1", "--data", data]).done();
    enjamb.run(&["cursor", "set", &id, "--model", "m2", "--data", data]).done();
    check(
        &enjamb.run(&["cursor", "status", &id]).done().out(),
        &format!("openresponses\t-\tm1\t1\tset\t{data}\nopenresponses\t-\tm2\t2\tset\t{data}\n"),
    );
    let rotated = enjamb.json(&["cursor", "rotate", &id, "--model", "m1", "--reason", "budget"]);
    let expected = json!({
        "schema": "enjamb.cli.cursor/1", "seq": 3, "provider": "openresponses", "endpoint": null, "model": "m1",
        "cursor": null, "action": "rotated", "reason": "budget", "run": null, "rotated": true,
    });
    check_json(&rotated, &expected);
    let status = enjamb.json(&["cursor", "status", &id]);
    assert_eq!((&status["active"]["model"], status["cursors"].as_array().unwrap().len()), (&json!("m1"), 2));
    enjamb.run(&["maintain", "--rebuild-index"]).done();
    assert_eq!(enjamb.json(&["cursor", "status", &id]), status);
    enjamb.run(&["cursor", "set", &id, "--data", "[1]"]).exits(2);
}

#[test]
fn what_cannot_be_compacted_is_refused_and_nothing_is_written() {
    let enjamb = Enjamb::new();
    let (id, other) = (long_thread(&enjamb, 3), long_thread(&enjamb, 3));
    let made = enjamb.json(&["compact", "by-hand", &id, "--at-seq", "2", "--summary", "so far"]);
    let artifact = text(&made["summary_artifact"]);
    let plain = enjamb.put("{}");
    let short = enjamb
        .run_with(&["checkpoint", "--format", "generic-v1"], "{\"role\":\"user\",\"content\":\"hi\"}\n")
        .done()
        .line();
    let before = enjamb.run::<&str>(&[]).done().out();
    let refused = |arguments: &[&str], exit: i32, code: &str, says: &str| {
        let problem = enjamb.run(&[arguments, &["--json"]].concat()).exits(exit).problem();
        assert_eq!(problem["code"], code, "{problem}");
        assert!(text(&problem["title"]).contains(says), "{problem}");
    };
    refused(&["compact", &id, "--stride", "0"], 2, "invalid-stride", "stride of 0");
    refused(&["compact", "cuts", &id, "--stride", "0"], 2, "invalid-stride", "stride of 0");
    refused(&["compact", "status", &id, "--stride", "0"], 2, "invalid-stride", "stride of 0");
    refused(&["compact", "schedule", &id, "--stride", "0"], 2, "invalid-stride", "stride of 0");
    let at = ["compact", "by-hand", &id, "--at-seq"];
    refused(&[&at[..], &["2", "--at-message", "m", "--summary", "x"]].concat(), 2, "both-selectors", "both");
    refused(&[&at[..], &["0", "--summary", "x"]].concat(), 2, "not-a-message", "frame 0");
    refused(&[&at[..], &["2"]].concat(), 2, "summary-missing", "needs a summary");
    refused(&[&at[..], &["3", "--artifact", artifact]].concat(), 2, "summary-mismatch", "to_seq of summary");
    refused(
        &["compact", "by-hand", &other, "--at-seq", "2", "--artifact", artifact],
        2,
        "summary-mismatch",
        "thread_id of summary",
    );
    refused(&[&at[..], &["2", "--artifact", &plain]].concat(), 2, "not-a-summary", "no compaction summary");
    refused(&["compact", "by-hand", &id, "--summary", "x"], 5, "cut-not-reached", "3 messages");
    refused(&["compact", &short], 2, "does-not-shrink", "tokens");
    refused(&[&at[..], &["2", "--summary", &"word ".repeat(900)]].concat(), 2, "does-not-shrink", "stands for takes");
    refused(&["compact", &other, "--diff"], 3, "not-found", "no compaction checkpoint");
    refused(&["compact", "nowhere"], 3, "not-found", "nowhere");
    refused(&["compact"], 2, "bad-request", "which thread or commit");
    refused(&["job", "run", &id, "nobody"], 3, "job-not-found", "no job nobody");
    refused(&["job", "cancel", &id, "nobody"], 3, "job-not-found", "no job nobody");
    refused(&["cursor", "set", &id, "--run", "r", "--data", "{}"], 5, "run-unknown", "run r");
    assert_eq!(enjamb.run::<&str>(&[]).done().out(), before, "what is refused leaves nothing behind");
}

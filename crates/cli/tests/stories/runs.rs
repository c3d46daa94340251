//! Agents that enjamb starts: what they do is kept as they do it, however they end.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::expect::{check, check_json};
use crate::runner::{Enjamb, answer};

/// An agent of our own that keeps a transcript as Claude Code does: one turn, which says what it was asked before.
const CLAUDE: &str = r#"#!/bin/sh
session= ; prompt= ; while [ $# -gt 0 ]; do case $1 in --session-id|--resume) session=$2;; esac; prompt=$1; shift; done
dir=$HOME/.claude/projects/$(pwd -P | sed 's/[^A-Za-z0-9]/-/g'); mkdir -p "$dir"; f=$dir/$session.jsonl
before=$(grep -c '"content":"' "$f" 2>/dev/null); n=$(grep -c . "$f" 2>/dev/null); n=${n:-0}
last=$(sed -n 's/.*"uuid":"\([^"]*\)".*/\1/p' "$f" 2>/dev/null | tail -1)
say() { n=$((n+1)); p=null; [ -n "$last" ] && p="\"$last\""; last=u-$session-$n
  echo "{\"type\":\"$1\",\"uuid\":\"$last\",\"parentUuid\":$p,\"sessionId\":\"$session\",\"cwd\":\"$(pwd -P)\",\"timestamp\":\"2026-11-16T06:00:0$((n%10)).000Z\",\"message\":$2}" >> "$f"; }
say user "{\"role\":\"user\",\"content\":\"$prompt\"}"
say assistant "{\"id\":\"m-$session-$n\",\"role\":\"assistant\",\"stop_reason\":\"end_turn\",\"content\":[{\"type\":\"text\",\"text\":\"heard $prompt after ${before:-0}\"}]}"
echo "{\"type\":\"result\",\"result\":\"heard $prompt after ${before:-0}\",\"session_id\":\"$session\"}"
"#;

/// A home in which `claude` is that agent.
fn with_agent() -> (Enjamb, String) {
    let enjamb = Enjamb::with_store();
    fs::create_dir(enjamb.home().join("bin")).unwrap();
    let path = PathBuf::from(enjamb.file("bin/claude", CLAUDE));
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    let rest = std::env::var("PATH").unwrap_or_default();
    let path = format!("{}:{rest}", enjamb.path("bin"));
    (enjamb, path)
}

#[test]
fn what_a_program_prints_is_passed_on_and_kept_and_so_is_how_it_ends() {
    let enjamb = Enjamb::with_store();
    let script = "echo '{\"role\":\"assistant\",\"content\":\"one\"}'; sleep 0.3; echo two; exit 9";
    let run = enjamb.run(&["run", "--principal", "agent/a", "--", "sh", "-c", script]).exits(9);
    check(&run.out(), "\n{\"role\":\"assistant\",\"content\":\"one\"}\ntwo\n");
    check(&run.err(), "\nctx-[..]  run/[..]  2 commits\n");
    let log = enjamb.json(&["log", "--all"]);
    let rows: Vec<_> =
        log["contexts"].as_array().unwrap().iter().map(|row| (&row["principal"], &row["checkpoint"])).collect();
    assert_eq!(rows, [(&json!("agent/a"), &json!("session_end")), (&json!("agent/a"), &json!("turn_boundary"))]);
    let killed = enjamb.run(&["run", "--", "sh", "-c", "kill -TERM $$"]);
    assert_eq!(killed.exit, Some(128 + 15));
}

#[test]
fn a_run_is_a_document_as_well() {
    let enjamb = Enjamb::with_store();
    let run = enjamb.run(&["run", "--json", "--", "echo", "hello"]).done();
    let expected = json!({"schema": "enjamb.cli.run/1", "ref": "run/[..]", "session": "[..]", "parent": null,
        "tip": "ctx-[..]", "commits": 1, "exit": 0});
    check_json(&run.document(), &expected);
    assert!(run.err().contains("hello"), "what the agent says goes beside the document");
}

#[test]
fn a_tool_of_the_agent_is_told_which_commit_it_is_at() {
    let enjamb = Enjamb::with_store();
    let script =
        format!("{0} current; echo so far; {0} current; echo and on; {0} current --json", env!("CARGO_BIN_EXE_enjamb"));
    let run = enjamb.run(&["run", "--", "sh", "-c", &script]).done();
    let out = run.out();
    let lines: Vec<&str> = out.lines().collect();
    assert!(run.err().starts_with("error: no context of this run: nothing of it is stored yet"), "{}", run.err());
    let (first, second): (&str, Value) = (lines[1], serde_json::from_str(lines[3]).unwrap());
    assert_eq!(second["by"], "run");
    assert_ne!(second["id"], first);
    let shown = enjamb.json(&["show", second["id"].as_str().unwrap()]);
    assert_eq!(shown["parent"], first, "what is asked for is stored first");
    assert!(enjamb.run(&["materialize", first]).done().out().contains("so far"));
}

#[test]
fn a_run_that_was_killed_loses_nothing_of_what_its_agent_did() {
    let enjamb = Enjamb::with_store();
    let script = "echo before; while [ ! -e go ]; do sleep 0.05; done; echo after";
    let mut child = enjamb.command(&["run", "--", "sh", "-c", script]).spawn().unwrap();
    let began = Instant::now();
    let printed = || {
        let runs = fs::read_dir(enjamb.store().join("runs")).into_iter().flatten().flatten();
        runs.map(|run| fs::read_to_string(run.path().join("out")).unwrap_or_default()).collect::<String>()
    };
    while !printed().contains("before") {
        assert!(began.elapsed() < Duration::from_secs(60), "it did not begin");
        std::thread::sleep(Duration::from_millis(10));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(enjamb.run(&["log", "--all"]).out(), "", "its agent still runs");
    enjamb.file("go", "");
    while enjamb.run(&["log", "--all"]).out().is_empty() {
        assert!(began.elapsed() < Duration::from_secs(60), "it was not taken in");
        std::thread::sleep(Duration::from_millis(50));
    }
    let said = enjamb.run(&["materialize", "@"]).done().out();
    assert!(said.ends_with("{\"content\":\"before\\nafter\",\"role\":\"assistant\"}\n"), "{said}");
    assert_eq!(fs::read_dir(enjamb.store().join("runs")).unwrap().count(), 0);
}

#[test]
fn two_discussions_of_a_ticket_know_what_the_agent_knew_and_nothing_of_each_other() {
    let (enjamb, path) = with_agent();
    let ask = |words: &[&str]| {
        let mut command = enjamb.command(words);
        command.env("PATH", &path);
        answer(command, b"")
    };
    fs::create_dir_all(enjamb.home().join(".config/enjamb")).unwrap();
    enjamb.file(".config/enjamb/config.toml", "[template.reviewer]\ndriver = \"claude-code\"\n");
    let review = ask(&["run", "--template", "reviewer", "--ticket", "F-1", "--", "-p", "review"]).done();
    assert_eq!(review.out(), "heard review after 0\n");
    let understood = enjamb.json(&["log", "--ticket", "F-1"])["contexts"][0]["id"].as_str().unwrap().to_owned();
    ask(&["link", "F-2", &understood]).done();
    for said in ["why", "how"] {
        let discussed = ask(&["discuss", "F-2", "--json", "--", "-p", said]).done();
        assert!(discussed.err().contains(&format!("heard {said} after 1")), "{}", discussed.err());
        let document = discussed.document();
        assert_eq!((&document["parent"], &document["commits"]), (&json!(understood), &json!(1)));
        let told = enjamb.run(&["materialize", document["tip"].as_str().unwrap()]).done().out();
        assert!(told.contains("heard review") && told.contains(&format!("heard {said}")), "{told}");
        assert!(said == "why" || !told.contains("heard why"), "{told}");
    }
    assert_eq!(enjamb.json(&["children", &understood])["contexts"].as_array().unwrap().len(), 2);
    ask(&["discuss", "NONE"]).exits(3);
}

#[test]
fn what_cannot_be_run_is_refused_before_anything_is_written() {
    let enjamb = Enjamb::with_store();
    enjamb.file(".enjamb.toml", "[template.theirs]\ncommand = \"touch\"\nargs = [\"owned\"]\n");
    for (words, exit, code) in [
        (&["run"][..], 2, "bad-request"),
        (&["run", "--", "no-such-agent"], 3, "not-found"),
        (&["run", "--template", "none"], 3, "template-not-found"),
        (&["run", "--template", "theirs"], 7, "untrusted-config"),
        (&["run", "--context", "ctx-00000000", "--", "true"], 3, "not-found"),
        (&["run", "--checkpoint", "never", "--", "true"], 2, "bad-config"),
        (&["run", "--every-turns", "0", "--", "true"], 2, "bad-config"),
    ] {
        let problem = enjamb.run(&[&["--json"], words].concat()).exits(exit).problem();
        assert_eq!(problem["code"], code, "{words:?}");
    }
    assert!(!enjamb.home().join("owned").exists() && !enjamb.store().join("runs").exists());
}

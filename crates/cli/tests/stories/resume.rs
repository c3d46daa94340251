//! `resume`: a context as a session that a runtime would load, written beside its own and never over them.

use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::expect::check;
use crate::runner::Enjamb;

const SESSION: &str = "5d1c90ab-7a41-4b1e-9f53-2d1f6a0c9e10";

/// So many turns of Claude Code; the second calls a tool.
pub fn transcript(turns: u64) -> String {
    let mut lines = String::new();
    let mut parent = Value::Null;
    let mut add = |uuid: String, kind: &str, message: Value| {
        let record = json!({"parentUuid": parent, "isSidechain": false, "cwd": "/nowhere/shop", "sessionId": SESSION,
            "type": kind, "uuid": uuid, "timestamp": "2026-01-01T00:00:01.000Z", "message": message});
        parent = json!(uuid);
        lines.push_str(&format!("{record}\n"));
    };
    let reply = |id: &str, block: Value| {
        json!({"role": "assistant", "id": id, "type": "message", "model": "claude-opus-4-8", "content": [block],
            "stop_reason": "end_turn", "usage": {"input_tokens": 10, "output_tokens": 5}})
    };
    for n in 0..turns {
        add(format!("u{n}"), "user", json!({"role": "user", "content": format!("question {n}")}));
        if n == 1 {
            let call =
                json!({"type": "tool_use", "id": "toolu_1", "name": "Read", "input": {"file_path": "/nowhere/a"}});
            add("c1".into(), "assistant", reply("mc1", call));
            let result = json!([{"type": "tool_result", "tool_use_id": "toolu_1", "content": "what a says"}]);
            add("r1".into(), "user", json!({"role": "user", "content": result}));
            let thought = json!({"type": "thinking", "thinking": "hm", "signature": "c2lnbmVk".repeat(8)});
            add("t1".into(), "assistant", reply("ma1", thought));
        }
        add(
            format!("a{n}"),
            "assistant",
            reply(&format!("ma{n}"), json!({"type": "text", "text": format!("answer {n}")})),
        );
    }
    lines
}

/// A home in which such a session was imported.
fn imported(turns: u64) -> Enjamb {
    let enjamb = Enjamb::new();
    let path = enjamb.file(&format!("{SESSION}.jsonl"), transcript(turns));
    enjamb.run(&["import", &path]).done();
    enjamb
}

fn written(said: &Value) -> String {
    fs::read_to_string(said["path"].as_str().unwrap()).unwrap()
}

/// Files below a directory.
fn files(dir: PathBuf) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(dir) else { return Vec::new() };
    let paths = entries.map(|entry| entry.unwrap().path());
    paths.flat_map(|path| if path.is_dir() { files(path) } else { vec![path] }).collect()
}

#[test]
fn says_what_travels_before_it_says_how_to_go_on() {
    let enjamb = imported(2);
    check(
        &enjamb.run(&["resume"]).done().out(),
        "from   ctx-[..]  claude-code-v1  2 turns, [..] tokens\n\
         into   claude-code    tier 1 of 4: native\n\
         \n  \
           travels    2 turns · 6 messages · 1 tool call with results\n  \
           changes    directory: /nowhere/shop → [..]\n  \
           checks     every tool call has its result ✓   read back, compared ✓\n\
         \n\
         wrote  [..]/.claude/projects/[..].jsonl\n\
         run    claude --resume [..]        (or add --exec)\n",
    );
    check(
        &enjamb.run(&["resume", "@", "--in", "codex"]).done().out(),
        "from   ctx-[..]  claude-code-v1  2 turns, [..] tokens\n\
         into   codex    tier 2 of 4: mapped\n\
         \n  \
           travels    2 turns · 6 messages · 1 tool call with results\n  \
           changes    directory: /nowhere/shop → [..]\n  \
           stays      1 block: reasoning of another provider\n  \
           checks     every tool call has its result ✓   read back, compared ✓\n\
         \n\
         wrote  [..]/.codex/sessions/[..]/rollout-[..].jsonl\n\
         run    codex resume [..]        (or add --exec)\n",
    );
}

#[test]
fn the_same_runtime_gets_the_same_records() {
    let enjamb = imported(3);
    let said = enjamb.json(&["resume", "@"]);
    let session = said["session"].as_str().unwrap();
    let cwd = said["cwd"].as_str().unwrap();
    assert_eq!(written(&said), transcript(3).replace(SESSION, session).replace("/nowhere/shop", cwd));
    assert_eq!((&said["tier"], &said["written"]), (&json!("native"), &json!(true)));
    let fork = enjamb.json(&["resume", "@-"]);
    let part = transcript(2).replace(SESSION, fork["session"].as_str().unwrap()).replace("/nowhere/shop", cwd);
    assert_eq!(written(&fork), part);
    assert_ne!(fork["session"], said["session"]);
}

#[test]
fn what_the_runtime_adds_follows_from_the_commit() {
    let enjamb = imported(2);
    let tip = enjamb.json(&["export", SESSION])["tip"].clone();
    let said = enjamb.json(&["resume", "@", "--in", "codex"]);
    let path = said["path"].as_str().unwrap();
    let added = json!({"timestamp": "2026-02-01T00:00:00.000Z", "type": "response_item", "payload": {"type": "message",
        "role": "user", "content": [{"type": "input_text", "text": "and in codex?"}]}});
    fs::write(path, format!("{}{added}\n", written(&said))).unwrap();
    enjamb.run(&["import", path]).done();
    let new = enjamb.json(&["export", "--source", path])["tip"].as_str().unwrap().to_owned();
    assert_eq!(enjamb.json(&["show", &new])["parent"], tip);
    let back = enjamb.json(&["resume", &new, "--in", "claude-code"]);
    let cwd = back["cwd"].as_str().unwrap();
    let was = transcript(2).replace(SESSION, back["session"].as_str().unwrap()).replace("/nowhere/shop", cwd);
    let new = written(&back).strip_prefix(&was).expect("the records that were there come first").to_owned();
    let record: Value = serde_json::from_str(&new).unwrap();
    assert_eq!((&record["parentUuid"], &record["message"]["content"]), (&json!("a1"), &json!("and in codex?")));
    enjamb.run(&["verify"]).done();
}

#[test]
fn the_environment_says_where_runtimes_look() {
    let enjamb = imported(1);
    let work = enjamb.path("work.dir");
    fs::create_dir(&work).unwrap();
    let resumed = |runtime: &str, variable: &str, dir: &str| {
        let mut command = enjamb.command(&["resume", "@", "--in", runtime, "--cwd", &work, "--json"]);
        command.env(variable, enjamb.path(dir));
        crate::runner::answer(command, b"").document()["path"].as_str().unwrap().to_owned()
    };
    let claude = resumed("claude-code", "CLAUDE_CONFIG_DIR", "c");
    assert!(claude.starts_with(&enjamb.path("c/projects/-")) && claude.contains("-work-dir/"), "{claude}");
    assert!(resumed("codex", "CODEX_HOME", "x").starts_with(&enjamb.path("x/sessions/2")));
}

#[test]
fn a_dry_run_writes_nothing_and_the_store_stays_as_it_is() {
    let enjamb = imported(2);
    let before = enjamb.json(&["status"])["frames"].clone();
    let out = enjamb.run(&["resume", "@", "--in", "codex", "--dry-run"]).done().out();
    assert!(out.contains("would write") && !out.contains("run    "), "{out}");
    assert_eq!(enjamb.json(&["status"])["frames"], before);
    assert_eq!(files(enjamb.home().join(".codex")), Vec::<PathBuf>::new());
}

#[test]
fn the_budget_and_the_stop_choose_how_much_travels() {
    let enjamb = imported(4);
    let turns = |arguments: &[&str]| {
        let said = enjamb.json(&[&["resume", "@"], arguments].concat());
        (said["travels"]["turns"].as_u64().unwrap(), said["left"]["commits"].as_u64().unwrap())
    };
    assert_eq!(turns(&[]), (4, 0));
    assert_eq!(turns(&["--stop", "@-"]), (2, 2));
    let last = enjamb.json(&["show", "@"])["tokens"]["value"].as_u64().unwrap();
    assert_eq!(turns(&["--budget", &last.to_string()]), (1, 3));
    enjamb.run(&["resume", "@", "--budget", "1"]).exits(2);
    enjamb.run(&["resume", "@", "--stop", "ctx-00000000"]).exits(3);
    let cut = written(&enjamb.json(&["resume", "@", "--stop", "@"]));
    assert!(cut.starts_with("{\"cwd\"") && cut.contains("\"parentUuid\":null") && !cut.contains("question 2"), "{cut}");
}

#[test]
fn what_cannot_be_done_is_refused_and_leaves_nothing() {
    let enjamb = imported(2);
    let unknown = enjamb.run(&["resume", "@", "--in", "emacs"]).exits(2);
    assert!(unknown.err().contains("expected claude-code, codex, gemini or opencode"), "{}", unknown.err());
    enjamb.run(&["resume", "ctx-00000000"]).exits(3);
    enjamb.run(&["resume", "@", "--cwd", &enjamb.path("none")]).exits(3);
    let problem = enjamb.run(&["resume", "@", "--in", "codex", "--min-tier", "1", "--json"]).exits(11).problem();
    assert_eq!(problem["code"], "tier-too-low");
    let lossy = enjamb.run(&["resume", "@", "--in", "codex", "--min-tier", "1"]).exits(11).err();
    assert!(lossy.contains("tier 2, mapped") && lossy.contains("--min-tier 2"), "{lossy}");
    assert_eq!(files(enjamb.home().join(".codex")), Vec::<PathBuf>::new());
    // A file where a directory should be: as good as not writable, whoever runs the tests.
    enjamb.file(".codex", "");
    let failed = enjamb.run(&["resume", "@", "--in", "codex"]);
    assert!(matches!(failed.exit, Some(7 | 8)), "{:?} {}", failed.exit, failed.err());
    assert!(failed.err().contains(".codex/sessions"), "{}", failed.err());
}

#[test]
fn a_runtime_that_is_not_here_gets_its_session_all_the_same() {
    let enjamb = imported(1);
    let empty = enjamb.path("empty");
    fs::create_dir(&empty).unwrap();
    let mut command = enjamb.command(&["resume", "@"]);
    command.env("PATH", &empty);
    let answer = crate::runner::answer(command, b"").done();
    assert_eq!(answer.err(), "claude is not on the PATH; the session waits for it\n");
    assert_eq!(files(enjamb.home().join(".claude/projects")).len(), 1);
    let mut command = enjamb.command(&["resume", "@", "--exec"]);
    command.env("PATH", &empty);
    let answer = crate::runner::answer(command, b"").exits(3);
    assert!(answer.err().contains("claude"), "{}", answer.err());
}

#[test]
fn a_chain_that_nobody_can_read_is_told_as_it_is_if_that_is_accepted() {
    let enjamb = Enjamb::new();
    let path = enjamb.file("delta", "pages of a diary\n");
    enjamb.run(&["checkpoint", &path, "--format", "diary-v9"]).done();
    enjamb.run(&["resume", "@"]).exits(2);
    enjamb.run(&["resume", "@", "--in", "claude-code"]).exits(11);
    let said = enjamb.json(&["resume", "@", "--in", "claude-code", "--min-tier", "4"]);
    assert_eq!(said["tier"], "raw");
    assert!(written(&said).contains("pages of a diary"));
}

#[test]
fn a_delta_that_is_not_here_any_more_is_missed_before_anything_is_written() {
    let enjamb = imported(1);
    let (commit, artifact) = ("ctx-77fe6ac68ef5841f1ff9e36fe55c050f", format!("art-{}", "7".repeat(64)));
    let frame = json!({"type": "context_committed", "commit_id": commit, "version": 1, "parent": null,
        "commit_type": "delta", "artifact_ref": artifact, "format": "claude-code-v1", "template": null,
        "principal": "user", "checkpoint": "explicit", "message_count": 1, "token_count": 1,
        "created_at": "2026-01-01T00:00:00.000000Z"});
    enjamb.append("context/user", &frame.to_string());
    let answer = enjamb.run(&["resume", commit]).exits(3);
    assert!(answer.err().contains(&artifact[..12]), "{}", answer.err());
    assert_eq!(files(enjamb.home().join(".claude")), Vec::<PathBuf>::new());
}

#[cfg(unix)]
#[test]
fn exec_becomes_the_runtime_in_its_directory() {
    use std::os::unix::fs::PermissionsExt;
    let enjamb = imported(1);
    let bin = enjamb.home().join("bin");
    fs::create_dir(&bin).unwrap();
    fs::write(bin.join("claude"), "#!/bin/sh\necho \"ran $* in $(pwd)\"\nexit 7\n").unwrap();
    fs::set_permissions(bin.join("claude"), PermissionsExt::from_mode(0o755)).unwrap();
    let mut command = enjamb.command(&["resume", "@", "--exec"]);
    command.env("PATH", format!("{}:{}", bin.display(), std::env::var("PATH").unwrap()));
    let answer = crate::runner::answer(command, b"").exits(7);
    assert!(answer.line().starts_with("ran --resume ") && answer.line().contains(" in /"), "{}", answer.out());
}

/// A home in which Claude Code keeps such a session with a subagent, imported from there.
fn at_home() -> (Enjamb, PathBuf, PathBuf) {
    let enjamb = Enjamb::new();
    let dir = enjamb.home().join(".claude/projects/-nowhere-shop");
    let (own, aside) = (dir.join(format!("{SESSION}.jsonl")), dir.join(SESSION).join("subagents/agent-a1.jsonl"));
    fs::create_dir_all(aside.parent().unwrap()).unwrap();
    fs::write(&own, transcript(2)).unwrap();
    fs::write(&aside, transcript(1).replace("\"isSidechain\":false", "\"isSidechain\":true")).unwrap();
    enjamb.run(&["import"]).done();
    (enjamb, own, aside)
}

#[test]
fn a_deleted_session_comes_back_with_all_that_lay_beside_it() {
    let (enjamb, own, aside) = at_home();
    let (was, was_aside) = (fs::read(&own).unwrap(), fs::read(&aside).unwrap());
    fs::remove_dir_all(enjamb.home().join(".claude")).unwrap();
    let planned = enjamb.json(&["replant", SESSION, "--dry-run"]);
    assert_eq!((&planned["files"][0]["was"], own.exists()), (&json!("missing"), false));
    check(
        &enjamb.run(&["replant", &SESSION[..8]]).done().out(),
        "put back   [..]/5d1c90ab-[..].jsonl  [..]\n\
         put back   [..]/subagents/agent-a1.jsonl  [..]\n\
         run        claude --resume 5d1c90ab-[..]\n",
    );
    assert_eq!((fs::read(&own).unwrap(), fs::read(&aside).unwrap()), (was, was_aside));
    assert_eq!(enjamb.json(&["import"])["commits"], 0);
}

#[test]
fn a_session_that_is_there_is_never_changed() {
    let (enjamb, own, _) = at_home();
    let grown = transcript(2) + "{\"type\":\"mode\"}\n";
    fs::write(&own, &grown).unwrap();
    assert_eq!(enjamb.json(&["replant", SESSION])["files"][0]["was"], "there");
    assert_eq!(fs::read_to_string(&own).unwrap(), grown);
    fs::write(&own, "{\"torn").unwrap();
    let answer = enjamb.run(&["replant", SESSION]).exits(5);
    assert!(answer.err().contains("--beside"), "{}", answer.err());
    let beside = enjamb.json(&["replant", SESSION, "--beside"]);
    let planted = written(&beside).replace(beside["session"].as_str().unwrap(), SESSION);
    assert_eq!(planted.replace(beside["cwd"].as_str().unwrap(), "/nowhere/shop"), transcript(2));
    assert_eq!(fs::read_to_string(&own).unwrap(), "{\"torn");
    enjamb.run(&["replant", "nobody"]).exits(3);
}

#[test]
fn only_what_was_at_home_in_a_runtime_goes_back_to_it() {
    let answer = imported(1).run(&["replant", SESSION]).exits(2);
    assert!(answer.err().contains("enjamb resume ctx-"), "{}", answer.err());
}

#[test]
fn gemini_and_opencode_are_written_as_they_take_them() {
    let enjamb = imported(2);
    let work = enjamb.home().canonicalize().unwrap();
    let resumed = |runtime: &str| enjamb.json(&["resume", "--in", runtime, "--cwd", work.to_str().unwrap()]);
    let gemini = resumed("gemini");
    let path = gemini["path"].as_str().unwrap();
    assert!(path.contains("/.gemini/tmp/") && path.contains("/chats/session-") && path.ends_with(".jsonl"), "{path}");
    assert_eq!(gemini["command"], json!(["gemini", "--resume", gemini["session"]]));
    let chat = written(&gemini);
    for said in ["question 0", "answer 1", "what a says"] {
        assert!(chat.contains(said), "{said} is not in {chat}");
    }
    let opencode = resumed("opencode");
    let session = opencode["session"].as_str().unwrap();
    assert!(session.starts_with("ses_") && session.len() == 30, "{session}");
    assert_eq!(opencode["before"], json!(["opencode", "import", opencode["path"]]));
    assert_eq!(opencode["command"], json!(["opencode", "--session", session]));
    let document: Value = serde_json::from_str(&written(&opencode)).unwrap();
    assert_eq!(document["info"]["id"], session);
    let parts =
        document["messages"].as_array().unwrap().iter().flat_map(|message| message["parts"].as_array().unwrap());
    let tools: Vec<_> = parts.filter(|part| part["type"] == "tool").map(|part| &part["state"]["output"]).collect();
    assert_eq!(tools, [&json!("what a says")]);
    let said = enjamb.run(&["resume", "--in", "opencode"]).done().out();
    assert!(said.contains("opencode import ") && said.contains(" && opencode --session ses_"), "{said}");
}

//! Agents at work: `watch` follows them, `current` answers them, `link` ties what they know to tickets.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::Command;

use serde_json::{Value, json};

use crate::expect::{check, check_json};
use crate::runner::{Answer, Enjamb, answer, finish};

const SESSION: &str = "5d1c90ab-0000-4000-8000-000000000001";

fn turn(n: u64) -> String {
    let parent = n.checked_sub(1).map(|before| format!("a{before}"));
    let user = json!({"type": "user", "uuid": format!("u{n}"), "parentUuid": parent, "sessionId": SESSION,
        "cwd": "/home/dana/shop",
        "message": {"role": "user", "content": format!("question {n}")}, "timestamp": "2026-01-01T00:00:01.000Z"});
    let reply = json!({"type": "assistant", "uuid": format!("a{n}"), "parentUuid": format!("u{n}"), "sessionId": SESSION,
        "message": {"role": "assistant", "id": format!("m{n}"), "stop_reason": "end_turn",
            "content": [{"type": "text", "text": "so"}]}});
    format!("{user}\n{reply}\n")
}

fn transcript(enjamb: &Enjamb) -> PathBuf {
    enjamb.home().join(format!(".claude/projects/-home-dana-shop/{SESSION}.jsonl"))
}

/// Goes on with the session, as Claude Code does.
fn go_on(enjamb: &Enjamb, text: &str) {
    let path = transcript(enjamb);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let mut file = fs::OpenOptions::new().append(true).create(true).open(path).unwrap();
    file.write_all(text.as_bytes()).unwrap();
}

/// Runs the command as a tool of the agent.
fn as_agent(enjamb: &Enjamb, arguments: &[&str]) -> Answer {
    let mut command = enjamb.command(arguments);
    command.env("CLAUDE_CODE_SESSION_ID", SESSION);
    answer(command, b"")
}

#[test]
fn watching_once_takes_in_what_is_there() {
    let enjamb = Enjamb::new();
    go_on(&enjamb, &(turn(0) + &turn(1)));
    let out = enjamb.run(&["watch", "--once", "--json"]).done().document();
    let expected = json!({
        "schema": "enjamb.cli.watch/1", "event": "imported", "runtime": "claude-code", "files": 1, "commits": 2, "bytes": "[..]",
        "path": format!("[..]/{SESSION}.jsonl"), "tip": "ctx-[..]",
    });
    check_json(&out, &expected);
    assert_eq!(enjamb.run(&["watch", "--once"]).done().out(), "");
    let said = json!({"transcript_path": transcript(&enjamb), "hook_event_name": "Stop"}).to_string();
    go_on(&enjamb, &turn(2));
    enjamb.run_with(&["hook", "claude-code"], said).done();
    check(&enjamb.run(&["watch", "--once"]).done().out(), "[..]Z  1 event of hooks, 1 commit\n");
}

#[test]
fn a_watch_sees_turns_end_and_stops_when_asked() {
    let enjamb = Enjamb::new();
    let mut child = enjamb.command(&["watch", "--json"]).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut next = || serde_json::from_str::<Value>(&lines.next().unwrap().unwrap()).unwrap();
    go_on(&enjamb, "");
    assert_eq!(next()["event"], "watching", "a directory that appears later");
    go_on(&enjamb, &turn(0));
    let first = next();
    assert_eq!((&first["event"], &first["commits"]), (&json!("imported"), &json!(1)));
    go_on(&enjamb, &turn(1));
    let second = next();
    assert_eq!(enjamb.json(&["show", second["tip"].as_str().unwrap()])["parent"], first["tip"]);
    let said = json!({"session_id": SESSION, "hook_event_name": "SessionEnd"}).to_string();
    enjamb.run_with(&["hook", "claude-code"], said).done();
    check_json(&next(), &json!({"schema": "enjamb.cli.watch/1", "event": "drained", "events": 1, "commits": 0}));
    Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    let ended = finish(child).done();
    assert_eq!(ended.err(), "");
    enjamb.run(&["verify"]).done();
}

#[test]
fn a_server_takes_in_what_hooks_tell_of() {
    let enjamb = Enjamb::with_store();
    let mut child = enjamb.command(&["serve", "--listen", "127.0.0.1:0"]).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.next().unwrap().unwrap().starts_with("enjamb "));
    go_on(&enjamb, &turn(0));
    let said = json!({"transcript_path": transcript(&enjamb), "hook_event_name": "Stop"}).to_string();
    enjamb.run_with(&["hook", "claude-code"], said).done();
    let spool = enjamb.store().join("spool");
    let is_drained = || ["events", "taken"].iter().all(|name| !spool.join(name).exists());
    let began = std::time::Instant::now();
    while !is_drained() {
        assert!(began.elapsed().as_secs() < 60, "nobody drains the spool");
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    finish(child).done();
    assert!(enjamb.run(&["log"]).done().out().contains("question 0"));
}

#[test]
fn what_is_noted_between_turns_is_no_branch() {
    let enjamb = Enjamb::with_store();
    for text in [turn(0), "{\"type\":\"mode\",\"mode\":\"normal\"}\n".to_owned(), turn(1)] {
        go_on(&enjamb, &text);
        enjamb.run(&["import"]).done();
    }
    let tip = as_agent(&enjamb, &["current"]).done().line();
    assert_eq!(enjamb.json(&["tips"])["contexts"].as_array().unwrap().len(), 1);
    assert_eq!(enjamb.json(&["log", &tip])["contexts"].as_array().unwrap().len(), 3);
}

#[test]
fn an_agent_learns_its_own_commit() {
    let enjamb = Enjamb::with_store();
    go_on(&enjamb, &turn(0));
    let first = as_agent(&enjamb, &["current"]).done().line();
    go_on(&enjamb, &turn(1));
    let second = as_agent(&enjamb, &["current", "--json"]).done().document();
    let expected = json!({
        "schema": "enjamb.cli.current/1", "id": "ctx-[..]", "by": "session", "session_id": SESSION,
        "runtime": "claude-code",
    });
    check_json(&second, &expected);
    assert_eq!(enjamb.json(&["show", second["id"].as_str().unwrap()])["parent"], json!(first));
    let mut command = enjamb.command(&["current"]);
    command.env("ENJAMB_CONTEXT_ID", &first[..12]);
    assert_eq!(answer(command, b"").done().line(), first);
    check(
        &enjamb.run(&["current"]).exits(3).err(),
        "error: no context of an agent in [..]\nhelp:  enjamb resolve PRINCIPAL --at TIME    or set ENJAMB_CONTEXT_ID where the agent runs\n",
    );
    let mut unset = enjamb.command(&["--store", enjamb.store().to_str().unwrap(), "show", &first]);
    unset.env("ENJAMB_STORE", "");
    answer(unset, b"").done();
    let mut stranger = enjamb.command(&["current", "--json"]);
    stranger.env("CODEX_THREAD_ID", "nobody");
    assert_eq!(answer(stranger, b"").exits(3).problem()["code"], "not-found");
    Enjamb::new().run(&["current"]).exits(3);
}

#[test]
fn commits_are_linked_to_tickets() {
    let enjamb = Enjamb::with_store();
    go_on(&enjamb, &(turn(0) + &turn(1)));
    let id = as_agent(&enjamb, &["current"]).done().line();
    check(&as_agent(&enjamb, &["link", "PAY-12"]).done().out(), &format!("{id}  PAY-12\n"));
    let linked = enjamb.json(&["link", "PAY-13", &id]);
    assert_eq!((&linked["id"], &linked["tickets"]), (&json!(id), &json!(["PAY-12", "PAY-13"])));
    let made = enjamb.file("d.jsonl", "{\"role\":\"user\",\"content\":\"hi\"}\n");
    let other = enjamb.run(&["checkpoint", &made, "--format", "generic-v1", "--ticket", "PAY-12"]).done().line();
    let of = |arguments: &[&str]| {
        let contexts = enjamb.json(arguments)["contexts"].clone();
        contexts.as_array().unwrap().iter().map(|row| row["id"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(of(&["log", "--ticket", "PAY-12"]), [other.clone(), id.clone()]);
    assert_eq!(of(&["log", "--ticket", "PAY-13"]), [id.as_str()]);
    assert_eq!(of(&["tips", "--ticket", "PAY-12"]).len(), 2);
    let expected = format!(
        "PAY-12\t{other}\t[..]Z\tuser\t\nPAY-12\t{id}\t[..]Z\tuser\tquestion 1\nPAY-13\t{id}\t[..]Z\tuser\tquestion 1\n"
    );
    check(&enjamb.run(&["link"]).done().out(), &expected);
    assert_eq!(of(&["link", "PAY-13", "--list"]), [id.as_str()]);
    let shown = enjamb.run(&["show", &id]).done().out();
    assert!(shown.contains("ticket      PAY-12\nticket      PAY-13\n") && !shown.contains("tags"), "{shown}");
    enjamb.run(&["note", &id, "--tag", "reviewed"]).done();
    enjamb.run(&["link", "PAY-12", &id, "--remove"]).done();
    let shown = enjamb.json(&["show", &id]);
    assert_eq!((&shown["tickets"], &shown["tags"]), (&json!(["PAY-13"]), &json!(["reviewed"])));
    enjamb.run(&["link", "PAY-12", &other, "--remove"]).exits(3);
    enjamb.run(&["link", "", &id]).exits(2);
    enjamb.run(&["link", "PAY-12"]).exits(3);
}

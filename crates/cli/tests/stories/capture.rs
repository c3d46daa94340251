//! Hooks in the settings of runtimes: put there, watched, and taken out again; and what arrives through them.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use serde_json::{Value, json};

use crate::expect::check;
use crate::runner::{Answer, Enjamb, answer};

const SETTINGS: &str = "{\n    \"model\": \"opus\",\n    \"hooks\": {\n        \"Stop\": [\n            {\"hooks\": [{\"type\": \"command\", \"command\": \"say done\"}]}\n        ]\n    }\n}\n";

/// A home where both runtimes were used.
fn furnished() -> Enjamb {
    let enjamb = Enjamb::new();
    fs::create_dir_all(enjamb.path(".claude/projects/-home-dana-shop")).unwrap();
    fs::create_dir(enjamb.path(".codex")).unwrap();
    enjamb.file(".claude/settings.json", SETTINGS);
    enjamb
}

fn read(enjamb: &Enjamb, name: &str) -> String {
    fs::read_to_string(enjamb.path(name)).unwrap()
}

/// Calls the hook for an event as the runtime's settings say.
fn call(enjamb: &Enjamb, settings: &str, event: &str, said: &Value) -> Answer {
    let settings: Value = serde_json::from_str(&read(enjamb, settings)).unwrap();
    let groups = settings["hooks"][event].as_array().unwrap();
    let handler = &groups.last().unwrap()["hooks"][0];
    let mut command = match handler["args"].as_array() {
        Some(args) => {
            let mut command = Command::new(handler["command"].as_str().unwrap());
            command.args(args.iter().map(|argument| argument.as_str().unwrap()));
            command
        }
        None => {
            let mut command = Command::new("sh");
            command.args(["-c", handler["command"].as_str().unwrap()]);
            command
        }
    };
    enjamb.settle(&mut command);
    command.env_remove("ENJAMB_STORE");
    answer(command, said.to_string().as_bytes())
}

fn transcript(enjamb: &Enjamb, turns: u64) -> PathBuf {
    let path = enjamb.home().join(".claude/projects/-home-dana-shop/5d1c.jsonl");
    let turn = |n: u64| {
        let user = json!({"type": "user", "uuid": format!("u{n}"), "sessionId": "5d1c", "cwd": "/home/dana/shop",
            "message": {"role": "user", "content": format!("question {n}")}, "timestamp": "2026-01-01T00:00:01.000Z"});
        let reply = json!({"type": "assistant", "uuid": format!("a{n}"), "parentUuid": format!("u{n}"), "sessionId": "5d1c",
            "message": {"role": "assistant", "id": format!("m{n}"), "content": [{"type": "text", "text": "so"}]}});
        format!("{user}\n{reply}\n")
    };
    fs::write(&path, (0..turns).map(turn).collect::<String>()).unwrap();
    path
}

#[test]
fn hooks_are_put_in_place_deliver_and_are_taken_out_as_if_never_there() {
    let enjamb = furnished();
    let shown = enjamb.run(&["capture", "on", "--dry-run"]).done().out();
    assert!(shown.contains("settings.json  with 7 hooks of ours"), "{shown}");
    assert!(shown.contains("+") && shown.contains("\"claude-code\"") && shown.contains("hook codex"), "{shown}");
    assert_eq!(read(&enjamb, ".claude/settings.json"), SETTINGS);
    let refused = enjamb.run(&["capture", "on"]).exits(2).err();
    check(
        &refused,
        "error: this changes the settings of other programs, and there is nobody to ask\nhelp:  enjamb capture on --yes\n",
    );
    let done = enjamb.run(&["capture", "on", "--yes"]).done().out();
    assert!(done.contains("claude-code\t○ waiting\t\t\tfor its first event"), "{done}");
    assert_eq!(read(&enjamb, ".claude/settings.json.enjamb-1"), SETTINGS);
    let again = enjamb.run(&["capture", "on"]).done().out();
    assert!(again.contains("settings.json  has our hooks already"), "{again}");

    let path = transcript(&enjamb, 2);
    let said = json!({"session_id": "5d1c", "transcript_path": path, "hook_event_name": "Stop"});
    let hooked = call(&enjamb, ".claude/settings.json", "Stop", &said).done();
    assert_eq!((hooked.out(), hooked.err()), (String::new(), String::new()));
    call(&enjamb, ".codex/hooks.json", "SessionStart", &json!({"session_id": "c", "hook_event_name": "SessionStart"}))
        .done();
    let log = enjamb.run(&["log"]).done().out();
    assert!(log.contains("question 1"), "the next command finds what the hook told of: {log}");
    let status = enjamb.run::<&str>(&[]).done().out();
    assert!(status.contains("claude-code\t● live\t20"), "{status}");
    assert!(status.contains("codex\t● live\t20"), "{status}");
    enjamb.run(&["status", "--exit-code"]).done();

    check(
        &enjamb.run(&["capture", "off", "--dry-run", "claude-code"]).done().out().lines().take(1).collect::<String>(),
        "[..]/.claude/settings.json  as it was before",
    );
    enjamb.run(&["capture", "off", "--yes"]).done();
    assert_eq!(read(&enjamb, ".claude/settings.json"), SETTINGS);
    let left: Vec<_> = fs::read_dir(enjamb.path(".codex")).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
    assert!(!enjamb.home().join(".claude/settings.json.enjamb-1").exists());
    let off = enjamb.run(&["capture", "off"]).done().out();
    assert!(off.contains("settings.json  has none of our hooks"), "{off}");
}

#[test]
fn settings_that_lost_our_hooks_are_noticed() {
    let enjamb = furnished();
    enjamb.run(&["capture", "on", "claude-code", "--yes"]).done();
    enjamb.file(".claude/settings.json", "{\"model\": \"sonnet\"}");
    let answer = enjamb.run(&["status", "--exit-code"]).exits(1);
    assert!(answer.out().contains("claude-code\t✗ hooks missing"), "{}", answer.out());
    let status = enjamb.json(&["capture", "status"]);
    assert_eq!((&status["healthy"], &status["runtimes"]["claude-code"]["hooks"]), (&json!(false), &json!("missing")));
    enjamb.run(&["capture", "on", "claude-code", "--yes"]).done();
    enjamb.run(&["status", "--exit-code"]).done();
    let changed = read(&enjamb, ".claude/settings.json").replace("sonnet", "haiku");
    enjamb.file(".claude/settings.json", changed);
    let off = enjamb.json(&["capture", "off", "--yes"]);
    assert_eq!((&off["done"], &off["runtimes"][0]["restores"]), (&json!(true), &json!(false)));
    assert_eq!(read(&enjamb, ".claude/settings.json"), "{\"model\": \"haiku\"}");
}

#[test]
fn hooks_that_are_in_place_and_silent_are_noticed() {
    let enjamb = furnished();
    enjamb.run(&["capture", "on", "claude-code", "--yes"]).done();
    let hours_ago = |path: PathBuf, hours: u64| {
        let at = std::time::SystemTime::now() - std::time::Duration::from_secs(hours * 3600);
        fs::File::options().append(true).open(path).unwrap().set_modified(at).unwrap();
    };
    hours_ago(enjamb.store().join("capture/claude-code.json"), 5);
    hours_ago(transcript(&enjamb, 1), 6);
    enjamb.run(&["status", "--exit-code"]).done();
    hours_ago(transcript(&enjamb, 2), 2);
    let status = enjamb.run(&["status", "--exit-code"]).exits(1).out();
    assert!(status.contains("claude-code\t✗ silent\t\t\ta session was written at"), "{status}");
    enjamb.run_with(&["hook", "claude-code"], "{}").done();
    enjamb.run(&["status", "--exit-code"]).done();
}

#[test]
fn settings_that_are_not_understood_are_left_alone() {
    let enjamb = furnished();
    for settings in ["{ // mine\n}", "", "[]", "{\"hooks\": 7}", "\u{feff}{}"] {
        enjamb.file(".claude/settings.json", settings);
        let answer = enjamb.run(&["capture", "on", "claude-code", "--yes"]);
        if settings.is_empty() {
            answer.done();
            enjamb.run(&["capture", "off", "--yes"]).done();
        } else {
            let err = answer.exits(2).err();
            assert!(err.contains("settings.json: it") && err.contains("nothing was changed"), "{err}");
        }
        assert_eq!(read(&enjamb, ".claude/settings.json"), settings);
        assert_eq!(fs::read_dir(enjamb.path(".claude")).unwrap().count(), 2, "{settings}");
    }
    enjamb.run(&["capture", "on", "gemini"]).exits(2);
    let bare = Enjamb::with_store();
    let err = bare.run(&["capture", "on"]).exits(2).err();
    assert!(err.contains("neither Claude Code nor Codex has been used here"), "{err}");
}

#[test]
fn a_command_takes_in_little_and_leaves_much_for_later() {
    let enjamb = furnished();
    enjamb.run(&["init"]).done();
    let path = transcript(&enjamb, 1);
    let large = enjamb.home().join(".claude/projects/-home-dana-shop/9999.jsonl");
    let padding = format!("{{\"type\":\"mode\",\"sessionId\":\"9999\",\"padding\":\"{}\"}}\n", "x".repeat(1 << 20));
    fs::write(&large, padding.repeat(40)).unwrap();
    for path in [&large, &path] {
        let said = json!({"session_id": "s", "transcript_path": path, "hook_event_name": "Stop"}).to_string();
        enjamb.run_with(&["hook", "claude-code"], said).done();
    }
    let status = enjamb.run(&["status"]).done().out();
    assert!(status.contains("spool      1 event to be taken in    enjamb import"), "{status}");
    assert!(enjamb.run(&["log"]).done().out().contains("question 0"));
    enjamb.run(&["export", "--source", large.to_str().unwrap()]).exits(3);
    enjamb.run(&["import"]).done();
    assert_eq!(enjamb.json(&["status"])["delivery"]["waiting"], json!(0));
    enjamb.run(&["export", "--source", large.to_str().unwrap()]).done();
}

//! Transcripts in and out: `import`, `export`, and what a fresh machine shows.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use serde_json::{Value, json};

use crate::expect::check;
use crate::runner::{Enjamb, finish, watch_peak};

/// A record of Claude Code: what a person asks, what the agent answers, or what a compaction leaves.
fn record(kind: &str, uuid: &str, parent: &str, text: &str) -> String {
    let message = match kind {
        "user" | "summary" => json!({"role": "user", "content": text}),
        _ => json!({"role": "assistant", "id": format!("m{uuid}"), "model": "claude-opus-4-8",
            "content": [{"type": "text", "text": text}]}),
    };
    let record = match kind {
        "boundary" => json!({"type": "system", "subtype": "compact_boundary", "uuid": uuid, "parentUuid": null}),
        "summary" => json!({"type": "user", "uuid": uuid, "parentUuid": parent, "isCompactSummary": true,
            "message": message}),
        _ => json!({"type": kind, "uuid": uuid, "parentUuid": parent, "message": message, "cwd": "/home/dana/shop",
            "gitBranch": "main", "timestamp": "2026-01-01T00:00:01.000Z", "sessionId": "s"}),
    };
    format!("{record}\n")
}

/// So many turns, each a question and an answer, from a number on.
pub fn turns(from: u64, to: u64) -> String {
    let turn = |n: u64| {
        let asked = record("user", &format!("u{n}"), &format!("a{}", n.saturating_sub(1)), &format!("question {n}"));
        asked + &record("assistant", &format!("a{n}"), &format!("u{n}"), &format!("answer {n}"))
    };
    (from..to).map(turn).collect()
}

/// The commits of a file from its first to its last, and what the frame says of each read.
pub fn reads(enjamb: &Enjamb, path: &str) -> Vec<Value> {
    let out = enjamb.run(&["frames", &format!("source/{path}")]).done().out();
    out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

pub fn commits(enjamb: &Enjamb, path: &str) -> Vec<String> {
    let ids = reads(enjamb, path).into_iter().flat_map(|read| read["parts"].as_array().cloned().unwrap_or_default());
    ids.map(|part| part["commit_id"].as_str().unwrap().to_owned()).collect()
}

#[track_caller]
pub fn check_export(enjamb: &Enjamb, path: &str) {
    let exported = enjamb.run(&["export", "--source", path]).done().stdout;
    assert!(exported == fs::read(path).unwrap(), "{path} is not given back as it was");
}

fn frames(enjamb: &Enjamb) -> u64 {
    enjamb.json(&["status"])["frames"].as_u64().unwrap()
}

#[test]
fn every_byte_comes_back_whatever_it_is() {
    let enjamb = Enjamb::new();
    let whole = turns(0, 3);
    let cases: &[(&str, Vec<u8>)] = &[
        ("plain", whole.clone().into_bytes()),
        ("crlf", whole.replace('\n', "\r\n").into_bytes()),
        ("torn", whole.as_bytes()[..whole.len() - 30].to_vec()),
        ("no-newline", whole.trim_end().as_bytes().to_vec()),
        ("twice", [whole.as_bytes(), whole.as_bytes()].concat()),
        ("not-text", [whole.as_bytes(), b"{\"type\":\"user\",\"x\":\"\xff\xfe\"}\n\0\0\0\n"].concat()),
        ("blank", b"\n\n  \n".to_vec()),
        ("empty", Vec::new()),
        ("joined", whole.replacen("}\n{", "}{", 1).into_bytes()),
        ("garbage", b"\x00\x01 no json at all".to_vec()),
    ];
    fs::create_dir(enjamb.path("in")).unwrap();
    let paths: Vec<_> = cases.iter().map(|(name, bytes)| enjamb.file(&format!("in/{name}.jsonl"), bytes)).collect();
    let done = enjamb.json(&["import", &enjamb.path("in")]);
    assert_eq!((&done["files"], &done["failed"]), (&json!(cases.len()), &json!([])));
    paths.iter().for_each(|path| check_export(&enjamb, path));
    enjamb.run(&["maintain", "--rebuild-index"]).done();
    paths.iter().for_each(|path| check_export(&enjamb, path));
    enjamb.run(&["verify"]).done();
    let before = frames(&enjamb);
    check(
        &enjamb.run(&["import", &enjamb.path("in")]).done().out(),
        "imported   0 files as 0 commits, 0 B\nunchanged  10 files\n",
    );
    assert_eq!(frames(&enjamb), before);
}

#[test]
fn after_much_was_read_it_is_said_how_much_room_it_takes() {
    let enjamb = Enjamb::new();
    let said = "the same again and ".repeat(16_000);
    let line =
        |n| format!(r#"{{"type":"user","uuid":"u{n}","message":{{"role":"user","content":"{n} {said}"}}}}"#) + "\n";
    let path = enjamb.file("large.jsonl", (0..36).map(line).collect::<String>());
    let out = enjamb.run(&["import", &path]).done().out();
    let last = "store      [..] in all    enjamb maintain packs it closer\n";
    check(&out, &format!("imported   1 file as [..] commits, 11 MB\n{last}"));
    check_export(&enjamb, &path);
    check(&enjamb.run(&["import", &path]).done().out(), "imported   0 files as 0 commits, 0 B\nunchanged  1 file\n");
}

#[test]
fn a_turn_is_a_commit_and_bears_where_it_is_from() {
    let enjamb = Enjamb::new();
    let path = enjamb.file("5d1c.jsonl", turns(0, 3));
    check(&enjamb.run(&["import", &path]).done().out(), "imported   1 file as 3 commits, 1.4 kB\n");
    let tip = commits(&enjamb, &path).pop().unwrap();
    let shown = enjamb.json(&["show", &tip]);
    assert_eq!(shown["summary"], "question 2");
    let frame = enjamb.run(&["frames", "context/user", "--from", "2"]).done().out();
    let frame: Value = serde_json::from_str(&frame).unwrap();
    assert_eq!((&frame["agent_session_id"], &frame["template"]), (&json!("5d1c"), &json!("claude-code")));
    assert_eq!((&frame["checkpoint"], &frame["message_count"]), (&json!("explicit"), &json!(2)));
    let size = fs::metadata(&path).unwrap().len();
    let attributes = &frame["attributes"];
    assert_eq!((&attributes["cwd"], &attributes["git_branch"]), (&json!("/home/dana/shop"), &json!("main")));
    assert_eq!((&attributes["model"], &attributes["source"]["to"]), (&json!("claude-opus-4-8"), &json!(size)));
    assert_eq!(enjamb.run(&["materialize", &tip, "--stop", "root"]).done().out(), turns(0, 3));
    assert_eq!(enjamb.run(&["export", "5d1"]).done().out(), turns(0, 3));
    enjamb.run(&["export", "nobody"]).exits(3);
    enjamb.run(&["export", "--source", &enjamb.path("none")]).exits(3);
}

#[test]
fn a_file_that_grew_adds_its_tail_and_a_torn_line_is_read_again() {
    let enjamb = Enjamb::new();
    let whole = turns(0, 6);
    let at = whole.len() / 2 + 40;
    let path = enjamb.file("grows.jsonl", &whole[..at]);
    enjamb.run(&["import", &path]).done();
    check_export(&enjamb, &path);
    let first = commits(&enjamb, &path);
    fs::write(&path, &whole).unwrap();
    let done = enjamb.json(&["import", &path]);
    assert_eq!((&done["rewritten"], &done["issues"]), (&json!(0), &json!([])));
    assert!(done["bytes"].as_u64().unwrap() < (whole.len() - at + 400) as u64, "{done}");
    check_export(&enjamb, &path);
    let all = commits(&enjamb, &path);
    assert_eq!(all[..first.len()], first);
    assert_eq!(enjamb.run(&["materialize", all.last().unwrap(), "--stop", "root"]).done().out(), whole);
}

#[test]
fn a_file_that_was_rewritten_is_a_branch_and_the_old_one_stays() {
    let enjamb = Enjamb::new();
    let path = enjamb.file("changes.jsonl", turns(0, 4));
    enjamb.run(&["import", &path]).done();
    let old = commits(&enjamb, &path);
    let changed = turns(0, 4).replace("question 2", "another question");
    fs::write(&path, &changed).unwrap();
    let out = enjamb.run(&["import", &path]).done().out();
    check(
        &out,
        "imported   1 file as 2 commits, [..]\nrewritten  1 file since the last import; what was there before is kept\n",
    );
    check_export(&enjamb, &path);
    let new = commits(&enjamb, &path).pop().unwrap();
    assert_eq!(enjamb.json(&["diff", &old[3], &new])["shared"], json!(old[1]));
    assert_eq!(enjamb.run(&["materialize", &old[3], "--stop", "root"]).done().out(), turns(0, 4));
    fs::write(&path, turns(0, 1)).unwrap();
    enjamb.run(&["import", &path]).done();
    check_export(&enjamb, &path);
    enjamb.run(&["verify"]).done();
}

#[test]
fn going_back_makes_a_branch_and_a_compaction_a_compaction() {
    let enjamb = Enjamb::new();
    let back = record("user", "u9", "a0", "rather this") + &record("assistant", "a9", "u9", "as you like");
    let compaction = record("boundary", "b1", "", "") + &record("summary", "s1", "b1", "so far");
    let path = enjamb.file("tree.jsonl", [turns(0, 3), back.clone(), compaction.clone(), turns(4, 5)].concat());
    enjamb.run(&["import", &path]).done();
    check_export(&enjamb, &path);
    let [first, second, third, other, compacted, last] = &commits(&enjamb, &path)[..] else { panic!("six commits") };
    let parent = |id: &String| enjamb.json(&["show", id])["parent"].as_str().unwrap_or_default().to_owned();
    assert_eq!([parent(second), parent(third)], [first.clone(), second.clone()]);
    assert_eq!([parent(other), parent(compacted), parent(last)], [first.clone(), other.clone(), compacted.clone()]);
    assert_eq!(enjamb.run(&["materialize", last]).done().out(), compaction + &turns(4, 5));
    let live = [turns(0, 1), back, turns(4, 5)].concat();
    assert_eq!(enjamb.run(&["materialize", last, "--stop", "root"]).done().out(), live);
}

#[test]
fn turns_that_were_taken_back_are_a_branch() {
    let enjamb = Enjamb::new();
    let line = |kind: &str, payload: Value| format!("{}\n", json!({"type": kind, "payload": payload}));
    let said = |text: &str| {
        let content = json!([{"type": "input_text", "text": text}]);
        line("response_item", json!({"type": "message", "role": "user", "content": content}))
    };
    let back = line("event_msg", json!({"type": "thread_rolled_back", "num_turns": 2}));
    let meta = line("session_meta", json!({"id": "0198f3c2-7a41-7b1e-9f53-2d1f6a0c9e10"}));
    let path =
        enjamb.file("rollout-1.jsonl", [meta.clone(), said("a"), said("b"), said("c"), back, said("d")].concat());
    enjamb.run(&["import", &path]).done();
    check_export(&enjamb, &path);
    let tip = commits(&enjamb, &path).pop().unwrap();
    assert_eq!(
        enjamb.run(&["materialize", &tip, "--stop", "root"]).done().out(),
        [meta, said("a"), said("d")].concat()
    );
}

#[test]
fn what_takes_back_what_an_earlier_import_read_is_a_branch_too() {
    let line = |kind: &str, payload: Value| format!("{}\n", json!({"type": kind, "payload": payload}));
    let said = |text: &str| {
        let content = json!([{"type": "input_text", "text": text}]);
        line("response_item", json!({"type": "message", "role": "user", "content": content}))
    };
    let meta = line("session_meta", json!({"id": "0198f3c2-7a41-7b1e-9f53-2d1f6a0c9e10"}));
    let back = line("event_msg", json!({"type": "thread_rolled_back", "num_turns": 2}));
    // However it is read, in one go or in several, the same follows.
    for stages in [vec![4, 6], vec![4, 5, 6], vec![2, 3, 4, 5, 6]] {
        let enjamb = Enjamb::new();
        let lines = [meta.clone(), said("a"), said("b"), said("c"), back.clone(), said("d")];
        let path = enjamb.file("rollout-1.jsonl", "");
        for stage in stages {
            fs::write(&path, lines[..stage].concat()).unwrap();
            enjamb.run(&["import", &path]).done();
            check_export(&enjamb, &path);
        }
        let tip = commits(&enjamb, &path).pop().unwrap();
        let told = enjamb.run(&["materialize", &tip, "--stop", "root"]).done().out();
        assert_eq!(told, [meta.clone(), said("a"), said("d")].concat());
    }
    let enjamb = Enjamb::new();
    let path = enjamb.file("tree.jsonl", turns(0, 3));
    enjamb.run(&["import", &path]).done();
    let first = commits(&enjamb, &path)[0].clone();
    fs::write(&path, turns(0, 3) + &record("user", "u9", "a0", "rather this")).unwrap();
    enjamb.run(&["import", &path]).done();
    let all = commits(&enjamb, &path);
    assert_eq!((enjamb.json(&["show", &all[3]])["parent"].as_str(), all.len()), (Some(first.as_str()), 4));
}

#[test]
fn a_report_lists_what_is_no_record_by_its_line() {
    let enjamb = Enjamb::new();
    let path = enjamb.file("5d1c.jsonl", turns(0, 1) + "not json\n" + &turns(1, 2) + "{\"torn\":");
    let out = enjamb.run(&["import", &path, "--report"]).done().out();
    check(
        &out,
        "imported   1 file as 2 commits, [..]\n          2 assistant\n          2 user\n\
         [..]5d1c.jsonl:3: The line is not JSON: [..]\n\
         [..]5d1c.jsonl:6: The last line is cut short; it is kept, and read again when it has grown.\n",
    );
}

#[test]
fn a_rollout_that_was_compressed_is_the_rollout_that_it_was() {
    let enjamb = Enjamb::new();
    let meta = json!({"type": "session_meta", "payload": {"id": "0198f3c2-7a41-7b1e-9f53-2d1f6a0c9e10"}});
    let said = |n: u64| {
        let content = json!([{"type": "input_text", "text": format!("question {n}")}]);
        let payload = json!({"type": "message", "role": "user", "content": content});
        let line = json!({"timestamp": format!("2026-01-01T00:00:0{n}Z"), "type": "response_item", "payload": payload});
        format!("{line}\n")
    };
    let text = format!("{meta}\n{}{}", said(1), said(2));
    let path = enjamb.file("rollout-1.jsonl", &text);
    enjamb.run(&["import", &path]).done();
    let plain = commits(&enjamb, &path);
    fs::remove_file(&path).unwrap();
    let longer = text.clone() + &said(3);
    let packed = enjamb.file("rollout-1.jsonl.zst", zstd::encode_all(longer.as_bytes(), 3).unwrap());
    enjamb.run(&["import", &packed]).done();
    check_export(&enjamb, &packed);
    assert_eq!(enjamb.run(&["export", "--source", &path]).done().out(), longer);
    let all = commits(&enjamb, &path);
    assert_eq!((&all[..plain.len()], all.len()), (&plain[..], plain.len() + 1));
    let left = fs::read_dir(enjamb.store().join("segments")).unwrap().map(|entry| entry.unwrap().file_name());
    assert_eq!(left.filter(|name| name.to_string_lossy().starts_with("tmp-")).count(), 0);
    assert_eq!(enjamb.json(&["import", &packed])["unchanged"], json!(1));
    let torn = enjamb.file("rollout-2.jsonl.zst", &zstd::encode_all(longer.as_bytes(), 3).unwrap()[..40]);
    let done = enjamb.run(&["import", &torn, "--json"]).exits(10).document();
    assert_eq!(done["failed"].as_array().unwrap().len(), 1, "{done}");
    check_export(&enjamb, &torn);
}

/// A home with transcripts where their runtimes keep them.
fn furnish(home: &Path) -> Vec<PathBuf> {
    let rollout = json!({"timestamp": "2026-01-01T00:00:00Z", "type": "session_meta",
        "payload": {"id": "0198f3c2-7a41-7b1e-9f53-2d1f6a0c9e10", "cwd": "/w", "cli_version": "1"}});
    let files = [
        (".claude/projects/-home-dana-shop/5d1c.jsonl", turns(0, 2)),
        (".claude/projects/-home-dana-shop/5d1c/subagents/agent-1.jsonl", turns(0, 1)),
        (".codex/sessions/2026/01/01/rollout-2026-01-01T00-00-00-0198f3c2.jsonl", format!("{rollout}\n")),
        (".claude/projects/-home-dana-shop/5d1c/tool-results/t1.txt", "a long output\n".to_owned()),
        (".gemini/tmp/x/chats/session-1.json", r#"{"sessionId":"g","projectHash":"h","messages":[]}"#.to_owned()),
        ("data/opencode/storage/session/p/ses_1.json", r#"{"id":"ses_1"}"#.to_owned()),
        (".claude/settings.json", "{}".to_owned()),
        (".codex/history.jsonl", "{}".to_owned()),
    ];
    for (name, contents) in &files {
        let path = home.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, contents).unwrap();
    }
    files[..6].iter().map(|(name, _)| home.join(name)).collect()
}

/// Every file below a directory with its bytes and times.
pub fn image(dir: &Path) -> BTreeMap<PathBuf, (Vec<u8>, std::time::SystemTime)> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()) {
        if entry.is_dir() {
            found.extend(image(&entry));
        } else {
            let modified = fs::metadata(&entry).unwrap().modified().unwrap();
            found.insert(entry.clone(), (fs::read(&entry).unwrap(), modified));
        }
    }
    found
}

#[test]
fn a_fresh_machine_shows_what_is_there_and_import_takes_it_all() {
    let enjamb = Enjamb::new();
    let files = furnish(enjamb.home());
    let old = std::time::SystemTime::now() - Duration::from_secs(25 * 86_400);
    fs::File::open(&files[1]).unwrap().set_modified(old).unwrap();
    let before = [".claude", ".codex", ".gemini", "data"].map(|name| image(&enjamb.home().join(name)));
    let shown = enjamb.run::<&str>(&[]).done().out();
    assert!(shown.contains("claude-code\t3\t"), "{shown}");
    assert!(shown.contains("1 will be deleted within 7 days") && shown.contains("enjamb import"), "{shown}");
    let plan = enjamb.json(&["import", "--dry-run"]);
    assert_eq!(plan["files"].as_array().unwrap().len(), 6);
    assert!(
        plan["files"][0]["path"].as_str().unwrap().ends_with("agent-1.jsonl"),
        "what is in danger comes first: {plan}"
    );
    assert!(!enjamb.store().exists());
    let done = enjamb.json(&["import"]);
    assert_eq!(done["runtimes"], json!({"claude-code": 3, "codex": 1, "gemini": 1, "opencode": 1}));
    files.iter().for_each(|path| check_export(&enjamb, path.to_str().unwrap()));
    let agent = commits(&enjamb, files[1].to_str().unwrap()).pop().unwrap();
    assert_eq!(enjamb.json(&["show", &agent])["attributes"]["parent_session"], "s");
    assert_eq!([".claude", ".codex", ".gemini", "data"].map(|name| image(&enjamb.home().join(name))), before);
    assert_eq!(enjamb.json(&["import", "--from", "claude"])["unchanged"], json!(3));
    assert_eq!(enjamb.json(&["import", "--since", "7d"])["unchanged"], json!(5));
    enjamb.run(&["import", "--from", "nobody"]).exits(2);
    enjamb.run(&["import", "/no/such/path"]).exits(3);
}

#[test]
fn a_document_that_is_written_anew_follows_what_it_was() {
    let enjamb = Enjamb::new();
    let path = enjamb.file("session-1.json", r#"{"sessionId":"g","projectHash":"h","messages":[]}"#);
    enjamb.run(&["import", &path]).done();
    fs::write(&path, r#"{"sessionId":"g","projectHash":"h","messages":[1]}"#).unwrap();
    enjamb.run(&["import", &path]).done();
    check_export(&enjamb, &path);
    let all = commits(&enjamb, &path);
    let (old, new) = (&all[0], all.last().unwrap());
    let shown = enjamb.json(&["show", new]);
    assert_eq!((&shown["parent"], &shown["type"]), (&json!(old), &json!("delta")));
}

#[test]
fn records_are_counted_by_type_and_copies_are_stored_once() {
    let enjamb = Enjamb::new();
    let text = turns(0, 40) + &record("boundary", "b", "", "") + "{\"type\":\"mode\"}\n{\"no\":1}\nnot json\n";
    fs::create_dir(enjamb.path("in")).unwrap();
    enjamb.file("in/a.jsonl", &text);
    let done = enjamb.json(&["import", &enjamb.path("in")]);
    assert_eq!(done["records"], json!({"user": 40, "assistant": 40, "system": 1, "mode": 1, "untyped": 1}));
    assert_eq!(done["issues"][0]["line"], json!(84));
    let artifacts = enjamb.json(&["status"])["artifacts"].clone();
    let copy = enjamb.file("in/b.jsonl", &text);
    let done = enjamb.json(&["import", &enjamb.path("in")]);
    assert_eq!((&done["files"], &done["unchanged"], &done["commits"]), (&json!(1), &json!(1), &json!(0)));
    assert_eq!(enjamb.json(&["status"])["artifacts"], artifacts);
    check_export(&enjamb, &copy);
}

/// Files enough to be stored in several groups.
fn library(enjamb: &Enjamb) -> Vec<String> {
    fs::create_dir(enjamb.path("in")).unwrap();
    let noise = |n: u64| {
        (0..40).map(|i| format!("{:016x}", (n * 40 + i).wrapping_mul(0x9e37_79b9_7f4a_7c15))).collect::<String>()
    };
    (0..6u64)
        .map(|n| {
            let text: String = (0..300).map(|i| turns(i, i + 1).replace("answer", &noise(n * 300 + i))).collect();
            enjamb.file(&format!("in/{n}.jsonl"), text)
        })
        .collect()
}

#[test]
fn an_import_that_is_killed_goes_on_to_the_same_end() {
    let whole = Enjamb::new();
    let paths = library(&whole);
    whole.run(&["import", &whole.path("in")]).done();
    let expected: Vec<_> = paths.iter().map(|path| commits(&whole, path)).collect();
    let enjamb = Enjamb::new();
    let paths = library(&enjamb);
    let kills = std::env::var("ENJAMB_KILLS").ok().and_then(|kills| kills.parse().ok()).unwrap_or(12u64);
    for round in 0..kills {
        let mut child = enjamb.command(&["import", &enjamb.path("in")]).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(5 + round * 17 % 400));
        // It may have ended already.
        let _ = child.kill();
        finish(child);
    }
    enjamb.run(&["import", &enjamb.path("in")]).done();
    enjamb.run(&["verify"]).done();
    let found: Vec<_> = paths.iter().map(|path| commits(&enjamb, path)).collect();
    assert_eq!(found, expected);
    paths.iter().for_each(|path| check_export(&enjamb, path));
}

#[test]
fn two_imports_at_once_store_one() {
    let enjamb = Enjamb::with_store();
    let paths = library(&enjamb);
    let children: Vec<_> = (0..3).map(|_| enjamb.command(&["import", &enjamb.path("in")]).spawn().unwrap()).collect();
    children.into_iter().for_each(|child| drop(finish(child).done()));
    enjamb.run(&["verify"]).done();
    assert_eq!(enjamb.json(&["import", &enjamb.path("in")])["unchanged"], json!(6));
    for path in &paths {
        assert_eq!(commits(&enjamb, path).len(), 300, "{path}");
        check_export(&enjamb, path);
    }
}

#[test]
fn a_line_larger_than_memory_is_meant_for_passes_through() {
    let enjamb = Enjamb::with_store();
    let image = "QUJD".repeat(300_000);
    let line = |n: u64| {
        format!(
            "{{\"timestamp\":\"2026-01-01T00:00:0{n}Z\",\"type\":\"compacted\",\"payload\":{{\"replacement_history\":[\"{}\"]}}}}\n",
            image.repeat(20)
        )
    };
    let path = enjamb.file("rollout-x.jsonl", [turns(0, 1), line(1), line(2), line(3)].concat());
    let child = enjamb.command(&["import", &path, "--json"]).spawn().unwrap();
    let peak = watch_peak(child.id());
    let done = finish(child).done().document();
    assert_eq!((&done["commits"], &done["records"]["compacted"]), (&json!(4), &json!(3)));
    assert!(peak < 120, "{peak} MiB");
    let disk = enjamb.json(&["status"])["disk"]["total"].as_u64().unwrap();
    assert!(disk < 8_000_000, "{disk}");
    check_export(&enjamb, &path);
}

/// Real transcripts, unpacked, where they are at hand. They are other people's and not part of this project.
pub fn corpus() -> Option<PathBuf> {
    let unpack = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/corpus/unpack");
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("corpus");
    let status = std::process::Command::new(unpack).arg(&dir).stdout(Stdio::null()).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success()).then_some(dir)
}

/// Records of a file by type, counted by other means than ours: values one after another, whatever is between them.
fn count_types(path: &Path, counts: &mut BTreeMap<String, u64>) {
    let bytes: Vec<u8> = fs::read(path).unwrap().into_iter().map(|byte| if byte == 0 { b' ' } else { byte }).collect();
    // Half a surrogate pair is no text to this reader; to ours it is, as it is to jq.
    let text = String::from_utf8_lossy(&bytes).replace("\\ud", "\\u0").replace("\\uD", "\\u0");
    if path.extension().is_some_and(|extension| extension == "json") {
        let document: Value = serde_json::from_str(&text).unwrap();
        let kinds = document["messages"].as_array().into_iter().flatten().map(kind_of);
        // Before the messages there is what is said of all of them.
        return kinds.chain(["untyped".to_owned()]).for_each(|kind| *counts.entry(kind).or_default() += 1);
    }
    let mut rest = text.as_str();
    while !rest.trim_start().is_empty() {
        let mut values = serde_json::Deserializer::from_str(rest).into_iter::<Value>();
        match values.next() {
            Some(Ok(value)) => {
                *counts.entry(kind_of(&value)).or_default() += 1;
                rest = &rest[values.byte_offset()..];
            }
            _ => rest = rest.trim_start().split_once('\n').map_or("", |(_, rest)| rest),
        }
    }
}

fn kind_of(value: &Value) -> String {
    let told = value["type"].as_str().or(value["role"].as_str()).or(value["info"]["role"].as_str());
    told.unwrap_or("untyped").to_owned()
}

#[test]
fn real_transcripts_come_back_and_their_records_are_counted() {
    let Some(corpus) = corpus() else {
        eprintln!("there are no real transcripts here to import");
        return;
    };
    let enjamb = Enjamb::new();
    let (mut files, mut counts) = (image(&corpus), BTreeMap::new());
    // Without optimisation the largest take minutes: they are read when the build is fast, or when asked for.
    let takes_all = !cfg!(debug_assertions) || std::env::var_os("ENJAMB_CORPUS").is_some();
    files.retain(|_, (bytes, _)| takes_all || bytes.len() < 300_000);
    // What is prose, or was damaged so that this reader refuses what ours does not, is given back but not counted here.
    let is_sound = |path: &Path| {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let is_odd = name.starts_with("derived-") && ["utf8", "bigint"].iter().any(|word| name.contains(word));
        fs::read(path).unwrap().starts_with(b"{") && !is_odd
    };
    files.keys().filter(|path| is_sound(path)).for_each(|path| count_types(path, &mut counts));
    let sound: Vec<&str> = files.keys().filter(|path| is_sound(path)).map(|path| path.to_str().unwrap()).collect();
    let done = enjamb.json(&[&["import"], &sound[..]].concat());
    assert_eq!((&done["files"], &done["failed"]), (&json!(sound.len()), &json!([])));
    assert_eq!(done["records"], json!(counts));
    let all: Vec<&str> = files.keys().map(|path| path.to_str().unwrap()).collect();
    assert_eq!(enjamb.json(&[&["import"], &all[..]].concat())["failed"], json!([]));
    all.iter().for_each(|path| check_export(&enjamb, path));
    assert_eq!(enjamb.json(&[&["import"], &all[..]].concat())["files"], json!(0));
}

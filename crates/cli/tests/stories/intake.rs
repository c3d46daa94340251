//! Chats of Gemini CLI and sessions of opencode, in every shape that these keep them in.

use std::fs;
use std::path::Path;

use rusqlite::Connection;
use serde_json::{Value, json};

use crate::expect::check;
use crate::imports::{check_export, commits, image};
use crate::runner::Enjamb;

/// The tip of a source.
fn tip(enjamb: &Enjamb, path: &str) -> String {
    commits(enjamb, path).pop().unwrap()
}

fn parent(enjamb: &Enjamb, commit: &str) -> Value {
    enjamb.json(&["show", commit])["parent"].clone()
}

/// What the chain says, message by message.
fn told(enjamb: &Enjamb, tip: &str) -> Vec<String> {
    let out = enjamb.run(&["materialize", tip, "--stop", "root", "--format", "generic-v1"]).done().out();
    let lines = out.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let text =
        |line: &Value| line["content"].as_str().map(|text| format!("{}: {text}", line["role"].as_str().unwrap()));
    lines.filter_map(|line| text(&line)).collect()
}

fn asked(id: &str, text: &str) -> Value {
    json!({"id": id, "timestamp": "2026-01-01T00:00:01.000Z", "type": "user", "content": text})
}

fn answered(id: &str, text: &str) -> Value {
    json!({"id": id, "timestamp": "2026-01-01T00:00:02.000Z", "type": "gemini", "content": text,
        "model": "gemini-3-pro", "tokens": {"input": 9, "output": 3, "cached": 4, "thoughts": 2, "tool": 0, "total": 14}})
}

/// A chat as older versions write it, anew each time.
fn chat(updated: &str, messages: &[Value]) -> String {
    let chat = json!({"sessionId": "0b5cfa9e-1111-4222-8333-444455556666", "projectHash": "h",
        "startTime": "2026-01-01T00:00:00.000Z", "lastUpdated": updated, "messages": messages});
    serde_json::to_string_pretty(&chat).unwrap()
}

#[test]
fn a_chat_that_is_written_anew_adds_its_new_turns() {
    let enjamb = Enjamb::new();
    let all =
        [asked("u1", "one"), answered("g1", "so"), asked("u2", "two"), answered("g2", "thus"), asked("u3", "three")];
    let path = enjamb.file("session-1.json", chat("t1", &all[..4]));
    check(&enjamb.run(&["import", &path]).done().out(), "imported   1 file as 3 commits, [..]\n");
    check_export(&enjamb, &path);
    let old = tip(&enjamb, &path);
    let shown = enjamb.json(&["show", &old]);
    assert_eq!(
        (&shown["summary"], &shown["session_id"]),
        (&json!("two"), &json!("0b5cfa9e-1111-4222-8333-444455556666"))
    );
    assert_eq!(
        (&shown["attributes"]["model"], &shown["attributes"]["usage"]["output"]),
        (&json!("gemini-3-pro"), &json!(5))
    );
    assert_eq!(told(&enjamb, &old), ["user: one", "assistant: so", "user: two", "assistant: thus"]);

    fs::write(&path, chat("t2", &all)).unwrap();
    let done = enjamb.json(&["import", &path]);
    assert_eq!((&done["commits"], &done["rewritten"], &done["records"]), (&json!(1), &json!(0), &json!({"user": 1})));
    check_export(&enjamb, &path);
    assert_eq!(parent(&enjamb, &tip(&enjamb, &path)), json!(old));

    // A message that was not done is told again, where it was.
    fs::write(&path, chat("t3", &[&all[..4], &[asked("u3", "three, rather")]].concat())).unwrap();
    let done = enjamb.json(&["import", &path]);
    assert_eq!((&done["commits"], &done["rewritten"]), (&json!(1), &json!(0)));
    check_export(&enjamb, &path);
    assert_eq!(told(&enjamb, &tip(&enjamb, &path)).last().unwrap(), "user: three, rather");

    // Only the time changed: the bytes are kept, and nothing is told.
    fs::write(&path, chat("t4", &[&all[..4], &[asked("u3", "three, rather")]].concat())).unwrap();
    assert_eq!(enjamb.json(&["import", &path])["commits"], json!(0));
    check_export(&enjamb, &path);
    let frames = enjamb.json(&["status"])["frames"].clone();
    assert_eq!(enjamb.json(&["import", &path])["unchanged"], json!(1));
    assert_eq!(enjamb.json(&["status"])["frames"], frames);
    enjamb.run(&["verify"]).done();
}

#[test]
fn a_chat_that_lost_messages_is_a_branch_and_a_broken_one_is_kept() {
    let enjamb = Enjamb::new();
    let all = [asked("u1", "one"), asked("u2", "two"), asked("u3", "three")];
    let path = enjamb.file("session-1.json", chat("t1", &all));
    enjamb.run(&["import", &path]).done();
    let old = commits(&enjamb, &path);
    let old_tip = tip(&enjamb, &path);
    fs::write(&path, chat("t2", &[all[0].clone(), asked("u4", "four")])).unwrap();
    let out = enjamb.run(&["import", &path]).done().out();
    check(
        &out,
        "imported   1 file as 1 commit, [..]\nrewritten  1 file since the last import; what was there before is kept\n",
    );
    check_export(&enjamb, &path);
    let new = tip(&enjamb, &path);
    assert_eq!(parent(&enjamb, &new), json!(old[1]));
    assert_eq!(told(&enjamb, &new), ["user: one", "user: four"]);
    assert_eq!(told(&enjamb, &old_tip), ["user: one", "user: two", "user: three"]);

    let whole = chat("t3", &[all[0].clone(), asked("u4", "four"), asked("u5", "five")]);
    fs::write(&path, &whole[..whole.len() - 20]).unwrap();
    let done = enjamb.json(&["import", &path]);
    assert_eq!((&done["commits"], &done["issues"][0]["line"]), (&json!(0), &json!(1)));
    check_export(&enjamb, &path);
    fs::write(&path, &whole).unwrap();
    assert_eq!(enjamb.json(&["import", &path])["commits"], json!(1));
    check_export(&enjamb, &path);
    assert_eq!(parent(&enjamb, &tip(&enjamb, &path)), json!(new));
    let garbage = enjamb.file("session-2.json", r#"{"sessionId":"g","projectHash":"h","messages":"#);
    enjamb.run(&["import", &garbage]).done();
    check_export(&enjamb, &garbage);
}

#[test]
fn a_rewind_of_a_chat_is_a_branch() {
    let enjamb = Enjamb::new();
    let header =
        json!({"sessionId": "g1", "projectHash": "h", "startTime": "2026-01-01T00:00:00.000Z", "kind": "main"});
    let lines = [
        header,
        asked("u1", "one"),
        answered("a1", "so"),
        asked("u2", "two"),
        answered("a2", "thus"),
        json!({"$rewindTo": "u2"}),
        asked("u3", "three"),
        json!({"$set": {"lastUpdated": "t"}}),
    ];
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    let path = enjamb.file("session-3.jsonl", &text);
    enjamb.run(&["import", &path]).done();
    check_export(&enjamb, &path);
    let [_, first, second, third] = &commits(&enjamb, &path)[..] else { panic!("four commits") };
    assert_eq!([parent(&enjamb, second), parent(&enjamb, third)], [json!(first), json!(first)]);
    assert_eq!(told(&enjamb, third), ["user: one", "assistant: so", "user: three"]);
    assert_eq!(enjamb.json(&["show", third])["session_id"], "g1");
}

fn message(id: &str, role: &str, at: u64) -> Value {
    let model = if role == "assistant" { json!("m-1") } else { Value::Null };
    json!({"id": id, "sessionID": "ses_1", "role": role, "time": {"created": at}, "modelID": model, "cost": 0.5,
        "tokens": {"input": 7, "output": 2, "reasoning": 0, "cache": {"read": 0, "write": 0}}})
}

fn text_part(id: &str, message: &str, text: &str) -> Value {
    json!({"id": id, "sessionID": "ses_1", "messageID": message, "type": "text", "text": text})
}

/// Writes a thing where opencode kept it before it had a database.
fn store_thing(storage: &Path, dir: &str, value: &Value) {
    let path = storage.join(dir).join(format!("{}.json", value["id"].as_str().unwrap()));
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, serde_json::to_string_pretty(value).unwrap()).unwrap();
}

#[test]
fn files_of_a_session_are_one_chain_and_each_comes_back() {
    let enjamb = Enjamb::new();
    let storage = enjamb.home().join("data/opencode/storage");
    let session = json!({"id": "ses_1", "projectID": "p", "directory": "/w", "version": "1.1.0", "time": {"created": 1, "updated": 2}});
    store_thing(&storage, "session/p", &session);
    store_thing(&storage, "message/ses_1", &message("msg_1", "user", 1000));
    store_thing(&storage, "part/msg_1", &text_part("prt_1", "msg_1", "why?"));
    store_thing(&storage, "message/ses_1", &message("msg_2", "assistant", 2000));
    store_thing(&storage, "part/msg_2", &text_part("prt_2", "msg_2", "so"));
    let before = image(&storage);
    let done = enjamb.json(&["import"]);
    assert_eq!((&done["commits"], &done["files"], &done["failed"]), (&json!(2), &json!(5), &json!([])), "{done}");
    image(&storage).keys().for_each(|path| check_export(&enjamb, path.to_str().unwrap()));
    let source = format!("{}#ses_1", storage.display());
    let first = tip(&enjamb, &source);
    assert_eq!(told(&enjamb, &first), ["user: why?", "assistant: so"]);
    let shown = enjamb.json(&["show", &first]);
    assert_eq!((&shown["session_id"], &shown["attributes"]["cwd"]), (&json!("ses_1"), &json!("/w")));
    assert_eq!((&shown["attributes"]["cost"], &shown["attributes"]["model"]), (&json!(1.0), &json!("m-1")));
    enjamb.run(&["export", "ses_1"]).done();

    store_thing(&storage, "message/ses_1", &message("msg_3", "user", 3000));
    store_thing(&storage, "part/msg_3", &text_part("prt_3", "msg_3", "and then?"));
    let done = enjamb.json(&["import"]);
    assert_eq!((&done["commits"], &done["unchanged"]), (&json!(1), &json!(5)), "{done}");
    let second = tip(&enjamb, &source);
    assert_eq!(parent(&enjamb, &second), json!(first));
    assert_eq!(told(&enjamb, &second).last().unwrap(), "user: and then?");
    let frames = enjamb.json(&["status"])["frames"].clone();
    assert_eq!(enjamb.json(&["import"])["unchanged"], json!(7));
    assert_eq!(enjamb.json(&["status"])["frames"], frames);
    assert!(before.iter().all(|(path, file)| image(&storage)[path] == *file));
}

const SCHEMA: &str = "PRAGMA journal_mode = WAL;
    CREATE TABLE session(id TEXT PRIMARY KEY, project_id TEXT, parent_id TEXT, directory TEXT, title TEXT, version TEXT,
        revert TEXT, time_created INTEGER, time_updated INTEGER);
    CREATE TABLE message(id TEXT PRIMARY KEY, session_id TEXT, time_created INTEGER, time_updated INTEGER, data TEXT);
    CREATE TABLE part(id TEXT PRIMARY KEY, message_id TEXT, session_id TEXT, time_created INTEGER, time_updated INTEGER,
        data TEXT);
    INSERT INTO session VALUES('ses_1', 'p', 'ses_0', '/w', 'a title', '1.2.0', NULL, 1, 5);";

/// A turn: what is asked, and what is answered.
fn add_turn(database: &Connection, n: i64) {
    let (user, reply) = (
        json!({"role": "user", "time": {"created": n * 1000}}),
        message("x", "assistant", (n * 1000 + 1).unsigned_abs()),
    );
    for (id, data) in [(format!("msg_{n}a"), user), (format!("msg_{n}b"), reply)] {
        let values = (id.as_str(), n * 1000, data.to_string());
        database.execute("INSERT INTO message VALUES(?1, 'ses_1', ?2, ?2, ?3)", values).unwrap();
        let data = json!({"type": "text", "text": format!("{id} says")}).to_string();
        let values = (format!("prt_{id}"), id.as_str(), n * 1000, data);
        database.execute("INSERT INTO part VALUES(?1, ?2, 'ses_1', ?3, ?3, ?4)", values).unwrap();
    }
}

#[test]
fn a_database_is_read_without_touching_it() {
    let enjamb = Enjamb::new();
    let dir = enjamb.home().join("data/opencode");
    fs::create_dir_all(&dir).unwrap();
    let path = dir.join("opencode.db");
    let database = Connection::open(&path).unwrap();
    database.execute_batch(SCHEMA).unwrap();
    add_turn(&database, 1);
    add_turn(&database, 2);
    let before = image(&dir);
    assert!(before.len() > 1, "its log is there");
    let done = enjamb.json(&["import"]);
    assert_eq!((&done["commits"], &done["failed"]), (&json!(3), &json!([])), "{done}");
    assert_eq!(done["records"], json!({"session": 1, "message": 4, "part": 4}));
    assert_eq!(image(&dir), before);
    let source = format!("{}#ses_1", path.display());
    let first = tip(&enjamb, &source);
    assert_eq!(told(&enjamb, &first).last().unwrap(), "assistant: msg_2b says");
    let shown = enjamb.json(&["show", &first]);
    assert_eq!((&shown["session_id"], &shown["attributes"]["parent_session"]), (&json!("ses_1"), &json!("ses_0")));

    // The rows are what is given back, a line each.
    let exported = enjamb.run(&["export", "ses_1"]).done().out();
    let rows: Vec<Value> = exported.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((rows.len(), &rows[0]["title"], &rows[1]["data"]["role"]), (9, &json!("a title"), &json!("user")));
    enjamb.run(&["export", "--source", path.to_str().unwrap()]).exits(2);

    // Nothing new, nothing written; then a row that changed, and a turn.
    let frames = enjamb.json(&["status"])["frames"].clone();
    assert_eq!(enjamb.json(&["import"])["unchanged"], json!(1));
    assert_eq!(enjamb.json(&["status"])["frames"], frames);
    let changed = json!({"type": "text", "text": "rather this"}).to_string();
    let change = "UPDATE part SET data = ?1, time_updated = 9000 WHERE id = 'prt_msg_2b'";
    database.execute(change, [changed]).unwrap();
    add_turn(&database, 3);
    drop(database);
    let before = image(&dir);
    assert_eq!(before.len(), 1, "it is at rest");
    let done = enjamb.json(&["import"]);
    assert_eq!(done["records"], json!({"message": 2, "part": 3}), "{done}");
    assert_eq!(image(&dir), before);
    let second = tip(&enjamb, &source);
    let said = told(&enjamb, &second);
    assert_eq!((said[3].as_str(), said[5].as_str()), ("assistant: rather this", "assistant: msg_3b says"));
    assert!(exported.lines().all(|line| enjamb.run(&["export", "ses_1"]).done().out().contains(line)));

    // Messages that were taken back: what follows is a branch, and what was told stays.
    let database = Connection::open(&path).unwrap();
    let gone = "DELETE FROM part WHERE message_id >= 'msg_2'; DELETE FROM message WHERE id >= 'msg_2';
        UPDATE session SET time_updated = 20000;";
    database.execute_batch(gone).unwrap();
    add_turn(&database, 4);
    drop(database);
    let done = enjamb.json(&["import"]);
    assert_eq!(done["rewritten"], json!(1), "{done}");
    let third = tip(&enjamb, &source);
    assert_eq!(
        told(&enjamb, &third),
        ["user: msg_1a says", "assistant: msg_1b says", "user: msg_4a says", "assistant: msg_4b says"]
    );
    assert_eq!(told(&enjamb, &second), said);
    enjamb.run(&["verify"]).done();
    let left = fs::read_dir(enjamb.store().join("segments")).unwrap().map(|entry| entry.unwrap().file_name());
    assert_eq!(left.filter(|name| name.to_string_lossy().starts_with("tmp-")).count(), 0);
}

#[test]
fn a_database_that_is_none_is_reported() {
    let enjamb = Enjamb::new();
    let path = enjamb.file("opencode.db", "SQLite format 3\0 and then nothing");
    let done = enjamb.run(&["import", &path, "--json"]).exits(10).document();
    assert_eq!(done["failed"].as_array().unwrap().len(), 1, "{done}");
    let empty = enjamb.path("opencode-x.db");
    Connection::open(&empty).unwrap().execute_batch("CREATE TABLE other(x)").unwrap();
    let done = enjamb.run(&["import", &empty, "--json"]).exits(10).document();
    assert!(done["failed"][0]["detail"].as_str().unwrap().contains("no such table"), "{done}");
}

//! Threads: `thread ensure|create|list|get|post|events|branch|handoff|reference|archive|tag|pin|search|map`.

use serde_json::{Value, json};

use crate::expect::{check, check_json};
use crate::runner::Enjamb;

/// A thread of its own, and its id.
pub fn thread(enjamb: &Enjamb) -> String {
    enjamb.run(&["thread", "create", "--workspace", "/w"]).done().line()
}

/// Posts a message and returns what was answered.
#[track_caller]
pub fn post(enjamb: &Enjamb, thread: &str, text: &str, more: &[&str]) -> Value {
    enjamb.json(&[&["thread", "post", thread, text], more].concat())
}

/// Lets a run say something and end.
pub fn reply(enjamb: &Enjamb, thread: &str, posted: &Value, text: &str) {
    let (run, message) = (posted["run"].as_str().unwrap(), posted["message_id"].as_str().unwrap());
    let delta = json!({"type": "output_text_delta", "delta": text}).to_string();
    enjamb.append(&format!("session/{run}"), &delta);
    let ended = json!({
        "type": "continuity_run_ended", "run_session_id": run, "message_id": message, "reason": "completed",
        "actor_id": "user", "origin": "cli",
    });
    enjamb.append(&format!("continuity/{thread}"), &ended.to_string());
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

#[test]
fn a_workspace_has_one_thread_and_may_have_more() {
    let enjamb = Enjamb::new();
    let first = enjamb.json(&["thread", "ensure", "--workspace", "/w", "--title", "shop"]);
    let expected = json!({
        "schema": "enjamb.cli.thread/1", "thread_id": "[..]", "workspace": "/w", "title": "shop",
        "created_at_ms": "[..]", "updated_at_ms": "[..]", "frames": 1, "messages": 0, "archived": false, "tags": [],
        "origin": null, "created": true,
    });
    check_json(&first, &expected);
    let again = enjamb.json(&["thread", "ensure", "--workspace", "/w"]);
    assert_eq!((&again["thread_id"], &again["created"]), (&first["thread_id"], &json!(false)));
    let other = enjamb.run(&["thread", "create", "--workspace", "/w"]).done().line();
    assert_ne!(other, text(&first["thread_id"]));
    assert_eq!(enjamb.json(&["thread", "ensure", "--workspace", "/w"])["thread_id"], first["thread_id"]);
    let listed = enjamb.json(&["thread", "list"]);
    assert_eq!(listed["threads"].as_array().unwrap().len(), 2);
    check(
        &enjamb.run(&["thread", "get", &other[..8]]).done().out(),
        &format!(
            "
thread      {other}
workspace   /w
messages    0 in 1 frames
begun       [..]
"
        ),
    );
}

#[test]
fn a_thread_that_was_there_before_is_the_workspaces_own() {
    let enjamb = Enjamb::new();
    enjamb.append("continuity/old", r#"{"type":"continuity_created","workspace":"/w","title":null}"#);
    assert_eq!(enjamb.run(&["thread", "ensure", "--workspace", "/w"]).done().line(), "old");
}

#[test]
fn messages_carry_who_and_through_what() {
    let enjamb = Enjamb::new();
    let id = thread(&enjamb);
    let posted = enjamb.json(&["thread", "post", &id, "hello", "--actor", "alice", "--origin", "web", "--key", "k1"]);
    let again = enjamb.json(&["thread", "post", &id, "hello", "--actor", "alice", "--origin", "web", "--key", "k1"]);
    assert_eq!((&again["message_id"], &again["replayed"]), (&posted["message_id"], &json!(true)));
    let run = enjamb.run_with(&["thread", "post", &id, "--spawn=r1"], "from stdin\n").done().out();
    check(&run, "[..]\t2\tr1\n");
    let events = enjamb.run(&["thread", "events", &id]).done().out();
    let frames: Vec<Value> = events.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let types: Vec<_> = frames.iter().map(|frame| text(&frame["type"])).collect();
    let appended = "continuity_message_appended";
    assert_eq!(types, ["continuity_created", appended, appended, "continuity_run_spawned"]);
    assert_eq!((text(&frames[1]["actor_id"]), text(&frames[1]["origin"])), ("alice", "web"));
    assert_eq!(frames[1]["id"], posted["message_id"], "a message's id is its frame's");
    assert_eq!((text(&frames[2]["content"]), text(&frames[3]["run_session_id"])), ("from stdin", "r1"));
    assert_eq!(
        enjamb.run(&["thread", "events", &id, "--from", "2", "-n", "1", "--follow"]).done().out().lines().count(),
        1
    );
}

#[test]
fn a_branch_is_cut_after_what_the_runs_of_a_message_came_to() {
    let enjamb = Enjamb::new();
    let id = thread(&enjamb);
    let first = post(&enjamb, &id, "one", &["--spawn"]);
    let second = post(&enjamb, &id, "two", &[]);
    reply(&enjamb, &id, &first, "done");
    let at = |more: &[&str]| enjamb.json(&[&["thread", "branch", &id], more].concat());
    let cut = |child: &Value| (child["parent_seq"].as_u64().unwrap(), child["parent_message_id"].clone());
    assert_eq!(cut(&at(&[])), (4, second["message_id"].clone()));
    assert_eq!(cut(&at(&["--at-seq", "2"])), (2, first["message_id"].clone()));
    assert_eq!(cut(&at(&["--at-seq", "0"])), (0, Value::Null));
    assert_eq!(cut(&at(&["--at-message", text(&first["message_id"])])), (4, first["message_id"].clone()));
    assert_eq!(cut(&at(&["--at-message", text(&second["message_id"])])), (3, second["message_id"].clone()));
    let child = at(&["--title", "other way"]);
    let shown = enjamb.json(&["thread", "get", text(&child["thread_id"])]);
    assert_eq!(
        (&shown["title"], &shown["workspace"], &shown["frames"]),
        (&json!("other way"), &json!("/w"), &json!(2))
    );
    assert_eq!((&shown["origin"]["kind"], &shown["origin"]["thread_id"]), (&json!("branch"), &json!(id)));
}

#[test]
fn a_handoff_hands_over_words_or_a_bundle() {
    let enjamb = Enjamb::new();
    let id = thread(&enjamb);
    post(&enjamb, &id, "one", &[]);
    let child = enjamb.json(&["thread", "handoff", &id, "--summary", "so far"]);
    let artifact = text(&child["summary_artifact"]);
    let bundle: Value = serde_json::from_str(&enjamb.run(&["get", artifact]).done().out()).unwrap();
    assert_eq!(bundle["schema"], "rip.handoff_context_bundle.v1");
    assert_eq!(bundle["refs"]["threads"][0]["note"], "source cut");
    let frame = enjamb.run(&["thread", "events", text(&child["thread_id"]), "--from", "1"]).done().out();
    assert!(frame.contains("\"summary_markdown\":\"so far\"") && frame.contains(&artifact[4..]), "{frame}");
    let again = enjamb.json(&["thread", "handoff", &id, "--artifact", artifact]);
    assert_eq!(text(&again["summary_artifact"]), artifact);
    let other = enjamb.put("not a bundle");
    enjamb.run(&["thread", "handoff", &id, "--artifact", &other]).exits(2);
}

#[test]
fn threads_refer_to_each_other_and_the_map_shows_it() {
    let enjamb = Enjamb::new();
    let (a, b) = (thread(&enjamb), thread(&enjamb));
    let posted = post(&enjamb, &b, "use jitter", &["--spawn"]);
    reply(&enjamb, &b, &posted, "yes");
    let done = enjamb.json(&["thread", "reference", &a, &b]);
    let extract: Value = serde_json::from_str(&enjamb.run(&["get", text(&done["extract"])]).done().out()).unwrap();
    assert_eq!(
        (text(&extract["messages"][0]["content"]), text(&extract["messages"][0]["reply"])),
        ("use jitter", "yes")
    );
    let child = enjamb.run(&["thread", "branch", &a]).done().line();
    let mut edges = [format!("{a}\treference\t{b}\t\n"), format!("{child}\tbranch\t{a}\t1\n")];
    edges.sort();
    check(&enjamb.run(&["thread", "map"]).done().out(), &edges.concat());
    let map = enjamb.json(&["thread", "map"]);
    assert_eq!((map["threads"].as_array().unwrap().len(), map["edges"].as_array().unwrap().len()), (3, 2));
}

#[test]
fn threads_are_put_away_tagged_and_found() {
    let enjamb = Enjamb::new();
    let (a, b) = (thread(&enjamb), thread(&enjamb));
    post(&enjamb, &a, "Retry with JITTER", &[]);
    post(&enjamb, &b, "retry at once", &[]);
    enjamb.run(&["thread", "tag", &a, "urgent", "new"]).done();
    enjamb.run(&["thread", "tag", &a, "--remove", "new"]).done();
    assert_eq!(enjamb.json(&["thread", "get", &a])["tags"], json!(["urgent"]));
    let listed = |more: &[&str]| enjamb.run(&[&["thread", "list"], more].concat()).done().out().lines().count();
    assert_eq!((listed(&[]), listed(&["--tag", "urgent"]), listed(&["--tag", "new"])), (2, 1, 0));
    enjamb.run(&["thread", "archive", &b]).done();
    assert_eq!((listed(&[]), listed(&["--archived"])), (1, 2));
    enjamb.run(&["thread", "archive", &b, "--undo"]).done();
    assert_eq!(listed(&[]), 2);
    check(
        &enjamb.run(&["thread", "search", "jitter", "retry"]).done().out(),
        &format!("{a}\t1\tuser\tRetry with JITTER\n"),
    );
    enjamb.run(&["thread", "search", "nothing"]).exits(1);
    let effects = json!({
        "type": "continuity_tool_side_effects", "run_session_id": "r", "tool_id": "t1", "tool_name": "write",
        "affected_paths": ["src/pay/retry.rs", "a.md"], "actor_id": "a", "origin": "o",
    });
    let spawned = json!({"type": "continuity_run_spawned", "run_session_id": "r", "message_id": "m"});
    enjamb.append(&format!("continuity/{b}"), &spawned.to_string());
    enjamb.append(&format!("continuity/{b}"), &effects.to_string());
    let found = enjamb.json(&["thread", "search", "--file", "src/pay/"]);
    assert_eq!((&found["hits"][0]["thread_id"], &found["hits"][0]["text"]), (&json!(b), &json!("src/pay/retry.rs")));
    enjamb.run(&["thread", "search", "--file", "src/p"]).exits(1);
}

#[test]
fn messages_are_found_by_how_their_words_begin_and_by_signs_between_them() {
    let enjamb = Enjamb::new();
    let (a, b) = (thread(&enjamb), thread(&enjamb));
    post(&enjamb, &a, "Retrying ÄRGER in src/pay.rs", &[]);
    post(&enjamb, &b, "the pay of src", &[]);
    let found = |words: &[&str]| {
        let hits = enjamb.run(&[&["thread", "search"], words].concat());
        hits.out().lines().map(|line| line.split('\t').next().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(found(&["retry"]), [a.as_str()]);
    assert_eq!(found(&["ärger", "retrying"]), [a.as_str()]);
    assert_eq!(found(&["src/pay.rs"]), [a.as_str()], "the signs between words count too");
    assert_eq!(found(&["pay", "in"]), [a.as_str()], "a word that is not in the index is looked for in the text");
    assert_eq!(found(&["pay", "src"]).len(), 2);
    assert_eq!(found(&["pay", "src", "-n", "1"]).len(), 1);
    assert_eq!(found(&["try"]), [""; 0]);
    let problem = enjamb.run(&["thread", "search", "of", "it", "--json"]).exits(2).problem();
    assert_eq!(problem["code"], "no-search-word", "{problem}");
}

/// Makes records unreadable, but for those whose frames hold one of these texts.
pub fn damage_all_but(enjamb: &Enjamb, spared: &[&str]) {
    let log = rusqlite::Connection::open(enjamb.store().join("log.db")).unwrap();
    let mut sql = "UPDATE records SET body = x'00' WHERE 1".to_owned();
    spared.iter().for_each(|text| sql.push_str(&format!(" AND instr(body, CAST('{text}' AS BLOB)) = 0")));
    assert!(log.execute(&sql, []).unwrap() >= 20);
}

#[test]
fn searching_and_mapping_read_no_more_than_they_show() {
    let enjamb = Enjamb::new();
    let (a, b) = (thread(&enjamb), thread(&enjamb));
    (0..10).for_each(|at| drop(post(&enjamb, &a, &format!("spared neighbour {at} needle"), &[])));
    (0..20).for_each(|at| drop(post(&enjamb, &b, &format!("hay {at}"), &[])));
    enjamb.run(&["thread", "reference", &a, &b]).done();
    let child = enjamb.run(&["thread", "branch", &b]).done().line();
    let run = json!({"type": "continuity_run_spawned", "run_session_id": "r", "message_id": "m"});
    enjamb.append(&format!("continuity/{child}"), &run.to_string());
    let effects = json!({
        "type": "continuity_tool_side_effects", "run_session_id": "r", "tool_id": "t1", "tool_name": "write",
        "affected_paths": ["src/a.rs"], "actor_id": "a", "origin": "o",
    });
    enjamb.append(&format!("continuity/{child}"), &effects.to_string());
    let searches: [&[&str]; 3] =
        [&["thread", "search", "needle", "-n", "1"], &["thread", "search", "--file", "src"], &["thread", "map"]];
    let before = searches.map(|arguments| enjamb.run(arguments).done().out());
    // What is shown, the frame before it (its chain is checked), links and the frame before each.
    let last = ["neighbour 9", "neighbour 8", "hay 19"];
    let links = ["continuity_thread_referenced", "continuity_branched", "continuity_created"];
    damage_all_but(&enjamb, &[&last[..], &links, &["continuity_run_spawned", "continuity_tool_side_effects"]].concat());
    enjamb.run(&["thread", "events", &b]).exits(6);
    assert_eq!(searches.map(|arguments| enjamb.run(arguments).done().out()), before);
}

#[test]
fn pins_are_set_and_let_go() {
    let enjamb = Enjamb::new();
    let id = thread(&enjamb);
    let posted = post(&enjamb, &id, "never push to main", &[]);
    let message = text(&posted["message_id"]);
    check(&enjamb.run(&["thread", "pin", &id, message]).done().out(), &format!("{message}\n"));
    check(&enjamb.run(&["thread", "pin", &id, message, "--undo"]).done().out(), "");
    enjamb.run(&["maintain", "--rebuild-index"]).done();
    assert_eq!(enjamb.json(&["thread", "pin", &id])["pinned"], json!([]));
}

#[test]
fn what_no_thread_can_do_is_refused_and_nothing_is_written() {
    let enjamb = Enjamb::new();
    let id = thread(&enjamb);
    post(&enjamb, &id, "one", &[]);
    let before = enjamb.run::<&str>(&[]).done().out();
    let refused = |arguments: &[&str], exit: i32, code: &str, says: &str| {
        let problem = enjamb.run(&[&["thread"], arguments, &["--json"]].concat()).exits(exit).problem();
        assert_eq!(problem["code"], code, "{problem}");
        assert!(text(&problem["title"]).contains(says), "{problem}");
    };
    refused(&["branch", &id, "--at-seq", "1", "--at-message", "m"], 2, "both-selectors", "both");
    refused(&["branch", &id, "--at-seq", "9"], 2, "seq-out-of-range", "ends at seq 1, before 9");
    refused(&["branch", &id, "--at-message", "m9"], 3, "message-not-found", "no message m9");
    refused(&["handoff", &id], 2, "summary-missing", "handoff needs a summary");
    refused(&["handoff", &id, "--artifact", &format!("art-{}", "0".repeat(64))], 3, "not-found", "no artifact");
    refused(&["reference", &id, "nowhere"], 3, "not-found", "no thread nowhere");
    refused(&["post", "nowhere", "x"], 3, "not-found", "no thread nowhere");
    refused(&["get", "nowhere"], 3, "not-found", "no thread nowhere");
    refused(&["pin", &id, "m9"], 3, "message-not-found", "no message m9");
    refused(&["tag", &id, "a\u{1b}b"], 2, "bad-name", "name");
    refused(&["tag", &id], 2, "bad-request", "which tags");
    assert_eq!(enjamb.run::<&str>(&[]).done().out(), before, "what is refused leaves nothing behind");
}

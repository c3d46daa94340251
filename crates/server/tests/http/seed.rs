//! The seed project's thread routes: its statuses, its members, its bare failures.

use serde_json::{Value, json};

use crate::events::Follower;
use crate::harness::Home;

fn members(value: &Value) -> Vec<&str> {
    value.as_object().map(|members| members.keys().map(String::as_str).collect()).unwrap_or_default()
}

#[test]
fn a_client_of_the_seed_project_is_at_home() {
    let home = Home::new();
    let post = |path: &str, body: Value| home.ask("POST", path).json(&body).send();
    let ensured = home.ask("POST", "/threads/ensure").send();
    assert_eq!((ensured.status, members(&ensured.ok())), (200, vec!["thread_id"]));
    let thread = ensured.ok()["thread_id"].as_str().unwrap().to_owned();
    assert_eq!(home.get("/threads")[0]["thread_id"], thread.as_str());
    assert_eq!(members(&home.get(&format!("/threads/{thread}"))), ["archived", "created_at_ms", "thread_id", "title"]);
    let at = |rest: &str| format!("/threads/{thread}{rest}");
    for number in 0..4 {
        let posted =
            post(&at("/messages"), json!({"content": format!("step {number}"), "openresponses": {"model": "m"}}));
        assert_eq!((posted.status, members(&posted.ok())), (202, vec!["message_id", "session_id", "thread_id"]));
    }
    let frame = &home.get(&format!("/v1/streams/continuity/{thread}/frames"))["frames"][1]["frame"];
    assert_eq!((&frame["actor_id"], &frame["origin"]), (&json!("user"), &json!("server")));
    let cut = post(&at("/compaction-cut-points"), json!({"stride_messages": 2, "limit": 5})).ok();
    assert_eq!((cut["cut_points"].as_array().unwrap().len(), &cut["message_count"]), (2, &json!(4)));
    let by = json!({"stride_messages": 2, "actor_id": "", "origin": ""});
    let auto = post(&at("/compaction-auto"), by.clone());
    assert_eq!((auto.status, auto.ok()["result"].as_array().unwrap().len()), (202, 1));
    let scheduled = post(&at("/compaction-auto-schedule"), by.clone());
    assert_eq!((scheduled.status, &scheduled.ok()["decision"]), (202, &json!("completed")));
    assert_eq!(post(&at("/compaction-auto"), by).status, 200, "nothing is left to cut");
    let status = post(&at("/compaction-status"), json!({"stride_messages": 2})).ok();
    assert_eq!((&status["last_job_outcome"]["status"], &status["next_cut_point"]), (&json!("completed"), &Value::Null));
    assert_eq!(status["last_schedule_decision"]["decision"], "scheduled");
    assert_eq!(post(&at("/branch"), json!({})).status, 201);
    let handed = post(&at("/handoff"), json!({"summary_markdown": "go on"}));
    assert_eq!((handed.status, &handed.ok()["from_thread_id"]), (201, &json!(thread)));
    assert_eq!(post(&at("/provider-cursor-status"), json!({})).ok()["cursors"], json!([]));
    let rotated = post(&at("/provider-cursor-rotate"), json!({"actor_id": "a", "origin": "o"})).ok();
    assert_eq!(rotated, json!({"thread_id": thread, "rotated": false}));
    assert_eq!(post(&at("/context-selection-status"), json!({})).ok()["decisions"], json!([]));
    let by_hand = post(&at("/compaction-checkpoint"), json!({"summary_markdown": "all", "stride_messages": 2}));
    assert_eq!(by_hand.status, 201, "{}", by_hand.text());
}

#[test]
fn failures_are_bare_statuses() {
    let home = Home::new();
    for (method, path, body, status) in [
        ("GET", "/threads/none", json!({}), 404),
        ("POST", "/threads/none/branch", json!({}), 404),
        ("POST", "/threads/none/messages", json!({"content": "x"}), 404),
    ] {
        let ask = home.ask(method, path);
        let answer = if method == "GET" { ask.send() } else { ask.json(&body).send() };
        assert_eq!((answer.status, answer.body.len()), (status, 0), "{path}");
    }
    let thread = home.ask("POST", "/threads/ensure").send().ok()["thread_id"].as_str().unwrap().to_owned();
    let zero =
        home.ask("POST", &format!("/threads/{thread}/compaction-cut-points")).json(&json!({"stride_messages": 0}));
    assert_eq!(zero.send().status, 400);
    let both =
        home.ask("POST", &format!("/threads/{thread}/branch")).json(&json!({"from_seq": 0, "from_message_id": "m"}));
    assert_eq!(both.send().status, 400);
    assert!(home.bare("GET", "/openapi.json").send().text().ends_with("}\n"));
}

#[test]
fn events_are_data_and_nothing_else() {
    let home = Home::new();
    let thread = home.ask("POST", "/threads/ensure").send().ok()["thread_id"].as_str().unwrap().to_owned();
    let mut follower = Follower::begin(&home, &home.ask("GET", &format!("/threads/{thread}/events")));
    follower.until("\"type\":\"continuity_created\"");
    home.post(&format!("/threads/{thread}/messages"), json!({"content": "hello"}));
    let (text, _) = follower.until("hello");
    assert!(!text.contains("\nid: ") && !text.contains("\nevent: ") && !text.contains("retry:"), "{text}");
    assert_eq!(home.ask("GET", "/threads/none/events").send().status, 404);
}

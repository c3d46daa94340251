//! Keys of writes after a restart: the log has them, so what was done is told and not done again.

use enjamb_server::{Method, Route, routes};
use serde_json::{Value, json};

use crate::harness::{Answer, Home};

fn route(operation: &str) -> Route {
    routes().into_iter().find(|route| route.operation == operation).expect("an operation")
}

/// Sends an operation under a key: what its path does not name goes into the body.
fn send(home: &Home, operation: &str, params: &Value, headers: &[(&str, &str)]) -> Answer {
    let route = route(operation);
    let mut body = params.clone();
    let mut path = route.path.to_owned();
    for name in route.path_names() {
        let value = body.as_object_mut().and_then(|all| all.remove(name)).expect("a name of the path");
        path = path.replace(&format!("{{{name}}}"), value.as_str().expect("a text"));
    }
    let ask = home.ask(route.method.as_str(), &path);
    let ask = headers.iter().fold(ask, |ask, (name, value)| ask.header(name, value));
    if route.method == Method::Delete { ask.send() } else { ask.json(&body).send() }
}

/// Does something under a key, does it again after a restart, and returns the answer, which was the same both times.
fn twice(home: &mut Home, operation: &str, params: Value, headers: &[(&str, &str)]) -> Value {
    assert!(route(operation).carries_key(), "{operation}");
    let headers = [headers, &[("idempotency-key", operation)]].concat();
    let first = send(home, operation, &params, &headers);
    assert!(first.status < 300 && first.header("idempotency-replayed").is_none(), "{operation}: {}", first.text());
    let frames = home.get("/v1/status")["frames"].clone();
    home.restart();
    let again = send(home, operation, &params, &headers);
    assert_eq!((again.status, again.text()), (first.status, first.text()), "{operation}");
    assert_eq!(again.header("idempotency-replayed"), Some("true"), "{operation}");
    assert_eq!(home.get("/v1/status")["frames"], frames, "{operation} wrote nothing");
    first.value()
}

fn id(value: &Value) -> String {
    value.as_str().expect("an id").to_owned()
}

#[test]
fn what_is_said_of_commits_is_said_once() {
    let mut home = Home::new();
    let delta = json!({"content": "{\"role\":\"user\",\"content\":\"cap retries\"}\n", "format": "generic-v1", "principal": "a"});
    let tip = id(&twice(&mut home, "checkpoint", delta, &[])["commits"][0]["id"]);
    for (operation, params, headers) in [
        ("note", json!({"context": tip, "summary": "retries"}), [].as_slice()),
        ("fork", json!({"context": tip, "name": "side"}), &[("if-none-match", "*")]),
        ("move_ref", json!({"name": "main", "commit": tip}), &[("if-none-match", "*")]),
        ("delete_ref", json!({"name": "main"}), &[]),
    ] {
        twice(&mut home, operation, params, headers);
    }
    assert_eq!(home.get("/v1/contexts")["contexts"].as_array().map(Vec::len), Some(1));
}

#[test]
fn names_of_artifacts_move_once() {
    let mut home = Home::new();
    let put =
        |home: &Home, bytes: &str| id(&home.ask("POST", "/v1/artifacts").raw("text/plain", bytes).send().ok()["id"]);
    let (one, two) = (put(&home, "one"), put(&home, "two"));
    twice(&mut home, "pin", json!({"artifact": one, "policy": "pin"}), &[]);
    let tagged = twice(&mut home, "tag", json!({"name": "n", "artifact": one}), &[("if-none-match", "*")]);
    assert_eq!(tagged["previous"], Value::Null);
    let other = send(&home, "tag", &json!({"name": "n", "artifact": two}), &[]);
    assert_eq!(other.ok()["previous"], one, "others go on");
    let again = send(
        &home,
        "tag",
        &json!({"name": "n", "artifact": one}),
        &[("if-none-match", "*"), ("idempotency-key", "tag")],
    );
    assert_eq!(again.value(), tagged, "it moved before they did");
    twice(&mut home, "untag", json!({"name": "n"}), &[]);
}

#[test]
fn threads_begin_and_go_on_once() {
    let mut home = Home::new();
    let thread = id(&twice(&mut home, "create_thread", json!({"title": "slow"}), &[])["thread_id"]);
    let message = id(&home.post(&format!("/v1/threads/{thread}/messages"), json!({"content": "why?"}))["message_id"]);
    for (operation, params) in [
        ("branch", json!({"thread": thread, "from_message_id": message})),
        ("handoff", json!({"thread": thread, "summary_markdown": "two sleeps"})),
        ("update_thread", json!({"thread": thread, "add_tags": ["urgent"], "archived": true})),
        ("pin_message", json!({"thread": thread, "message": message})),
        ("unpin_message", json!({"thread": thread, "message": message})),
        ("set_cursor", json!({"thread": thread, "cursor": {"previous_response_id": "r1"}})),
        ("rotate_cursor", json!({"thread": thread})),
        ("compact", json!({"thread": thread, "summary_markdown": "asked", "to_seq": 1})),
    ] {
        twice(&mut home, operation, params, &[]);
    }
    assert_eq!(home.get("/v1/threads?archived=true")["threads"].as_array().map(Vec::len), Some(3));
}

#[test]
fn another_request_under_the_same_key_is_told_so() {
    let mut home = Home::new();
    let thread = id(&home.post("/v1/threads", json!({"title": "slow"}))["thread_id"]);
    let tag = |home: &Home, tag: &str| {
        let params = json!({"thread": thread, "add_tags": [tag]});
        send(home, "update_thread", &params, &[("idempotency-key", "k")])
    };
    assert_eq!(tag(&home, "a").status, 200);
    home.restart();
    assert_eq!(tag(&home, "b").problem(), (422, "idempotency-key-reused".into()));
    assert_eq!(tag(&home, "a").status, 200);
}

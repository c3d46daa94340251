//! Frames: appended once, in order, byte for byte.

use enjamb_server::routes;
use serde_json::{Value, json};

use crate::harness::Home;

#[test]
fn frames_are_appended_read_and_paged() {
    let home = Home::new();
    for number in 0..5 {
        assert_eq!(home.append("session/s", &format!(r#"{{"type":"x","n":{number}}}"#)), number);
    }
    let page = home.get("/v1/streams/session/s/frames?limit=2");
    assert_eq!((page["frames"][1]["frame"]["n"].as_u64(), page["next"].as_str()), (Some(1), Some("seq-2")));
    let rest = home.get("/v1/streams/session/s/frames?limit=9&cursor=seq-2");
    assert_eq!((rest["frames"].as_array().map(Vec::len), rest["next"].is_null()), (Some(3), true));
    assert_eq!(home.get("/v1/streams/session/s")["frames"], 5);
    assert_eq!(home.get("/v1/streams")["streams"][0]["stream"], "session/s");
}

#[test]
fn what_is_sent_is_kept_digit_by_digit() {
    let home = Home::new();
    home.append("note/n", r#"{"type":"x","n":1.50,"big":18446744073709551616}"#);
    let body = home.ask("GET", "/v1/streams/note/n/events").header("accept", "text/event-stream");
    let text = crate::events::Follower::begin(&home, &body).until("big").0;
    assert!(text.contains(r#""n":1.50,"big":18446744073709551616"#), "{text}");
}

#[test]
fn a_stream_whose_id_holds_a_slash_is_reached() {
    let home = Home::new();
    home.append("wild/a%2Fb@c", r#"{"type":"x"}"#);
    assert_eq!(home.get("/v1/streams/wild/a%2Fb@c")["id"], "a/b@c");
}

#[test]
fn several_frames_go_together_or_not_at_all() {
    let home = Home::new();
    let send = |body: &str, kind: &str| home.ask("POST", "/v1/streams/note/n/frames").raw(kind, body).send();
    assert_eq!(send(r#"[{"type":"a"},{"type":"b"}]"#, "application/json").ok()["frames"][1]["seq"], 1);
    assert_eq!(send("{\"type\":\"a\"}\n\n{\"type\":\"b\"}\n", "application/x-ndjson").ok()["frames"][1]["seq"], 3);
    assert_eq!(send(r#"{"frames":[{"type":"c"}]}"#, "application/json").ok()["frames"][0]["seq"], 4);
    let refused = send(r#"[{"type":"a"},{"no":"type"}]"#, "application/json");
    assert_eq!(refused.problem(), (400, "missing-field".into()));
    assert!(refused.text().contains("line 2"), "{}", refused.text());
    assert_eq!(home.get("/v1/streams/note/n")["frames"], 5);
    let named = json!([{"type": "a", "stream_kind": "note", "stream_id": "m"}, {"type": "b", "stream_kind": "note", "stream_id": "n"}]);
    let placed = home.post("/v1/frames", named);
    assert_eq!((&placed["frames"][0]["stream"], &placed["frames"][1]["seq"]), (&json!("note/m"), &json!(5)));
}

#[test]
fn a_key_makes_a_retry_answer_as_the_first() {
    let home = Home::new();
    let send = |key: &str, body: &str| {
        home.ask("POST", "/v1/streams/note/n/frames")
            .header("idempotency-key", key)
            .raw("application/json", body)
            .send()
    };
    let first = send("k", r#"{"type":"a"}"#);
    assert_eq!((first.status, first.ok()["replayed"].as_bool()), (201, Some(false)));
    let again = send("k", r#"{"type":"a"}"#);
    assert_eq!((again.status, again.header("idempotency-replayed")), (200, Some("true")));
    assert_eq!(again.ok()["frames"], first.ok()["frames"]);
    assert_eq!(send("k", r#"{"type":"b"}"#).problem(), (422, "idempotency-key-reused".into()));
    for bad in ["x".repeat(129).as_str(), "a b", "ü"] {
        assert_eq!(send(bad, r#"{"type":"a"}"#).status, 422, "{bad}");
    }
    assert_eq!(home.get("/v1/streams/note/n")["frames"], 1);
}

#[test]
fn a_key_holds_for_every_other_write_too() {
    let home = Home::new();
    let make = |key: &str, title: &str| {
        home.ask("POST", "/v1/threads").header("idempotency-key", key).json(&json!({"title": title})).send()
    };
    let first = make("k", "a");
    let again = make("k", "a");
    assert_eq!((first.status, again.status, again.header("idempotency-replayed")), (201, 201, Some("true")));
    assert_eq!(first.value(), again.value());
    assert_eq!(make("k", "b").problem(), (422, "idempotency-key-reused".into()));
    assert_eq!(make("a b", "a").problem(), (422, "bad-idempotency-key".into()));
    let bad = || home.ask("POST", "/v1/threads").header("idempotency-key", "z").json(&json!({"title": 7})).send();
    assert_eq!((bad().status, bad().status), (422, 422), "what failed is tried again");
    assert_eq!(home.get("/v1/threads")["threads"].as_array().unwrap().len(), 1);
    let writes = routes().into_iter().filter(|route| route.writes() && !route.seed);
    let described: Value = serde_json::from_str(&enjamb_server::openapi_text()).unwrap();
    for route in writes {
        let operation = &described["paths"][route.path][route.method.as_str().to_lowercase()];
        assert!(operation["parameters"].to_string().contains("Idempotency-Key"), "{route:?}");
    }
}

#[test]
fn the_expected_seq_is_checked() {
    let home = Home::new();
    let send = |seq: &str| {
        home.ask("POST", "/v1/streams/note/n/frames")
            .header("if-match", seq)
            .raw("application/json", r#"{"type":"a"}"#)
            .send()
    };
    assert_eq!(send("\"0\"").header("etag"), Some("\"1\""));
    assert_eq!(send("\"0\"").problem(), (409, "seq-conflict".into()));
    assert_eq!(send("\"1\"").status, 201);
    assert_eq!(send("*").problem(), (422, "schema".into()));
}

#[test]
fn sixty_four_who_append_at_once_leave_no_gap() {
    let home = Home::new();
    std::thread::scope(|scope| {
        for client in 0..64 {
            let home = &home;
            scope.spawn(move || {
                for number in 0..4 {
                    home.append("note/n", &format!(r#"{{"type":"x","who":{client},"n":{number}}}"#));
                }
            });
        }
    });
    let page = home.get("/v1/streams/note/n/frames?limit=1000");
    let seqs: Vec<_> = page["frames"].as_array().unwrap().iter().map(|frame| frame["seq"].as_u64().unwrap()).collect();
    assert_eq!(seqs, (0..256).collect::<Vec<_>>());
}

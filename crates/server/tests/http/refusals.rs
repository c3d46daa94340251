//! Bad requests, and the answers that say what is wrong with each.

use std::io::Write;
use std::time::Duration;

use serde_json::json;

use crate::harness::{Answer, Home, exchange};

fn frames(home: &Home, body: &[u8]) -> Answer {
    home.ask("POST", "/v1/streams/note/n/frames").raw("application/json", body).send()
}

#[test]
fn foreign_hosts_and_pages_are_refused_on_every_path() {
    let home = Home::new();
    for path in ["/v1/status", "/healthz", "/docs", "/v1/openapi.json", "/nothing", "/v1/events", "/metrics"] {
        let foreign = home.ask("GET", path).without("host").header("host", "evil.test").send();
        assert_eq!(foreign.problem(), (403, "host-not-allowed".into()), "{path}");
        assert!(!foreign.text().contains("evil"), "what was sent is not said again");
        let twice = home.ask("GET", path).header("host", "localhost").send();
        assert!(matches!(twice.status, 400 | 403), "{path}: {}", twice.status);
        let page = home.ask("GET", path).header("origin", "https://evil.test").send();
        assert_eq!(page.problem(), (403, "origin-not-allowed".into()), "{path}");
        assert!(!page.headers.iter().any(|(name, _)| name.starts_with("access-control")), "{page:?}");
    }
    let named = Home::with(|options| options.hosts = vec!["ctx.acme.dev".into()]);
    assert_eq!(named.ask("GET", "/v1/status").without("host").header("host", "ctx.acme.dev").send().status, 200);
}

#[test]
fn paths_methods_and_types_that_are_not_there() {
    let home = Home::new();
    assert_eq!(home.ask("GET", "/v1/nothing").send().problem(), (404, "no-such-route".into()));
    let wrong = home.ask("DELETE", "/v1/status").send();
    assert_eq!((wrong.problem(), wrong.header("allow")), ((405, "method-not-allowed".into()), Some("GET,HEAD")));
    for kind in ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"] {
        let answer = home.ask("POST", "/v1/threads").raw(kind, "{}").send();
        assert_eq!(answer.problem(), (415, "unsupported-media-type".into()), "{kind}");
        assert_eq!(answer.value()["expected"], "application/json");
    }
    assert_eq!(home.ask("POST", "/v1/threads").raw("application/json; charset=utf-8", "{}").send().status, 201);
    let packed =
        home.ask("POST", "/v1/threads").header("content-encoding", "gzip").raw("application/json", "{}").send();
    assert_eq!(packed.problem(), (415, "unsupported-encoding".into()));
    let picky = home.ask("GET", "/v1/status").header("accept", "image/png").send();
    assert_eq!(picky.problem(), (406, "not-acceptable".into()));
    for accept in ["*/*", "application/*", "text/html, application/json;q=0.5"] {
        assert_eq!(home.ask("GET", "/v1/status").header("accept", accept).send().status, 200, "{accept}");
    }
}

#[test]
fn bodies_that_are_not_json() {
    let home = Home::new();
    let deep = format!("{{\"type\":\"x\",\"a\":{}{}}}", "[".repeat(200), "]".repeat(200));
    for (body, status, code) in [
        (b"".as_slice(), 400, "invalid-json"),
        (b"{", 400, "invalid-json"),
        (b"{} {}", 400, "invalid-json"),
        (b"\xef\xbb\xbf{}", 400, "invalid-json"),
        (b"{\"type\":\"\xff\"}", 400, "invalid-utf8"),
        (deep.as_bytes(), 400, "too-deep"),
        (br#"{"type":"x","type":"y"}"#, 400, "duplicate-key"),
        (br#"{"type":7}"#, 400, "bad-field"),
        (b"7", 422, "schema"),
        (b"[]", 422, "schema"),
    ] {
        let answer = frames(&home, body);
        let (found, text) = (answer.problem(), String::from_utf8_lossy(body).chars().take(40).collect::<String>());
        assert_eq!(found, (status, code.to_owned()), "{text}: {}", answer.text());
    }
    let broken = home.ask("POST", "/v1/threads").raw("application/json", "{\n  \"title\": ,\n}").send();
    assert_eq!((&broken.value()["line"], &broken.value()["column"]), (&json!(2), &json!(12)));
    let twice = home.ask("POST", "/v1/threads").raw("application/json", r#"{"title":"a","title":"b"}"#).send();
    assert_eq!((twice.problem(), &twice.value()["key"]), ((400, "duplicate-key".into()), &json!("title")));
    let half = home.ask("POST", "/v1/threads").raw("application/json", r#"{"title":"\ud800"}"#).send();
    assert_eq!(half.problem(), (400, "invalid-json".into()));
    assert!(home.get("/v1/threads")["threads"].as_array().unwrap().is_empty(), "none of it was taken");
}

#[test]
fn members_that_are_missing_unknown_or_of_another_kind() {
    let home = Home::new();
    let post = |body: &str| home.ask("POST", "/v1/contexts").raw("application/json", body).send();
    for (body, pointer) in [
        (r#"{"content":"x"}"#, ""),
        (r#"{"content":"x","format":7}"#, "/format"),
        (r#"{"content":"x","format":"generic-v1","endpoint":"http://10.0.0.1"}"#, "/endpoint"),
        (r#"{"content":"x","format":"generic-v1","created_at":"yesterday"}"#, "/created_at"),
        (r#"{"format":"generic-v1"}"#, ""),
        (r#"{"format":"generic-v1","content":"x","artifact":"y"}"#, ""),
    ] {
        let answer = post(body);
        assert_eq!(answer.problem(), (422, "schema".into()), "{body}");
        assert_eq!(answer.value()["pointer"], pointer, "{body}: {}", answer.text());
    }
    for seq in ["1.5", "-1", "18446744073709551616", "1e3", "\"1\"", "true"] {
        let body = format!(r#"{{"from_seq":{seq}}}"#);
        let thread = home.post("/v1/threads", json!({}))["thread_id"].as_str().unwrap().to_owned();
        let answer = home.ask("POST", &format!("/v1/threads/{thread}/branch")).raw("application/json", body).send();
        assert_eq!(
            (answer.problem(), &answer.value()["pointer"]),
            ((422, "schema".into()), &json!("/from_seq")),
            "{seq}"
        );
    }
    for query in ["limit=x", "limit=-1", "nothing=1", "limit=1&limit=2", "limit=1.5", "limit=99999999999999999999"] {
        assert_eq!(
            home.ask("GET", &format!("/v1/contexts?{query}")).send().problem(),
            (422, "schema".into()),
            "{query}"
        );
    }
    assert_eq!(home.ask("GET", "/v1/contexts?since=%zz").send().problem(), (400, "bad-request".into()));
    assert_eq!(home.ask("GET", "/v1/resolve?principal=a&at=NaN").send().problem(), (422, "schema".into()));
}

#[test]
fn ids_that_are_none_or_too_short() {
    let home = Home::new();
    for (path, status, code) in [
        ("/v1/contexts/ctx-zz", 400, "bad-id"),
        ("/v1/contexts/ctx-0123abcd", 404, "not-found"),
        ("/v1/artifacts/art-zz", 400, "bad-id"),
        ("/v1/artifacts/none", 404, "not-found"),
        ("/v1/threads/none-at-all", 404, "not-found"),
        ("/v1/packs/zz", 400, "bad-request"),
        ("/v1/refs/none", 404, "not-found"),
        ("/v1/streams/session/%00", 400, "bad-stream"),
        ("/v1/streams/session/none", 404, "stream-not-found"),
    ] {
        assert_eq!(home.ask("GET", path).send().problem(), (status, code.to_owned()), "{path}");
    }
    let long = format!("/v1/streams/session/{}", "a".repeat(600));
    assert_eq!(home.ask("GET", &long).send().problem(), (400, "bad-stream".into()));
    home.append("note/n", r#"{"type":"x"}"#);
    for cursor in ["7", "seq-x", "seq--1"] {
        let answer = home.ask("GET", &format!("/v1/streams/note/n/frames?cursor={cursor}")).send();
        assert_eq!(answer.problem(), (400, "bad-cursor".into()), "{cursor}");
    }
    let parent = json!({"content": "{}\n", "format": "generic-v1", "parent": "ctx-00000000000000000000000000000000"});
    assert_eq!(home.ask("POST", "/v1/contexts").json(&parent).send().problem(), (404, "not-found".into()));
}

#[test]
fn order_rules_hold_over_the_wire() {
    let home = Home::new();
    home.append("session/s", r#"{"type":"session_started","input":"hi"}"#);
    home.append("session/s", r#"{"type":"session_ended","reason":"completed"}"#);
    let after = home
        .ask("POST", "/v1/streams/session/s/frames")
        .raw("application/json", r#"{"type":"output_text_delta","delta":"x"}"#)
        .send();
    assert_eq!(after.problem().0, 409, "{}", after.text());
}

#[test]
fn what_is_too_large_is_refused_before_it_is_read() {
    let home = Home::with(|options| options.patience.body_bytes_max = 1000);
    let declared = home.ask("POST", "/v1/threads").header("content-length", "5000").raw("application/json", "{").send();
    assert_eq!((declared.problem(), &declared.value()["limit"]), ((413, "too-large".into()), &json!(1000)));
    let chunk = format!("{:x}\r\n{}\r\n0\r\n\r\n", 2000, "x".repeat(2000));
    let chunked =
        home.ask("POST", "/v1/threads").header("transfer-encoding", "chunked").raw("application/json", chunk).send();
    assert_eq!(chunked.problem(), (413, "too-large".into()));
    let long = home.ask("GET", &format!("/v1/status?recent={}", "1".repeat(9000))).send();
    assert_eq!(long.problem(), (414, "url-too-long".into()));
    let heavy = home.ask("GET", "/v1/status").header("x-heavy", &"h".repeat(17_000)).send();
    assert_eq!(heavy.problem(), (431, "headers-too-large".into()));
    let frame = format!(r#"{{"type":"x","a":"{}"}}"#, "a".repeat(2 << 20));
    assert_eq!(frames(&Home::new(), frame.as_bytes()).problem(), (413, "frame-too-large".into()));
}

#[test]
fn bodies_that_do_not_come_are_given_up() {
    let home = Home::with(|options| options.patience.body = Duration::from_millis(200));
    let slow = home.ask("POST", "/v1/threads").header("content-length", "10").raw("application/json", "{");
    assert_eq!(exchange(home.connect(), &slow.bytes()).problem(), (408, "body-too-slow".into()));
    let both = home
        .ask("POST", "/v1/threads")
        .header("content-length", "2")
        .header("transfer-encoding", "chunked")
        .raw("application/json", "{}");
    let answer = exchange(home.connect(), &both.bytes());
    assert!(answer.status >= 400, "{answer:?}");
    let mut stream = home.connect();
    stream.write_all(b"nonsense\r\n\r\n").unwrap();
    assert_eq!(exchange(stream, b"").status, 400);
}

#[test]
fn what_is_stored_is_never_run() {
    let home = Home::new();
    let page = "<script>alert(1)</script>";
    let id = home.ask("POST", "/v1/artifacts").raw("text/html", page).send().ok()["id"].as_str().unwrap().to_owned();
    home.post("/v1/threads", json!({"title": page}));
    for path in [format!("/v1/artifacts/{id}"), "/v1/threads".into(), "/docs".into(), "/nothing".into()] {
        let answer = home.ask("GET", &path).send();
        let policy = answer.header("content-security-policy").unwrap_or_default();
        assert!(policy.contains("default-src 'none'") && !policy.contains("script-src"), "{path}: {policy}");
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"), "{path}");
        let kind = answer.header("content-type").unwrap_or_default();
        assert!(path == "/docs" || !kind.contains("html"), "{path}: {kind}");
    }
}

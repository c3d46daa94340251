//! Artifacts over the wire: streamed in, streamed out, cached for good, and never run.

use std::io::{Read, Write};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::harness::{Answer, Home, exchange};

#[test]
fn bytes_come_back_whole_and_in_ranges() {
    let home = Home::new();
    let bytes: Vec<u8> = (0..3_000_000_u32).map(|n| (n % 251) as u8).collect();
    let stored = home.ask("POST", "/v1/artifacts").raw("application/octet-stream", &bytes).send();
    let id = stored.ok()["id"].as_str().unwrap().to_owned();
    let path = format!("/v1/artifacts/{id}");
    assert_eq!((stored.status, stored.header("location")), (201, Some(path.as_str())));
    let again = home.ask("PUT", &path).raw("text/html", &bytes).send();
    assert_eq!((again.status, again.ok()["known"].as_bool()), (200, Some(true)));
    let whole = home.ask("GET", &path).send();
    assert!(whole.body == bytes, "{} bytes", whole.body.len());
    assert_eq!(whole.header("content-type"), Some("application/octet-stream"));
    assert_eq!(whole.header("cache-control"), Some("private, max-age=31536000, immutable"));
    assert!(whole.header("content-disposition").unwrap().starts_with("attachment"));
    assert!(whole.header("content-security-policy").unwrap().contains("sandbox"));
    let part = home.ask("GET", &path).header("range", "bytes=2000000-2000009").send();
    assert_eq!((part.status, part.body.as_slice()), (206, &bytes[2_000_000..2_000_010]));
    assert_eq!(part.header("content-range"), Some("bytes 2000000-2000009/3000000"));
    let etag = whole.header("etag").unwrap();
    assert_eq!(home.ask("GET", &path).header("if-none-match", etag).send().status, 304);
    let head = home.ask("HEAD", &path).send();
    assert_eq!((head.status, head.header("content-length"), head.body.len()), (200, Some("3000000"), 0));
    let short = home.ask("GET", &path[..path.len() - 8]).send();
    assert_eq!(short.header("cache-control"), Some("private, no-cache"), "a beginning may fit more one day");
}

#[test]
fn ranges_that_are_none_are_refused_with_the_size() {
    let home = Home::new();
    let id = home.ask("POST", "/v1/artifacts").raw("text/plain", "0123456789").send().ok()["id"].clone();
    let ask =
        |range: &str| home.ask("GET", &format!("/v1/artifacts/{}", id.as_str().unwrap())).header("range", range).send();
    for range in ["bytes=10-", "bytes=9-2", "lines=1-2"] {
        let answer = ask(range);
        assert_eq!((answer.status, answer.header("content-range")), (416, Some("bytes */10")), "{range}");
    }
    let many = format!("bytes={}", vec!["0-1"; 1000].join(","));
    assert_eq!(ask(&many).status, 400);
}

#[test]
fn bytes_that_are_not_what_they_are_said_to_be_are_not_kept() {
    let home = Home::new();
    let other = format!("/v1/artifacts/art-{}", "0".repeat(64));
    let answer = home.ask("PUT", &other).raw("text/plain", "hello").send();
    assert_eq!(answer.problem(), (422, "hash-mismatch".into()));
    assert!(answer.text().contains("art-ea8f163db38682925e4491c5e58d4bb3506ef8c14eb78a86e908c5624a67200f"));
    assert_eq!(home.get("/v1/status")["artifacts"], 0);
}

#[test]
fn an_upload_that_breaks_off_leaves_nothing() {
    let home = Home::new();
    let ask = home.ask("POST", "/v1/artifacts").header("content-length", "1000000").raw("text/plain", vec![7; 5000]);
    let mut stream = home.connect();
    stream.write_all(&ask.bytes()).unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    let mut rest = Vec::new();
    let _ = stream.read_to_end(&mut rest);
    assert!(rest.is_empty() || Answer::read(&rest).status >= 400, "{}", String::from_utf8_lossy(&rest));
    assert_eq!(home.get("/v1/status")["artifacts"], 0);
    assert_eq!(home.ask("POST", "/v1/artifacts").raw("text/plain", "x").send().status, 201);
}

#[test]
fn an_upload_that_stalls_is_given_up() {
    let home = Home::with(|options| options.patience.idle = Duration::from_millis(200));
    let ask = home.ask("POST", "/v1/artifacts").header("content-length", "1000000").raw("text/plain", "begin");
    let began = Instant::now();
    let answer = exchange(home.connect(), &ask.bytes());
    assert!(answer.status >= 400 && began.elapsed() < Duration::from_secs(10), "{answer:?}");
    assert_eq!(home.get("/v1/status")["artifacts"], 0);
}

#[test]
fn names_move_only_from_where_they_are() {
    let home = Home::new();
    let put = |text: &str| {
        home.ask("POST", "/v1/artifacts").raw("text/plain", text).send().ok()["id"].as_str().unwrap().to_owned()
    };
    let (a, b) = (put("a"), put("b"));
    let tag = |id: &str| home.ask("PUT", "/v1/tags/last").json(&json!({"artifact": id}));
    assert_eq!(tag(&a).header("if-none-match", "*").send().header("etag"), Some(format!("\"{a}\"").as_str()));
    assert_eq!(tag(&b).header("if-none-match", "*").send().problem(), (412, "ref-moved".into()));
    assert_eq!(tag(&b).header("if-match", &format!("\"{b}\"")).send().problem(), (412, "ref-moved".into()));
    assert_eq!(tag(&b).header("if-match", &format!("\"{a}\"")).send().ok()["previous"], a.as_str());
    assert_eq!(home.ask("GET", "/v1/artifacts/last").send().body, b"b");
    assert_eq!(home.get("/v1/tags")["tags"][0]["artifact"], b.as_str());
    assert_eq!(home.ask("DELETE", "/v1/tags/last").send().status, 200);
    assert_eq!(home.ask("DELETE", "/v1/tags/last").send().problem(), (404, "not-found".into()));
}

#[test]
fn artifacts_are_listed_page_by_page() {
    let home = Home::new();
    for number in 0..5 {
        home.ask("POST", "/v1/artifacts").raw("text/plain", format!("{number}")).send().ok();
    }
    let mut path = "/v1/artifacts?limit=2".to_owned();
    let mut seen = Vec::new();
    loop {
        let page = home.get(&path);
        seen.extend(page["artifacts"].as_array().unwrap().iter().map(|one| one["id"].as_str().unwrap().to_owned()));
        let Some(next) = page["next"].as_str() else { break };
        path = format!("/v1/artifacts?limit=2&cursor={next}");
    }
    let mut sorted = seen.clone();
    sorted.sort();
    sorted.dedup();
    assert_eq!((seen.len(), &seen), (5, &sorted));
}

//! The table of operations, and what is made from it.

use std::collections::BTreeSet;

use enjamb_server::{ServeError, ServeOptions, Server, openapi_text, routes};
use serde_json::Value;

use crate::harness::Home;

#[test]
fn every_operation_and_every_address_is_there_once() {
    let all = routes();
    let names: BTreeSet<_> = all.iter().map(|route| route.operation).collect();
    let places: BTreeSet<_> = all.iter().map(|route| (route.method.as_str(), route.path)).collect();
    assert_eq!((names.len(), places.len()), (all.len(), all.len()));
    for route in &all {
        let properties = route.properties();
        for name in route.path_names() {
            assert!(properties.iter().any(|(property, _)| property == name), "{route:?} does not take {name}");
        }
    }
}

#[test]
fn a_collector_is_sent_a_span_for_each_request() {
    let collector = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", collector.local_addr().unwrap());
    let sent = std::thread::spawn(move || {
        let (mut stream, _) = collector.accept().unwrap();
        let (mut got, mut buffer) = (String::new(), [0; 4096]);
        while !got.contains("append_any") {
            let read = std::io::Read::read(&mut stream, &mut buffer).unwrap();
            assert!(read > 0, "{got}");
            got.push_str(&String::from_utf8_lossy(&buffer[..read]));
        }
        // Nobody waits for it when the server has ended.
        let _ = std::io::Write::write_all(&mut stream, b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}");
        got
    });
    let home = Home::with(|options| options.otel_endpoint = Some(endpoint));
    let trace = "4bf92f3577b34da6a3ce929d0e0e4736";
    let ask = |flags: &str| {
        let parent = format!("00-{trace}-00f067aa0ba902b7-{flags}");
        let frame = r#"{"type":"x","stream_kind":"note","stream_id":"a"}"#;
        home.ask("POST", "/v1/frames").header("traceparent", &parent).raw("application/json", frame).send()
    };
    assert_eq!((ask("00").status, ask("01").status), (201, 201));
    let sent = sent.join().unwrap();
    assert!(sent.starts_with("POST /v1/traces HTTP/1.1") && sent.contains(trace), "{sent}");
    assert_eq!(sent.matches("append_any").count(), 1, "one was not to be told of");
}

#[test]
fn the_description_is_the_one_that_is_checked_in() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/openapi.json");
    if std::env::var_os("ENJAMB_BLESS").is_some() {
        std::fs::write(path, openapi_text()).unwrap();
    }
    let known = std::fs::read_to_string(path).unwrap_or_default();
    let same = known == openapi_text();
    assert!(
        same,
        "the API has changed: ENJAMB_BLESS=1 cargo nextest run -p enjamb-server writes crates/server/openapi.json"
    );
}

#[test]
fn the_description_names_every_schema_that_it_refers_to() {
    let document: Value = serde_json::from_str(&openapi_text()).unwrap();
    let text = document.to_string();
    let references = text.split("\"$ref\":\"#/components/schemas/").skip(1).filter_map(|rest| rest.split('"').next());
    for name in references {
        assert!(document["components"]["schemas"][name].is_object(), "{name}");
    }
    assert!(!text.contains("#/$defs"), "schemas stand in one place");
    for route in routes().iter().filter(|route| !route.seed) {
        let operation = &document["paths"][route.path][route.method.as_str().to_lowercase()];
        assert_eq!(operation["operationId"], route.operation);
    }
}

#[test]
fn the_description_and_its_page_are_served_to_anybody() {
    let home = Home::new();
    let answer = home.bare("GET", "/v1/openapi.json").send();
    assert_eq!((answer.status, answer.text()), (200, openapi_text()));
    let page = home.bare("GET", "/docs").send();
    assert_eq!(page.header("content-type"), Some("text/html; charset=utf-8"));
    let text = page.text();
    assert!(text.contains("/v1/contexts/{context}/materialized"));
    assert!(
        !text.contains("<script") && !text.contains("src=") && !text.contains("//cdn"),
        "nothing is fetched or run"
    );
}

#[test]
fn documents_are_compressed_for_who_takes_that_and_stored_bytes_never() {
    let home = Home::new();
    let ask = |path: &str, takes: &str| home.ask("GET", path).header("accept-encoding", takes).send();
    let plain = home.ask("GET", "/v1/openapi.json").send();
    assert_eq!(plain.header("content-encoding"), None);
    for (takes, magic) in [("gzip", &b"\x1f\x8b"[..]), ("zstd, gzip;q=0.5", &b"\x28\xb5\x2f\xfd"[..])] {
        let packed = ask("/v1/openapi.json", takes);
        assert_eq!(packed.header("content-encoding"), takes.split(',').next());
        assert!(packed.body.starts_with(magic) && packed.body.len() < plain.body.len() / 4, "{takes}");
        assert!(packed.header("vary").is_some_and(|vary| vary.contains("accept-encoding")), "{packed:?}");
    }
    let unpacked = zstd::decode_all(ask("/v1/openapi.json", "zstd").body.as_slice()).unwrap();
    assert_eq!(unpacked, plain.body);
    assert_eq!(ask("/healthz", "gzip").header("content-encoding"), None, "what is small stays as it is");
    let stored = home.ask("POST", "/v1/artifacts").raw("text/plain", "a".repeat(5000)).send().ok();
    let path = format!("/v1/artifacts/{}", stored["id"].as_str().unwrap());
    let got = ask(&path, "gzip");
    assert_eq!((got.header("content-encoding"), got.body.len()), (None, 5000));
}

#[test]
fn counters_count() {
    let home = Home::new();
    home.append("note/n", r#"{"type":"x"}"#);
    home.append("note/n", r#"{"type":"x"}"#);
    let text = home.ask("GET", "/metrics").send().text();
    for line in [
        "enjamb_requests_total{operation=\"append\",status=\"201\"} 2",
        "enjamb_frames 2",
        "# TYPE enjamb_followers gauge",
    ] {
        assert!(text.contains(line), "{line}: {text}");
    }
    assert_eq!(home.bare("GET", "/healthz").send().ok()["status"], "ok");
    assert_eq!(home.bare("GET", "/readyz").send().ok()["status"], "ok");
}

#[test]
fn a_port_that_others_reach_needs_encryption_or_a_word() {
    let dir = tempfile::tempdir().unwrap();
    let mut options = ServeOptions::local(dir.path(), 0);
    options.listen = "0.0.0.0:0".parse().unwrap();
    let refused = Server::bind(options.clone()).err().expect("it is refused");
    assert!(matches!(refused, ServeError::Listen(_)) && refused.to_string().contains("--tls-cert"), "{refused}");
    options.plain_ok = true;
    assert!(Server::bind(options).is_ok());
}

#[test]
fn a_store_has_one_server() {
    let home = Home::new();
    let second = Server::bind(ServeOptions::local(home.stores.store(), 0)).err().expect("it is refused");
    assert!(second.to_string().contains("another server has the store"), "{second}");
    let Home { stores, server, .. } = home;
    drop(server);
    assert!(
        Server::bind(ServeOptions::local(stores.store(), 0)).is_ok(),
        "the socket of one that is gone is taken over"
    );
}

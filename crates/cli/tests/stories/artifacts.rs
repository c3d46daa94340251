//! Bytes in and out, and what is said of them: `put`, `get`, `artifacts`, `tag`, `pin`.

use std::fs;

use serde_json::json;

use crate::expect::{check, check_json};
use crate::runner::Enjamb;

const HELLO: &str = "art-8e4c7c1b99dbfd50e7a95185fead5ee1448fa904a2fdd778eaf5f2dbfd629a99";
const WORLD: &str = "art-26e70f0a438787ee143979a9b519a4a330ea21e0a23d31fcb47051e70b8fe5ad";

#[test]
fn put_answers_the_digest_of_the_bytes() {
    let enjamb = Enjamb::new();
    let (hello, world) = (enjamb.file("hello", "hello\n"), enjamb.file("world", "world\n"));
    check(&enjamb.run(&["put", &hello]).done().out(), &format!("{HELLO}\n"));
    let expected = format!("{HELLO}\t6\t[..]/hello\n{WORLD}\t6\t[..]/world\n");
    check(&enjamb.run(&["put", &hello, &world]).done().out(), &expected);
    check(&enjamb.run_with(&["put", "-"], "hello\n").done().out(), &format!("{HELLO}\n"));
    let expected = json!({
        "schema": "enjamb.cli.put/1",
        "artifacts": [{"id": HELLO, "bytes": 6, "known": true, "source": "[..]/hello"}],
    });
    check_json(&enjamb.json(&["put", &hello]), &expected);
    enjamb.run_with(&["put", "--id", HELLO], "hello\n").done();
}

#[test]
fn get_gives_bytes_back_whole_or_in_part() {
    let enjamb = Enjamb::new();
    let bytes: Vec<u8> = (0..=255).collect();
    let id = enjamb.put(&bytes);
    let part = |range: &str| enjamb.run(&["get", &id, "--range", range]).done().stdout;
    assert_eq!(enjamb.run(&["get", &id]).done().stdout, bytes);
    assert_eq!(enjamb.run(&["get", &id[..12]]).done().stdout, bytes, "by the beginning of its id");
    assert_eq!(enjamb.run(&["get", &id[4..12]]).done().stdout, bytes, "without art-");
    assert_eq!(part("0-0"), bytes[..1]);
    assert_eq!(part("27-29"), bytes[27..30]);
    assert_eq!(part("250-"), bytes[250..]);
    assert_eq!(part("0-255"), bytes);
    assert_eq!(part("256-"), b"");
}

#[test]
fn get_writes_a_file_at_once_and_replaces_none() {
    let enjamb = Enjamb::new();
    let id = enjamb.put("hello\n");
    let out = enjamb.path("out");
    enjamb.run(&["get", &id, "-o", &out, "--range", "9-12"]).exits(2);
    assert!(!enjamb.home().join("out").exists(), "what fails leaves no file");
    check(&enjamb.run(&["get", &id, "-o", &out]).done().out(), "");
    assert_eq!(fs::read_to_string(&out).unwrap(), "hello\n");
    enjamb.run(&["get", &id, "-o", &out]).exits(5);
    let document = |path| json!({"schema": "enjamb.cli.get/1", "id": HELLO, "bytes": 6, "policy": "default", "tags": [], "path": path});
    check_json(&enjamb.json(&["get", &id]), &document(json!(null)));
    let other = enjamb.path("other");
    check_json(&enjamb.json(&["get", &id, "-o", &other]), &document(json!("[..]/other")));
}

#[test]
fn nothing_is_an_artifact_too() {
    let enjamb = Enjamb::new();
    let file = enjamb.file("empty", "");
    let id = enjamb.run(&["put", &file]).done().line();
    assert_eq!(enjamb.run(&["get", &id]).done().stdout, b"");
    assert_eq!(enjamb.run(&["get", &id, "--range", "0-"]).done().stdout, b"");
}

#[test]
fn artifacts_are_listed_with_what_is_said_of_them() {
    let enjamb = Enjamb::new();
    enjamb.run_with(&["put", "--tag", "greeting"], "hello\n").done();
    enjamb.run_with(&["put", "--ttl", "30d"], "world\n").done();
    let expected = format!("{WORLD}\t6\tephemeral\t\n{HELLO}\t6\tdefault\tgreeting\n");
    check(&enjamb.run(&["artifacts"]).done().out(), &expected);
    check(&enjamb.run(&["artifacts", "-n", "1"]).done().out(), &format!("{WORLD}\t6\tephemeral\t\n"));
    let expected = json!({
        "schema": "enjamb.cli.artifacts/1",
        "artifacts": [{"id": HELLO, "bytes": 6, "policy": "default", "expires_ms": null, "tags": ["greeting"]}],
    });
    check_json(&enjamb.json(&["artifacts", "art-8e4c"]), &expected);
    let expires = enjamb.json(&["artifacts", "art-26e7"])["artifacts"][0]["expires_ms"].as_u64();
    assert!(expires.is_some());
}

#[test]
fn a_tag_moves_only_from_where_it_is_expected() {
    let enjamb = Enjamb::new();
    enjamb.put("hello\n");
    enjamb.put("world\n");
    let names = |id| format!("greeting names {id}\n");
    check(&enjamb.run(&["tag", "greeting", HELLO, "--expect", "none"]).done().out(), &names(HELLO));
    check(&enjamb.run(&["tag"]).done().out(), &format!("greeting\t{HELLO}\n"));
    check(&enjamb.run(&["tag", "greeting"]).done().out(), &format!("greeting\t{HELLO}\n"));
    check(&enjamb.run(&["tag", "greeting", "art-26e7", "--expect", "art-8e4c"]).done().out(), &names(WORLD));
    assert_eq!(enjamb.run(&["get", "greeting"]).done().out(), "world\n");
    let expected = json!({"schema": "enjamb.cli.tags/1", "tags": [{"name": "greeting", "artifact": WORLD}]});
    check_json(&enjamb.json(&["tag"]), &expected);
    let expected = json!({"schema": "enjamb.cli.tag/1", "name": "greeting", "artifact": HELLO, "previous": WORLD});
    check_json(&enjamb.json(&["tag", "greeting", HELLO]), &expected);
    check(&enjamb.run(&["tag", "greeting", "--delete"]).done().out(), "greeting names nothing\n");
    check(&enjamb.run(&["tag", "greeting"]).exits(3).err(), "error: no tag greeting\nhelp:  enjamb tag\n");
}

#[test]
fn pin_says_how_long_an_artifact_is_kept() {
    let enjamb = Enjamb::new();
    enjamb.put("hello\n");
    check(&enjamb.run(&["pin", "art-8e4c"]).done().out(), &format!("{HELLO}  pin\n"));
    for policy in ["replicate", "default"] {
        let answer = enjamb.run(&["pin", "--policy", policy, HELLO]).done();
        check(&answer.out(), &format!("{HELLO}  {policy}\n"));
    }
    let document = enjamb.json(&["pin", "--policy", "ephemeral", "--ttl", "12h", HELLO]);
    let expected = json!({
        "schema": "enjamb.cli.pin/1", "artifacts": [{"id": HELLO, "policy": "ephemeral", "expires_ms": "[..]"}],
    });
    check_json(&document, &expected);
}

#[test]
fn what_was_stored_before_a_failure_is_told() {
    let enjamb = Enjamb::with_store();
    let (a, absent, c) = (enjamb.file("a", "first"), enjamb.path("absent"), enjamb.file("c", "third"));
    let answer = enjamb.run(&["put", &a, &absent, &c]).exits(3);
    let id = answer.line();
    assert!(answer.err().contains("absent"), "{}", answer.err());
    assert_eq!(enjamb.run(&["get", &id]).done().out(), "first");
    assert_eq!(enjamb.json(&["artifacts"])["artifacts"].as_array().map(Vec::len), Some(1));
    let answer = enjamb.run(&["put", &absent, "--json"]).exits(3);
    assert_eq!(answer.out(), "", "nothing was stored");
}

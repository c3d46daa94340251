//! Context packs: `pack`, `pack list`, `pack show`, `pack verify`, `pack diff`, `unpack`.

use serde_json::{Value, json};

use crate::expect::{check, check_json};
use crate::runner::Enjamb;

const SESSION: &str = "0b5cfa9e-3f0e-4d1c-9a53-7f8f3a5f0c11";

/// One record of a Claude Code transcript.
fn record(kind: &str, uuid: u64, second: u64, content: Value) -> String {
    let parent = (uuid > 1).then(|| format!("u{}", uuid - 1));
    let record = json!({
        "type": kind, "uuid": format!("u{uuid}"), "parentUuid": parent, "sessionId": SESSION, "cwd": "/home/dana/shop",
        "gitBranch": "main", "timestamp": format!("2026-01-01T00:00:{second:02}.000Z"), "isSidechain": false,
        "message": {"role": kind, "content": content, "id": format!("m{uuid}"), "model": "claude-opus-4-8"},
    });
    format!("{record}\n")
}

/// An agent that is asked, reads a file and an issue, fails to read another file, and answers.
fn transcript(asked: &str) -> String {
    let call =
        |id: &str, name: &str, input: Value| json!([{"type": "tool_use", "id": id, "name": name, "input": input}]);
    let result = |id: &str, text: &str, is_error: bool| json!([{"type": "tool_result", "tool_use_id": id, "content": text, "is_error": is_error}]);
    [
        record("user", 1, 1, json!(asked)),
        record("assistant", 2, 2, call("t1", "Read", json!({"file_path": "/home/dana/shop/src/pay.rs", "offset": 7}))),
        record("user", 3, 3, result("t1", "     7→fn pay() {\n     8→}", false)),
        record("assistant", 4, 4, call("t2", "WebFetch", json!({"url": "https://github.com/acme/shop/issues/12"}))),
        record("user", 5, 5, result("t2", "Checkout is slow", false)),
        record("assistant", 6, 6, call("t3", "Read", json!({"file_path": "/home/dana/shop/gone.rs"}))),
        record("user", 7, 7, result("t3", "File does not exist.", true)),
        record("assistant", 8, 8, json!([{"type": "text", "text": "It sleeps twice."}])),
    ]
    .concat()
}

/// A store with one session in it, packed.
fn packed(enjamb: &Enjamb) -> String {
    commit(enjamb, &transcript("why is checkout slow?"));
    enjamb.run(&["pack", "@"]).done().line()
}

#[track_caller]
fn commit(enjamb: &Enjamb, transcript: &str) {
    let arguments = ["checkpoint", "--format", "claude-code-v1", "--session", SESSION, "--at", "2026-01-01T00:00:09Z"];
    enjamb.run_with(&arguments, transcript).done();
}

fn packs(enjamb: &Enjamb) -> usize {
    enjamb.json(&["pack", "list"])["packs"].as_array().map_or(0, Vec::len)
}

#[test]
fn a_pack_holds_what_was_said_and_what_was_really_read() {
    let enjamb = Enjamb::new();
    let hash = packed(&enjamb);
    let shown: Value = serde_json::from_str(&enjamb.run(&["pack", "show", &hash[..8]]).done().out()).unwrap();
    let repo = json!({"owner": "local", "repo": "shop"});
    let expected = json!({
        "contextPackVersion": "0.7.0",
        "generatedAt": "[..]Z",
        "session": {
            "id": SESSION, "title": "why is checkout slow?",
            "createdAt": "2026-01-01T00:00:01.000Z", "updatedAt": "2026-01-01T00:00:08.000Z",
        },
        "messages": [
            {
                "seq": 1, "role": "user", "content": "why is checkout slow?", "createdAt": "2026-01-01T00:00:01.000Z",
                "used_sources": null, "used_sources_hash": null,
            },
            {
                "seq": 2, "role": "assistant", "content": "It sleeps twice.", "createdAt": "2026-01-01T00:00:08.000Z",
                "used_sources": [
                    {
                        "kind": "file_snippet", "repo": repo, "branch": "main", "path": "src/pay.rs", "startLine": 7,
                        "endLine": 8, "snippetHash": "c55cbb74af18",
                        "contentSha256": "c55cbb74af18[..]",
                    },
                    {
                        "kind": "github_issue", "repo": {"owner": "acme", "repo": "shop"}, "number": 12,
                        "url": "https://github.com/acme/shop/issues/12",
                    },
                ],
                "used_sources_hash": "[..]",
            },
        ],
        "derived": {"sessionHash": hash, "messageCount": 2, "sourcesCount": 1},
        "warnings": [],
    });
    check_json(&shown, &expected);
}

#[test]
fn packing_again_gives_the_first_record_back() {
    let enjamb = Enjamb::new();
    let hash = packed(&enjamb);
    let first = enjamb.run(&["pack", "show", &hash]).done().out();
    let again = enjamb.json(&["pack", "@"]);
    let expected = json!({
        "schema": "enjamb.cli.pack/1",
        "packs": [{
            "hash": hash, "artifact": "art-[..]", "recorded_ms": "[..]", "session": SESSION,
            "title": "why is checkout slow?", "messages": 2, "sources": 1, "from": "ctx-[..]", "redaction": null,
            "known": true, "warnings": [],
        }],
    });
    check_json(&again, &expected);
    assert_eq!(enjamb.run(&["pack", "show", &hash]).done().out(), first);
    check(
        &enjamb.run(&["pack", "list"]).done().out(),
        &format!("{hash}\t[..]\t{SESSION}\t2\t1\twhy is checkout slow?\n"),
    );
    check(&enjamb.run(&["pack", "list", "--session", "other"]).done().out(), "");
    enjamb.run(&["maintain", "--rebuild-index"]).done();
    assert_eq!((packs(&enjamb), enjamb.run(&["pack", "@"]).done().line()), (1, hash));
    enjamb.run(&["verify"]).done();
}

#[test]
fn a_pack_is_the_same_in_another_store_and_travels_as_a_file() {
    let (enjamb, other) = (Enjamb::new(), Enjamb::new());
    let hash = packed(&enjamb);
    assert_eq!(packed(&other), hash);
    let third = Enjamb::new();
    let file = third.path("pack.json");
    enjamb.run(&["pack", "show", &hash, "-o", &file]).done();
    check(
        &third.run(&["pack", "verify", &file]).done().out(),
        &format!("✓ {hash}   2 messages, 1 set of sources: every hash matches\n"),
    );
    check(&third.run(&["unpack", &file, "--check"]).done().out(), &format!("{hash}\n"));
    assert!(!third.store().exists(), "checking needs no store");
    check(&third.run(&["unpack", &file]).done().out(), &format!("{hash}\n"));
    assert_eq!(third.json(&["unpack", &file])["packs"][0]["known"], true);
    check(&third.run(&["pack", "diff", &hash[..6], &file]).done().out(), "the same\n");
}

#[test]
fn several_sessions_are_packed_at_once_or_not_at_all() {
    let enjamb = Enjamb::new();
    commit(&enjamb, &transcript("why is checkout slow?"));
    let message = |actor: &str, text: &str| {
        let frame = json!({"type": "continuity_message_appended", "actor_id": actor, "origin": "cli", "content": text});
        enjamb.append("continuity/main", &frame.to_string());
    };
    enjamb.append("continuity/main", r#"{"type":"continuity_created","workspace":"/w","title":"A thread"}"#);
    message("dana", "hello");
    enjamb.append("continuity/main", r#"{"type":"continuity_run_spawned","run_session_id":"r1","message_id":"m"}"#);
    enjamb.append("session/r1", r#"{"type":"output_text_delta","delta":"hi "}"#);
    enjamb.append("session/r1", r#"{"type":"output_text_delta","delta":"there"}"#);
    message("agent/fixer", "fixed");
    enjamb.run(&["pack", "@", "continuity/none"]).exits(3);
    assert_eq!(packs(&enjamb), 0);
    enjamb.run(&["pack", "@", "continuity/main", "-o", &enjamb.path("nowhere")]).exits(2);
    assert_eq!(packs(&enjamb), 0);
    std::fs::create_dir(enjamb.path("out")).unwrap();
    let hashes = enjamb.run(&["pack", "@", "continuity/main", "-o", &enjamb.path("out")]).done().out();
    assert_eq!((hashes.lines().count(), std::fs::read_dir(enjamb.path("out")).unwrap().count()), (2, 2));
    let page = enjamb.run(&["pack", "continuity/main", "--as", "markdown"]).done().out();
    let expected = "# A thread

- session: [..]-[..]-8[..]
- pack: [..]
- version: 0.7.0
- from: [..]Z to [..]Z
- messages: 3
- sets of sources: 0

## 1. user ([..]Z)

hello

## 2. assistant ([..]Z)

hi there

## 3. assistant ([..]Z)

fixed
";
    check(&page, expected);
    let yaml = enjamb.run(&["pack", "continuity/main", "--as", "yaml"]).done().out();
    assert!(yaml.contains("\n    content: \"hi there\"\n"), "{yaml}");
}

#[test]
fn secrets_are_replaced_before_hashing_and_that_is_recorded() {
    let enjamb = Enjamb::new();
    let key = ["AKI", "AQ3EGRTY7LMN2X5ZW"].concat();
    commit(&enjamb, &transcript(&format!("is {key} right?")));
    let plain = enjamb.run(&["pack", "@"]).done().line();
    let masked = enjamb.json(&["pack", "@", "--redact"])["packs"][0].clone();
    assert_ne!(masked["hash"], plain);
    assert_eq!(masked["redaction"], json!({"rules": "enjamb-secrets-v1", "found": {"aws-access-token": 2}}));
    let shown = enjamb.run(&["pack", "show", masked["hash"].as_str().unwrap()]).done().out();
    assert!(shown.contains("is [redacted:aws-access-token] right?") && !shown.contains(&key), "{shown}");
    enjamb.run(&["pack", "verify", masked["hash"].as_str().unwrap()]).done();
    let diff = enjamb.run(&["pack", "diff", &plain, masked["hash"].as_str().unwrap(), "--exit-code"]).exits(1);
    check(
        &diff.out(),
        &format!("title      is {key} right? → is [redacted:aws-access-token] right?\nmessage 1  changed\n"),
    );
}

/// Takes in a pack that was changed, and expects it refused with nothing written.
#[track_caller]
fn check_refused(pack: &str, from: &str, to: &str, exit: i32, code: &str, says: &str) {
    let enjamb = Enjamb::with_store();
    assert!(pack.contains(from), "{from} is in {pack}");
    let before = enjamb.json(&["status"]);
    let answer = enjamb.run_with(&["unpack", "-", "--json"], pack.replacen(from, to, 1)).exits(exit);
    let problem = answer.problem();
    assert_eq!(problem["code"], code);
    assert!(problem["title"].as_str().unwrap().contains(says), "{problem}");
    assert_eq!(enjamb.json(&["status"])["frames"], before["frames"]);
    assert_eq!(enjamb.json(&["artifacts"])["artifacts"], json!([]));
}

#[test]
fn what_is_not_what_it_says_is_refused_and_nothing_is_written() {
    let enjamb = Enjamb::new();
    let hash = packed(&enjamb);
    let pack = enjamb.run(&["pack", "show", &hash]).done().out();
    check_refused(&pack, "sleeps twice", "sleeps once", 6, "pack-hash-mismatch", &hash);
    check_refused(&pack, "\"number\": 12", "\"number\": 13", 6, "pack-hash-mismatch", "does not match itself");
    check_refused(&pack, "github_issue", "rumour", 2, "unknown-source-kind", "rumour");
    check_refused(&pack, "0.7.0", "9.9.9", 2, "unsupported-pack-version", "9.9.9");
    check_refused(&pack, "\"warnings\"", "\"api_token\": \"x\", \"warnings\"", 2, "malformed-pack", "api_token");
    check_refused(&pack, "It sleeps", &"x".repeat(2 << 20), 6, "pack-hash-mismatch", &hash);
    check_refused(&pack, "{", "", 2, "malformed-pack", "no JSON");
    let changed = enjamb.file("changed.json", pack.replace("sleeps twice", "sleeps once"));
    let found = enjamb.run(&["pack", "verify", &changed]).exits(6);
    check(&found.out(), &format!("✗ sessionHash is {hash}, the content's is [..]  [pack-hash-mismatch]\n"));
}

#[test]
fn a_session_that_is_too_large_is_refused_and_nothing_is_written() {
    let enjamb = Enjamb::new();
    commit(&enjamb, &transcript(&"why? ".repeat(500_000)));
    let answer = enjamb.run(&["pack", "@", "--json"]).exits(2);
    let problem = answer.problem();
    assert_eq!(problem["code"], "context-pack-too-large");
    assert_eq!(problem["title"], "Context pack exceeds maximum size of 2 MB (current: 2.39 MB)");
    assert_eq!(packs(&enjamb), 0);
    enjamb.run(&["pack", "show", "abcd"]).exits(3);
    enjamb.run(&["pack", "show", "xyz"]).exits(2);
}

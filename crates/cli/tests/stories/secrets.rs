//! Secrets in what was imported: stored as they are, and shown to nobody.

use std::fs;

use serde_json::json;

use crate::expect::check;
use crate::hostile::on_terminal;
use crate::imports::{check_export, commits};
use crate::runner::Enjamb;

/// In parts, so that no scanner takes this file for a leak.
fn token() -> String {
    ["gh", "p_", "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"].concat()
}

fn key() -> String {
    ["AKI", "AQ3EGRTY7LMN2X5ZW"].concat()
}

/// A transcript in which both were typed and read, and much that only looks like them.
fn transcript() -> String {
    let asked = json!({"type": "user", "uuid": "u1", "sessionId": "s", "cwd": "/w", "timestamp": "2026-01-01T00:00:01.000Z",
        "message": {"role": "user", "content": format!("use {} please", token())}});
    let said =
        format!("commit e3b0c44298fc1c149afbf4c8996fb92427ae41e4\n{}\n550e8400-e29b-41d4-a716-446655440000", key());
    let reply = json!({"type": "assistant", "uuid": "a1", "parentUuid": "u1", "sessionId": "s",
        "message": {"role": "assistant", "id": "m1", "content": [{"type": "text", "text": said}]}});
    format!("{asked}\n{reply}\n")
}

#[test]
fn secrets_are_counted_and_masked_and_the_file_comes_back() {
    let enjamb = Enjamb::new();
    let path = enjamb.file("5d1c.jsonl", transcript());
    check(
        &enjamb.run(&["import", &path]).done().out(),
        "imported   1 file as 1 commit, [..]\n\
         secrets    2 found, masked wherever they are shown or exported    enjamb redact list\n",
    );
    check_export(&enjamb, &path);
    let tip = commits(&enjamb, &path).pop().unwrap();
    let is_clean = |out: &str| !out.contains(&token()) && !out.contains(&key());
    let requests: &[&[&str]] = &[
        &["log", "--all"],
        &["show", &tip],
        &["--json", "show", &tip],
        &["pack", &tip, "--as", "markdown"],
        &["frames", "context/user"],
        &["frames", &format!("source/{path}")],
        &["redact", "list"],
        &["--json", "redact", "list"],
        &["export", "5d1c", "--redacted"],
    ];
    for request in requests {
        let out = enjamb.run(request).done().out();
        assert!(is_clean(&out), "{request:?}: {out}");
    }
    if let Some(shown) = on_terminal(&enjamb, &["materialize", &tip], &[]) {
        assert!(is_clean(&shown) && shown.contains("[redacted:github-token]"), "{shown}");
    }
    assert_eq!(enjamb.run(&["materialize", &tip]).done().out(), transcript(), "a pipe gets what is stored");
    let redacted = enjamb.run(&["export", "5d1c", "--redacted"]).done().out();
    assert!(redacted.contains("use [redacted:github-token] please") && redacted.contains("e3b0c44298fc"), "{redacted}");
    redacted.lines().for_each(|line| drop(serde_json::from_str::<serde_json::Value>(line).unwrap()));
}

#[test]
fn where_secrets_are_is_told_by_place_and_kind() {
    let enjamb = Enjamb::new();
    let path = enjamb.file("5d1c.jsonl", transcript());
    let done = enjamb.json(&["import", &path]);
    assert_eq!(done["secrets"]["sources"][0]["found"], json!({"aws-access-token": 1, "github-token": 1}));
    let list = enjamb.json(&["redact", "list"]);
    let first = &list["secrets"][0];
    assert_eq!(
        (&first["rule"], &first["session"], &first["preview"]),
        (&json!("github-token"), &json!("5d1c"), &json!("ghp_…"))
    );
    let offset = first["offset"].as_u64().unwrap() as usize;
    assert!(transcript()[offset..].starts_with(&token()));
    assert_eq!(list["secrets"][1]["commit"].as_str().unwrap(), commits(&enjamb, &path)[0]);
    // What is added is looked at, what was is not counted again; equal secrets bear equal marks.
    fs::write(&path, transcript() + &transcript().replace("\"u1\"", "\"u2\"").replace("\"a1\"", "\"a2\"")).unwrap();
    let done = enjamb.json(&["import", &path]);
    assert_eq!(done["secrets"]["found"], json!(2), "{done}");
    let list = enjamb.json(&["redact", "list", "5d1c"]);
    assert_eq!(list["secrets"].as_array().unwrap().len(), 4);
    assert_eq!(list["secrets"][0]["digest"], list["secrets"][2]["digest"]);
    enjamb.run(&["redact", "list", "nobody"]).exits(3);
    let clean = Enjamb::with_store();
    assert_eq!(clean.json(&["redact", "list"])["secrets"], json!([]));
}

//! Frames in and out: `append`, `frames`, `frames import` and `export`, `streams`.

use std::fs;
use std::io::{BufRead, BufReader};

use serde_json::json;

use crate::expect::{check, check_json};
use crate::runner::Enjamb;

const STARTED: &str = r#"{"type":"session_started","input":"hi"}"#;

fn said(text: &str) -> String {
    format!(r#"{{"type":"output_text_delta","delta":"{text}"}}"#)
}

#[test]
fn append_answers_where_a_frame_landed() {
    let enjamb = Enjamb::new();
    let one = ["append", "session/s1", "--type", "session_started", "--data", r#"{"input":"hi"}"#];
    check(&enjamb.run(&one).done().out(), "session/s1\t0\n");
    let lines = format!("{}\n\n{}\n", said("a"), said("b"));
    check(&enjamb.run_with(&["append", "session/s1"], lines).done().out(), "2 frames, the last is session/s1 2\n");
    let expected = json!({
        "schema": "enjamb.cli.append/1", "durable": true, "replayed": false,
        "frames": [{"stream": "session/s1", "seq": 3}],
    });
    check_json(&enjamb.run_with(&["append", "session/s1", "--json"], said("c")).document(), &expected);
}

#[test]
fn append_without_frames_says_so_and_stores_nothing() {
    let enjamb = Enjamb::with_store();
    let answer = enjamb.run(&["append", "session/s1"]).done();
    assert_eq!((answer.out().as_str(), answer.err().as_str()), ("", "no frames on stdin\n"));
    assert_eq!(enjamb.json::<&str>(&[])["frames"], 0);
}

#[test]
fn a_batch_is_stored_whole_or_not_at_all() {
    let enjamb = Enjamb::with_store();
    let lines = format!("{STARTED}\n{}\nnot a frame\n", said("a"));
    enjamb.run_with(&["append", "session/s1"], lines).exits(2);
    enjamb.run(&["frames", "session/s1"]).exits(3);
}

#[test]
fn a_key_makes_a_retry_answer_as_the_first_try_did() {
    let enjamb = Enjamb::new();
    let request = ["append", "session/s1", "--key", "k1", "--json"];
    let first = enjamb.run_with(&request, STARTED).document();
    let again = enjamb.run_with(&request, STARTED).document();
    assert_eq!((&first["replayed"], &again["replayed"]), (&json!(false), &json!(true)));
    assert_eq!(first["frames"], again["frames"]);
    assert_eq!(enjamb.run(&["frames", "session/s1"]).out().lines().count(), 1);
}

#[test]
fn a_key_covers_as_many_frames_as_fit_a_batch() {
    let enjamb = Enjamb::new();
    let lines = |count: usize| vec![said("x"); count].join("\n");
    enjamb.run_with(&["append", "session/s1", "--key", "k1"], lines(500)).done();
    let refused = enjamb.run_with(&["append", "session/s2", "--key", "k2"], lines(501)).exits(2);
    check(
        &refused.err(),
        "error: --key is for one batch\nhelp:  send at most 500 frames, and at most 8 MiB, with one key\n",
    );
    enjamb.run_with(&["append", "session/s3"], lines(501)).done();
}

#[test]
fn frames_are_given_back_byte_for_byte() {
    let enjamb = Enjamb::new();
    // Spaces, the order of members, escapes and what no version knows: all of it stays.
    let whole = r#"{ "type":"later_type", "seq":0,"timestamp_ms":7, "id":"x", "stream_id":"s1","session_id":"s1","stream_kind":"session","u":"\u00e9\u001b[31m" ,"n":1.0e2}"#;
    enjamb.append("session/s1", whole);
    enjamb.append("session/s1", &said("b"));
    let answer = enjamb.run(&["frames", "session/s1"]).done().out();
    let lines: Vec<_> = answer.lines().collect();
    assert_eq!(lines[0], whole);
    let filled = r#"{"id":"[..]","session_id":"s1","stream_kind":"session","stream_id":"s1","timestamp_ms":[..],"seq":1,"type":"output_text_delta","delta":"b"}"#;
    check(lines[1], filled);
}

#[test]
fn frames_begin_and_end_where_they_are_asked_to() {
    let enjamb = Enjamb::new();
    let lines: Vec<_> = (0..1_205).map(|n| said(&n.to_string())).collect();
    enjamb.run_with(&["append", "session/s1"], lines.join("\n")).done();
    let count = |arguments: &[&str]| {
        let arguments = [&["frames", "session/s1"], arguments].concat();
        enjamb.run(&arguments).done().out().lines().count()
    };
    assert_eq!(count(&[]), 1_205);
    assert_eq!(count(&["--from", "1200"]), 5);
    assert_eq!(count(&["--from", "1200", "-n", "2"]), 2);
    assert_eq!(count(&["-n", "1100"]), 1_100);
    assert_eq!(count(&["-n", "0"]), 0);
    assert_eq!(count(&["--from", "5000"]), 0);
    let expected = json!({
        "schema": "enjamb.cli.frame/1", "seq": 7, "chain": "[..]",
        "frame": {
            "id": "[..]", "session_id": "s1", "stream_kind": "session", "stream_id": "s1", "timestamp_ms": "[..]",
            "seq": 7, "type": "output_text_delta", "delta": "7",
        },
    });
    check_json(&enjamb.json(&["frames", "session/s1", "--from", "7", "-n", "1"]), &expected);
}

#[test]
fn a_follower_sees_what_another_process_appends() {
    let enjamb = Enjamb::with_store();
    let mut follower = enjamb.command(&["frames", "session/s1", "--follow", "-n", "3"]).spawn().unwrap();
    let mut lines = BufReader::new(follower.stdout.take().unwrap()).lines();
    for text in ["a", "b", "c"] {
        enjamb.append("session/s1", &said(text));
        let line = lines.next().expect("a line").unwrap();
        assert!(line.ends_with(&format!(r#""delta":"{text}"}}"#)), "{line}");
    }
    assert!(lines.next().is_none(), "three were asked for");
    assert!(follower.wait().unwrap().success());
}

#[test]
fn streams_are_listed_by_last_activity_or_by_name() {
    let enjamb = Enjamb::new();
    for stream in ["session/b", "session/a", "wild/c"] {
        enjamb.append(stream, r#"{"type":"anything"}"#);
    }
    let names = |arguments: &[&str]| {
        let answer = enjamb.run(&[&["streams"], arguments].concat()).done().out();
        answer.lines().map(|line| line.split('\t').next().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(names(&[]), ["wild/c", "session/a", "session/b"]);
    assert_eq!(names(&["--by-name"]), ["session/a", "session/b", "wild/c"]);
    assert_eq!(names(&["--kind", "session", "-n", "1"]), ["session/a"]);
    assert_eq!(names(&["--all"]).len(), 3);
    check(&enjamb.run(&["streams", "-n", "1"]).out(), "wild/c\t1\t[..]\t[..]-[..]-[..]T[..]Z\n");
    let expected = json!({
        "schema": "enjamb.cli.streams/1",
        "streams": [{
            "stream": "wild/c", "kind": "wild", "id": "c", "frames": 1, "bytes": "[..]", "chain": "[..]",
            "first_at": "[..]Z", "last_at": "[..]Z",
        }],
    });
    check_json(&enjamb.json(&["streams", "-n", "1"]), &expected);
}

/// Frames of two streams, interleaved, with a torn line, one that is no UTF-8, an empty one, and no end of line.
fn hostile_file() -> Vec<u8> {
    let frame = |stream: &str, seq: u64| {
        format!(r#"{{"id":"{stream}{seq}","session_id":"{stream}","timestamp_ms":1,"seq":{seq},"type":"t", "x":1 }}"#)
    };
    let mut file = [frame("a", 0), frame("b", 0), frame("a", 1), String::new(), r#"{"id":"torn"#.into()].join("\n");
    file.push('\n');
    let mut file = file.into_bytes();
    file.extend(b"\xff\xfe\n");
    file.extend(frame("b", 1).into_bytes());
    file
}

#[test]
fn an_imported_file_is_given_back_byte_for_byte() {
    let enjamb = Enjamb::new();
    let file = enjamb.file("events.jsonl", hostile_file());
    let answer = enjamb.run(&["frames", "import", &file]).exits(10);
    check(&answer.out(), "7 lines of [..] B: 4 appended, 0 here already\nart-[..]\n");
    let expected = "
line 5: kept, not appended: frame is not JSON at line 1, column [..]: EOF while parsing a string
line 6: kept, not appended: frame is not UTF-8 at byte 0: expected JSON text in UTF-8
";
    check(&answer.err(), expected);
    let import = answer.line();
    assert_eq!(enjamb.run(&["frames", "export", &import]).done().stdout, hostile_file());

    let again = enjamb.run(&["frames", "import", &file, "--json"]).exits(10).document();
    let expected = json!({
        "schema": "enjamb.cli.frames_import/1", "import": import, "lines": 7, "appended": 0, "known": 4,
        "bytes": hostile_file().len(), "digest": "[..]",
        "problems": [{"line": 5, "detail": "[..]"}, {"line": 6, "detail": "[..]"}],
        "repeated_members": {},
    });
    check_json(&again, &expected);
}

#[test]
fn members_given_twice_are_kept_and_told() {
    let enjamb = Enjamb::new();
    let frame = |seq: u64| {
        format!(r#"{{"id":"i","session_id":"a","timestamp_ms":1,"seq":{seq},"type":"t","x":1,"x":2,"y":0}}"#) + "\n"
    };
    let file = enjamb.file("events.jsonl", frame(0) + &frame(1));
    let answer = enjamb.run(&["frames", "import", &file]).done();
    check(&answer.err(), "member x is given more than once in 2 frames: kept so\n");
    assert_eq!(enjamb.run(&["frames", "session/a"]).done().out(), frame(0) + &frame(1));
    assert_eq!(enjamb.json(&["frames", "import", &file])["repeated_members"], json!({"x": 2}));
}

#[test]
fn an_export_becomes_a_file_at_once_and_replaces_none() {
    let enjamb = Enjamb::new();
    let import = enjamb.run_with(&["frames", "import", "-"], hostile_file()).exits(10).line();
    let (one, all) = (enjamb.path("one.jsonl"), enjamb.path("all.jsonl"));
    check(&enjamb.run(&["frames", "export", &import, "-o", &one]).done().out(), "wrote [..]/one.jsonl\n");
    assert_eq!(fs::read(&one).unwrap(), hostile_file());
    let expected = json!({"schema": "enjamb.cli.frames_export/1", "path": "[..]/all.jsonl"});
    check_json(&enjamb.json(&["frames", "export", "-o", &all]), &expected);
    assert_eq!(fs::read_to_string(&all).unwrap().lines().count(), 4, "all frames, in the order of the log");
    let refused = enjamb.run(&["frames", "export", "-o", &one]).exits(5);
    let said = "error: [..]/one.jsonl: [..]xists[..]\nhelp:  nothing is overwritten; name a file that is not there\n";
    check(&refused.err(), said);
    enjamb.run(&["frames", "export", "art-00000000", "-o", &enjamb.path("new")]).exits(3);
    assert!(!enjamb.home().join("new").exists(), "what fails leaves no file");
}

#[test]
fn an_import_of_what_is_no_import_is_refused() {
    let enjamb = Enjamb::new();
    let id = enjamb.put("just bytes");
    check(&enjamb.run(&["frames", "export", &id]).exits(3).err(), "error: no import art-[..]\n");
}

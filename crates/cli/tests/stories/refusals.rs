//! Bad input: each is refused with its exit code, a sentence that names the facts, and the same as JSON.

use enjamb_core::ArtifactId;

use crate::runner::{Answer, Enjamb};

/// A request that has to be refused.
struct Row {
    arguments: &'static [&'static str],
    stdin: &'static [u8],
    exit: i32,
    code: &'static str,
    /// What the message has to mention.
    facts: &'static [&'static str],
}

const HELLO: &str = "art-8e4c7c1b99dbfd50e7a95185fead5ee1448fa904a2fdd778eaf5f2dbfd629a99";
const ABSENT: &str = "art-0000000000000000000000000000000000000000000000000000000000000000";

const fn row(
    arguments: &'static [&'static str],
    stdin: &'static [u8],
    exit: i32,
    code: &'static str,
    facts: &'static [&'static str],
) -> Row {
    Row { arguments, stdin, exit, code, facts }
}

const JOB_ENDED: &[u8] =
    br#"{"type":"continuity_job_ended","job_id":"j1","job_kind":"k","status":"ok","actor_id":"a","origin":"o"}"#;
const CHECKPOINT: &[u8] =
    br#"{"type":"continuity_compaction_checkpoint_created","checkpoint_id":"c1","cut_rule_id":"r",
 "summary_kind":"k","summary_artifact_id":"x","from_seq":0,"to_seq":1,"actor_id":"a","origin":"o"}"#;

const FRAMES: &[Row] = &[
    row(&["append", "session/n"], b"{\"type\":\n", 2, "invalid-json", &["line 1", "column 8", "not JSON"]),
    row(&["append", "session/n"], b"\n{\"type\":\"x\"}\n[1]\n", 2, "invalid-json", &["line 3"]),
    row(
        &["append", "session/n"],
        b"{\"type\":\"x\",\"a\":\"\xff\"}",
        2,
        "invalid-utf8",
        &["line 1", "byte 17", "UTF-8"],
    ),
    row(&["append"], b"{\"type\":\"x\"}", 2, "no-stream-named", &["line 1", "names no stream"]),
    row(&["append", "session/n"], b"{\"a\":1}", 2, "missing-field", &["type", "missing"]),
    row(
        &["append"],
        br#"{"type":"x","session_id":"a","stream_id":"b","stream_kind":"session"}"#,
        2,
        "stream-mismatch",
        &["session_id \"a\"", "stream_id \"b\""],
    ),
    row(&["append", "session/n"], br#"{"type":"x","seq":7}"#, 5, "seq-conflict", &["session/n", "at seq 0, not 7"]),
    row(
        &["append", "session/ended", "--type", "x", "--expect-seq", "9"],
        b"",
        5,
        "seq-conflict",
        &["at seq 2, not 9", "enjamb frames session/ended --from 1"],
    ),
    row(
        &["append", "session/ended"],
        br#"{"type":"session_ended","reason":"again"}"#,
        5,
        "session-ended",
        &["session_ended", "seq 2 of session/ended", "ended at seq 1"],
    ),
    row(&["append", "continuity/t"], JOB_ENDED, 5, "job-ended-twice", &["continuity/t", "job j1", "ended at seq 1"]),
    row(
        &["append", "session/n", "--type", "x", "--data", "{"],
        b"",
        2,
        "bad-request",
        &["--data", "not a JSON object"],
    ),
    row(&["append", "session/n", "--type", "x", "--data", "[1]"], b"", 2, "bad-request", &["--data", "another kind"]),
    row(
        &["append", "session/k", "--key", "k1"],
        br#"{"type":"other"}"#,
        5,
        "idempotency-key-reused",
        &["k1", "session/k"],
    ),
    row(&["append", "session/n", "--key", "a b"], br#"{"type":"x"}"#, 2, "bad-idempotency-key", &["a b", "128"]),
    row(&["frames", "session/none"], b"", 3, "stream-not-found", &["no stream session/none", "enjamb streams"]),
    row(&["frames"], b"", 2, "bad-request", &["which stream?", "enjamb streams"]),
    row(
        &["frames", "import", "nowhere.jsonl"],
        b"",
        3,
        "file-error",
        &["nowhere.jsonl", "No such file", "that is there"],
    ),
    row(&["frames", "import", "."], b"", 2, "bad-file", &["directory"]),
];

const ARTIFACTS: &[Row] = &[
    row(&["get", ABSENT], b"", 3, "not-found", &["no artifact art-0000", "enjamb artifacts"]),
    row(&["get", "art-0000"], b"", 3, "not-found", &["no artifact art-0000"]),
    row(&["get", "nobody-named-this"], b"", 3, "not-found", &["no tag or artifact nobody-named-this"]),
    row(&["get", "art-xyz"], b"", 2, "bad-id", &["\"art-xyz\"", "4 to 64 lower-case hex digits"]),
    row(&["get", "greeting", "--range", "3-6"], b"", 2, "bad-range", &["range 3-6 is past the end", HELLO, "6 bytes"]),
    row(&["get", "greeting", "--range", "7-"], b"", 2, "bad-range", &["7", "6 bytes"]),
    row(&["get", "greeting", "--range", "4-2"], b"", 2, "bad-request", &["\"4-2\"", "A-B"]),
    row(&["get", "greeting", "--range", "x"], b"", 2, "bad-request", &["\"x\"", "0-1023"]),
    row(&["get", "greeting", "--range", "-5"], b"", 2, "bad-request", &["-5"]),
    row(&["put", "nowhere"], b"", 3, "file-error", &["nowhere", "No such file", "that is there"]),
    row(&["put", "."], b"", 2, "bad-file", &["directory"]),
    row(&["put", "--id", ABSENT], b"hello\n", 6, "hash-mismatch", &[HELLO, ABSENT]),
    row(&["put", "--ttl", "5w"], b"x", 2, "bad-request", &["\"5w\"", "30d"]),
    row(&["put", "--ttl", "99999999999999999d"], b"x", 2, "bad-request", &["99999999999999999d"]),
    row(&["pin", "greeting", "--ttl", "1d"], b"", 2, "bad-request", &["--ttl goes with --policy ephemeral"]),
    row(&["pin", "greeting", "--policy", "wild"], b"", 2, "policy-unknown", &["\"wild\"", "ephemeral or replicate"]),
    row(&["tag", "greeting", HELLO, "--expect", "none"], b"", 5, "ref-moved", &["greeting", HELLO, "not nothing"]),
    row(&["tag", "nothing", "--delete"], b"", 3, "not-found", &["no tag nothing"]),
    row(&["tag", "a\u{1b}b", HELLO], b"", 2, "bad-name", &["a\\u{1b}b", "512"]),
];

const WORDS: &[Row] = &[
    row(&["strems"], b"", 2, "bad-request", &["strems", "streams"]),
    row(&["put", "--tagg", "x"], b"", 2, "bad-request", &["--tagg", "--tag"]),
    row(&["get"], b"", 2, "bad-request", &["<ARTIFACT>"]),
    row(&["frames", "no-kind"], b"", 2, "bad-request", &["no-kind", "session/5d1c"]),
    row(&["streams", "-n", "few"], b"", 2, "bad-request", &["few"]),
    row(&["gc", "--run", "--dry-run"], b"", 2, "bad-request", &["--run", "--dry-run"]),
    row(&["completions", "tcsh"], b"", 2, "bad-request", &["tcsh", "bash"]),
];

/// A store in which every row above is wrong.
fn prepared() -> Enjamb {
    let enjamb = Enjamb::new();
    enjamb.append("session/ended", r#"{"type":"session_started","input":"hi"}"#);
    enjamb.append("session/ended", r#"{"type":"session_ended","reason":"done"}"#);
    let spawned = r#"{"type":"continuity_job_spawned","job_id":"j1","job_kind":"k","actor_id":"a","origin":"o"}"#;
    enjamb.append("continuity/t", spawned);
    enjamb.append("continuity/t", std::str::from_utf8(JOB_ENDED).unwrap());
    enjamb.run_with(&["append", "session/k", "--key", "k1"], r#"{"type":"x"}"#).done();
    enjamb.run_with(&["put", "--tag", "greeting"], "hello\n").done();
    enjamb
}

#[track_caller]
fn check_answer(answer: &Answer, said: &str, row: &Row) {
    let context = format!("{:?} {:?}\n{said}", row.arguments, String::from_utf8_lossy(row.stdin));
    assert_eq!(answer.exit, Some(row.exit), "{context}");
    assert_eq!(answer.out(), "", "{context}");
    for fact in row.facts {
        assert!(said.contains(fact), "{fact:?} is missing in {context}");
    }
}

fn check_rows(rows: &[Row]) {
    let enjamb = prepared();
    let before = enjamb.run::<&str>(&[]).done().out();
    for row in rows {
        let answer = enjamb.run_with(row.arguments, row.stdin);
        assert!(answer.err().starts_with("error: "), "{}", answer.err());
        check_answer(&answer, &answer.err(), row);

        let answer = enjamb.run_with(&[row.arguments, &["--json"]].concat(), row.stdin);
        let problem = answer.problem();
        let said = format!("{} {}", problem["title"].as_str().unwrap(), problem["help"].as_str().unwrap_or_default());
        check_answer(&answer, &said, row);
        assert_eq!(problem["code"], row.code, "{problem}");
        assert_eq!(problem["exit"], row.exit, "{problem}");
    }
    assert_eq!(enjamb.run::<&str>(&[]).done().out(), before, "what is refused leaves nothing behind");
    enjamb.run(&["verify"]).done();
}

#[test]
fn frames_that_are_none() {
    check_rows(FRAMES);
}

#[test]
fn artifacts_that_are_none() {
    check_rows(ARTIFACTS);
}

#[test]
fn words_that_are_none() {
    check_rows(WORDS);
}

#[test]
fn a_cut_that_is_no_message() {
    let enjamb = prepared();
    let line: Vec<u8> = CHECKPOINT.iter().copied().filter(|byte| *byte != b'\n').collect();
    let row = row(&["append", "continuity/t"], b"", 5, "not-a-message", &["to_seq", "c1 is 1", "no message"]);
    let answer = enjamb.run_with(row.arguments, &line);
    check_answer(&answer, &answer.err(), &row);
}

#[test]
fn an_ambiguous_prefix_lists_what_it_may_mean() {
    let mut seen = std::collections::HashMap::new();
    let (one, other) = (0..)
        .find_map(|n: u32| {
            let text = n.to_string();
            let prefix = ArtifactId::of(text.as_bytes()).to_string()[..8].to_owned();
            seen.insert(prefix, text.clone()).map(|earlier| (earlier, text))
        })
        .expect("two of some hundreds share four digits");
    let enjamb = Enjamb::new();
    let (one, other) = (enjamb.put(one), enjamb.put(other));
    let answer = enjamb.run(&["get", &one[..8]]).exits(4);
    let said = answer.err();
    assert!(said.contains(&format!("error: {} fits 2 things", &one[..8])), "{said}");
    assert!(said.contains(&one) && said.contains(&other) && said.contains("help:  type one more digit"), "{said}");
    let problem = enjamb.run(&["get", &one[..8], "--json"]).exits(4).problem();
    assert_eq!((&problem["code"], problem["candidates"].as_array().map(Vec::len)), (&"ambiguous-id".into(), Some(2)));
    enjamb.run(&["get", &one]).done();
}

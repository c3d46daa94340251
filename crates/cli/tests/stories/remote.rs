//! Commands on a store that a server has: the same words, the same answers, the same failures.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::runner::{Answer, Enjamb, answer, finish};

/// A server on a home's store, and the ways to it.
pub struct Served<'e> {
    enjamb: &'e Enjamb,
    child: Option<Child>,
    pub url: String,
    pub token: String,
}

impl<'e> Served<'e> {
    pub fn begin(enjamb: &'e Enjamb) -> Self {
        let mut child = enjamb.command(&["serve", "--listen", "127.0.0.1:0", "--json"]).spawn().expect("it starts");
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().expect("a pipe")).read_line(&mut line).expect("it says where it listens");
        let told: Value = serde_json::from_str(&line).expect("a document");
        let token = std::fs::read_to_string(enjamb.store().join("token")).expect("a token").trim().to_owned();
        Self { enjamb, child: Some(child), url: told["url"].as_str().expect("an address").to_owned(), token }
    }

    pub fn unix(&self) -> String {
        format!("unix://{}", self.enjamb.store().display())
    }

    fn command(&self, store: &str, arguments: &[&str]) -> Command {
        let mut command = self.enjamb.command(arguments);
        command.env("ENJAMB_STORE", store).env("ENJAMB_TOKEN", &self.token);
        command
    }

    /// Runs a command by both ways to the server, and here; all have to answer alike. Returns what they answered.
    #[track_caller]
    fn alike(&self, arguments: &[&str]) -> Answer {
        let mut direct = self.enjamb.command(arguments);
        direct.env("ENJAMB_DIRECT", "1");
        let here = answer(direct, b"");
        for store in [self.url.clone(), self.unix()] {
            let there = answer(self.command(&store, arguments), b"");
            assert_eq!((there.exit, there.out()), (here.exit, here.out()), "{arguments:?} by {store}: {}", there.err());
            if here.exit != Some(0) {
                assert_eq!(there.err(), here.err(), "{arguments:?} by {store}");
            }
        }
        here
    }

    /// What the server has counted.
    fn metrics(&self) -> String {
        let address = self.url.strip_prefix("http://").expect("an address");
        let mut stream = TcpStream::connect(address).expect("a connection");
        let request = format!(
            "GET /metrics HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {}\r\nconnection: close\r\n\r\n",
            self.token
        );
        stream.write_all(request.as_bytes()).expect("it is sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("it is answered");
        answer
    }

    /// Runs a command by the server, with something to read.
    #[track_caller]
    fn run(&self, arguments: &[&str], stdin: &[u8]) -> Answer {
        answer(self.command(&self.url, arguments), stdin).done()
    }
}

impl Drop for Served<'_> {
    fn drop(&mut self) {
        if let Some(child) = self.child.take() {
            let _ = Command::new("kill").args(["-TERM", &child.id().to_string()]).status();
            finish(child);
        }
    }
}

#[test]
fn what_is_written_by_a_server_is_read_alike_here_and_there() {
    let enjamb = Enjamb::with_store();
    let served = Served::begin(&enjamb);
    served.run(&["append", "session/s", "--type", "session_started", "--data", "{\"input\":\"hi\"}"], b"");
    let more = b"{\"type\":\"x\",\"n\":1.50}\n\n{\"type\":\"y\",\"stream_kind\":\"note\",\"stream_id\":\"a/b\"}\n";
    served.run(&["append", "session/s"], more);
    let appended = served.run(&["append", "note/k", "--key", "k1", "--type", "z", "--json"], b"").document();
    let again = served.run(&["append", "note/k", "--key", "k1", "--type", "z", "--json"], b"").document();
    assert_eq!(
        (&appended["replayed"], &again["replayed"], &again["frames"]),
        (&false.into(), &true.into(), &appended["frames"])
    );
    let id = served.run(&["put", "--tag", "greeting"], b"hello").line();
    let delta = b"{\"role\":\"user\",\"content\":\"cap retries\"}\n";
    let commit = ["checkpoint", "--format", "generic-v1", "--principal", "agent/a", "-m", "first"];
    let first = served.run(&commit, delta).line();
    served.run(&["checkpoint", "--format", "generic-v1", "--principal", "agent/a", "--parent", &first], delta);
    assert!(served.alike(&["frames", "session/s"]).out().contains("\"n\":1.50"), "every digit comes back");
    for arguments in [
        &["frames", "session/s", "--json"][..],
        &["frames", "note/a/b", "--from", "0", "-n", "1"],
        &["streams", "--by-name"],
        &["streams", "--kind", "note", "--by-name", "--json"],
        &["get", "greeting"],
        &["get", &id, "--range", "1-3"],
        &["get", "greeting", "--json"],
        &["log", "--json"],
        &["log", "--all", "--principal", "agent/a", "-n", "1", "--json"],
        &["show", "@-"],
        &["show", "@", "--json"],
        &["materialize", "@"],
        &["materialize", "@", "--format", "narrative-v1"],
        &["materialize", "@", "--format", "claude-code-v1", "--json"],
        &["resolve", "agent/a"],
    ] {
        served.alike(arguments);
    }
}

/// Words of commands that change nothing. Those in capitals stand for ids.
const READS: &[&str] = &[
    "thread list",
    "thread get THREAD",
    "thread events THREAD",
    "thread search retries",
    "thread search nothing-like-it",
    "thread decisions THREAD",
    "thread map",
    "thread pin THREAD",
    "thread get nobody",
    "compile THREAD --dry-run --explain --run r-1",
    "compile SECOND --dry-run --run r-2",
    "compile THREAD --role bob=tool",
    "compile --audit BUNDLE",
    "bundle show BUNDLE",
    "render BUNDLE",
    "render BUNDLE --for nobody",
    "compact cuts THREAD --stride 2",
    "compact status THREAD --stride 2",
    "compact THREAD --stride 2 --dry-run",
    "compact COMPACTED --diff",
    "compact FIRST --diff",
    "compact nobody",
    "job list THREAD",
    "cursor status THREAD",
    "pack list",
    "pack show PACK",
    "pack show PACK --as markdown",
    "pack verify PACK",
    "pack diff PACK PACK",
    "pack show ffffffff",
    "log --all",
    "log --graph",
    "log --no-summary",
    "log --ticket PAY-2",
    "show FIRST",
    "children FIRST",
    "children FIRST -n 1",
    "tips",
    "tips FIRST",
    "refs",
    "diff SECOND OTHER",
    "merge-base SECOND OTHER",
    "tag",
    "tag greeting",
    "tag nothing",
    "artifacts",
    "link",
    "link PAY-2 --list",
    "redact list",
    "export nobody",
    "gc",
    "verify --quick",
    "current",
];

/// A store with something of everything, and the ids of it.
fn seeded(enjamb: &Enjamb) -> Vec<(&'static str, String)> {
    let thread = enjamb.run(&["thread", "create", "--title", "slow checkout"]).done().line();
    let post =
        |words: &str| enjamb.json(&["thread", "post", &thread, words])["message_id"].as_str().unwrap().to_owned();
    let (message, _) = (post("why is checkout slow? see src/pay/retry.rs"), post("two sleeps: cap retries at 3"));
    let child = enjamb.run(&["thread", "branch", &thread, "--title", "other way"]).done().line();
    enjamb.run(&["thread", "reference", &child, &thread]).done();
    enjamb.run(&["thread", "pin", &thread, &message]).done();
    enjamb.run(&["cursor", "set", &thread, "--data", "{\"previous_response_id\":\"r1\"}"]).done();
    let bundle = enjamb.run(&["compile", &thread]).done().line();
    let long = "sleep ".repeat(400);
    let delta = format!(
        "{{\"role\":\"user\",\"content\":\"cap retries {long}\"}}\n{{\"role\":\"assistant\",\"content\":\"done\"}}\n"
    );
    let delta = enjamb.file("delta.jsonl", delta);
    let commit = |more: &[&str]| {
        let arguments = [&["checkpoint", &delta, "--format", "generic-v1", "--principal", "agent/a"][..], more];
        enjamb.run(&arguments.concat()).done().line()
    };
    let first = commit(&["-m", "first", "--ticket", "PAY-1"]);
    let second = commit(&["--parent", &first]);
    let other = commit(&["--parent", &first, "--at", "2026-01-02T00:00:00Z"]);
    enjamb.run(&["fork", &first, "-n", "side"]).done();
    enjamb.run(&["link", "PAY-2", &second]).done();
    let artifact = enjamb.put("hello");
    enjamb.run(&["tag", "greeting", &artifact]).done();
    let pack = enjamb.run(&["pack", &second]).done().line();
    let compacted = enjamb.run(&["compact", &second, "--keep", "0"]).done().line();
    vec![
        ("THREAD", thread),
        ("BUNDLE", bundle),
        ("FIRST", first),
        ("SECOND", second),
        ("OTHER", other),
        ("PACK", pack),
        ("COMPACTED", compacted),
    ]
}

#[test]
fn a_graph_is_one_question() {
    let enjamb = Enjamb::with_store();
    let ids = seeded(&enjamb);
    let other = ids.iter().find(|(name, _)| *name == "OTHER").map(|(_, id)| &id[..12]).expect("a branch");
    let served = Served::begin(&enjamb);
    let drawn = served.run(&["log", "--graph"], b"").out();
    assert!(drawn.contains(other), "{drawn}");
    let metrics = served.metrics();
    let asked: Vec<_> = metrics.lines().filter(|line| line.starts_with("enjamb_requests_total")).collect();
    let expected = ["operation=\"health\",status=\"200\"} 1", "operation=\"log\",status=\"200\"} 1"];
    assert_eq!(asked, expected.map(|label| format!("enjamb_requests_total{{{label}")));
}

#[test]
fn a_server_that_is_stopped_keeps_nobody_waiting() {
    let enjamb = Enjamb::with_store();
    let served = Served::begin(&enjamb);
    let pid = served.child.as_ref().expect("it runs").id().to_string();
    let signal = |name: &str| assert!(Command::new("kill").args([name, &pid]).status().expect("a signal").success());
    signal("-STOP");
    let refused = enjamb.run(&["streams"]).exits(8);
    assert!(
        refused.err().contains("has not answered within 2 s") && refused.err().contains("ENJAMB_DIRECT=1"),
        "{}",
        refused.err()
    );
    let mut direct = enjamb.command(&["streams"]);
    direct.env("ENJAMB_DIRECT", "1");
    answer(direct, b"").done();
    signal("-CONT");
    enjamb.run(&["streams"]).done();
    signal("-KILL");
    enjamb.run(&["streams"]).done();
}

#[test]
fn every_verb_answers_alike_here_and_there() {
    let enjamb = Enjamb::with_store();
    let ids = seeded(&enjamb);
    let served = Served::begin(&enjamb);
    let word = |word: &'static str| ids.iter().find(|(name, _)| *name == word).map_or(word, |(_, id)| id.as_str());
    for command in READS {
        let arguments: Vec<_> = command.split(' ').map(word).collect();
        served.alike(&arguments);
        served.alike(&[&arguments[..], &["--json"]].concat());
    }
}

#[test]
fn what_verbs_write_through_a_server_is_what_they_write_here() {
    let enjamb = Enjamb::with_store();
    let served = Served::begin(&enjamb);
    let by_server = |arguments: &[&str]| served.run(arguments, b"").line();
    let thread = by_server(&["thread", "ensure", "--workspace", "/w"]);
    assert_eq!(by_server(&["thread", "ensure", "--workspace", "/w"]), thread);
    let posted = by_server(&["thread", "post", &thread, "cap retries", "--key", "k"]);
    assert_eq!(by_server(&["thread", "post", &thread, "cap retries", "--key", "k"]), posted);
    by_server(&["thread", "tag", &thread, "urgent"]);
    by_server(&["thread", "handoff", &thread, "--summary", "two sleeps"]);
    let delta = b"{\"role\":\"user\",\"content\":\"cap retries\"}\n";
    let first = served.run(&["checkpoint", "--format", "generic-v1", "--principal", "agent/a"], delta).line();
    by_server(&["fork", &first, "-n", "side"]);
    answer(served.command(&served.url, &["fork", &first, "-n", "side"]), b"").exits(5);
    by_server(&["note", &first, "-m", "caps retries", "--tag", "reviewed"]);
    by_server(&["link", "PAY-7", &first]);
    let artifact = served.run(&["put"], b"hello").line();
    by_server(&["tag", "greeting", &artifact, "--expect", "none"]);
    by_server(&["pin", &artifact]);
    let pack = by_server(&["pack", &first]);
    let copy = enjamb.path("pack.json");
    by_server(&["pack", "show", &pack, "-o", &copy]);
    assert_eq!(by_server(&["unpack", &copy]), pack);
    assert!(by_server(&["summarize"]).starts_with("wrote 0 summaries"), "it has one");
    served.run(&["refs", "--delete", "side"], b"");
    for (arguments, holds) in [
        (&["thread", "get", &thread][..], "urgent"),
        (&["show", &first], "PAY-7"),
        (&["show", &first], "caps retries"),
        (&["tag"], artifact.as_str()),
        (&["artifacts", &artifact], "pin"),
        (&["pack", "list"], pack.as_str()),
    ] {
        let here = served.alike(arguments).out();
        assert!(here.contains(holds), "{arguments:?}: {here}");
    }
    assert_eq!(served.alike(&["refs"]).out(), "");
}

#[test]
fn a_command_uses_the_server_that_runs_and_does_without_one_that_does_not() {
    let enjamb = Enjamb::with_store();
    let mut served = Served::begin(&enjamb);
    // The store is opened by nobody but the server, which counts what it is asked.
    enjamb.run(&["thread", "create"]).done();
    let counted = served.metrics();
    assert!(counted.contains("create_thread"), "{counted}");
    let mut child = served.child.take().expect("a server");
    child.kill().expect("it is killed");
    child.wait().expect("it ends");
    assert!(enjamb.store().join("sock").exists(), "a killed server leaves its socket behind");
    assert_eq!(enjamb.run(&["thread", "list"]).done().out().lines().count(), 1);
    enjamb.run(&["append", "note/n", "--type", "x"]).done();
}

#[test]
fn failures_are_alike() {
    let enjamb = Enjamb::with_store();
    let served = Served::begin(&enjamb);
    for arguments in [
        &["show", "ctx-0123abcd"][..],
        &["show", "ctx-zz", "--json"],
        &["frames", "session/none"],
        &["get", "nothing"],
        &["resolve", "nobody"],
        &["append", "session/s", "--type", "session_ended", "--expect-seq", "7"],
        &["append", "note/n", "--type", "x", "--key", "has space"],
    ] {
        let mut direct = enjamb.command(arguments);
        direct.env("ENJAMB_DIRECT", "1");
        let here = answer(direct, b"");
        let there = answer(served.command(&served.unix(), arguments), b"");
        assert_eq!(there.exit, here.exit, "{arguments:?}: {}", there.err());
        assert_eq!(there.err(), here.err(), "{arguments:?}");
    }
}

#[test]
fn a_stream_is_followed_through_a_server() {
    let enjamb = Enjamb::with_store();
    let served = Served::begin(&enjamb);
    enjamb.append("note/n", r#"{"type":"x","n":0}"#);
    let mut command = served.command(&served.url, &["frames", "note/n", "--follow", "-n", "3"]);
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut first = String::new();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    out.read_line(&mut first).unwrap();
    enjamb.append("note/n", r#"{"type":"x","n":1}"#);
    enjamb.append("note/n", r#"{"type":"x","n":2}"#);
    let mut rest = String::new();
    out.read_to_string(&mut rest).unwrap();
    assert!(child.wait().unwrap().success());
    assert_eq!((first.contains("\"n\":0"), rest.lines().count()), (true, 2), "{first}{rest}");
}

#[test]
fn what_needs_the_store_itself_says_so_and_a_server_that_is_not_there_too() {
    let enjamb = Enjamb::with_store();
    let mut command = enjamb.command(&["backup", "elsewhere"]);
    command.env("ENJAMB_STORE", "http://127.0.0.1:1");
    let refused = answer(command, b"").exits(2);
    assert!(refused.err().contains("works on a store on this machine"), "{}", refused.err());
    let mut command = enjamb.command(&["append", "note/n", "--type", "x", "--json"]);
    command.env("ENJAMB_STORE", "http://127.0.0.1:1");
    let gone = answer(command, b"").exits(8).problem();
    assert_eq!((&gone["code"], &gone["outcome"]), (&"unreachable".into(), &"none".into()), "{gone}");
    let mut command = enjamb.command(&["streams"]);
    command.env("ENJAMB_STORE", "http://127.0.0.1:1").env("ENJAMB_TOKEN", "nonsense");
    assert!(answer(command, b"").exits(2).err().contains("ENJAMB_TOKEN holds no token"));
    let served = Served::begin(&enjamb);
    let mut command = enjamb.command(&["streams"]);
    command.env("ENJAMB_STORE", &served.url);
    let nobody = answer(command, b"").exits(7);
    assert!(nobody.err().starts_with("error: a valid token is needed"), "{}", nobody.err());
}

#[test]
fn a_context_of_a_server_is_resumed_and_checked_here() {
    let enjamb = Enjamb::with_store();
    let envelope = |kind: &str, id: &str, parent: Value, message: Value| {
        serde_json::json!({
            "type": kind, "uuid": id, "parentUuid": parent, "sessionId": "5d1c", "cwd": "/", "isSidechain": false,
            "userType": "external", "version": "2.0.0", "timestamp": "2026-01-01T00:00:01.000Z", "message": message,
        })
    };
    let asked = serde_json::json!({"role": "user", "content": "cap retries"});
    let said = serde_json::json!({
        "id": "msg_1", "type": "message", "role": "assistant", "model": "claude-x", "stop_reason": "end_turn",
        "content": [{"type": "text", "text": "done"}], "usage": {"input_tokens": 1, "output_tokens": 1},
    });
    let (first, second) = (envelope("user", "u1", Value::Null, asked), envelope("assistant", "a1", "u1".into(), said));
    let lines = format!("{first}\n{second}\n");
    let path = enjamb.file("5d1c.jsonl", lines);
    enjamb.run(&["import", &path]).done();
    let served = Served::begin(&enjamb);
    for store in [served.url.clone(), served.unix()] {
        let there = answer(served.command(&store, &["check", "@", "--json"]), b"").done();
        assert_eq!(there.out(), enjamb.run(&["check", "@", "--json"]).out());
        let resumed = answer(served.command(&store, &["resume", "@", "--json"]), b"").done().document();
        let written = std::fs::read_to_string(resumed["path"].as_str().unwrap()).unwrap();
        assert!(written.contains("cap retries") && resumed["tier"] == "native", "{resumed}");
    }
    let nobody = answer(served.command(&served.url, &["resume", "ctx-ffffffff"]), b"").exits(3);
    assert!(nobody.err().contains("no commit ctx-ffffffff"), "{}", nobody.err());
}

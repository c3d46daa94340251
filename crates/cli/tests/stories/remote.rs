//! Commands on a store that a server has: the same words, the same answers, the same failures.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::runner::{Answer, Enjamb, answer, finish};

/// A server on a home's store, and the ways to it.
struct Served<'e> {
    enjamb: &'e Enjamb,
    child: Option<Child>,
    url: String,
    token: String,
}

impl<'e> Served<'e> {
    fn begin(enjamb: &'e Enjamb) -> Self {
        let mut child = enjamb.command(&["serve", "--listen", "127.0.0.1:0", "--json"]).spawn().expect("it starts");
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().expect("a pipe")).read_line(&mut line).expect("it says where it listens");
        let told: Value = serde_json::from_str(&line).expect("a document");
        let token = std::fs::read_to_string(enjamb.store().join("token")).expect("a token").trim().to_owned();
        Self { enjamb, child: Some(child), url: told["url"].as_str().expect("an address").to_owned(), token }
    }

    fn unix(&self) -> String {
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
        let here = self.enjamb.run(arguments);
        for store in [self.url.clone(), self.unix()] {
            let there = answer(self.command(&store, arguments), b"");
            assert_eq!((there.exit, there.out()), (here.exit, here.out()), "{arguments:?} by {store}: {}", there.err());
            if here.exit != Some(0) {
                assert_eq!(there.err(), here.err(), "{arguments:?} by {store}");
            }
        }
        here
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
        let here = enjamb.run(arguments);
        let there = answer(served.command(&served.unix(), arguments), b"");
        assert_eq!(there.exit, here.exit, "{arguments:?}: {}", there.err());
        if arguments.last() != Some(&"--json") {
            assert_eq!(there.err(), here.err(), "{arguments:?}");
        }
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
    let mut command = enjamb.command(&["verify"]);
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

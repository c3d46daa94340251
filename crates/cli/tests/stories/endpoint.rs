//! `summarize --endpoint` and `compact --endpoint`, against a server on the loopback that says what the story wants.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use crate::commits::{chain, said};
use crate::expect::check_json;
use crate::runner::{Answer, Enjamb, answer};

const KEY: &str = "sk-very-secret";

/// What the server says to one request.
#[derive(Clone)]
struct Says {
    status: u16,
    headers: &'static str,
    body: String,
    after: Duration,
}

fn says(status: u16, body: impl ToString) -> Says {
    Says { status, headers: "", body: body.to_string(), after: Duration::ZERO }
}

/// An answer of Open Responses, which took so many tokens.
fn words(text: &str, input_tokens: u64, output_tokens: u64) -> Says {
    let content = json!([{"type": "output_text", "text": text}]);
    let usage = json!({"input_tokens": input_tokens, "output_tokens": output_tokens});
    says(200, json!({"output": [{"type": "message", "content": content}], "usage": usage}))
}

/// A server that says one thing after another, and keeps what it was asked.
struct Server {
    port: u16,
    asked: Receiver<(String, Value)>,
}

impl Server {
    fn saying(answers: Vec<Says>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = listener.local_addr().expect("an address").port();
        let (tell, asked) = channel();
        thread::spawn(move || serve(&listener, answers.into(), &tell));
        Self { port, asked }
    }

    fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    /// The heads and bodies of the requests so far.
    fn asked(&self) -> Vec<(String, Value)> {
        self.asked.try_iter().collect()
    }
}

fn serve(listener: &TcpListener, mut answers: VecDeque<Says>, tell: &Sender<(String, Value)>) {
    for connection in listener.incoming() {
        let Ok(mut connection) = connection else { return };
        let Some(request) = request(&mut connection) else { continue };
        let Some(says) = answers.pop_front() else { return };
        if tell.send(request).is_err() {
            return;
        }
        thread::sleep(says.after);
        let Says { status, headers, body, .. } = says;
        let length = body.len();
        // Whoever asked may be gone.
        let _ = write!(
            connection,
            "HTTP/1.1 {status} X\r\ncontent-length: {length}\r\nconnection: close\r\n{headers}\r\n{body}"
        );
    }
}

fn request(connection: &mut TcpStream) -> Option<(String, Value)> {
    let mut reader = BufReader::new(connection);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head).ok()? == 0 {
            return None;
        }
    }
    let length = head.lines().find_map(|line| line.to_lowercase().strip_prefix("content-length: ")?.parse().ok())?;
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some((head.to_lowercase(), serde_json::from_slice(&body).ok()?))
}

/// Runs `summarize` against a server, with a key.
fn summarize(enjamb: &Enjamb, url: &str, more: &[&str]) -> Answer {
    let mut command = enjamb.command(&[&["summarize", "--endpoint", url, "--model", "small"], more].concat());
    command.env("ENJAMB_ENDPOINT_KEY", KEY);
    answer(command, b"")
}

fn summaries(enjamb: &Enjamb, ids: &[String]) -> Vec<Value> {
    ids.iter().map(|id| enjamb.json(&["show", id])["summary"].clone()).collect()
}

#[test]
fn a_model_is_asked_once_for_each_commit_and_told_no_more_than_it_needs() {
    let enjamb = Enjamb::new();
    let ids = chain(&enjamb);
    let answers = ["asks why", "finds\n two  sleeps", "compacts", "caps it"].map(|text| words(text, 90, 10));
    let server = Server::saying(answers.to_vec());
    let done = summarize(&enjamb, &server.url("/v1/responses"), &["--budget", "20000", "--json"]).document();
    let expected = json!({
        "schema": "enjamb.cli.summarize/1", "written": 4, "skipped": 0, "remaining": 0,
        "tokens": {"budget": 20000, "used": 400}, "stopped": null,
    });
    check_json(&done, &expected);
    assert_eq!(summaries(&enjamb, &ids), ["asks why", "finds two sleeps", "compacts", "caps it"]);
    let asked = server.asked();
    assert_eq!(asked.len(), 4);
    let (head, body) = &asked[0];
    assert!(
        head.starts_with("post /v1/responses ") && head.contains(&format!("authorization: bearer {KEY}")),
        "{head}"
    );
    assert_eq!((&body["model"], &body["store"]), (&json!("small"), &json!(false)));
    assert!(body["input"].as_str().is_some_and(|text| text.contains("why is checkout slow?")), "{body}");
    assert!(body["max_output_tokens"].as_u64().is_some_and(|most| most <= 400), "{body}");
    let again = summarize(&enjamb, &server.url("/v1/responses"), &["--budget", "20000", "--json"]).document();
    assert_eq!((&again["written"], &again["tokens"]["used"]), (&json!(0), &json!(0)), "there is nothing left to ask");
}

#[test]
fn every_dialect_is_spoken() {
    let chat = says(200, json!({"choices": [{"message": {"content": "in chat"}}]}));
    let messages = says(200, json!({"content": [{"type": "text", "text": "in messages"}]}));
    for (path, more, reply, expected, header) in [
        ("/v1/chat/completions", &[][..], chat.clone(), "in chat", "authorization: bearer "),
        ("/v1/messages", &[], messages, "in messages", "x-api-key: "),
        ("/odd", &["--api", "chat"], chat, "in chat", "authorization: bearer "),
    ] {
        let enjamb = Enjamb::new();
        let id = enjamb.run_with(&["checkpoint", "--format", "generic-v1"], said("user", "hello")).done().line();
        let server = Server::saying(vec![reply]);
        summarize(&enjamb, &server.url(path), &[&["--budget", "9999"], more].concat()).done();
        assert_eq!(summaries(&enjamb, &[id]), [expected]);
        let (head, body) = &server.asked()[0];
        assert!(head.contains(header), "{head}");
        assert!(body["max_tokens"].as_u64().is_some(), "{body}");
    }
}

#[test]
fn a_budget_is_never_exceeded() {
    let enjamb = Enjamb::new();
    let ids = chain(&enjamb);
    let server = Server::saying(vec![words("one", 700, 100), words("two", 700, 100), words("three", 1, 1)]);
    let answer = summarize(&enjamb, &server.url("/responses"), &["--budget", "2000", "--json"]).exits(10);
    let done: Value = serde_json::from_slice(&answer.stdout).expect("a document");
    assert_eq!((&done["written"], &done["remaining"], &done["stopped"]), (&json!(2), &json!(2), &json!("budget")));
    assert_eq!(done["tokens"], json!({"budget": 2000, "used": 1600}));
    let asked = server.asked();
    assert_eq!(asked.len(), 2, "what might not fit is not asked");
    for ((_, body), left) in asked.iter().zip([2000, 1200]) {
        let text = |member: &str| body[member].as_str().map_or(0, str::len) as u64;
        let most = text("instructions") + text("input") + body["max_output_tokens"].as_u64().expect("a bound");
        assert!(most <= left, "{most} of {left}");
    }
    assert_eq!(summaries(&enjamb, &ids), [json!("one"), json!("two"), Value::Null, Value::Null]);
    let shown = summarize(&enjamb, &server.url("/responses"), &["--budget", "10"]).exits(10);
    let out = shown.out();
    assert!(out.contains("used 0 of 10 tokens") && out.contains("left without a summary: 2 commits"), "{out}");
    assert!(shown.err().contains("10 tokens at most"), "{}", shown.err());
}

#[test]
fn what_no_provider_counted_is_charged_in_full() {
    let enjamb = Enjamb::new();
    chain(&enjamb);
    let uncounted = says(200, json!({"output": [{"type": "message", "content": "done"}]}));
    let server = Server::saying(vec![uncounted; 4]);
    let done = summarize(&enjamb, &server.url("/responses"), &["--budget", "1000", "--json"]).exits(10);
    let done: Value = serde_json::from_slice(&done.stdout).expect("a document");
    assert!(done["tokens"]["used"].as_u64().is_some_and(|used| (500..=1000).contains(&used)), "{done}");
    assert_eq!(done["written"], 1);
}

#[test]
fn a_failing_endpoint_is_named_and_loses_nothing() {
    let late = Says { after: Duration::from_secs(3), ..words("late", 1, 1) };
    let far = Says { headers: "retry-after: 3600\r\n", ..says(429, json!({"error": {"message": "slow down"}})) };
    let moved = Says { headers: "location: http://127.0.0.1:9/\r\n", ..says(302, "") };
    let denied = says(401, json!({"error": {"message": format!("bad key {KEY}")}}));
    for (reply, exit, expected) in [
        (late, 8, "timeout"),
        (far, 8, "asks to come back in 3600 s"),
        (says(200, "<html>"), 8, "no answer of its kind"),
        (says(400, json!({"error": {"message": "no such model"}})), 2, "it answered 400: no such model"),
        (denied, 7, "it answered 401: bad key …"),
        (moved, 2, "it answered 302"),
    ] {
        let enjamb = Enjamb::new();
        let ids = chain(&enjamb);
        let server = Server::saying(vec![words("first", 9, 1), reply]);
        let answer = summarize(&enjamb, &server.url("/responses"), &["--budget", "9000", "--timeout", "1"]).exits(exit);
        assert!(answer.err().contains(expected), "{}", answer.err());
        assert!(answer.out().contains("wrote 1 summary") && answer.out().contains("3 commits"), "{}", answer.out());
        assert!(!answer.err().contains(KEY) && !answer.out().contains(KEY), "{}", answer.err());
        assert_eq!(summaries(&enjamb, &ids)[..2], [json!("first"), Value::Null]);
    }
}

#[test]
fn who_is_told_to_wait_waits_and_asks_again() {
    let enjamb = Enjamb::new();
    let ids = chain(&enjamb);
    let wait = Says { headers: "retry-after: 0\r\n", ..says(429, "") };
    let broken = Says { headers: "retry-after: 0\r\n", ..says(503, "") };
    let server =
        Server::saying(vec![wait.clone(), broken.clone(), words("at last", 9, 1), broken.clone(), wait, broken]);
    let answer = summarize(&enjamb, &server.url("/responses"), &["--budget", "9000"]).exits(8);
    assert!(answer.err().contains("it answered 503"), "{}", answer.err());
    assert_eq!(server.asked().len(), 6);
    assert_eq!(summaries(&enjamb, &ids)[..2], [json!("at last"), Value::Null]);
}

#[test]
fn an_endpoint_is_asked_for_a_budget_and_keeps_the_key() {
    let enjamb = Enjamb::new();
    chain(&enjamb);
    for (arguments, expected) in [
        (&["summarize", "--endpoint", "http://127.0.0.1:9/responses", "--model", "m"][..], "--budget"),
        (&["summarize", "--endpoint", "http://127.0.0.1:9/responses", "--budget", "9"], "--model"),
        (&["summarize", "--budget", "9"], "--endpoint"),
        (&["summarize", "--endpoint", "http://127.0.0.1:9/", "--model", "m", "--budget", "9"], "/chat/completions"),
    ] {
        let answer = enjamb.run(arguments).exits(2);
        assert!(answer.err().contains(expected), "{}", answer.err());
    }
    let answer = summarize(&enjamb, "http://models.example/responses", &["--budget", "9"]).exits(2);
    assert!(answer.err().contains("https") && !answer.err().contains(KEY), "{}", answer.err());
    let nobody = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a port");
    let answer = summarize(&enjamb, &format!("http://{nobody}/responses"), &["--budget", "9000", "--json"]).exits(8);
    let done: Value = serde_json::from_slice(&answer.stdout).expect("a document");
    assert_eq!(done["tokens"]["used"], 0, "nobody was asked");
    assert!(answer.err().contains("endpoint-failed"), "{}", answer.err());
    let server = Server::saying(vec![words("in the clear", 1, 1)]);
    let url = server.url("/responses").replace("http:", "https:");
    let answer = summarize(&enjamb, &url, &["--budget", "9000", "--timeout", "5"]).exits(8);
    assert!(answer.err().contains(&url) && answer.out().contains("wrote 0 summaries"), "{}", answer.err());
    assert_eq!(server.asked().len(), 0, "nothing is said to who does not speak TLS");
    let frames = enjamb.run(&["frames", "context/agent/a"]).done().out();
    assert!(!frames.contains(KEY));
}

/// Runs `compact` against a server, with a key.
fn compact(enjamb: &Enjamb, target: &str, url: &str, more: &[&str]) -> Answer {
    let arguments = ["compact", target, "--endpoint", url, "--model", "small", "--json"];
    let mut command = enjamb.command(&[&arguments[..], more].concat());
    command.env("ENJAMB_ENDPOINT_KEY", KEY);
    answer(command, b"")
}

#[test]
fn a_model_writes_the_summary_of_a_job_and_it_is_recorded() {
    let enjamb = Enjamb::new();
    let id = crate::threads::thread(&enjamb);
    let long = "the retry loop in src/pay.rs sleeps twice ".repeat(20);
    crate::threads::post(&enjamb, &id, &long, &[]);
    let server = Server::saying(vec![words("# src/pay.rs sleeps twice", 900, 9), words(&long.repeat(3), 900, 900)]);
    let url = server.url("/v1/responses");
    let done = compact(&enjamb, &id, &url, &["--stride", "1", "--budget", "20000"]).done().document();
    assert_eq!(done["status"], "completed");
    let artifact = done["created"][0]["summary_artifact"].as_str().unwrap();
    let summary: Value = serde_json::from_str(&enjamb.run(&["get", artifact]).done().out()).unwrap();
    assert_eq!(summary["summary_markdown"], "# src/pay.rs sleeps twice");
    assert_eq!(summary["provenance"]["produced_by"], json!({"type": "job", "id": done["job_id"]}));
    let jobs = enjamb.run(&["job", "list", &id]).done().out();
    assert!(jobs.contains("compaction_model_summarizer_v1") && jobs.contains("completed"), "{jobs}");
    let (head, asked) = server.asked().remove(0);
    assert!(head.contains(&format!("bearer {KEY}")) && asked["input"].as_str().unwrap().contains(&long), "{asked}");

    crate::threads::post(&enjamb, &id, &long, &[]);
    let longer = compact(&enjamb, &id, &url, &["--stride", "2", "--budget", "20000"]).exits(10).document();
    assert!(longer["error"].as_str().unwrap().contains("what it stands for takes"), "{longer}");
    let short = compact(&enjamb, &id, &url, &["--stride", "2", "--budget", "100"]).exits(10).document();
    assert!(short["error"].as_str().unwrap().contains("and 100 of the budget are left"), "{short}");
    assert_eq!(server.asked().len(), 1, "what the budget may not cover is not asked");
    let both = compact(&enjamb, &id, &url, &["--cmd", "cat", "--budget", "1"]).exits(2).problem();
    assert!(both["title"].as_str().unwrap().contains("leave one out"), "{both}");
    let stored = enjamb.run(&["thread", "events", &id]).done().out();
    assert!(!stored.contains(KEY));
}

//! Tasks and runs through a server: it starts them, they go on without whoever asked, and they are its owner's alone.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Child;
use std::time::{Duration, Instant};

use enjamb_core::provider::Dialect;
use enjamb_testkit::provider::{LoopbackProvider, Script, Speech, Step};
use serde_json::{Value, json};

use crate::expect::check;
use crate::remote::Served;
use crate::runner::{Answer, Enjamb, answer, finish};
use crate::turns::configured;

fn by(served: &Served<'_>, arguments: &[&str]) -> Answer {
    answer(served.command(&served.unix(), arguments), b"")
}

/// Asks as another program does: status and document.
fn http(served: &Served<'_>, token: &str, method: &str, path: &str, body: &Value) -> (u16, Value) {
    let address = served.url.strip_prefix("http://").expect("an address");
    let mut stream = TcpStream::connect(address).expect("a connection");
    let body = if method == "GET" { String::new() } else { body.to_string() };
    let request = format!(
        "{method} {path} HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {token}\r\ncontent-type: application/json\r\n\
         content-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).expect("it is sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it is answered");
    let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
    let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    (status, serde_json::from_str(body).unwrap_or(Value::Null))
}

/// Waits until something holds.
#[track_caller]
fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < Duration::from_secs(60), "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_task_is_started_by_a_server_and_outlives_who_asked() {
    let enjamb = Enjamb::with_store();
    let served = Served::begin(&enjamb);
    let dir = enjamb.home().display().to_string();
    let run = ["task", "run", "--cwd", &dir, "--title", "words", "--shell", "pwd; echo err >&2; exec sleep 600"];
    let task = by(&served, &run).done().line();
    until("it writes", || by(&served, &["task", "output", &task]).done().out().contains(&dir));
    assert_eq!(by(&served, &["task", "status", &task, "--json"]).done().document()["status"], "running");
    check(&by(&served, &["task", "list"]).done().out(), &format!("{task}\trunning\t[..]\twords\n"));
    check(&by(&served, &["task", "output", &task, "--stream", "stderr", "--range", "1-2"]).done().out(), "rr");
    let ended = by(&served, &["task", "cancel", &task, "--reason", "enough", "--json"]).done().document();
    assert_eq!(ended["status"], "cancelled", "{ended}");
    let events = by(&served, &["task", "events", &task]).done().out();
    assert!(events.lines().next().is_some_and(|line| line.contains("tool_task_spawned")), "{events}");
    let terminal = by(&served, &["task", "run", "--pty", "--shell", "read x; echo \"<$x>\"; stty size"]).done().line();
    by(&served, &["task", "resize", &terminal, "50", "120"]).done();
    by(&served, &["task", "stdin", &terminal, "hello"]).done();
    let said = by(&served, &["task", "output", &terminal, "--follow"]).done().out();
    assert!(said.contains("<hello>") && said.contains("50 120"), "{said:?}");
    for arguments in [
        &["task", "status", "nobody"][..],
        &["task", "signal", &task, "INT"],
        &["task", "signal", &task, "HUH"],
        &["task", "run", "--", "/no/such/program"],
    ] {
        let arguments = [&["--json"], arguments].concat();
        let (here, there) = (enjamb.run(&arguments), by(&served, &arguments));
        let code_of = |answer: &Answer| answer.problem()["code"].clone();
        assert_eq!((here.exit, code_of(&here)), (there.exit, code_of(&there)), "{arguments:?}");
    }
    enjamb.run(&["verify"]).done();
}

#[test]
fn tasks_of_the_seed_project_are_answered_as_it_answers_them() {
    let enjamb = Enjamb::with_store();
    let served = Served::begin(&enjamb);
    let ask = |method: &str, path: &str, body: Value| http(&served, &served.token, method, path, &body);
    let spawn = json!({"tool": "bash", "args": {"command": "printf hello; sleep 600"}, "title": "t", "unknown": 1});
    let (status, made) = ask("POST", "/tasks", spawn);
    assert_eq!(status, 201, "{made}");
    let task = made["task_id"].as_str().expect("an id");
    let output = format!("/tasks/{task}/output?offset_bytes=1&max_bytes=3");
    until("it writes", || ask("GET", &output, json!(null)).1["content"] == "ell");
    assert_eq!(ask("GET", &output, json!(null)).1["truncated"], true);
    assert_eq!(ask("GET", "/tasks", json!(null)).1[0]["status"], "running");
    assert_eq!(ask("POST", &format!("/tasks/{task}/stdin"), json!({"chunk_b64": "eA=="})).0, 400);
    assert_eq!(ask("POST", &format!("/tasks/{task}/cancel"), json!({})), (202, Value::Null));
    until("it ends", || ask("GET", &format!("/tasks/{task}"), json!(null)).1["status"] == "cancelled");
    assert_eq!(ask("POST", "/tasks", json!({"tool": "rm", "args": {}})).0, 400);
    assert_eq!(ask("GET", "/tasks/5d1c90ab-7a41-4b1e-9f53-2d1f6a0c9e10", json!(null)).0, 404);
    let mut create = enjamb.command(&["token", "create", "--scope", "admin"]);
    create.env("ENJAMB_DIRECT", "1");
    let token = answer(create, b"").done().line();
    let spawn = json!({"tool": "bash", "args": {"command": "exit"}});
    assert_eq!(http(&served, &token, "POST", "/tasks", &spawn).0, 403, "no token runs programs");
    let (status, problem) = http(&served, &token, "POST", "/v1/tasks", &json!({"shell": "exit"}));
    assert_eq!((status, &problem["code"]), (403, &json!("missing-scope")));
}

fn thread(enjamb: &Enjamb) -> String {
    enjamb.run(&["thread", "create"]).done().line()
}

fn hello() -> Script {
    Script::events(Speech::new(Dialect::Responses).text("hel").text("lo").end(10, 2))
}

/// An answer that begins, and goes on after a while.
fn stalls(pause: Duration) -> Script {
    let begun = Speech::new(Dialect::Responses).text("hel").unfinished();
    hello().cut_at(begun.len(), Step::Pause(pause))
}

/// Starts a command that shows the beginning of an answer.
fn begun(served: &Served<'_>, arguments: &[&str]) -> Child {
    let mut child = served.command(&served.unix(), arguments).spawn().expect("it starts");
    let mut shown = [0; 3];
    child.stdout.as_mut().expect("it is piped").read_exact(&mut shown).expect("it says something");
    assert_eq!(&shown, b"hel");
    child
}

fn last_of(enjamb: &Enjamb, thread: &str) -> Value {
    let frames = enjamb.run(&["frames", &format!("continuity/{thread}")]).done().out();
    serde_json::from_str(frames.lines().last().expect("a frame")).expect("a frame")
}

#[test]
fn a_server_asks_with_its_own_settings_and_its_words_are_followed() {
    let enjamb = Enjamb::with_store();
    let refused = Script::refusal(401, r#"{"error":{"message":"no such key"}}"#);
    let provider = LoopbackProvider::saying(vec![hello(), hello(), refused]);
    configured(&enjamb, &provider, "");
    let served = Served::begin(&enjamb);
    let id = thread(&enjamb);
    let said = by(&served, &["thread", "post", &id, "hi", "--run", "--model", "other"]).done();
    assert_eq!(said.out(), "hello\n", "{}", said.err());
    check(&said.err(), "run [..] · 10 tokens read, 2 written · ctx-[..]\n");
    assert_eq!(provider.asked()[0].body["model"], "other");
    let post = ["thread", "post", &id, "again", "--run", "--json", "--key", "k"];
    let done = by(&served, &post).done().document();
    assert_eq!(
        (&done["text"], &done["reason"], &done["replayed"]),
        (&json!("hello"), &json!("completed"), &json!(false))
    );
    assert_eq!(
        enjamb.json(&["log", done["commit"].as_str().expect("a commit")])["contexts"].as_array().map(Vec::len),
        Some(2)
    );
    let again = by(&served, &post).done().document();
    assert_eq!((&again["run"], &again["replayed"], &again["commit"]), (&done["run"], &json!(true), &done["commit"]));
    let wrong = by(&served, &["thread", "post", &id, "hi", "--run"]).exits(7);
    assert!(wrong.err().contains("no such key"), "{}", wrong.err());
    let flag = by(&served, &["thread", "post", &id, "hi", "--run", "--endpoint", "http://127.0.0.1:9/v1/responses"]);
    assert!(flag.exits(2).err().contains("--endpoint"));
    assert_eq!(provider.asked().len(), 3);
}

#[test]
fn a_run_goes_on_without_who_asked_and_is_called_off_by_ctrl_c() {
    let enjamb = Enjamb::with_store();
    let provider = LoopbackProvider::saying(vec![stalls(Duration::from_secs(1)), stalls(Duration::from_secs(600))]);
    configured(&enjamb, &provider, "");
    let served = Served::begin(&enjamb);
    let id = thread(&enjamb);
    let mut child = begun(&served, &["thread", "post", &id, "hi", "--run"]);
    child.kill().expect("it is killed");
    finish(child);
    until("the run ends", || last_of(&enjamb, &id)["type"] == "continuity_run_ended");
    assert_eq!(last_of(&enjamb, &id)["reason"], "completed", "though nobody listened");
    let child = begun(&served, &["thread", "post", &id, "hi", "--run"]);
    let sent = std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(sent.expect("kill runs").success());
    assert_eq!(finish(child).exit, Some(8));
    assert_eq!(last_of(&enjamb, &id)["reason"], "cancelled");
    enjamb.run(&["verify"]).done();
}

#[test]
fn a_server_that_ends_calls_its_runs_off() {
    let enjamb = Enjamb::with_store();
    let provider = LoopbackProvider::saying(vec![stalls(Duration::from_secs(600))]);
    configured(&enjamb, &provider, "");
    let id = thread(&enjamb);
    let served = Served::begin(&enjamb);
    let mut child = begun(&served, &["thread", "post", &id, "hi", "--run"]);
    child.kill().expect("it is killed");
    finish(child);
    drop(served);
    assert_eq!(last_of(&enjamb, &id)["reason"], "cancelled");
    enjamb.run(&["verify"]).done();
}

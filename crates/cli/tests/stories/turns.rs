//! `thread post --run`, against a provider on the loopback: answers as they come, ends with their reasons, and a key that
//! is nowhere.

use std::io::Read;
use std::process::Child;
use std::time::Duration;

use enjamb_core::provider::Dialect;
use enjamb_testkit::provider::{LoopbackProvider, Script, Speech, Step};
use serde_json::{Value, json};

use crate::expect::{check, check_json};
use crate::runner::{Answer, Enjamb, answer, finish};

const KEY: &str = "sk-very-secret-key";

fn thread(enjamb: &Enjamb) -> String {
    enjamb.run(&["thread", "create"]).done().line()
}

fn hello() -> Script {
    Script::events(Speech::new(Dialect::Responses).text("hel").text("lo").end(10, 2))
}

/// An answer that begins, and then nothing for a long time.
fn stalls() -> Script {
    let begun = Speech::new(Dialect::Responses).text("hel").unfinished();
    hello().cut_at(begun.len(), Step::Pause(Duration::from_secs(600)))
}

/// The command that posts and runs, with a key.
fn running(enjamb: &Enjamb, thread: &str, server: &LoopbackProvider, more: &[&str]) -> std::process::Command {
    let mut command = enjamb.command(&[&["thread", "post", thread, "hi", "--run"], more].concat());
    command.env("ENJAMB_ENDPOINT", server.url("/v1/responses")).env("ENJAMB_MODEL", "small");
    command.env("ENJAMB_ENDPOINT_KEY", KEY).env("ENJAMB_BUDGET_TOKENS", "100000");
    command
}

fn run(enjamb: &Enjamb, thread: &str, script: Script, more: &[&str]) -> Answer {
    let server = LoopbackProvider::saying(vec![script]);
    answer(running(enjamb, thread, &server, more), b"")
}

/// Starts a run that stalls, and waits until what came of it is shown.
fn stalled(enjamb: &Enjamb, thread: &str) -> Child {
    let server = LoopbackProvider::saying(vec![stalls()]);
    let mut child = running(enjamb, thread, &server, &[]).spawn().expect("the command starts");
    let mut shown = [0; 3];
    child.stdout.as_mut().expect("it is piped").read_exact(&mut shown).expect("it says something");
    assert_eq!(&shown, b"hel");
    child
}

fn events(enjamb: &Enjamb, stream: &str) -> Vec<Value> {
    let events = enjamb.run(&["frames", stream]).done().out();
    events.lines().map(|line| serde_json::from_str(line).expect("a frame")).collect()
}

fn signal(child: &Child, name: &str) {
    let sent = std::process::Command::new("kill").args([name, &child.id().to_string()]).status();
    assert!(sent.expect("kill runs").success());
}

#[test]
fn an_answer_is_shown_and_kept_and_can_be_gone_on_from() {
    let enjamb = Enjamb::new();
    let id = thread(&enjamb);
    let said = run(&enjamb, &id, hello(), &["--prices", "3,15"]).done();
    assert_eq!(said.out(), "hello\n");
    check(&said.err(), "run [..] · 10 tokens read, 2 written · $0.000060 · ctx-[..]\n");
    let done = run(&enjamb, &id, hello(), &["--json", "--dump-request"]).document();
    let expected = json!({
        "schema": "enjamb.cli.thread_run/1", "thread_id": id, "message_id": done["message_id"], "run": done["run"],
        "text": "hello", "reason": "completed", "detail": "", "cost_usd": null, "requests": 1, "tool_calls": 0,
        "usage": {
            "input_tokens": 10, "output_tokens": 2, "cache_read_tokens": 0, "cache_write_tokens": 0, "measured": false,
        },
        "commit": done["commit"], "replayed": false,
    });
    check_json(&done, &expected);
    let commit = done["commit"].as_str().expect("a commit");
    assert_eq!(enjamb.json(&["log", commit])["contexts"].as_array().map(Vec::len), Some(2));
    enjamb.run(&["fork", commit, "-n", "try"]).done();
    let narrative = enjamb.run(&["materialize", commit, "--format", "narrative"]).done().out();
    assert_eq!(narrative.matches("hello").count(), 2, "{narrative}");
    let cursor = enjamb.json(&["cursor", "status", &id]);
    assert_eq!(cursor["active"]["cursor"], json!({"previous_response_id": "resp_1"}), "{cursor}");
    let session = events(&enjamb, &format!("session/{}", done["run"].as_str().expect("a run")));
    let dumped = session.iter().find(|frame| frame["type"] == "openresponses_request").expect("a dump");
    let body =
        enjamb.run(&["get", &format!("art-{}", dumped["body_artifact_id"].as_str().expect("an id"))]).done().out();
    assert!(body.contains(r#""role":"user""#) && !body.contains(KEY), "{body}");
    enjamb.run(&["verify"]).done();
}

#[test]
fn without_a_provider_nothing_is_posted_and_it_says_what_to_set() {
    let enjamb = Enjamb::new();
    let id = thread(&enjamb);
    let problem = enjamb.run(&["thread", "post", &id, "hi", "--run", "--json"]).exits(2).problem();
    assert_eq!(problem["code"], "no-provider");
    for variable in ["ENJAMB_ENDPOINT", "ENJAMB_MODEL", "ENJAMB_ENDPOINT_KEY"] {
        assert!(problem["help"].as_str().is_some_and(|help| help.contains(variable)), "{problem}");
    }
    let endpoint = ["--endpoint", "http://127.0.0.1:9/v1/responses"];
    let unbounded = enjamb.run(&[&["thread", "post", &id, "hi", "--run", "--json"][..], &endpoint].concat());
    assert_eq!(unbounded.exits(2).problem()["code"], "no-budget");
    let words = ["thread", "post", &id, "hi", "--run", "--json", "--budget", "1000"];
    let post = |more: &[&str]| enjamb.run(&[&words[..], more].concat());
    assert_eq!(post(&["--endpoint", "ftp://a/responses"]).exits(2).problem()["code"], "bad-request");
    assert_eq!(post(&["--endpoint", "http://a.example/v1"]).exits(2).problem()["code"], "bad-request");
    let prices = ["--endpoint", "http://127.0.0.1:9/v1/responses", "--prices", "cheap"];
    assert_eq!(post(&prices).exits(2).problem()["code"], "bad-request");
    assert_eq!(enjamb.json(&["thread", "get", &id])["frames"], 1, "nothing was posted");
}

#[test]
fn every_end_has_its_code_and_what_came_is_kept() {
    let begun = Speech::new(Dialect::Responses).text("hel");
    let cut = Script::events(begun.unfinished());
    let key = json!({"error": {"message": format!("wrong key {KEY}")}}).to_string();
    let long = Script::refusal(429, "{}").header("retry-after", "9999");
    for (script, more, exit, code, out) in [
        (cut, &[][..], 8, "run-stream-cut", "hel\n"),
        (stalls(), &["--timeout", "3"][..], 8, "run-timeout", "hel\n"),
        (Script::refusal(401, &key), &[], 7, "run-unauthorized", ""),
        (Script::refusal(400, "{}"), &[], 2, "run-invalid-request", ""),
        (long, &[], 8, "run-rate-limited", ""),
        (hello(), &["--budget", "3"], 2, "run-over-budget", ""),
    ] {
        let enjamb = Enjamb::new();
        let id = thread(&enjamb);
        let ended = run(&enjamb, &id, script.clone(), more);
        assert_eq!(ended.out(), out, "{code}");
        assert!(!ended.err().contains(KEY) && ended.err().contains("run "), "{}", ended.err());
        let problem = run(&enjamb, &id, script, &[more, &["--json"]].concat()).exits(exit);
        let problem: Value = serde_json::from_str(problem.err().lines().last().expect("a line")).expect("a problem");
        assert_eq!(problem["code"], code, "{problem}");
        let last = events(&enjamb, &format!("continuity/{id}")).pop().expect("a frame");
        assert_eq!(last["type"], "continuity_run_ended");
        enjamb.run(&["verify"]).done();
    }
}

#[test]
fn a_run_that_was_killed_is_ended_by_the_next_command_and_loses_nothing() {
    let enjamb = Enjamb::new();
    let id = thread(&enjamb);
    let child = stalled(&enjamb, &id);
    let running = enjamb.run(&["thread", "get", &id]).done();
    assert_eq!(running.err(), "", "a run that goes on is left alone");
    signal(&child, "-KILL");
    assert_eq!(finish(child).exit, None);
    let next = enjamb.run(&["thread", "get", &id]).done();
    check(&next.err(), "run [..] was cut off: it is ended as interrupted, and what came is kept\n");
    let thread = events(&enjamb, &format!("continuity/{id}"));
    let last = thread.last().expect("a frame");
    assert_eq!((&last["type"], &last["reason"]), (&json!("continuity_run_ended"), &json!("interrupted")));
    let session = events(&enjamb, &format!("session/{}", last["run_session_id"].as_str().expect("a run")));
    let said: String = session.iter().filter_map(|frame| frame["delta"].as_str()).collect();
    assert_eq!(said, "hel");
    assert_eq!(enjamb.run(&["thread", "get", &id]).done().err(), "", "once");
    enjamb.run(&["verify"]).done();
}

#[test]
fn ctrl_c_ends_the_run_in_good_order() {
    let enjamb = Enjamb::new();
    let id = thread(&enjamb);
    let child = stalled(&enjamb, &id);
    signal(&child, "-INT");
    let ended = finish(child);
    assert_eq!(ended.exit, Some(8));
    assert!(String::from_utf8_lossy(&ended.stderr).contains("cancelled"));
    let last = events(&enjamb, &format!("continuity/{id}")).pop().expect("a frame");
    assert_eq!((&last["type"], &last["reason"]), (&json!("continuity_run_ended"), &json!("cancelled")));
}

#[test]
fn the_key_is_nowhere_in_the_store() {
    let enjamb = Enjamb::new();
    let id = thread(&enjamb);
    let echo = Speech::new(Dialect::Responses).text(&format!("your key is {KEY}")).end(1, 1);
    let said = run(&enjamb, &id, Script::events(echo).byte_by_byte(), &["--dump-request"]).done();
    assert_eq!(said.out(), "your key is [key]\n");
    let found = std::process::Command::new("grep").args(["-r", "-l", "-a", KEY]).arg(enjamb.store()).output();
    assert_eq!(String::from_utf8_lossy(&found.expect("grep runs").stdout), "");
    let exported = enjamb.run(&["frames", "export"]).done().out();
    assert!(!exported.contains(KEY));
}

/// A home whose config file names a provider and tools.
pub fn configured(enjamb: &Enjamb, server: &LoopbackProvider, more: &str) {
    let dir = enjamb.home().join(".config/enjamb");
    std::fs::create_dir_all(&dir).expect("a directory for settings");
    let text = format!(
        "[provider]\nendpoint = \"{}\"\nmodel = \"small\"\nbudget_tokens = 100000\n{more}",
        server.url("/v1/responses")
    );
    std::fs::write(dir.join("config.toml"), text).expect("a file of settings");
}

#[test]
fn tools_are_those_of_the_config_file_and_of_the_servers_it_names() {
    let enjamb = Enjamb::new();
    let workspace = enjamb.path("work");
    std::fs::create_dir(&workspace).expect("a workspace");
    let id = enjamb.run(&["thread", "create", "--workspace", &workspace]).done().line();
    let call = |at: &str, name: &str, arguments: Value| {
        Script::events(Speech::new(Dialect::Responses).call(at, name, &arguments.to_string()).end(1, 1))
    };
    let done = Script::events(Speech::new(Dialect::Responses).text("done").end(1, 1));
    let server = LoopbackProvider::saying(vec![
        call("c1", "touch", json!({"path": "new.txt"})),
        call("c2", "memory__context_search", json!({"q": "inspect"})),
        call("c3", "touch", json!({"path": "../outside.txt"})),
        call("c4", "touch", json!({"file": "new.txt"})),
        call("c5", "rm", json!({})),
        done,
    ]);
    let binary = env!("CARGO_BIN_EXE_enjamb");
    let schema =
        r#"{"type":"object","properties":{"path":{"type":"string"}},"required":["path"],"additionalProperties":false}"#;
    let tools = format!(
        "[tool.touch]\ncommand = [\"touch\", \"{{path}}\"]\npaths = [\"path\"]\nschema = '{schema}'\n\
         [mcp.memory]\ncommand = [\"{binary}\", \"--store\", \"{}\", \"mcp\"]\nread_only = [\"context_search\"]\n",
        enjamb.store().display()
    );
    configured(&enjamb, &server, &tools);
    let said = enjamb.run(&["thread", "post", &id, "inspect everything", "--run"]).done();
    assert_eq!(said.out(), "done\n", "{}", said.err());
    assert!(enjamb.home().join("work/new.txt").exists() && !enjamb.home().join("outside.txt").exists());
    let asked = server.asked();
    let told = |at: usize| -> Value {
        let output =
            asked[at].body["input"].as_array().and_then(|input| input.last()).expect("a result")["output"].clone();
        serde_json::from_str(output.as_str().expect("text")).expect("a result is JSON")
    };
    assert_eq!(told(1)["ok"], true, "{}", told(1));
    assert!(told(2)["stdout"].as_str().is_some_and(|out| out.contains(&id)), "{}", told(2));
    for (at, begin) in [(3, "path outside the workspace"), (4, "invalid arguments"), (5, "unknown tool")] {
        assert!(told(at)["error"].as_str().is_some_and(|error| error.starts_with(begin)), "{}", told(at));
    }
    let listed = enjamb.json(&["tool", "list"]);
    assert_eq!(listed["tools"][0], json!({"name": "touch", "effect": "mutating", "description": ""}));
    let checked = |name: &str, arguments: &str| enjamb.run(&["tool", "check", name, arguments, "--json"]);
    checked("touch", r#"{"path":"a"}"#).done();
    for (name, arguments, exit, code) in [
        ("rm", "{}", 3, "unknown-tool"),
        ("touch", "{", 2, "invalid-arguments"),
        ("touch", "{}", 2, "invalid-arguments"),
        ("touch", r#"{"path":"/etc/passwd"}"#, 7, "path-outside-workspace"),
    ] {
        assert_eq!(checked(name, arguments).exits(exit).problem()["code"], code);
    }
    let thread = events(&enjamb, &format!("continuity/{id}"));
    let effects = thread.iter().find(|frame| frame["type"] == "continuity_tool_side_effects").expect("side effects");
    assert_eq!((&effects["tool_name"], &effects["affected_paths"]), (&json!("touch"), &json!(["new.txt"])));
    let checkpoint = effects["checkpoint_id"].as_str().expect("a checkpoint");
    let diff = enjamb.run(&["workspace", "diff", checkpoint, "--root", &workspace]).out();
    assert!(diff.contains("new.txt"), "{diff}");
    enjamb.run(&["verify"]).done();
}

#[test]
fn a_run_is_forked_with_the_files_that_its_tools_left() {
    let enjamb = Enjamb::new();
    let workspace = enjamb.path("work");
    std::fs::create_dir(&workspace).expect("a workspace");
    let git = |words: &[&str]| {
        let mut command = std::process::Command::new("git");
        enjamb.settle(&mut command);
        command.args(["-c", "user.name=n", "-c", "user.email=n@example.org", "-C", &workspace]).args(words);
        answer(command, b"").done();
    };
    let file = |name: &str| enjamb.home().join(name);
    std::fs::write(file("work/kept"), "committed").expect("a file");
    git(&["init", "-q"]);
    git(&["add", "kept"]);
    git(&["commit", "-q", "-m", "one"]);
    let id = enjamb.run(&["thread", "create", "--workspace", &workspace]).done().line();
    let call = |at: &str, text: &str| {
        let arguments = json!({"path": "made", "text": text}).to_string();
        Script::events(Speech::new(Dialect::Responses).call(at, "write", &arguments).end(1, 1))
    };
    let done = Script::events(Speech::new(Dialect::Responses).text("done").end(1, 1));
    let server = LoopbackProvider::saying(vec![call("c1", "first"), call("c2", "second"), done]);
    let schema = r#"{"type":"object","properties":{"path":{"type":"string"},"text":{"type":"string"}}}"#;
    let write = r#"["sh", "-c", "cat > /dev/null; printf %s \"$1\" > \"$0\"", "{path}", "{text}"]"#;
    let tool = format!("[tool.write]\ncommand = {write}\npaths = [\"path\"]\nschema = '{schema}'\n");
    configured(&enjamb, &server, &tool);
    let ran = enjamb.json(&["thread", "post", &id, "write", "--run"]);
    let commit = ran["commit"].as_str().expect("a commit");
    std::fs::write(file("work/made"), "edited since").expect("a file");
    std::fs::write(file("work/kept"), "edited since").expect("a file");
    let forked = enjamb.json(&["fork", commit, "-n", "try", "--worktree", &enjamb.path("tree")]);
    assert_eq!((&forked["commit"], &forked["files"]), (&json!(commit), &json!(2)));
    let read = |name: &str| std::fs::read_to_string(file(name)).expect("a file");
    assert_eq!((read("tree/made"), read("tree/kept")), ("second".into(), "committed".into()));
    let mut list = enjamb.command(&["workspace", "list", "--json"]);
    let listed = answer(
        {
            list.current_dir(&workspace);
            list
        },
        b"",
    )
    .done()
    .document();
    let labels: Vec<_> = listed["checkpoints"].as_array().expect("rows").iter().map(|row| &row["label"]).collect();
    assert_eq!(labels, ["after:write", "auto:write", "after:write", "auto:write"]);
}

#[test]
fn a_run_that_was_killed_while_a_tool_ran_says_so_of_the_tool() {
    let enjamb = Enjamb::new();
    let workspace = enjamb.path("work");
    std::fs::create_dir(&workspace).expect("a workspace");
    let id = enjamb.run(&["thread", "create", "--workspace", &workspace]).done().line();
    let call = Speech::new(Dialect::Responses).text("let me. ").call("c", "slow", "{}").end(1, 1);
    let server = LoopbackProvider::saying(vec![Script::events(call)]);
    let slow = r#"["sh", "-c", "cat > /dev/null; echo begun; echo $$ > pid; exec sleep 600"]"#;
    configured(&enjamb, &server, &format!("[tool.slow]\ncommand = {slow}\n"));
    let child = enjamb.command(&["thread", "post", &id, "go", "--run"]).spawn().expect("it starts");
    let began = std::time::Instant::now();
    let pid = loop {
        let pid = std::fs::read_to_string(enjamb.home().join("work/pid")).unwrap_or_default();
        if pid.ends_with('\n') {
            break pid.trim().to_owned();
        }
        assert!(began.elapsed() < Duration::from_secs(60), "the tool does not begin");
        std::thread::sleep(Duration::from_millis(10));
    };
    signal(&child, "-KILL");
    finish(child);
    let next = enjamb.run(&["thread", "get", &id]).done();
    let _ = std::process::Command::new("kill").args(["-KILL", &pid]).status();
    assert!(next.err().contains("was cut off"), "{}", next.err());
    let last = events(&enjamb, &format!("continuity/{id}")).pop().expect("a frame");
    assert_eq!((&last["type"], &last["reason"]), (&json!("continuity_run_ended"), &json!("interrupted")));
    let session = events(&enjamb, &format!("session/{}", last["run_session_id"].as_str().expect("a run")));
    let failed = session.iter().find(|frame| frame["type"] == "tool_failed").expect("the tool has an end");
    assert_eq!(failed["error"], "interrupted");
    assert_eq!(session.iter().filter(|frame| frame["delta"] == "let me. ").count(), 1);
    let commit = enjamb.json(&["log", "@"])["contexts"][0]["id"].as_str().expect("a commit").to_owned();
    let before = session.iter().find(|frame| frame["type"] == "checkpoint_created").expect("a checkpoint");
    let shown = enjamb.json(&["show", &commit]);
    assert_eq!(shown["attributes"]["workspace_checkpoint"], before["checkpoint_id"], "{shown}");
    enjamb.run(&["verify"]).done();
}

#[test]
fn a_repository_names_neither_providers_nor_tools_by_itself() {
    let enjamb = Enjamb::new();
    let id = thread(&enjamb);
    let text = "[provider]\nendpoint = \"http://127.0.0.1:9/v1/responses\"\n[tool.evil]\ncommand = [\"true\"]\n";
    enjamb.file(".enjamb.toml", text);
    let problem = enjamb.run(&["thread", "post", &id, "hi", "--run", "--json"]).exits(2).problem();
    assert_eq!(problem["code"], "no-provider", "nobody said to trust it");
    let server = LoopbackProvider::saying(vec![]);
    for (more, says) in [
        ("retries = 99\n", "provider.retries"),
        ("modle = \"x\"\n", "provider.model"),
        ("price_read = \"cheap\"\n", "provider.price_read"),
        ("[tool.x]\ncommand = [\"true\"]\nschema = \"{\"\n", "tool.x.schema"),
        ("[tool.x]\neffect = \"mutating\"\n", "x"),
        ("[mcp.x]\ncommand = [\"/no/such/program\"]\n", "mcp server x"),
    ] {
        configured(&enjamb, &server, more);
        let refused = enjamb.run(&["thread", "post", &id, "hi", "--run"]);
        assert!(refused.exit != Some(0) && refused.err().contains(says), "{more}: {}", refused.err());
    }
    assert_eq!(enjamb.json(&["thread", "get", &id])["frames"], 1, "nothing was posted");
}

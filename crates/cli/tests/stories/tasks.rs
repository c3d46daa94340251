//! Commands in the background: they go on without whoever started them, and what they wrote is kept.

use std::fs;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::expect::{check, check_json};
use crate::runner::Enjamb;

fn shell(enjamb: &Enjamb, line: &str) -> String {
    enjamb.run(&["task", "run", "--shell", line]).done().line()
}

fn ended(enjamb: &Enjamb, task: &str) -> Value {
    enjamb.json(&["task", "status", task, "--wait"])
}

/// Waits until a task has written a word.
fn await_output(enjamb: &Enjamb, task: &str, word: &str) -> String {
    let began = Instant::now();
    loop {
        let out = enjamb.run(&["task", "output", task]).done().out();
        if out.contains(word) {
            return out;
        }
        assert!(began.elapsed() < Duration::from_secs(60), "{word} did not come: {out:?}");
        thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_task_outlives_the_command_that_started_it() {
    let enjamb = Enjamb::new();
    let task = enjamb
        .run(&["task", "run", "--title", "words", "--", "sh", "-c", "echo out; echo err >&2; exit 3"])
        .done()
        .line();
    let document = ended(&enjamb, &task);
    let log = |bytes: u64| json!({"artifact": "art-[..]", "bytes": bytes, "kept": bytes, "truncated": false});
    let expected = json!({
        "schema": "enjamb.cli.task/1", "task": task, "status": "exited", "command": "sh -c echo out; echo err >&2; exit 3",
        "title": "words", "cwd": "[..]", "mode": "pipes", "exit_code": 3, "spawned_at": "[..]", "ended_at": "[..]",
        "error": null, "logs": {"stdout": log(4), "stderr": log(4)},
    });
    check_json(&document, &expected);
    check(&enjamb.run(&["task", "output", &task[..8]]).done().out(), "out\n");
    check(&enjamb.run(&["task", "output", &task, "--stream", "stderr", "--range", "1-2"]).done().out(), "rr");
    check(&enjamb.run(&["task", "list"]).done().out(), &format!("{task}\texited 3\t[..]\twords\n"));
    let told = format!(
        "task     {task}\nstatus   exited 3\ncommand  sh -c echo out; echo err >&2; exit 3\ntitle    words\nin       [..]\n\
         began    [..]\ntook     [..] s\nstderr   4 B  art-[..]\nstdout   4 B  art-[..]\n"
    );
    check(&enjamb.run(&["task", "status", &task]).done().out(), &told);
    let events = enjamb.run(&["task", "events", &task]).done().out();
    let types: Vec<_> = events
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["type"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!((types[0].as_str(), types[1].as_str()), ("tool_task_spawned", "tool_task_status"));
    assert_eq!(types.last().unwrap(), "tool_task_status");
    enjamb.run(&["verify"]).done();
    assert_eq!(fs::read_dir(enjamb.store().join("tasks")).unwrap().count(), 0, "nothing is left behind");
}

#[test]
fn output_is_followed_until_the_end() {
    let enjamb = Enjamb::new();
    let task = shell(&enjamb, "for n in 1 2 3; do echo $n; sleep 0.2; done");
    check(&enjamb.run(&["task", "output", &task, "--follow"]).done().out(), "1\n2\n3\n");
    let followed = enjamb.run(&["task", "events", &task, "--follow"]).done().out();
    assert!(followed.lines().last().unwrap().contains("\"status\":\"exited\""), "{followed}");
}

#[test]
fn cancel_ends_what_a_task_started() {
    let enjamb = Enjamb::new();
    let task = shell(&enjamb, "trap '' TERM; sleep 300 & echo pid $!; wait; sleep 300");
    let out = await_output(&enjamb, &task, "\n");
    let pid = out.trim().rsplit(' ').next().unwrap().to_owned();
    let answer = enjamb.json(&["task", "cancel", &task, "--reason", "wrong branch", "--grace", "1s"]);
    assert_eq!((&answer["status"], &answer["exit_code"]), (&json!("cancelled"), &json!(137)));
    let events = enjamb.run(&["task", "events", &task]).done().out();
    assert!(
        events.contains(r#""type":"tool_task_cancelled","task_id":"#) && events.contains("wrong branch"),
        "{events}"
    );
    let began = Instant::now();
    while is_running(&pid) {
        assert!(began.elapsed() < Duration::from_secs(20), "process {pid} is still there");
        thread::sleep(Duration::from_millis(20));
    }
}

fn is_running(pid: &str) -> bool {
    fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
}

#[test]
fn a_terminal_is_spoken_to() {
    let enjamb = Enjamb::new();
    let line = "stty size; read line; echo got $line; read more; stty size; echo over";
    let task = enjamb.run(&["task", "run", "--pty", "--rows", "10", "--cols", "33", "--shell", line]).done().line();
    await_output(&enjamb, &task, "10 33");
    enjamb.run(&["task", "stdin", &task, "hello"]).done();
    await_output(&enjamb, &task, "got hello");
    enjamb.run(&["task", "resize", &task, "40", "120"]).done();
    enjamb.run_with(&["task", "stdin", &task], "more\n").done();
    let document = ended(&enjamb, &task);
    assert_eq!((&document["mode"], &document["exit_code"]), (&json!("pty"), &json!(0)));
    let out = enjamb.run(&["task", "output", &task]).done().out();
    assert!(out.contains("40 120") && out.contains("over"), "{out:?}");
}

#[test]
fn signals_go_to_the_group() {
    let enjamb = Enjamb::new();
    let task = shell(&enjamb, "trap 'echo interrupted; exit 7' INT; echo ready; while :; do sleep 0.05; done");
    await_output(&enjamb, &task, "ready");
    check_json(
        &enjamb.json(&["task", "signal", &task, "SIGINT"]),
        &json!({"schema": "enjamb.cli.task_signal/1", "task": task}),
    );
    assert_eq!(ended(&enjamb, &task)["exit_code"], 7);
    assert!(enjamb.run(&["task", "events", &task]).done().out().contains(r#""type":"tool_task_signalled""#));
}

/// The supervisor of a task: whoever has its lock open.
fn supervisor_of(enjamb: &Enjamb, task: &str) -> u32 {
    let lock: PathBuf = enjamb.store().canonicalize().unwrap().join("tasks").join(task).join("lock");
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let holds = |pid: &u32| {
        let open = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
        open.filter_map(|fd| fs::read_link(fd.path()).ok()).any(|path| path == lock)
    };
    pids.into_iter().find(holds).expect("somebody runs it")
}

#[test]
fn a_task_whose_supervisor_is_killed_is_ended_by_the_next_command() {
    let enjamb = Enjamb::new();
    let task = shell(&enjamb, "echo before; sleep 300");
    await_output(&enjamb, &task, "before");
    let supervisor = supervisor_of(&enjamb, &task).to_string();
    assert!(std::process::Command::new("kill").args(["-9", &supervisor]).status().unwrap().success());
    while is_running(&supervisor) {
        thread::sleep(Duration::from_millis(10));
    }
    enjamb.run(&["status"]).done();
    let document = enjamb.json(&["task", "status", &task]);
    assert_eq!(document["status"], "failed");
    assert!(document["error"].as_str().unwrap().starts_with("supervisor lost"), "{document}");
    check(&enjamb.run(&["task", "output", &task]).done().out(), "before\n");
    enjamb.run(&["verify"]).done();
}

#[test]
fn what_cannot_be_done_is_refused_with_a_code() {
    let enjamb = Enjamb::with_store();
    let code = |arguments: &[&str]| {
        let answer = enjamb.run(&[&["task"], arguments, &["--json"]].concat());
        (answer.exit.unwrap_or(-1), answer.problem()["code"].as_str().unwrap_or_default().to_owned())
    };
    let is = |exit: i32, code: &str| (exit, code.to_owned());
    for verb in ["status", "output", "cancel", "events"] {
        assert_eq!(code(&[verb, "feedbeef"]), is(3, "not-found"));
    }
    assert_eq!(code(&["stdin", "feedbeef", "x"]), is(3, "not-found"));
    assert_eq!(code(&["run", "--json", "--", "/no/such/program"]), is(2, "task-not-started"));
    assert_eq!(code(&["run", "--shell", " "]), is(2, "task-without-command"));
    assert_eq!(code(&["run", "--shell", "true", "--cwd", "absent"]), is(2, "not-a-directory"));
    let task = shell(&enjamb, "sleep 300");
    assert_eq!(code(&["signal", &task, "USR1"]), is(2, "unknown-signal"));
    assert_eq!(code(&["resize", &task, "10", "20"]), is(2, "task-no-pty"));
    assert_eq!(code(&["stdin", &task, "x"]), is(2, "task-no-pty"));
    assert_eq!(code(&["output", &task, "--range", "5-1"]), is(2, "bad-request"));
    enjamb.run(&["task", "cancel", &task, "--grace", "0s"]).done();
    assert_eq!(code(&["cancel", &task]), is(5, "task-ended"));
    assert_eq!(code(&["signal", &task, "TERM"]), is(5, "task-ended"));
    let told = "error: no task feedbeef\nhelp:  enjamb task list\n";
    check(&enjamb.run(&["task", "status", "feedbeef"]).exits(3).err(), told);
}

#[test]
fn a_task_told_of_by_others_cannot_be_spoken_to() {
    let enjamb = Enjamb::with_store();
    let spawned = r#"{"type":"tool_task_spawned","task_id":"theirs","tool_name":"bash","args":{"command":"x"},"cwd":null,"title":null,"execution_mode":"pipes","origin_session_id":null,"artifacts":null}"#;
    enjamb.append("task/theirs", spawned);
    assert_eq!(enjamb.json(&["task", "status", "theirs"])["status"], "queued");
    assert_eq!(enjamb.run(&["task", "cancel", "theirs", "--json"]).exits(5).problem()["code"], "task-elsewhere");
}

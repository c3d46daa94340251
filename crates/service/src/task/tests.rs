//! Tasks run by threads of the test, as a supervisor would run them.

use std::sync::mpsc::channel;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use enjamb_core::frame::Frame;
use enjamb_ledger::Ledger;
use enjamb_testkit::home::Home;

use super::*;
use crate::{Env, Store};

/// A store with a task in it.
struct Desk {
    home: Home,
    store: Store,
}

impl Desk {
    fn new() -> Self {
        let home = Home::new();
        let store = Store::create(&home.store(), Env::system()).unwrap();
        Self { home, store }
    }

    /// Starts a task in a thread, and returns once it runs.
    fn start(&self, spec: TaskSpec) -> JoinHandle<()> {
        let (sender, receiver) = channel();
        let dir = self.home.store();
        let running = std::thread::spawn(move || {
            let store = Store::open(&dir, Env::system()).unwrap();
            store.supervise_task("t-one", &spec, |ready| sender.send(ready.is_ok()).unwrap()).unwrap();
        });
        assert!(receiver.recv().unwrap(), "the task starts");
        running
    }

    /// Runs a line of shell to its end.
    fn run(&self, line: &str) -> TaskView {
        self.start(shell(line)).join().unwrap();
        self.view()
    }

    fn view(&self) -> TaskView {
        self.store.task("t-one").unwrap()
    }

    fn output(&self, stream: &str) -> String {
        let mut bytes = Vec::new();
        let mut sink = |part: &[u8]| {
            bytes.extend_from_slice(part);
            Ok(())
        };
        self.store.task_output(&self.view(), Some(stream), 0..u64::MAX, &mut sink).unwrap();
        String::from_utf8(bytes).unwrap()
    }

    /// Waits until an output holds a word.
    fn await_output(&self, stream: &str, word: &str) {
        let began = Instant::now();
        while !self.output(stream).contains(word) {
            assert!(began.elapsed() < Duration::from_secs(20), "{word} did not come: {:?}", self.output(stream));
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn ask(&self, request: TaskRequest) {
        self.store.ask_task("t-one", &request).unwrap();
    }

    /// The types of the task's frames, each once where it comes several times in a row.
    fn story(&self) -> Vec<String> {
        let frames = self.store.ledger.frames(&stream_of("t-one").unwrap(), 0, 1_000).unwrap();
        let mut types: Vec<String> =
            frames.iter().map(|stored| Frame::parse(&stored.json).unwrap().body.type_name().to_owned()).collect();
        types.dedup();
        types
    }
}

fn shell(line: &str) -> TaskSpec {
    TaskSpec::new(TaskCommand::Shell(line.into()))
}

fn cancel(grace_ms: u64) -> TaskRequest {
    TaskRequest::Cancel { reason: "enough".into(), grace_ms }
}

#[test]
fn a_task_is_told_of_from_its_beginning_to_its_end() {
    let desk = Desk::new();
    let view = desk.run("echo out; echo err >&2; exit 3");
    assert_eq!((view.status.as_str(), view.exit_code, view.pty), ("exited", Some(3), false));
    assert_eq!((desk.output("stdout"), desk.output("stderr")), ("out\n".into(), "err\n".into()));
    let expected = ["tool_task_spawned", "tool_task_status", "tool_task_output_delta", "tool_task_status"];
    assert_eq!(desk.story(), expected);
    assert!(view.logs.iter().all(|log| log.artifact.is_some()), "{:?}", view.logs);
    assert!(!desk.store.task_dir("t-one").exists(), "nothing is left beside the log");
    assert_eq!(desk.store.ask_task("t-one", &cancel(0)).unwrap_err().code(), "task-ended");
    assert_eq!(desk.store.tasks(9).unwrap(), [view]);
}

#[test]
fn output_is_read_while_it_is_written_and_in_parts() {
    let desk = Desk::new();
    let running = desk.start(shell("printf 0123456789; sleep 30"));
    desk.await_output("stdout", "9");
    let mut part = Vec::new();
    let mut sink = |bytes: &[u8]| {
        part.extend_from_slice(bytes);
        Ok(())
    };
    assert_eq!(desk.store.task_output(&desk.view(), None, 3..5, &mut sink).unwrap(), 10);
    assert_eq!(part, b"34");
    desk.ask(cancel(0));
    running.join().unwrap();
    assert_eq!(desk.output("stdout"), "0123456789");
    let error = desk.store.task_output(&desk.view(), Some("pty"), 0..1, &mut |_| Ok(())).unwrap_err();
    assert_eq!(error.code(), "task-no-stream");
}

#[test]
fn cancel_ends_the_whole_group_and_says_so() {
    let desk = Desk::new();
    // The shell ignores being asked nicely, and so does what it started.
    let running = desk.start(shell("trap '' TERM; sleep 60 & echo $!; wait; sleep 60"));
    desk.await_output("stdout", "\n");
    let pid: i32 = desk.output("stdout").trim().parse().unwrap();
    let began = Instant::now();
    desk.ask(cancel(200));
    running.join().unwrap();
    assert!(began.elapsed() < Duration::from_secs(20));
    let view = desk.view();
    assert_eq!((view.status.as_str(), view.exit_code), ("cancelled", Some(137)));
    let mut story = desk.story();
    story.retain(|type_name| type_name != "tool_task_output_delta");
    let end = ["tool_task_cancel_requested", "tool_task_cancelled", "tool_task_status"];
    assert_eq!(story[story.len() - 3..], end);
    let gone = || rustix::process::test_kill_process(rustix::process::Pid::from_raw(pid).unwrap()).is_err();
    let stat = || std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    while !gone() && !stat().contains(") Z ") {
        assert!(began.elapsed() < Duration::from_secs(20), "{pid} still runs: {}", stat());
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_task_that_takes_too_long_is_cancelled() {
    let desk = Desk::new();
    desk.start(TaskSpec { timeout_ms: Some(100), ..shell("sleep 60") }).join().unwrap();
    assert_eq!(desk.view().status.as_str(), "cancelled");
}

#[test]
fn a_terminal_is_written_to_and_resized() {
    let desk = Desk::new();
    let running =
        desk.start(TaskSpec { pty: Some((10, 20)), ..shell("stty size; read line; stty size; echo got $line") });
    desk.await_output("pty", "10 20");
    desk.ask(TaskRequest::Resize { rows: 30, cols: 40 });
    desk.ask(TaskRequest::Stdin(b"hello\n".to_vec()));
    running.join().unwrap();
    let output = desk.output("pty");
    assert!(output.contains("30 40") && output.contains("got hello"), "{output:?}");
    let story = desk.story();
    assert!(story.contains(&"tool_task_resized".into()) && story.contains(&"tool_task_stdin_written".into()));
    assert_eq!(desk.view().exit_code, Some(0));
}

#[test]
fn pipes_are_no_terminal() {
    let desk = Desk::new();
    let running = desk.start(shell("sleep 60"));
    for request in [TaskRequest::Stdin(b"x".to_vec()), TaskRequest::Resize { rows: 1, cols: 1 }] {
        assert_eq!(desk.store.ask_task("t-one", &request).unwrap_err().code(), "task-no-pty");
    }
    let size = desk.store.ask_task("t-one", &TaskRequest::Resize { rows: 0, cols: 1 }).unwrap_err();
    assert_eq!(size.code(), "bad-terminal-size");
    desk.ask(TaskRequest::Signal { signal: TaskSignal::Kill, given: "SIGKILL".into() });
    running.join().unwrap();
    let view = desk.view();
    assert_eq!((view.status.as_str(), view.exit_code), ("exited", Some(137)));
    assert_eq!(view.error.as_deref(), Some("signal 9 ended it"));
}

#[test]
fn output_past_the_bound_is_counted_and_not_kept() {
    let desk = Desk::new();
    let spec = TaskSpec { output_bytes_max: 1_000, ..shell("head -c 300000 /dev/zero | tr '\\0' x") };
    desk.start(spec).join().unwrap();
    let log = desk.view().logs.into_iter().find(|log| log.stream == "stdout").unwrap();
    assert_eq!((log.total, log.stored), (300_000, 1_000));
    assert_eq!(desk.output("stdout").len(), 1_000);
}

#[test]
fn what_does_not_start_is_a_task_that_failed() {
    let desk = Desk::new();
    let spec = TaskSpec::new(TaskCommand::Words(vec!["/no/such/program".into()]));
    let mut code = "";
    desk.store.supervise_task("t-one", &spec, |ready| code = ready.as_ref().unwrap_err().code()).unwrap();
    assert_eq!(code, "task-not-started");
    let view = desk.view();
    assert_eq!(view.status.as_str(), "failed");
    assert!(view.error.unwrap().contains("No such file"), "says why");
    for line in ["", "  "] {
        desk.store.supervise_task("t-two", &shell(line), |ready| code = ready.as_ref().unwrap_err().code()).unwrap();
        assert_eq!(code, "task-without-command");
    }
    assert_eq!(desk.store.task("t-two").unwrap_err().code(), "not-found");
}

#[test]
fn a_task_that_nobody_runs_is_ended_and_keeps_its_output() {
    let desk = Desk::new();
    // As a supervisor that was killed leaves it: a directory, a lock that nobody holds, and a process that goes on.
    let dir = desk.store.task_dir("t-one");
    drop(dir.create().unwrap());
    let spawned = serde_json::json!({
        "type": "tool_task_spawned", "task_id": "t-one", "tool_name": "bash", "args": {"command": "sleep 60"}, "cwd": null,
        "title": null, "execution_mode": "pipes", "origin_session_id": null, "artifacts": null,
    });
    let line = crate::DraftLine { line: 1, json: spawned.to_string().into_bytes() };
    let stream = Some(stream_of("t-one").unwrap());
    desk.store.append(crate::Append { lines: vec![line], stream, ..crate::Append::default() }).unwrap();
    std::fs::write(dir.path.join("stdout"), "so far").unwrap();
    let started = child::start(&shell("sleep 60")).unwrap();
    let mut process = started.child;
    dir.write_process(&dir::Process::of(process.id(), 7)).unwrap();
    assert_eq!(desk.store.end_lost_tasks().unwrap(), ["t-one"]);
    assert!(!process.wait().unwrap().success(), "what was left of it was ended");
    let view = desk.view();
    assert_eq!(view.status.as_str(), "failed");
    assert!(view.error.unwrap().starts_with("supervisor lost"), "says why");
    assert_eq!(desk.output("stdout"), "so far");
    assert!(desk.store.end_lost_tasks().unwrap().is_empty(), "once");
}

#[test]
fn a_process_that_has_somebody_elses_number_is_left_alone() {
    let pid = std::process::id();
    let ours = dir::Process::of(pid, 0);
    assert!(ours.is_ours());
    let other = dir::Process { began: ours.began.map(|began| began + 1), ..ours.clone() };
    assert!(!other.is_ours());
    assert!(!dir::Process { began: None, ..ours }.is_ours());
}

#[test]
fn a_store_far_down_is_no_obstacle() {
    let home = Home::new();
    let far = home.store_named(&format!("{}/store", "d".repeat(90)));
    let store = Store::create(&far, Env::system()).unwrap();
    drop(store);
    let desk = Desk { store: Store::open(&far, Env::system()).unwrap(), home };
    let (sender, receiver) = channel();
    let running = std::thread::spawn(move || {
        let store = Store::open(&far, Env::system()).unwrap();
        store.supervise_task("t-one", &shell("sleep 60"), |ready| sender.send(ready.is_ok()).unwrap()).unwrap();
    });
    assert!(receiver.recv().unwrap());
    desk.ask(cancel(0));
    running.join().unwrap();
}

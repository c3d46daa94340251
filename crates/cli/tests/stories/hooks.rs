//! The one law of a hook: whatever happens, it ends with 0, says nothing, and does no work.

use std::fs;
use std::io::{Write, pipe};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use serde_json::json;

use crate::runner::{Answer, Enjamb, answer, finish};

const EVENT: &str = r#"{"session_id":"s","transcript_path":"/nowhere/s.jsonl","hook_event_name":"Stop"}"#;

#[track_caller]
fn obeys(answer: Answer) {
    let answer = answer.done();
    assert_eq!((answer.out(), answer.err()), (String::new(), String::new()));
}

/// What the command says of delivery.
fn delivery(enjamb: &Enjamb) -> serde_json::Value {
    enjamb.json(&["status"])["delivery"].clone()
}

fn missed(enjamb: &Enjamb) -> (u64, String) {
    let missed = delivery(enjamb)["missed"].clone();
    (missed["count"].as_u64().unwrap(), missed["why"].as_str().unwrap_or_default().to_owned())
}

#[test]
fn an_event_is_spooled_for_its_owner_alone() {
    let enjamb = Enjamb::with_store();
    obeys(enjamb.run_with(&["hook", "claude-code"], EVENT));
    obeys(enjamb.run_with(&["--store", enjamb.store().to_str().unwrap(), "hook", "codex"], EVENT));
    let spool = enjamb.store().join("spool");
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&spool), mode(&spool.join("events"))), (0o700, 0o600));
    let delivery = delivery(&enjamb);
    assert_eq!((&delivery["waiting"], &delivery["missed"]["count"]), (&json!(0), &json!(0)), "the spool is drained");
    for runtime in ["claude-code", "codex"] {
        assert_eq!(delivery["runtimes"][runtime]["last"]["event"], "Stop", "{delivery}");
    }
    assert!(!spool.join("events").exists());
}

#[test]
fn nothing_makes_a_hook_fail_or_speak() {
    let enjamb = Enjamb::with_store();
    let hook = |stdin: Stdio| {
        let mut command = enjamb.command(&["hook", "claude-code"]);
        command.stdin(stdin);
        answer(command, b"")
    };
    obeys(hook(Stdio::null()));
    obeys(hook(fs::File::open("/dev/zero").unwrap().into()));
    obeys(hook(fs::File::open(enjamb.home()).unwrap().into()));
    obeys(enjamb.run_with(&["hook", "claude-code"], b"\xff\xfe not json \0\n\n"));
    obeys(enjamb.run_with(&["hook", "claude-code"], vec![b'x'; 3 << 20]));
    let (reader, mut writer) = pipe().unwrap();
    writer.write_all(EVENT.as_bytes()).unwrap();
    let began = Instant::now();
    obeys(hook(reader.into()));
    assert!(began.elapsed().as_secs() < 10, "it does not wait for a pipe that stays open");
    drop(writer);
    assert_eq!(missed(&enjamb).0, 0);
    for arguments in [&["hook"][..], &["hook", "nobody"], &["hook", "claude-code", "--no-such-flag"]] {
        obeys(enjamb.run_with(arguments, EVENT));
    }
    assert_eq!(missed(&enjamb), (3, "no-such-runtime".into()));
}

#[test]
fn what_cannot_be_spooled_is_counted() {
    let enjamb = Enjamb::new();
    obeys(enjamb.run_with(&["hook", "claude-code"], EVENT));
    assert!(!enjamb.store().join("spool").exists(), "a hook makes no store");
    assert_eq!(enjamb.json(&["status"])["missed"], 1);
    assert!(enjamb.run(&["status"]).done().out().contains("1 event of hooks missed: there is no store"));
    enjamb.run(&["init"]).done();
    assert_eq!(missed(&enjamb), (1, "no-store".into()));
    fs::write(enjamb.store().join("spool"), b"a file").unwrap();
    obeys(enjamb.run_with(&["hook", "claude-code"], EVENT));
    assert_eq!(missed(&enjamb), (2, "failed".into()));
    fs::remove_file(enjamb.store().join("spool")).unwrap();
    enjamb.run(&["import"]).done();
    assert_eq!(missed(&enjamb).0, 0, "an import of everything makes up for it");
    let mut homeless = enjamb.command(&["hook", "codex"]);
    homeless.env_clear().env("TMPDIR", enjamb.home());
    obeys(answer(homeless, EVENT.as_bytes()));
}

#[test]
fn a_broken_store_does_not_matter_to_a_hook() {
    let enjamb = Enjamb::with_store();
    fs::write(enjamb.store().join("log.db"), b"not a database").unwrap();
    obeys(enjamb.run_with(&["hook", "claude-code"], EVENT));
    assert!(fs::read_to_string(enjamb.store().join("spool/events")).unwrap().contains("/nowhere/s.jsonl"));
}

#[test]
fn the_kill_switch_makes_it_do_nothing() {
    let enjamb = Enjamb::with_store();
    for (value, spools) in [("1", false), ("yes", false), ("0", true)] {
        let mut command = enjamb.command(&["hook", "claude-code"]);
        command.env("ENJAMB_DISABLE", value);
        obeys(answer(command, EVENT.as_bytes()));
        assert_eq!(enjamb.store().join("spool").exists(), spools, "{value}");
    }
}

#[test]
fn hooks_at_once_lose_nothing() {
    let enjamb = Enjamb::with_store();
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| (0..10).for_each(|_| obeys(enjamb.run_with(&["hook", "codex"], EVENT))));
        }
    });
    let spooled = fs::read_to_string(enjamb.store().join("spool/events")).unwrap();
    assert_eq!(spooled.lines().filter(|line| line.starts_with("event1\t")).count(), 80);
}

/// Counts work, not time: what a hook does is the same on any machine.
#[test]
fn a_hook_opens_one_file_and_makes_few_calls() {
    let enjamb = Enjamb::with_store();
    obeys(enjamb.run_with(&["hook", "claude-code"], EVENT));
    let trace = enjamb.path("trace");
    let mut command = Command::new("strace");
    command.args(["-f", "-o", &trace, env!("CARGO_BIN_EXE_enjamb"), "hook", "claude-code"]);
    enjamb.settle(&mut command);
    command.stdin(fs::File::open(enjamb.file("event.json", EVENT)).unwrap());
    let Ok(child) = command.spawn() else { return println!("skipped: there is no strace here") };
    obeys(finish(child));
    let trace = fs::read_to_string(trace).unwrap();
    let store = enjamb.store().to_str().unwrap().to_owned();
    let in_store: Vec<_> = trace.lines().filter(|line| line.contains(&store) && !line.contains("execve(")).collect();
    assert_eq!(in_store.len(), 1, "one file of the store is touched: {in_store:#?}");
    assert!(in_store[0].contains("/spool/events"));
    let written: Vec<_> = trace.lines().filter(|line| line.contains(" write(")).collect();
    assert_eq!(written.len(), 1, "one write: {written:#?}");
    // A line begins with the process and the call: what it was called with may be any word.
    let call = |line: &str| line.split_once(' ').map_or("", |(_, rest)| rest.trim_start()).to_owned();
    let waits = ["fsync", "fdatasync", "clone", "fork", "vfork", "connect", "nanosleep", "clock_nanosleep"];
    let waited: Vec<_> = trace.lines().filter(|line| waits.iter().any(|wait| call(line).starts_with(wait))).collect();
    assert!(waited.is_empty(), "{waited:#?}");
    let calls = trace.lines().count();
    assert!(calls < 150, "{calls} calls");
}

/// Runs a shell script with a file system of its own; `None` where that is not allowed.
fn mounted(enjamb: &Enjamb, script: &str) -> Option<Answer> {
    let mut command = Command::new("unshare");
    command.args(["-rm", "sh", "-c", script]);
    enjamb.settle(&mut command);
    command.env("ENJAMB", env!("CARGO_BIN_EXE_enjamb")).env("EVENT", EVENT).env("TMPDIR", enjamb.home());
    let ran = finish(command.spawn().ok()?);
    let is_refused = ran.exit == Some(99) || ran.err().starts_with("unshare:");
    if is_refused {
        println!("skipped: this machine does not let us mount");
    }
    (!is_refused).then_some(ran)
}

#[test]
fn a_full_disk_is_survived_and_told_of() {
    let enjamb = Enjamb::new();
    let script = r#"
        mkdir disk && mount -t tmpfs -o size=600k tmpfs disk || exit 99
        export ENJAMB_STORE=$HOME/disk/store XDG_STATE_HOME=$HOME/disk/state
        "$ENJAMB" init >/dev/null || exit 1
        cat /dev/zero > disk/ballast 2>/dev/null
        for n in 1 2 3; do echo "$EVENT" | "$ENJAMB" hook claude-code || exit 2; done
        rm disk/ballast
        echo "$EVENT" | "$ENJAMB" hook claude-code || exit 2
        "$ENJAMB" status --json"#;
    let Some(ran) = mounted(&enjamb, script) else { return };
    let delivery = ran.done().document()["delivery"].clone();
    assert_eq!((&delivery["missed"]["count"], &delivery["missed"]["why"]), (&json!(3), &json!("disk-full")));
    assert_eq!(delivery["runtimes"]["claude-code"]["last"]["event"], "Stop");
}

#[test]
fn a_home_that_is_read_only_is_survived_and_told_of() {
    let enjamb = Enjamb::with_store();
    let script = r#"
        mkdir elsewhere && mount -t tmpfs tmpfs elsewhere || exit 99
        mount --bind "$HOME/store" "$HOME/store" && mount -o remount,ro,bind "$HOME/store" || exit 99
        export TMPDIR=$HOME/elsewhere XDG_STATE_HOME=$HOME/store/state
        echo "$EVENT" | "$ENJAMB" hook codex || exit 2
        mount -o remount,rw,bind "$HOME/store" && "$ENJAMB" status --json"#;
    let Some(ran) = mounted(&enjamb, script) else { return };
    let missed = ran.done().document()["delivery"]["missed"].clone();
    assert_eq!((&missed["count"], &missed["why"]), (&json!(1), &json!("denied")));
}

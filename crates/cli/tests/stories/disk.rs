//! A disk that is full, or fails: the command says so, nothing acknowledged is lost, and it goes on when it can.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::runner::{Answer, Enjamb, answer};

const PUT_BYTES: usize = 300_000;
const LITTLE_ROOM: &str = "ENJAMB_LITTLE_ROOM";
/// What `unshare` ends with where it may not make a file system.
const CANNOT_MOUNT: i32 = 99;

/// Runs the test below in a file system of 4 MB of its own.
#[test]
fn a_full_disk_costs_nothing_that_was_stored() {
    let room = tempfile::tempdir().unwrap();
    let mount = r#"mount -t tmpfs -o size=4000k tmpfs "$TMPDIR" || exit 99; exec "$@""#;
    let test = std::env::current_exe().unwrap();
    let inner = Command::new("unshare")
        .args(["-rm", "sh", "-c", mount, "sh", test.to_str().unwrap()])
        .args(["disk::within_little_room", "--exact", "--nocapture"])
        .env("TMPDIR", room.path())
        .env(LITTLE_ROOM, "1")
        .stdin(Stdio::null())
        .output();
    let Some(inner) = inner.ok().filter(|inner| !could_not_mount(inner)) else {
        return println!("skipped: this machine does not let us mount a small file system");
    };
    let (out, err) = (String::from_utf8_lossy(&inner.stdout), String::from_utf8_lossy(&inner.stderr));
    assert!(inner.status.success() && out.contains("1 passed"), "{out}{err}");
    print!("{out}");
}

fn could_not_mount(inner: &std::process::Output) -> bool {
    inner.status.code() == Some(CANNOT_MOUNT) || inner.stderr.starts_with(b"unshare:")
}

#[test]
fn within_little_room() {
    if std::env::var_os(LITTLE_ROOM).is_none() {
        return;
    }
    let enjamb = Enjamb::with_store();
    let ballast = enjamb.file("ballast", vec![1; 1_500_000]);
    let slack = enjamb.file("slack", vec![1; 256 << 10]);
    enjamb.append("session/s", r#"{"type":"x"}"#);
    let puts = fill(|n| enjamb.run_with(&["put"], noise(n, PUT_BYTES)));
    let appends = 1 + fill(|_| enjamb.run(&["append", "session/s", "--type", "x"]));
    assert!(puts > 1, "{puts} puts, {appends} appends");
    println!("full after {puts} puts and {appends} appends");

    // With a little room everything can be read, and what does not fit is refused for that reason.
    fs::remove_file(slack).unwrap();
    check_readable(&enjamb, puts, appends);
    check_full(&enjamb.run_with(&["put"], noise(puts, 900_000)));
    check_full(&enjamb.run_with(&["put"], noise(puts, 3_000_000)));
    enjamb.run(&["maintain"]).exits(8);
    enjamb.run(&["backup", &enjamb.path("backup")]).exits(8);
    fs::remove_dir_all(enjamb.path("backup")).unwrap();
    let leftovers = fs::read_dir(enjamb.store().join("segments")).unwrap().flatten();
    let leftovers: Vec<_> = leftovers.map(|entry| entry.file_name()).filter(|name| !is_lock(name.as_ref())).collect();
    assert!(leftovers.is_empty(), "{leftovers:?}");
    check_readable(&enjamb, puts, appends);

    fs::remove_file(ballast).unwrap();
    assert_eq!(enjamb.append("session/s", r#"{"type":"x"}"#), appends, "it goes on where it was");
    enjamb.put(noise(puts, PUT_BYTES));
    check_readable(&enjamb, puts + 1, appends + 1);
    enjamb.run(&["verify"]).done();
}

fn is_lock(name: &Path) -> bool {
    name.extension().is_some_and(|extension| extension == "lock")
}

/// Does something until the disk is full, and returns how often that went well.
fn fill(act: impl Fn(u64) -> Answer) -> u64 {
    for n in 0.. {
        let answer = act(n);
        if answer.exit != Some(0) {
            print!("{}", answer.exits(8).err());
            return n;
        }
    }
    unreachable!("the disk is never full")
}

#[track_caller]
fn check_full(answer: &Answer) {
    let said = answer.err();
    assert_eq!(answer.exit, Some(8), "{said}");
    assert!(said.contains("no space left") && said.contains("nothing was written"), "{said}");
}

fn check_readable(enjamb: &Enjamb, puts: u64, appends: u64) {
    let listed = enjamb.run(&["artifacts", "-n", "1000"]).done().out();
    assert_eq!(listed.lines().count() as u64, puts);
    for n in [0, puts / 2, puts - 1] {
        let bytes = noise(n, PUT_BYTES);
        let id = enjamb_core::ArtifactId::of(&bytes).to_string();
        assert!(enjamb.run(&["get", &id]).done().stdout == bytes);
    }
    let frames = enjamb.run(&["frames", "session/s"]).done().out();
    assert_eq!(frames.lines().count() as u64, appends);
    enjamb.run(&["verify", "--quick"]).done();
    enjamb.run::<&str>(&[]).done();
}

/// Bytes that do not compress, and are others for each number.
fn noise(n: u64, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    let mut state = n.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    for word in bytes.chunks_exact_mut(8) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        word.copy_from_slice(&state.to_le_bytes());
    }
    bytes
}

/// Runs the command with one system call that goes wrong; `None` where there is no strace, or it may not trace.
fn run_failing(enjamb: &Enjamb, fault: &str, arguments: &[&str], stdin: &[u8]) -> Option<Answer> {
    let mut command = Command::new("strace");
    command.args(["-f", "-o", "/dev/null", "-e", &format!("inject={fault}")]);
    command.arg(env!("CARGO_BIN_EXE_enjamb")).args(arguments);
    enjamb.settle(&mut command);
    if Command::new("strace").args(["-o", "/dev/null", "true"]).output().is_ok_and(|run| run.status.success()) {
        return Some(answer(command, stdin));
    }
    None
}

/// What became of requests during which a system call went wrong.
#[derive(Debug, Default)]
struct Fates {
    done: u64,
    failed: u64,
    unsure: u64,
    killed: u64,
}

impl Fates {
    fn note(&mut self, answer: &Answer, fault: &str) {
        let said = answer.err();
        match answer.exit {
            Some(0) => self.done += 1,
            Some(8) if said.contains("may or may not be stored") => self.unsure += 1,
            Some(8) => self.failed += 1,
            // strace ends as the command did: by the signal.
            None | Some(137) => self.killed += 1,
            Some(other) => panic!("{fault}: exit {other}: {said}"),
        }
    }
}

/// At each of these calls an append goes wrong; the same request again, with the same key, is there once.
fn append_through(fault: &str, calls: impl Iterator<Item = u64>) -> Option<Fates> {
    let enjamb = Enjamb::with_store();
    let mut fates = Fates::default();
    let mut frames = 0;
    for call in calls {
        let (fault, key) = (format!("{fault}:when={call}"), format!("k{call}"));
        let request = ["append", "session/s", "--type", "x", "--key", &key];
        let answer = run_failing(&enjamb, &fault, &request, b"")?;
        fates.note(&answer, &fault);
        let checked = enjamb.run(&["verify"]);
        assert_eq!(checked.exit, Some(0), "after {fault}: {}{}", checked.out(), checked.err());
        enjamb.run(&request).done();
        frames += 1;
        let stored = enjamb.run(&["frames", "session/s"]).done().out().lines().count();
        assert_eq!(stored, frames, "after {fault}");
    }
    println!("{fault}: {fates:?}");
    Some(fates)
}

const NO_STRACE: &str = "skipped: there is no strace that may trace";

#[test]
fn a_sync_that_fails_leaves_open_whether_it_is_stored() {
    let Some(fates) = append_through("fsync,fdatasync:error=EIO", 1..=9) else { return println!("{NO_STRACE}") };
    assert!(fates.unsure > 0, "{fates:?}");
}

#[test]
fn a_write_that_fails_is_told() {
    let Some(fates) = append_through("pwrite64:error=EIO", (1..=70).step_by(5)) else { return println!("{NO_STRACE}") };
    assert!(fates.failed + fates.unsure > 0, "{fates:?}");
}

#[test]
fn a_write_without_room_is_told() {
    let Some(fates) = append_through("pwrite64:error=ENOSPC", (3..=70).step_by(5)) else {
        return println!("{NO_STRACE}");
    };
    assert!(fates.failed > 0, "{fates:?}");
}

#[test]
fn a_kill_at_any_call_stores_a_request_once_or_not_at_all() {
    let Some(writes) = append_through("pwrite64:signal=KILL", (2..=70).step_by(5)) else {
        return println!("{NO_STRACE}");
    };
    assert!(writes.killed > 0, "{writes:?}");
    let syncs = append_through("fsync,fdatasync:signal=KILL", 1..=9).unwrap();
    assert!(syncs.killed > 0, "{syncs:?}");
}

#[test]
fn large_bytes_survive_a_disk_that_fails_while_they_are_put() {
    let enjamb = Enjamb::with_store();
    let mut fates = Fates::default();
    for (call, fault) in ["fsync:error=EIO", "write:error=EIO", "rename:error=EIO", "fsync:signal=KILL"]
        .iter()
        .flat_map(|fault| (1..=4).map(move |call| (call, fault)))
    {
        let bytes = noise(call * 1_000 + fates.done + fates.failed + fates.killed, 1_500_000);
        let fault = format!("{fault}:when={call}");
        let Some(answer) = run_failing(&enjamb, &fault, &["put", "-q"], &bytes) else { return println!("{NO_STRACE}") };
        fates.note(&answer, &fault);
        enjamb.run(&["verify", "--quick"]).done();
        let id = enjamb.put(&bytes);
        assert!(enjamb.run(&["get", &id]).done().stdout == bytes, "after {fault}");
    }
    println!("{fates:?}");
    assert!(fates.failed > 0 && fates.killed > 0, "{fates:?}");
    enjamb.run(&["gc", "--run"]).done();
    enjamb.run(&["verify"]).done();
}

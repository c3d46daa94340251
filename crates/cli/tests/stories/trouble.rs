//! Places that are no store, or not one that this version may touch; and input without end.

use std::fs;
use std::io::Write;
use std::process::{Command, Stdio};

use rusqlite::Connection;

use crate::expect::check;
use crate::runner::{Answer, Enjamb, answer, finish, watch_peak};

/// Both a reader and a writer are refused, alike.
#[track_caller]
fn check_refused(enjamb: &Enjamb, exit: i32, code: &str, message: &str) {
    for arguments in [&["streams"][..], &["append", "session/s", "--type", "x"]] {
        check(&enjamb.run(arguments).exits(exit).err(), message);
        let problem = enjamb.run(&[arguments, &["--json"]].concat()).exits(exit).problem();
        assert_eq!(problem["code"], code, "{problem}");
    }
}

#[test]
fn a_store_that_is_not_there() {
    let enjamb = Enjamb::new();
    for arguments in [&["streams"][..], &["get", "x"], &["verify"], &["gc", "--run"], &["doctor"]] {
        let refused = enjamb.run(arguments).exits(3);
        let expected = format!("error: no enjamb store at {}\nhelp:  enjamb init\n", enjamb.shown_store());
        check(&refused.err(), &expected);
    }
    let problem = enjamb.run(&["streams", "--json"]).exits(3).problem();
    assert_eq!((&problem["code"], &problem["help"]), (&"store-not-found".into(), &"enjamb init".into()));
    assert!(!enjamb.store().join("log.db").exists());
}

#[test]
fn a_path_that_is_a_file() {
    let enjamb = Enjamb::new();
    enjamb.file("store", "something else");
    let message = "error: [..]/store is not an enjamb store: it is a file, not a directory\n";
    check_refused(&enjamb, 2, "not-a-store", message);
    assert_eq!(fs::read_to_string(enjamb.store()).unwrap(), "something else");
}

#[test]
fn a_directory_of_something_else() {
    let enjamb = Enjamb::new();
    fs::create_dir(enjamb.store()).unwrap();
    enjamb.file("store/novel.txt", "chapter one");
    let message = "error: [..]/store is not an enjamb store: it has no log.db, but holds \"novel.txt\"\n";
    check_refused(&enjamb, 2, "not-a-store", message);
    assert_eq!(fs::read_dir(enjamb.store()).unwrap().count(), 1, "nothing was added");
}

#[test]
fn a_log_that_is_no_database() {
    let enjamb = Enjamb::new();
    fs::create_dir(enjamb.store()).unwrap();
    enjamb.file("store/log.db", "these are not the bytes of a database");
    let message = "
error: [..]/log.db is damaged: its first bytes are not those of a database
help:  enjamb --store OTHER-DIR restore BACKUP    makes a store of a backup
";
    check_refused(&enjamb, 6, "corrupt", message);
}

#[test]
fn a_log_with_broken_pages() {
    let enjamb = Enjamb::with_store();
    enjamb.put("bytes");
    let log = enjamb.store().join("log.db");
    let mut bytes = fs::read(&log).unwrap();
    bytes[100..3_000].fill(0xff);
    fs::write(&log, bytes).unwrap();
    let answer = enjamb.run(&["verify"]).exits(6);
    assert!(
        answer.err().contains("a database file is damaged") && answer.err().contains("restore BACKUP"),
        "{}",
        answer.err()
    );
}

#[test]
fn a_database_of_someone_else() {
    let enjamb = Enjamb::new();
    fs::create_dir(enjamb.store()).unwrap();
    let database = Connection::open(enjamb.store().join("log.db")).unwrap();
    database.execute_batch("CREATE TABLE theirs(a); INSERT INTO theirs VALUES(1)").unwrap();
    drop(database);
    let message = "error: [..]/log.db is not an enjamb store: log.db was not made by enjamb\n";
    check_refused(&enjamb, 2, "not-a-store", message);
}

#[test]
fn a_store_of_a_newer_version() {
    let enjamb = Enjamb::new();
    enjamb.append("session/s", r#"{"type":"x"}"#);
    let database = Connection::open(enjamb.store().join("log.db")).unwrap();
    database.pragma_update(None, "user_version", 99).unwrap();
    drop(database);
    let message = "
error: [..]/log.db has store format 99, and this version reads up to [..]
help:  use the enjamb that wrote it, or a later one
";
    check_refused(&enjamb, 2, "store-too-new", message);
}

/// Runs a shell line where the store is mounted read-only; `None` where this machine does not let us.
fn run_read_only(enjamb: &Enjamb, arguments: &[&str]) -> Option<Answer> {
    let mount = "mount --bind store store && mount -o remount,ro,bind store || exit 99; exec \"$@\"";
    let mut command = Command::new("unshare");
    command.args(["-rm", "sh", "-c", mount, "sh", env!("CARGO_BIN_EXE_enjamb")]).args(arguments);
    enjamb.settle(&mut command);
    let answer = command.spawn().ok().map(finish)?;
    // `unshare` itself answers 1, and says so.
    let refused = answer.exit == Some(99) || answer.err().starts_with("unshare:");
    (!refused).then_some(answer)
}

#[test]
fn a_store_that_cannot_be_written() {
    let enjamb = Enjamb::new();
    enjamb.append("session/s", r#"{"type":"x"}"#);
    let Some(refused) = run_read_only(&enjamb, &["append", "session/s", "--type", "y"]) else {
        return println!("skipped: this machine does not let us mount anything");
    };
    check(&refused.exits(7).err(), "error: [..]/log.db cannot be used: it cannot be opened for writing\n");
    let problem = run_read_only(&enjamb, &["put", "--json"]).unwrap().exits(7).problem();
    assert_eq!(problem["code"], "store-denied");
    assert_eq!(enjamb.append("session/s", r#"{"type":"x"}"#), 1, "nothing was stored, and all is well again");
}

/// Feeds a command so many MiB without an end of line, and returns its answer and its peak of memory in MiB.
fn feed_endlessly(enjamb: &Enjamb, arguments: &[&str], mib: u32) -> (Answer, u64) {
    let mut command = enjamb.command(arguments);
    command.stdin(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let (pid, mut input) = (child.id(), child.stdin.take().unwrap());
    std::thread::scope(|scope| {
        let peak = scope.spawn(move || watch_peak(pid));
        scope.spawn(move || {
            let block = vec![b'x'; 1 << 20];
            // The command stops reading at its limit.
            (0..mib).try_for_each(|_| input.write_all(&block))
        });
        (finish(child), peak.join().unwrap())
    })
}

#[test]
fn a_frame_without_end_is_refused_at_the_limit() {
    let enjamb = Enjamb::with_store();
    let (answer, peak_mib) = feed_endlessly(&enjamb, &["append", "session/s"], 1_000);
    println!("peak {peak_mib} MiB");
    check(&answer.exits(2).err(), "error: line 1: frame has [..] bytes: expected at most 1048576; [..] an artifact\n");
    assert!(peak_mib < 150, "{peak_mib} MiB");
}

#[test]
fn an_import_of_one_endless_line_keeps_it_in_bounded_memory() {
    let enjamb = Enjamb::with_store();
    let (answer, peak_mib) = feed_endlessly(&enjamb, &["frames", "import", "-"], 300);
    println!("peak {peak_mib} MiB");
    check(&answer.exits(10).out(), "1 line of 315 MB: 0 appended, 0 here already\nart-[..]\n");
    assert!(peak_mib < 150, "{peak_mib} MiB");
}

#[test]
fn many_frames_as_large_as_may_be_are_taken_in_bounded_memory() {
    let enjamb = Enjamb::with_store();
    let line = format!(r#"{{"type":"x","text":"{}"}}"#, "y".repeat(1 << 19));
    let lines = vec![line; 200].join("\n");
    let mut command = enjamb.command(&["append", "session/s"]);
    command.stdin(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let (pid, mut input) = (child.id(), child.stdin.take().unwrap());
    let (answer, peak_mib) = std::thread::scope(|scope| {
        let peak = scope.spawn(move || watch_peak(pid));
        scope.spawn(move || input.write_all(lines.as_bytes()));
        (finish(child), peak.join().unwrap())
    });
    println!("peak {peak_mib} MiB");
    check(&answer.done().out(), "200 frames, the last is session/s 199\n");
    assert!(peak_mib < 150, "{peak_mib} MiB");
}

#[test]
fn a_name_that_is_not_text_is_no_trouble() {
    use std::os::unix::ffi::OsStrExt;
    let enjamb = Enjamb::new();
    let name = std::ffi::OsStr::from_bytes(b"st\xffre");
    let mut command = enjamb.command(&["put", "--json"]);
    command.env("ENJAMB_STORE", enjamb.home().join(name));
    let stored = answer(command, &vec![1; 2 << 20]).done().document();
    let mut command = enjamb.command(&["get", stored["artifacts"][0]["id"].as_str().unwrap()]);
    command.env("ENJAMB_STORE", enjamb.home().join(name));
    assert_eq!(answer(command, b"").done().stdout.len(), 2 << 20);
    let mut command = enjamb.command(&["status", "--json"]);
    command.env("ENJAMB_STORE", enjamb.home().join(name));
    assert_eq!(answer(command, b"").done().document()["artifacts"], 1);
}

//! Runs `enjamb` in a home of its own, and keeps what it answered.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use enjamb_testkit::database::{Database, Schema};
use enjamb_testkit::home;
use serde_json::Value;
use tempfile::TempDir;

/// A home with a store in it. Nothing of the person who runs the tests is read or written.
pub struct Enjamb {
    home: TempDir,
    /// Where its store is instead, when the run is about stores in a database.
    team: Option<(Schema, Database)>,
}

/// What a run of the command came to.
pub struct Answer {
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
    /// `None` when a signal ended it.
    pub exit: Option<i32>,
}

impl Enjamb {
    /// A home without a store.
    pub fn new() -> Self {
        let team = home::database().map(|database| (database.schema(), database));
        Self { home: tempfile::tempdir().expect("a temporary directory"), team }
    }

    /// A home with an empty store.
    pub fn with_store() -> Self {
        let enjamb = Self::new();
        enjamb.run(&["init"]).done();
        enjamb
    }

    pub fn home(&self) -> &Path {
        self.home.path()
    }

    /// The directory of its store, or the one on this machine that belongs to it.
    pub fn store(&self) -> PathBuf {
        let Some((schema, _)) = &self.team else { return self.home.path().join("store") };
        let usual = self.home.path().join("data/enjamb");
        enjamb_service::database_dir(&usual, &schema.address()).expect("an address")
    }

    /// Where commands say that its store is, as a pattern.
    pub fn shown_store(&self) -> String {
        match &self.team {
            None => "[..]/store".to_owned(),
            Some((schema, _)) => format!("postgres://127.0.0.1:[..]/postgres?schema={}", schema.name()),
        }
    }

    /// What `--store` would be given.
    fn named_store(&self) -> OsString {
        match &self.team {
            None => self.store().into(),
            Some((schema, _)) => schema.address_with_objects(&self.home.path().join("objects")).into(),
        }
    }

    /// Writes a file into the home, and returns its path as an argument.
    pub fn file(&self, name: &str, contents: impl AsRef<[u8]>) -> String {
        let path = self.home.path().join(name);
        fs::write(&path, contents).expect("a file in the home");
        path.to_str().expect("a temporary path is text").to_owned()
    }

    pub fn path(&self, name: &str) -> String {
        self.home.path().join(name).to_str().expect("a temporary path is text").to_owned()
    }

    /// The command, in this home, about to be run.
    pub fn command<S: AsRef<OsStr>>(&self, arguments: &[S]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_enjamb"));
        command.args(arguments);
        self.settle(&mut command);
        command
    }

    /// Gives any program this home, and nothing of ours.
    pub fn settle(&self, command: &mut Command) {
        let path = std::env::var_os("PATH").unwrap_or_default();
        command
            .env_clear()
            .env("PATH", path)
            .env("HOME", self.home())
            .env("XDG_DATA_HOME", self.home().join("data"))
            .env("ENJAMB_STORE", self.named_store())
            .current_dir(self.home())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
    }

    pub fn run<S: AsRef<OsStr>>(&self, arguments: &[S]) -> Answer {
        answer(self.command(arguments), b"")
    }

    pub fn run_with<S: AsRef<OsStr>>(&self, arguments: &[S], stdin: impl AsRef<[u8]>) -> Answer {
        answer(self.command(arguments), stdin.as_ref())
    }

    /// Runs with `--json` and returns the one document that is printed.
    #[track_caller]
    pub fn json<S: AsRef<OsStr>>(&self, arguments: &[S]) -> Value {
        let mut command = self.command(arguments);
        command.arg("--json");
        answer(command, b"").document()
    }

    /// Stores bytes and returns their id.
    #[track_caller]
    pub fn put(&self, contents: impl AsRef<[u8]>) -> String {
        self.run_with(&["put"], contents).done().line()
    }

    /// Appends one frame to a stream, and returns the seq it got.
    #[track_caller]
    pub fn append(&self, stream: &str, frame: &str) -> u64 {
        let answer = self.run_with(&["append", stream, "--json"], frame).document();
        answer["frames"][0]["seq"].as_u64().expect("a seq")
    }
}

/// Runs a command to its end, feeding it from memory.
pub fn answer(mut command: Command, stdin: &[u8]) -> Answer {
    if !stdin.is_empty() {
        command.stdin(Stdio::piped());
    }
    let mut child = command.spawn().expect("the command starts");
    let mut input = child.stdin.take();
    thread::scope(|scope| {
        scope.spawn(move || {
            // A command that refuses its input does not read it to the end.
            let _ = input.as_mut().map(|input| input.write_all(stdin));
        });
        finish(child)
    })
}

/// Reads what a running command says until it ends.
pub fn finish(mut child: Child) -> Answer {
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let (stdout, stderr) = thread::scope(|scope| {
        let errors = scope.spawn(|| read_all(stderr));
        (read_all(stdout), errors.join().expect("reading ends"))
    });
    Answer { stdout, stderr, exit: child.wait().expect("the command ends").code() }
}

fn read_all(source: Option<impl Read>) -> Vec<u8> {
    let mut bytes = Vec::new();
    if let Some(mut source) = source {
        source.read_to_end(&mut bytes).expect("a pipe can be read");
    }
    bytes
}

impl Answer {
    pub fn out(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    pub fn err(&self) -> String {
        String::from_utf8_lossy(&self.stderr).into_owned()
    }

    /// The command did what it was asked.
    #[track_caller]
    pub fn done(self) -> Self {
        self.exits(0)
    }

    #[track_caller]
    pub fn exits(self, code: i32) -> Self {
        assert_eq!(self.exit, Some(code), "stdout:\n{}\nstderr:\n{}", self.out(), self.err());
        self
    }

    /// The last line of the answer.
    #[track_caller]
    pub fn line(&self) -> String {
        self.out().lines().last().expect("an answer").to_owned()
    }

    /// The answer as the one JSON document that `--json` promises, with its schema.
    #[track_caller]
    pub fn document(&self) -> Value {
        let out = self.out();
        assert_eq!(out.lines().count(), 1, "one document on one line, not {out:?} ({})", self.err());
        document(&out, "enjamb.cli.")
    }

    /// The failure as the one JSON line on stderr.
    #[track_caller]
    pub fn problem(&self) -> Value {
        let err = self.err();
        assert_eq!(err.lines().count(), 1, "one problem on one line, not {err:?}");
        document(&err, "enjamb.problem/")
    }
}

#[track_caller]
fn document(line: &str, schema: &str) -> Value {
    let value: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{line:?} is not JSON: {error}"));
    let found = value["schema"].as_str().unwrap_or_default();
    assert!(found.starts_with(schema), "the schema of {line} is not {schema}…");
    value
}

/// The most memory that a process has held so far, in MiB; `None` once it is gone.
pub fn peak_mib(pid: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    let kib: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kib >> 10)
}

/// Looks at a process until it is gone, and returns the most memory it held, in MiB.
pub fn watch_peak(pid: u32) -> u64 {
    let mut peak = 0;
    while let Some(seen) = peak_mib(pid) {
        peak = peak.max(seen);
        thread::sleep(Duration::from_millis(2));
    }
    peak
}

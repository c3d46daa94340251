//! An agent that runs: what it prints is passed on, and what it does is stored when it is worth it.

use std::collections::HashSet;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use super::heard::Heard;
use super::journal::Journal;
use super::keep::{Kept, Trigger};
use super::socket::{self, Socket};
use super::words::{Line, Speech};
use super::{Attendance, Wrap, Wrapped, plain};
use crate::current::transcripts;
use crate::watch::{is_over, is_tool_result};
use crate::{CheckpointWhen, Driver, Place, Result, Runtime, ServiceError, Store};

/// How often an agent is looked at.
const TICK: Duration = Duration::from_millis(40);
/// Output that is read at once.
const READ_BYTES: u64 = 1 << 20;
/// Output of a program without a transcript after which it is stored, whatever is configured.
const UNSTORED_BYTES_MAX: u64 = 8 << 20;
/// The end of a transcript, from which it is told whether a turn is over.
const TAIL_BYTES: u64 = 64 << 10;

pub(super) struct Process {
    child: Child,
    driver: Driver,
    speech: Speech,
    socket: Option<Socket>,
    session: Option<String>,
    heard: Heard,
    /// Output that was read, and the line that is not whole yet.
    read: u64,
    line: Vec<u8>,
    kept: Kept,
    /// Turns that are over and not stored.
    turns: u64,
    /// How long the transcript was when it was last looked at.
    seen: u64,
    /// Transcripts that were there before, where it is not known which the agent will write.
    before: Option<HashSet<PathBuf>>,
    /// What was worth storing and could not be.
    unstored: Option<ServiceError>,
}

/// Something that may be worth storing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Boundary {
    Turn,
    ToolResult,
    Much,
}

impl Process {
    #[allow(clippy::too_many_arguments)]
    pub fn start(
        request: &Wrap,
        driver: Driver,
        line: &Line,
        journal: &Journal,
        environment: Vec<(String, String)>,
        socket: Option<Socket>,
        kept: Kept,
        session: Option<String>,
    ) -> Result<Self> {
        let mut command = Command::new(&line.words[0]);
        command.args(&line.words[1..]).current_dir(&request.here).envs(environment);
        if line.speech != Speech::Terminal {
            command.stdout(Stdio::from(journal.for_agent()?));
        }
        let is_unknown = journal.facts.transcript.is_none() && driver == Driver::Codex;
        let before =
            is_unknown.then(|| places(request, driver).iter().flat_map(Place::files).map(|file| file.path).collect());
        let child =
            command.spawn().map_err(|source| ServiceError::File { path: line.words[0].clone().into(), source })?;
        Ok(Self {
            child,
            driver,
            speech: line.speech,
            socket,
            session,
            heard: Heard::default(),
            read: 0,
            line: Vec::new(),
            seen: journal.facts.transcript.as_deref().map_or(0, size),
            kept,
            turns: 0,
            before,
            unstored: None,
        })
    }

    /// Stays with the agent until it ended and all of it is stored.
    pub fn attend(
        mut self,
        store: &Store,
        mut journal: Journal,
        request: &Wrap,
        attendance: &mut Attendance<'_>,
    ) -> Result<Wrapped> {
        let status = loop {
            let ended = self.child.try_wait().map_err(|source| failed(request, source))?;
            self.step(store, &mut journal, request, attendance)?;
            match ended {
                Some(status) => break status,
                None => std::thread::sleep(TICK),
            }
        };
        self.finish(store, journal, request, attendance, status)
    }

    fn step(
        &mut self,
        store: &Store,
        journal: &mut Journal,
        request: &Wrap,
        attendance: &mut Attendance<'_>,
    ) -> Result<()> {
        if let Some(signal) = (attendance.signal)() {
            self.forward(signal);
        }
        let printed = self.listen(journal, attendance)?;
        self.find_transcript(journal, request)?;
        let boundary = match self.driver {
            Driver::Generic => printed,
            Driver::ClaudeCode | Driver::Codex => self.look(journal),
        };
        if let Some(trigger) = boundary.and_then(|boundary| self.due(request.checkpoint, boundary)) {
            self.keep(store, journal, request, trigger, attendance);
        }
        while let Some(caller) = self.socket.as_ref().and_then(Socket::caller) {
            self.keep(store, journal, request, Trigger::Explicit, attendance);
            socket::tell(caller, self.kept.tip);
        }
        Ok(())
    }

    /// The agent may have ended meanwhile, and needs no signal then.
    fn forward(&self, signal: i32) {
        if let (Some(pid), Some(signal)) = (Pid::from_raw(self.child.id() as i32), Signal::from_named_raw(signal)) {
            let _ = kill_process(pid, signal);
        }
    }

    /// Passes on what was printed, and hears what it tells.
    fn listen(&mut self, journal: &Journal, attendance: &mut Attendance<'_>) -> Result<Option<Boundary>> {
        let mut boundary = None;
        loop {
            let bytes = journal.read(self.read, READ_BYTES)?;
            if bytes.is_empty() {
                break;
            }
            self.read += bytes.len() as u64;
            if matches!(self.speech, Speech::Text | Speech::Events) {
                // Whoever listened may be gone; the agent goes on, and so does what is stored of it.
                let _ = attendance.out.write_all(&bytes);
            }
            for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
                self.line.extend_from_slice(piece);
                if piece.ends_with(b"\n") {
                    boundary = self.whole_line().or(boundary);
                }
            }
        }
        let _ = attendance.out.flush();
        let is_much = self.driver == Driver::Generic && self.read - self.kept.offset > UNSTORED_BYTES_MAX;
        Ok(boundary.or(is_much.then_some(Boundary::Much)))
    }

    fn whole_line(&mut self) -> Option<Boundary> {
        let line = std::mem::take(&mut self.line);
        if self.driver != Driver::Generic {
            self.heard.line(self.driver, &line);
            return None;
        }
        match plain::kind(&line) {
            plain::Kind::TurnEnd => Some(Boundary::Turn),
            plain::Kind::ToolResult => Some(Boundary::ToolResult),
            plain::Kind::Text | plain::Kind::Record => None,
        }
    }

    /// Finds the transcript of a session that the agent named, or that was not there before.
    fn find_transcript(&mut self, journal: &mut Journal, request: &Wrap) -> Result<()> {
        let runtime = Runtime::from_name(self.driver.as_str());
        let Some(runtime) = runtime.filter(|_| self.driver != Driver::Generic) else { return Ok(()) };
        let is_known = journal.facts.transcript.as_deref().is_some_and(Path::exists);
        if is_known && (self.heard.session == self.session || self.heard.session.is_none()) {
            return Ok(());
        }
        let found = match (&self.heard.session, &self.before) {
            (Some(session), _) => transcripts(&places(request, self.driver), runtime, session).pop(),
            (None, Some(before)) if self.speech == Speech::Terminal => {
                let files = places(request, self.driver).into_iter().flat_map(|place| place.files());
                files.filter(|file| !before.contains(&file.path)).min_by_key(|file| file.path.clone())
            }
            (None, _) => None,
        };
        if let Some(file) = found {
            journal.note_transcript(&file.path)?;
            self.session = self.heard.session.clone();
        }
        Ok(())
    }

    /// Whether the transcript has come to where it is worth storing.
    fn look(&mut self, journal: &Journal) -> Option<Boundary> {
        let path = journal.facts.transcript.as_deref()?;
        let runtime = Runtime::from_name(self.driver.as_str())?;
        let now = size(path);
        if now == self.seen {
            return None;
        }
        let tail = tail(path)?;
        self.seen = now;
        match () {
            () if is_over(runtime, &tail) => Some(Boundary::Turn),
            () if is_tool_result(runtime, &tail) => Some(Boundary::ToolResult),
            () => None,
        }
    }

    fn due(&mut self, when: CheckpointWhen, boundary: Boundary) -> Option<Trigger> {
        match (when, boundary) {
            (_, Boundary::Much) => Some(Trigger::Explicit),
            (CheckpointWhen::ToolResult, Boundary::ToolResult) => Some(Trigger::ToolCall),
            (CheckpointWhen::ToolResult, Boundary::Turn) => Some(Trigger::TurnBoundary),
            (CheckpointWhen::Turns(every), Boundary::Turn) => {
                self.turns += 1;
                (self.turns >= every).then_some(Trigger::TurnBoundary)
            }
            (CheckpointWhen::Turns(_), Boundary::ToolResult) | (CheckpointWhen::SessionEnd, _) => None,
        }
    }

    /// Stores what is new. An agent is not stopped because its memory cannot be kept: that is tried again, and said.
    fn keep(
        &mut self,
        store: &Store,
        journal: &Journal,
        request: &Wrap,
        trigger: Trigger,
        attendance: &mut Attendance<'_>,
    ) {
        self.turns = 0;
        // A line that is not whole belongs to what follows, unless nothing does.
        let unfinished = if trigger == Trigger::SessionEnd { 0 } else { self.line.len() as u64 };
        match store.keep(journal, &mut self.kept, self.read - unfinished, trigger, &request.by) {
            Ok(()) => self.unstored = None,
            Err(error) => {
                if self.unstored.is_none() {
                    (attendance.note)(&format!("not stored yet: {error}"));
                }
                self.unstored = Some(error);
            }
        }
    }

    fn finish(
        mut self,
        store: &Store,
        mut journal: Journal,
        request: &Wrap,
        attendance: &mut Attendance<'_>,
        status: ExitStatus,
    ) -> Result<Wrapped> {
        self.step(store, &mut journal, request, attendance)?;
        if self.speech == Speech::Answer
            && let Some(answer) = &self.heard.answer
        {
            let _ = writeln!(attendance.out, "{answer}");
            let _ = attendance.out.flush();
        }
        self.keep(store, &journal, request, Trigger::SessionEnd, attendance);
        let reference = journal.facts.reference();
        let generic = (self.driver == Driver::Generic).then(|| journal.facts.id.clone());
        match self.unstored.take() {
            // The journal stays: the next command takes it in.
            Some(error) => return Err(error),
            None => journal.end()?,
        }
        Ok(Wrapped {
            reference,
            session: self.heard.session.or(self.session).or(generic),
            parent: request.context,
            tip: self.kept.tip.filter(|tip| Some(*tip) != request.context),
            commits: self.kept.commits,
            exit: exit_code(status),
        })
    }
}

fn exit_code(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1)
}

fn places(request: &Wrap, driver: Driver) -> Vec<Place> {
    match driver {
        Driver::ClaudeCode => vec![Place { runtime: Runtime::ClaudeCode, dir: request.homes.claude.join("projects") }],
        Driver::Codex => vec![Place { runtime: Runtime::Codex, dir: request.homes.codex.join("sessions") }],
        Driver::Generic => Vec::new(),
    }
}

fn size(path: &Path) -> u64 {
    path.metadata().map_or(0, |meta| meta.len())
}

/// The end of a file; nothing where it cannot be read yet.
fn tail(path: &Path) -> Option<Vec<u8>> {
    let mut file = File::open(path).ok()?;
    let len = file.metadata().ok()?.len();
    file.seek(SeekFrom::Start(len.saturating_sub(TAIL_BYTES))).ok()?;
    let mut tail = Vec::new();
    file.take(TAIL_BYTES).read_to_end(&mut tail).ok()?;
    Some(tail)
}

fn failed(request: &Wrap, source: std::io::Error) -> ServiceError {
    let program = request.words.first().cloned().unwrap_or_default();
    ServiceError::File { path: program.into(), source }
}

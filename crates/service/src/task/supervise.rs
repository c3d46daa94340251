//! Running a task: its process is started, what it writes is kept and told of, and its end is recorded.

use std::fs::File;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ExitStatus};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use enjamb_core::StreamId;
use enjamb_core::frame::{
    Body, OutputStream, TaskCancelRequested, TaskCancelled, TaskResized, TaskSignalled, TaskSpawned, TaskStatus,
    TaskStatusChanged, TaskStdinWritten,
};
use enjamb_ledger::private;
use pty_process::Size;
use pty_process::blocking::Pty;
use rustix::process::Signal;
use serde_json::{Map, Value, json};

use super::child;
use super::control::{self, Asked, STDIN_BYTES_MAX};
use super::dir::{Process, TaskDir};
use super::output::{Output, Part};
use super::{TaskError, TaskRequest, TaskSpec, stream_of};
use crate::{Result, ServiceError, Store};

/// How long output is gathered before it is told of; longer once a task has said much.
const TELL_EVERY: Duration = Duration::from_millis(100);
const TELL_SELDOM: Duration = Duration::from_millis(500);
const TELLS_OFTEN_MAX: u32 = 100;
/// How long what a process left running may go on writing once the process has ended.
const DRAIN_WAIT: Duration = Duration::from_millis(500);
/// How long a task that ran out of time may take to end by itself.
const TIMEOUT_GRACE: Duration = Duration::from_secs(5);
const EVENTS_WAITING_MAX: usize = 64;
const WRITES_WAITING_MAX: usize = 4;

/// What a supervisor wakes up for.
pub(super) enum Event {
    Output(usize, Part),
    /// An output came to its end.
    Closed,
    /// The process has ended, and is not reaped yet.
    Exited,
    Asked(Asked),
    /// What was to be written to the terminal is, or cannot be.
    Wrote(Writing, std::io::Result<()>),
}

/// Something on its way to the terminal, and who waits for it to be there.
pub(super) struct Writing {
    bytes: Vec<u8>,
    answer: Sender<Result<()>>,
}

/// A task that runs.
struct Running<'s> {
    store: &'s Store,
    task: String,
    stream: StreamId,
    dir: TaskDir,
    child: Child,
    terminal: Option<Arc<Pty>>,
    /// To a thread that writes: a process that does not read holds up nobody but whoever writes to it.
    writer: Option<SyncSender<Writing>>,
    /// What is on its way to the terminal: who wrote it is told what came of it.
    writing: usize,
    outputs: Vec<Output>,
    open_outputs: usize,
    began: Instant,
    started_at_ms: u64,
    ends_at: Option<Instant>,
    cancelled: Option<String>,
    kill_at: Option<Instant>,
    exited_at: Option<Instant>,
    tells: u32,
    tell_at: Option<Instant>,
    _lock: File,
}

impl Store {
    /// Runs a task to its end. `ready` is told once that it runs, or why it does not.
    pub fn supervise_task(&self, task: &str, spec: &TaskSpec, ready: impl FnOnce(&Result<()>)) -> Result<()> {
        match self.start_task(task, spec) {
            Ok((mut running, events)) => {
                ready(&Ok(()));
                running.watch(&events);
                running.end()
            }
            Err(error) => {
                ready(&Err(error));
                Ok(())
            }
        }
    }

    fn start_task(&self, task: &str, spec: &TaskSpec) -> Result<(Running<'_>, Receiver<Event>)> {
        spec.check()?;
        let (stream, dir) = (stream_of(task)?, self.task_dir(task));
        let lock = dir.create()?;
        self.append_bodies(&stream, &[spawned(task, spec)], Vec::new())?;
        let started = match child::start(spec) {
            Ok(started) => started,
            Err(error) => return Err(self.not_started(task, &stream, &dir, spec, &error)),
        };
        let mut running = Running::new(self, task, stream, dir, spec, started.child, lock);
        let began = running.attach(started.outputs, started.terminal, spec);
        match began {
            Ok(events) => Ok((running, events)),
            Err(error) => {
                child::signal_group(running.child.id().cast_signed(), Signal::KILL);
                let _ = running.child.wait();
                Err(error)
            }
        }
    }

    fn not_started(
        &self,
        task: &str,
        stream: &StreamId,
        dir: &TaskDir,
        spec: &TaskSpec,
        error: &std::io::Error,
    ) -> ServiceError {
        let failure = TaskError::NotStarted { command: spec.command.line(), detail: error.to_string() };
        let now = self.env.now().as_millis();
        let body: Body = TaskStatusChanged {
            task_id: task.to_owned(),
            status: TaskStatus::Failed,
            exit_code: None,
            started_at_ms: None,
            ended_at_ms: Some(now),
            artifacts: None,
            error: Some(failure.to_string()),
        }
        .into();
        // Should this fail, the directory stays, and the next command ends the task.
        if self.append_bodies(stream, &[body], Vec::new()).is_ok() {
            let _ = dir.remove();
        }
        failure.into()
    }
}

fn spawned(task: &str, spec: &TaskSpec) -> Body {
    let (tool_name, args) = spec.command.told();
    TaskSpawned {
        task_id: task.to_owned(),
        tool_name: tool_name.to_owned(),
        args: args.into(),
        cwd: spec.cwd.as_ref().map(|cwd| cwd.display().to_string()),
        title: spec.title.clone(),
        execution_mode: spec.mode(),
        origin_session_id: spec.origin_session_id.clone(),
        artifacts: None,
    }
    .into()
}

impl<'s> Running<'s> {
    fn new(
        store: &'s Store,
        task: &str,
        stream: StreamId,
        dir: TaskDir,
        spec: &TaskSpec,
        child: Child,
        lock: File,
    ) -> Self {
        let began = Instant::now();
        Self {
            store,
            task: task.to_owned(),
            stream,
            dir,
            child,
            terminal: None,
            writer: None,
            writing: 0,
            outputs: Vec::new(),
            open_outputs: 0,
            began,
            started_at_ms: store.env.now().as_millis(),
            ends_at: spec.timeout_ms.map(|ms| began + Duration::from_millis(ms)),
            cancelled: None,
            kill_at: None,
            exited_at: None,
            tells: 0,
            tell_at: None,
            _lock: lock,
        }
    }

    /// Notes who runs, says so, and begins to listen: to the process and to whoever speaks to it.
    fn attach(
        &mut self,
        outputs: Vec<(OutputStream, Box<dyn std::io::Read + Send>)>,
        terminal: Option<Arc<Pty>>,
        spec: &TaskSpec,
    ) -> Result<Receiver<Event>> {
        self.dir.write_process(&Process::of(self.child.id(), self.started_at_ms))?;
        let (sender, events) = sync_channel(EVENTS_WAITING_MAX);
        self.writer = terminal.as_ref().map(|terminal| writer(terminal.clone(), sender.clone()));
        self.terminal = terminal;
        for (index, (stream, source)) in outputs.into_iter().enumerate() {
            let log = private::create(&self.dir.log(&stream)).map_err(|source| self.dir.failed(source))?;
            self.outputs.push(Output::new(stream));
            self.open_outputs += 1;
            let (sender, room) = (sender.clone(), spec.output_bytes_max);
            std::thread::spawn(move || read(index, source, log, room, &sender));
        }
        let listener = control::listen(&self.dir)?;
        let asked = sender.clone();
        std::thread::spawn(move || control::serve(&listener, &asked));
        let pid = self.child.id();
        std::thread::spawn(move || {
            child::wait_unreaped(pid);
            // Nobody listens any more once the task has ended.
            let _ = sender.send(Event::Exited);
        });
        self.tell(self.status(TaskStatus::Running, None, None, None).into())?;
        Ok(events)
    }

    fn tell(&self, body: Body) -> Result<()> {
        self.store.append_bodies(&self.stream, &[body], Vec::new()).map(drop)
    }

    fn status(
        &self,
        status: TaskStatus,
        exit_code: Option<i32>,
        logs: Option<Value>,
        error: Option<String>,
    ) -> TaskStatusChanged {
        let ended_at_ms = status.is_terminal().then(|| self.store.env.now().as_millis());
        TaskStatusChanged {
            task_id: self.task.clone(),
            status,
            exit_code,
            started_at_ms: Some(self.started_at_ms),
            ended_at_ms,
            artifacts: logs.map(Into::into),
            error,
        }
    }

    /// Until the process has ended and nothing more is to be expected from it.
    fn watch(&mut self, events: &Receiver<Event>) {
        while !self.is_over() {
            match events.recv_timeout(self.patience()) {
                Ok(Event::Output(index, part)) => {
                    self.outputs[index].add(&part);
                    self.tell_at.get_or_insert_with(|| Instant::now() + tell_after(self.tells));
                }
                Ok(Event::Closed) => self.open_outputs -= 1,
                Ok(Event::Exited) => self.exited(),
                Ok(Event::Asked(Asked { request, answer })) => {
                    if let Some(answered) = self.asked(request, &answer) {
                        // Whoever asked may have gone.
                        let _ = answer.send(answered);
                    }
                }
                Ok(Event::Wrote(Writing { bytes, answer }, written)) => {
                    self.writing -= 1;
                    let _ = answer.send(self.wrote(&bytes, written));
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            self.due();
        }
    }

    fn is_over(&self) -> bool {
        let is_silent = self.open_outputs == 0 && self.writing == 0;
        self.exited_at.is_some_and(|at| is_silent || at.elapsed() >= DRAIN_WAIT)
    }

    /// How long nothing has to be done if nothing happens.
    fn patience(&self) -> Duration {
        let drained = self.exited_at.map(|at| at + DRAIN_WAIT);
        let due = [self.tell_at, self.kill_at, self.ends_at, drained].into_iter().flatten().min();
        due.map_or(Duration::from_secs(60), |at| at.saturating_duration_since(Instant::now()))
    }

    fn due(&mut self) {
        let now = Instant::now();
        if self.tell_at.is_some_and(|at| at <= now) {
            self.tell_at = None;
            self.tells += 1;
            // What cannot be told now is in the log, which is kept at the end.
            let _ = self.tell_output();
        }
        if self.kill_at.is_some_and(|at| at <= now) {
            self.kill_at = None;
            self.signal(Signal::KILL);
        }
        if self.ends_at.is_some_and(|at| at <= now) {
            self.ends_at = None;
            let _ = self.cancel("timeout".to_owned(), TIMEOUT_GRACE);
        }
    }

    fn tell_output(&mut self) -> Result<()> {
        let task = self.task.clone();
        let bodies: Vec<Body> =
            self.outputs.iter_mut().filter_map(|output| output.delta(&task)).map(Body::from).collect();
        if bodies.is_empty() {
            return Ok(());
        }
        self.store.append_bodies(&self.stream, &bodies, Vec::new()).map(drop)
    }

    fn exited(&mut self) {
        self.exited_at = Some(Instant::now());
        // What the process started goes with it, if it was to go; what it meant to leave running stays.
        if self.cancelled.is_some() {
            self.signal(Signal::KILL);
        }
    }

    /// The process is not reaped before its end was recorded, so its number is nobody else's.
    fn signal(&self, signal: Signal) {
        child::signal_group(self.child.id().cast_signed(), signal);
    }

    /// Does what was asked for, and answers, unless the answer comes later.
    fn asked(&mut self, request: TaskRequest, answer: &Sender<Result<()>>) -> Option<Result<()>> {
        match request {
            TaskRequest::Cancel { reason, grace_ms } => Some(self.cancel(reason, Duration::from_millis(grace_ms))),
            TaskRequest::Signal { signal, given } => {
                self.signal(signal.raw());
                Some(self.tell(TaskSignalled { task_id: self.task.clone(), signal: given }.into()))
            }
            TaskRequest::Resize { rows, cols } => Some(self.resize(rows, cols)),
            TaskRequest::Stdin(mut bytes) => {
                bytes.truncate(STDIN_BYTES_MAX);
                self.write(bytes, answer).err().map(Err)
            }
        }
    }

    fn resize(&self, rows: u16, cols: u16) -> Result<()> {
        let terminal = self.terminal.as_ref().ok_or_else(|| self.no_terminal("resizing it"))?;
        terminal.resize(Size::new(rows, cols)).map_err(|error| self.broken(error.to_string()))?;
        self.tell(TaskResized { task_id: self.task.clone(), rows, cols }.into())
    }

    fn write(&mut self, bytes: Vec<u8>, answer: &Sender<Result<()>>) -> Result<()> {
        let writer = self.writer.as_ref().ok_or_else(|| self.no_terminal("writing to it"))?;
        let sent = writer.try_send(Writing { bytes, answer: answer.clone() });
        sent.map_err(|_| self.broken("it does not read what it was sent before".into()))?;
        self.writing += 1;
        Ok(())
    }

    fn wrote(&self, bytes: &[u8], written: std::io::Result<()>) -> Result<()> {
        written.map_err(|error| self.broken(error.to_string()))?;
        self.tell(TaskStdinWritten { task_id: self.task.clone(), chunk_b64: STANDARD.encode(bytes) }.into())
    }

    fn no_terminal(&self, what: &'static str) -> TaskError {
        TaskError::NoPty { task: self.task.clone(), what }
    }

    fn broken(&self, detail: String) -> TaskError {
        TaskError::Unreachable { task: self.task.clone(), detail }
    }

    fn cancel(&mut self, reason: String, grace: Duration) -> Result<()> {
        if self.cancelled.is_some() || self.exited_at.is_some() {
            return Ok(());
        }
        self.cancelled = Some(reason.clone());
        self.kill_at = Some(Instant::now() + grace);
        self.signal(Signal::TERM);
        self.tell(TaskCancelRequested { task_id: self.task.clone(), reason }.into())
    }

    /// Records the end, with all that was written.
    fn end(mut self) -> Result<()> {
        self.tell_output()?;
        let mut logs = Map::new();
        for output in &self.outputs {
            let kept = self.store.keep_log(&self.dir, &output.stream, Some(output.total))?;
            logs.extend(kept.map(|log| (output.stream.as_str().to_owned(), log)));
        }
        let ended = self.child.wait().map_err(|source| self.dir.failed(source))?;
        let logs = Some(json!({"logs": logs}));
        let mut bodies: Vec<Body> = Vec::new();
        let status = match self.cancelled.take() {
            Some(reason) => {
                let wall_time_ms = Some(self.began.elapsed().as_millis() as u64);
                bodies.push(TaskCancelled { task_id: self.task.clone(), reason, wall_time_ms }.into());
                self.status(TaskStatus::Cancelled, Some(exit_code(ended)), logs, None)
            }
            None => {
                let error = ended.signal().map(|signal| format!("signal {signal} ended it"));
                self.status(TaskStatus::Exited, Some(exit_code(ended)), logs, error)
            }
        };
        bodies.push(status.into());
        self.store.append_bodies(&self.stream, &bodies, Vec::new())?;
        self.dir.remove().map_err(|source| self.dir.failed(source))
    }
}

/// As shells count: what a signal ended has 128 and its number.
fn exit_code(status: ExitStatus) -> i32 {
    status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(1)
}

fn tell_after(tells: u32) -> Duration {
    if tells < TELLS_OFTEN_MAX { TELL_EVERY } else { TELL_SELDOM }
}

/// A thread that writes to a terminal, one thing after another.
fn writer(terminal: Arc<Pty>, events: SyncSender<Event>) -> SyncSender<Writing> {
    let (sender, receiver) = sync_channel::<Writing>(WRITES_WAITING_MAX);
    std::thread::spawn(move || {
        for writing in receiver {
            let written = std::io::Write::write_all(&mut &*terminal, &writing.bytes);
            let _ = events.send(Event::Wrote(writing, written));
        }
    });
    sender
}

fn read(index: usize, source: Box<dyn std::io::Read + Send>, log: File, room: u64, sender: &SyncSender<Event>) {
    // Nobody listens any more once the task has ended.
    child::drain(source, log, room, |bytes, kept| drop(sender.send(Event::Output(index, Part::of(bytes, kept)))));
    let _ = sender.send(Event::Closed);
}

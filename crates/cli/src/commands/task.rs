//! `enjamb task`

use std::io::{Read, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use clap::{Args, Subcommand};
use enjamb_server::{Operations, Runner, view};
use enjamb_service::{Config, ServiceError, Store, TASK_OUTPUT_BYTES_MAX, TaskOrder};
use serde_json::{Value, json};

use super::Context;
use super::remote::pass_on;
use super::task_view::{show_list, show_task};
use crate::failure::{Exit, Failure, Result};

const LOOK_EVERY: Duration = Duration::from_millis(50);
/// Bytes of a terminal's input that are sent at once.
const STDIN_BYTES: u64 = 8 << 10;

#[derive(Subcommand)]
pub enum Task {
    /// Run a command in the background
    Run(Run),
    /// List tasks, the one last heard of first
    List(List),
    /// Show one task
    Status(Status),
    /// Print what a task wrote
    Output(Output),
    /// End a task and all that it started
    Cancel(Cancel),
    /// Write to the terminal of a task
    Stdin(Stdin),
    /// Resize the terminal of a task
    Resize(Resize),
    /// Send a signal to a task and all that it started
    Signal(Signal),
    /// Print the frames of a task
    Events(Events),
    /// Run what is told on stdin (started by `task run`)
    #[command(hide = true)]
    Supervise,
}

#[derive(Args)]
#[command(
    after_help = "Example:\n  enjamb task run -- cargo test\n  enjamb task run --shell 'make 2>&1 | tee log' --title build\n  \
    enjamb task run --pty -- top\n\n\
    It goes on when this command and the terminal are gone; no server is needed. Its output is kept: \
    enjamb task output ID."
)]
pub struct Run {
    /// The program and its arguments
    #[arg(last = true, required_unless_present = "shell")]
    command: Vec<String>,
    /// A line for a shell instead
    #[arg(long, value_name = "LINE", conflicts_with = "command")]
    shell: Option<String>,
    /// Where to run it [default: here]
    #[arg(long, value_name = "DIR")]
    cwd: Option<PathBuf>,
    /// A few words about it
    #[arg(long)]
    title: Option<String>,
    /// Give it a terminal: what it writes is one output, pty, and it can be written to
    #[arg(long)]
    pty: bool,
    /// Rows of the terminal
    #[arg(long, default_value_t = 24, requires = "pty")]
    rows: u16,
    /// Columns of the terminal
    #[arg(long, default_value_t = 80, requires = "pty")]
    cols: u16,
    /// Cancel it after so long (90s, 15m, 12h)
    #[arg(long, value_name = "TIME")]
    timeout: Option<String>,
    /// Bytes of each output to keep
    #[arg(long, value_name = "BYTES", default_value_t = TASK_OUTPUT_BYTES_MAX)]
    output_max: u64,
}

#[derive(Args)]
#[command(after_help = "Example:\n  enjamb task list\n  enjamb task list -n 5 --json")]
pub struct List {
    /// At most this many
    #[arg(short = 'n', long, default_value_t = 20, value_name = "COUNT")]
    limit: usize,
}

#[derive(Args)]
#[command(after_help = "Example:\n  enjamb task status 5d1c90ab\n  enjamb task status 5d1c90ab --wait")]
pub struct Status {
    /// The task, by the beginning of its id
    task: String,
    /// Wait until it has ended
    #[arg(long)]
    wait: bool,
}

#[derive(Args)]
#[command(
    after_help = "Example:\n  enjamb task output 5d1c90ab\n  enjamb task output 5d1c90ab --stream stderr --range 0-1023\n  \
    enjamb task output 5d1c90ab --follow"
)]
pub struct Output {
    /// The task, by the beginning of its id
    task: String,
    /// stdout, stderr or pty [default: stdout, or pty of a task that has a terminal]
    #[arg(long)]
    stream: Option<String>,
    /// Only bytes A to B, both included, counted from 0; A- is from A to the end
    #[arg(long, value_name = "A-B", conflicts_with = "follow")]
    range: Option<String>,
    /// Go on as it writes, until it has ended
    #[arg(short, long)]
    follow: bool,
}

#[derive(Args)]
#[command(
    after_help = "Example:\n  enjamb task cancel 5d1c90ab\n  enjamb task cancel 5d1c90ab --reason 'wrong branch' --grace 0s\n\n\
    It is sent TERM first, and KILL when it is still there after the grace."
)]
pub struct Cancel {
    /// The task, by the beginning of its id
    task: String,
    /// Why
    #[arg(long, default_value = "cancel")]
    reason: String,
    /// How long it may take to end by itself
    #[arg(long, value_name = "TIME", default_value = "5s")]
    grace: String,
}

#[derive(Args)]
#[command(
    after_help = "Example:\n  enjamb task stdin 5d1c90ab yes\n  printf 'a\\nb\\n' | enjamb task stdin 5d1c90ab\n  \
    enjamb task stdin 5d1c90ab --eof"
)]
pub struct Stdin {
    /// The task, by the beginning of its id
    task: String,
    /// A line to write [default: all of stdin]
    line: Option<String>,
    /// Then say that nothing more comes
    #[arg(long)]
    eof: bool,
}

#[derive(Args)]
#[command(after_help = "Example:\n  enjamb task resize 5d1c90ab 50 120")]
pub struct Resize {
    /// The task, by the beginning of its id
    task: String,
    rows: u16,
    cols: u16,
}

#[derive(Args)]
#[command(after_help = "Example:\n  enjamb task signal 5d1c90ab INT\n\nThere are INT, QUIT, TERM, HUP and KILL.")]
pub struct Signal {
    /// The task, by the beginning of its id
    task: String,
    /// The signal's name, with SIG or without
    signal: String,
}

#[derive(Args)]
#[command(after_help = "Example:\n  enjamb task events 5d1c90ab\n  enjamb task events 5d1c90ab --follow")]
pub struct Events {
    /// The task, by the beginning of its id
    task: String,
    /// Go on as they come, until it has ended
    #[arg(short, long)]
    follow: bool,
}

impl Task {
    pub fn run(self, context: &mut Context<'_>) -> Result<Exit> {
        match self {
            Self::Run(run) => run.run(context),
            Self::List(list) => {
                let found: view::Tasks = operations(context)?.call("tasks", json!({"limit": list.limit}))?;
                show_list(context, &found.tasks)
            }
            Self::Status(status) => status.run(context),
            Self::Output(output) => output.run(context),
            Self::Cancel(cancel) => cancel.run(context),
            Self::Stdin(stdin) => stdin.run(context),
            Self::Resize(Resize { task, rows, cols }) => {
                asked(context, "resize_task", json!({"task": task, "rows": rows, "cols": cols}), "resize")
            }
            Self::Signal(Signal { task, signal }) => {
                asked(context, "signal_task", json!({"task": task, "signal": signal}), "signal")
            }
            Self::Events(events) => events.run(context),
            Self::Supervise => supervise(context),
        }
    }
}

/// The operations of the server that was named, or of the store here. A server that happens to run here is passed by: a
/// task is to have the environment of whoever asks for it, and outlives us either way.
fn operations(context: &Context<'_>) -> Result<Operations> {
    if context.address().is_some() {
        return context.operations();
    }
    here(context, context.open()?)
}

fn here(context: &Context<'_>, store: Store) -> Result<Operations> {
    let runner = runner(store.dir(), Config::default())?;
    Ok(Operations::running(store, context.actor(), runner))
}

/// This program, as it is started to supervise tasks of a store.
pub fn runner(store: &Path, config: Config) -> Result<Runner> {
    let failed = |source| ServiceError::File { path: "enjamb".into(), source };
    let program = std::env::current_exe().map_err(failed)?;
    let arguments = ["--store".into(), store.to_string_lossy().into_owned(), "task".into(), "supervise".into()];
    Ok(Runner { program, arguments: arguments.into(), config })
}

fn view(operations: &Operations, task: &str) -> Result<view::Task> {
    Ok(operations.call("task", json!({"task": task}))?)
}

impl Run {
    fn run(self, context: &mut Context<'_>) -> Result<Exit> {
        let is_elsewhere = context.address().is_some();
        let asked = self.asked(is_elsewhere)?;
        let operations = match is_elsewhere {
            true => context.operations()?,
            false => here(context, context.open_or_create()?)?,
        };
        let task: view::Task = operations.call("run_task", asked)?;
        if context.ui.is_json() {
            context.ui.json("task_run", json!({"task": task.task}))?;
        } else {
            context.ui.answer(&task.task)?;
        }
        Ok(Exit::Done)
    }

    fn asked(self, is_elsewhere: bool) -> Result<Value> {
        let here = std::env::current_dir().map_err(|source| ServiceError::File { path: ".".into(), source })?;
        // Directories of this machine mean nothing to another.
        let cwd = match self.cwd {
            Some(cwd) if is_elsewhere => Some(cwd),
            Some(cwd) => Some(here.join(cwd)),
            None => (!is_elsewhere).then_some(here),
        };
        let timeout_ms = self.timeout.as_deref().map(enjamb_service::parse_ttl).transpose()?;
        Ok(json!({
            "argv": self.shell.is_none().then_some(self.command), "shell": self.shell, "cwd": cwd, "title": self.title,
            "pty": self.pty.then(|| json!({"rows": self.rows, "cols": self.cols})), "timeout_ms": timeout_ms,
            "output_bytes_max": self.output_max,
        }))
    }
}

/// Is told what to run, says whether it runs, and stays until it has ended.
fn supervise(context: &mut Context<'_>) -> Result<Exit> {
    let order: TaskOrder = serde_json::from_reader(std::io::stdin().lock())
        .map_err(|error| Failure::usage(format!("this is for `enjamb task run` to start: {error}")))?;
    // Not in passing: what a hook has spooled can wait, and the task cannot.
    let store = Store::open(&context.store_dir()?, enjamb_service::Env::system())?;
    store.run_task_order(&order, Stdout)?;
    Ok(Exit::Done)
}

/// The descriptor itself, which whoever started us reads one line from.
struct Stdout;

impl std::io::Write for Stdout {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        std::io::stdout().lock().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        std::io::stdout().lock().flush()
    }
}

impl Status {
    fn run(self, context: &mut Context<'_>) -> Result<Exit> {
        let operations = operations(context)?;
        let mut task = view(&operations, &self.task)?;
        while self.wait && !task.is_over() {
            task = await_change(&operations, &task)?;
        }
        show_task(context, &task)
    }
}

/// Looks again after a while.
fn await_change(operations: &Operations, task: &view::Task) -> Result<view::Task> {
    std::thread::sleep(LOOK_EVERY);
    view(operations, &task.task)
}

impl Output {
    fn run(self, context: &mut Context<'_>) -> Result<Exit> {
        let range = self.range.as_deref().map_or(Ok(0..u64::MAX), parse_range)?;
        let operations = operations(context)?;
        let mut task = view(&operations, &self.task)?;
        if context.ui.is_json() {
            return show_task(context, &task);
        }
        let mut offset = range.start;
        loop {
            // Whether it was over is known before what it wrote is read: what comes in between is not missed.
            let was_over = task.is_over();
            let length = (range.end < u64::MAX).then(|| range.end - offset);
            let asked = json!({"task": task.task, "stream": self.stream, "offset": offset, "length": length});
            let (written, _) = pass_on(&operations, "task_output", asked, &mut context.ui.stored_writer())?;
            offset += written;
            if !self.follow || was_over {
                return Ok(Exit::Done);
            }
            task = await_change(&operations, &task)?;
        }
    }
}

/// `A-B`, both included, or `A-`.
fn parse_range(text: &str) -> Result<Range<u64>> {
    let expected = "A-B or A-, such as 0-1023";
    let invalid = || ServiceError::Invalid { what: "range", text: text.to_owned(), expected };
    let (from, to) = text.split_once('-').ok_or_else(invalid)?;
    let from: u64 = from.parse().map_err(|_| invalid())?;
    let to: u64 = if to.is_empty() { u64::MAX } else { to.parse().map_err(|_| invalid())? };
    if to < from {
        return Err(invalid().into());
    }
    Ok(from..to.saturating_add(1))
}

impl Cancel {
    fn run(self, context: &mut Context<'_>) -> Result<Exit> {
        let grace_ms = enjamb_service::parse_ttl(&self.grace)?;
        let operations = operations(context)?;
        let mut task = view(&operations, &self.task)?;
        let asked = json!({"task": task.task, "reason": self.reason, "grace_ms": grace_ms});
        operations.call::<view::TaskAsked>("cancel_task", asked)?;
        let began = Instant::now();
        let patience = Duration::from_millis(grace_ms) + Duration::from_secs(30);
        while !task.is_over() && began.elapsed() < patience {
            task = await_change(&operations, &task)?;
        }
        show_task(context, &task)
    }
}

impl Stdin {
    fn run(self, context: &mut Context<'_>) -> Result<Exit> {
        const END: u8 = 4;
        let operations = operations(context)?;
        let task = view(&operations, &self.task)?.task;
        let mut source: Box<dyn Read> = match self.line {
            Some(line) => Box::new(std::io::Cursor::new(format!("{line}\n").into_bytes())),
            None if self.eof => Box::new(std::io::empty()),
            None => Box::new(std::io::stdin().lock()),
        };
        if self.eof {
            source = Box::new(source.chain(std::io::Cursor::new([END])));
        }
        loop {
            let mut bytes = Vec::new();
            source.by_ref().take(STDIN_BYTES).read_to_end(&mut bytes)?;
            if bytes.is_empty() {
                return said(context, &task, "stdin");
            }
            let asked = json!({"task": task, "chunk_b64": STANDARD.encode(bytes)});
            operations.call::<view::TaskAsked>("write_task", asked)?;
        }
    }
}

fn asked(context: &mut Context<'_>, operation: &str, params: Value, what: &str) -> Result<Exit> {
    let asked: view::TaskAsked = operations(context)?.call(operation, params)?;
    said(context, &asked.task, what)
}

fn said(context: &mut Context<'_>, task: &str, what: &str) -> Result<Exit> {
    if context.ui.is_json() {
        context.ui.json(&format!("task_{what}"), json!({"task": task}))?;
    }
    Ok(Exit::Done)
}

impl Events {
    fn run(self, context: &mut Context<'_>) -> Result<Exit> {
        let operations = operations(context)?;
        let mut task = view(&operations, &self.task)?;
        let mut next = 0;
        loop {
            let was_over = task.is_over();
            next = show_frames(context, &operations, &task.task, next)?;
            if !self.follow || was_over {
                return Ok(Exit::Done);
            }
            task = await_change(&operations, &task)?;
        }
    }
}

/// Prints the frames of a task from a seq on, and says where they end.
fn show_frames(context: &mut Context<'_>, operations: &Operations, task: &str, mut next: u64) -> Result<u64> {
    const PAGE: usize = 500;
    loop {
        let asked = json!({"kind": "task", "id": task, "from_seq": next, "limit": PAGE, "raw": true});
        let page: view::Frames = operations.call("frames", asked)?;
        let mut out = context.ui.stored_writer();
        for frame in &page.frames {
            next = frame.seq + 1;
            out.write_all(frame.frame.get().as_bytes())?;
            out.write_all(b"\n")?;
        }
        out.flush()?;
        if page.next.is_none() {
            return Ok(next);
        }
    }
}

//! `enjamb task`

use std::io::{Read, Write};
use std::ops::Range;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::{Args, Subcommand};
use enjamb_service::{
    ServiceError, Store, TASK_OUTPUT_BYTES_MAX, TaskCommand, TaskOrder, TaskRequest, TaskSignal, TaskSpec, TaskView,
};
use serde_json::json;

use super::Context;
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
                let tasks = context.open()?.tasks(list.limit)?;
                show_list(context, &tasks)
            }
            Self::Status(status) => status.run(context),
            Self::Output(output) => output.run(context),
            Self::Cancel(cancel) => cancel.run(context),
            Self::Stdin(stdin) => stdin.run(context),
            Self::Resize(Resize { task, rows, cols }) => {
                asked(context, &task, &TaskRequest::Resize { rows, cols }, "resize")
            }
            Self::Signal(Signal { task, signal: given }) => {
                let signal: TaskSignal = given.parse().map_err(ServiceError::from)?;
                asked(context, &task, &TaskRequest::Signal { signal, given }, "signal")
            }
            Self::Events(events) => events.run(context),
            Self::Supervise => supervise(context),
        }
    }
}

impl Run {
    fn run(self, context: &mut Context<'_>) -> Result<Exit> {
        let spec = self.spec()?;
        let store = context.open_or_create()?;
        let failed = |source| ServiceError::File { path: "enjamb".into(), source };
        let program = std::env::current_exe().map_err(failed)?;
        let dir = store.dir().to_string_lossy().into_owned();
        let arguments = ["--store", &dir, "task", "supervise"];
        let task = store.launch_task(spec, &program, &arguments)?;
        if context.ui.is_json() {
            context.ui.json("task_run", json!({"task": task}))?;
        } else {
            context.ui.answer(&task)?;
        }
        Ok(Exit::Done)
    }

    fn spec(self) -> Result<TaskSpec> {
        let here = std::env::current_dir().map_err(|source| ServiceError::File { path: ".".into(), source })?;
        let cwd = self.cwd.map_or_else(|| here.clone(), |cwd| here.join(cwd));
        if !cwd.is_dir() {
            return Err(ServiceError::from(enjamb_service::WorkspaceError::NotADirectory(cwd)).into());
        }
        let command = self.shell.map_or(TaskCommand::Words(self.command), TaskCommand::Shell);
        Ok(TaskSpec {
            cwd: Some(cwd),
            title: self.title,
            pty: self.pty.then_some((self.rows, self.cols)),
            output_bytes_max: self.output_max,
            timeout_ms: self.timeout.as_deref().map(enjamb_service::parse_ttl).transpose()?,
            ..TaskSpec::new(command)
        })
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
        let store = context.open()?;
        let mut view = store.task(&self.task)?;
        while self.wait && !view.is_over() {
            view = await_change(&store, &view)?;
        }
        show_task(context, &view)
    }
}

/// Looks again after a while. A task whose supervisor is gone is ended on the way.
fn await_change(store: &Store, view: &TaskView) -> Result<TaskView> {
    std::thread::sleep(LOOK_EVERY);
    store.end_lost_tasks()?;
    Ok(store.task(&view.id)?)
}

impl Output {
    fn run(self, context: &mut Context<'_>) -> Result<Exit> {
        let mut range = self.range.as_deref().map_or(Ok(0..u64::MAX), parse_range)?;
        let store = context.open()?;
        let mut view = store.task(&self.task)?;
        if context.ui.is_json() {
            return show_task(context, &view);
        }
        let stream = self.stream.as_deref();
        loop {
            // Whether it was over is known before what it wrote is read: what comes in between is not missed.
            let was_over = view.is_over();
            let mut out = context.ui.stored_writer();
            let end = store.task_output(&view, stream, range.clone(), &mut |bytes| out.write_all(bytes))?;
            out.flush()?;
            if !self.follow || was_over {
                return Ok(Exit::Done);
            }
            range.start = range.start.max(end);
            view = await_change(&store, &view)?;
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
        let store = context.open()?;
        let mut view = store.task(&self.task)?;
        store.ask_task(&view.id, &TaskRequest::Cancel { reason: self.reason, grace_ms })?;
        let began = Instant::now();
        let patience = Duration::from_millis(grace_ms) + Duration::from_secs(30);
        while !view.is_over() && began.elapsed() < patience {
            view = await_change(&store, &view)?;
        }
        show_task(context, &view)
    }
}

impl Stdin {
    fn run(self, context: &mut Context<'_>) -> Result<Exit> {
        const END: u8 = 4;
        let store = context.open()?;
        let task = store.task(&self.task)?.id;
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
            store.ask_task(&task, &TaskRequest::Stdin(bytes))?;
        }
    }
}

fn asked(context: &mut Context<'_>, word: &str, request: &TaskRequest, what: &str) -> Result<Exit> {
    let store = context.open()?;
    let task = store.task(word)?.id;
    store.ask_task(&task, request)?;
    said(context, &task, what)
}

fn said(context: &mut Context<'_>, task: &str, what: &str) -> Result<Exit> {
    if context.ui.is_json() {
        context.ui.json(&format!("task_{what}"), json!({"task": task}))?;
    }
    Ok(Exit::Done)
}

impl Events {
    fn run(self, context: &mut Context<'_>) -> Result<Exit> {
        const PAGE: usize = 500;
        let store = context.open()?;
        let mut view = store.task(&self.task)?;
        let stream = format!("task/{}", view.id).parse().map_err(ServiceError::from)?;
        let mut next = 0;
        loop {
            let was_over = view.is_over();
            loop {
                let frames = enjamb_ledger::Ledger::frames(store.ledger(), &stream, next, PAGE)?;
                for frame in &frames {
                    next = frame.seq + 1;
                    let mut out = context.ui.stored_writer();
                    out.write_all(&frame.json)?;
                    out.write_all(b"\n")?;
                    out.flush()?;
                }
                if frames.len() < PAGE {
                    break;
                }
            }
            if !self.follow || was_over {
                return Ok(Exit::Done);
            }
            view = await_change(&store, &view)?;
        }
    }
}

//! Speaking to the supervisor of a task: one request a connection, one line each way.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::mpsc::{Sender, SyncSender, channel};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::dir::TaskDir;
use super::supervise::Event;
use super::{TaskError, TaskSignal, check_size};
use crate::{Result, Store};

/// Bytes that go to a task's terminal with one frame.
pub(super) const STDIN_BYTES_MAX: usize = 8 << 10;
const LINE_BYTES_MAX: u64 = 64 << 10;
/// A supervisor answers at once, or when its disk has synced.
const ANSWER_WAIT: Duration = Duration::from_secs(30);
const ASK_WAIT: Duration = Duration::from_secs(2);

/// What a task may be asked to do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TaskRequest {
    /// End, with all that it started: asked nicely first, and not after so long.
    Cancel {
        reason: String,
        grace_ms: u64,
    },
    /// Read this from its terminal; at most 8 KiB.
    Stdin(Vec<u8>),
    Resize {
        rows: u16,
        cols: u16,
    },
    Signal {
        signal: TaskSignal,
        given: String,
    },
}

/// A request, and where the answer goes.
pub(super) struct Asked {
    pub request: TaskRequest,
    pub answer: Sender<Result<()>>,
}

impl Store {
    /// Asks a task that runs to do something.
    pub fn ask_task(&self, task: &str, request: &TaskRequest) -> Result<()> {
        let view = self.task(task)?;
        if let TaskRequest::Resize { rows, cols } = request {
            check_size(*rows, *cols)?;
        }
        if view.is_over() {
            return Err(TaskError::Ended { task: view.id, status: view.status.as_str().to_owned() }.into());
        }
        let dir = self.task_dir(&view.id);
        if !dir.exists() {
            return Err(TaskError::Elsewhere { task: view.id }.into());
        }
        let needs_terminal = match request {
            TaskRequest::Stdin(_) => Some("writing to it"),
            TaskRequest::Resize { .. } => Some("resizing it"),
            TaskRequest::Cancel { .. } | TaskRequest::Signal { .. } => None,
        };
        if let Some(what) = needs_terminal.filter(|_| !view.pty) {
            return Err(TaskError::NoPty { task: view.id, what }.into());
        }
        send(&dir, request).map_err(|error| self.silence(&view.id, &error))
    }

    /// Why nobody answered: the task has just ended, or something is wrong.
    fn silence(&self, task: &str, error: &io::Error) -> crate::ServiceError {
        match self.task(task) {
            Ok(view) if view.is_over() => {
                TaskError::Ended { task: view.id, status: view.status.as_str().to_owned() }.into()
            }
            Ok(_) => TaskError::Unreachable { task: task.to_owned(), detail: error.to_string() }.into(),
            Err(error) => error,
        }
    }
}

fn send(dir: &TaskDir, request: &TaskRequest) -> io::Result<()> {
    let (address, _open) = dir.address()?;
    let mut stream = UnixStream::connect(address)?;
    stream.set_read_timeout(Some(ANSWER_WAIT))?;
    stream.set_write_timeout(Some(ANSWER_WAIT))?;
    let mut line = serde_json::to_vec(request)?;
    line.push(b'\n');
    stream.write_all(&line)?;
    let answer: Value = serde_json::from_str(&read_line(&stream)?)?;
    match answer["error"].as_str() {
        Some(error) => Err(io::Error::other(error.to_owned())),
        None => Ok(()),
    }
}

fn read_line(stream: &UnixStream) -> io::Result<String> {
    let mut line = String::new();
    BufReader::new(stream.take(LINE_BYTES_MAX)).read_line(&mut line)?;
    if line.ends_with('\n') { Ok(line) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
}

/// The socket that requests come to.
pub(super) fn listen(dir: &TaskDir) -> Result<UnixListener> {
    let listening = dir.address().and_then(|(address, _open)| UnixListener::bind(address));
    listening.map_err(|source| dir.failed(source))
}

/// Passes requests on until nobody takes them any more.
pub(super) fn serve(listener: &UnixListener, events: &SyncSender<Event>) {
    for stream in listener.incoming().flatten() {
        match answer(&stream, events) {
            Ok(true) => {}
            Ok(false) => return,
            // Whoever asked has gone, or asked for nothing that there is.
            Err(_) => {}
        }
    }
}

fn answer(mut stream: &UnixStream, events: &SyncSender<Event>) -> io::Result<bool> {
    stream.set_read_timeout(Some(ASK_WAIT))?;
    stream.set_write_timeout(Some(ASK_WAIT))?;
    let request = serde_json::from_str(&read_line(stream)?)?;
    let (sender, receiver) = channel();
    if events.send(Event::Asked(Asked { request, answer: sender })).is_err() {
        return Ok(false);
    }
    let answer = match receiver.recv_timeout(ANSWER_WAIT) {
        Ok(Ok(())) => json!({"ok": true}),
        Ok(Err(error)) => json!({"error": error.to_string()}),
        Err(_) => json!({"error": "the task is ending"}),
    };
    stream.write_all(format!("{answer}\n").as_bytes())?;
    Ok(true)
}

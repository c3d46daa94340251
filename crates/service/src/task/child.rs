//! The process of a task: on pipes or on a terminal, the leader of a group of its own.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use enjamb_core::frame::OutputStream;
use pty_process::Size;
use pty_process::blocking::Pty;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions};

use super::TaskSpec;

/// A process that was started, and what it writes to.
pub(super) struct Started {
    pub child: Child,
    pub outputs: Vec<(OutputStream, Box<dyn Read + Send>)>,
    pub terminal: Option<Arc<Pty>>,
}

pub(super) fn start(spec: &TaskSpec) -> io::Result<Started> {
    let words = spec.command.words();
    let (program, arguments) = words.split_first().ok_or(io::ErrorKind::InvalidInput)?;
    match spec.pty {
        None => on_pipes(spec, program, arguments),
        Some((rows, cols)) => on_terminal(spec, program, arguments, Size::new(rows, cols)),
    }
}

fn on_pipes(spec: &TaskSpec, program: &str, arguments: &[String]) -> io::Result<Started> {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    if let Some(cwd) = &spec.cwd {
        command.current_dir(cwd);
    }
    let mut child = command.spawn()?;
    let mut outputs: Vec<(OutputStream, Box<dyn Read + Send>)> = Vec::new();
    if let Some(stdout) = child.stdout.take() {
        outputs.push((OutputStream::Stdout, Box::new(stdout)));
    }
    if let Some(stderr) = child.stderr.take() {
        outputs.push((OutputStream::Stderr, Box::new(stderr)));
    }
    Ok(Started { child, outputs, terminal: None })
}

fn on_terminal(spec: &TaskSpec, program: &str, arguments: &[String], size: Size) -> io::Result<Started> {
    let (pty, pts) = pty_process::blocking::open().map_err(plain)?;
    pty.resize(size).map_err(plain)?;
    let mut command = pty_process::blocking::Command::new(program).args(arguments);
    if let Some(cwd) = &spec.cwd {
        command = command.current_dir(cwd);
    }
    let child = command.spawn(pts).map_err(plain)?;
    let pty = Arc::new(pty);
    let reader = TerminalReader(pty.clone());
    Ok(Started { child, outputs: vec![(OutputStream::Pty, Box::new(reader))], terminal: Some(pty) })
}

fn plain(error: pty_process::Error) -> io::Error {
    match error {
        pty_process::Error::Io(error) => error,
        other => io::Error::other(other.to_string()),
    }
}

struct TerminalReader(Arc<Pty>);

impl Read for TerminalReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match (&*self.0).read(buffer) {
            // That is how a terminal says that nobody is on its other side any more.
            Err(error) if error.raw_os_error() == Some(rustix::io::Errno::IO.raw_os_error()) => Ok(0),
            read => read,
        }
    }
}

/// Waits until a process has ended, and leaves it to be reaped: until then nobody else has its number.
pub(super) fn wait_unreaped(pid: u32) {
    let Some(pid) = Pid::from_raw(pid.cast_signed()) else { return };
    let wait = || rustix::process::waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT);
    while matches!(wait(), Err(rustix::io::Errno::INTR)) {}
}

/// Signals a process and all that it started, but for what has gone its own way.
pub(super) fn signal_group(pid: i32, signal: Signal) {
    if let Some(pid) = Pid::from_raw(pid) {
        // Nobody being left is what is wanted in the end.
        let _ = rustix::process::kill_process_group(pid, signal);
    }
}

/// Reads an output to its end, keeping so many bytes of it in a file; `tell` has each part.
pub(super) fn drain(mut output: Box<dyn Read + Send>, mut log: File, mut room: u64, mut tell: impl FnMut(&[u8], u64)) {
    let mut buffer = vec![0; 64 << 10];
    loop {
        let read = match output.read(&mut buffer) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Ok(0) | Err(_) => return,
            Ok(read) => read,
        };
        let kept = room.min(read as u64) as usize;
        // A disk that is full takes no more; what was kept before stays.
        let written = io::Write::write_all(&mut log, &buffer[..kept]).is_ok();
        room = if written { room - kept as u64 } else { 0 };
        tell(&buffer[..read], if written { kept as u64 } else { 0 });
    }
}

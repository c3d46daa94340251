//! Running a command: no shell, its own process group, a time limit, and somebody who can call it off.

use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::Value;

use super::output::Channel;

const GLANCE: Duration = Duration::from_millis(25);
/// How long output may follow the end of its program: somebody else may hold the pipe.
const AFTERWARDS: Duration = Duration::from_millis(500);

/// What to run.
pub(super) struct Job<'j> {
    pub argv: Vec<String>,
    pub input: String,
    pub workspace: &'j Path,
    pub withheld: &'j [String],
    pub timeout: Duration,
    pub cancel: &'j AtomicBool,
}

/// How a command ended.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Ended {
    Exited(i32),
    /// It was killed, or could not be run.
    Failed(String),
}

enum Piece {
    Bytes(Channel, Vec<u8>),
    Closed,
}

pub(super) fn run(job: &Job<'_>, take: &mut dyn FnMut(Channel, &[u8])) -> Ended {
    let mut child = match spawn(job) {
        Ok(child) => child,
        Err(error) => return Ended::Failed(format!("cannot run {}: {error}", job.argv[0])),
    };
    let pieces = listen(&mut child, job.input.clone());
    let ended = watch(job, &mut child, &pieces, take);
    // Whatever it left running in its group goes with it.
    kill(&child);
    let _ = child.wait();
    ended
}

fn spawn(job: &Job<'_>) -> std::io::Result<Child> {
    let mut command = Command::new(&job.argv[0]);
    command.args(&job.argv[1..]).current_dir(job.workspace).process_group(0);
    for name in job.withheld {
        command.env_remove(name);
    }
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()
}

fn listen(child: &mut Child, input: String) -> Receiver<Piece> {
    let (tell, pieces) = channel();
    if let Some(mut stdin) = child.stdin.take() {
        // Who does not want it closes it.
        thread::spawn(move || drop(stdin.write_all(input.as_bytes())));
    }
    if let Some(stdout) = child.stdout.take() {
        let tell = tell.clone();
        thread::spawn(move || read(stdout, Channel::Stdout, &tell));
    }
    if let Some(stderr) = child.stderr.take() {
        thread::spawn(move || read(stderr, Channel::Stderr, &tell));
    }
    pieces
}

fn read(mut from: impl Read, channel: Channel, tell: &Sender<Piece>) {
    let mut buffer = vec![0; 16 << 10];
    while let Ok(read @ 1..) = from.read(&mut buffer) {
        if tell.send(Piece::Bytes(channel, buffer[..read].to_vec())).is_err() {
            return;
        }
    }
    let _ = tell.send(Piece::Closed);
}

fn watch(job: &Job<'_>, child: &mut Child, pieces: &Receiver<Piece>, take: &mut dyn FnMut(Channel, &[u8])) -> Ended {
    let until = Instant::now() + job.timeout;
    let (mut open, mut exited) = (2, None);
    loop {
        match pieces.recv_timeout(GLANCE) {
            Ok(Piece::Bytes(channel, bytes)) => take(channel, &bytes),
            Ok(Piece::Closed) => open -= 1,
            Err(RecvTimeoutError::Disconnected) => open = 0,
            Err(RecvTimeoutError::Timeout) => {}
        }
        if exited.is_none() {
            exited = child.try_wait().ok().flatten().map(|status| (status, Instant::now()));
        }
        if let Some((status, at)) = exited
            && (open == 0 || at.elapsed() > AFTERWARDS)
        {
            return Ended::Exited(code(status));
        }
        if job.cancel.load(Ordering::Relaxed) {
            return Ended::Failed("cancelled".into());
        }
        if Instant::now() > until {
            return Ended::Failed("timeout".into());
        }
    }
}

/// As shells say it: 128 and the signal for who was killed.
fn code(status: std::process::ExitStatus) -> i32 {
    use std::os::unix::process::ExitStatusExt;
    status.code().or_else(|| Some(128 + status.signal()?)).unwrap_or(1)
}

fn kill(child: &Child) {
    if let Some(group) = Pid::from_raw(child.id() as i32) {
        let _ = kill_process_group(group, Signal::KILL);
    }
}

/// The arguments of a command: `{member}` stands for what the model gave, or for nothing when it gave none.
pub(super) fn argv(command: &[String], arguments: &Value) -> Vec<String> {
    let stands_for = |word: &String| word.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')).map(str::to_owned);
    let given = |member: String| match &arguments[member.as_str()] {
        Value::Null => Vec::new(),
        Value::String(text) => vec![text.clone()],
        Value::Array(items) => items.iter().map(plain).collect(),
        other => vec![plain(other)],
    };
    command.iter().flat_map(|word| stands_for(word).map_or_else(|| vec![word.clone()], given)).collect()
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn ran(argv: &[&str], timeout: Duration) -> (Ended, String) {
        let here = std::env::temp_dir();
        let job = Job {
            argv: argv.iter().map(|word| (*word).to_owned()).collect(),
            input: "{}".into(),
            workspace: &here,
            withheld: &["ENJAMB_TEST_WITHHELD".into()],
            timeout,
            cancel: &AtomicBool::new(false),
        };
        let mut text = String::new();
        let ended = run(&job, &mut |_, bytes| text.push_str(&String::from_utf8_lossy(bytes)));
        (ended, text)
    }

    #[test]
    fn a_command_ends_by_itself_or_is_ended() {
        let long = Duration::from_secs(60);
        assert_eq!(ran(&["sh", "-c", "cat; echo out; exit 3"], long), (Ended::Exited(3), "{}out\n".into()));
        assert_eq!(ran(&["sh", "-c", "kill -9 $$"], long).0, Ended::Exited(137));
        let (ended, _) = ran(&["sh", "-c", "sleep 600 & sleep 600"], Duration::from_millis(50));
        assert_eq!(ended, Ended::Failed("timeout".into()));
        assert!(matches!(ran(&["/no/such/program"], long).0, Ended::Failed(said) if said.contains("cannot run")));
    }

    #[test]
    fn members_stand_where_the_command_names_them() {
        let command = ["grep", "{options}", "-e", "{word}", "{count}", "{none}"].map(str::to_owned);
        let given = json!({"word": "; rm -rf /", "options": ["-n", "-i"], "count": 3});
        assert_eq!(argv(&command, &given), ["grep", "-n", "-i", "-e", "; rm -rf /", "3"]);
    }
}

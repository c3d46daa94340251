//! The server under load: a real one, as a process of its own, and clients that keep their connections.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::load::{self, Answer};
use crate::failure::{Failure, Result};

/// Appends that are timed while followers listen.
const TIMED: usize = 500;

/// A server under load; one of ours ends when this is dropped.
pub struct Serving {
    child: Option<Child>,
    address: String,
    token: String,
}

impl Drop for Serving {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            // Whether it was still there or not, it is not any more.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

pub fn broken(what: &str) -> impl Fn(io::Error) -> Failure {
    move |error| Failure::usage(format!("{what}: {error}"))
}

impl Serving {
    /// A server that is there already.
    pub fn at(address: &str) -> Self {
        Self { child: None, address: address.to_owned(), token: "none".to_owned() }
    }

    pub fn start(store: &Path) -> Result<Self> {
        let failed = broken("the server");
        let program = std::env::current_exe().map_err(&failed)?;
        let mut command = Command::new(program);
        command.arg("--store").arg(store).args(["serve", "--listen", "127.0.0.1:0", "--json"]);
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().map_err(&failed)?;
        let mut line = String::new();
        if let Some(stdout) = child.stdout.as_mut() {
            BufReader::new(stdout).read_line(&mut line).map_err(&failed)?;
        }
        let told: Value = serde_json::from_str(&line).unwrap_or_default();
        let address = told["url"].as_str().and_then(|url| url.strip_prefix("http://")).unwrap_or_default().to_owned();
        let token = std::fs::read_to_string(store.join("token")).map_err(&failed)?.trim().to_owned();
        Ok(Self { child: Some(child), address, token })
    }

    pub fn stream(&self) -> Result<TcpStream> {
        let stream = TcpStream::connect(&self.address).map_err(broken("a connection (ulimit -n says how many)"))?;
        stream.set_nodelay(true).map_err(broken("a connection"))?;
        Ok(stream)
    }

    /// A request that appends to a stream, up to the length of its body.
    pub fn append_head(&self, stream: &str) -> String {
        let line = format!("POST /v1/streams/bench/{stream}/frames HTTP/1.1\r\n");
        format!("{line}{}content-type: application/json\r\n", self.caller())
    }

    /// Begins to follow a stream.
    fn follow(&self, stream: &str) -> Result<TcpStream> {
        let mut connection = self.stream()?;
        let request = format!("GET /v1/streams/bench/{stream}/events HTTP/1.1\r\n{}\r\n", self.caller());
        connection.write_all(request.as_bytes()).map_err(broken("a follower"))?;
        Ok(connection)
    }

    fn caller(&self) -> String {
        format!("host: {}\r\nauthorization: Bearer {}\r\n", self.address, self.token)
    }

    /// Memory that it holds now, in KiB.
    fn memory_kib(&self) -> u64 {
        let id = self.child.as_ref().map_or(0, Child::id);
        let status = std::fs::read_to_string(format!("/proc/{id}/status")).unwrap_or_default();
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap_or_default();
        line.split_whitespace().nth(1).and_then(|kib| kib.parse().ok()).unwrap_or(0)
    }
}

/// One who appends to one stream and waits for each answer.
struct Writer {
    stream: TcpStream,
    head: String,
}

impl Writer {
    fn append(&mut self, number: usize) -> Result<()> {
        let failed = broken("an append");
        self.stream.write_all(load::request(&self.head, number).as_bytes()).map_err(&failed)?;
        let status = Answer::wait(&mut self.stream).map_err(&failed)?.status;
        if status == 201 { Ok(()) } else { Err(Failure::usage(format!("an append was answered with {status}"))) }
    }
}

pub fn at(sorted: &[f64], part: f64) -> f64 {
    sorted.get((sorted.len() as f64 * part) as usize).copied().unwrap_or(0.0) * 1e6
}

/// How soon a follower knows of an append, alone and among many, some of whom take nothing; and what those cost.
pub fn follow(store: &Path, followers: usize, stuck: usize) -> Result<Value> {
    let serving = Serving::start(store)?;
    let alone = timed(&serving, "alone")?;
    let mut held = Vec::new();
    let memory_before = serving.memory_kib();
    for number in 0..followers {
        let connection = serving.follow("alone")?;
        if number >= stuck {
            connection.set_nonblocking(true).map_err(broken("a follower"))?;
        }
        held.push(connection);
    }
    let reading = held.split_off(stuck.min(held.len()));
    let (stop, stopped) = channel::<()>();
    let among = std::thread::scope(|scope| {
        scope.spawn(move || take_all(reading, &stopped));
        let among = timed(&serving, "alone");
        drop(stop);
        among
    })?;
    let memory_after = serving.memory_kib();
    let of = |timed: &Value| timed["append_p99_us"].as_f64().unwrap_or(f64::INFINITY);
    Ok(json!({
        "alone": alone, "among": among, "append_p99_ratio": of(&among) / of(&alone),
        "memory_growth_kib": memory_after.saturating_sub(memory_before),
    }))
}

/// Reads whatever comes on many connections, until told to stop.
fn take_all(mut connections: Vec<TcpStream>, stopped: &Receiver<()>) {
    run_when_idle();
    let mut buffer = vec![0; 64 << 10];
    while stopped.try_recv() == Err(TryRecvError::Empty) {
        for connection in &mut connections {
            // Nothing there, or gone: either way there is nothing to take.
            let _ = connection.read(&mut buffer);
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Those who follow sit elsewhere: reading for all of them is not to take the processor from the server. Where that
/// cannot be had, the figures are merely worse.
fn run_when_idle() {
    #[cfg(target_os = "linux")]
    {
        use thread_priority::{
            NormalThreadSchedulePolicy, ThreadPriority, ThreadSchedulePolicy, set_thread_priority_and_policy,
            thread_native_id,
        };
        let policy = ThreadSchedulePolicy::Normal(NormalThreadSchedulePolicy::Idle);
        let _ = set_thread_priority_and_policy(thread_native_id(), ThreadPriority::Min, policy);
    }
}

/// Appends one frame after another and waits for each to come to a follower. Times in microseconds.
fn timed(serving: &Serving, stream: &str) -> Result<Value> {
    let mut writer = Writer { stream: serving.stream()?, head: serving.append_head(stream) };
    writer.append(0)?;
    let mut follower = BufReader::new(serving.follow(stream)?);
    let (told, telling) = channel();
    let reader = std::thread::spawn(move || {
        let mut line = String::new();
        while follower.read_line(&mut line).is_ok_and(|read| read > 0) {
            let is_event = line.starts_with("data: ");
            line.clear();
            if is_event && told.send(Instant::now()).is_err() {
                break;
            }
        }
    });
    let late = |_| Failure::usage("a follower was not told in time");
    let wait = || telling.recv_timeout(Duration::from_secs(10)).map_err(late);
    // Many who have just come read the log first.
    telling.recv_timeout(Duration::from_secs(120)).map_err(late)?;
    // What was appended before this run comes first.
    while telling.recv_timeout(Duration::from_secs(2)).is_ok() {}
    let (mut appended, mut followed) = (Vec::new(), Vec::new());
    for number in 0..TIMED {
        let began = Instant::now();
        writer.append(number)?;
        let done = Instant::now();
        followed.push(wait()?.saturating_duration_since(done).as_secs_f64());
        appended.push((done - began).as_secs_f64());
    }
    drop(telling);
    // One more, so that the reader finds nobody to tell and ends.
    writer.append(TIMED)?;
    let _ = reader.join();
    appended.sort_by(f64::total_cmp);
    followed.sort_by(f64::total_cmp);
    Ok(json!({
        "append_p50_us": at(&appended, 0.5), "append_p99_us": at(&appended, 0.99),
        "told_p50_us": at(&followed, 0.5), "told_p99_us": at(&followed, 0.99),
    }))
}

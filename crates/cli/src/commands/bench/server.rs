//! The server under load: a real one, as a process of its own, and clients that keep their connections.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::failure::{Failure, Result};

/// Appends that are timed while followers listen.
const TIMED: usize = 500;

/// A server that ends when this is dropped.
struct Serving {
    child: Child,
    address: String,
    token: String,
}

impl Drop for Serving {
    fn drop(&mut self) {
        // Whether it was still there or not, it is not any more.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn broken(what: &str) -> impl Fn(io::Error) -> Failure {
    move |error| Failure::usage(format!("{what}: {error}"))
}

impl Serving {
    fn start(store: &Path) -> Result<Self> {
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
        Ok(Self { child, address, token })
    }

    fn connect(&self) -> Result<Connection> {
        let stream = TcpStream::connect(&self.address).map_err(broken("a connection (ulimit -n says how many)"))?;
        stream.set_nodelay(true).map_err(broken("a connection"))?;
        let head = format!("host: {}\r\nauthorization: Bearer {}\r\n", self.address, self.token);
        Ok(Connection { stream: BufReader::new(stream), head })
    }

    /// Memory that it holds now, in KiB.
    fn memory_kib(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap_or_default();
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap_or_default();
        line.split_whitespace().nth(1).and_then(|kib| kib.parse().ok()).unwrap_or(0)
    }
}

/// A connection that is kept.
struct Connection {
    stream: BufReader<TcpStream>,
    head: String,
}

impl Connection {
    /// Appends a frame of about 1 KB, and returns when it is acknowledged.
    fn append(&mut self, stream: &str, number: usize) -> Result<()> {
        let body = format!(r#"{{"type":"said","n":{number},"text":"{}"}}"#, "x".repeat(960));
        let request = format!(
            "POST /v1/streams/bench/{stream}/frames HTTP/1.1\r\n{}content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            self.head,
            body.len()
        );
        let failed = broken("an append");
        self.stream.get_mut().write_all(request.as_bytes()).map_err(&failed)?;
        let status = self.answer().map_err(&failed)?;
        if status == 201 { Ok(()) } else { Err(Failure::usage(format!("an append was answered with {status}"))) }
    }

    fn answer(&mut self) -> io::Result<u16> {
        let mut line = String::new();
        self.stream.read_line(&mut line)?;
        let status = line.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
        let mut length = 0;
        loop {
            line.clear();
            self.stream.read_line(&mut line)?;
            match line.trim_end().split_once(": ") {
                Some((name, value)) if name.eq_ignore_ascii_case("content-length") => {
                    length = value.parse().unwrap_or(0)
                }
                Some(_) => {}
                None => break,
            }
        }
        io::copy(&mut self.stream.by_ref().take(length), &mut io::sink())?;
        Ok(status)
    }

    /// Begins to follow the stream.
    fn follow(&mut self, stream: &str) -> Result<()> {
        let request = format!("GET /v1/streams/bench/{stream}/events HTTP/1.1\r\n{}\r\n", self.head);
        self.stream.get_mut().write_all(request.as_bytes()).map_err(broken("a follower"))
    }
}

/// Clients that append, each to a stream of its own, for some seconds.
pub fn load(store: &Path, clients: usize, seconds: u64) -> Result<Value> {
    let serving = Serving::start(store)?;
    let until = Instant::now() + Duration::from_secs(seconds);
    let began = Instant::now();
    let each: Vec<Result<Vec<f64>>> = std::thread::scope(|scope| {
        let serving = &serving;
        let threads: Vec<_> = (0..clients).map(|client| scope.spawn(move || appends(serving, client, until))).collect();
        let died = |_| Err(Failure::usage("a client died"));
        threads.into_iter().map(|thread| thread.join().unwrap_or_else(died)).collect()
    });
    let seconds = began.elapsed().as_secs_f64();
    let mut latencies = each.into_iter().collect::<Result<Vec<_>>>()?.concat();
    latencies.sort_by(f64::total_cmp);
    Ok(json!({"seconds": seconds, "n": latencies.len(), "p50_us": at(&latencies, 0.5), "p99_us": at(&latencies, 0.99)}))
}

fn appends(serving: &Serving, client: usize, until: Instant) -> Result<Vec<f64>> {
    let mut connection = serving.connect()?;
    let stream = format!("s{client}");
    let mut latencies = Vec::new();
    while Instant::now() < until {
        let began = Instant::now();
        connection.append(&stream, latencies.len())?;
        latencies.push(began.elapsed().as_secs_f64());
    }
    Ok(latencies)
}

fn at(sorted: &[f64], part: f64) -> f64 {
    sorted.get((sorted.len() as f64 * part) as usize).copied().unwrap_or(0.0) * 1e6
}

/// How soon a follower knows of an append, alone and among many, some of whom take nothing; and what those cost.
pub fn follow(store: &Path, followers: usize, stuck: usize) -> Result<Value> {
    let serving = Serving::start(store)?;
    let alone = timed(&serving, "alone")?;
    let mut held = Vec::new();
    let memory_before = serving.memory_kib();
    for number in 0..followers {
        let mut connection = serving.connect()?;
        connection.follow("alone")?;
        if number >= stuck {
            connection.stream.get_ref().set_nonblocking(true).map_err(broken("a follower"))?;
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
fn take_all(mut connections: Vec<Connection>, stopped: &std::sync::mpsc::Receiver<()>) {
    // Those who follow sit elsewhere: reading for all of them is not to take the processor from the server. Where it
    // cannot be helped, the figures are merely worse.
    #[cfg(target_os = "linux")]
    let _ = rustix::process::setpriority_process(None, 19);
    let mut buffer = vec![0; 64 << 10];
    while stopped.try_recv() == Err(std::sync::mpsc::TryRecvError::Empty) {
        for connection in &mut connections {
            // Nothing there, or gone: either way there is nothing to take.
            let _ = connection.stream.get_mut().read(&mut buffer);
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Appends one frame after another and waits for each to come to a follower. Times in microseconds.
fn timed(serving: &Serving, stream: &str) -> Result<Value> {
    let mut writer = serving.connect()?;
    writer.append(stream, 0)?;
    let mut follower = serving.connect()?;
    follower.follow(stream)?;
    let (told, telling) = channel();
    let reader = std::thread::spawn(move || {
        let mut line = String::new();
        while follower.stream.read_line(&mut line).is_ok_and(|read| read > 0) {
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
        writer.append(stream, number)?;
        let done = Instant::now();
        followed.push(wait()?.saturating_duration_since(done).as_secs_f64());
        appended.push((done - began).as_secs_f64());
    }
    drop(telling);
    // One more, so that the reader finds nobody to tell and ends.
    writer.append(stream, TIMED)?;
    let _ = reader.join();
    appended.sort_by(f64::total_cmp);
    followed.sort_by(f64::total_cmp);
    Ok(json!({
        "append_p50_us": at(&appended, 0.5), "append_p99_us": at(&appended, 0.99),
        "told_p50_us": at(&followed, 0.5), "told_p99_us": at(&followed, 0.99),
    }))
}

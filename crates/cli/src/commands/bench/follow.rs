//! Followers of a server: how soon they know, and what they cost whoever appends.
//!
//! Two servers take turns, one with a single follower and one with many, so that what disturbs the machine disturbs both.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::time::{Duration, Instant};

use mio::{Events, Interest, Poll, Token};
use serde_json::{Value, json};

use super::load::{self, Answer, wait};
use super::server::{Serving, at, broken};
use crate::failure::{Failure, Result};

/// How often the servers take turns, the appends of a turn, and the time from one append to the next.
const ROUNDS: usize = 20;
const BLOCK: usize = 100;
const PACE: Duration = Duration::from_millis(5);
const STREAM: &str = "followed";
/// Followers are read for in stretches of so long, with a rest after each, and so many of them are asked for at a time.
const STRETCH: Duration = Duration::from_micros(100);
const REST: Duration = Duration::from_micros(50);
const EVENTS: usize = 16;

/// How soon a follower knows of an append, alone and among many, some of whom take nothing; and what those cost.
pub fn run(store: &Path, followers: usize, stuck: usize) -> Result<Value> {
    let (quiet, crowded) = (Serving::start(&store.with_extension("alone"))?, Serving::start(store)?);
    let appends = Arc::new(AtomicBool::new(false));
    let mut alone = Line::begin(&quiet, appends.clone())?;
    let mut among = Line::begin(&crowded, appends.clone())?;
    let memory_before = crowded.memory_kib();
    let mut held = (0..followers).map(|_| crowded.follow(STREAM)).collect::<Result<Vec<_>>>()?;
    let reading = held.split_off(stuck.min(held.len()));
    // One of many: whoever came first is told first.
    among.follow(&crowded)?;
    let (stop, stopped) = channel::<()>();
    std::thread::scope(|scope| {
        let reader = scope.spawn(move || take_all(reading, &appends, &stopped));
        let timed = take_turns(&mut alone, &mut among);
        drop(stop);
        reader.join().unwrap_or_else(|_| Err(Failure::usage("whoever read for the followers died"))).and(timed)
    })?;
    let memory_after = crowded.memory_kib();
    let (alone, among) = (alone.figures()?, among.figures()?);
    let of = |timed: &Value| timed["append_p99_us"].as_f64().unwrap_or(f64::INFINITY);
    Ok(json!({
        "append_p99_ratio": of(&among) / of(&alone), "alone": alone, "among": among,
        "memory_growth_kib": memory_after.saturating_sub(memory_before),
    }))
}

fn take_turns(alone: &mut Line, among: &mut Line) -> Result<()> {
    for round in 0..ROUNDS {
        let (first, second) = if round % 2 == 0 { (&mut *alone, &mut *among) } else { (&mut *among, &mut *alone) };
        first.append_some()?;
        second.append_some()?;
    }
    Ok(())
}

/// One who appends to a stream, and one who follows it.
struct Line {
    stream: TcpStream,
    request: String,
    told: Receiver<Instant>,
    /// Whether an append is on its way.
    appends: Arc<AtomicBool>,
    /// When each append was sent, and when it was answered.
    appended: Vec<(Instant, Instant)>,
}

impl Line {
    fn begin(serving: &Serving, appends: Arc<AtomicBool>) -> Result<Self> {
        let request = load::request(&serving.append_head(STREAM), 0);
        let mut line = Self { stream: serving.stream()?, request, told: channel().1, appends, appended: Vec::new() };
        // A stream has to be there to be followed.
        line.append()?;
        line.follow(serving)?;
        Ok(line)
    }

    /// Follows from now on, when what is there has come.
    fn follow(&mut self, serving: &Serving) -> Result<()> {
        let (tell, told) = channel();
        let events = BufReader::new(serving.follow(STREAM)?);
        std::thread::spawn(move || note_events(events, &tell));
        // Many who have just come read the log first.
        let late = |_| Failure::usage("a follower was not told of what was there");
        told.recv_timeout(Duration::from_secs(120)).map_err(late)?;
        while told.recv_timeout(Duration::from_secs(1)).is_ok() {}
        self.told = told;
        self.appended.clear();
        Ok(())
    }

    fn append(&mut self) -> Result<()> {
        let failed = broken("an append");
        self.appends.store(true, Ordering::Relaxed);
        let began = Instant::now();
        self.stream.write_all(self.request.as_bytes()).map_err(&failed)?;
        let status = Answer::wait(&mut self.stream).map_err(&failed)?.status;
        self.appended.push((began, Instant::now()));
        self.appends.store(false, Ordering::Relaxed);
        if status == 201 { Ok(()) } else { Err(Failure::usage(format!("an append was answered with {status}"))) }
    }

    fn append_some(&mut self) -> Result<()> {
        for _ in 0..BLOCK {
            self.append()?;
            std::thread::sleep(PACE);
        }
        Ok(())
    }

    /// Percentiles of appends, and of how long after its answer an append was told of, in microseconds.
    fn figures(self) -> Result<Value> {
        let late = |_| Failure::usage("a follower was not told in time");
        let (mut appends, mut tellings) = (Vec::new(), Vec::new());
        for (began, done) in &self.appended {
            let told = self.told.recv_timeout(Duration::from_secs(10)).map_err(late)?;
            appends.push((*done - *began).as_secs_f64());
            tellings.push(told.saturating_duration_since(*done).as_secs_f64());
        }
        appends.sort_by(f64::total_cmp);
        tellings.sort_by(f64::total_cmp);
        Ok(json!({
            "appends": appends.len(), "append_p50_us": at(&appends, 0.5), "append_p99_us": at(&appends, 0.99),
            "told_p50_us": at(&tellings, 0.5), "told_p99_us": at(&tellings, 0.99),
        }))
    }
}

/// Says when each event comes, until nobody wants to know.
fn note_events(mut events: impl BufRead, tell: &Sender<Instant>) {
    let mut line = String::new();
    while events.read_line(&mut line).is_ok_and(|read| read > 0) {
        if line.starts_with("data: ") && tell.send(Instant::now()).is_err() {
            return;
        }
        line.clear();
    }
}

/// Reads whatever comes on many connections, until told to stop. Those who follow sit elsewhere, and take no processor
/// from the server: nothing is read while an append is on its way, and what is read is read a little at a time.
fn take_all(connections: Vec<TcpStream>, appends: &AtomicBool, stopped: &Receiver<()>) -> Result<()> {
    run_when_idle();
    let failed = broken("a follower");
    let mut poll = Poll::new().map_err(&failed)?;
    let mut all = Vec::with_capacity(connections.len());
    for (number, connection) in connections.into_iter().enumerate() {
        connection.set_nonblocking(true).map_err(&failed)?;
        let mut connection = mio::net::TcpStream::from_std(connection);
        poll.registry().register(&mut connection, Token(number), Interest::READABLE).map_err(&failed)?;
        all.push(connection);
    }
    let (mut events, mut buffer) = (Events::with_capacity(EVENTS), vec![0; 64 << 10]);
    let mut rested = Instant::now();
    while stopped.try_recv() == Err(TryRecvError::Empty) {
        wait(&mut poll, &mut events, Some(Duration::from_millis(50))).map_err(&failed)?;
        for event in &events {
            while appends.load(Ordering::Relaxed) || rested.elapsed() > STRETCH {
                std::thread::sleep(REST);
                rested = Instant::now();
            }
            // A part may be left, and is told of again with what comes after it; one that is gone has nothing to take.
            let _ = all[event.token().0].read(&mut buffer);
        }
    }
    Ok(())
}

/// Where this cannot be had, the figures are merely worse.
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

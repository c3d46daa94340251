//! server: durable appends of 1 KB over HTTP, by one client and by 64, on this disk and on one that syncs slower; how soon
//! followers know; and what followers cost.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use super::Bench;
use super::rounds::{self, Sample, System, median};
use super::table::{self, Goal, Row};
use crate::Problem;
use crate::command::{self, on_path};

const SECONDS: &str = "20";
const MANY: &str = "64";
const FOLLOWERS: &str = "2000";
const STUCK: &str = "200";
/// So many times what one client reaches is hoped for from 64. They gain by what a sync costs: where it costs so little that
/// writers of a bare file gain less, as many times as those.
const GAIN: f64 = 15.0;
/// What HTTP, checking, chaining and an index may cost beside the bare file.
const FILE_COST_MAX: f64 = 2.0;
/// An ordinary disk, or one behind a network, takes so much longer to sync than a very quick one.
const SLOWER_US: &str = "2000";
const TAIL_MAX: f64 = 20.0;

pub(super) fn run(bench: &Bench) -> Result<(), Problem> {
    let slow = slow_sync(bench)?;
    let mut systems = vec![
        System::new("one client", || load(bench, "1", None)),
        System::new("64 clients", || load(bench, MANY, None)),
        System::new("64 clients, HTTP alone", || http_alone(bench)),
        System::new("one writer of a file", || file_alone(bench, "append", "10000", None)),
        System::new("64 writers of a file", || file_alone(bench, "group", "400000", Some(MANY))),
    ];
    if let Some(slow) = &slow {
        systems.push(System::new("one client", || load(bench, "1", Some(slow))));
        systems.push(System::new("64 clients", || load(bench, MANY, Some(slow))));
    }
    let samples = rounds::run(&systems, bench.rounds)?;
    if let [one, many, http, one_writer, many_writers, ..] = samples.as_slice() {
        on_this_disk(one, many, http);
        beside_a_file(one, many, one_writer, many_writers);
    }
    if let [.., one, many] = samples.as_slice()
        && slow.is_some()
    {
        let rows = [("one client", &one[..], None), ("64 clients", many, Some(Goal::Within(1.0 / GAIN)))];
        let title = format!("server  the same where a sync takes {SLOWER_US} µs longer; the reference is one client");
        print(&title, &rows, one);
    }
    followers(bench)
}

/// What 64 clients reach, beside what this machine could do if nothing had to be stored.
fn on_this_disk(one: &[Sample], many: &[Sample], http: &[Sample]) {
    let rows = [("one client", one, None), ("64 clients", many, None), ("64 clients, HTTP alone", http, None)];
    print("server  a durable append of 1 KB over HTTP, on this disk; the reference is HTTP alone", &rows, http);
}

/// What 64 clients gain over one, beside what as many writers of a bare file gain over one of them: those too share syncs,
/// and do nothing else.
fn beside_a_file(one: &[Sample], many: &[Sample], one_writer: &[Sample], many_writers: &[Sample]) {
    let gained = |one: &[Sample], many: &[Sample]| {
        median(one.iter().zip(many).map(|(one, many)| one.seconds_each() / many.seconds_each()))
    };
    let (clients, writers) = (gained(one, many), gained(one_writer, many_writers));
    let rows = [("64 clients", many, Some(Goal::Within(FILE_COST_MAX))), ("64 writers of a file", many_writers, None)];
    let title = "server  the same; the reference is 64 threads that write 1 KB each to a file, with one sync for all";
    print(title, &rows, many_writers);
    let goal = GAIN.min(writers);
    println!("\n  64 writers of a file do {writers:.1} × what one does on this disk.");
    println!("  64 clients do {clients:.1} × what one does, at least {goal:.1} × {}", table::mark(clients >= goal));
}

fn print(title: &str, rows: &[(&str, &[Sample], Option<Goal>)], reference: &[Sample]) {
    let rows: Vec<_> = rows.iter().map(|(name, samples, goal)| Row { name, samples, goal: *goal }).collect();
    table::print(title, &rows, reference);
    for row in rows.iter().filter(|row| row.name == "64 clients") {
        let ratio = |sample: &Sample| Some(sample.p99_us? / sample.p50_us?);
        let tail = median(row.samples.iter().filter_map(ratio));
        let reached = table::mark(tail <= TAIL_MAX);
        println!("  {}: p99 is {tail:.1} × p50, at most {TAIL_MAX} × {reached}", row.name);
    }
}

fn followers(bench: &Bench) -> Result<(), Problem> {
    let store = bench.fresh("follow")?;
    let followed =
        rounds::finished(bench.enjamb(&store).args(["bench", "follow", "--followers", FOLLOWERS, "--stuck", STUCK]))?;
    println!("\nserver  {FOLLOWERS} followers, {STUCK} of which take nothing\n\n{}\n", followed.trim());
    // Of the two servers, the one with a single follower is told of first.
    let goals = [
        ("append_p99_ratio", "append p99 among many by one follower's", 1.25, 1.0, ""),
        ("memory_growth_kib", "memory", 64.0, 1024.0, " MiB"),
        ("told_p50_us", "append to event, p50 of one follower", 5.0, 1000.0, " ms"),
    ];
    for (name, about, most, unit, said) in goals {
        let value = rounds::field(&followed, name).map_or(f64::NAN, |value| value / unit);
        println!("  {about}: {value:.2}{said}, at most {most}{said} {}", table::mark(value <= most));
    }
    Ok(())
}

/// What the disk allows: 1 KB at a time into a file that is there already, and a sync.
fn file_alone(bench: &Bench, how: &str, times: &str, writers: Option<&str>) -> Result<Sample, Problem> {
    let dir = bench.fresh("file")?;
    let mut command = bench.reference(&[how]);
    rounds::told(command.arg(dir).args([times, "1024"]).args(writers))
}

fn load(bench: &Bench, clients: &str, slow: Option<&PathBuf>) -> Result<Sample, Problem> {
    let store = bench.fresh("server")?;
    let mut command = bench.enjamb(&store);
    if let Some(slow) = slow {
        command.env("LD_PRELOAD", slow).env("SLOW_SYNC_US", SLOWER_US);
    }
    rounds::told(command.args(["bench", "serve", "--clients", clients, "--seconds", SECONDS]))
}

/// A library that makes syncs take longer; `None` where none can be made.
fn slow_sync(bench: &Bench) -> Result<Option<PathBuf>, Problem> {
    if !cfg!(target_os = "linux") || !on_path("cc") {
        println!("Nothing is measured with slower syncs: that takes Linux and a C compiler.");
        return Ok(None);
    }
    let (source, library) = (bench.dir.join("slow_sync.c"), bench.dir.join("slow_sync.so"));
    let written = std::fs::write(&source, include_str!("slow_sync.c"));
    written.map_err(|cause| format!("{} could not be written: {cause}", source.display()))?;
    command::run(Command::new("cc").args(["-O2", "-shared", "-fPIC", "-o"]).arg(&library).arg(&source))?;
    Ok(Some(library))
}

/// What the same clients reach with a server that answers at once: more than that no server reaches here.
fn http_alone(bench: &Bench) -> Result<Sample, Problem> {
    let mut command = bench.reference(&["http"]);
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn();
    let mut child = child.map_err(|cause| format!("the reference server: {cause}"))?;
    let mut address = String::new();
    let said = child.stdout.take().map(|out| BufReader::new(out).read_line(&mut address));
    let store = bench.fresh("http")?;
    let load = ["bench", "serve", "--clients", MANY, "--seconds", SECONDS, "--at", address.trim()];
    let sample = said.map_or_else(
        || Err("the reference server said nothing".into()),
        |_| rounds::told(bench.enjamb(&store).args(load)),
    );
    // Whether it was still there or not, it is not any more.
    let _ = child.kill();
    let _ = child.wait();
    sample
}

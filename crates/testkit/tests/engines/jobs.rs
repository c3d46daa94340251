//! Background jobs of several nodes: one at a time has a turn, and whoever lost its turn writes nothing.

use std::io::{BufRead, BufReader, Lines};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use enjamb_ledger::{Batch, Engine, Job, JobKind, Ledger, LedgerError, PostgresLedger, PostgresOptions};
use enjamb_testkit::database::{Database, Schema};
use enjamb_testkit::make::{self, stream};

/// Where a child process finds the store whose job it is to do.
const WORKER: &str = "ENJAMB_TEST_WORKER";
/// A node that says nothing for so long loses its turn.
const SILENCE: Duration = Duration::from_millis(800);

fn node(schema: &Schema) -> Engine {
    let options = PostgresOptions { job_silence: SILENCE, ..schema.options() };
    PostgresLedger::open(&schema.address(), &options).expect("the store opens").into()
}

/// A step of a job.
fn step(ledger: &Engine, job: &Job<'_>, text: &str) -> Result<(), LedgerError> {
    let batch = make::frames(vec![make::frame(&stream("session/work"), &make::output(text))]);
    ledger.append(Batch { fence: job.fence(), ..batch }).map(drop)
}

fn steps(ledger: &Engine) -> Vec<String> {
    let frames = ledger.frames(&stream("session/work"), 0, 10_000).expect("frames");
    frames.into_iter().map(|frame| String::from_utf8(frame.json).expect("text")).collect()
}

/// Not a test by itself: a node, in a process that can be killed or stopped. It works until it lost its turn.
#[test]
fn a_worker() {
    let Ok(told) = std::env::var(WORKER) else { return };
    let (address, dir) = told.split_once(' ').expect("an address and a directory");
    let options = PostgresOptions { job_silence: SILENCE, ..PostgresOptions::at(dir.as_ref()) };
    let ledger: Engine = PostgresLedger::open(address, &options).expect("the store opens").into();
    let job = ledger.job(JobKind::Maintain).expect("its turn");
    for number in 0.. {
        match step(&ledger, &job, &format!("worker {number}")) {
            Ok(()) => println!("DONE {number}"),
            Err(error) => return println!("LOST {}", error.code()),
        }
        // Long enough to be stopped between two steps: in the middle of one, others would wait for it.
        thread::sleep(Duration::from_millis(100));
    }
}

/// A worker that has begun.
struct Worker {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Worker {
    fn begin(schema: &Schema) -> Self {
        let mut child = Command::new(std::env::current_exe().expect("this program"))
            .args(["jobs::a_worker", "--exact", "--nocapture"])
            .env(WORKER, format!("{} {}", schema.address(), schema.options().dir.display()))
            .stdout(Stdio::piped())
            .spawn()
            .expect("a process");
        let lines = BufReader::new(child.stdout.take().expect("its output")).lines();
        let mut worker = Self { child, lines };
        worker.hear("DONE");
        worker
    }

    /// Reads on until it says something.
    fn hear(&mut self, word: &str) -> String {
        let mut lines = self.lines.by_ref().map_while(Result::ok);
        lines.find(|line| line.contains(word)).unwrap_or_else(|| panic!("it ended without saying {word}"))
    }

    fn signal(&self, name: &str) {
        let sent = Command::new("kill").args([name, &self.child.id().to_string()]).status();
        assert!(sent.expect("a signal").success());
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Takes a turn as soon as it can be had.
fn take_over(ledger: &Engine) -> Job<'_> {
    let began = Instant::now();
    loop {
        match ledger.job(JobKind::Maintain) {
            Ok(job) => return job,
            Err(LedgerError::JobTaken { .. }) => assert!(began.elapsed() < Duration::from_secs(60), "nobody lets go"),
            Err(error) => panic!("{error}"),
        }
        thread::sleep(Duration::from_millis(20));
    }
}

fn epoch(job: &Job<'_>) -> i64 {
    job.fence().expect("a turn with a number").epoch
}

#[test]
fn one_node_at_a_time_has_a_turn_and_each_job_has_its_own() {
    let Some(database) = Database::find() else { return };
    let schema = database.schema();
    drop(schema.create());
    let (one, other) = (node(&schema), node(&schema));
    let first = one.job(JobKind::Maintain).expect("its turn");
    let refused = other.job(JobKind::Maintain).err().expect("it is taken");
    assert_eq!(refused.code(), "job-taken");
    let collecting = other.job(JobKind::Collect).expect("another job");
    step(&one, &first, "one").expect("it is its turn");
    step(&other, &collecting, "other").expect("it is its turn");
    // Longer than a silent node would keep it: whoever is alive keeps its turn.
    thread::sleep(SILENCE * 2);
    assert!(other.job(JobKind::Maintain).is_err());
    let before = epoch(&first);
    drop(first);
    assert_eq!(epoch(&other.job(JobKind::Maintain).expect("given back")), before + 1);
}

#[test]
fn a_node_that_dies_at_a_job_is_taken_over() {
    let Some(database) = Database::find() else { return };
    let schema = database.schema();
    drop(schema.create());
    let ledger = node(&schema);
    let mut worker = Worker::begin(&schema);
    assert_eq!(ledger.job(JobKind::Maintain).err().expect("it is taken").code(), "job-taken");
    worker.child.kill().expect("it is killed");
    let job = take_over(&ledger);
    assert_eq!(epoch(&job), 2);
    step(&ledger, &job, "heir").expect("it is its turn");
    assert!(steps(&ledger).last().is_some_and(|last| last.contains("heir")));
}

#[test]
fn a_node_that_wakes_up_after_its_turn_writes_nothing() {
    let Some(database) = Database::find() else { return };
    let schema = database.schema();
    drop(schema.create());
    let ledger = node(&schema);
    let mut worker = Worker::begin(&schema);
    worker.signal("-STOP");
    let job = take_over(&ledger);
    step(&ledger, &job, "heir").expect("it is its turn");
    let before = steps(&ledger);
    worker.signal("-CONT");
    assert!(worker.hear("LOST").contains("job-lost"));
    assert_eq!(steps(&ledger), before, "what came too late is not there");
    step(&ledger, &job, "and on").expect("it is still its turn");
}

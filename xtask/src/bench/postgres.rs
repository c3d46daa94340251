//! postgres: durable appends of 1 KB by 64 clients to one PostgreSQL, through one node and through two, beside `pgbench`
//! doing a bare insert of the same bytes; and what an append costs our processes.

use std::cell::{Cell, RefCell};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use super::Bench;
use super::rounds::{self, Sample, System, median};
use super::table::{self, Goal, Row};
use crate::Problem;

const CLIENTS: usize = 64;
const APPENDS: usize = 64_000;
const BYTES: &str = "1024";

pub(super) fn run(bench: &Bench) -> Result<(), Problem> {
    let server = Server::start(bench)?;
    rounds::finished(&mut bench.reference(&["deltas", "frames", "1000", BYTES]))?;
    let cpu = [RefCell::new(Vec::new()), RefCell::new(Vec::new())];
    let systems = [
        System::new("pgbench, a bare insert", || server.pgbench(bench)),
        System::new("one node", || server.nodes(bench, 1, &cpu[0])),
        System::new("two nodes", || server.nodes(bench, 2, &cpu[1])),
    ];
    let samples = rounds::run(&systems, bench.rounds)?;
    let row = |at: usize, goal| Row { name: systems[at].name.as_str(), samples: &samples[at], goal };
    let rows = [row(0, None), row(1, Some(Goal::Within(2.0))), row(2, Some(Goal::Within(2.0)))];
    table::print("postgres  a durable append of 1 KB by 64 clients; the reference is pgbench", &rows, &samples[0]);
    let rows = [row(1, None), row(2, Some(Goal::Within(1.0)))];
    table::print("postgres  the same; the reference is one node", &rows, &samples[1]);
    let each = cpu.each_ref().map(|of| median(of.borrow().iter().copied()) * 1e6);
    println!("\nour CPU time per append: one node {:.1} µs, two nodes {:.1} µs", each[0], each[1]);
    Ok(())
}

/// A PostgreSQL on the disk of the benchmark, until it is let go.
struct Server {
    programs: PathBuf,
    address: String,
    child: Child,
    stdin: Option<ChildStdin>,
    /// It says goodbye when it ends.
    #[allow(dead_code, reason = "it is held, not read")]
    stdout: BufReader<ChildStdout>,
    schemas: Cell<u32>,
}

impl Server {
    fn start(bench: &Bench) -> Result<Self, Problem> {
        let spawned = bench.reference(&["postgres"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = spawned.map_err(|cause| format!("PostgreSQL could not be started: {cause}"))?;
        let stdin = child.stdin.take();
        let mut stdout = BufReader::new(child.stdout.take().ok_or("PostgreSQL has no output")?);
        let mut told = String::new();
        stdout.read_line(&mut told).map_err(|cause| format!("PostgreSQL says nothing: {cause}"))?;
        let (programs, address) = told.trim().split_once(' ').ok_or("PostgreSQL did not start")?;
        let (programs, address) = (programs.into(), address.to_owned());
        Ok(Self { programs, address, child, stdin, stdout, schemas: Cell::new(0) })
    }

    /// A program of the server's, or else the one that the machine has: some are installed apart from it.
    fn program(&self, name: &str) -> PathBuf {
        let own = self.programs.join(name);
        if own.exists() { own } else { name.into() }
    }

    /// What each client inserts is prepared once: less than that no insert costs.
    fn pgbench(&self, bench: &Bench) -> Result<Sample, Problem> {
        let script = bench.dir.join("insert.sql");
        let insert = format!("INSERT INTO bare(body) VALUES ('\\x{}'::bytea);\n", "61".repeat(1024));
        std::fs::write(&script, insert).map_err(|cause| format!("{}: {cause}", script.display()))?;
        let table = "DROP TABLE IF EXISTS bare; CREATE TABLE bare(n bigserial PRIMARY KEY, body bytea NOT NULL);
            ALTER TABLE bare ALTER COLUMN body SET STORAGE EXTERNAL; CHECKPOINT";
        rounds::finished(Command::new(self.program("psql")).args(["-q", "-c", table, &self.address]))?;
        let (clients, each) = (CLIENTS.to_string(), (APPENDS / CLIENTS).to_string());
        let mut pgbench = Command::new(self.program("pgbench"));
        pgbench.args(["-n", "-M", "prepared", "-j", "2", "-c", &clients, "-t", &each, "-f"]).arg(script);
        let told = rounds::finished(pgbench.arg(&self.address))?;
        let number = |name: &str| {
            let line = told.lines().find_map(|line| line.split_once(name))?;
            line.1.split_whitespace().next()?.parse::<f64>().ok()
        };
        let (tps, latency) = number("tps = ").zip(number("latency average = ")).ok_or("pgbench says no rate")?;
        let operations = APPENDS as f64;
        Ok(Sample { seconds: operations / tps, operations, p50_us: Some(latency * 1e3), p99_us: None })
    }

    /// The clients, shared out among so many processes, each with the store open.
    fn nodes(&self, bench: &Bench, nodes: usize, cpu: &RefCell<Vec<f64>>) -> Result<Sample, Problem> {
        self.schemas.set(self.schemas.get() + 1);
        let store = format!("{}?schema=bench_{}", self.address, self.schemas.get());
        let begin = |words: &[&str]| {
            let mut command = bench.enjamb(Path::new(&store));
            command.args(words).env("XDG_DATA_HOME", bench.dir.join("data"));
            command
        };
        rounds::finished(&mut begin(&["init"]))?;
        let (n, writers) = ((APPENDS / nodes).to_string(), (CLIENTS / nodes).to_string());
        let words = ["bench", "append", "--plain", "--frames", "frames", "--n", &n, "--writers", &writers];
        let children: Vec<_> = (0..nodes).map(|_| begin(&words).stdout(Stdio::piped()).spawn()).collect();
        let mut whole = Sample { seconds: 0.0, operations: APPENDS as f64, p50_us: None, p99_us: None };
        let mut used = 0.0;
        for child in children {
            let output = child.and_then(Child::wait_with_output).map_err(|cause| format!("a node: {cause}"))?;
            let told = String::from_utf8_lossy(&output.stdout).into_owned();
            let number = |name| rounds::field(&told, name).ok_or_else(|| format!("a node says {told:?}"));
            let longest = |one: Option<f64>, other: f64| Some(one.map_or(other, |one| one.max(other)));
            whole.seconds = whole.seconds.max(number("seconds")?);
            whole.p50_us = longest(whole.p50_us, number("p50_us")?);
            whole.p99_us = longest(whole.p99_us, number("p99_us")?);
            used += number("cpu_seconds")?;
        }
        cpu.borrow_mut().push(used / whole.operations);
        Ok(whole)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.stdin.take());
        // It ends when its input does.
        let _ = self.child.wait();
    }
}

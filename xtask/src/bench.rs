//! `cargo xtask bench`: our binary against what else one could do, in the same run. `docs/BENCHMARKS.md` says what each
//! workload is and how to read its table. Times are reported and never asserted.

mod chain;
mod commits;
mod contexts;
mod harness;
mod intake;
mod large;
mod listing;
mod memory;
mod postgres;
mod rounds;
mod runs;
mod server;
mod session;
mod size;
mod table;
mod verify;
mod workspace;

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Problem;
use crate::command::{self, cargo, workspace_root};

const ROUNDS: usize = 5;
/// How much is made where no transcripts are named.
const CORPUS_BYTES: &str = "95000000";

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Workload {
    OneWriter,
    ManyWriters,
    Chain,
    LongChain,
    Size,
    Intake,
    Verify,
    List,
    Contexts,
    Memory,
    Large,
    Session,
    Server,
    Runs,
    Workspace,
    Postgres,
}

const WORKLOADS: &[(&str, Workload)] = &[
    ("W1", Workload::OneWriter),
    ("W2", Workload::ManyWriters),
    ("W3", Workload::Chain),
    ("W3-long", Workload::LongChain),
    ("W4", Workload::Size),
    ("W5", Workload::Intake),
    ("W8", Workload::Verify),
    ("list", Workload::List),
    ("contexts", Workload::Contexts),
    ("memory", Workload::Memory),
    ("large", Workload::Large),
    ("session", Workload::Session),
    ("server", Workload::Server),
    ("runs", Workload::Runs),
    ("workspace", Workload::Workspace),
    ("postgres", Workload::Postgres),
];

/// What was asked for on the command line.
#[derive(Debug, PartialEq, Eq)]
struct Request {
    workloads: Vec<Workload>,
    rounds: usize,
    harness: Option<PathBuf>,
    corpus: Option<PathBuf>,
}

/// The programs under measurement and the directory in which they work.
struct Bench {
    enjamb: PathBuf,
    reference: PathBuf,
    dir: PathBuf,
    rounds: usize,
    /// Transcripts to take in; where there are none, some are made.
    corpus: Option<PathBuf>,
}

pub(crate) fn run(arguments: &[String]) -> Result<(), Problem> {
    let request = Request::parse(arguments, env::var_os("ENJAMB_BENCH_HARNESS").map(PathBuf::from))?;
    let bench = Bench::build(request.rounds, request.corpus)?;
    println!("{}", machine());
    let ran = request.workloads.iter().try_for_each(|workload| bench.measure(*workload));
    let ran = ran.and_then(|()| match &request.harness {
        Some(harness) => harness::run(&bench, harness, &request.workloads),
        None => Ok(()),
    });
    remove(&bench.dir)?;
    ran
}

impl Request {
    fn parse(arguments: &[String], harness: Option<PathBuf>) -> Result<Self, Problem> {
        let mut request = Self { workloads: Vec::new(), rounds: ROUNDS, harness, corpus: None };
        let mut words = arguments.iter();
        while let Some(word) = words.next() {
            match word.as_str() {
                "--rounds" => request.rounds = rounds_of(words.next())?,
                "--harness" => request.harness = Some(words.next().ok_or("--harness needs a directory")?.into()),
                "--corpus" => request.corpus = Some(words.next().ok_or("--corpus needs a directory")?.into()),
                name => request.workloads.push(workload_named(name)?),
            }
        }
        if request.workloads.is_empty() {
            request.workloads = WORKLOADS.iter().map(|(_, workload)| *workload).collect();
        }
        Ok(request)
    }
}

fn rounds_of(word: Option<&String>) -> Result<usize, Problem> {
    let rounds = word.and_then(|word| word.parse().ok()).filter(|rounds| *rounds > 0);
    rounds.ok_or_else(|| "--rounds needs a number of at least 1".to_owned())
}

fn workload_named(name: &str) -> Result<Workload, Problem> {
    let known = WORKLOADS.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
    known.map(|(_, workload)| *workload).ok_or_else(|| {
        let names: Vec<&str> = WORKLOADS.iter().map(|(name, _)| *name).collect();
        format!("there is no workload {name:?}; there are {}", names.join(", "))
    })
}

impl Bench {
    fn build(rounds: usize, corpus: Option<PathBuf>) -> Result<Self, Problem> {
        let unreadable =
            |path: PathBuf| fs::canonicalize(&path).map_err(|cause| format!("{}: {cause}", path.display()));
        let corpus = corpus.map(unreadable).transpose()?;
        let packages = ["build", "--release", "--package", "enjamb-cli", "--package", "enjamb-testkit"];
        command::run(cargo(packages).args(["--bin", "enjamb", "--bin", "bench_reference"]))?;
        let target = env::var_os("CARGO_TARGET_DIR").map_or_else(|| workspace_root().join("target"), PathBuf::from);
        let dir = target.join("bench");
        empty(&dir)?;
        let program = |name| target.join("release").join(name);
        Ok(Self { enjamb: program("enjamb"), reference: program("bench_reference"), dir, rounds, corpus })
    }

    /// Runs a workload in an empty directory.
    fn measure(&self, workload: Workload) -> Result<(), Problem> {
        empty(&self.dir)?;
        match workload {
            Workload::OneWriter => commits::one_writer(self),
            Workload::ManyWriters => commits::many_writers(self),
            Workload::Chain => chain::run(self),
            Workload::LongChain => chain::run_long(self),
            Workload::Size => size::run(self, &self.transcripts()?),
            Workload::Intake => intake::run(self, &self.transcripts()?),
            Workload::Verify => verify::run(self),
            Workload::List => listing::run(self),
            Workload::Contexts => contexts::run(self),
            Workload::Memory => memory::run(self),
            Workload::Large => large::run(self),
            Workload::Session => session::run(self),
            Workload::Server => server::run(self),
            Workload::Runs => runs::run(self),
            Workload::Workspace => workspace::run(self),
            Workload::Postgres => postgres::run(self),
        }
    }

    /// Our binary, with no store but the one that is named.
    fn enjamb(&self, store: &Path) -> Command {
        let mut command = Command::new(&self.enjamb);
        command.arg("--store").arg(store).current_dir(&self.dir);
        command
    }

    fn reference(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.reference);
        command.args(arguments).current_dir(&self.dir);
        command
    }

    /// The transcripts that were named, or made ones.
    fn transcripts(&self) -> Result<PathBuf, Problem> {
        self.corpus.clone().map_or_else(|| self.made_transcripts(), Ok)
    }

    fn made_transcripts(&self) -> Result<PathBuf, Problem> {
        let made = self.fresh("corpus")?;
        rounds::finished(&mut self.reference(&["transcripts", "corpus", CORPUS_BYTES]))?;
        Ok(made)
    }

    /// An empty place, whatever was there.
    fn fresh(&self, name: &str) -> Result<PathBuf, Problem> {
        let path = self.dir.join(name);
        remove(&path)?;
        Ok(path)
    }
}

/// What all files below a directory hold together.
fn stored_bytes(dir: &Path) -> Result<u64, Problem> {
    let unreadable = |cause| format!("{} could not be read: {cause}", dir.display());
    let mut bytes = 0;
    for entry in fs::read_dir(dir).map_err(unreadable)? {
        let entry = entry.map_err(unreadable)?;
        let about = entry.metadata().map_err(unreadable)?;
        bytes += if about.is_dir() { stored_bytes(&entry.path())? } else { about.len() };
    }
    Ok(bytes)
}

fn empty(dir: &Path) -> Result<(), Problem> {
    remove(dir)?;
    fs::create_dir_all(dir).map_err(|cause| format!("{} could not be made: {cause}", dir.display()))
}

fn remove(path: &Path) -> Result<(), Problem> {
    match fs::remove_dir_all(path) {
        Err(cause) if cause.kind() != std::io::ErrorKind::NotFound => {
            Err(format!("{} could not be removed: {cause}", path.display()))
        }
        _ => Ok(()),
    }
}

/// What a reader needs to know to judge the numbers: how many cores there are, and whether others are using them.
fn machine() -> String {
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load = load.split(' ').next().filter(|load| !load.is_empty()).unwrap_or("unknown");
    format!("{cores} cores, load {load} before the first round.")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(typed: &str) -> Result<Request, Problem> {
        let words: Vec<String> = typed.split_whitespace().map(str::to_owned).collect();
        Request::parse(&words, None)
    }

    #[test]
    fn nothing_named_is_everything() {
        let request = parse("").unwrap();
        assert_eq!((request.workloads.len(), request.rounds, request.harness), (WORKLOADS.len(), ROUNDS, None));
    }

    #[test]
    fn workloads_are_chosen_by_name() {
        let request = parse("w2 list --rounds 9 --harness /h --corpus /c").unwrap();
        assert_eq!(request.workloads, [Workload::ManyWriters, Workload::List]);
        assert_eq!((request.rounds, request.harness), (9, Some(PathBuf::from("/h"))));
        assert_eq!(request.corpus, Some(PathBuf::from("/c")));
    }

    #[test]
    fn what_makes_no_sense_is_said() {
        assert_eq!(
            parse("W7").unwrap_err(),
            "there is no workload \"W7\"; there are W1, W2, W3, W3-long, W4, W5, W8, list, contexts, memory, large, session, \
             server, runs, workspace, postgres"
        );
        assert_eq!(parse("--rounds 0").unwrap_err(), "--rounds needs a number of at least 1");
    }
}

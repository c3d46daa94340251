//! What `cargo xtask realclients` runs: sessions that `enjamb resume` wrote, loaded by the real runtimes, and the requests
//! that these send held against those that they send for their own sessions.

mod cases;
mod client;
mod endpoint;
mod runs;
mod seen;
mod table;
mod unloaded;
mod written;

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use cases::{Native, Original, Outcome};
use client::{Client, Stage};
use endpoint::Endpoint;
use table::Table;

/// What went wrong, for the chore to show.
type Problem = Box<dyn std::error::Error + Send + Sync>;

/// Files above this take the runtimes themselves long to load.
const ORIGINAL_BYTES_MAX: u64 = 4 << 20;

const USAGE: &str = "real_clients CLIENTS ENJAMB DIR [--corpus DIR] [--sessions N] [CASE…]";

struct Request {
    clients: PathBuf,
    enjamb: PathBuf,
    dir: PathBuf,
    corpus: Option<PathBuf>,
    sessions: usize,
    cases: Vec<String>,
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match request(&arguments).and_then(|request| run(&request)) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(problem) => {
            say(&format!("real_clients: {problem}"));
            ExitCode::FAILURE
        }
    }
}

fn say(line: &str) {
    // Nobody is left to tell if this is closed.
    let _ = writeln!(std::io::stdout(), "{line}");
}

fn request(arguments: &[String]) -> Result<Request, Problem> {
    let mut words = arguments.iter();
    let mut next = || words.next().cloned().ok_or(USAGE);
    let (clients, enjamb, dir) = (next()?.into(), next()?.into(), next()?.into());
    let mut request = Request { clients, enjamb, dir, corpus: None, sessions: 30, cases: Vec::new() };
    while let Some(word) = words.next() {
        match word.as_str() {
            "--corpus" => request.corpus = Some(Path::new(words.next().ok_or(USAGE)?).canonicalize()?),
            "--sessions" => request.sessions = words.next().ok_or(USAGE)?.parse()?,
            case => request.cases.push(case.to_owned()),
        }
    }
    Ok(request)
}

/// Runs the cases that were asked for, and says whether all of them hold.
fn run(request: &Request) -> Result<bool, Problem> {
    let endpoint = Endpoint::start()?;
    // Outside of any repository: runtimes look at the one that they are in.
    let home = tempfile::tempdir()?;
    let stage = Stage {
        endpoint: &endpoint,
        clients: request.clients.clone(),
        enjamb: request.enjamb.clone(),
        dir: home.path().canonicalize()?,
        kept: request.dir.clone(),
    };
    let mut table = Table::default();
    for client in Client::ALL {
        for original in originals(request, &stage, client)? {
            held_against_native(request, &stage, &original, &mut table)?;
        }
        type Recorded = fn(&Stage<'_>, Client) -> Result<Outcome, Problem>;
        let recorded: [(&str, Recorded); 6] = [
            ("fork", cases::fork),
            ("replant", cases::replant),
            ("round-trip", cases::round_trip),
            ("repair", cases::repair),
            ("capture", cases::capture),
            ("run", runs::run),
        ];
        for (name, case) in recorded.into_iter().filter(|(name, _)| request.wants(name)) {
            table.add(name, client, Path::new("recorded"), timed(|| case(&stage, client)));
        }
    }
    table.print();
    Ok(table.all_hold())
}

/// What the runtime sends for the original itself is asked once, and serves both cases.
fn held_against_native(
    request: &Request,
    stage: &Stage<'_>,
    original: &Original,
    table: &mut Table,
) -> Result<(), Problem> {
    type Compared = fn(&Stage<'_>, &Original, &Native) -> Result<Outcome, Problem>;
    let compared: [(&str, Compared); 2] = [("same", cases::same), ("other", cases::other)];
    let original = cases::prepared(stage, original)?;
    let native = cases::native(stage, &original)?;
    for (name, case) in compared.into_iter().filter(|(name, _)| request.wants(name)) {
        let outcome = timed(|| match &native {
            Ok(native) => case(stage, &original, native),
            Err(why) => unloaded::unloaded(stage, &original, why),
        });
        table.add(name, original.client, &original.path, outcome);
    }
    Ok(std::fs::remove_file(&original.path)?)
}

impl Request {
    fn wants(&self, case: &str) -> bool {
        self.cases.is_empty() || self.cases.iter().any(|wanted| wanted == case)
    }
}

fn timed(case: impl FnOnce() -> Result<Outcome, Problem>) -> (Result<Outcome, Problem>, f64) {
    let began = Instant::now();
    let outcome = case();
    (outcome, began.elapsed().as_secs_f64())
}

/// Sessions of a runtime: of the corpus, spread over all sizes, or one that the runtime makes now.
fn originals(request: &Request, stage: &Stage<'_>, client: Client) -> Result<Vec<Original>, Problem> {
    if !request.wants("same") && !request.wants("other") {
        return Ok(Vec::new());
    }
    let Some(corpus) = &request.corpus else { return Ok(vec![cases::recorded(stage, client)?]) };
    let mut files = Vec::new();
    for entry in fs::read_dir(corpus.join(client.runtime()))? {
        let entry = entry?;
        if entry.metadata()?.len() <= ORIGINAL_BYTES_MAX {
            files.push((entry.metadata()?.len(), entry.path()));
        }
    }
    files.sort();
    let step = (files.len() as f64 / request.sessions as f64).max(1.0);
    let chosen = (0..request.sessions).map_while(|at| files.get((at as f64 * step) as usize));
    Ok(chosen.map(|(_, path)| Original { client, path: path.clone() }).collect())
}

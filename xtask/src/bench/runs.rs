//! runs: what an answer of 100,000 events costs us, and how much later than the provider sent it a first word is shown.

use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdin, Stdio};

use super::Bench;
use super::rounds::{self, Sample, System};
use super::table::{self, Goal, Row};
use crate::Problem;

const EVENTS: &str = "100000";
const FEW: &str = "20";
const TURNS: &str = "50";

pub(super) fn run(bench: &Bench) -> Result<(), Problem> {
    let provider = Provider::start(bench)?;
    let systems = [
        System::new("an event recorded, our CPU time", || told(bench, &provider, EVENTS, "1")),
        System::new("a first word, after the provider's", || first(bench, &provider)),
    ];
    let samples = rounds::run(&systems, bench.rounds)?;
    let goals = [Goal::Milliseconds(0.04), Goal::Milliseconds(3.0)];
    for at in [0, 1] {
        let row = Row { name: systems[at].name.as_str(), samples: &samples[at], goal: Some(goals[at]) };
        table::print("runs  a turn against a provider on the loopback", &[row], &samples[at]);
    }
    Ok(())
}

fn told(bench: &Bench, provider: &Provider, events: &str, turns: &str) -> Result<Sample, Problem> {
    let store = bench.fresh("runs")?;
    let arguments = ["bench", "run", "--endpoint", &provider.url, "--events", events, "--turns", turns];
    rounds::told(bench.enjamb(&store).args(arguments))
}

/// As an operation that takes as long as half of the first words took at the most.
fn first(bench: &Bench, provider: &Provider) -> Result<Sample, Problem> {
    let sample = told(bench, provider, FEW, TURNS)?;
    Ok(Sample { seconds: sample.p50_us.unwrap_or(f64::NAN) / 1e6, operations: 1.0, ..sample })
}

/// A provider that serves until it is let go.
struct Provider {
    url: String,
    child: Child,
    stdin: Option<ChildStdin>,
}

impl Provider {
    fn start(bench: &Bench) -> Result<Self, Problem> {
        let mut command = bench.reference(&["provider"]);
        let spawned = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = spawned.map_err(|cause| format!("the provider could not be started: {cause}"))?;
        let stdin = child.stdin.take();
        let stdout = child.stdout.take().ok_or("the provider has no output")?;
        let mut url = String::new();
        BufReader::new(stdout).read_line(&mut url).map_err(|cause| format!("the provider says nothing: {cause}"))?;
        Ok(Self { url: url.trim().to_owned(), child, stdin })
    }
}

impl Drop for Provider {
    fn drop(&mut self) {
        drop(self.stdin.take());
        // It ends when its input does.
        let _ = self.child.wait();
    }
}

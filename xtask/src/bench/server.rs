//! server: durable appends of 1 KB over HTTP, by one client and by 64; how soon followers know; and what followers cost.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use super::Bench;
use super::rounds::{self, Sample, System};
use super::table::{self, Goal, Row};
use crate::Problem;

const SECONDS: &str = "20";
const MANY: &str = "64";
const FOLLOWERS: &str = "2000";
const STUCK: &str = "200";

pub(super) fn run(bench: &Bench) -> Result<(), Problem> {
    let systems = [
        System::new("one client", || load(bench, "1")),
        System::new("64 clients", || load(bench, MANY)),
        System::new("64 clients, HTTP alone", || http_alone(bench)),
    ];
    let samples = rounds::run(&systems, bench.rounds)?;
    let goals = [None, Some(Goal::Within(1.0 / 15.0)), None];
    let rows = [0, 1, 2].map(|at| Row { name: systems[at].name.as_str(), samples: &samples[at], goal: goals[at] });
    table::print("server  a durable append of 1 KB over HTTP; the reference is one client", &rows, &samples[0]);
    let store = bench.fresh("follow")?;
    let followed =
        rounds::finished(bench.enjamb(&store).args(["bench", "follow", "--followers", FOLLOWERS, "--stuck", STUCK]))?;
    println!("\nserver  {FOLLOWERS} followers, {STUCK} of which take nothing\n\n{}", followed.trim());
    Ok(())
}

fn load(bench: &Bench, clients: &str) -> Result<Sample, Problem> {
    let store = bench.fresh("server")?;
    rounds::told(bench.enjamb(&store).args(["bench", "serve", "--clients", clients, "--seconds", SECONDS]))
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

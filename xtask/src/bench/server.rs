//! server: durable appends of 1 KB over HTTP, by one client and by 64; how soon followers know; and what followers cost.

use super::Bench;
use super::rounds::{self, Sample, System};
use super::table::{self, Goal, Row};
use crate::Problem;

const SECONDS: &str = "5";
const FOLLOWERS: &str = "2000";
const STUCK: &str = "200";

pub(super) fn run(bench: &Bench) -> Result<(), Problem> {
    let systems = [System::new("one client", || load(bench, "1")), System::new("64 clients", || load(bench, "64"))];
    let samples = rounds::run(&systems, bench.rounds)?;
    let goals = [None, Some(Goal::Within(1.0 / 15.0))];
    let rows = [0, 1].map(|at| Row { name: systems[at].name.as_str(), samples: &samples[at], goal: goals[at] });
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

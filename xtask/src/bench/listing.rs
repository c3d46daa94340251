//! list: what it costs to look at a store with many streams, and whether that grows with what is in them.

use std::path::{Path, PathBuf};

use super::Bench;
use super::rounds::{self, Sample, System};
use super::table::{self, Goal, Row};
use crate::Problem;

const STREAMS: &str = "10000";
const FEW_FRAMES: &str = "100000";
const MANY_FRAMES: &str = "1000000";
/// A process is short, so a round starts several.
const STARTS_PER_ROUND: usize = 10;
const GOAL: Goal = Goal::Milliseconds(30.0);

pub(super) fn run(bench: &Bench) -> Result<(), Problem> {
    let (few, many) = (fill(bench, "few", FEW_FRAMES)?, fill(bench, "many", MANY_FRAMES)?);
    let systems = [
        System::new("enjamb streams, 100,000 frames", || starts(bench, &few, "streams")),
        System::new("enjamb streams, 1,000,000 frames", || starts(bench, &many, "streams")),
        System::new("enjamb status, 100,000 frames", || starts(bench, &few, "status")),
        System::new("enjamb status, 1,000,000 frames", || starts(bench, &many, "status")),
    ];
    let samples = rounds::run(&systems, bench.rounds)?;
    for (command, at) in [("streams", 0), ("status", 2)] {
        let rows = [at, at + 1].map(|index| Row {
            name: systems[index].name.as_str(),
            samples: &samples[index],
            goal: Some(GOAL),
        });
        let title = format!("list  enjamb {command}, 10,000 streams; the reference is the store with fewer frames");
        table::print(&title, &rows, &samples[at]);
    }
    Ok(())
}

fn fill(bench: &Bench, name: &str, frames: &str) -> Result<PathBuf, Problem> {
    let store = bench.fresh(name)?;
    rounds::finished(bench.enjamb(&store).args(["bench", "fill", "--frames", frames, "--streams", STREAMS]))?;
    Ok(store)
}

fn starts(bench: &Bench, store: &Path, command: &str) -> Result<Sample, Problem> {
    let mut seconds: Vec<f64> = Vec::with_capacity(STARTS_PER_ROUND);
    for _ in 0..STARTS_PER_ROUND {
        seconds.push(rounds::timed(bench.enjamb(store).arg(command))?.seconds);
    }
    seconds.sort_by(f64::total_cmp);
    let (p50, last) = (rounds::median(seconds.iter().copied()), seconds[STARTS_PER_ROUND - 1]);
    Ok(Sample { seconds: p50, operations: 1.0, p50_us: Some(p50 * 1e6), p99_us: Some(last * 1e6) })
}

//! W1 and W2: durable commits of 4 KiB, by one writer and by many.

use std::path::Path;

use super::Bench;
use super::rounds::{self, Sample, System};
use super::table::{self, Goal, Row};
use crate::Problem;

const DELTA_BYTES: &str = "4096";
const DELTAS: &str = "500";
const COMMITS_OF_ONE: &str = "600";
const COMMITS_OF_MANY: &str = "12800";
const WRITERS: &str = "64";

pub(super) fn one_writer(bench: &Bench) -> Result<(), Problem> {
    let deltas = deltas(bench)?;
    let systems = [
        System::new("SQLite, WAL, synchronous=FULL, one writer", || sqlite(bench, &deltas, COMMITS_OF_ONE, "1")),
        System::new("preallocated file, fdatasync", || raw(bench, &["append", "x", COMMITS_OF_ONE, DELTA_BYTES])),
        System::new("enjamb", || ours(bench, &deltas, COMMITS_OF_ONE, "1")),
    ];
    let title = "W1  durable commit of 4 KiB, one writer; the reference is SQLite";
    compare(bench, title, &systems, Goal::Within(1.4))
}

pub(super) fn many_writers(bench: &Bench) -> Result<(), Problem> {
    let deltas = deltas(bench)?;
    let group = ["group", "x", COMMITS_OF_MANY, DELTA_BYTES, WRITERS];
    let systems = [
        System::new("preallocated file, group commit", || raw(bench, &group)),
        System::new("SQLite, a connection per writer", || sqlite(bench, &deltas, COMMITS_OF_MANY, WRITERS)),
        System::new("enjamb", || ours(bench, &deltas, COMMITS_OF_MANY, WRITERS)),
    ];
    let title = "W2  durable commit of 4 KiB, 64 writers; the reference is the preallocated file";
    compare(bench, title, &systems, Goal::Within(2.5))
}

/// The first system is the reference, the last is ours and has the goal.
fn compare(bench: &Bench, title: &str, systems: &[System<'_>], goal: Goal) -> Result<(), Problem> {
    let samples = rounds::run(systems, bench.rounds)?;
    let last = systems.len() - 1;
    let rows: Vec<Row<'_>> = systems
        .iter()
        .zip(&samples)
        .enumerate()
        .map(|(index, (system, samples))| Row { name: &system.name, samples, goal: (index == last).then_some(goal) })
        .collect();
    table::print(title, &rows, &samples[0]);
    Ok(())
}

/// Where the deltas are. They are the same for every system.
fn deltas(bench: &Bench) -> Result<String, Problem> {
    rounds::finished(&mut bench.reference(&["deltas", "deltas.bin", DELTAS, DELTA_BYTES]))?;
    Ok(bench.dir.join("deltas.bin").display().to_string())
}

fn raw(bench: &Bench, arguments: &[&str]) -> Result<Sample, Problem> {
    bench.fresh("x")?;
    rounds::told(&mut bench.reference(arguments))
}

fn sqlite(bench: &Bench, deltas: &str, commits: &str, writers: &str) -> Result<Sample, Problem> {
    bench.fresh("x")?;
    rounds::told(&mut bench.reference(&["sqlite", "x", deltas, commits, writers]))
}

fn ours(bench: &Bench, deltas: &str, commits: &str, writers: &str) -> Result<Sample, Problem> {
    bench.fresh("x")?;
    let mut command = bench.enjamb(Path::new("x"));
    rounds::told(command.args(["bench", "append", "--frames", deltas, "--n", commits, "--writers", writers]))
}

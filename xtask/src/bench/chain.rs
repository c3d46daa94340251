//! W3: the conversation that a chain of commits holds, against one file of the same bytes.

use std::process::Command;

use super::rounds::{self, Sample, System};
use super::table::{self, Goal, Row};
use super::{Bench, remove};
use crate::Problem;
use crate::command::on_path;

const DELTA_BYTES: &str = "40000";

/// How long a chain is.
#[derive(Clone, Copy)]
struct Length {
    commits: &'static str,
    said: &'static str,
}

const SHORT: Length = Length { commits: "100", said: "100 commits, 4 MB" };
const USUAL: Length = Length { commits: "1000", said: "1,000 commits, 40 MB" };
const LONG: Length = Length { commits: "10000", said: "10,000 commits, 400 MB" };

pub(super) fn run(bench: &Bench) -> Result<(), Problem> {
    measure(bench, SHORT)?;
    measure(bench, USUAL)
}

pub(super) fn run_long(bench: &Bench) -> Result<(), Problem> {
    measure(bench, LONG)
}

fn measure(bench: &Bench, length: Length) -> Result<(), Problem> {
    // Of a chain of another length.
    for earlier in ["flat", "packed"] {
        let _ = std::fs::remove_file(bench.dir.join(earlier));
    }
    rounds::finished(&mut bench.reference(&["deltas", "deltas", length.commits, DELTA_BYTES]))?;
    rounds::finished(&mut bench.reference(&["deltas", "one", "1", DELTA_BYTES]))?;
    for store in ["hot", "kept", "sealed"] {
        bench.fresh(store)?;
        rounds::finished(bench.enjamb(&bench.dir.join(store)).args(["bench", "chain", "--frames", "deltas"]))?;
    }
    rounds::finished(bench.enjamb(&bench.dir.join("sealed")).arg("maintain"))?;
    rounds::finished(bench.enjamb(&bench.dir.join("hot")).args(["-q", "materialize", "--stop", "root", "-o", "flat"]))?;
    // What is asked for twice is kept.
    read(bench, "kept")?;
    read(bench, "kept")?;
    let mut systems = vec![
        System::new("cat, one file", || rounds::timed(&mut shell(bench, "cat flat"))),
        System::new("enjamb, before maintain", || first(bench, "hot")),
        System::new("enjamb, again", || read(bench, "kept")),
        System::new("enjamb, after one more commit", || grown(bench)),
        System::new("enjamb, first after maintain", || first(bench, "sealed")),
    ];
    if on_path("zstd") {
        rounds::finished(&mut shell(bench, "zstd -q -19 --long=25 flat -o packed"))?;
        systems.push(System::new("zstd -d", || rounds::timed(&mut shell(bench, "zstd -q -dc --long=25 packed"))));
    }
    let samples = rounds::run(&systems, bench.rounds)?;
    let title = format!("W3  materialize {}, every byte checked; the reference is", length.said);
    let cat = [None, Some(3.0), Some(2.0), None, None, None];
    table::print(&format!("{title} cat"), &rows(&systems, &samples, &cat), &samples[0]);
    let kept = [None, None, None, Some(1.3), None, None];
    table::print(&format!("{title} our second time"), &rows(&systems, &samples, &kept), &samples[2]);
    if let Some(zstd) = samples.get(5) {
        let sealed = [None, None, None, None, Some(1.3), None];
        table::print(&format!("{title} zstd"), &rows(&systems, &samples, &sealed), zstd);
    }
    Ok(())
}

fn rows<'a>(systems: &'a [System<'_>], samples: &'a [Vec<Sample>], goals: &[Option<f64>]) -> Vec<Row<'a>> {
    let both = systems.iter().zip(samples).zip(goals);
    both.map(|((system, samples), goal)| Row { name: &system.name, samples, goal: goal.map(Goal::Within) }).collect()
}

fn read(bench: &Bench, store: &str) -> Result<Sample, Problem> {
    let mut line = shell(bench, "\"$ENJAMB\" -q --store \"$STORE\" materialize --stop root");
    rounds::timed(line.env("STORE", bench.dir.join(store)))
}

/// As if nobody had asked before.
fn first(bench: &Bench, store: &str) -> Result<Sample, Problem> {
    remove(&bench.dir.join(store).join("cache"))?;
    read(bench, store)
}

fn grown(bench: &Bench) -> Result<Sample, Problem> {
    let kept = bench.dir.join("kept");
    rounds::finished(bench.enjamb(&kept).args(["bench", "chain", "--frames", "one", "--parent", "@"]))?;
    read(bench, "kept")
}

/// A line whose output goes nowhere, as a shell runs it that goes on afterwards.
fn shell(bench: &Bench, line: &str) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", &format!("{line} > /dev/null; exit $?")]).current_dir(&bench.dir).env("ENJAMB", &bench.enjamb);
    command
}

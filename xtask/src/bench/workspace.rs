//! workspace: what a checkpoint of files costs when few of them changed, in a small and in a large tree.

use super::Bench;
use super::rounds::{self, Sample, System};
use super::table::{self, Goal, Row};
use crate::Problem;

const TIMES: &str = "21";

pub(super) fn run(bench: &Bench) -> Result<(), Problem> {
    let systems = [
        System::new("enjamb checkpoint, 1,000 files, 100 changed", || checkpoints(bench, "1000", "100")),
        System::new("enjamb checkpoint, 50,000 files, 10 changed", || checkpoints(bench, "50000", "10")),
    ];
    let samples = rounds::run(&systems, bench.rounds)?;
    let goals = [Some(Goal::Milliseconds(10.0)), Some(Goal::Milliseconds(300.0))];
    let row = |index: usize| Row { name: &systems[index].name, samples: &samples[index], goal: goals[index] };
    table::print("workspace  checkpoints in process, on disk when they are done", &[row(0), row(1)], &samples[0]);
    Ok(())
}

fn checkpoints(bench: &Bench, files: &str, changed: &str) -> Result<Sample, Problem> {
    let (store, files_dir) = (bench.fresh("store")?, bench.fresh("files")?);
    let mut command = bench.enjamb(&store);
    command.args(["bench", "workspace", "--files", files, "--changed", changed, "--times", TIMES, "--dir"]);
    rounds::told(command.arg(files_dir))
}

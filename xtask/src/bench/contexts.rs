//! contexts: what it costs to compile the context of a thread, and whether that grows with the thread; and how fast all
//! of a thread is read.

use std::path::{Path, PathBuf};

use super::Bench;
use super::rounds::{self, Sample, System};
use super::table::{self, Goal, Row};
use crate::Problem;

const FEW: &str = "1000";
const MANY: &str = "1000000";
const TIMES: &str = "200";
/// 300,000 frames a second.
const REPLAY_GOAL: Goal = Goal::Milliseconds(0.003_333);

pub(super) fn run(bench: &Bench) -> Result<(), Problem> {
    let (few, many) = (fill(bench, "few", FEW)?, fill(bench, "many", MANY)?);
    let systems = [
        System::new("enjamb compile, 1,000 messages", || compile(bench, &few, FEW)),
        System::new("enjamb compile, 1,000,000 messages", || compile(bench, &many, MANY)),
        System::new("enjamb replay, 3,000,001 frames", || replay(bench, &many)),
    ];
    let samples = rounds::run(&systems, bench.rounds)?;
    let goals = [Some(Goal::Milliseconds(5.0)), Some(Goal::Within(2.0)), Some(REPLAY_GOAL)];
    let row = |index: usize| Row { name: &systems[index].name, samples: &samples[index], goal: goals[index] };
    let title = "contexts  compiled in process; the reference is the short thread";
    table::print(title, &[row(0), row(1)], &samples[0]);
    table::print("contexts  every frame read, checked and decoded", &[row(2)], &samples[2]);
    Ok(())
}

fn fill(bench: &Bench, name: &str, messages: &str) -> Result<PathBuf, Problem> {
    let store = bench.fresh(name)?;
    compile(bench, &store, messages)?;
    Ok(store)
}

fn compile(bench: &Bench, store: &Path, messages: &str) -> Result<Sample, Problem> {
    rounds::told(bench.enjamb(store).args(["bench", "compile", "--messages", messages, "--times", TIMES]))
}

fn replay(bench: &Bench, store: &Path) -> Result<Sample, Problem> {
    rounds::told(bench.enjamb(store).args(["bench", "replay", "--messages", MANY]))
}

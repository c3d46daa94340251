//! session: a session of 100 MB, checked, translated, repaired and put together for a runtime: how long it takes, and the
//! most that is held at once. Its results have no calls, so that there is something to repair.

use std::path::Path;
use std::process::Command;

use super::Bench;
use super::memory::{Peak, watched_ending};
use super::rounds::{self, median};
use super::table::{aligned, mark};
use crate::Problem;

const SESSION_BYTES: &str = "100000000";
const GOAL_MIB: f64 = 200.0;
const GOAL_SECONDS: f64 = 10.0;
const ROUNDS_MAX: usize = 3;
/// `check` and `repair` end with 1 where something would not load.
const ENDINGS: &[i32] = &[0, 1];

const COMMANDS: &[&[&str]] = &[
    &["check"],
    &["check", "--for", "codex"],
    &["materialize", "--format", "codex-v1"],
    &["repair", "--dry-run"],
    &["resume", "--dry-run"],
    &["resume", "--in", "codex", "--dry-run"],
];

pub(super) fn run(bench: &Bench) -> Result<(), Problem> {
    rounds::finished(&mut bench.reference(&["session", "session.jsonl", SESSION_BYTES]))?;
    let mut peaks: Vec<Vec<Peak>> = COMMANDS.iter().map(|_| Vec::new()).collect();
    for _ in 0..bench.rounds.min(ROUNDS_MAX) {
        // A store of its own for each round: what was materialized before is kept there.
        let store = bench.fresh("session")?;
        rounds::finished(enjamb(bench, &store).args(["-q", "import", "session.jsonl"]))?;
        for (command, peaks) in COMMANDS.iter().zip(&mut peaks) {
            peaks.push(watched_ending(enjamb(bench, &store).args(*command), ENDINGS)?);
        }
    }
    print(&peaks);
    Ok(())
}

/// Our binary in a home of its own: runtimes' sessions are looked for there.
fn enjamb(bench: &Bench, store: &Path) -> Command {
    let mut command = bench.enjamb(store);
    command.env("HOME", &bench.dir);
    command
}

fn print(peaks: &[Vec<Peak>]) {
    println!("\nsession  100 MB of one session\n");
    let mut lines = vec![["command", "time", "goal", "peak", "goal"].map(str::to_owned)];
    for (command, all) in COMMANDS.iter().zip(peaks) {
        let most = all.iter().map(|peak| peak.mib).fold(0.0, f64::max);
        let seconds = median(all.iter().map(|peak| peak.seconds));
        lines.push([
            format!("enjamb {}", command.join(" ")),
            format!("{seconds:.1} s"),
            format!("≤ {GOAL_SECONDS} s {}", mark(seconds <= GOAL_SECONDS)),
            format!("{most:.0} MiB"),
            format!("≤ {GOAL_MIB} MiB {}", mark(most <= GOAL_MIB)),
        ]);
    }
    print!("{}", aligned(&lines));
}

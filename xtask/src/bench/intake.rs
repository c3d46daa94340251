//! W5: a directory of transcripts taken in, against copying it; and taken in once more, when nothing is new.

use std::path::Path;
use std::process::Command;

use super::Bench;
use super::rounds::{self, Sample, System};
use super::table::{self, Goal, Row};
use crate::Problem;
use crate::command::on_path;

pub(super) fn run(bench: &Bench, corpus: &Path) -> Result<(), Problem> {
    let again = bench.fresh("again")?;
    rounds::finished(&mut import(bench, &again, corpus))?;
    let mut systems = vec![
        System::new("cp -r and sync", || {
            rounds::timed(&mut shell(bench, corpus, "cp -r \"$CORPUS\" \"$HERE\" && sync -f \"$HERE\"")?)
        }),
        System::new("enjamb import", || {
            let store = bench.fresh("import")?;
            rounds::timed(&mut import(bench, &store, corpus))
        }),
        System::new("enjamb import, nothing new", || rounds::timed(&mut import(bench, &again, corpus))),
    ];
    for (program, line) in PEERS {
        if on_path(program) {
            systems.push(System::new(program, || rounds::timed(&mut shell(bench, corpus, line)?)));
        } else {
            println!("  {program}: not installed");
        }
    }
    let samples = rounds::run(&systems, bench.rounds)?;
    let title = format!("W5  take in {}; the reference is", corpus.display());
    let goals = |of: usize, goal: f64| move |index: usize| (index == of).then_some(Goal::Within(goal));
    table::print(&format!("{title} a copy with sync"), &rows(&systems, &samples, &goals(1, 5.0)), &samples[0]);
    table::print(&format!("{title} our first time"), &rows(&systems, &samples, &goals(2, 0.05)), &samples[1]);
    Ok(())
}

/// Each makes its store anew in `$HERE` and leaves everything on disk.
const PEERS: &[(&str, &str)] = &[
    ("borg", "borg init -e none && borg create -C lz4 ::a \"$CORPUS\" && sync -f \"$HERE\""),
    ("restic", "restic -q init && restic -q backup \"$CORPUS\" && sync -f \"$HERE\""),
];

fn rows<'a>(
    systems: &'a [System<'_>],
    samples: &'a [Vec<Sample>],
    goal: &dyn Fn(usize) -> Option<Goal>,
) -> Vec<Row<'a>> {
    let both = systems.iter().zip(samples).enumerate();
    both.map(|(index, (system, samples))| Row { name: &system.name, samples, goal: goal(index) }).collect()
}

fn import(bench: &Bench, store: &Path, corpus: &Path) -> Command {
    let mut command = bench.enjamb(store);
    command.args(["-q", "import"]).arg(corpus);
    command
}

fn shell(bench: &Bench, corpus: &Path, line: &str) -> Result<Command, Problem> {
    let here = bench.fresh("peer")?;
    std::fs::create_dir_all(&here).map_err(|cause| format!("{} could not be made: {cause}", here.display()))?;
    let mut command = Command::new("sh");
    command.args(["-c", line]).current_dir(&bench.dir).env("HERE", &here).env("CORPUS", corpus).env("HOME", &here);
    command.env("RESTIC_REPOSITORY", here.join("r")).env("RESTIC_PASSWORD", "x");
    command.env("RESTIC_CACHE_DIR", bench.dir.join("cache"));
    command.env("BORG_REPO", here.join("r")).env("BORG_BASE_DIR", here.join("base"));
    command.env("BORG_UNKNOWN_UNENCRYPTED_REPO_ACCESS_IS_OK", "yes");
    Ok(command)
}

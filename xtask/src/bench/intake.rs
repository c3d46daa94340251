//! W5: a directory of transcripts taken in, against copying it; and taken in once more, when nothing is new. And what it takes
//! on disk then, against restic.

use std::path::Path;
use std::process::Command;

use super::rounds::{self, Sample, System};
use super::table::{self, Goal, Row};
use super::{Bench, stored_bytes};
use crate::Problem;
use crate::command::on_path;

pub(super) fn run(bench: &Bench, corpus: &Path) -> Result<(), Problem> {
    let again = bench.fresh("again")?;
    rounds::finished(&mut import(bench, &again, corpus))?;
    let mut systems = vec![
        System::new("cp -r and sync", || {
            settled(&mut shell(bench, corpus, "cp -r \"$CORPUS\" \"$HERE\" && sync -f \"$HERE\"")?)
        }),
        System::new("enjamb import", || {
            let store = bench.fresh("import")?;
            settled(&mut import(bench, &store, corpus))
        }),
        System::new("enjamb import, nothing new", || settled(&mut import(bench, &again, corpus))),
    ];
    for (program, line) in PEERS {
        if on_path(program) {
            systems.push(System::new(program, || settled(&mut shell(bench, corpus, line)?)));
        } else {
            println!("  {program}: not installed");
        }
    }
    let samples = rounds::run(&systems, bench.rounds)?;
    let title = format!("W5  take in {}; the reference is", corpus.display());
    let goals = |of: usize, goal: f64| move |index: usize| (index == of).then_some(Goal::Within(goal));
    table::print(&format!("{title} a copy with sync"), &rows(&systems, &samples, &goals(1, 5.0)), &samples[0]);
    table::print(&format!("{title} our first time"), &rows(&systems, &samples, &goals(2, 0.05)), &samples[1]);
    sizes(bench, corpus)
}

/// Times a command once the disk is done with what others left it.
fn settled(command: &mut Command) -> Result<Sample, Problem> {
    rounds::finished(&mut Command::new("sync"))?;
    rounds::timed(command)
}

/// Of what restic needs for the same files, once `maintain` was there.
const STORED_MAX: f64 = 0.75;

/// What is on disk, index included: as it was imported, and after `maintain`.
fn sizes(bench: &Bench, corpus: &Path) -> Result<(), Problem> {
    let store = bench.fresh("sized")?;
    rounds::finished(&mut import(bench, &store, corpus))?;
    let imported = stored_bytes(&store)?;
    let maintained = rounds::timed(bench.enjamb(&store).args(["-q", "maintain"]))?;
    let stored = stored_bytes(&store)?;
    println!("\nW5  bytes on disk of {}", corpus.display());
    println!("  {:<28}{imported:>12}", "enjamb import");
    println!("  {:<28}{stored:>12}  {:.1} s", "and enjamb maintain", maintained.seconds);
    if let Some((program, line)) = PEERS.iter().find(|(program, _)| *program == "restic" && on_path(program)) {
        rounds::finished(&mut shell(bench, corpus, line)?)?;
        let theirs = stored_bytes(&bench.dir.join("peer").join("r"))?;
        let ratio = stored as f64 / theirs as f64;
        println!("  {program:<28}{theirs:>12}");
        println!("  enjamb is {ratio:.3} x restic, at most {STORED_MAX} {}", table::mark(ratio <= STORED_MAX));
    }
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

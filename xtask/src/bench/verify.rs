//! W8: check every byte of what is stored. Backup tools and git, where they are installed, get the same transcripts.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::Bench;
use super::rounds::{self, Sample, System};
use super::table::{self, Goal, Row};
use crate::Problem;
use crate::command::on_path;

const TIMES_FASTER: f64 = 4.0;

/// Another store with a check of its own.
struct Peer {
    program: &'static str,
    name: &'static str,
    /// Shell lines that store the directory `$CORPUS` in `$HERE`.
    store: &'static [&'static str],
    check: &'static str,
}

const PEERS: &[Peer] = &[
    Peer {
        program: "restic",
        name: "restic check --read-data",
        store: &["restic -q init", "restic -q backup \"$CORPUS\""],
        check: "restic -q check --read-data",
    },
    Peer {
        program: "borg",
        name: "borg check --verify-data",
        store: &["borg init -e none", "borg create -C lz4 ::a \"$CORPUS\""],
        check: "borg check --verify-data",
    },
    Peer {
        program: "git",
        name: "git fsck --full --strict",
        store: &[
            "git init -q --bare \"$HERE/r\" && git -C \"$HERE/r\" config gc.auto 0",
            "git --git-dir=\"$HERE/r\" --work-tree=\"$CORPUS\" add -A",
            "git --git-dir=\"$HERE/r\" --work-tree=\"$CORPUS\" commit -qm import",
            "git -C \"$HERE/r\" repack -adq --depth=10 --window=5",
        ],
        check: "git -C \"$HERE/r\" fsck --full --strict",
    },
];

pub(super) fn run(bench: &Bench) -> Result<(), Problem> {
    let corpus = bench.made_transcripts()?;
    let (put, sealed) = (bench.fresh("put")?, bench.fresh("sealed")?);
    for store in [&put, &sealed] {
        rounds::finished(bench.enjamb(store).arg("put").args(files(&corpus)?))?;
    }
    rounds::finished(bench.enjamb(&sealed).arg("maintain"))?;
    let mut systems = vec![
        System::new("enjamb verify, as put", || rounds::timed(bench.enjamb(&put).arg("verify"))),
        System::new("enjamb verify, after maintain", || rounds::timed(bench.enjamb(&sealed).arg("verify"))),
    ];
    let (peers, absent): (Vec<&Peer>, Vec<&Peer>) = PEERS.iter().partition(|peer| on_path(peer.program));
    for peer in peers {
        prepare(bench, peer, &corpus)?;
        systems.push(System::new(peer.name, || rounds::timed(&mut shell(bench, peer, &corpus, peer.check))));
    }
    let samples = rounds::run(&systems, bench.rounds)?;
    for (reference, state) in ["as put", "after maintain"].iter().enumerate() {
        let title = format!("W8  verify 95 MB of transcripts; the reference is our store {state}");
        table::print(&title, &rows(&systems, &samples), &samples[reference]);
    }
    absent.iter().for_each(|peer| println!("  {}: not installed", peer.program));
    Ok(())
}

/// Ours come first and are the references; the goal is about the others.
fn rows<'a>(systems: &'a [System<'_>], samples: &'a [Vec<Sample>]) -> Vec<Row<'a>> {
    let goal = |index: usize| (index > 1).then_some(Goal::Beaten(TIMES_FASTER));
    let both = systems.iter().zip(samples).enumerate();
    both.map(|(index, (system, samples))| Row { name: &system.name, samples, goal: goal(index) }).collect()
}

fn files(corpus: &Path) -> Result<Vec<OsString>, Problem> {
    let unreadable = |cause| format!("{} could not be read: {cause}", corpus.display());
    let entries = fs::read_dir(corpus).map_err(unreadable)?;
    let mut files: Vec<PathBuf> =
        entries.map(|entry| entry.map(|entry| entry.path())).collect::<Result<_, _>>().map_err(unreadable)?;
    files.sort();
    Ok(files.into_iter().map(PathBuf::into_os_string).collect())
}

fn prepare(bench: &Bench, peer: &Peer, corpus: &Path) -> Result<(), Problem> {
    let here = bench.fresh(peer.program)?;
    fs::create_dir_all(&here).map_err(|cause| format!("{} could not be made: {cause}", here.display()))?;
    for line in peer.store {
        rounds::finished(&mut shell(bench, peer, corpus, line)).map_err(|problem| format!("{line}: {problem}"))?;
    }
    Ok(())
}

/// A line for the shell in which the peer finds its store, its cache and no one's settings.
fn shell(bench: &Bench, peer: &Peer, corpus: &Path, line: &str) -> Command {
    let here = bench.dir.join(peer.program);
    let mut command = Command::new("sh");
    command.args(["-c", line]).current_dir(&bench.dir).env("HERE", &here).env("CORPUS", corpus).env("HOME", &here);
    command
        .env("RESTIC_REPOSITORY", here.join("r"))
        .env("RESTIC_PASSWORD", "x")
        .env("RESTIC_CACHE_DIR", here.join("c"));
    command.env("BORG_REPO", here.join("r")).env("BORG_BASE_DIR", here.join("base"));
    command.env("BORG_UNKNOWN_UNENCRYPTED_REPO_ACCESS_IS_OK", "yes").env("GIT_CONFIG_NOSYSTEM", "1");
    for role in ["AUTHOR", "COMMITTER"] {
        command.env(format!("GIT_{role}_NAME"), "a").env(format!("GIT_{role}_EMAIL"), "a@x");
    }
    command
}

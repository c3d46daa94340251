//! Runs a directory of benchmarks in Python beside ours: a copy of it gets our binary as one more system.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{Bench, Workload};
use crate::Problem;
use crate::command;

const MADE_BY_IT: &[&str] = &["venv", "results", "corpus", "run", "limits", "__pycache__"];

pub(super) fn run(bench: &Bench, harness: &Path, workloads: &[Workload]) -> Result<(), Problem> {
    if !harness.join("bench.py").is_file() {
        return Err(format!("{} has no bench.py", harness.display()));
    }
    super::empty(&bench.dir)?;
    let copy = bench.dir.join("harness");
    copy_sources(harness, &copy)?;
    let described = copy.join("adapters_ext");
    for (name, adapter) in adapters(bench) {
        let written = fs::create_dir_all(&described).and_then(|()| fs::write(described.join(name), adapter));
        written.map_err(|cause| format!("{name} could not be written: {cause}"))?;
    }
    let rounds = bench.rounds.to_string();
    for workload in workloads {
        let Some(chosen) = chosen(*workload) else { continue };
        command::run(
            Command::new(python(harness)).current_dir(&copy).arg("bench.py").args(chosen).args(["--rounds", &rounds]),
        )?;
    }
    Ok(())
}

/// Copies all but what the harness made for itself, and builds its program for the limits of the disk.
fn copy_sources(harness: &Path, copy: &Path) -> Result<(), Problem> {
    let unreadable = |cause| format!("{} could not be copied: {cause}", harness.display());
    fs::create_dir_all(copy).map_err(unreadable)?;
    for entry in fs::read_dir(harness).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        if !path.file_name().is_some_and(|name| MADE_BY_IT.iter().any(|made| name == *made)) {
            command::run(Command::new("cp").arg("-r").arg("--no-preserve=mode").arg(&path).arg(copy))?;
        }
    }
    command::run(Command::new("cc").current_dir(copy).args(["-O2", "-pthread", "limits.c", "-o", "limits"]))
}

/// What of the harness is the same work, and the systems that need nothing set up.
fn chosen(workload: Workload) -> Option<&'static [&'static str]> {
    match workload {
        Workload::OneWriter => {
            Some(&["W1", "--n", "600", "--systems", "raw-prealloc,raw-append,sqlite-wal-full,git-plumbing,enjamb"])
        }
        Workload::ManyWriters => {
            Some(&["W2", "--n", "12800", "--writers", "64", "--systems", "raw-prealloc,sqlite-wal-full,enjamb"])
        }
        Workload::Chain => Some(&["W3", "--n", "1000", "--systems", "raw-append,cat-process,enjamb,enjamb-first"]),
        Workload::LongChain => Some(&["W3", "--n", "10000", "--systems", "raw-append,cat-process,enjamb,enjamb-first"]),
        Workload::Size
        | Workload::Intake
        | Workload::Verify
        | Workload::List
        | Workload::Contexts
        | Workload::Memory
        | Workload::Large
        | Workload::Session
        | Workload::Server
        | Workload::Runs
        | Workload::Workspace
        | Workload::Postgres => None,
    }
}

/// The harness's own Python if it has one. A virtual environment does not survive being copied, so it stays there.
fn python(harness: &Path) -> PathBuf {
    let own = harness.join("venv/bin/python");
    let absolute = fs::canonicalize(harness).unwrap_or_else(|_| harness.to_owned()).join("venv/bin/python");
    if own.is_file() { absolute } else { "python3".into() }
}

/// How the harness calls us, twice: as we are, and with a file where materializations would be kept, so that each
/// reading is the first.
fn adapters(bench: &Bench) -> [(&'static str, String); 2] {
    let enjamb = bench.enjamb.display();
    let append = format!("{enjamb} bench append --store {{d}}/s --frames {{frames}} --n {{n}}");
    let load = format!("{enjamb} bench chain --store {{d}}/s --frames {{frames}} > /dev/null");
    let read = format!("{enjamb} -q --store {{d}}/s materialize --stop root > /dev/null");
    let version = format!("{enjamb} --version");
    let whole = format!(
        "{{\"name\": \"enjamb\", \"version\": \"{version}\", \"w1\": \"{append}\", \"w2\": \"{append} --writers \
         {{writers}}\", \"w3_prepare\": \"{load}\", \"w3_read\": \"{read}\"}}\n"
    );
    let first = format!(
        "{{\"name\": \"enjamb-first\", \"version\": \"{version}\", \"w3_prepare\": \"{load} && rm -rf {{d}}/s/cache && \
         touch {{d}}/s/cache\", \"w3_read\": \"{read}\"}}\n"
    );
    [("enjamb.json", whole), ("enjamb-first.json", first)]
}

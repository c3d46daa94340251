//! large: transcripts of a gigabyte, a line of 64 MB, and a rollout that tells its images over and over: the memory that
//! taking them in needs, what they take on disk, and that each is given back byte for byte.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::memory::watched;
use super::rounds;
use super::table::{aligned, mark};
use super::{Bench, stored_bytes};
use crate::Problem;

const MEMORY_MIB: f64 = 256.0;
const ROLLOUT_STORED_BYTES: u64 = 60_000_000;

/// A file, how it is made, and what it may take on disk.
struct Case {
    about: &'static str,
    file: &'static str,
    make: &'static [&'static str],
    stored_max: Option<u64>,
}

const CASES: &[Case] = &[
    Case {
        about: "a session of 1 GB",
        file: "session.jsonl",
        make: &["session", "session.jsonl", "1000000000"],
        stored_max: None,
    },
    Case { about: "a line of 64 MB", file: "line.jsonl", make: &["line", "line.jsonl", "64000000"], stored_max: None },
    Case {
        about: "40 images, 25 times each, 1.2 GB",
        file: "rollout-2026-01-01T00-00-00-0199a213-81c0-7800-8aa1-bbab2a035a53.jsonl",
        make: &[
            "rollout",
            "rollout-2026-01-01T00-00-00-0199a213-81c0-7800-8aa1-bbab2a035a53.jsonl",
            "40",
            "1200000",
            "25",
        ],
        stored_max: Some(ROLLOUT_STORED_BYTES),
    },
];

pub(super) fn run(bench: &Bench) -> Result<(), Problem> {
    let titles = ["file", "bytes", "import", "peak", "goal", "stored", "goal", "given back"];
    let mut lines = vec![titles.map(str::to_owned)];
    for case in CASES {
        lines.push(measure(bench, case)?);
    }
    println!("\nlarge  taken in, and given back\n");
    print!("{}", aligned(&lines));
    Ok(())
}

fn measure(bench: &Bench, case: &Case) -> Result<[String; 8], Problem> {
    let path = bench.dir.join(case.file);
    rounds::finished(&mut bench.reference(case.make))?;
    let size = fs::metadata(&path).map_err(|cause| format!("{}: {cause}", path.display()))?.len();
    let store = bench.fresh("large")?;
    let peak = watched(bench.enjamb(&store).args(["-q", "import"]).arg(&path))?;
    let stored = stored_bytes(&store)?;
    let exported = bench.fresh("exported")?;
    let export = ["-q", "export", "--source"];
    rounds::finished(bench.enjamb(&store).args(export).arg(&path).arg("-o").arg(&exported))?;
    let is_same = rounds::finished(Command::new("cmp").arg(&path).arg(&exported)).is_ok();
    remove_file(&path)?;
    remove_file(&exported)?;
    let stored_goal = case.stored_max.map_or(String::new(), |max| format!("≤ {max} {}", mark(stored <= max)));
    Ok([
        case.about.to_owned(),
        size.to_string(),
        format!("{:.1} s", peak.seconds),
        format!("{:.0} MiB", peak.mib),
        format!("≤ {MEMORY_MIB} MiB {}", mark(peak.mib <= MEMORY_MIB)),
        stored.to_string(),
        stored_goal,
        mark(is_same).to_string(),
    ])
}

fn remove_file(path: &Path) -> Result<(), Problem> {
    fs::remove_file(path).map_err(|cause| format!("{} could not be removed: {cause}", path.display()))
}

//! W4: what a store takes on disk after `enjamb maintain`, against restic with the same files. Each file is a chain of
//! 20 commits. Sizes do not depend on who else uses the machine: one run is enough.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::Bench;
use super::rounds;
use crate::Problem;
use crate::command::on_path;

const CHECKPOINTS: usize = 20;
const FILES_MAX: usize = 200;
/// Smaller files are not worth 20 checkpoints.
const FILE_BYTES_MIN: u64 = 20_000;
const GOAL: f64 = 0.68;

pub(super) fn run(bench: &Bench, corpus: &Path) -> Result<(), Problem> {
    let files = transcripts(corpus)?;
    let flat = bench.fresh("flat")?;
    make_dir(&flat)?;
    let store = bench.fresh("store")?;
    let mut raw = 0;
    for (number, file) in files.iter().enumerate() {
        let bytes = fs::read(file).map_err(|cause| format!("{} could not be read: {cause}", file.display()))?;
        raw += bytes.len() as u64;
        write(&flat.join(format!("s{number:03}.jsonl")), &bytes)?;
        keep_chain(bench, &store, number, &bytes)?;
    }
    rounds::finished(bench.enjamb(&store).arg("maintain"))?;
    let ours = stored(&store)?;
    println!("W4  {} files, {raw} bytes, {CHECKPOINTS} checkpoints each, after maintain, index included", files.len());
    println!("  {:<28}{ours:>12}  {:.3} of the bytes", "enjamb", ours as f64 / raw as f64);
    check(bench, &store, &flat, files.len())?;
    if !on_path("restic") {
        println!("  restic: not installed");
        return Ok(());
    }
    let theirs = restic(bench, &flat)?;
    println!("  {:<28}{theirs:>12}  {:.3} of the bytes", "restic, once", theirs as f64 / raw as f64);
    let ratio = ours as f64 / theirs as f64;
    let met = if ratio <= GOAL { "holds" } else { "MISSED" };
    println!("  enjamb is {ratio:.4} x restic; the goal, at most {GOAL}, {met}");
    Ok(())
}

/// All files of some size below a directory, in order.
fn transcripts(corpus: &Path) -> Result<Vec<PathBuf>, Problem> {
    let mut files = Vec::new();
    walk(corpus, &mut files)?;
    files.retain(|(path, len)| *len > FILE_BYTES_MIN && path.extension().is_some_and(|end| end == "jsonl"));
    files.sort();
    files.truncate(FILES_MAX);
    match files.is_empty() {
        true => Err(format!("{} has no .jsonl file of more than {FILE_BYTES_MIN} bytes", corpus.display())),
        false => Ok(files.into_iter().map(|(path, _)| path).collect()),
    }
}

fn walk(dir: &Path, files: &mut Vec<(PathBuf, u64)>) -> Result<(), Problem> {
    let unreadable = |cause| format!("{} could not be read: {cause}", dir.display());
    for entry in fs::read_dir(dir).map_err(unreadable)? {
        let entry = entry.map_err(unreadable)?;
        let about = entry.metadata().map_err(unreadable)?;
        match about.is_dir() {
            true => walk(&entry.path(), files)?,
            false => files.push((entry.path(), about.len())),
        }
    }
    Ok(())
}

/// Keeps a file as a chain of commits.
fn keep_chain(bench: &Bench, store: &Path, number: usize, bytes: &[u8]) -> Result<(), Problem> {
    let mut frames = Vec::new();
    for delta in cut(bytes) {
        frames.extend((delta.len() as u32).to_le_bytes());
        frames.extend(delta);
    }
    write(&bench.dir.join("deltas"), &frames)?;
    let principal = format!("s{number:03}");
    let chain = ["bench", "chain", "--frames", "deltas", "--principal", &principal];
    rounds::finished(bench.enjamb(store).args(chain)).map(drop)
}

/// Cuts lines into parts of about the same size.
fn cut(bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut parts = Vec::new();
    let (mut part, mut done) = (Vec::new(), 0);
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        part.extend(line);
        done += line.len();
        if done * CHECKPOINTS >= bytes.len() * (parts.len() + 1) {
            parts.push(std::mem::take(&mut part));
        }
    }
    parts.extend((!part.is_empty()).then_some(part));
    parts
}

/// Every chain must come back as the file it was made of; a newline at the end is the format's own.
fn check(bench: &Bench, store: &Path, flat: &Path, count: usize) -> Result<(), Problem> {
    for number in 0..count {
        let name = format!("s{number:03}");
        let out = bench.dir.join("out");
        let revision = format!("{name}@2999-01-01T00:00:00Z");
        let mut command = bench.enjamb(store);
        rounds::finished(command.args(["-q", "materialize", &revision, "--stop", "root", "-o"]).arg(&out))?;
        let unreadable = |cause| format!("{name} could not be compared: {cause}");
        let got = fs::read(&out).map_err(unreadable)?;
        let mut expected = fs::read(flat.join(format!("{name}.jsonl"))).map_err(unreadable)?;
        if !expected.ends_with(b"\n") {
            expected.push(b'\n');
        }
        if got != expected {
            return Err(format!("the chain {name} does not come back as it was"));
        }
        let _ = fs::remove_file(&out);
    }
    println!("  all {count} chains come back byte for byte");
    Ok(())
}

fn restic(bench: &Bench, flat: &Path) -> Result<u64, Problem> {
    let here = bench.fresh("restic")?;
    make_dir(&here)?;
    let line = "restic -q init && restic -q backup --compression auto \"$FLAT\"";
    let mut command = Command::new("sh");
    command.args(["-c", line]).env("FLAT", flat).env("HOME", &here).env("RESTIC_PASSWORD", "x");
    command.env("RESTIC_REPOSITORY", here.join("r")).env("RESTIC_CACHE_DIR", bench.dir.join("restic-cache"));
    rounds::finished(&mut command)?;
    stored(&here.join("r"))
}

fn stored(dir: &Path) -> Result<u64, Problem> {
    let mut files = Vec::new();
    walk(dir, &mut files)?;
    Ok(files.iter().map(|(_, len)| len).sum())
}

fn make_dir(path: &Path) -> Result<(), Problem> {
    fs::create_dir_all(path).map_err(|cause| format!("{} could not be made: {cause}", path.display()))
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), Problem> {
    fs::write(path, bytes).map_err(|cause| format!("{} could not be written: {cause}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_cut_into_as_many_parts_and_none_is_lost() {
        let text: Vec<u8> = (0..100).flat_map(|line| format!("line {line}\n").into_bytes()).collect();
        let parts = cut(&text);
        assert_eq!(parts.len(), CHECKPOINTS);
        assert!(parts.iter().all(|part| part.ends_with(b"\n")));
        assert_eq!(parts.concat(), text);
        assert_eq!(cut(b"one line, torn"), [b"one line, torn".to_vec()]);
    }
}

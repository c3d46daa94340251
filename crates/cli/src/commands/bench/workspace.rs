//! Checkpoints of a workspace of which few files change.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use enjamb_service::{Actor, ServiceError, Store, WorkspaceCheckpoint};
use serde_json::{Value, json};

use crate::failure::Result;

const FILES_PER_DIR: usize = 100;
/// Longer than a file system takes to tell two writes apart: what is measured is not how often a fresh file is read again.
const SETTLE: Duration = Duration::from_millis(50);

/// Makes a workspace and measures checkpoints of it, each after so many files were written to.
pub fn checkpoints(store: &Store, dir: &Path, files: usize, changed: usize, times: usize) -> Result<Value> {
    let failed = |source| ServiceError::File { path: dir.to_owned(), source };
    for index in 0..files {
        write(dir, index, 0).map_err(failed)?;
    }
    let request = WorkspaceCheckpoint { root: dir.to_owned(), label: "bench".into(), ..WorkspaceCheckpoint::default() };
    let began = Instant::now();
    store.workspace_checkpoint(&request, &Actor::default())?;
    let first_seconds = began.elapsed().as_secs_f64();
    std::thread::sleep(SETTLE);
    store.workspace_checkpoint(&request, &Actor::default())?;
    let mut seconds = Vec::with_capacity(times);
    for round in 1..=times {
        for index in 0..changed {
            write(dir, (index * 7_919 + round) % files, round).map_err(failed)?;
        }
        let began = Instant::now();
        store.workspace_checkpoint(&request, &Actor::default())?;
        seconds.push(began.elapsed().as_secs_f64());
        std::thread::sleep(SETTLE);
    }
    seconds.sort_by(f64::total_cmp);
    let at = |part: f64| seconds.get((seconds.len() as f64 * part) as usize).copied().unwrap_or(0.0) * 1e6;
    let total: f64 = seconds.iter().sum();
    Ok(json!({
        "seconds": total, "n": times, "p50_us": at(0.5), "p99_us": at(0.99), "first_seconds": first_seconds,
        "files": files, "changed": changed,
    }))
}

fn write(dir: &Path, index: usize, round: usize) -> std::io::Result<()> {
    let parent = dir.join(format!("d{}", index / FILES_PER_DIR));
    if index.is_multiple_of(FILES_PER_DIR) && round == 0 {
        fs::create_dir_all(&parent)?;
    }
    let line = format!("line of file {index} in round {round}, much like the one before\n");
    fs::write(parent.join(format!("f{index}.rs")), line.repeat(20))
}

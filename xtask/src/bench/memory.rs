//! memory: the most that a command held at once, with an artifact of 1 GiB. Linux only: it reads `VmHWM` in `/proc`.

use std::fs;
use std::process::{Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use super::Bench;
use super::rounds::{self, median};
use super::table::{aligned, mark};
use crate::Problem;

const ARTIFACT_BYTES: &str = "1073741824";
const GOAL_MIB: f64 = 150.0;
/// The peak only grows, so what is missed is what the last moment added.
const LOOK_EVERY: Duration = Duration::from_millis(1);
/// Memory is steadier than time, and a round moves many gigabytes.
const ROUNDS_MAX: usize = 2;

pub(super) fn run(bench: &Bench) -> Result<(), Problem> {
    rounds::finished(&mut bench.reference(&["artifact", "artifact.bin", ARTIFACT_BYTES]))?;
    let mut peaks: Vec<(&str, Vec<Peak>)> = Vec::new();
    for _ in 0..bench.rounds.min(ROUNDS_MAX) {
        for (name, peak) in round(bench)? {
            match peaks.iter_mut().find(|(known, _)| *known == name) {
                Some((_, all)) => all.push(peak),
                None => peaks.push((name, vec![peak])),
            }
        }
    }
    print(&peaks);
    Ok(())
}

pub(super) struct Peak {
    pub(super) mib: f64,
    pub(super) seconds: f64,
}

fn round(bench: &Bench) -> Result<Vec<(&'static str, Peak)>, Problem> {
    let (store, backup) = (bench.fresh("store")?, bench.fresh("backup")?);
    let run = |arguments: &[&str]| watched(bench.enjamb(&store).args(arguments));
    let backup_to = backup.display().to_string();
    let peaks = vec![
        ("put", run(&["put", "artifact.bin", "--tag", "big"])?),
        ("get", run(&["get", "big"])?),
        ("verify", run(&["verify"])?),
        ("maintain", run(&["maintain"])?),
        ("get, after maintain", run(&["get", "big"])?),
        ("verify, after maintain", run(&["verify"])?),
        ("backup", run(&["backup", &backup_to])?),
    ];
    Ok(peaks)
}

/// Runs a command to its end and keeps an eye on its memory.
pub(super) fn watched(command: &mut Command) -> Result<Peak, Problem> {
    watched_ending(command, &[0])
}

/// As `watched`, for a command that may end with any of these.
pub(super) fn watched_ending(command: &mut Command, codes: &[i32]) -> Result<Peak, Problem> {
    let began = Instant::now();
    let quiet = command.stdin(Stdio::null()).stdout(Stdio::null());
    let is_fine = |ended: &ExitStatus| ended.code().is_some_and(|code| codes.contains(&code));
    let mut child = quiet.spawn().map_err(|cause| format!("enjamb could not be started: {cause}"))?;
    let status = format!("/proc/{}/status", child.id());
    let mut mib = 0.0;
    loop {
        let ended = child.try_wait().map_err(|cause| format!("enjamb could not be waited for: {cause}"))?;
        match ended {
            Some(ended) if is_fine(&ended) => return Ok(Peak { mib, seconds: began.elapsed().as_secs_f64() }),
            Some(ended) => return Err(format!("enjamb ended with {ended}")),
            None => {
                mib = fs::read_to_string(&status).ok().and_then(|text| peak_mib(&text)).unwrap_or(mib);
                thread::sleep(LOOK_EVERY);
            }
        }
    }
}

fn peak_mib(status: &str) -> Option<f64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<f64>().ok().map(|kib| kib / 1024.0)
}

fn print(peaks: &[(&str, Vec<Peak>)]) {
    println!("\nmemory  the most that a command held, with an artifact of 1 GiB\n");
    let mut lines = vec![["command", "peak", "time", "goal"].map(str::to_owned)];
    for (name, all) in peaks {
        let most = all.iter().map(|peak| peak.mib).fold(0.0, f64::max);
        let seconds = median(all.iter().map(|peak| peak.seconds));
        let goal = format!("≤ {GOAL_MIB} MiB {}", mark(most <= GOAL_MIB));
        lines.push([format!("enjamb {name}"), format!("{most:.0} MiB"), format!("{seconds:.1} s"), goal]);
    }
    print!("{}", aligned(&lines));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_peak_is_found_in_what_linux_says() {
        assert_eq!(peak_mib("Name:\tx\nVmHWM:\t    2048 kB\nVmRSS:\t 1 kB\n"), Some(2.0));
        assert_eq!(peak_mib("Name:\tx\nState:\tZ (zombie)\n"), None);
    }
}

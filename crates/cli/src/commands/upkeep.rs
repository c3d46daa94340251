//! What a server does besides: it takes in what hooks tell of, and moves cold bytes into segments. Both with limits, on a
//! thread that lets requests go first, and only until the process ends.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use enjamb_service::{DrainBounds, Env, Store};

use super::import::of_hooks;

const PAUSE: Duration = Duration::from_secs(1);
/// Bytes of transcripts that are taken in at a time. What is beyond comes next.
const DRAINED_BYTES_MAX: u64 = 256 << 20;
/// The log is moved into segments when it has so many bytes, and not more often than this.
const LOG_BYTES_MIN: u64 = 64 << 20;
const MAINTAIN_EVERY: Duration = Duration::from_secs(10 * 60);

/// What is wanted of it.
#[derive(Clone, Debug)]
pub struct Upkeep {
    pub dir: PathBuf,
    pub drain: bool,
    pub maintain: bool,
}

impl Upkeep {
    /// Begins, if anything is wanted.
    pub fn start(self) {
        if self.drain || self.maintain {
            std::thread::spawn(move || self.run());
        }
    }

    fn run(self) {
        // On Linux a priority is a thread's; where it cannot be lowered, we are merely less polite.
        #[cfg(target_os = "linux")]
        let _ = rustix::process::setpriority_process(None, 10);
        let mut store = None;
        let mut maintained: Option<Instant> = None;
        loop {
            std::thread::sleep(PAUSE);
            store = store.or_else(|| Store::open(&self.dir, Env::system()).ok());
            let Some(store) = &store else { continue };
            if self.drain {
                // What fails is tried again, and `status` shows it.
                let _ = store.drain(&of_hooks(), DrainBounds { bytes_max: DRAINED_BYTES_MAX });
            }
            let since = maintained.map(|at| at.elapsed());
            if self.maintain && is_due(log_bytes(&self.dir), since) {
                maintained = Some(Instant::now());
                if let Err(error) = store.maintain(&mut |_, _| {}) {
                    tracing::warn!(%error, "the log stays as it is: it could not be moved into segments");
                }
            }
        }
    }
}

fn log_bytes(dir: &Path) -> u64 {
    std::fs::metadata(dir.join("log.db")).map_or(0, |log| log.len())
}

fn is_due(log_bytes: u64, since: Option<Duration>) -> bool {
    log_bytes >= LOG_BYTES_MIN && since.is_none_or(|since| since >= MAINTAIN_EVERY)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_log_is_moved_now_and_then() {
        assert!(is_due(LOG_BYTES_MIN, None) && is_due(1 << 30, Some(MAINTAIN_EVERY)));
        assert!(!is_due(LOG_BYTES_MIN - 1, None) && !is_due(1 << 30, Some(Duration::from_secs(1))));
    }
}

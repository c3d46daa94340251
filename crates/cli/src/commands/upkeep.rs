//! What a server does besides: it takes in what hooks tell of, and moves cold bytes into segments. Both with limits, on a
//! thread that lets requests go first, and only until the process ends.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use enjamb_core::ErrorKind;
use enjamb_service::{DrainBounds, Env, Store};

use super::import::of_hooks;

const PAUSE: Duration = Duration::from_secs(1);
/// Bytes of transcripts that are taken in at a time. What is beyond comes next.
const DRAINED_BYTES_MAX: u64 = 256 << 20;
/// Records are moved into segments when they have so many bytes and hardly grow, or when they have very many; and not more
/// often than this.
const HOT_BYTES_MIN: u64 = 64 << 20;
const HOT_BYTES_MAX: u64 = 4 << 30;
/// Between one look and the next.
const GROWTH_MAX: u64 = 16 << 20;
const MAINTAIN_EVERY: Duration = Duration::from_secs(10 * 60);
/// How often it is asked how many they are: a database has to look through them.
const LOOK_EVERY: Duration = Duration::from_secs(60);

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
        let (mut maintained, mut looked): (Option<Instant>, Option<Instant>) = (None, None);
        let mut before: Option<u64> = None;
        loop {
            std::thread::sleep(PAUSE);
            store = store.or_else(|| Store::open(&self.dir, Env::system()).ok());
            let Some(store) = &store else { continue };
            if self.drain {
                // What fails is tried again, and `status` shows it.
                let _ = store.drain(&of_hooks(), DrainBounds { bytes_max: DRAINED_BYTES_MAX });
            }
            let since = |at: Option<Instant>| at.map(|at| at.elapsed());
            if self.maintain && is_over(since(maintained), MAINTAIN_EVERY) && is_over(since(looked), LOOK_EVERY) {
                looked = Some(Instant::now());
                let Ok(hot) = store.hot_bytes() else { continue };
                if is_worth_it(hot, before.replace(hot).map(|before| hot.saturating_sub(before))) {
                    maintained = looked;
                    maintain(store);
                }
            }
        }
    }
}

fn maintain(store: &Store) {
    match store.maintain(&mut |_, _| {}) {
        Err(error) if error.kind() == ErrorKind::Busy => tracing::debug!(%error, "somebody else moves records"),
        Err(error) => tracing::warn!(%error, "records stay where they are: they could not be moved into segments"),
        Ok(_) => {}
    }
}

/// Whether it was long enough ago, if it was at all.
fn is_over(since: Option<Duration>, pause: Duration) -> bool {
    since.is_none_or(|since| since >= pause)
}

/// What is written now is not cold, and whoever writes it is not to share the processors with compression. The first look
/// cannot tell: a server that was started a second ago may have been given many records since.
fn is_worth_it(hot_bytes: u64, growth: Option<u64>) -> bool {
    let hardly_grows = growth.is_some_and(|growth| growth <= GROWTH_MAX);
    hot_bytes >= HOT_BYTES_MAX || (hot_bytes >= HOT_BYTES_MIN && hardly_grows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_never_done_is_due() {
        assert!(is_over(None, MAINTAIN_EVERY) && is_over(Some(MAINTAIN_EVERY), MAINTAIN_EVERY));
        assert!(!is_over(Some(Duration::from_secs(1)), MAINTAIN_EVERY));
    }

    #[test]
    fn many_records_are_moved_once_they_hardly_grow() {
        assert!(is_worth_it(HOT_BYTES_MIN, Some(0)) && !is_worth_it(HOT_BYTES_MIN - 1, Some(0)));
        assert!(!is_worth_it(1 << 30, Some(GROWTH_MAX + 1)), "they grow");
        assert!(!is_worth_it(1 << 30, None), "whether they grow is not known yet");
        assert!(is_worth_it(HOT_BYTES_MAX, Some(GROWTH_MAX + 1)), "they are too many to wait");
    }
}

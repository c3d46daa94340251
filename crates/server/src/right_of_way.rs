//! Appends go first: whoever tells thousands of followers works in short stretches, and rests while an append goes on.
//!
//! The lowest class of threads is not enough for that: threads of requests were seen to wait three milliseconds and more for
//! one, presumably because it is owed a little of the processor all the same and is paid in one go. While it sleeps,
//! whoever waits runs.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Work without a rest: some followers are told in it. Where many others want to run a rest becomes long by itself, and
/// what comes after it as well, or nobody would be told.
const STRETCH: Duration = Duration::from_micros(100);
const STRETCH_MAX: Duration = Duration::from_micros(500);
/// The shortest rest. A system makes it longer by as much again.
const REST: Duration = Duration::from_micros(50);
/// The longest, however many append: followers are to be told as well.
const REST_MAX: Duration = Duration::from_micros(500);

#[derive(Debug, Default)]
pub struct RightOfWay {
    appends: AtomicUsize,
    /// The last rest. Those who give way share a thread, so they share their rests.
    rested: Mutex<Option<Rest>>,
}

#[derive(Clone, Copy, Debug)]
struct Rest {
    ended: Instant,
    took: Duration,
    /// An append went on when it ended.
    is_due: bool,
}

impl Rest {
    /// How long may be worked after it.
    fn stretch(&self) -> Duration {
        (self.took / 4).clamp(STRETCH, STRETCH_MAX)
    }
}

/// An append that goes on for as long as this is held.
pub struct Passing<'w>(&'w RightOfWay);

impl Drop for Passing<'_> {
    fn drop(&mut self) {
        self.0.appends.fetch_sub(1, Ordering::Relaxed);
    }
}

impl RightOfWay {
    pub fn pass(&self) -> Passing<'_> {
        self.appends.fetch_add(1, Ordering::Relaxed);
        Passing(self)
    }

    /// Called between two pieces of work that can wait. Sleeps if it is time for that, and never for long.
    pub fn give_way(&self) {
        let mut last = self.rested.lock().unwrap_or_else(PoisonError::into_inner);
        let began = Instant::now();
        let goes_on = || self.appends.load(Ordering::Relaxed) > 0;
        if last.is_some_and(|last| began - last.ended < last.stretch() && (last.is_due || !goes_on())) {
            return;
        }
        std::thread::sleep(REST);
        while goes_on() && began.elapsed() < REST_MAX {
            std::thread::sleep(REST);
        }
        *last = Some(Rest { ended: Instant::now(), took: began.elapsed(), is_due: goes_on() });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_append_passes_until_it_is_done_and_nobody_waits_for_ever() {
        let way = RightOfWay::default();
        let (first, second) = (way.pass(), way.pass());
        drop(first);
        assert_eq!(way.appends.load(Ordering::Relaxed), 1);
        way.give_way();
        assert!(way.rested.lock().unwrap().unwrap().is_due, "it comes back though an append goes on");
        drop(second);
        assert_eq!(way.appends.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn after_a_long_rest_there_is_much_to_do() {
        let stretch = |took| Rest { ended: Instant::now(), took, is_due: false }.stretch();
        assert_eq!(stretch(REST), STRETCH);
        assert_eq!(stretch(Duration::from_millis(1)), Duration::from_micros(250));
        assert_eq!(stretch(Duration::from_secs(1)), STRETCH_MAX);
    }
}

//! Appends go first: whoever tells thousands of followers works in short stretches, and rests while an append goes on.
//!
//! The lowest class of threads is not enough for that. It is owed a little of the processor all the same, and a scheduler
//! pays such debts in one go: threads of requests were seen to wait four milliseconds for it. A thread that sleeps is owed
//! nothing, and whoever waits runs.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Work without a rest: some followers are told in it.
const STRETCH: Duration = Duration::from_micros(100);
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
    /// An append went on when it ended.
    is_due: bool,
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
        if last.is_some_and(|last| began - last.ended < STRETCH && (last.is_due || !goes_on())) {
            return;
        }
        std::thread::sleep(REST);
        while goes_on() && began.elapsed() < REST_MAX {
            std::thread::sleep(REST);
        }
        *last = Some(Rest { ended: Instant::now(), is_due: goes_on() });
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
}

//! What is run for the owner of a store: tasks, by a program that supervises them, and turns, against the provider that
//! the settings name.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

use enjamb_service::Config;

/// With what things are run.
#[derive(Clone, Debug)]
pub struct Runner {
    /// The program that supervises a task, and what it is given before the task is told to it.
    pub program: PathBuf,
    pub arguments: Vec<String>,
    /// Whom to ask, and which tools there are.
    pub config: Config,
}

/// Turns that go on in this process.
#[derive(Default)]
pub struct Turns {
    under_way: Mutex<BTreeMap<String, Arc<AtomicBool>>>,
    ended: Condvar,
}

impl Turns {
    pub fn began(&self, run: &str, cancel: &Arc<AtomicBool>) {
        self.lock().insert(run.to_owned(), Arc::clone(cancel));
    }

    pub fn ended(&self, run: &str) {
        self.lock().remove(run);
        self.ended.notify_all();
    }

    /// Calls a turn off. `false` for one that does not go on here.
    pub fn cancel(&self, run: &str) -> bool {
        self.lock().get(run).map(|cancel| cancel.store(true, Ordering::Relaxed)).is_some()
    }

    /// Calls all of them off, and waits until they are recorded. What takes longer is ended by the next command.
    pub fn end(&self, patience: Duration) {
        let under_way = self.lock();
        under_way.values().for_each(|cancel| cancel.store(true, Ordering::Relaxed));
        drop(self.ended.wait_timeout_while(under_way, patience, |under_way| !under_way.is_empty()));
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Arc<AtomicBool>>> {
        self.under_way.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_is_called_off_while_it_goes_on() {
        let (turns, cancel) = (Turns::default(), Arc::new(AtomicBool::new(false)));
        assert!(!turns.cancel("r"));
        turns.began("r", &cancel);
        assert!(turns.cancel("r") && cancel.load(Ordering::Relaxed));
        turns.ended("r");
        assert!(!turns.cancel("r"));
        turns.end(Duration::from_secs(60));
    }

    #[test]
    fn whoever_ends_waits_for_all() {
        let (turns, cancel) = (Turns::default(), Arc::new(AtomicBool::new(false)));
        turns.began("r", &cancel);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !cancel.load(Ordering::Relaxed) {
                    std::thread::yield_now();
                }
                turns.ended("r");
            });
            turns.end(Duration::from_secs(60));
        });
        assert!(!turns.cancel("r"));
    }
}

//! What one thread hands to another, up to so many bytes at a time: much of what is small, little of what is large.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// The end that hands over.
pub(super) struct Sender<T>(Arc<Shared<T>>);

/// The end that takes.
pub(super) struct Receiver<T>(Arc<Shared<T>>);

/// Nobody takes any more.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Gone;

struct Shared<T> {
    waiting: Mutex<Waiting<T>>,
    changed: Condvar,
    bytes_max: u64,
}

struct Waiting<T> {
    queue: VecDeque<(u64, T)>,
    bytes: u64,
    /// One of the ends is gone.
    is_over: bool,
}

/// Both ends. Something that has more than `bytes_max` by itself is handed over alone.
pub(super) fn bounded<T>(bytes_max: u64) -> (Sender<T>, Receiver<T>) {
    let waiting = Mutex::new(Waiting { queue: VecDeque::new(), bytes: 0, is_over: false });
    let shared = Arc::new(Shared { waiting, changed: Condvar::new(), bytes_max });
    (Sender(Arc::clone(&shared)), Receiver(shared))
}

impl<T> Shared<T> {
    fn waiting(&self) -> MutexGuard<'_, Waiting<T>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The state, once it is `ready` or an end is gone.
    fn when(&self, ready: impl Fn(&Waiting<T>) -> bool) -> MutexGuard<'_, Waiting<T>> {
        let not_yet = |waiting: &mut Waiting<T>| !waiting.is_over && !ready(waiting);
        self.changed.wait_while(self.waiting(), not_yet).unwrap_or_else(PoisonError::into_inner)
    }

    fn end(&self) {
        self.waiting().is_over = true;
        self.changed.notify_all();
    }
}

impl<T> Sender<T> {
    /// Hands over something of so many bytes, when there is room.
    pub(super) fn send(&self, bytes: u64, thing: T) -> Result<(), Gone> {
        let has_room = |waiting: &Waiting<T>| waiting.queue.is_empty() || waiting.bytes + bytes <= self.0.bytes_max;
        let mut waiting = self.0.when(has_room);
        if waiting.is_over {
            return Err(Gone);
        }
        waiting.bytes += bytes;
        waiting.queue.push_back((bytes, thing));
        self.0.changed.notify_all();
        Ok(())
    }
}

impl<T> Receiver<T> {
    /// What was handed over first, when there is something; none once all was taken and nothing follows.
    pub(super) fn recv(&self) -> Option<T> {
        let mut waiting = self.0.when(|waiting| !waiting.queue.is_empty());
        let (bytes, thing) = waiting.queue.pop_front()?;
        waiting.bytes -= bytes;
        self.0.changed.notify_all();
        Some(thing)
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        self.0.end();
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        self.0.end();
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn what_waits_is_never_more_than_the_bound_and_comes_in_order() {
        let (sender, receiver) = bounded(10);
        let sizes: Vec<u64> = (0..500).map(|n| n * 7 % 12).collect();
        let sent = sizes.clone();
        thread::scope(|scope| {
            scope.spawn(move || {
                for size in sent {
                    sender.send(size, size).unwrap();
                    // Something of eleven bytes waits alone.
                    let waiting = sender.0.waiting();
                    assert!(waiting.bytes <= 10 || waiting.queue.len() == 1, "{:?}", waiting.queue);
                }
            });
            for size in sizes {
                assert_eq!(receiver.recv(), Some(size));
            }
            assert_eq!(receiver.recv(), None);
        });
    }

    #[test]
    fn whoever_waits_for_room_learns_that_nobody_takes() {
        let (sender, receiver) = bounded(1);
        sender.send(1, ()).unwrap();
        thread::scope(|scope| {
            let waits = scope.spawn(|| sender.send(1, ()));
            drop(receiver);
            assert_eq!(waits.join().unwrap(), Err(Gone));
        });
    }
}

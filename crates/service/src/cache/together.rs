//! Work in pieces, done by two threads as each comes to it, its results taken in order.
//!
//! Who does which piece is not settled beforehand: a thread that the system lets wait would have the other wait as well.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

/// Results that each thread has ready before they are wanted. With few, what was read last is still in the processor's cache.
const AHEAD: usize = 2;

/// How many pieces there are, and how one is done, with the memory of an earlier result.
pub(super) struct Together<'w, T> {
    count: usize,
    work: &'w (dyn Fn(usize, T) -> T + Sync),
    /// The piece that is nobody's yet.
    next: AtomicUsize,
}

type Done<T> = (usize, T);

impl<'w, T: Default + Send> Together<'w, T> {
    pub(super) fn new(count: usize, work: &'w (dyn Fn(usize, T) -> T + Sync)) -> Self {
        Self { count, work, next: AtomicUsize::new(0) }
    }

    /// Takes each result in order, until one is not wanted.
    pub(super) fn run<E>(self, take: &mut dyn FnMut(&mut T) -> Result<(), E>) -> Result<(), E> {
        let (full, results) = sync_channel(AHEAD);
        let (empty, spent) = sync_channel(AHEAD + 1);
        thread::scope(|scope| {
            let together = &self;
            if self.count > 1 {
                scope.spawn(move || together.work_ahead(&full, &spent));
            }
            let own = Own { together, results, empty, done: VecDeque::new(), memory: Vec::new() };
            own.hand_out(take)
        })
    }

    fn claim(&self) -> Option<usize> {
        Some(self.next.fetch_add(1, Ordering::Relaxed)).filter(|at| *at < self.count)
    }

    /// Ends early when nobody listens any more: someone has met an error.
    fn work_ahead(&self, full: &SyncSender<Done<T>>, spent: &Receiver<T>) {
        while let Some(at) = self.claim() {
            let done = (self.work)(at, spent.try_recv().unwrap_or_default());
            if full.send((at, done)).is_err() {
                return;
            }
        }
    }
}

/// The thread that hands out what both do.
struct Own<'t, 'w, T> {
    together: &'t Together<'w, T>,
    results: Receiver<Done<T>>,
    empty: SyncSender<T>,
    /// What it did itself and is not wanted yet, in order.
    done: VecDeque<Done<T>>,
    memory: Vec<T>,
}

impl<T: Default + Send> Own<'_, '_, T> {
    fn hand_out<E>(mut self, take: &mut dyn FnMut(&mut T) -> Result<(), E>) -> Result<(), E> {
        let mut theirs: Option<Done<T>> = None;
        for wanted in 0..self.together.count {
            loop {
                if let Some(mut result) = self.own_result(wanted) {
                    take(&mut result)?;
                    self.memory.push(result);
                    break;
                }
                theirs = theirs.or_else(|| self.results.try_recv().ok());
                if let Some((_, mut result)) = theirs.take_if(|(at, _)| *at == wanted) {
                    take(&mut result)?;
                    // When there are enough of them, this one goes.
                    let _ = self.empty.try_send(result);
                    break;
                }
                // The other thread is at it: meanwhile something else is done, unless that is far ahead.
                if !self.do_another() {
                    // It ends before its last result only by a panic, which is passed on when it is joined.
                    theirs = Some(self.results.recv().expect("the other thread goes on to the end"));
                }
            }
        }
        Ok(())
    }

    fn own_result(&mut self, wanted: usize) -> Option<T> {
        let is_next = self.done.front().is_some_and(|(at, _)| *at == wanted);
        if is_next { self.done.pop_front().map(|(_, result)| result) } else { None }
    }

    fn do_another(&mut self) -> bool {
        if self.done.len() >= AHEAD {
            return false;
        }
        let Some(at) = self.together.claim() else { return false };
        let memory = self.memory.pop().unwrap_or_default();
        self.done.push_back((at, (self.together.work)(at, memory)));
        true
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::Mutex;
    use std::time::Duration;

    use super::*;

    /// Runs pieces of which some take long, and answers what came of them.
    fn done(count: usize, is_long: impl Fn(usize) -> bool + Sync) -> Vec<usize> {
        let begun = Mutex::new(vec![0; count]);
        let work = |at: usize, _: usize| {
            begun.lock().unwrap()[at] += 1;
            if is_long(at) {
                thread::sleep(Duration::from_millis(2));
            }
            at
        };
        let together = Together::new(count, &work);
        let mut taken = Vec::new();
        let mut take = |result: &mut usize| {
            taken.push(*result);
            Ok::<_, Infallible>(())
        };
        together.run(&mut take).unwrap();
        assert!(begun.lock().unwrap().iter().all(|times| *times == 1), "each piece is done once");
        taken
    }

    #[test]
    fn results_come_in_order_whoever_does_the_work() {
        for count in [0, 1, 2, 7, 200] {
            for every in [1, 2, 3, 17, 1_000] {
                assert_eq!(done(count, |at| at % every == 0), (0..count).collect::<Vec<_>>(), "{count} {every}");
            }
        }
    }

    #[test]
    fn who_wants_no_more_ends_it() {
        let together = Together::new(1_000, &|at, _| at);
        let mut take = |result: &mut usize| if *result == 9 { Err(*result) } else { Ok(()) };
        assert_eq!(together.run(&mut take), Err(9));
    }
}

//! Work in pieces, done by two threads in turns, its results taken in order.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

/// Results that are ready before someone wants them. With few, what was read last is still in the processor's cache.
const AHEAD: usize = 2;

/// Who does which piece, and how.
pub(crate) struct Turns<'w, S, T> {
    /// Pieces of work.
    pub(crate) count: usize,
    /// Whether a piece is for the other thread.
    pub(crate) is_theirs: &'w (dyn Fn(usize) -> bool + Sync),
    /// Does a piece, with what each thread has for itself and the memory of an earlier result.
    pub(crate) work: &'w (dyn Fn(&mut S, usize, T) -> T + Sync),
}

impl<S, T: Default + Send> Turns<'_, S, T> {
    /// Takes each result in order, until one is not wanted. What the other thread needs for itself it makes itself.
    pub(crate) fn run<E>(
        &self,
        mine: &mut S,
        theirs: impl FnOnce() -> S + Send,
        take: &mut dyn FnMut(usize, &mut T) -> Result<(), E>,
    ) -> Result<(), E> {
        let (full, results) = sync_channel(AHEAD);
        let (empty, spent) = sync_channel(AHEAD + 1);
        thread::scope(|scope| {
            if (0..self.count).any(self.is_theirs) {
                scope.spawn(move || self.work_ahead(&mut theirs(), &full, &spent));
            }
            // Taken in here, so that it is gone before the other is waited for, who may want to give it something.
            let results = results;
            self.hand_out(mine, &results, &empty, take)
        })
    }

    /// Ends early when nobody listens any more: someone has met an error.
    fn work_ahead(&self, state: &mut S, full: &SyncSender<T>, spent: &Receiver<T>) {
        for at in (0..self.count).filter(|at| (self.is_theirs)(*at)) {
            if full.send((self.work)(state, at, spent.try_recv().unwrap_or_default())).is_err() {
                return;
            }
        }
    }

    fn hand_out<E>(
        &self,
        state: &mut S,
        results: &Receiver<T>,
        empty: &SyncSender<T>,
        take: &mut dyn FnMut(usize, &mut T) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut own = T::default();
        for at in 0..self.count {
            if (self.is_theirs)(at) {
                // The other thread ends before its last result only by a panic, which is passed on when it is joined.
                let mut result = results.recv().expect("the other thread goes on to the end");
                take(at, &mut result)?;
                // When there are enough of them, this one goes.
                let _ = empty.try_send(result);
            } else {
                own = (self.work)(state, at, std::mem::take(&mut own));
                take(at, &mut own)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    #[test]
    fn results_come_in_order_whoever_does_the_work() {
        for (count, every) in [(0, 2), (1, 2), (7, 2), (100, 2), (100, 3), (100, 1), (100, 200)] {
            let turns = Turns {
                count,
                is_theirs: &|at| at % every == every - 1,
                work: &|state: &mut &str, at, mut memory: Vec<String>| {
                    memory.clear();
                    memory.push(format!("{state} {at}"));
                    if at % 17 == 3 {
                        thread::sleep(std::time::Duration::from_millis(2));
                    }
                    memory
                },
            };
            let mut taken = Vec::new();
            let mut take = |at: usize, result: &mut Vec<String>| {
                taken.push((at, result[0].clone()));
                Ok::<_, Infallible>(())
            };
            turns.run(&mut "mine", || "theirs", &mut take).unwrap();
            let whose = |at: usize| if at % every == every - 1 { "theirs" } else { "mine" };
            assert_eq!(taken, (0..count).map(|at| (at, format!("{} {at}", whose(at)))).collect::<Vec<_>>());
        }
    }

    #[test]
    fn who_wants_no_more_ends_it() {
        let turns = Turns { count: 1_000, is_theirs: &|at| at % 2 == 1, work: &|(): &mut (), at, _| at };
        let mut take = |at: usize, _: &mut usize| if at == 9 { Err(at) } else { Ok(()) };
        assert_eq!(turns.run(&mut (), || (), &mut take), Err(9));
    }
}

//! Group commit: whoever comes first writes for all who wait, with one sync.

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use crate::batch::{Appended, Batch};
use crate::error::LedgerError;

/// A group of so many batches is written without those who come meanwhile: its first have waited long enough.
const GROUP_BATCHES_MAX: usize = 256;
/// How long a group waits for one who was answered just now and may come back. A sync takes several times as long.
const PATIENCE: Duration = Duration::from_micros(50);

/// Batches waiting to be written, and whether someone is writing.
#[derive(Default)]
pub(crate) struct Group(Mutex<Queue>);

#[derive(Default)]
struct Queue {
    waiting: Vec<Arc<Ticket>>,
    leading: bool,
    /// Callers of the last group who have not come back yet, however many batches each had.
    expected: usize,
}

const WAITING: u8 = 0;
const LEAD: u8 = 1;
const DONE: u8 = 2;

/// One caller's batch on its way in, and its answer on the way out.
pub(crate) struct Ticket {
    thread: Thread,
    state: AtomicU8,
    batch: Mutex<Option<Batch>>,
    answer: Mutex<Option<Result<Appended, LedgerError>>>,
}

impl Ticket {
    fn new(batch: Batch) -> Arc<Self> {
        Arc::new(Self {
            thread: thread::current(),
            state: AtomicU8::new(WAITING),
            batch: Mutex::new(Some(batch)),
            answer: Mutex::new(None),
        })
    }

    pub(crate) fn take_batch(&self) -> Option<Batch> {
        lock(&self.batch).take()
    }

    pub(crate) fn answer(&self, answer: Result<Appended, LedgerError>) {
        *lock(&self.answer) = Some(answer);
    }

    pub(crate) fn is_answered(&self) -> bool {
        lock(&self.answer).is_some()
    }

    pub(crate) fn met_damaged_index(&self) -> bool {
        matches!(&*lock(&self.answer), Some(Err(LedgerError::Corrupt { what, .. })) if what == "the index")
    }

    /// Whether the same caller waits for both.
    fn is_of(&self, other: &Self) -> bool {
        self.thread.id() == other.thread.id()
    }

    fn wake(&self, state: u8) {
        self.state.store(state, Ordering::Release);
        self.thread.unpark();
    }

    /// Sleeps until there is an answer, or until this caller is to write.
    fn wait(&self) -> u8 {
        loop {
            match self.state.load(Ordering::Acquire) {
                WAITING => thread::park(),
                state => return state,
            }
        }
    }

    fn take_answer(&self) -> Result<Appended, LedgerError> {
        // A ticket without an answer means that its writer gave up half-way.
        lock(&self.answer).take().unwrap_or(Err(LedgerError::Poisoned))
    }
}

impl Group {
    /// Hands in a batch and returns its answer. `write` is called by one caller at a time, for all who wait.
    pub(crate) fn run(&self, batch: Batch, write: impl FnOnce(&mut Party<'_>)) -> Result<Appended, LedgerError> {
        self.run_all(vec![batch], write).pop().unwrap_or(Err(LedgerError::Poisoned))
    }

    /// Hands in those of several batches that are admitted, and returns for each its answer or why it was not.
    pub(crate) fn run_admitted(
        &self,
        batches: Vec<Batch>,
        admit: impl Fn(&Batch) -> Result<(), LedgerError>,
        write: impl FnOnce(&mut Party<'_>),
    ) -> Vec<Result<Appended, LedgerError>> {
        let mut good = Vec::with_capacity(batches.len());
        let admitted: Vec<_> = batches.into_iter().map(|batch| admit(&batch).map(|()| good.push(batch))).collect();
        let mut answers = self.run_all(good, write).into_iter();
        let mut answered = |()| answers.next().unwrap_or(Err(LedgerError::Poisoned));
        admitted.into_iter().map(|admitted| admitted.and_then(&mut answered)).collect()
    }

    /// Hands in batches of one caller, who waits for all of them, and returns their answers in order. They come
    /// together, so they are written together: when the first is answered, all are.
    fn run_all(&self, batches: Vec<Batch>, write: impl FnOnce(&mut Party<'_>)) -> Vec<Result<Appended, LedgerError>> {
        let tickets: Vec<_> = batches.into_iter().map(Ticket::new).collect();
        if let Some(first) = tickets.first()
            && (self.join(&tickets) || first.wait() == LEAD)
        {
            self.lead(first, tickets.len(), write);
        }
        tickets.into_iter().map(|ticket| ticket.take_answer()).collect()
    }

    /// Writes for all who wait, and tells them; `own` is the first ticket of this caller, who has so many.
    fn lead(&self, own: &Arc<Ticket>, own_len: usize, write: impl FnOnce(&mut Party<'_>)) {
        let mut party = Party { group: self, tickets: Vec::with_capacity(64), taken: 0 };
        party.grow();
        write(&mut party);
        self.hand_over(party.tickets.len() - own_len + 1);
        for other in party.tickets.iter().filter(|other| !other.is_of(own)) {
            other.wake(DONE);
        }
    }

    /// Joins those who wait, and says whether this caller is to write.
    fn join(&self, tickets: &[Arc<Ticket>]) -> bool {
        let mut queue = lock(&self.0);
        queue.waiting.extend(tickets.iter().cloned());
        queue.expected = queue.expected.saturating_sub(1);
        !std::mem::replace(&mut queue.leading, true)
    }

    /// The next writer starts before the others of this group are woken, so that the disk does not wait for them.
    fn hand_over(&self, answered: usize) {
        let mut queue = lock(&self.0);
        queue.expected = answered;
        match queue.waiting.first() {
            Some(next) => next.wake(LEAD),
            None => queue.leading = false,
        }
    }
}

/// Those who are written for. It grows while it is written: whoever comes before the sync need not wait for another.
pub(crate) struct Party<'g> {
    group: &'g Group,
    tickets: Vec<Arc<Ticket>>,
    taken: usize,
}

impl Party<'_> {
    /// The next to be written.
    pub(crate) fn next(&mut self) -> Option<Arc<Ticket>> {
        if self.taken == self.tickets.len() && self.taken < GROUP_BATCHES_MAX {
            self.grow();
        }
        let ticket = self.tickets.get(self.taken)?.clone();
        self.taken += 1;
        Some(ticket)
    }

    /// Takes in who waits. Callers who append one batch after the other come back in a row once they are answered;
    /// written without a little patience, they would make two groups that take turns, with twice as many syncs.
    fn grow(&mut self) {
        let began = Instant::now();
        loop {
            let mut queue = lock(&self.group.0);
            let came = !queue.waiting.is_empty();
            self.tickets.append(&mut queue.waiting);
            if came || queue.expected == 0 {
                return;
            }
            if began.elapsed() > PATIENCE {
                queue.expected = 0;
                return;
            }
            drop(queue);
            thread::yield_now();
        }
    }

    pub(crate) fn tickets(&self) -> &[Arc<Ticket>] {
        &self.tickets
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

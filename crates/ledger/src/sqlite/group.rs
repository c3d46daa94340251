//! Group commit: whoever comes first writes for all who wait, with one sync.

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, Thread};

use crate::batch::{Appended, Batch};
use crate::error::LedgerError;

/// Batches waiting to be written, and whether someone is writing.
#[derive(Default)]
pub(super) struct Group(Mutex<Queue>);

#[derive(Default)]
struct Queue {
    waiting: Vec<Arc<Ticket>>,
    leading: bool,
}

const WAITING: u8 = 0;
const LEAD: u8 = 1;
const DONE: u8 = 2;

/// One caller's batch on its way in, and its answer on the way out.
pub(super) struct Ticket {
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

    pub(super) fn take_batch(&self) -> Option<Batch> {
        lock(&self.batch).take()
    }

    pub(super) fn answer(&self, answer: Result<Appended, LedgerError>) {
        *lock(&self.answer) = Some(answer);
    }

    pub(super) fn is_answered(&self) -> bool {
        lock(&self.answer).is_some()
    }

    pub(super) fn met_damaged_index(&self) -> bool {
        matches!(&*lock(&self.answer), Some(Err(LedgerError::Corrupt { what, .. })) if what == "the index")
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
    /// Hands in a batch and returns its answer. `write` is called by one caller at a time, with all that waits.
    pub(super) fn run(&self, batch: Batch, write: impl FnOnce(&[Arc<Ticket>])) -> Result<Appended, LedgerError> {
        let ticket = Ticket::new(batch);
        let leads = self.join(ticket.clone());
        if !leads && ticket.wait() == DONE {
            return ticket.take_answer();
        }
        let tickets = std::mem::take(&mut lock(&self.0).waiting);
        write(&tickets);
        self.hand_over();
        for other in tickets.iter().filter(|other| !Arc::ptr_eq(other, &ticket)) {
            other.wake(DONE);
        }
        ticket.take_answer()
    }

    fn join(&self, ticket: Arc<Ticket>) -> bool {
        let mut queue = lock(&self.0);
        queue.waiting.push(ticket);
        !std::mem::replace(&mut queue.leading, true)
    }

    /// The next writer starts before the others of this group are woken, so that the disk does not wait for them.
    fn hand_over(&self) {
        let mut queue = lock(&self.0);
        match queue.waiting.first() {
            Some(next) => next.wake(LEAD),
            None => queue.leading = false,
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

//! Tells followers what was appended: one reader of the log for all of them.
//!
//! The hub reads each new frame once and hands it to everybody who listens, through a ring of fixed size. Whoever does not
//! keep up is told so, and reads the log by themselves. While nobody listens, nothing is read.
//!
//! A crowd has a ring of its own, which is filled by a thread that runs when nobody else wants to: waking thousands takes
//! longer than an append, and neither appends nor the first followers are to wait for it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use enjamb_ledger::Ledger;
use enjamb_service::Store;
use tokio::sync::broadcast;

use crate::lane::run_when_idle;
use crate::sse::{Filter, Live, Piece};

/// How long the hub sleeps when nobody of this process appends: other processes do not wake it.
const PAUSE: Duration = Duration::from_millis(20);
/// The least time between two looks, so that many small appends wake each follower once: so much for each follower,
/// since that is about what telling one of them costs, and at least and at most this.
const GATHER_EACH: Duration = Duration::from_micros(20);
const GATHER_MIN: Duration = Duration::from_millis(1);
const GATHER_MAX: Duration = Duration::from_millis(50);
/// Frames, and their bytes, that go to followers in one piece.
const BATCH_FRAMES_MAX: usize = 256;
const BATCH_BYTES_MAX: usize = 128 << 10;
/// Batches that a ring holds, and that wait to be handed to a crowd.
const RING: usize = 64;
const PASSING: usize = 4 * RING;
/// Filters for which a batch keeps what it is to them. The others make it for themselves: memory is bounded.
const SHARED_MAX: usize = 8;

/// Frames on their way to followers.
#[derive(Debug, Default)]
pub struct Batch {
    /// None where something was left out.
    frames: Vec<Live>,
    shared: Mutex<HashMap<Filter, Piece>>,
}

impl Batch {
    pub fn new(frames: Vec<Live>) -> Self {
        Self { frames, shared: Mutex::default() }
    }

    /// Whether it stands for batches that were left out: whoever meets it reads the log.
    pub fn is_gap(&self) -> bool {
        self.frames.is_empty()
    }

    fn bytes(&self) -> usize {
        self.frames.iter().map(|frame| frame.json.len()).sum()
    }

    /// What a follower is to be sent of it, who has everything before a place. It is made once for all who want the same.
    pub fn piece(&self, filter: &Filter, next: u64) -> Piece {
        let mut shared = self.shared.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let known = shared.get(filter).cloned();
        let piece = known.unwrap_or_else(|| {
            let piece = filter.cut(&self.frames, 0);
            if shared.len() < SHARED_MAX {
                shared.insert(filter.clone(), piece.clone());
            }
            piece
        });
        drop(shared);
        if piece.first.is_none_or(|first| first >= next) { piece } else { filter.cut(&self.frames, next) }
    }
}

#[derive(Clone)]
pub struct Hub(Arc<Inner>);

struct Inner {
    store: Arc<Store>,
    prompt: broadcast::Sender<Arc<Batch>>,
    crowd: broadcast::Sender<Arc<Batch>>,
    /// A batch could not be handed to the crowd.
    missed: AtomicBool,
    state: Mutex<State>,
    /// Rung by whoever appends. They share no lock with followers: a thread that is put aside while it holds one would
    /// make them wait.
    bell: SyncSender<()>,
    rung: Mutex<Receiver<()>>,
}

#[derive(Default)]
struct State {
    /// The last record that followers were told of.
    told: u64,
    running: bool,
    ended: bool,
}

impl Hub {
    pub fn new(store: Arc<Store>) -> Self {
        let ring = || broadcast::channel(RING).0;
        let (bell, rung) = sync_channel(1);
        let (prompt, crowd, missed) = (ring(), ring(), AtomicBool::new(false));
        let (state, rung) = (Mutex::default(), Mutex::new(rung));
        Self(Arc::new(Inner { store, prompt, crowd, missed, state, bell, rung }))
    }

    /// Listens to everything that is appended from now on. Blocks a little.
    pub fn listen(&self, is_crowded: bool) -> enjamb_service::Result<broadcast::Receiver<Arc<Batch>>> {
        let mut state = self.0.lock();
        let receiver = if is_crowded { self.0.crowd.subscribe() } else { self.0.prompt.subscribe() };
        if !state.running && !state.ended {
            state.told = self.0.store.ledger().position()?;
            state.running = true;
            let (pass, passed) = sync_channel(PASSING);
            let (inner, relay) = (self.0.clone(), self.0.clone());
            std::thread::spawn(move || inner.run(&pass));
            std::thread::spawn(move || relay.pass_on(&passed));
        }
        Ok(receiver)
    }

    /// Something was appended.
    pub fn wake(&self) {
        // An error says that it was rung already.
        let _ = self.0.bell.try_send(());
    }

    /// Sends followers away.
    pub fn end(&self) {
        self.0.lock().ended = true;
        self.wake();
    }

    pub fn followers(&self) -> usize {
        self.0.prompt.receiver_count() + self.0.crowd.receiver_count()
    }
}

impl Inner {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Tells followers until there are none.
    fn run(&self, pass: &SyncSender<Arc<Batch>>) {
        let rung = self.rung.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        while let Some(told) = self.next_look(&rung) {
            match self.tell(told, pass) {
                Ok(told) => self.lock().told = told,
                Err(error) => {
                    // Followers look at the log themselves when they reconnect, and see what is wrong with it.
                    tracing::error!(%error, "cannot read the log for followers");
                    std::thread::sleep(PAUSE);
                }
            }
            std::thread::sleep(gather(self.prompt.receiver_count()));
        }
    }

    /// Hands the crowd what has come meanwhile, until nothing can come any more.
    fn pass_on(&self, passed: &Receiver<Arc<Batch>>) {
        run_when_idle();
        while let Ok(first) = passed.recv() {
            // An error says that there is no crowd.
            if self.missed.swap(false, Ordering::Relaxed) {
                let _ = self.crowd.send(Arc::new(Batch::default()));
            }
            for batch in joined(std::iter::once(first).chain(passed.try_iter())) {
                let _ = self.crowd.send(batch);
            }
            std::thread::sleep(gather(self.crowd.receiver_count()));
        }
    }

    /// Waits until there may be something new. `None` when nobody listens any more.
    fn next_look(&self, rung: &Receiver<()>) -> Option<u64> {
        match rung.recv_timeout(PAUSE) {
            // Whoever has the bell is this hub itself.
            Ok(()) | Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {}
        }
        let mut state = self.lock();
        if state.ended || (self.prompt.receiver_count() == 0 && self.crowd.receiver_count() == 0) {
            state.running = false;
            return None;
        }
        Some(state.told)
    }

    /// Tells followers of every frame after a record, and returns the last one told.
    fn tell(&self, mut told: u64, pass: &SyncSender<Arc<Batch>>) -> enjamb_service::Result<u64> {
        let ledger = self.store.ledger();
        let end = ledger.position()?;
        while told < end {
            let mut batch = Vec::new();
            let mut bytes = 0;
            ledger.each_frame(told + 1, &mut |number, frame| {
                bytes += frame.json.len();
                batch.push(Live::of(number, frame));
                Ok(batch.len() < BATCH_FRAMES_MAX && bytes < BATCH_BYTES_MAX)
            })?;
            told = if batch.len() < BATCH_FRAMES_MAX && bytes < BATCH_BYTES_MAX { end } else { told };
            let Some(last) = batch.last() else { return Ok(end) };
            // Records after `end` may have come in the meantime; those told are not told again.
            told = told.max(last.number);
            let batch = Arc::new(Batch::new(batch));
            if pass.try_send(batch.clone()).is_err() {
                // Enough others wait to be handed on that this is seen after them.
                self.missed.store(true, Ordering::Relaxed);
            }
            // An error says that nobody listens, which is found out at the next look.
            let _ = self.prompt.send(batch);
        }
        Ok(told)
    }
}

/// As few batches as their bounds allow: a crowd is woken once for each.
fn joined(all: impl IntoIterator<Item = Arc<Batch>>) -> Vec<Arc<Batch>> {
    let mut joined: Vec<Arc<Batch>> = Vec::new();
    for batch in all {
        let fits = |last: &&mut Arc<Batch>| {
            last.frames.len() + batch.frames.len() <= BATCH_FRAMES_MAX
                && last.bytes() + batch.bytes() <= BATCH_BYTES_MAX
        };
        match joined.last_mut().filter(fits) {
            Some(last) => *last = Arc::new(Batch::new([last.frames.as_slice(), &batch.frames].concat())),
            None => joined.push(batch),
        }
    }
    joined
}

fn gather(followers: usize) -> Duration {
    GATHER_EACH.saturating_mul(followers.try_into().unwrap_or(u32::MAX)).clamp(GATHER_MIN, GATHER_MAX)
}

#[cfg(test)]
mod tests {
    use axum::body::Bytes;

    use super::*;

    fn batch(numbers: std::ops::Range<u64>, bytes: usize) -> Arc<Batch> {
        let live = |number| Live {
            number,
            stream: "note/a".parse().unwrap(),
            seq: number,
            kind: "said".into(),
            json: Bytes::from(vec![b'x'; bytes]),
        };
        Arc::new(Batch::new(numbers.map(live).collect()))
    }

    #[test]
    fn batches_are_joined_in_order_and_within_their_bounds() {
        let told = |all: Vec<Arc<Batch>>| -> Vec<Vec<u64>> {
            joined(all).iter().map(|batch| batch.frames.iter().map(|frame| frame.number).collect()).collect()
        };
        assert_eq!(told(vec![batch(1..3, 1), batch(3..4, 1), batch(4..6, 1)]), [vec![1, 2, 3, 4, 5]]);
        let large = BATCH_BYTES_MAX / 2 + 1;
        assert_eq!(told(vec![batch(1..2, large), batch(2..3, large), batch(3..4, 1)]), [vec![1], vec![2, 3]]);
        let many = BATCH_FRAMES_MAX as u64;
        assert_eq!(told(vec![batch(0..many, 0), batch(many..many + 1, 0)]).len(), 2);
        assert!(joined([]).is_empty() && Batch::default().is_gap() && !batch(0..1, 0).is_gap());
    }
}

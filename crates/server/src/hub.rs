//! Tells followers what was appended: one reader of the log for all of them.
//!
//! The hub reads each new frame once and hands it to everybody who listens, through a ring of fixed size. Whoever does not
//! keep up is told so, and reads the log by themselves. While nobody listens, nothing is read.

use std::collections::HashMap;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use enjamb_ledger::Ledger;
use enjamb_service::Store;
use tokio::sync::broadcast;

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
/// Batches that the ring holds.
const RING: usize = 64;
/// Filters for which a batch keeps what it is to them. The others make it for themselves: memory is bounded.
const SHARED_MAX: usize = 8;

/// Frames on their way to followers.
#[derive(Debug, Default)]
pub struct Batch {
    frames: Vec<Live>,
    shared: Mutex<HashMap<Filter, Piece>>,
}

impl Batch {
    pub fn new(frames: Vec<Live>) -> Self {
        Self { frames, shared: Mutex::default() }
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
    sender: broadcast::Sender<Arc<Batch>>,
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
        let (sender, _) = broadcast::channel(RING);
        let (bell, rung) = sync_channel(1);
        Self(Arc::new(Inner { store, sender, state: Mutex::default(), bell, rung: Mutex::new(rung) }))
    }

    /// Listens to everything that is appended from now on. Blocks a little.
    pub fn listen(&self) -> enjamb_service::Result<broadcast::Receiver<Arc<Batch>>> {
        let mut state = self.0.lock();
        let receiver = self.0.sender.subscribe();
        if !state.running && !state.ended {
            state.told = self.0.store.ledger().position()?;
            state.running = true;
            let inner = self.0.clone();
            std::thread::spawn(move || inner.run());
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
        self.0.sender.receiver_count()
    }
}

impl Inner {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Tells followers until there are none.
    fn run(&self) {
        let rung = self.rung.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        while let Some(told) = self.next_look(&rung) {
            match self.tell(told) {
                Ok(told) => self.lock().told = told,
                Err(error) => {
                    // Followers look at the log themselves when they reconnect, and see what is wrong with it.
                    tracing::error!(%error, "cannot read the log for followers");
                    std::thread::sleep(PAUSE);
                }
            }
            std::thread::sleep(gather(self.sender.receiver_count()));
        }
    }

    /// Waits until there may be something new. `None` when nobody listens any more.
    fn next_look(&self, rung: &Receiver<()>) -> Option<u64> {
        match rung.recv_timeout(PAUSE) {
            // Whoever has the bell is this hub itself.
            Ok(()) | Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {}
        }
        let mut state = self.lock();
        if state.ended || self.sender.receiver_count() == 0 {
            state.running = false;
            return None;
        }
        Some(state.told)
    }

    /// Tells followers of every frame after a record, and returns the last one told.
    fn tell(&self, mut told: u64) -> enjamb_service::Result<u64> {
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
            // An error says that nobody listens, which is found out at the next look.
            let _ = self.sender.send(Arc::new(Batch::new(batch)));
        }
        Ok(told)
    }
}

fn gather(followers: usize) -> Duration {
    GATHER_EACH.saturating_mul(followers.try_into().unwrap_or(u32::MAX)).clamp(GATHER_MIN, GATHER_MAX)
}

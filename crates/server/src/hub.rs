//! Tells followers what was appended: one reader of the log for all of them.
//!
//! The hub reads each new frame once and hands it to everybody who listens, through a ring of fixed size. Whoever does not
//! keep up is told so, and reads the log by themselves. While nobody listens, nothing is read.

use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

use axum::body::Bytes;
use enjamb_core::{RawFrame, StreamId};
use enjamb_ledger::{FrameRecord, Ledger};
use enjamb_service::Store;
use tokio::sync::broadcast;

use crate::sse;

/// How long the hub sleeps when nobody of this process appends: other processes do not wake it.
const PAUSE: Duration = Duration::from_millis(20);
/// The least time between two looks, so that many small appends wake each follower once.
const GATHER: Duration = Duration::from_millis(1);
/// Frames, and their bytes, that go to followers in one piece.
const BATCH_FRAMES_MAX: usize = 256;
const BATCH_BYTES_MAX: usize = 128 << 10;
/// Pieces that the ring holds.
const RING: usize = 64;

/// A frame on its way to followers.
#[derive(Clone, Debug)]
pub struct Live {
    /// The number of its record in the log.
    pub number: u64,
    pub stream: StreamId,
    pub seq: u64,
    pub kind: String,
    pub json: Bytes,
    /// The event that followers of its stream are sent.
    pub event: Bytes,
}

impl Live {
    pub fn of(number: u64, frame: &FrameRecord) -> Self {
        let kind = RawFrame::parse(frame.json.clone()).map(|raw| raw.type_name().to_owned()).unwrap_or_default();
        let event = Bytes::from(sse::event(&frame.seq.to_string(), &kind, &frame.json));
        let json = Bytes::copy_from_slice(&frame.json);
        Self { number, stream: frame.stream.clone(), seq: frame.seq, kind, json, event }
    }
}

pub type Batch = Arc<Vec<Live>>;

#[derive(Clone)]
pub struct Hub(Arc<Inner>);

struct Inner {
    store: Arc<Store>,
    sender: broadcast::Sender<Batch>,
    state: Mutex<State>,
    woken: Condvar,
}

#[derive(Default)]
struct State {
    /// The last record that followers were told of.
    told: u64,
    running: bool,
    awake: bool,
    ended: bool,
}

impl Hub {
    pub fn new(store: Arc<Store>) -> Self {
        let (sender, _) = broadcast::channel(RING);
        Self(Arc::new(Inner { store, sender, state: Mutex::default(), woken: Condvar::new() }))
    }

    /// Listens to everything that is appended from now on. Blocks a little.
    pub fn listen(&self) -> enjamb_service::Result<broadcast::Receiver<Batch>> {
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
        let mut state = self.0.lock();
        if state.running && !state.awake {
            state.awake = true;
            self.0.woken.notify_one();
        }
    }

    /// Sends followers away.
    pub fn end(&self) {
        self.0.lock().ended = true;
        self.0.woken.notify_one();
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
        while let Some(told) = self.next_look() {
            match self.tell(told) {
                Ok(told) => self.lock().told = told,
                Err(error) => {
                    // Followers look at the log themselves when they reconnect, and see what is wrong with it.
                    tracing::error!(%error, "cannot read the log for followers");
                    std::thread::sleep(PAUSE);
                }
            }
            std::thread::sleep(GATHER);
        }
    }

    /// Waits until there may be something new. `None` when nobody listens any more.
    fn next_look(&self) -> Option<u64> {
        let mut state = self.lock();
        if !state.awake && !state.ended {
            state = self.woken.wait_timeout(state, PAUSE).unwrap_or_else(|poisoned| poisoned.into_inner()).0;
        }
        state.awake = false;
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
            let _ = self.sender.send(Arc::new(batch));
        }
        Ok(told)
    }
}

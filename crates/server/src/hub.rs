//! Tells followers what was appended: one reader of the log for all of them.
//!
//! The hub reads each new frame once and hands it to everybody who listens, through a ring of fixed size. Whoever does not
//! keep up is told so, and reads the log by themselves. While nobody listens, nothing is read.
//!
//! A crowd has rings of its own, which are filled one after the other by a thread that runs when nobody else wants to:
//! waking thousands takes longer than an append, and neither appends nor the first followers are to wait for it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

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
/// The same for one of a crowd, whose telling is to take a part of the time only; it is cut short, at one of these looks,
/// when as much has come as they can be told at once.
const CROWD_GATHER_EACH: Duration = Duration::from_micros(100);
const CROWD_GATHER_MAX: Duration = Duration::from_millis(200);
const CROWD_LOOK: Duration = Duration::from_millis(25);
/// Rings of a crowd, and the rest from one to the next: who is woken by one is woken in one go.
const CROWD_RINGS: usize = 16;
const CROWD_REST: Duration = Duration::from_micros(50);
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

/// Hands batches to whoever tells the crowd, and never waits for it.
struct Pass {
    queue: SyncSender<Arc<Batch>>,
    missed: Arc<AtomicBool>,
}

/// The other end.
struct Passed {
    queue: Receiver<Arc<Batch>>,
    /// A batch found no room.
    missed: Arc<AtomicBool>,
}

fn pass() -> (Pass, Passed) {
    let (sender, queue) = sync_channel(PASSING);
    let missed = Arc::new(AtomicBool::new(false));
    (Pass { queue: sender, missed: missed.clone() }, Passed { queue, missed })
}

impl Pass {
    fn hand(&self, batch: Arc<Batch>) {
        if self.queue.try_send(batch).is_err() {
            // Whoever takes a batch that is handed on after this one sees it.
            self.missed.store(true, Ordering::Relaxed);
        }
    }
}

#[derive(Clone)]
pub struct Hub(Arc<Inner>);

struct Inner {
    store: Arc<Store>,
    prompt: broadcast::Sender<Arc<Batch>>,
    crowd: Vec<broadcast::Sender<Arc<Batch>>>,
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
        let crowd = std::iter::repeat_with(ring).take(CROWD_RINGS).collect();
        let (prompt, state, rung) = (ring(), Mutex::default(), Mutex::new(rung));
        Self(Arc::new(Inner { store, prompt, crowd, state, bell, rung }))
    }

    /// Listens to everything that is appended from now on. Blocks a little.
    pub fn listen(&self, is_crowded: bool) -> enjamb_service::Result<broadcast::Receiver<Arc<Batch>>> {
        let mut state = self.0.lock();
        let emptiest = || self.0.crowd.iter().min_by_key(|ring| ring.receiver_count());
        let ring = if is_crowded { emptiest() } else { None };
        let receiver = ring.unwrap_or(&self.0.prompt).subscribe();
        if !state.running && !state.ended {
            state.told = self.0.store.ledger().position()?;
            state.running = true;
            let (pass, passed) = pass();
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
        self.0.prompt.receiver_count() + self.0.crowd_len()
    }
}

impl Inner {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Tells followers until there are none.
    fn run(&self, pass: &Pass) {
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
    fn pass_on(&self, passed: &Passed) {
        run_when_idle();
        let mut came: Vec<_> = passed.queue.recv().into_iter().collect();
        while !came.is_empty() {
            self.tell_crowd(came, &passed.missed);
            came = self.gathered(&passed.queue);
            if came.is_empty() {
                came.extend(passed.queue.recv());
            }
        }
    }

    /// What comes in the time for which a crowd is left alone.
    fn gathered(&self, passed: &Receiver<Arc<Batch>>) -> Vec<Arc<Batch>> {
        let until = Instant::now() + gather_crowd(self.crowd_len());
        let (mut came, mut bytes) = (Vec::new(), 0);
        while let left = until.saturating_duration_since(Instant::now())
            && !left.is_zero()
            && bytes < BATCH_BYTES_MAX
        {
            std::thread::sleep(left.min(CROWD_LOOK));
            for batch in passed.try_iter() {
                bytes += batch.bytes();
                came.push(batch);
            }
        }
        came
    }

    /// Hands batches to every ring of the crowd. If one could not be handed on, it may have its place before any of these:
    /// then all of them are to be read from the log.
    fn tell_crowd(&self, came: Vec<Arc<Batch>>, missed: &AtomicBool) {
        let is_short = missed.swap(false, Ordering::Relaxed);
        let batches = if is_short { vec![Arc::new(Batch::default())] } else { joined(came) };
        for ring in self.crowd.iter().filter(|ring| ring.receiver_count() > 0) {
            for batch in &batches {
                // An error says that they are gone.
                let _ = ring.send(batch.clone());
            }
            std::thread::sleep(CROWD_REST);
        }
    }

    fn crowd_len(&self) -> usize {
        self.crowd.iter().map(broadcast::Sender::receiver_count).sum()
    }

    /// Waits until there may be something new. `None` when nobody listens any more.
    fn next_look(&self, rung: &Receiver<()>) -> Option<u64> {
        match rung.recv_timeout(PAUSE) {
            // Whoever has the bell is this hub itself.
            Ok(()) | Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {}
        }
        let mut state = self.lock();
        if state.ended || (self.prompt.receiver_count() == 0 && self.crowd_len() == 0) {
            state.running = false;
            return None;
        }
        Some(state.told)
    }

    /// Tells followers of every frame after a record, and returns the last one told.
    fn tell(&self, mut told: u64, pass: &Pass) -> enjamb_service::Result<u64> {
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
            pass.hand(batch.clone());
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

fn gather_crowd(followers: usize) -> Duration {
    CROWD_GATHER_EACH.saturating_mul(followers.try_into().unwrap_or(u32::MAX)).clamp(GATHER_MIN, CROWD_GATHER_MAX)
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
    fn a_crowd_is_told_everything_or_that_something_is_missing() {
        let home = enjamb_testkit::home::Home::new();
        let store = Store::create(&home.store(), enjamb_service::Env::system()).unwrap();
        let hub = Hub::new(Arc::new(store));
        let mut crowd: Vec<_> = (0..2 * CROWD_RINGS).map(|_| hub.listen(true).unwrap()).collect();
        assert_eq!(hub.followers(), crowd.len());
        let mut told = |expected: &[u64]| {
            for receiver in &mut crowd {
                let batch = receiver.try_recv().unwrap();
                assert_eq!(batch.frames.iter().map(|frame| frame.number).collect::<Vec<_>>(), expected);
                assert!(receiver.try_recv().is_err());
            }
        };
        let (pass, passed) = pass();
        let hand_on = || hub.0.tell_crowd(passed.queue.try_iter().collect(), &passed.missed);
        pass.hand(batch(1..3, 1));
        pass.hand(batch(3..4, 1));
        hand_on();
        told(&[1, 2, 3]);
        (0..=PASSING as u64).for_each(|number| pass.hand(batch(number..number + 1, 1)));
        hand_on();
        told(&[]);
        pass.hand(batch(6..7, 1));
        hand_on();
        told(&[6]);
        hub.end();
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

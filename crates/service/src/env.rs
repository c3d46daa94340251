//! The clock and the source of ids: the two things an operation asks the world for.

use std::cell::RefCell;
use std::fmt;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use enjamb_core::Timestamp;

/// Where an operation gets the time and fresh ids from.
#[derive(Clone)]
pub struct Env {
    now: Arc<dyn Fn() -> Timestamp + Send + Sync>,
    new_id: Arc<dyn Fn() -> String + Send + Sync>,
}

impl Env {
    /// The machine's clock, and random ids.
    pub fn system() -> Self {
        Self::with(system_time, || uuid::Builder::from_random_bytes(random()).into_uuid().to_string())
    }

    pub fn with(
        now: impl Fn() -> Timestamp + Send + Sync + 'static,
        new_id: impl Fn() -> String + Send + Sync + 'static,
    ) -> Self {
        Self { now: Arc::new(now), new_id: Arc::new(new_id) }
    }

    pub fn now(&self) -> Timestamp {
        (self.now)()
    }

    pub fn new_id(&self) -> String {
        (self.new_id)()
    }
}

impl fmt::Debug for Env {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Env")
    }
}

/// Random bytes of the system's, fetched for many ids at a time: asking takes longer than making one.
fn random() -> [u8; 16] {
    const MANY: usize = 64;
    thread_local! {
        static FETCHED: RefCell<Vec<[u8; 16]>> = const { RefCell::new(Vec::new()) };
    }
    FETCHED.with_borrow_mut(|fetched| {
        if fetched.is_empty() {
            let mut bytes = [0; 16 * MANY];
            getrandom::fill(&mut bytes).expect("the system has random bytes");
            fetched.extend(bytes.as_chunks().0);
        }
        fetched.pop().expect("they were fetched")
    })
}

fn system_time() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_micros(since.as_micros() as i64)
}

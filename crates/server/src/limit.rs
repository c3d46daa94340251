//! How much one token may ask for at a time.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Bounds for the holder of a token. The owner of the store has none.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Requests a second, over some time.
    pub rate: f64,
    /// Requests at once.
    pub burst: f64,
    pub followers_max: usize,
    pub uploads_max: usize,
    /// Bytes of frames and artifacts that a namespace holds, and streams: whoever has more writes nothing new.
    pub namespace_bytes_max: Option<u64>,
    pub namespace_streams_max: Option<u64>,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            rate: 500.0,
            burst: 1_000.0,
            followers_max: 64,
            uploads_max: 8,
            namespace_bytes_max: None,
            namespace_streams_max: None,
        }
    }
}

/// A bucket that fills by itself and from which each request takes one.
#[derive(Clone, Copy, Debug)]
struct Bucket {
    left: f64,
    at: Duration,
}

impl Bucket {
    fn take(&mut self, bounds: &Bounds, now: Duration) -> bool {
        let since = now.saturating_sub(self.at).as_secs_f64();
        self.left = (self.left + since * bounds.rate).min(bounds.burst);
        self.at = now;
        let is_there = self.left >= 1.0;
        self.left -= f64::from(u8::from(is_there));
        is_there
    }
}

/// What a token has going on.
#[derive(Debug)]
struct Usage {
    bucket: Bucket,
    followers: Arc<()>,
    uploads: Arc<()>,
}

pub struct Limiter {
    bounds: Bounds,
    began: Instant,
    by_token: Mutex<HashMap<String, Usage>>,
}

/// What a slot is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slot {
    Follower,
    Upload,
}

/// Held for as long as something goes on.
#[derive(Debug)]
pub struct Held(#[allow(dead_code, reason = "it is counted, not read")] Arc<()>);

impl Limiter {
    pub fn new(bounds: Bounds) -> Self {
        Self { bounds, began: Instant::now(), by_token: Mutex::default() }
    }

    pub fn bounds(&self) -> &Bounds {
        &self.bounds
    }

    /// Whether one more request may come.
    pub fn admit(&self, token: &str) -> bool {
        let now = self.began.elapsed();
        self.usage(token, now, |usage| usage.bucket.take(&self.bounds, now))
    }

    /// A slot for something that goes on for long, if there is one.
    pub fn hold(&self, token: &str, slot: Slot) -> Option<Held> {
        self.usage(token, self.began.elapsed(), |usage| {
            let (held, most) = match slot {
                Slot::Follower => (&usage.followers, self.bounds.followers_max),
                Slot::Upload => (&usage.uploads, self.bounds.uploads_max),
            };
            (Arc::strong_count(held) <= most).then(|| Held(held.clone()))
        })
    }

    fn usage<T>(&self, token: &str, now: Duration, use_it: impl FnOnce(&mut Usage) -> T) -> T {
        let mut all = self.by_token.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let fresh = || Usage {
            bucket: Bucket { left: self.bounds.burst, at: now },
            followers: Arc::default(),
            uploads: Arc::default(),
        };
        use_it(all.entry(token.to_owned()).or_insert_with(fresh))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_gives_its_burst_and_then_its_rate() {
        let bounds = Bounds { rate: 2.0, burst: 3.0, ..Bounds::default() };
        let mut bucket = Bucket { left: 3.0, at: Duration::ZERO };
        let mut taken = |ms| bucket.take(&bounds, Duration::from_millis(ms));
        assert_eq!([taken(0), taken(0), taken(0), taken(0)], [true, true, true, false]);
        assert_eq!([taken(499), taken(500), taken(600), taken(1000)], [false, true, false, true]);
    }

    #[test]
    fn slots_come_back() {
        let limiter = Limiter::new(Bounds { uploads_max: 1, ..Bounds::default() });
        let held = limiter.hold("a", Slot::Upload);
        assert!(held.is_some() && limiter.hold("a", Slot::Upload).is_none());
        assert!(limiter.hold("b", Slot::Upload).is_some() && limiter.hold("a", Slot::Follower).is_some());
        drop(held);
        assert!(limiter.hold("a", Slot::Upload).is_some());
    }
}

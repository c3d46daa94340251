//! Answers to writes, remembered by the key that came with the request: a retry gets the first answer again.
//!
//! This holds for a day, as long as the server runs. What is appended carries the key in the log (`Route::keeps_key`,
//! `Route::carries_key`), so that after a restart nothing is done twice either.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use crate::call::{Reply, ReplyBody};
use crate::problem::{Problem, Result};

const KEPT_FOR: Duration = Duration::from_secs(24 * 60 * 60);
/// Keys, and bytes of answers, that are remembered. The oldest make way.
const KEYS_MAX: usize = 20_000;
const BYTES_MAX: usize = 32 << 20;
const KEY_BYTES_MAX: usize = 128;

/// What an answer was made for: equal requests have equal ones.
pub type Fingerprint = blake3::Hash;

#[derive(Clone, Debug, PartialEq, Eq)]
struct Answer {
    status: u16,
    headers: Vec<(&'static str, String)>,
    json: String,
}

struct Kept {
    fingerprint: Fingerprint,
    since: Instant,
    /// `None` while the first request goes on.
    answer: Option<Answer>,
}

#[derive(Default)]
struct Known {
    by_key: HashMap<String, Kept>,
    oldest_first: VecDeque<String>,
    bytes: usize,
}

#[derive(Clone, Default)]
pub struct Keys(Arc<Mutex<Known>>);

/// What a key says about a request.
pub enum Claimed {
    /// It has been answered so.
    Before(Reply),
    /// It is the first; what comes of it is to be told.
    Now(Claim),
}

/// A request that goes on under a key. One that ends without an answer may be tried again.
pub struct Claim {
    keys: Keys,
    key: String,
}

impl Keys {
    /// Claims a key of some caller for a request.
    pub fn claim(&self, caller: &str, key: &str, fingerprint: Fingerprint) -> Result<Claimed> {
        check(key)?;
        let key = format!("{caller}\n{key}");
        let mut known = self.lock();
        known.forget_old();
        match known.by_key.get(&key) {
            None => {
                known.by_key.insert(key.clone(), Kept { fingerprint, since: Instant::now(), answer: None });
                known.oldest_first.push_back(key.clone());
                Ok(Claimed::Now(Claim { keys: self.clone(), key }))
            }
            Some(kept) if kept.fingerprint != fingerprint => {
                let title = "this Idempotency-Key was used for another request";
                Err(Problem::new(422, "idempotency-key-reused", title).help("a new request needs a new key"))
            }
            Some(Kept { answer: None, .. }) => {
                let title = "the first request with this Idempotency-Key is still going on";
                Err(Problem::new(409, "idempotency-in-progress", title).header("retry-after", "1"))
            }
            Some(Kept { answer: Some(answer), .. }) => Ok(Claimed::Before(answer.again())),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// Whether a text can be a key; the log asks the same of its own.
fn check(key: &str) -> Result<()> {
    if (1..=KEY_BYTES_MAX).contains(&key.len()) && key.bytes().all(|byte| (0x21..0x7f).contains(&byte)) {
        return Ok(());
    }
    let title = format!("an Idempotency-Key has 1 to {KEY_BYTES_MAX} characters, all of them ASCII that can be seen");
    Err(Problem::new(422, "bad-idempotency-key", title))
}

impl Known {
    fn forget_old(&mut self) {
        while let Some(oldest) = self.oldest_first.front() {
            let is_full = self.oldest_first.len() >= KEYS_MAX || self.bytes > BYTES_MAX;
            let is_over = self.by_key.get(oldest).is_none_or(|kept| is_full || kept.since.elapsed() > KEPT_FOR);
            if !is_over {
                return;
            }
            let gone = self.oldest_first.pop_front().and_then(|key| self.by_key.remove(&key));
            self.bytes -= gone.and_then(|kept| kept.answer).map_or(0, |answer| answer.json.len());
        }
    }
}

impl Claim {
    /// Remembers an answer, if it is one that can be given again.
    pub fn answered(self, reply: &Reply) {
        let ReplyBody::Json(json) = &reply.body else { return };
        let answer = Answer { status: reply.status, headers: reply.headers.clone(), json: json.clone() };
        let mut known = self.keys.lock();
        known.bytes += json.len();
        if let Some(kept) = known.by_key.get_mut(&self.key) {
            kept.answer = Some(answer);
        }
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        let mut known = self.keys.lock();
        if known.by_key.get(&self.key).is_some_and(|kept| kept.answer.is_none()) {
            known.by_key.remove(&self.key);
            known.oldest_first.retain(|key| *key != self.key);
        }
    }
}

impl Answer {
    fn again(&self) -> Reply {
        let reply =
            Reply { status: self.status, headers: self.headers.clone(), body: ReplyBody::Json(self.json.clone()) };
        reply.header("idempotency-replayed", "true")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(keys: &Keys, key: &str, what: &[u8]) -> std::result::Result<Claimed, &'static str> {
        keys.claim("bot", key, blake3::hash(what)).map_err(|problem| problem.code)
    }

    #[test]
    fn the_first_answer_is_given_again_to_the_same_request_alone() {
        let keys = Keys::default();
        let Ok(Claimed::Now(first)) = claim(&keys, "k", b"a") else { panic!("it is new") };
        assert_eq!(claim(&keys, "k", b"a").err(), Some("idempotency-in-progress"));
        first.answered(&Reply::json(201, &1));
        let Ok(Claimed::Before(reply)) = claim(&keys, "k", b"a") else { panic!("it was answered") };
        assert_eq!((reply.status, reply.headers.len()), (201, 1));
        assert_eq!(claim(&keys, "k", b"b").err(), Some("idempotency-key-reused"));
        assert!(
            matches!(keys.claim("other", "k", blake3::hash(b"b")), Ok(Claimed::Now(_))),
            "keys are the caller's own"
        );
    }

    #[test]
    fn what_failed_may_be_tried_again() {
        let keys = Keys::default();
        drop(claim(&keys, "k", b"a"));
        assert!(matches!(claim(&keys, "k", b"other"), Ok(Claimed::Now(_))));
    }

    #[test]
    fn the_oldest_make_way() {
        let keys = Keys::default();
        for number in 0..KEYS_MAX + 5 {
            if let Ok(Claimed::Now(claim)) = claim(&keys, &number.to_string(), b"a") {
                claim.answered(&Reply::json(200, &number));
            }
        }
        let known = keys.lock();
        assert!(known.by_key.len() <= KEYS_MAX && known.by_key.len() == known.oldest_first.len());
        assert_eq!(
            known.bytes,
            known.by_key.values().flat_map(|kept| &kept.answer).map(|a| a.json.len()).sum::<usize>()
        );
    }

    #[test]
    fn a_key_is_short_and_can_be_seen() {
        for bad in ["", "ü", "a\tb", &"x".repeat(129)] {
            assert_eq!(claim(&Keys::default(), bad, b"a").err(), Some("bad-idempotency-key"), "{bad:?}");
        }
    }
}

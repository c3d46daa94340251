//! Requests that may be sent again: what one appends carries its key, so nothing is appended twice, whoever was killed.
//!
//! A request that comes again is gone through again. Its ids and times are those of the first time, so it comes to the same
//! batches; for those that are in the log the log says where they are, and what a crash kept from it is appended then.
//! Whatever decides by what the store holds before it appends asks first whether it has appended already
//! ([`Store::earlier`]).

use std::collections::HashMap;
use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard};

use enjamb_core::RawFrame;
use enjamb_core::frame::{Body, Frame};
use enjamb_core::{Digest, Hasher, StreamId, Timestamp};
use enjamb_ledger::{Appended, Batch, Engine, Ledger, LedgerError, NewFrame, RequestDigest};

use crate::{Env, Result, Store};

/// Hex digits of a caller and a key, as they are stored.
const KEY_HEX: usize = 40;

/// A request under a key of its caller's.
#[derive(Clone, Copy, Debug)]
pub struct Request<'r> {
    pub caller: &'r str,
    pub key: &'r str,
    /// Of all that was asked for: another request under the same key is a mistake.
    pub digest: RequestDigest,
}

/// The ledger of a store, by which a request appends under its key.
pub(crate) struct Door {
    engine: Engine,
    request: Option<Arc<Going>>,
}

/// A request as it goes on.
struct Going {
    /// What its ids are made from.
    seed: Digest,
    key: String,
    digest: RequestDigest,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    ids: u64,
    /// Batches that are in the log.
    batches: usize,
    /// When each batch was made, and the one that is being made.
    times: HashMap<usize, Timestamp>,
    /// A batch was in the log before, and was made at another time than this time it was said to be.
    mistaken: bool,
    replayed: bool,
}

impl From<Engine> for Door {
    fn from(engine: Engine) -> Self {
        Self { engine, request: None }
    }
}

impl Deref for Door {
    type Target = Engine;

    fn deref(&self) -> &Engine {
        &self.engine
    }
}

impl Door {
    /// Appends, for a request under its key. Bytes alone are their own key.
    pub(crate) fn append(&self, batch: Batch) -> enjamb_ledger::Result<Appended> {
        let is_ours = |batch: &Batch| batch.idempotency_key.is_none() && batch.former_keys.is_empty();
        let request = self.request.as_ref().filter(|_| !batch.frames.is_empty() && is_ours(&batch));
        let Some(request) = request else { return self.engine.append(batch) };
        let (key, digest) = (request.next_key(), Some(request.digest));
        let appended = self.engine.append(Batch { idempotency_key: Some(key), request: digest, ..batch })?;
        let made = if appended.replayed { self.made_at(&appended)? } else { None };
        request.note(appended.replayed, made);
        Ok(appended)
    }

    /// When frames were made that are in the log.
    fn made_at(&self, appended: &Appended) -> enjamb_ledger::Result<Option<Timestamp>> {
        let Some(first) = appended.frames.first() else { return Ok(None) };
        let frame = self.engine.frames(&first.stream, first.seq, 1)?.pop();
        let frame = frame.map(|stored| RawFrame::parse(stored.json)).transpose()?;
        Ok(frame.map(|frame| Timestamp::from_millis(frame.timestamp_ms() as i64)))
    }
}

impl Going {
    fn new(request: &Request<'_>, store_id: &str) -> Arc<Self> {
        let mut hasher = Hasher::new();
        for part in [store_id.as_bytes(), request.caller.as_bytes(), request.key.as_bytes(), &request.digest] {
            hasher.update(&(part.len() as u64).to_le_bytes()).update(part);
        }
        // Other requests under the same key have other ids, and are told from this one by their digests.
        let key = Digest::of(format!("{}\n{}", request.caller, request.key).as_bytes()).to_hex();
        let key = format!("request-{}", &key[..KEY_HEX]);
        Arc::new(Self { seed: hasher.finish(), key, digest: request.digest, state: Mutex::default() })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// The key of the batch that comes next.
    fn next_key(&self) -> String {
        format!("{}-{}", self.key, self.lock().batches)
    }

    fn note(&self, replayed: bool, made: Option<Timestamp>) {
        let mut state = self.lock();
        let at = state.batches;
        state.batches += 1;
        state.replayed |= replayed;
        if let Some(made) = made {
            state.mistaken |= state.times.insert(at, made) != Some(made);
        }
    }

    /// The time of the batch that comes next. The log keeps milliseconds.
    fn now(&self, clock: &Env) -> Timestamp {
        let mut state = self.lock();
        let at = state.batches;
        *state.times.entry(at).or_insert_with(|| Timestamp::from_millis(clock.now().as_millis() as i64))
    }

    fn new_id(&self) -> String {
        let mut state = self.lock();
        state.ids += 1;
        id_of(&format!("{}\n{}", self.seed.to_hex(), state.ids))
    }
}

/// An id that is always the same for the same text.
pub(crate) fn id_of(text: &str) -> String {
    let hex = Digest::of(text.as_bytes()).to_hex();
    [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..32]].join("-")
}

impl Store {
    /// This store as one request uses it.
    pub fn for_request(&self, request: &Request<'_>) -> Result<Self> {
        let going = Going::new(request, &self.ledger.store_id()?);
        let (clock, times, ids) = (self.env.clone(), going.clone(), going.clone());
        let env = Env::with(move || times.now(&clock), move || ids.new_id());
        let ledger = Door { engine: self.ledger.engine.clone(), request: Some(going) };
        Ok(Self { ledger, env, cache: self.cache.clone() })
    }

    /// Whether the request found out late that it had been here before, so that it has to be gone through once more to be
    /// answered as it was; it begins anew then.
    pub fn is_to_repeat(&self) -> bool {
        let Some(request) = &self.ledger.request else { return false };
        let mut state = request.lock();
        (state.ids, state.batches) = (0, 0);
        std::mem::take(&mut state.mistaken)
    }

    /// Whether something that the request appends was in the log before.
    pub fn is_repeated(&self) -> bool {
        self.ledger.request.as_ref().is_some_and(|request| request.lock().replayed)
    }

    /// What the request has appended to a stream before, if it has come to this place before.
    pub(crate) fn earlier(&self, stream: &StreamId) -> Result<Option<Frame>> {
        let Some(request) = &self.ledger.request else { return Ok(None) };
        // It is asked where everything is decided: a batch that is known is answered, and this one could not be stored.
        let probe = Body::Unknown { type_name: "probe".into(), members: Vec::new() };
        let frame = NewFrame { expected_seq: Some(u64::MAX), ..self.frame_of(stream, &probe)? };
        let (key, digest) = (Some(request.next_key()), Some(request.digest));
        let batch = Batch { frames: vec![frame], idempotency_key: key, request: digest, ..Batch::default() };
        match self.ledger.engine.append(batch) {
            Ok(known) => {
                request.lock().replayed = true;
                known.frames.first().map(|at| self.frame_at(stream, at.seq)).transpose()
            }
            Err(LedgerError::SeqConflict { .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

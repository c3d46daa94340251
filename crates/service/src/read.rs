//! Reading streams, and following them as they grow.

use std::time::Duration;

use enjamb_core::{StreamId, limits};
use enjamb_ledger::{Ledger, StoredFrame, StreamOrder, StreamSummary};

use crate::{Result, ServiceError, Store};

/// How long a follower sleeps between two looks at the log.
const FOLLOW_PAUSE: Duration = Duration::from_millis(20);

/// A place in a stream from which a reader goes on.
#[derive(Debug)]
pub struct Follow<'s> {
    store: &'s Store,
    stream: StreamId,
    next_seq: u64,
    position: u64,
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Store({})", self.dir().display())
    }
}

impl Store {
    pub fn stream(&self, stream: &StreamId) -> Result<StreamSummary> {
        self.ledger.stream(stream)?.ok_or_else(|| ServiceError::UnknownStream(stream.clone()))
    }

    pub fn streams(&self, kind: Option<&str>, order: StreamOrder, limit: usize) -> Result<Vec<StreamSummary>> {
        Ok(self.ledger.streams(kind, order, limit)?)
    }

    /// Up to `limit` frames from `from_seq` on. A stream that does not exist is an error, one that is short is not.
    pub fn frames(&self, stream: &StreamId, from_seq: u64, limit: usize) -> Result<Vec<StoredFrame>> {
        self.stream(stream)?;
        Ok(self.ledger.frames(stream, from_seq, limit.min(limits::PAGE_ROWS_MAX))?)
    }

    /// Follows a stream from a seq on. It need not exist yet.
    pub fn follow(&self, stream: &StreamId, from_seq: u64) -> Follow<'_> {
        Follow { store: self, stream: stream.clone(), next_seq: from_seq, position: u64::MAX }
    }
}

impl Follow<'_> {
    /// The next frames, waiting for them as long as `go_on` says so. Empty when it said stop.
    pub fn next(&mut self, go_on: &dyn Fn() -> bool) -> Result<Vec<StoredFrame>> {
        while go_on() {
            let position = self.store.ledger.position()?;
            if position != self.position {
                let frames = self.store.ledger.frames(&self.stream, self.next_seq, limits::PAGE_ROWS_MAX)?;
                if frames.len() < limits::PAGE_ROWS_MAX {
                    self.position = position;
                }
                if let Some(last) = frames.last() {
                    self.next_seq = last.seq + 1;
                    return Ok(frames);
                }
            }
            std::thread::sleep(FOLLOW_PAUSE);
        }
        Ok(Vec::new())
    }
}

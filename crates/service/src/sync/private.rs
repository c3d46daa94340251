//! What stays in this store: streams that are marked private, and what was done for threads that are.
//!
//! Marks are frames of a stream that goes nowhere itself. A stream is a chain, so it travels whole or not at all: nothing
//! is left out of one, and nothing in it is changed on the way.

use std::collections::{BTreeSet, HashSet};

use enjamb_core::frame::{Body, ContinuityBody};
use enjamb_core::{StreamId, StreamKind};
use enjamb_ledger::Ledger;

use crate::turn::principal_of;
use crate::{Actor, Append, DraftLine, Result, ServiceError, Store};

/// Streams of this kind say what is private, and are so themselves.
pub(super) const KIND: &str = "private";
const MARKS: &str = "private/streams";
const TYPE: &str = "stream_marked_private";

impl Store {
    /// The streams that are marked, by name.
    pub fn private_streams(&self) -> Result<BTreeSet<StreamId>> {
        let marks: StreamId = MARKS.parse()?;
        let (mut marked, mut next) = (BTreeSet::new(), 0);
        if self.ledger.stream(&marks)?.is_none() {
            return Ok(marked);
        }
        loop {
            let page = self.ledger.frames(&marks, next, enjamb_core::limits::PAGE_ROWS_MAX)?;
            let Some(last) = page.last() else { return Ok(marked) };
            next = last.seq + 1;
            for frame in &page {
                match mark_in(&frame.json) {
                    Some((stream, true)) => _ = marked.insert(stream),
                    Some((stream, false)) => _ = marked.remove(&stream),
                    None => {}
                }
            }
        }
    }

    /// Marks a stream that is here, or takes its mark away. Whether that changed anything.
    pub fn mark_private(&self, stream: &StreamId, is_private: bool, by: &Actor) -> Result<bool> {
        if self.ledger.stream(stream)?.is_none() {
            return Err(ServiceError::Unknown { what: "stream", name: stream.to_string() });
        }
        if self.private_streams()?.contains(stream) == is_private {
            return Ok(false);
        }
        let json = serde_json::json!({
            "type": TYPE, "stream": stream.to_string(), "private": is_private, "actor_id": by.actor_id,
            "origin": by.origin,
        });
        let lines = vec![DraftLine { line: 1, json: json.to_string().into_bytes() }];
        self.append(Append { lines, stream: Some(MARKS.parse()?), ..Append::default() })?;
        Ok(true)
    }

    /// Every stream that stays: those that are marked, and of a thread what its runs and their commits say.
    pub fn staying(&self) -> Result<HashSet<StreamId>> {
        let marked = self.private_streams()?;
        let mut staying = HashSet::new();
        for thread in marked.iter().filter(|stream| stream.kind == StreamKind::Continuity) {
            let commits = StreamId::new(StreamKind::Context, principal_of(thread))?;
            if self.ledger.stream(&commits)?.is_some() {
                staying.insert(commits);
            }
            self.replay(thread, 0..u64::MAX, &mut |frame| {
                if let Body::Continuity(ContinuityBody::RunSpawned(run)) = frame.body {
                    staying.extend(StreamId::new(StreamKind::Session, run.run_session_id).ok());
                }
                Ok(())
            })?;
        }
        staying.extend(marked);
        Ok(staying)
    }
}

/// What a frame marks, and how.
fn mark_in(json: &[u8]) -> Option<(StreamId, bool)> {
    let value: serde_json::Value = serde_json::from_slice(json).ok()?;
    let is_mark = value["type"] == TYPE;
    let stream = value["stream"].as_str().filter(|_| is_mark)?.parse().ok()?;
    Some((stream, value["private"].as_bool()?))
}

//! Commits in the order in which they were made, whoever made them.

use std::collections::{BTreeMap, HashSet};

use enjamb_core::frame::{Body, ContextBody, Kept, RawFrame};
use enjamb_core::{CommitId, StreamId, Timestamp, limits};

use crate::{Ledger, Result, StoredFrame, StreamOrder};

/// Which commits a timeline shows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Span {
    /// Whose; everybody's, if not given.
    pub principal: Option<StreamId>,
    /// Made at or after this instant.
    pub since: Option<Timestamp>,
    /// Made at or before this instant.
    pub until: Option<Timestamp>,
    /// Those that a timeline shows after this one: where an earlier page ended.
    pub before: Option<CommitId>,
}

/// A commit's place in a timeline. Of two at one instant, the one stored last in its stream is the later one.
type Place = (Timestamp, StreamId, u64);

/// Answers [`Ledger::timeline`] with the other questions: reads the streams of the principals, and keeps `limit` places.
pub(crate) fn read<L: Ledger + ?Sized>(ledger: &L, span: &Span, limit: usize) -> Result<Vec<CommitId>> {
    let before = match &span.before {
        None => None,
        Some(id) => match place_of(ledger, id)? {
            Some(place) => Some(place),
            None => return Ok(Vec::new()),
        },
    };
    let mut latest: BTreeMap<Place, CommitId> = BTreeMap::new();
    let mut seen = HashSet::new();
    for stream in streams(ledger, span)? {
        each_commit(ledger, &stream, &mut |place, id| {
            // A commit that branches have as well is where it was stored first.
            if !seen.insert(id) {
                return;
            }
            let shown = span.since.is_none_or(|since| place.0 >= since)
                && span.until.is_none_or(|until| place.0 <= until)
                && before.as_ref().is_none_or(|before| place < *before);
            if shown {
                latest.insert(place, id);
            }
            if latest.len() > limit {
                latest.pop_first();
            }
        })?;
    }
    Ok(latest.into_values().rev().collect())
}

/// Where a commit is: in the stream of its principal, or in a branch of it.
fn place_of<L: Ledger + ?Sized>(ledger: &L, id: &CommitId) -> Result<Option<Place>> {
    let mut found = None;
    for stream in streams(ledger, &Span::default())? {
        each_commit(ledger, &stream, &mut |place, other| {
            if other == *id {
                found.get_or_insert(place);
            }
        })?;
    }
    Ok(found)
}

fn streams<L: Ledger + ?Sized>(ledger: &L, span: &Span) -> Result<Vec<StreamId>> {
    if let Some(principal) = &span.principal {
        return Ok(vec![principal.clone()]);
    }
    let of_kind = |kind: &str| ledger.streams(Some(kind), StreamOrder::Name, usize::MAX);
    let all = of_kind("context")?.into_iter().chain(of_kind("branch")?);
    Ok(all.map(|summary| summary.stream).collect())
}

fn each_commit<L: Ledger + ?Sized>(
    ledger: &L,
    stream: &StreamId,
    visit: &mut dyn FnMut(Place, CommitId),
) -> Result<()> {
    let mut next = 0;
    loop {
        let frames = ledger.frames(stream, next, limits::PAGE_ROWS_MAX)?;
        let Some(last) = frames.last() else { return Ok(()) };
        next = last.seq + 1;
        for frame in &frames {
            if let Some((created_at, id)) = committed(frame)? {
                visit((created_at, stream.clone(), frame.seq), id);
            }
        }
    }
}

fn committed(frame: &StoredFrame) -> Result<Option<(Timestamp, CommitId)>> {
    let raw = RawFrame::parse(frame.json.clone())?;
    let body = Kept::read(&raw).and_then(|kept| kept.frame()).unwrap_or(raw).decode().map(|frame| frame.body);
    Ok(match body {
        Ok(Body::Context(ContextBody::ContextCommitted(commit))) => {
            commit.created_at.parse().ok().zip(commit.commit_id.parse().ok())
        }
        _ => None,
    })
}

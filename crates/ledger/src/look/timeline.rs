//! Timelines from the index: each principal's rows are in order already, and are read from the end.

use enjamb_core::{CommitId, StreamId, Timestamp};

use super::commits::{committed, ids};
use super::{Look, Looked};
use crate::Span;
use crate::index::{Bounds, Lookup, StreamOrder, commit_row};

impl Look<'_> {
    pub(crate) fn timeline(&self, span: &Span, limit: usize) -> Looked<Vec<CommitId>> {
        let streams = streams(self, span)?;
        let mut bounds = Bounds {
            since: span.since.unwrap_or(Timestamp::from_micros(i64::MIN)),
            until: span.until.unwrap_or(Timestamp::from_micros(i64::MAX)),
            before: None,
        };
        if let Some(id) = &span.before {
            let Some(row) = commit_row(&self.index, id)? else { return Ok(Vec::new()) };
            let (frame, _) = committed(self, row.n)?;
            bounds.until = bounds.until.min(row.created_at);
            bounds.before = Some((row.created_at, order(&streams, &frame.stream), row.n));
        }
        let ordered: Vec<_> = streams.iter().map(|(stream, number)| (order(&streams, stream), *number)).collect();
        ids(self, &self.index.timeline(&ordered, &bounds, limit)?)
    }
}

/// Where a stream stands among those that are asked about: odd for one of them, even between two.
fn order(streams: &[(StreamId, u32)], stream: &StreamId) -> usize {
    match streams.binary_search_by(|(other, _)| other.cmp(stream)) {
        Ok(at) => 2 * at + 1,
        Err(at) => 2 * at,
    }
}

/// The streams that are asked about, in the order of their names.
fn streams(look: &Look<'_>, span: &Span) -> Looked<Vec<(StreamId, u32)>> {
    let rows = match &span.principal {
        Some(principal) => look.index.stream(principal)?.map(|row| (principal.clone(), row)).into_iter().collect(),
        None => {
            let of_kind = |kind: &str| look.index.streams(Some(kind), StreamOrder::Name, usize::MAX);
            [of_kind("context")?, of_kind("branch")?].concat()
        }
    };
    Ok(rows.into_iter().map(|(stream, row)| (stream, row.number)).collect())
}

//! Commits: chains walked in the index, words read from the log.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use enjamb_core::chain::Stop;
use enjamb_core::frame::{Body, ContextBody, ContextCommitted, ContextNoted, Kept, RawFrame};
use enjamb_core::{CommitId, StreamId, Timestamp, limits};

use super::{Look, Looked};
use crate::error::LedgerError;
use crate::index::{CommitRow, DeltaRow, commit_row, format_name};
use crate::record::{FrameRecord, Record};
use crate::{Link, Part, StoredCommit};

impl Look<'_> {
    pub(crate) fn commit(&self, id: &CommitId) -> Looked<Option<StoredCommit>> {
        let Some(row) = commit_row(&self.index, id)? else { return Ok(None) };
        let (frame, commit) = committed(self, row.n)?;
        let note = self.index.note(id)?;
        let summary = match note.summary_n {
            0 => commit.summary.clone(),
            n => noted(self, n)?.summary,
        };
        let tags = match note.tags_n {
            0 => Vec::new(),
            n => noted(self, n)?.tags.unwrap_or_default(),
        };
        let summary = summary.filter(|summary| !summary.is_empty());
        let (stream, seq) = frame.told_in();
        Ok(Some(StoredCommit { link: link(*id, &row), stream, seq, commit, summary, tags }))
    }

    pub(crate) fn walk(&self, tip: &CommitId, stop: &Stop, limit: usize) -> Looked<Option<Vec<Link>>> {
        walk(self, tip, stop, limit, |id, row| Ok(link(id, row)))
    }

    pub(crate) fn parts(&self, tip: &CommitId, stop: &Stop, limit: usize) -> Looked<Option<Vec<Part>>> {
        let mut formats: HashMap<u32, Arc<str>> = HashMap::new();
        walk(self, tip, stop, limit, |id, row| {
            let DeltaRow { artifact, n, len, format, messages, tokens } = row.delta;
            let format = match formats.entry(format) {
                Entry::Occupied(known) => known.get().clone(),
                Entry::Vacant(new) => new.insert(format_name(&self.index, format)?.into()).clone(),
            };
            Ok(Part { link: link(id, row), artifact, format, messages, tokens, len, place: n })
        })
    }

    pub(crate) fn children(&self, id: &CommitId) -> Looked<Vec<CommitId>> {
        let Some(row) = commit_row(&self.index, id)? else { return Ok(Vec::new()) };
        ids(self, &self.index.children(row.n)?)
    }

    pub(crate) fn commit_at(&self, principal: &StreamId, at: Timestamp) -> Looked<Option<CommitId>> {
        Ok(ids(self, self.index.at_or_before(principal, at)?.as_slice())?.pop())
    }

    pub(crate) fn unsummarised(&self, after: Option<&CommitId>, limit: usize) -> Looked<Vec<CommitId>> {
        let from = match after {
            None => 0,
            Some(id) => match commit_row(&self.index, id)? {
                Some(row) => row.n + 1,
                None => return Ok(Vec::new()),
            },
        };
        ids(self, &self.index.unsummarised(from, limit)?)
    }
}

/// Goes from a tip back to the stop, and makes something of each commit on the way.
fn walk<T>(
    look: &Look<'_>,
    tip: &CommitId,
    stop: &Stop,
    limit: usize,
    mut make: impl FnMut(CommitId, &CommitRow) -> Looked<T>,
) -> Looked<Option<Vec<T>>> {
    let mut chain = Vec::new();
    let mut next = Some(*tip);
    while let Some(id) = next.filter(|_| chain.len() < limit) {
        let Some(row) = commit_row(&look.index, &id)? else {
            return if chain.is_empty() { Ok(None) } else { Err(broken(&id).into()) };
        };
        if chain.len() >= limits::CHAIN_COMMITS_MAX {
            return Err(LedgerError::corrupt(tip.to_string(), "its chain has no end").into());
        }
        chain.push(make(id, &row)?);
        next = row.parent.filter(|_| !stop.ends_at(&id, row.kind));
    }
    Ok(Some(chain))
}

fn link(id: CommitId, row: &CommitRow) -> Link {
    let CommitRow { parent, kind, generation, created_at, .. } = *row;
    Link { id, parent, kind, generation, created_at }
}

pub(super) fn ids(look: &Look<'_>, numbers: &[u64]) -> Looked<Vec<CommitId>> {
    let parse = |(record, n): (Record, &u64)| match context_frame(record, *n)? {
        (_, ContextBody::ContextCommitted(commit)) => {
            commit.commit_id.parse().map_err(|_| misplaced(*n, "names no commit").into())
        }
        _ => Err(misplaced(*n, "is no commit").into()),
    };
    look.records.records(numbers)?.into_iter().zip(numbers).map(parse).collect()
}

pub(super) fn committed(look: &Look<'_>, n: u64) -> Looked<(FrameRecord, ContextCommitted)> {
    match context_frame(look.records.record(n)?, n)? {
        (frame, ContextBody::ContextCommitted(commit)) => Ok((frame, commit)),
        _ => Err(misplaced(n, "is no commit").into()),
    }
}

fn noted(look: &Look<'_>, n: u64) -> Looked<ContextNoted> {
    match context_frame(look.records.record(n)?, n)? {
        (_, ContextBody::ContextNoted(note)) => Ok(note),
        _ => Err(misplaced(n, "is no note").into()),
    }
}

fn context_frame(record: Record, n: u64) -> Looked<(FrameRecord, ContextBody)> {
    let Record::Frame(frame) = record else { return Err(misplaced(n, "is no frame").into()) };
    let raw = RawFrame::parse(frame.json.clone()).map_err(LedgerError::from)?;
    let raw = Kept::read(&raw).and_then(|kept| kept.frame()).unwrap_or(raw);
    match raw.decode().map_err(LedgerError::from)?.body {
        Body::Context(body) => Ok((frame, body)),
        _ => Err(misplaced(n, "is of another stream").into()),
    }
}

fn misplaced(n: u64, what: &str) -> LedgerError {
    LedgerError::corrupt(format!("record {n}"), format!("it {what}, though the index says so"))
}

fn broken(id: &CommitId) -> LedgerError {
    LedgerError::corrupt(format!("commit {id}"), "a commit names it as its parent, but it is not there")
}

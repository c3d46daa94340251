//! From a group of batches to what has to be written, decided from rows that are already here.
//!
//! Rows that are not here are noted, and read as absent. So a group is staged, the rows that it missed are fetched at
//! once, and it is staged again: what was decided without a miss is what would have been decided with every row at hand.
//!
//! There are two steps. Planning, the longer one, does not depend on the numbers that records will have, so it is done
//! before the log is locked, and holds if the rows that it leaned on have not changed by then. Folding is done after.

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap, HashSet};

use enjamb_core::order::{MarkKey, Scope};
use enjamb_core::{ArtifactId, StreamId};
use foldhash::fast::RandomState;

use crate::batch::{Appended, Batch};
use crate::error::LedgerError;
use crate::index::{
    Changes, IndexError, KeyRow, Lookup, Stored, View, fold, fold_told, stream_key, totals_key, unreadable,
};
use crate::job::Fence;
use crate::plan::{Facts, Head, Layered, Planned, Recent, plan, survey};
use crate::record::Record;

/// What one of PostgreSQL's indexes takes as a key.
const KEY_BYTES_MAX: usize = 2_600;
/// Rows that are kept from one group to the next.
const KNOWN_ROWS_MAX: usize = 100_000;

/// Rows of the index that are here, absent ones among them.
#[derive(Default)]
pub(super) struct Known {
    rows: HashMap<Vec<u8>, Option<Vec<u8>>, RandomState>,
    asked: RefCell<HashSet<Vec<u8>, RandomState>>,
}

impl Known {
    /// What was asked for since this was called last.
    pub(super) fn take_asked(&self) -> Vec<Vec<u8>> {
        self.asked.take().into_iter().collect()
    }

    /// As [`Known::take_asked`], without what is here.
    pub(super) fn take_missed(&self) -> Vec<Vec<u8>> {
        self.asked.take().into_iter().filter(|key| !self.rows.contains_key(key)).collect()
    }

    /// How many rows were asked for.
    pub(super) fn asked_len(&self) -> usize {
        self.asked.borrow().len()
    }

    /// What was asked for, and the answers.
    fn asked_so_far(&self) -> Vec<(Vec<u8>, Option<Vec<u8>>)> {
        let answer = |key: &Vec<u8>| (key.clone(), self.rows.get(key).cloned().flatten());
        self.asked.borrow().iter().map(answer).collect()
    }

    /// Whether something was asked for that is not here.
    fn lacks_any(&self) -> bool {
        self.asked.borrow().iter().any(|key| !self.rows.contains_key(key))
    }

    /// Whether all of these are here. Those that are not count as asked for.
    fn has_all(&self, keys: &BTreeSet<Vec<u8>>) -> bool {
        let lacking: Vec<_> = keys.iter().filter(|key| !self.rows.contains_key(*key)).cloned().collect();
        let is_complete = lacking.is_empty();
        self.asked.borrow_mut().extend(lacking);
        is_complete
    }

    pub(super) fn learn(&mut self, key: Vec<u8>, payload: Option<Vec<u8>>) {
        self.rows.insert(key, payload);
    }

    /// Takes in what was written.
    pub(super) fn absorb(&mut self, changes: Changes) {
        if self.rows.len() + changes.len() > KNOWN_ROWS_MAX {
            self.rows.clear();
        }
        self.rows.extend(changes);
    }

    pub(super) fn clear(&mut self) {
        self.rows.clear();
    }
}

impl Lookup for Known {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, IndexError> {
        if !self.asked.borrow().contains(key) {
            self.asked.borrow_mut().insert(key.to_vec());
        }
        Ok(self.rows.get(key).cloned().flatten())
    }
}

/// What batches become, whatever the numbers of their records: frames with their seqs and chains, and refusals.
pub(super) struct Plans {
    each: Vec<Result<Planned, LedgerError>>,
    /// Whether there was enough to decide anything.
    is_whole: bool,
    /// The rows that this was decided from, as they were.
    leaned_on: Vec<(Vec<u8>, Option<Vec<u8>>)>,
}

impl Plans {
    /// Whether it would be decided so again.
    pub(super) fn stand(&self, known: &Known) -> bool {
        self.is_whole && self.leaned_on.iter().all(|(key, payload)| known.rows.get(key) == Some(payload))
    }

    /// What has to be written, once the rows that the records become are known.
    pub(super) fn into_staged(self, last_n: u64, changes: Changes) -> Staged {
        let mut staged = Staged { answers: Vec::with_capacity(self.each.len()), records: Vec::new(), changes, last_n };
        for planned in self.each {
            staged.answers.push(planned.map(|planned| {
                staged.records.extend((staged.last_n + 1..).zip(planned.records));
                staged.last_n = staged.records.last().map_or(last_n, |(n, _)| *n);
                planned.answer
            }));
        }
        staged
    }
}

/// What a group of batches comes to, before anyone is told.
pub(super) struct Staged {
    pub(super) answers: Vec<Result<Appended, LedgerError>>,
    pub(super) records: Vec<(u64, Record)>,
    pub(super) changes: Changes,
    pub(super) last_n: u64,
}

/// Batches that are refused whatever is in the log, by where they are in their group.
#[derive(Default)]
pub(super) struct Refused {
    /// They are of turns that ended.
    pub(super) ended: HashSet<Fence>,
    /// They would become rows with keys of so many bytes.
    pub(super) too_large: HashMap<usize, usize>,
}

impl Refused {
    fn reason(&self, at: usize, batch: &Batch) -> Option<LedgerError> {
        if let Some(fence) = batch.fence.filter(|fence| self.ended.contains(fence)) {
            return Some(LedgerError::JobLost { job: fence.job });
        }
        let size = Some(*self.too_large.get(&at)? as u64);
        Some(LedgerError::TooLarge { what: "a name in a frame", size, limit: KEY_BYTES_MAX as u64, unit: "bytes" })
    }
}

/// Decides what batches become, each after those before it. One that is refused leaves nothing behind.
pub(super) fn plan_all(batches: &[Batch], refused: &Refused, known: &Known) -> Plans {
    let stored = Seen(Stored(known));
    let mut recent = Recent::default();
    // Other rows are found by what these say, and add up to it: guessed, they would make nonsense of what follows.
    let shared = shared_keys(batches);
    let is_whole = known.has_all(&shared);
    let batches = if is_whole { batches } else { &[] };
    let mut each = Vec::with_capacity(batches.len());
    for (at, batch) in batches.iter().enumerate() {
        if let Some(reason) = refused.reason(at, batch) {
            each.push(Err(reason));
            continue;
        }
        let mut learned = Recent::default();
        let facts = Layered { newer: &recent, older: &stored };
        let planned = plan(batch.clone(), &mut learned, &facts);
        if planned.is_err() && known.lacks_any() {
            // Refused, perhaps, for a row that was missed: what comes after it is asked for together with it.
            survey(batch.clone(), &facts);
        }
        if planned.is_ok() {
            recent.absorb(&mut learned);
        }
        each.push(planned);
    }
    let leaned_on = known.asked_so_far();
    // Folding will take these, whatever it takes besides.
    known.asked.borrow_mut().extend(shared);
    Plans { each, is_whole, leaned_on }
}

/// Why records cannot become rows.
pub(super) enum Unfolded {
    /// One batch would become a row with a key of so many bytes.
    TooLarge {
        at: usize,
        size: usize,
    },
    Unreadable(LedgerError),
}

/// The rows that planned records become after so many others.
pub(super) fn fold_all(plans: &Plans, mut last_n: u64, known: &Known) -> Result<Changes, Unfolded> {
    let mut all = View::new(known);
    for (at, planned) in plans.each.iter().enumerate() {
        let Ok(planned) = planned else { continue };
        let mut view = View::new(&all);
        let mut told = planned.told.iter();
        for record in &planned.records {
            last_n += 1;
            let folded = match record {
                Record::Frame(frame) if let Some(Some(told)) = told.next() => fold_told(&mut view, last_n, frame, told),
                _ => fold(&mut view, last_n, record),
            };
            folded.map_err(|error| Unfolded::Unreadable(unreadable(error)))?;
        }
        let changes = view.into_changes();
        if let Some(key) = changes.keys().find(|key| key.len() > KEY_BYTES_MAX) {
            return Err(Unfolded::TooLarge { at, size: key.len() });
        }
        all.absorb(changes);
    }
    Ok(all.into_changes())
}

/// The rows that every frame of a stream, and every frame at all, looks up and changes.
fn shared_keys(batches: &[Batch]) -> BTreeSet<Vec<u8>> {
    let streams = batches.iter().flat_map(|batch| &batch.frames).map(|frame| stream_key(&frame.stream));
    streams.chain([totals_key()]).collect()
}

/// Folds records that are in the log already.
pub(super) fn refold(records: &[(u64, Record)], known: &Known) -> Result<Changes, LedgerError> {
    let mut view = View::new(known);
    let streams = records.iter().filter_map(|(_, record)| match record {
        Record::Frame(frame) => Some(stream_key(&frame.stream)),
        Record::Bytes { .. } | Record::Segment(_) | Record::Dropped { .. } => None,
    });
    let records = if known.has_all(&streams.chain([totals_key()]).collect()) { records } else { &[] };
    for (n, record) in records {
        fold(&mut view, *n, record).map_err(unreadable)?;
    }
    Ok(view.into_changes())
}

/// Facts for a plan. Whether an artifact is here costs nothing to know, since the fold asks as well.
struct Seen<'a, L>(Stored<'a, L>);

impl<L: Lookup> Facts for Seen<'_, L> {
    fn head(&self, stream: &StreamId) -> Result<Option<Head>, LedgerError> {
        self.0.head(stream)
    }

    fn mark(&self, scope: &Scope, key: &MarkKey) -> Result<Option<String>, LedgerError> {
        self.0.mark(scope, key)
    }

    fn key(&self, stream: &StreamId, key: &str) -> Result<Option<KeyRow>, LedgerError> {
        self.0.key(stream, key)
    }

    fn has_artifact(&self, id: &ArtifactId) -> Result<bool, LedgerError> {
        self.0.has_artifact(id)
    }

    fn has_recent_artifact(&self, id: &ArtifactId) -> bool {
        self.0.has_artifact(id).unwrap_or(false)
    }
}

//! From a group of batches to what has to be written, decided from rows that are already here.
//!
//! Rows that are not here are noted, and read as absent. So a group is staged, the rows that it missed are fetched at
//! once, and it is staged again: what was decided without a miss is what would have been decided with every row at hand.

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap, HashSet};

use enjamb_core::order::{MarkKey, Scope};
use enjamb_core::{ArtifactId, StreamId};

use crate::batch::{Appended, Batch};
use crate::error::LedgerError;
use crate::index::{Changes, IndexError, KeyRow, Lookup, Stored, View, fold, stream_key, totals_key, unreadable};
use crate::job::Fence;
use crate::plan::{Facts, Head, Recent, plan, survey};
use crate::record::Record;

/// What one of PostgreSQL's indexes takes as a key.
const KEY_BYTES_MAX: usize = 2_600;
/// Rows that are kept from one group to the next.
const KNOWN_ROWS_MAX: usize = 100_000;

/// Rows of the index that are here, absent ones among them.
#[derive(Default)]
pub(super) struct Known {
    rows: HashMap<Vec<u8>, Option<Vec<u8>>>,
    asked: RefCell<HashSet<Vec<u8>>>,
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

/// What a group of batches comes to, before anyone is told.
pub(super) struct Staged {
    pub(super) answers: Vec<Result<Appended, LedgerError>>,
    pub(super) records: Vec<(u64, Record)>,
    pub(super) changes: Changes,
    pub(super) last_n: u64,
}

/// Decides what batches become, each after those before it. One that is refused leaves nothing behind.
/// Those of turns that ended are refused.
pub(super) fn stage(batches: &[Batch], ended: &HashSet<Fence>, last_n: u64, known: &Known) -> Staged {
    let mut view = View::new(known);
    // Other rows are found by what these say, and add up to it: guessed, they would make nonsense of what follows.
    let batches = if known.has_all(&shared_keys(batches)) { batches } else { &[] };
    let mut staged =
        Staged { answers: Vec::with_capacity(batches.len()), records: Vec::new(), changes: Changes::new(), last_n };
    for batch in batches {
        if let Some(fence) = batch.fence.filter(|fence| ended.contains(fence)) {
            staged.answers.push(Err(LedgerError::JobLost { job: fence.job }));
            continue;
        }
        let answer = stage_one(batch.clone(), &mut staged, &view).map(|(answer, changes)| {
            view.absorb(changes);
            answer
        });
        if answer.is_err() && known.lacks_any() {
            // Refused, perhaps, for a row that was missed: what comes after it is asked for together with it.
            survey(batch.clone(), &Seen(Stored(&view)));
        }
        staged.answers.push(answer);
    }
    staged.changes = view.into_changes();
    staged
}

/// The rows that every frame of a stream, and every frame at all, looks up and changes.
fn shared_keys(batches: &[Batch]) -> BTreeSet<Vec<u8>> {
    let streams = batches.iter().flat_map(|batch| &batch.frames).map(|frame| stream_key(&frame.stream));
    streams.chain([totals_key()]).collect()
}

fn stage_one(batch: Batch, staged: &mut Staged, below: &View<'_>) -> Result<(Appended, Changes), LedgerError> {
    let planned = plan(batch, &mut Recent::default(), &Seen(Stored(below)))?;
    let mut view = View::new(below);
    for (n, record) in (staged.last_n + 1..).zip(&planned.records) {
        fold(&mut view, n, record).map_err(unreadable)?;
    }
    let changes = view.into_changes();
    if let Some(key) = changes.keys().find(|key| key.len() > KEY_BYTES_MAX) {
        let (size, limit) = (Some(key.len() as u64), KEY_BYTES_MAX as u64);
        return Err(LedgerError::TooLarge { what: "a name in a frame", size, limit, unit: "bytes" });
    }
    let numbered = (staged.last_n + 1..).zip(planned.records);
    staged.records.extend(numbered);
    staged.last_n = staged.records.last().map_or(staged.last_n, |(n, _)| *n);
    Ok((planned.answer, changes))
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

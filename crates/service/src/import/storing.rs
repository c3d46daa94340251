//! Groups on their way into the log: each is stored by a thread of its own while the next is read.

use std::collections::HashSet;
use std::thread::{Scope, ScopedJoinHandle};

use enjamb_core::{ArtifactId, CommitId};
use enjamb_ledger::{Batch, Ledger, NewSegment, SegmentRecord};

use super::SourceFile;
use super::file::FileImport;
use crate::{Result, Store};

/// What a group that is not in the log yet will have put there: it is not to be put there twice.
#[derive(Default)]
pub(super) struct Underway {
    pub commits: HashSet<CommitId>,
    pub artifacts: HashSet<ArtifactId>,
}

/// A group whose bytes are written, and that nothing refers to.
pub(super) struct Written {
    /// What waited before it, should it have to be begun again.
    pub taken: Vec<SourceFile>,
    pub segment: Option<(NewSegment, SegmentRecord)>,
    /// At least one.
    pub batches: Vec<Batch>,
    pub commits: HashSet<CommitId>,
    pub counted: Counted,
}

/// What is told of a group once it is stored.
pub(super) struct Counted {
    pub made: u64,
    pub known: u64,
    /// Files that are read to their end.
    pub finished: Vec<FileImport>,
}

/// A group that is being stored.
pub(super) struct Storing<'scope> {
    taken: Vec<SourceFile>,
    counted: Counted,
    stored: ScopedJoinHandle<'scope, Result<()>>,
}

impl Written {
    pub(super) fn underway(&self) -> Underway {
        let added = self.batches.iter().flat_map(|batch| &batch.artifacts).map(|artifact| artifact.id);
        let written = self.segment.iter().flat_map(|(_, record)| &record.artifacts).map(|(id, _)| *id);
        Underway { commits: self.commits.clone(), artifacts: added.chain(written).collect() }
    }

    pub(super) fn start<'scope>(self, scope: &'scope Scope<'scope, '_>, store: &'scope Store) -> Storing<'scope> {
        let Self { taken, segment, batches, counted, .. } = self;
        let stored = scope.spawn(move || put(store, segment, batches));
        Storing { taken, counted, stored }
    }

    pub(super) fn discard(self, store: &Store) {
        if let Some((new, _)) = self.segment {
            store.ledger.segments().discard(new);
        }
    }
}

impl Storing<'_> {
    /// Waits until it is stored. If it could not be, what was taken is there to be begun again.
    pub(super) fn wait(self) -> (Result<Counted>, Vec<SourceFile>) {
        let Self { taken, counted, stored } = self;
        let stored = stored.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        (stored.map(|()| counted), taken)
    }
}

fn put(store: &Store, segment: Option<(NewSegment, SegmentRecord)>, mut batches: Vec<Batch>) -> Result<()> {
    if let Some((new, record)) = segment {
        store.ledger.segments().publish(new, &record.segment)?;
        batches[0].segments.push(record);
    }
    for batch in batches.into_iter().filter(|batch| !batch.frames.is_empty()) {
        store.ledger.append(batch)?;
    }
    // Whoever asks next would have to bring the index up, and read nothing meanwhile.
    store.ledger.totals().map(drop)?;
    Ok(())
}

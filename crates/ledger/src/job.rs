//! Background jobs: of several nodes one does each at a time, and one that lost its turn cannot write any more.
//!
//! A turn has a number that only grows. What a job writes carries it, and is refused once another node has had a turn
//! after it: a node that was stopped, and wakes up when its work is done by another, does no harm.

use crate::error::LedgerError;
use crate::postgres::Held;

/// Something that one node does for all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum JobKind {
    Maintain,
    Collect,
    Summarize,
    /// Moving records into segments, or segments away: a part of the first two.
    Segments,
}

impl JobKind {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Maintain => "maintain",
            Self::Collect => "gc",
            Self::Summarize => "summarize",
            Self::Segments => "segments",
        }
    }
}

impl std::fmt::Display for JobKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The number of a turn, as what is written during it carries it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Fence {
    pub job: JobKind,
    pub epoch: i64,
}

impl Fence {
    /// Whoever writes for a turn that is over is told so.
    pub(crate) fn lost(self) -> Result<(), LedgerError> {
        Err(LedgerError::JobLost { job: self.job })
    }
}

/// A turn at a job, given back when it is dropped. A directory has no other nodes, and its turns no numbers.
pub struct Job<'l>(pub(crate) Option<Held<'l>>);

impl Job<'_> {
    pub fn fence(&self) -> Option<Fence> {
        self.0.as_ref().map(Held::fence)
    }
}

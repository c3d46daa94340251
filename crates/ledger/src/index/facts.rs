//! Rows of the index as the facts that a plan asks for.

use enjamb_core::order::{MarkKey, Scope};
use enjamb_core::{ArtifactId, StreamId};

use super::{IndexError, KeyRow, Lookup};
use crate::error::LedgerError;
use crate::plan::{Facts, Head};

pub struct Stored<'a, L>(pub &'a L);

impl<L: Lookup> Facts for Stored<'_, L> {
    fn head(&self, stream: &StreamId) -> Result<Option<Head>, LedgerError> {
        let row = self.0.stream(stream).map_err(unreadable)?;
        Ok(row.map(|row| Head { next_seq: row.next_seq, chain: row.chain }))
    }

    fn mark(&self, scope: &Scope, key: &MarkKey) -> Result<Option<String>, LedgerError> {
        self.0.mark(scope, key).map_err(unreadable)
    }

    fn key(&self, stream: &StreamId, key: &str) -> Result<Option<KeyRow>, LedgerError> {
        self.0.key(stream, key).map_err(unreadable)
    }

    fn has_artifact(&self, id: &ArtifactId) -> Result<bool, LedgerError> {
        Ok(self.0.artifact(id).map_err(unreadable)?.is_some())
    }
}

/// What a failure to read the index is to whoever asked.
pub fn unreadable(error: IndexError) -> LedgerError {
    match error {
        IndexError::Damaged(damaged) => LedgerError::corrupt("the index", damaged.0),
        IndexError::Sqlite(error) => LedgerError::sqlite("reading the index", &error),
        IndexError::Engine(error) => *error,
    }
}

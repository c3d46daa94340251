//! What an engine keeps the rows of the index in: keys in the order of their bytes, each with a payload.

use super::db::{Result, Visit};
use super::queries::Lookup;

/// Rows at one moment.
pub trait Table: Lookup {
    /// Rows with `from <= key < to`, in order, until `visit` says to stop.
    fn scan(&self, from: &[u8], to: &[u8], visit: &mut Visit<'_>) -> Result<()>;
    /// As [`Table::scan`], last first.
    fn scan_back(&self, from: &[u8], to: &[u8], visit: &mut Visit<'_>) -> Result<()>;
}

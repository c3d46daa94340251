//! The index: everything that is looked up, folded from the log and worth nothing without it.

mod commits;
mod db;
mod facts;
mod fold;
mod queries;
mod rows;
mod table;
mod words;

pub use commits::{Bounds, CommitRow, DeltaRow, commit_row, format_name, is_commit_key};
pub use db::{Damaged, IndexError, Rows, SCHEMA, Visit};
pub use facts::{Stored, unreadable};
pub use fold::{Changes, Told, View, fold, fold_told};
pub use queries::{Index, Lookup, StreamOrder};
pub use rows::{ArtifactRow, KeyRow, Place, StreamRow, Totals, artifact_key, stream_key, totals_key};
pub use table::Table;
pub use words::words_of;

/// The version of the rows. Another one is thrown away and built anew.
pub const INDEX_FORMAT: u32 = 7;

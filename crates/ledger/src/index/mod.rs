//! The index: everything that is looked up, folded from the log and worth nothing without it.

mod commits;
mod db;
mod fold;
mod queries;
mod rows;
mod words;

pub use commits::{Bounds, CommitRow, DeltaRow, commit_row, format_name};
pub use db::{Damaged, IndexError, Rows, SCHEMA};
pub use fold::{View, fold};
pub use queries::{Index, Lookup, StreamOrder};
pub use rows::{ArtifactRow, KeyRow, Place, StreamRow, Totals};
pub use words::words_of;

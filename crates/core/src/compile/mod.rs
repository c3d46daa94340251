//! Contexts: what of a thread a run starts from, decided from values and written byte for byte.
//!
//! A compile cuts the thread, chooses a strategy and with it compaction checkpoints, and lists items: references to
//! summaries, then messages with what was answered. The caller reads; everything that is decided is decided here.

mod budget;
mod bundle;
mod chain;
mod choose;
mod items;
mod render;
mod retrieve;
mod summary;

pub use budget::{Fit, fit};
pub use bundle::{BUNDLE_SCHEMA, Bundle, BundleError, Compiler, Item, Provenance, Source};
pub use chain::{ChainStrategy, EntryItems, entry_items};
pub use choose::{Checkpoint, Choice, Choosing, Strategy, choose};
pub use items::{ActorRoles, Turn, summary_item, turn_items};
pub use render::{RenderTarget, Said, Shown, render, say};
pub use retrieve::{RETRIEVAL_MIME, RETRIEVAL_SCHEMA, RETRIEVED_MAX, RetrievalResults, Retrieved, excerpt};
pub use summary::{Basis, Coverage, ProducedBy, SUMMARY_SCHEMA, Summary, SummaryProvenance};

pub const COMPILER_ID: &str = "rip.context_compiler.v1";
/// Messages that a context holds.
pub const RECENT_MESSAGES_LIMIT: usize = 16;
/// Summaries that a context refers to.
pub const SUMMARY_REFS_MAX: usize = 3;
/// The kind of summary that stands for everything up to its cut.
pub const CUMULATIVE: &str = "cumulative_v1";

/// Where a context ends: before the next message, or at the head when there is none; never before its own message.
pub fn cut_point(anchor_seq: u64, next_message_seq: Option<u64>, head_seq: u64) -> u64 {
    next_message_seq.map_or(head_seq, |next| next.saturating_sub(1)).max(anchor_seq)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_context_ends_before_the_next_message() {
        for (anchor, next, head, expected) in
            [(4, None, 9, 9), (4, Some(7), 9, 6), (4, Some(5), 9, 4), (4, None, 2, 4), (0, Some(0), 3, 0)]
        {
            assert_eq!(cut_point(anchor, next, head), expected, "{anchor} {next:?} {head}");
        }
    }
}

//! Capturing new work: what hooks spool, what becomes of it, and how hooks are put in place.
//!
//! A hook runs inside somebody else's agent, so it does no work: it appends what it was told to a spool and ends. Whoever
//! comes later, `watch` or the next command, takes the spool, and imports the transcripts that its events name.

mod delivery;
mod drain;
mod entries;
mod event;
mod hook;
mod install;
mod json_text;
mod missed;
mod record;
mod report;
mod spool;

use std::path::{Path, PathBuf};

pub use delivery::{Delivery, LastEvent};
pub use drain::{DrainBounds, Drained};
pub use entries::HookCommand;
pub use hook::{HookCall, hook};
pub use install::{CapturePlan, HookFile, HooksFound, hook_files};
pub use missed::{Miss, Missed, MissedAt, missed_elsewhere};
pub use report::{DeliveryReport, RuntimeDelivery};

/// Where a store's spool is.
pub fn spool_dir(store: &Path) -> PathBuf {
    store.join("spool")
}

/// Whether no event waits, told from directory entries alone.
pub(crate) fn is_spool_empty(store: &Path) -> bool {
    spool::is_empty(&spool_dir(store))
}

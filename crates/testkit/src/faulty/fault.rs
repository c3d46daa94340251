//! Which calls fail, and how.

use std::io;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

/// A call that a fault can be armed for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum OpKind {
    Read,
    Write,
    Sync,
    Truncate,
    Open,
    Delete,
}

/// Whether the device recovers after the first failure. Worth running both: code that survives one error may still
/// loop, or corrupt, when its own clean-up fails as well.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Times {
    Once,
    Forever,
}

/// What the failing call answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FaultError {
    Eio,
    Enospc,
    /// The first half is written, then the disk is full. For calls other than a write this is the same as `Eio`.
    ShortWrite,
}

/// One armed failure: the `nth` matching call from now on fails, once or together with all that follow.
#[derive(Debug, Clone, Copy)]
pub struct Fault {
    pub op: OpKind,
    /// Only files whose path ends so, such as `"-wal"` or `".db"`; all watched files if absent.
    pub file_suffix: Option<&'static str>,
    /// Counted from 1, from the moment of arming.
    pub nth: u64,
    pub times: Times,
    pub error: FaultError,
}

impl Fault {
    fn matches(&self, op: OpKind, path: &Path) -> bool {
        let suffix_fits = |suffix: &str| path.to_string_lossy().ends_with(suffix);
        self.op == op && self.file_suffix.is_none_or(suffix_fits)
    }
}

/// The armed faults, each with the number of matching calls seen so far.
#[derive(Default)]
pub(super) struct Faults {
    state: Mutex<Armed>,
}

#[derive(Default)]
struct Armed {
    faults: Vec<(Fault, u64)>,
    tripped: u64,
}

impl Faults {
    pub(super) fn arm(&self, fault: Fault) {
        self.with(|armed| armed.faults.push((fault, 0)));
    }

    pub(super) fn clear(&self) {
        self.with(|armed| *armed = Armed::default());
    }

    pub(super) fn tripped(&self) -> u64 {
        self.with(|armed| armed.tripped)
    }

    /// Counts one call, and says how it must fail if it must. Every armed fault counts every matching call, also
    /// those that another fault already fails.
    pub(super) fn trip(&self, op: OpKind, path: &Path) -> Option<FaultError> {
        self.with(|armed| {
            let mut verdict = None;
            for (fault, seen) in &mut armed.faults {
                if fault.matches(op, path) {
                    *seen += 1;
                    if is_due(fault, *seen) {
                        verdict = verdict.or(Some(fault.error));
                    }
                }
            }
            armed.tripped += u64::from(verdict.is_some());
            verdict
        })
    }

    fn with<R>(&self, act: impl FnOnce(&mut Armed) -> R) -> R {
        act(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

fn is_due(fault: &Fault, seen: u64) -> bool {
    match fault.times {
        Times::Once => seen == fault.nth,
        Times::Forever => seen >= fault.nth,
    }
}

impl From<FaultError> for io::Error {
    fn from(error: FaultError) -> Self {
        match error {
            FaultError::Eio => io::Error::other("injected EIO"),
            FaultError::Enospc => io::Error::new(io::ErrorKind::StorageFull, "injected ENOSPC"),
            FaultError::ShortWrite => io::Error::new(io::ErrorKind::WriteZero, "injected short write"),
        }
    }
}

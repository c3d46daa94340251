//! Moves what is in the write-ahead log into the database while others go on writing.
//!
//! SQLite does this at the end of the commit that fills the log, where everyone waits for it. Done shortly before and
//! beside them, little is left for that commit to do, which then begins the log anew.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use rusqlite::Connection;

use super::log::{self, PAGE_BYTES, WAL_PAGES_MAX};

/// How full the write-ahead log is when it is time.
const PAGES_BEFORE: i64 = WAL_PAGES_MAX as i64 * 3 / 4;

/// Runs a checkpoint in a thread of its own when it is due. What fails there is left to the commit that finds the log
/// full, where someone can be told.
pub(super) struct Checkpoints {
    /// Pages that may still be written before the next one.
    due_in: Arc<AtomicI64>,
    running: Arc<AtomicBool>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Default for Checkpoints {
    fn default() -> Self {
        Self { due_in: Arc::new(AtomicI64::new(PAGES_BEFORE)), running: Arc::default(), thread: Mutex::default() }
    }
}

impl Checkpoints {
    /// Says that records of so many bytes were committed.
    pub(super) fn note(&self, bytes: u64, path: &Path, vfs: Option<&str>) {
        // The page that a group begins in is written again, and so is the one above it.
        let pages = (bytes / u64::from(PAGE_BYTES) + 2) as i64;
        let due_in = self.due_in.fetch_sub(pages, Ordering::Relaxed) - pages;
        if due_in > 0 || self.running.swap(true, Ordering::AcqRel) {
            return;
        }
        let (due_in, running) = (self.due_in.clone(), self.running.clone());
        let (path, vfs) = (path.to_owned(), vfs.map(str::to_owned));
        let run = move || {
            let pages = log::open(&path, vfs.as_deref()).ok().and_then(|connection| run(&connection));
            due_in.store(next_in(pages.unwrap_or(0)), Ordering::Relaxed);
            running.store(false, Ordering::Release);
        };
        *self.thread() = Some(thread::spawn(run));
    }

    pub(super) fn stop(&self) {
        if let Some(thread) = self.thread().take() {
            let _ = thread.join();
        }
    }

    fn thread(&self) -> std::sync::MutexGuard<'_, Option<JoinHandle<()>>> {
        self.thread.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The pages that the write-ahead log had.
fn run(connection: &Connection) -> Option<i64> {
    connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |row| row.get(1)).ok()
}

/// The next is due in this round of the log, or, when this one came late in it, in the next round.
fn next_in(pages: i64) -> i64 {
    let left = PAGES_BEFORE - pages;
    if left > PAGES_BEFORE / 4 { left } else { left + i64::from(WAL_PAGES_MAX) }
}

//! The index, opened by another thread while the log is looked at: a short command waits for little else.

use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use rusqlite::Connection;

use super::catch_up;
use crate::Result;

/// A connection that is there or on its way, for who reads first. Nobody waits for the thread longer than for this.
#[derive(Default)]
pub(super) struct Beside(Mutex<Option<JoinHandle<Result<Connection>>>>);

impl Beside {
    /// Begins to open the index of a store. Opening changes files, so whoever calls this knows that they are ours.
    pub(super) fn start(dir: &Path) -> Self {
        let index = dir.join("index.db");
        Self(Mutex::new(Some(std::thread::spawn(move || catch_up::open(&index, None)))))
    }

    /// The connection, for the first who asks, if it could be had: on a full disk there may be room for it only once the
    /// log was looked at. Whatever else it failed of happens to the caller again, where someone can be told.
    pub(super) fn take(&self) -> Option<Connection> {
        let thread = self.slot().take()?;
        thread.join().ok()?.ok()
    }

    fn slot(&self) -> MutexGuard<'_, Option<JoinHandle<Result<Connection>>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        drop(self.take());
    }
}

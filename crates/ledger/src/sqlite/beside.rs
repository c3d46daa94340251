//! The index, opened by another thread while the log is opened: a short command waits for little else.

use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use rusqlite::Connection;

use super::catch_up;

/// A connection that is there or on its way, for who reads first. Nobody waits for the thread longer than for this.
#[derive(Default)]
pub(super) struct Beside(Mutex<Option<JoinHandle<Option<Connection>>>>);

impl Beside {
    /// Begins to open the index in a directory, if it can be opened as it is.
    pub(super) fn start(dir: &Path) -> Self {
        let index = dir.join("index.db");
        Self(Mutex::new(Some(std::thread::spawn(move || catch_up::open_as_it_is(&index)))))
    }

    /// The connection, for the first who asks, if it could be had: the index may have to be made, and on a full disk there
    /// may be room for it only once the log was looked at. Whatever was in the way is met by the caller again, where someone
    /// can be told.
    pub(super) fn take(&self) -> Option<Connection> {
        self.slot().take()?.join().ok()?
    }

    fn slot(&self) -> MutexGuard<'_, Option<JoinHandle<Option<Connection>>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        drop(self.take());
    }
}

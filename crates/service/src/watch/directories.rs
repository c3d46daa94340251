//! The directories of runtimes, watched: what changes in them, and that they come and go.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::Duration;

use notify::event::{CreateKind, EventKind};
use notify::{Event, RecommendedWatcher, RecursiveMode, Watcher};

use crate::Place;

/// Changes that wait to be looked at; when there are more, all files are looked for anew.
const CHANGES_MAX: usize = 4_096;

pub(super) struct Directories {
    places: Vec<Watched>,
    watcher: Option<RecommendedWatcher>,
    changes: Receiver<PathBuf>,
    /// Something happened that changes do not tell: too much at once, or a new directory with files in it already.
    is_unclear: Arc<AtomicBool>,
}

struct Watched {
    place: Place,
    is_watched: bool,
}

impl Directories {
    pub(super) fn new(places: Vec<Place>) -> Self {
        let (sender, changes) = sync_channel(CHANGES_MAX);
        let is_unclear = Arc::new(AtomicBool::new(true));
        let unclear = is_unclear.clone();
        let tell = move |event: notify::Result<Event>| match event {
            Ok(event) if !event.need_rescan() => match event.kind {
                // Reading is no change; we do so ourselves.
                EventKind::Access(_) | EventKind::Remove(_) => {}
                EventKind::Create(CreateKind::Folder) => unclear.store(true, Ordering::Relaxed),
                EventKind::Any | EventKind::Create(_) | EventKind::Modify(_) | EventKind::Other => {
                    let is_full = event.paths.into_iter().any(|path| sender.try_send(path).is_err());
                    unclear.fetch_or(is_full, Ordering::Relaxed);
                }
            },
            Ok(_) | Err(_) => unclear.store(true, Ordering::Relaxed),
        };
        let places = places.into_iter().map(|place| Watched { place, is_watched: false }).collect();
        Self { places, watcher: notify::recommended_watcher(tell).ok(), changes, is_unclear }
    }

    /// Watches directories that have appeared, and forgets those that are gone. Returns those that are watched from now on.
    pub(super) fn look(&mut self) -> Vec<PathBuf> {
        let mut begun = Vec::new();
        for watched in &mut self.places {
            let Some(watcher) = &mut self.watcher else { continue };
            let is_there = watched.place.dir.is_dir();
            let mode = if watched.place.is_flat() { RecursiveMode::NonRecursive } else { RecursiveMode::Recursive };
            if watched.is_watched && !is_there {
                // It went with its directory.
                let _ = watcher.unwatch(&watched.place.dir);
                watched.is_watched = false;
            } else if !watched.is_watched && is_there && watcher.watch(&watched.place.dir, mode).is_ok() {
                watched.is_watched = true;
                begun.push(watched.place.dir.clone());
            }
        }
        if !begun.is_empty() {
            self.is_unclear.store(true, Ordering::Relaxed);
        }
        begun
    }

    /// Whether the system tells of changes in all directories that are there.
    pub(super) fn is_told(&self) -> bool {
        self.watcher.is_some() && self.places.iter().all(|watched| watched.is_watched || !watched.place.dir.is_dir())
    }

    /// Waits for a change, and returns it with those that came with it.
    pub(super) fn wait(&self, at_most: Duration) -> Vec<PathBuf> {
        match self.changes.recv_timeout(at_most) {
            Ok(first) => std::iter::once(first).chain(self.changes.try_iter().take(CHANGES_MAX)).collect(),
            Err(RecvTimeoutError::Timeout) => Vec::new(),
            Err(RecvTimeoutError::Disconnected) => {
                std::thread::sleep(at_most);
                Vec::new()
            }
        }
    }

    /// Whether files have to be looked for, because nobody told of all of them.
    pub(super) fn take_unclear(&self) -> bool {
        self.is_unclear.swap(false, Ordering::Relaxed)
    }

    pub(super) fn set_unclear(&self) {
        self.is_unclear.store(true, Ordering::Relaxed);
    }

    pub(super) fn places(&self) -> impl Iterator<Item = &Place> {
        self.places.iter().map(|watched| &watched.place)
    }

    /// The place that a path is in.
    pub(super) fn place_of(&self, path: &Path) -> Option<&Place> {
        self.places().find(|place| path.starts_with(&place.dir))
    }
}

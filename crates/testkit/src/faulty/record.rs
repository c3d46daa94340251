//! The ordered list of everything that changed on disk below the watched directory.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// One recorded change. Numbers begin at 1 and grow by one.
#[derive(Debug, Clone)]
pub struct Op {
    pub number: u64,
    pub action: Action,
}

/// What changed. Paths are relative to the watched directory.
#[derive(Debug, Clone)]
pub enum Action {
    /// Was there when watching began, and is taken as durable.
    Existing {
        path: Arc<Path>,
        bytes: Arc<[u8]>,
    },
    /// Directories are taken as durable from the start: losing one is not modelled.
    Directory {
        path: Arc<Path>,
    },
    Create {
        path: Arc<Path>,
    },
    Write {
        path: Arc<Path>,
        offset: u64,
        bytes: Arc<[u8]>,
    },
    Truncate {
        path: Arc<Path>,
        length: u64,
    },
    Sync {
        path: Arc<Path>,
        reach: SyncReach,
    },
    /// The writes before it may still reach the disk, but no later sync vouches for them.
    SyncFailed {
        path: Arc<Path>,
    },
    Delete {
        path: Arc<Path>,
        directory_synced: bool,
    },
    Rename {
        from: Arc<Path>,
        to: Arc<Path>,
    },
    DirectorySync {
        path: Arc<Path>,
    },
    Mark {
        label: Arc<str>,
        value: u64,
    },
}

/// What else a sync of a file makes durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SyncReach {
    /// Only what is in the file, which is all that POSIX promises.
    Bytes,
    /// Its name too, as journaling file systems do for new files.
    Name,
    /// Every name in its directory: the unix VFS syncs the directory at the first sync of a journal or log.
    Directory,
}

/// Something the test said happened, such as an acknowledgement given to a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mark {
    pub op: u64,
    pub label: Arc<str>,
    pub value: u64,
}

/// Records the changes that the shim sees and those that the engine makes with plain files.
///
/// The `note_*` calls belong *after* the thing they note, on the thread that did it: a note that comes before its
/// deed would let an image contain, or rely on, what never happened.
#[derive(Default)]
pub struct Recorder {
    log: Mutex<Log>,
}

#[derive(Default)]
struct Log {
    watch: Option<Watch>,
    generation: u64,
    ops: Vec<Op>,
}

struct Watch {
    given: PathBuf,
    canonical: PathBuf,
}

/// A path below the watched directory, valid until another directory is watched.
#[derive(Clone)]
pub(super) struct WatchedPath {
    pub(super) path: Arc<Path>,
    generation: u64,
}

impl Recorder {
    /// Forgets what was recorded and begins with the present contents of `directory`.
    pub fn watch(&self, directory: &Path) -> io::Result<()> {
        let canonical = directory.canonicalize()?;
        let mut existing = Vec::new();
        read_tree(&canonical, &canonical, &mut existing)?;

        let mut log = self.lock();
        log.generation += 1;
        log.watch = Some(Watch { given: directory.to_owned(), canonical });
        log.ops.clear();
        for action in existing {
            log.push(action);
        }
        Ok(())
    }

    /// A copy of the list so far; the bytes are shared.
    pub fn ops(&self) -> Vec<Op> {
        self.lock().ops.clone()
    }

    /// The number of the newest op, 0 if there is none.
    pub fn last_op(&self) -> u64 {
        self.lock().ops.len() as u64
    }

    /// Notes that something was acknowledged, with whatever the test needs in order to check it later.
    pub fn mark(&self, label: impl Into<Arc<str>>, value: u64) {
        let label = label.into();
        self.lock().push(Action::Mark { label, value });
    }

    /// The file was created, or emptied, and now holds exactly `bytes`.
    pub fn note_file_written(&self, path: &Path, bytes: &[u8]) {
        self.note(path, |log, path| {
            log.push(Action::Create { path: path.clone() });
            log.push(Action::Write { path, offset: 0, bytes: bytes.into() });
        });
    }

    /// `bytes` were written at `offset` of an existing file; appending is a write at its end.
    pub fn note_written_at(&self, path: &Path, offset: u64, bytes: &[u8]) {
        self.note(path, |log, path| log.push(Action::Write { path, offset, bytes: bytes.into() }));
    }

    pub fn note_truncated(&self, path: &Path, length: u64) {
        self.note(path, |log, path| log.push(Action::Truncate { path, length }));
    }

    /// The bytes of the file are durable; its name is only after [`Recorder::note_dir_synced`].
    pub fn note_file_synced(&self, path: &Path) {
        self.note(path, |log, path| log.push(Action::Sync { path, reach: SyncReach::Bytes }));
    }

    pub fn note_sync_failed(&self, path: &Path) {
        self.note(path, |log, path| log.push(Action::SyncFailed { path }));
    }

    pub fn note_dir_created(&self, directory: &Path) {
        self.note(directory, |log, path| log.push(Action::Directory { path }));
    }

    pub fn note_dir_synced(&self, directory: &Path) {
        self.note(directory, |log, path| log.push(Action::DirectorySync { path }));
    }

    pub fn note_renamed(&self, from: &Path, to: &Path) {
        let mut log = self.lock();
        if let (Some(from), Some(to)) = (log.relative(from), log.relative(to)) {
            log.push(Action::Rename { from, to });
        }
    }

    pub fn note_removed(&self, path: &Path) {
        self.note(path, |log, path| log.push(Action::Delete { path, directory_synced: false }));
    }

    /// The path as recorded, if it lies below the watched directory and its loss would matter.
    pub(super) fn watched(&self, path: &Path) -> Option<WatchedPath> {
        let log = self.lock();
        let path = log.relative(path).filter(|path| !path.to_string_lossy().ends_with("-shm"))?;
        Some(WatchedPath { path, generation: log.generation })
    }

    /// Does `act` and records what it reports. The list is locked meanwhile, so that its order is the order in which
    /// things happened: a write that races a sync must not be listed before it.
    pub(super) fn perform<R>(&self, file: &WatchedPath, act: impl FnOnce() -> (R, Option<Action>)) -> R {
        let mut log = self.lock();
        let (result, action) = act();
        if let Some(action) = action.filter(|_| file.generation == log.generation) {
            log.push(action);
        }
        result
    }

    fn note(&self, path: &Path, record: impl FnOnce(&mut Log, Arc<Path>)) {
        let mut log = self.lock();
        if let Some(path) = log.relative(path) {
            record(&mut log, path);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Log> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Log {
    fn push(&mut self, action: Action) {
        if self.watch.is_some() {
            self.ops.push(Op { number: self.ops.len() as u64 + 1, action });
        }
    }

    fn relative(&self, path: &Path) -> Option<Arc<Path>> {
        let watch = self.watch.as_ref()?;
        if path.is_relative() {
            return Some(path.into());
        }
        path.strip_prefix(&watch.canonical).or_else(|_| path.strip_prefix(&watch.given)).ok().map(Arc::from)
    }
}

fn read_tree(root: &Path, directory: &Path, found: &mut Vec<Action>) -> io::Result<()> {
    let mut paths: Vec<PathBuf> =
        fs::read_dir(directory)?.map(|entry| entry.map(|entry| entry.path())).collect::<io::Result<_>>()?;
    paths.sort();
    for absolute in paths {
        let path: Arc<Path> = absolute.strip_prefix(root).unwrap_or(&absolute).into();
        if absolute.is_dir() {
            found.push(Action::Directory { path });
            read_tree(root, &absolute, found)?;
        } else if !path.to_string_lossy().ends_with("-shm") {
            found.push(Action::Existing { path, bytes: fs::read(&absolute)?.into() });
        }
    }
    Ok(())
}

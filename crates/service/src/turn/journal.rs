//! What a run has received, before it is in the log: bytes in a file, so that a run whose process is killed loses nothing.
//!
//! The file is locked for as long as its process runs. Whoever finds one that is not ends that run (`recover`).

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use enjamb_core::provider::Dialect;
use enjamb_ledger::private;

use crate::{Result, ServiceError};

const DIRECTORY: &str = "turns";
/// A journal that is longer than this is not read back whole.
const BYTES_MAX: u64 = 1 << 30;

const THREAD: u8 = 0;
const REQUEST: u8 = 1;
const BYTES: u8 = 2;

/// The journal of a run that goes on.
#[derive(Debug)]
pub(super) struct Journal {
    path: PathBuf,
    file: File,
    record: Vec<u8>,
}

/// What a journal says.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Journaled {
    pub thread: String,
    /// The requests that were answered, with what came.
    pub requests: Vec<Received>,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Received {
    pub index: u64,
    pub dialect: Dialect,
    pub bytes: Vec<u8>,
}

/// A run whose process is gone, and its journal.
#[derive(Debug)]
pub(super) struct Orphan {
    pub run: String,
    pub journaled: Journaled,
    path: PathBuf,
    /// Locked while it is looked at, so that two commands do not end the same run.
    _file: File,
}

impl Journal {
    pub fn begin(store: &Path, run: &str, thread: &str) -> Result<Self> {
        let dir = store.join(DIRECTORY);
        let path = dir.join(run);
        let failed = |source| ServiceError::File { path: path.clone(), source };
        private::make_dir(&dir).map_err(failed)?;
        let file = OpenOptions::new().append(true).create_new(true).mode(0o600).open(&path).map_err(failed)?;
        file.try_lock().map_err(|error| failed(io::Error::from(error)))?;
        let mut journal = Self { path: path.clone(), file, record: Vec::new() };
        journal.write(THREAD, &[thread.as_bytes()])?;
        Ok(journal)
    }

    /// A request is answered: bytes that follow are of its answer.
    pub fn request(&mut self, index: u64, dialect: Dialect) -> Result<()> {
        self.write(REQUEST, &[&index.to_le_bytes(), dialect.name().as_bytes()])
    }

    pub fn bytes(&mut self, bytes: &[u8]) -> Result<()> {
        self.write(BYTES, &[bytes])
    }

    /// The run is over, and its frames are in the log.
    pub fn remove(self) {
        // One that stays is found to be of a run that has ended, and removed then.
        let _ = fs::remove_file(&self.path);
    }

    /// With one write, so that a kill leaves whole records but perhaps the last.
    fn write(&mut self, kind: u8, parts: &[&[u8]]) -> Result<()> {
        let length = parts.iter().map(|part| part.len()).sum::<usize>() as u32;
        self.record.clear();
        self.record.push(kind);
        self.record.extend_from_slice(&length.to_le_bytes());
        parts.iter().for_each(|part| self.record.extend_from_slice(part));
        self.file.write_all(&self.record).map_err(|source| ServiceError::File { path: self.path.clone(), source })
    }
}

impl Orphan {
    pub fn remove(self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// Journals whose processes are gone. One stat where no run was ever made.
pub(super) fn orphans(store: &Path) -> Vec<Orphan> {
    let Ok(entries) = fs::read_dir(store.join(DIRECTORY)) else { return Vec::new() };
    entries.flatten().filter_map(|entry| orphan(&entry.path())).collect()
}

fn orphan(path: &Path) -> Option<Orphan> {
    let run = path.file_name()?.to_str()?.to_owned();
    let file = File::open(path).ok()?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock | TryLockError::Error(_)) => return None,
    }
    // Whoever held it until now may have removed it.
    path.symlink_metadata().ok()?;
    let mut bytes = Vec::new();
    (&file).take(BYTES_MAX).read_to_end(&mut bytes).ok()?;
    Some(Orphan { run, journaled: read(&bytes), path: path.to_owned(), _file: file })
}

/// Reads records as far as they are whole.
fn read(mut rest: &[u8]) -> Journaled {
    let mut journaled = Journaled::default();
    while let Some((kind, payload, later)) = record(rest) {
        match kind {
            THREAD => journaled.thread = String::from_utf8_lossy(payload).into_owned(),
            REQUEST => journaled.requests.extend(received(payload)),
            BYTES => journaled.requests.last_mut().into_iter().for_each(|last| last.bytes.extend_from_slice(payload)),
            _ => {}
        }
        rest = later;
    }
    journaled
}

fn record(rest: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (kind, rest) = rest.split_first()?;
    let (length, rest) = rest.split_first_chunk::<4>()?;
    let length = u32::from_le_bytes(*length) as usize;
    (rest.len() >= length).then(|| (*kind, &rest[..length], &rest[length..]))
}

fn received(payload: &[u8]) -> Option<Received> {
    let (index, dialect) = payload.split_first_chunk::<8>()?;
    let dialect = Dialect::from_name(std::str::from_utf8(dialect).ok()?)?;
    Some(Received { index: u64::from_le_bytes(*index), dialect, bytes: Vec::new() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_journal_is_read_as_far_as_it_is_whole() {
        let store = tempfile::tempdir().unwrap();
        let mut journal = Journal::begin(store.path(), "r", "t").unwrap();
        assert!(orphans(store.path()).is_empty(), "its process runs");
        journal.request(0, Dialect::Chat).unwrap();
        journal.bytes(b"ab").unwrap();
        journal.bytes(b"cd").unwrap();
        drop(journal);
        let path = store.path().join(DIRECTORY).join("r");
        let whole = fs::read(&path).unwrap();
        let came = |bytes: &[u8]| read(bytes).requests.pop().map(|received| received.bytes).unwrap_or_default();
        for end in 0..=whole.len() {
            assert!(b"abcd".starts_with(&came(&whole[..end])), "{end}");
        }
        let mut found = orphans(store.path());
        let orphan = found.pop().unwrap();
        assert_eq!((orphan.run.as_str(), orphan.journaled.thread.as_str()), ("r", "t"));
        assert_eq!(orphan.journaled.requests, [Received { index: 0, dialect: Dialect::Chat, bytes: b"abcd".to_vec() }]);
        assert!(orphans(store.path()).is_empty(), "someone looks at it");
        orphan.remove();
        assert!(!path.exists());
    }
}

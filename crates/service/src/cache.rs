//! Materializations that were asked for more than once, kept beside the store. Nothing here is truth: every chunk is
//! checked before it is handed out, what does not match is forgotten, and the directory may be deleted at any time.
//!
//! A conversation is kept as a file of bytes and a small file, under the key of the request, that says what they are. One
//! that has grown at its end goes on in the same file of bytes.

mod entry;
mod keeper;
mod stream;
mod together;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use enjamb_core::chain::Stop;
use enjamb_core::{CommitId, Hasher};
use enjamb_ledger::private;

pub(crate) use entry::Entry;
pub(crate) use keeper::Keeper;
pub(crate) use stream::Broken;

/// Changes when the same deltas would be joined or translated to other bytes.
const TRANSLATOR_VERSION: u32 = 1;
/// What is checked as a whole before any of it is handed out. It is hashed while it is in the nearest cache of the
/// processor: a fourth of a megabyte takes a fifth longer.
const CHUNK_BYTES: u64 = 64 << 10;

/// Where materializations are kept, and how much.
#[derive(Clone)]
pub(crate) struct Cache {
    dir: PathBuf,
    /// Less is read again as fast as it is found here.
    pub(crate) bytes_min: u64,
    pub(crate) bytes_max: u64,
}

/// What was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Key([u8; 16]);

/// What is known of a request.
pub(crate) enum Known {
    /// It came before, and was answered without keeping the answer.
    Asked,
    Kept(Box<Entry>),
}

impl Key {
    pub(crate) fn of(tip: &CommitId, stop: &Stop, format: Option<&str>) -> Self {
        let mut hasher = Hasher::new();
        let fields = [tip.to_string(), stop.to_string(), format.unwrap_or_default().into()];
        for field in fields.iter().chain([&TRANSLATOR_VERSION.to_string()]) {
            hasher.update(field.as_bytes());
            hasher.update(b"\0");
        }
        let digest = hasher.finish();
        Self(*digest.as_bytes().first_chunk().expect("a digest is longer"))
    }

    fn name(&self) -> String {
        self.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

impl Cache {
    pub(crate) fn of(store: &Path) -> Self {
        Self { dir: store.join("cache"), bytes_min: 1 << 20, bytes_max: 1 << 30 }
    }

    pub(crate) fn is_empty(&self) -> bool {
        fs::read_dir(&self.dir).map_or(true, |mut files| files.next().is_none())
    }

    pub(crate) fn find(&self, key: &Key) -> Option<Known> {
        let text = fs::read_to_string(self.entry_path(key)).ok()?;
        if text.is_empty() {
            return Some(Known::Asked);
        }
        match Entry::parse(&text) {
            Some(entry) => Some(Known::Kept(Box::new(entry))),
            None => {
                self.forget(key);
                None
            }
        }
    }

    /// Remembers that someone asked. Whether that works is of no consequence.
    pub(crate) fn note(&self, key: &Key) {
        let _ = self.make_dir().and_then(|()| private::create(&self.entry_path(key)));
    }

    /// Forgets a request. Its bytes may be another's too; they go when there is no room for them.
    pub(crate) fn forget(&self, key: &Key) {
        let _ = fs::remove_file(self.entry_path(key));
    }

    fn entry_path(&self, key: &Key) -> PathBuf {
        self.dir.join(format!("{}.entry", key.name()))
    }

    fn data_path(&self, name: &str) -> PathBuf {
        self.dir.join(format!("{name}.bytes"))
    }

    fn make_dir(&self) -> io::Result<()> {
        private::make_dir(&self.dir)
    }

    /// Removes what was written longest ago until so many more bytes fit. An entry without its bytes is found out.
    fn make_room(&self, bytes: u64) -> io::Result<()> {
        let mut files: Vec<(SystemTime, u64, PathBuf)> = Vec::new();
        for file in fs::read_dir(&self.dir)?.flatten() {
            let meta = file.metadata()?;
            files.push((meta.modified()?, meta.len(), file.path()));
        }
        files.sort();
        let mut held: u64 = files.iter().map(|(_, len, _)| len).sum();
        let surplus = files.len().saturating_sub(FILES_MAX);
        for (at, (_, len, path)) in files.iter().enumerate() {
            if held + bytes <= self.bytes_max && at >= surplus {
                break;
            }
            fs::remove_file(path)?;
            held -= len;
        }
        Ok(())
    }
}

/// Files that are kept at most, however small.
const FILES_MAX: usize = 4_096;

//! Segment files: written and synced here, read through `object_store`, so that they may live anywhere later.

use std::collections::HashMap;
use std::fs::{self, File, TryLockError};
use std::io::{self, BufWriter};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use enjamb_core::{ArtifactId, Digest};
use futures_executor::block_on;
use object_store::local::LocalFileSystem;
use object_store::{ObjectStore, ObjectStoreExt, path::Path as ObjectPath};

use crate::Sink;
use crate::error::LedgerError;
use crate::private;
use crate::segment::{Blocks, Fetch, Key, RawBlock, ReadAt, Segment, SegmentError};

/// Raw bytes of blocks that are kept for the next reader.
const BLOCK_CACHE_BYTES_MAX: usize = 48 << 20;
/// Segments whose footers are kept.
const OPEN_SEGMENTS_MAX: usize = 64;

/// All segments of a store.
pub struct Segments {
    dir: PathBuf,
    store: Arc<dyn ObjectStore>,
    open: Mutex<HashMap<Digest, Arc<Segment<Stored>>>>,
    blocks: Mutex<BlockCache>,
}

/// A lock that ends when this is dropped, or when its process dies.
pub struct Lease(#[allow(dead_code)] File);

/// A segment being written, under a name that nothing refers to.
pub struct NewSegment {
    path: PathBuf,
    file: BufWriter<File>,
}

impl Segments {
    /// The segments of the store in `dir`.
    pub fn open(dir: &Path) -> Result<Self, LedgerError> {
        let dir = dir.join("segments");
        private::make_dir(&dir).map_err(|error| LedgerError::io(&dir, error))?;
        let store = LocalFileSystem::new_with_prefix(&dir)
            .map_err(|error| LedgerError::io(&dir, io::Error::other(error.to_string())))?;
        Ok(Self { dir, store: Arc::new(store), open: Mutex::default(), blocks: Mutex::default() })
    }

    /// Keeps files that nothing names yet from being swept. Held from before a segment is begun until it is named.
    pub fn lease(&self) -> Result<Lease, LedgerError> {
        let file = self.lock_file("lease.lock")?;
        file.lock_shared().map_err(|error| LedgerError::io(self.dir.join("lease.lock"), error))?;
        Ok(Lease(file))
    }

    /// Excludes every lease, in this process and in others; `None` while there is one.
    pub(crate) fn no_leases(&self) -> Result<Option<Lease>, LedgerError> {
        self.try_exclusive("lease.lock")
    }

    /// Excludes other maintenance, in this process and in others; `None` while there is some.
    pub(crate) fn maintenance(&self) -> Result<Option<Lease>, LedgerError> {
        self.try_exclusive("maintenance.lock")
    }

    fn try_exclusive(&self, name: &str) -> Result<Option<Lease>, LedgerError> {
        let file = self.lock_file(name)?;
        match file.try_lock() {
            Ok(()) => Ok(Some(Lease(file))),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(LedgerError::io(self.dir.join(name), error)),
        }
    }

    fn lock_file(&self, name: &str) -> Result<File, LedgerError> {
        let path = self.dir.join(name);
        private::create_if_missing(&path).map_err(|error| LedgerError::io(path, error))
    }

    /// Begins a new segment.
    pub fn create(&self) -> Result<NewSegment, LedgerError> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let name = format!("tmp-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let path = self.dir.join(name);
        let file = private::create(&path).map_err(|error| LedgerError::io(&path, error))?;
        Ok(NewSegment { path, file: BufWriter::with_capacity(1 << 18, file) })
    }

    /// Makes a finished segment durable under its name. Only then may a record name it.
    pub fn publish(&self, new: NewSegment, digest: &Digest) -> Result<(), LedgerError> {
        let file = new.file.into_inner().map_err(|error| LedgerError::io(&new.path, error.into_error()))?;
        file.sync_all().map_err(|error| LedgerError::io(&new.path, error))?;
        let path = self.path(digest);
        fs::rename(&new.path, &path).map_err(|error| LedgerError::io(&path, error))?;
        sync_dir(&self.dir)
    }

    /// Gives up a segment that turned out not to be needed.
    pub fn discard(&self, new: NewSegment) {
        // A file left behind is swept by `gc`.
        let _ = fs::remove_file(&new.path);
    }

    pub fn path(&self, digest: &Digest) -> PathBuf {
        self.dir.join(file_name(digest))
    }

    /// Every file in the segment directory but locks: segments by digest, and what else there is by name.
    pub fn files(&self) -> Result<Vec<SegmentFile>, LedgerError> {
        let entries = fs::read_dir(&self.dir).map_err(|error| LedgerError::io(&self.dir, error))?;
        let mut files = Vec::new();
        for entry in entries {
            let entry = entry.map_err(|error| LedgerError::io(&self.dir, error))?;
            let meta = match entry.metadata() {
                Ok(meta) => meta,
                // Someone published or swept it since the directory was read.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(LedgerError::io(entry.path(), error)),
            };
            let name = entry.file_name().to_string_lossy().into_owned();
            if name.ends_with(".lock") {
                continue;
            }
            let digest = name.strip_suffix(".seg").and_then(Digest::from_hex);
            files.push(SegmentFile { path: entry.path(), digest, bytes: meta.len() });
        }
        files.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(files)
    }

    pub fn remove(&self, file: &SegmentFile) -> Result<(), LedgerError> {
        fs::remove_file(&file.path).map_err(|error| LedgerError::io(&file.path, error))
    }

    /// The footer of a segment, checked.
    pub fn segment(&self, digest: &Digest) -> Result<Arc<Segment<Stored>>, SegmentError> {
        if let Some(segment) = lock(&self.open).get(digest) {
            return Ok(segment.clone());
        }
        let segment = Arc::new(Segment::open(self.stored(digest)?, *digest)?);
        let mut open = lock(&self.open);
        if open.len() >= OPEN_SEGMENTS_MAX {
            open.clear();
        }
        open.insert(*digest, segment.clone());
        Ok(segment)
    }

    /// A reader of a segment's bytes, not looked at yet.
    pub fn stored(&self, digest: &Digest) -> Result<Stored, SegmentError> {
        let path = ObjectPath::from(file_name(digest));
        let found = block_on(self.store.head(&path));
        let meta = found.map_err(|error| match error {
            object_store::Error::NotFound { .. } => SegmentError::MissingSegment { segment: *digest },
            other => SegmentError::Io {
                segment: *digest,
                place: crate::segment::Place::File,
                source: io::Error::other(other.to_string()),
            },
        })?;
        Ok(Stored { store: self.store.clone(), path, len: meta.size })
    }

    /// The body of a sealed record.
    pub fn record(&self, segment: &Digest, n: u64) -> Result<Vec<u8>, LedgerError> {
        Ok(self.segment(segment)?.record(n, &mut Blocks::new(self))?)
    }

    /// As `record`, at the end of what `out` holds.
    pub fn append_record(&self, segment: &Digest, n: u64, out: &mut Vec<u8>) -> Result<(), LedgerError> {
        Ok(self.segment(segment)?.append_record(n, &mut Blocks::new(self), out)?)
    }

    /// Streams a range of a large artifact, each chunk checked before it is handed out.
    pub fn artifact(
        &self,
        segment: &Digest,
        id: &ArtifactId,
        range: Range<u64>,
        sink: &mut Sink<'_>,
    ) -> Result<(), LedgerError> {
        let segment = self.segment(segment)?;
        let entry = segment.entry(&Key::Artifact(*id))?;
        let mut take = |bytes: &[u8]| sink(bytes).map_err(LedgerError::Output);
        segment.read_object(&entry, range, &mut Blocks::new(self), &mut take)
    }
}

impl Fetch for Segments {
    fn block(&self, segment: &Digest, block: u32) -> Result<RawBlock, SegmentError> {
        if let Some(bytes) = lock(&self.blocks).get(segment, block) {
            return Ok(bytes);
        }
        let bytes = RawBlock::new(self.segment(segment)?.load_block(block)?);
        lock(&self.blocks).put(segment, block, bytes.clone());
        Ok(bytes)
    }
}

impl NewSegment {
    pub fn writer(&mut self) -> &mut BufWriter<File> {
        &mut self.file
    }
}

/// A file of the segment directory.
#[derive(Clone, Debug)]
pub struct SegmentFile {
    pub path: PathBuf,
    /// `None` when the name is not that of a segment.
    pub digest: Option<Digest>,
    pub bytes: u64,
}

/// The bytes of one segment, wherever the object store keeps them.
pub struct Stored {
    store: Arc<dyn ObjectStore>,
    path: ObjectPath,
    len: u64,
}

impl Stored {
    pub fn file_bytes(&self) -> u64 {
        self.len
    }
}

impl ReadAt for Stored {
    fn file_len(&self) -> io::Result<u64> {
        Ok(self.len)
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        let range = offset..offset + buf.len() as u64;
        let bytes =
            block_on(self.store.get_range(&self.path, range)).map_err(|error| io::Error::other(error.to_string()))?;
        if bytes.len() != buf.len() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        buf.copy_from_slice(&bytes);
        Ok(())
    }
}

/// Blocks by last use, dropped from the least recent on when they grow past the bound.
#[derive(Default)]
struct BlockCache {
    blocks: HashMap<(Digest, u32), (RawBlock, u64)>,
    bytes: usize,
    clock: u64,
}

impl BlockCache {
    fn get(&mut self, segment: &Digest, block: u32) -> Option<RawBlock> {
        self.clock += 1;
        let (bytes, used) = self.blocks.get_mut(&(*segment, block))?;
        *used = self.clock;
        Some(bytes.clone())
    }

    fn put(&mut self, segment: &Digest, block: u32, bytes: RawBlock) {
        self.clock += 1;
        self.bytes += bytes.len();
        if let Some((old, _)) = self.blocks.insert((*segment, block), (bytes, self.clock)) {
            self.bytes -= old.len();
        }
        while self.bytes > BLOCK_CACHE_BYTES_MAX && self.blocks.len() > 1 {
            self.drop_oldest();
        }
    }

    fn drop_oldest(&mut self) {
        let oldest = self.blocks.iter().min_by_key(|(_, (_, used))| *used).map(|(key, _)| *key);
        if let Some((bytes, _)) = oldest.and_then(|key| self.blocks.remove(&key)) {
            self.bytes -= bytes.len();
        }
    }
}

fn file_name(digest: &Digest) -> String {
    format!("{digest}.seg")
}

/// Makes names in a directory as durable as the files they name.
pub(crate) fn sync_dir(dir: &Path) -> Result<(), LedgerError> {
    File::open(dir).and_then(|dir| dir.sync_all()).map_err(|error| LedgerError::io(dir, error))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

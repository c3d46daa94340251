//! Segment files: written and synced here, pushed upstream where a store has one, and read from wherever they are.

mod blocks;
mod stored;
mod upstream;

use std::collections::HashMap;
use std::fs::{self, File, TryLockError};
use std::io::{self, BufWriter};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use enjamb_core::{ArtifactId, Digest};

use crate::Sink;
use crate::error::LedgerError;
use crate::objects::file_name;
use crate::private;
use crate::segment::{Blocks, Fetch, Key, Place, RawBlock, Segment, SegmentError};
use blocks::BlockCache;
pub use stored::Stored;
pub(crate) use upstream::{About, Register, Role, Upstream};

/// How a note ends that says of a segment that it is upstream.
pub(crate) const AWAY: &str = ".away";
/// Segments whose footers are kept.
const OPEN_SEGMENTS_MAX: usize = 64;
/// Raw blocks that are kept for who reads all once.
const PASSING_BYTES_MAX: usize = 8 << 20;

/// All segments of a store.
pub struct Segments {
    dir: PathBuf,
    /// Where they live; without one, here.
    upstream: Option<Arc<Upstream>>,
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
        Ok(Self { dir, upstream: None, open: Mutex::default(), blocks: Mutex::default() })
    }

    /// The same, with a place that they live in; what is in the directory is there to be read sooner.
    pub(crate) fn with_upstream(self, upstream: Upstream) -> Self {
        Self { upstream: Some(Arc::new(upstream)), ..self }
    }

    /// The same, for who reads all once: little that is unpacked is kept, and nothing of it where others would miss it.
    pub(crate) fn in_passing(&self) -> Self {
        let blocks = Mutex::new(BlockCache::of(PASSING_BYTES_MAX));
        Self { dir: self.dir.clone(), upstream: self.upstream.clone(), open: Mutex::default(), blocks }
    }

    pub(crate) fn upstream(&self) -> Option<&Upstream> {
        self.upstream.as_deref()
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

    /// A name that nobody else uses.
    fn new_path(&self) -> PathBuf {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        self.dir.join(format!("tmp-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed)))
    }

    /// A file for bytes that are needed for a while.
    pub(crate) fn scratch(&self) -> Result<File, LedgerError> {
        let path = self.new_path();
        private::scratch(&path).map_err(|error| LedgerError::io(&path, error))
    }

    /// Begins a new segment.
    pub fn create(&self) -> Result<NewSegment, LedgerError> {
        let path = self.new_path();
        let file = private::create(&path).map_err(|error| LedgerError::io(&path, error))?;
        Ok(NewSegment { path, file: BufWriter::with_capacity(1 << 18, file) })
    }

    /// Makes a finished segment durable under its name. Only then may a record name it.
    pub fn publish(&self, new: NewSegment, digest: &Digest) -> Result<(), LedgerError> {
        let file = new.file.into_inner().map_err(|error| LedgerError::io(&new.path, error.into_error()))?;
        file.sync_all().map_err(|error| LedgerError::io(&new.path, error))?;
        let path = self.path(digest);
        fs::rename(&new.path, &path).map_err(|error| LedgerError::io(&path, error))?;
        sync_dir(&self.dir)?;
        match &self.upstream {
            Some(upstream) if upstream.role == Role::Home => self.push(digest),
            _ => Ok(()),
        }
    }

    /// Puts a segment that is here where all segments live, and notes that it is there.
    pub(crate) fn push(&self, digest: &Digest) -> Result<(), LedgerError> {
        let Some(upstream) = &self.upstream else { return Ok(()) };
        upstream.push(digest, &self.path(digest))
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
            if name.ends_with(".lock") || name.ends_with(AWAY) {
                continue;
            }
            let digest = name.strip_suffix(".seg").and_then(Digest::from_hex);
            let used = meta.modified().unwrap_or(SystemTime::UNIX_EPOCH);
            files.push(SegmentFile { path: entry.path(), digest, bytes: meta.len(), used });
        }
        files.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(files)
    }

    pub fn remove(&self, file: &SegmentFile) -> Result<(), LedgerError> {
        // An open file takes up room though it has no name.
        file.digest.map(|digest| lock(&self.open).remove(&digest));
        fs::remove_file(&file.path).map_err(|error| LedgerError::io(&file.path, error))
    }

    /// The footer of a segment, checked.
    pub fn segment(&self, digest: &Digest) -> Result<Arc<Segment<Stored>>, SegmentError> {
        if let Some(segment) = lock(&self.open).get(digest) {
            return Ok(segment.clone());
        }
        // Of several who want what is not here one fetches it.
        let _turn = self.upstream.as_ref().map(|upstream| upstream.turn(digest));
        if let Some(segment) = lock(&self.open).get(digest) {
            return Ok(segment.clone());
        }
        let opened = self.stored(digest).and_then(|stored| Segment::open(stored, *digest));
        let segment = Arc::new(opened.or_else(|error| Segment::open(self.mended(digest, error)?, *digest))?);
        let mut open = lock(&self.open);
        if open.len() >= OPEN_SEGMENTS_MAX {
            open.clear();
        }
        open.insert(*digest, segment.clone());
        Ok(segment)
    }

    /// Whether a segment is there: here with a footer that is right, or upstream.
    pub(crate) fn glance(&self, digest: &Digest) -> Result<(), SegmentError> {
        match self.path(digest).is_file() || self.upstream.is_none() {
            true => self.segment(digest).map(drop),
            false => self.glance_upstream(digest),
        }
    }

    /// Whether a segment is upstream, if it should be.
    pub(crate) fn glance_upstream(&self, digest: &Digest) -> Result<(), SegmentError> {
        self.upstream.as_ref().map_or(Ok(()), |upstream| upstream.glance(digest))
    }

    /// The file of a segment, brought here if it is only upstream.
    pub(crate) fn brought(&self, digest: &Digest) -> Result<PathBuf, LedgerError> {
        let path = self.path(digest);
        let Some(upstream) = self.upstream.as_ref().filter(|_| !path.is_file()) else { return Ok(path) };
        let about = upstream.about(digest)?.ok_or(SegmentError::MissingSegment { segment: *digest })?;
        upstream.fetch(&about, &path)?;
        Ok(path)
    }

    /// A reader of a segment's bytes, not looked at yet.
    pub fn stored(&self, digest: &Digest) -> Result<Stored, SegmentError> {
        let path = self.path(digest);
        match (Stored::here(&path), &self.upstream) {
            (Ok(stored), None) => Ok(stored),
            (Ok(stored), Some(_)) => Ok(stored.touch()),
            (Err(error), None) if error.kind() == io::ErrorKind::NotFound => {
                Err(SegmentError::MissingSegment { segment: *digest })
            }
            (Err(source), None) => Err(SegmentError::Io { segment: *digest, place: Place::File, source }),
            (Err(_), Some(upstream)) => Stored::away(upstream, digest, path),
        }
    }

    /// Another copy of a segment whose bytes turned out to be wrong, or the error if there is none.
    fn mended(&self, digest: &Digest, error: SegmentError) -> Result<Stored, SegmentError> {
        let Some(upstream) = &self.upstream else { return Err(error) };
        if !matches!(error, SegmentError::Corrupt { .. }) {
            return Err(error);
        }
        lock(&self.open).remove(digest);
        Stored::anew(upstream, digest, &self.path(digest)).ok_or(error)
    }

    /// The body of a sealed record.
    pub fn record(&self, segment: &Digest, n: u64) -> Result<Vec<u8>, LedgerError> {
        Ok(self.segment(segment)?.record(n, &mut Blocks::new(self))?)
    }

    /// Bodies of sealed records in order, from `first` on and not past `last`: as many as have `bytes_max` together, at least
    /// one. They are read as they lie, so that a block, which may be large, is unpacked once for all of them.
    pub fn records(
        &self,
        segment: &Digest,
        first: u64,
        last: u64,
        bytes_max: u64,
    ) -> Result<Vec<Result<Vec<u8>, LedgerError>>, LedgerError> {
        let segment = self.segment(segment)?;
        let mut bytes = 0;
        let fits = |n: &u64| {
            bytes += segment.entry(&Key::Record(*n)).map_or(0, |entry| entry.len);
            *n == first || bytes <= bytes_max
        };
        let mut order: Vec<u64> = (first..=last).take_while(fits).collect();
        order.sort_by_key(|n| segment.block_of(*n));
        let mut blocks = Blocks::new(self);
        let mut read: Vec<_> = order.into_iter().map(|n| (n, segment.record(n, &mut blocks))).collect();
        read.sort_by_key(|(n, _)| *n);
        Ok(read.into_iter().map(|(_, body)| Ok(body?)).collect())
    }

    /// As `record`, at the end of what `out` holds, with the block that was read last at hand.
    pub(crate) fn append_record(
        &self,
        segment: &Digest,
        n: u64,
        blocks: &mut Blocks<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), LedgerError> {
        Ok(self.segment(segment)?.append_record(n, blocks, out)?)
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
    fn block(&self, segment: &Digest, block: u32, spent: Option<RawBlock>) -> Result<RawBlock, SegmentError> {
        if let Some(bytes) = lock(&self.blocks).get(segment, block) {
            return Ok(bytes);
        }
        let open = self.segment(segment)?;
        // Before it is unpacked: blocks are large, and an allocator may take its time to give their memory back.
        lock(&self.blocks).make_room(open.raw_len(block));
        let memory = spent.and_then(RawBlock::into_inner).unwrap_or_default();
        let loaded = open.load_block_into(memory, block);
        let again = |error| Segment::open(self.mended(segment, error)?, *segment)?.load_block(block);
        let bytes = RawBlock::new(loaded.or_else(again)?);
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
    /// When it was written; or opened last, if it lives upstream.
    pub used: SystemTime,
}

/// Makes names in a directory as durable as the files they name.
pub(crate) fn sync_dir(dir: &Path) -> Result<(), LedgerError> {
    File::open(dir).and_then(|dir| dir.sync_all()).map_err(|error| LedgerError::io(dir, error))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::segment::{Compression, SegmentOptions, SegmentWriter};

    /// Bytes that are others for each number.
    fn body(n: u64) -> Vec<u8> {
        (0..2_500_u64).flat_map(|at| (at.wrapping_mul(n * 2 + 1) ^ n << 32).to_le_bytes()).collect()
    }

    /// A segment of forty records of 20,000 bytes: first the odd ones, then the even ones.
    fn sealed(segments: &Segments) -> Digest {
        sealed_in(segments, 64 << 10)
    }

    fn sealed_in(segments: &Segments, block_bytes: u32) -> Digest {
        let compression = Compression { level: 1, window_log: 0 };
        let options = SegmentOptions { block_bytes, compression, record_chunk_bytes_min: u32::MAX };
        let mut new = segments.create().unwrap();
        let mut writer = SegmentWriter::new(new.writer(), options, |_: &Digest| None).unwrap();
        for n in (1..=40).step_by(2).chain((2..=40).step_by(2)) {
            writer.add_record(n, &body(n)).unwrap();
        }
        let (_, summary, _) = writer.finish().unwrap();
        segments.publish(new, &summary.digest).unwrap();
        summary.digest
    }

    #[test]
    fn records_that_are_read_together_have_each_block_unpacked_once() {
        let dir = tempfile::tempdir().unwrap();
        let segments = Segments::open(dir.path()).unwrap();
        let segment = sealed(&segments);
        let read = |first, last, bytes_max| -> Vec<Vec<u8>> {
            segments.records(&segment, first, last, bytes_max).unwrap().into_iter().map(|body| body.unwrap()).collect()
        };
        assert!(read(1, 40, u64::MAX) == (1..=40).map(body).collect::<Vec<_>>());
        let blocks = segments.segment(&segment).unwrap().footer().tables().blocks.len();
        assert!(blocks > 10);
        assert_eq!(lock(&segments.blocks).unpacked, blocks);
        assert!(read(7, 40, 0) == [body(7)], "at least one");
        assert!(read(7, 40, 50_000) == [body(7), body(8)], "no more than fit");
        assert!(read(39, 39, u64::MAX) == [body(39)], "no more than are asked for");
    }

    #[test]
    fn a_block_that_a_thread_is_reading_is_not_unpacked_again_for_what_others_read() {
        let dir = tempfile::tempdir().unwrap();
        let segments = Segments::open(dir.path()).unwrap();
        let segment = sealed(&segments);
        let (mut own, mut others) = (Blocks::new(&segments), Blocks::new(&segments));
        let read = |n, blocks: &mut Blocks<'_>| {
            let mut out = b"before".to_vec();
            segments.append_record(&segment, n, blocks, &mut out).unwrap();
            assert!(out == [&b"before"[..], &body(n)].concat(), "{n}");
        };
        read(1, &mut own);
        (5..=40).step_by(2).chain((2..=40).step_by(2)).for_each(|n| read(n, &mut others));
        assert!(lock(&segments.blocks).get(&segment, 0).is_none(), "there was no room for it");
        read(3, &mut own);
        let blocks = segments.segment(&segment).unwrap().footer().tables().blocks.len();
        assert_eq!(lock(&segments.blocks).unpacked, blocks);
    }

    #[test]
    fn a_large_block_takes_the_memory_of_the_one_before() {
        let dir = tempfile::tempdir().unwrap();
        let segments = Segments::open(dir.path()).unwrap();
        let segment = sealed_in(&segments, 200 << 10);
        let first = segments.block(&segment, 0, None).unwrap();
        let (place, raw) = (first.as_ptr(), first.to_vec());
        let second = segments.block(&segment, 1, Some(first)).unwrap();
        assert_eq!(second.as_ptr(), place, "there is no room for both");
        assert!(*second != raw);
        // Whoever reads it still is not to find another in its place.
        let third = segments.block(&segment, 2, Some(second.clone())).unwrap();
        assert_ne!(third.as_ptr(), place);
        assert!(*segments.block(&segment, 0, Some(third)).unwrap() == raw);
    }

    #[test]
    fn what_is_missing_is_told_of_that_record_alone() {
        let dir = tempfile::tempdir().unwrap();
        let segments = Segments::open(dir.path()).unwrap();
        let segment = sealed(&segments);
        let read = segments.records(&segment, 39, 42, u64::MAX).unwrap();
        assert_eq!(read.iter().map(Result::is_ok).collect::<Vec<_>>(), [true, true, false, false]);
    }
}

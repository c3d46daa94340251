//! The bytes of one segment, wherever they are.

use std::fs::{File, FileTimes};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::SystemTime;

use enjamb_core::Digest;

use super::upstream::{About, Upstream};
use crate::segment::{Place, ReadAt, SegmentError};

/// A segment that is not larger comes whole, in one request.
const WHOLE_BYTES_MAX: u64 = 4 << 20;
/// Of a larger one, parts come as they are asked for; once this share of it has come, all of it does.
const SHARE: u64 = 4;

pub struct Stored {
    len: u64,
    place: Where,
}

enum Where {
    Here(File),
    Away(Box<Away>),
}

/// A segment of which nothing is here, or not yet.
struct Away {
    upstream: Arc<Upstream>,
    about: About,
    /// Where it will be once it has come.
    path: PathBuf,
    fetched: AtomicU64,
    /// Somebody has fetched all of it, or tries to.
    is_coming: AtomicBool,
    here: OnceLock<File>,
}

impl Stored {
    pub(super) fn here(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        Ok(Self { len: file.metadata()?.len(), place: Where::Here(file) })
    }

    /// Notes that a copy is in use: what was used last is evicted last. Who may not say so does without.
    pub(super) fn touch(self) -> Self {
        if let Where::Here(file) = &self.place {
            let _ = file.set_times(FileTimes::new().set_modified(SystemTime::now()));
        }
        self
    }

    pub(super) fn away(upstream: &Arc<Upstream>, digest: &Digest, path: PathBuf) -> Result<Self, SegmentError> {
        let unreadable = |source| SegmentError::Io { segment: *digest, place: Place::File, source };
        let about = upstream.about(digest).map_err(|error| unreadable(io::Error::other(error)))?;
        let Some(about) = about else { return Err(SegmentError::MissingSegment { segment: *digest }) };
        if about.len <= WHOLE_BYTES_MAX {
            let fetched = upstream.fetch(&about, &path);
            return Ok(Self { len: about.len, place: Where::Here(fetched.map_err(|error| error.about(*digest))?) });
        }
        let (upstream, here) = (upstream.clone(), OnceLock::new());
        let (fetched, is_coming) = (AtomicU64::new(0), AtomicBool::new(false));
        Ok(Self {
            len: about.len,
            place: Where::Away(Box::new(Away { upstream, about, path, fetched, is_coming, here })),
        })
    }

    /// Fetched whole and compared with its digest, whatever is here already.
    pub(super) fn anew(upstream: &Arc<Upstream>, digest: &Digest, path: &Path) -> Option<Self> {
        let about = upstream.about(digest).ok()??;
        let file = upstream.fetch(&about, path).ok()?;
        Some(Self { len: about.len, place: Where::Here(file) })
    }

    pub fn file_bytes(&self) -> u64 {
        self.len
    }
}

impl ReadAt for Stored {
    fn file_len(&self) -> io::Result<u64> {
        Ok(self.len)
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        match &self.place {
            Where::Here(file) => file.read_at(offset, buf),
            Where::Away(away) => away.read_at(offset, buf),
        }
    }
}

impl Away {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        if let Some(file) = self.here.get() {
            return file.read_at(offset, buf);
        }
        // The trailer is known from the ledger; it has the digest of the footer, which has those of all blocks.
        if let Some(at) = offset.checked_sub(self.about.len - self.about.trailer.len() as u64) {
            return self.about.trailer.as_slice().read_at(at, buf);
        }
        let bytes = self.upstream.range(&self.about.segment, offset..offset + buf.len() as u64)?;
        buf.copy_from_slice(&bytes);
        let fetched = self.fetched.fetch_add(bytes.len() as u64, Ordering::Relaxed) + bytes.len() as u64;
        let is_enough = fetched > self.about.len / SHARE && self.upstream.has_room_for(self.about.len);
        if is_enough && !self.is_coming.swap(true, Ordering::Relaxed) {
            // Who asked has been answered: what cannot be fetched now is asked for in parts again.
            let come = self.upstream.fetch(&self.about, &self.path).map(|file| self.here.set(file));
            self.is_coming.store(come.is_ok(), Ordering::Relaxed);
        }
        Ok(())
    }
}

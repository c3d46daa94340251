//! Where segments live if not here: put there before anything names them, and brought back when they are read.

use std::fs::{self, File};
use std::io::{self, Write};
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use enjamb_core::Digest;

use crate::error::LedgerError;
use crate::objects::{Cause, Objects, ObjectsError, TRIES_MAX};
use crate::private;
use crate::segment::{Place, ReadAt, Segment, SegmentError, TRAILER_BYTES};

/// Copies of segments that stay on a machine, unless somebody said how many.
const COPIES_BYTES_MAX: u64 = 2 << 30;

/// Segments that are opened at once, about.
const TURNS: usize = 16;

/// What is known of a segment without reading it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct About {
    pub(crate) segment: Digest,
    pub(crate) len: u64,
    /// Its last bytes. They vouch for its footer, and that for all else.
    pub(crate) trailer: [u8; TRAILER_BYTES],
    /// Other segments that hold some of its bytes.
    pub(crate) deps: Vec<Digest>,
}

/// What a ledger keeps of its segments upstream, in the same transactions as all else.
pub(crate) trait Register: Send + Sync {
    /// Notes that a segment is about to be put. From here on nobody takes it away.
    fn announce(&self, about: &About) -> Result<(), LedgerError>;
    /// Notes that it was put and read back. From here on it may be relied on.
    fn confirm(&self, about: &About) -> Result<(), LedgerError>;
    /// What is known of a segment that is there; `None` when it is not.
    fn about(&self, segment: &Digest) -> Result<Option<About>, LedgerError>;
}

/// What an upstream is to a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// All segments live there, and are there before anything names them.
    Home,
    /// Some are there as well, and may be there only.
    Second,
}

pub(crate) struct Upstream {
    pub(super) role: Role,
    objects: Objects,
    register: Box<dyn Register>,
    /// Something came that may be more than is to stay here.
    grew: AtomicBool,
    /// Held while a segment is opened, one for all whose digests begin alike.
    turns: [Mutex<()>; TURNS],
}

impl Upstream {
    pub(crate) fn new(role: Role, objects: Objects, register: Box<dyn Register>) -> Self {
        Self { role, objects, register, grew: AtomicBool::new(false), turns: Default::default() }
    }

    pub(crate) fn objects(&self) -> &Objects {
        &self.objects
    }

    /// Excludes others who open the same segment.
    pub(super) fn turn(&self, segment: &Digest) -> MutexGuard<'_, ()> {
        self.turns[usize::from(segment.as_bytes()[0]) % TURNS].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether something came since this was asked last.
    pub(crate) fn take_grown(&self) -> bool {
        self.grew.swap(false, Ordering::Relaxed)
    }

    /// Bytes of copies that may stay here.
    pub(crate) fn copies_bytes_max(&self) -> u64 {
        let usual = match self.role {
            Role::Home => COPIES_BYTES_MAX,
            Role::Second => u64::MAX,
        };
        self.objects.address().cache_bytes_max.unwrap_or(usual)
    }

    pub(super) fn has_room_for(&self, len: u64) -> bool {
        len <= self.copies_bytes_max() / 2
    }

    pub(crate) fn about(&self, segment: &Digest) -> Result<Option<About>, LedgerError> {
        self.register.about(segment)
    }

    pub(super) fn push(&self, segment: &Digest, path: &Path) -> Result<(), LedgerError> {
        let file = File::open(path).map_err(|error| LedgerError::io(path, error))?;
        let about = read_about(&file, segment)?;
        self.register.announce(&about)?;
        self.objects.put(segment, &file, about.len)?;
        self.grew.store(true, Ordering::Relaxed);
        self.register.confirm(&about)
    }

    /// Whether a segment is there, and has the length that it must have.
    pub(super) fn glance(&self, segment: &Digest) -> Result<(), SegmentError> {
        let unreadable = |source| SegmentError::Io { segment: *segment, place: Place::File, source };
        let about = self.about(segment).map_err(|error| unreadable(io::Error::other(error)))?;
        let missing = || SegmentError::MissingSegment { segment: *segment };
        match self.objects.has(segment, about.ok_or_else(missing)?.len) {
            Ok(true) => Ok(()),
            Ok(false) => Err(missing()),
            Err(error) => Err(error.about(*segment)),
        }
    }

    pub(super) fn range(&self, segment: &Digest, range: Range<u64>) -> io::Result<Vec<u8>> {
        self.objects.range(segment, range).map_err(io::Error::other)
    }

    /// Brings a segment here, under its name once all its bytes were compared with it.
    pub(super) fn fetch(&self, about: &About, path: &Path) -> Result<File, ObjectsError> {
        let mut tried = 0;
        loop {
            tried += 1;
            match self.fetch_once(about, path) {
                Err(error) if error.cause == Cause::Wrong && tried < TRIES_MAX => {}
                fetched => return fetched,
            }
        }
    }

    fn fetch_once(&self, about: &About, path: &Path) -> Result<File, ObjectsError> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let name = format!("tmp-{}-fetched-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let new = path.with_file_name(name);
        let fetched = self.write(about, &new).and_then(|()| {
            fs::rename(&new, path).and_then(|()| File::open(path)).map_err(|error| self.disk(path, &error))
        });
        match fetched {
            Ok(file) => {
                self.grew.store(true, Ordering::Relaxed);
                Ok(file)
            }
            Err(error) => {
                // What cannot be removed now is swept later.
                let _ = fs::remove_file(&new);
                Err(error)
            }
        }
    }

    fn write(&self, about: &About, new: &Path) -> Result<(), ObjectsError> {
        let mut file = private::create(new).map_err(|error| self.disk(new, &error))?;
        self.objects.read_whole(&about.segment, about.len, &mut |bytes| file.write_all(bytes))?;
        file.sync_all().map_err(|error| self.disk(new, &error))
    }

    fn disk(&self, path: &Path, error: &io::Error) -> ObjectsError {
        let (doing, detail) = ("keeping a segment here", format!("{}: {error}", path.display()));
        ObjectsError { place: self.objects.shown(), doing, detail, cause: Cause::Unavailable }
    }
}

impl ObjectsError {
    /// What it means for whoever reads a segment.
    pub(super) fn about(self, segment: Digest) -> SegmentError {
        match self.cause {
            Cause::Missing => SegmentError::MissingSegment { segment },
            Cause::Wrong => SegmentError::Corrupt { segment, place: Place::File, what: "it is other bytes upstream" },
            Cause::Denied | Cause::Unavailable => {
                SegmentError::Io { segment, place: Place::File, source: io::Error::other(self) }
            }
        }
    }
}

/// What is to be known of a segment that is here.
fn read_about(file: &File, segment: &Digest) -> Result<About, LedgerError> {
    let unreadable = |source| SegmentError::Io { segment: *segment, place: Place::Trailer, source };
    let footer = Segment::open(file, *segment)?;
    let deps = footer.footer().tables().deps.clone();
    let len = file.file_len().map_err(unreadable)?;
    let mut trailer = [0; TRAILER_BYTES];
    file.read_at(len - TRAILER_BYTES as u64, &mut trailer).map_err(unreadable)?;
    Ok(About { segment: *segment, len, trailer, deps })
}

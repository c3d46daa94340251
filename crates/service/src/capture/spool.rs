//! The spool: a file that hooks append to, and that whoever drains it takes away whole.
//!
//! `events` is appended to, each record with one write. To drain it, it is renamed to `taken`, read, and removed once what
//! it tells of is stored; what has to wait is left as `kept`. A hook holds a shared lock while it writes and looks whether
//! its file is still there, so nothing is appended to a file that was read already.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::OFlags;

use super::missed::Miss;

/// A spool that nobody drains grows no further than this.
pub(super) const SPOOL_BYTES_MAX: u64 = 16 << 20;

const EVENTS: &str = "events";
const TAKEN: &str = "taken";
const KEPT: &str = "kept";
/// How often a hook opens the file anew because it was taken meanwhile.
const OPENINGS_MAX: usize = 20;
/// How long a drainer waits for hooks that are still writing.
const WRITERS_WAIT: Duration = Duration::from_millis(500);

/// Appends a record, with one write.
pub(super) fn append(dir: &Path, record: &[u8]) -> Result<(), Miss> {
    for _ in 0..OPENINGS_MAX {
        let mut file = open(dir)?;
        match file.try_lock_shared() {
            Err(TryLockError::WouldBlock) => {
                std::thread::sleep(Duration::from_millis(1));
                continue;
            }
            // Where locks are not known, appending is worth more than the rare record that is read too late.
            Ok(()) | Err(TryLockError::Error(_)) => {}
        }
        let meta = file.metadata().map_err(|error| Miss::of(&error))?;
        if meta.nlink() == 0 {
            continue;
        }
        if meta.len() + record.len() as u64 > SPOOL_BYTES_MAX {
            return Err(Miss::SpoolFull);
        }
        return match file.write(record) {
            Ok(written) if written == record.len() => Ok(()),
            Ok(_) => Err(Miss::DiskFull),
            Err(error) => Err(Miss::of(&error)),
        };
    }
    Err(Miss::Busy)
}

fn open(dir: &Path) -> Result<File, Miss> {
    let path = dir.join(EVENTS);
    match open_appending(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            // Only within a store: one that was deleted is not made again by a hook.
            match DirBuilder::new().mode(0o700).create(dir) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(Miss::NoStore),
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(Miss::of(&error)),
                _ => {}
            }
            open_appending(&path).map_err(|error| Miss::of(&error))
        }
        opened => opened.map_err(|error| Miss::of(&error)),
    }
}

/// Opens a file of ours to append to it, without ever waiting: whatever lies there under its name is not followed.
pub(super) fn open_appending(path: &Path) -> io::Result<File> {
    let flags = (OFlags::NONBLOCK | OFlags::NOFOLLOW).bits();
    OpenOptions::new().append(true).create(true).mode(0o600).custom_flags(flags as i32).open(path)
}

/// A spool that was taken, and that nobody else takes meanwhile.
pub(super) struct Taken {
    dir: PathBuf,
    pub bytes: Vec<u8>,
    /// Held until this is done with: hooks that opened the file before it was taken do not write to it any more.
    _events: Option<File>,
    _turn: File,
}

/// Whether there is anything to drain. Costs three looks at a directory.
pub(super) fn is_empty(dir: &Path) -> bool {
    [EVENTS, TAKEN, KEPT].iter().all(|name| !is_there(&dir.join(name)))
}

/// All that waits, without taking it.
pub(super) fn waiting(dir: &Path) -> Vec<u8> {
    [KEPT, TAKEN, EVENTS].iter().filter_map(|name| read(&dir.join(name)).ok()).flatten().collect()
}

/// Takes what was kept, and all that was appended so far or was left over from an attempt that failed. `None` when there
/// is nothing, or somebody else is at it.
pub(super) fn take(dir: &Path) -> io::Result<Option<Taken>> {
    if is_empty(dir) {
        return Ok(None);
    }
    let turn = OpenOptions::new().create(true).append(true).mode(0o600).open(dir.join("lock"))?;
    if turn.try_lock().is_err() {
        return Ok(None);
    }
    let taken = dir.join(TAKEN);
    if !is_there(&taken) && is_there(&dir.join(EVENTS)) {
        fs::rename(dir.join(EVENTS), &taken)?;
    }
    let events = if is_there(&taken) { Some(File::open(&taken)?) } else { None };
    if !events.as_ref().is_none_or(wait_for_writers) {
        return Ok(None);
    }
    let mut bytes = read(&dir.join(KEPT)).unwrap_or_default();
    if events.is_some() {
        bytes.extend(read(&taken)?);
    }
    Ok(Some(Taken { dir: dir.to_owned(), bytes, _events: events, _turn: turn }))
}

impl Taken {
    /// Forgets what was taken but for these records, which stay for another time.
    pub(super) fn keep(self, records: &[u8]) -> io::Result<()> {
        let kept = self.dir.join(KEPT);
        if records.is_empty() {
            remove(&kept)?;
        } else {
            let mut file = tempfile::NamedTempFile::new_in(&self.dir)?;
            file.write_all(records)?;
            file.persist(kept)?;
        }
        // Should this not come to pass, some records are there twice, which says nothing else.
        remove(&self.dir.join(TAKEN))
    }
}

fn is_there(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok()
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

fn wait_for_writers(events: &File) -> bool {
    let began = Instant::now();
    loop {
        match events.try_lock() {
            Ok(()) | Err(TryLockError::Error(_)) => return true,
            Err(TryLockError::WouldBlock) if began.elapsed() > WRITERS_WAIT => return false,
            Err(TryLockError::WouldBlock) => std::thread::sleep(Duration::from_millis(2)),
        }
    }
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    // Nobody appends past the bound, but whatever lies here is read no further.
    File::open(path)?.take(SPOOL_BYTES_MAX * 2).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_many_append_while_it_is_drained_is_taken_once_each() {
        let home = tempfile::tempdir().unwrap();
        let dir = home.path().join("spool");
        const WRITERS: usize = 8;
        const EACH: usize = 200;
        let mut seen = Vec::new();
        std::thread::scope(|scope| {
            let writers: Vec<_> = (0..WRITERS)
                .map(|writer| {
                    let dir = &dir;
                    scope.spawn(move || {
                        for n in 0..EACH {
                            append(dir, format!("{writer}.{n}\n").as_bytes()).unwrap();
                        }
                    })
                })
                .collect();
            while !writers.iter().all(|writer| writer.is_finished()) {
                drain(&dir, &mut seen);
            }
        });
        drain(&dir, &mut seen);
        let mut expected: Vec<_> =
            (0..WRITERS).flat_map(|writer| (0..EACH).map(move |n| format!("{writer}.{n}"))).collect();
        seen.sort();
        expected.sort();
        assert!(seen == expected, "{} of {}", seen.len(), expected.len());
    }

    fn drain(dir: &Path, seen: &mut Vec<String>) {
        while let Some(taken) = take(dir).unwrap() {
            seen.extend(String::from_utf8_lossy(&taken.bytes).lines().map(str::to_owned));
            taken.keep(b"").unwrap();
        }
    }

    #[test]
    fn what_is_kept_comes_first_the_next_time() {
        let home = tempfile::tempdir().unwrap();
        let dir = home.path().join("spool");
        append(&dir, b"a\nb\n").unwrap();
        let taken = take(&dir).unwrap().unwrap();
        assert!(take(&dir).unwrap().is_none(), "one at a time");
        append(&dir, b"c\n").unwrap();
        taken.keep(b"b\n").unwrap();
        assert_eq!(waiting(&dir), b"b\nc\n");
        let taken = take(&dir).unwrap().unwrap();
        assert_eq!(taken.bytes, b"b\nc\n");
        drop(taken);
        append(&dir, b"d\n").unwrap();
        assert_eq!(take(&dir).unwrap().unwrap().bytes, b"b\nc\n", "what nobody was done with is there again");
        take(&dir).unwrap().unwrap().keep(b"").unwrap();
        assert_eq!(take(&dir).unwrap().unwrap().bytes, b"d\n");
    }

    #[test]
    fn a_spool_is_bounded_and_a_store_that_is_gone_stays_gone() {
        let home = tempfile::tempdir().unwrap();
        let record = vec![b'x'; 1 << 20];
        let dir = home.path().join("spool");
        let missed = (0..20).find_map(|_| append(&dir, &record).err());
        assert_eq!(missed, Some(Miss::SpoolFull));
        assert_eq!(append(&home.path().join("gone/spool"), b"x"), Err(Miss::NoStore));
        assert!(!home.path().join("gone").exists());
    }

    #[test]
    fn whatever_lies_in_its_place_is_a_miss_and_nothing_waits() {
        let home = tempfile::tempdir().unwrap();
        let dir = home.path().join("spool");
        fs::write(&dir, b"").unwrap();
        assert_eq!(append(&dir, b"x"), Err(Miss::Failed));
        fs::remove_file(&dir).unwrap();
        fs::create_dir_all(dir.join(EVENTS)).unwrap();
        assert_eq!(append(&dir, b"x"), Err(Miss::Failed));
        fs::remove_dir(dir.join(EVENTS)).unwrap();
        std::os::unix::fs::symlink("/dev/null", dir.join(EVENTS)).unwrap();
        assert_eq!(append(&dir, b"x"), Err(Miss::Failed));
    }
}

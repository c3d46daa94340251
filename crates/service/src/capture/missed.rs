//! Events that could not be spooled. There is nobody to tell, so a line is left wherever one can be: in the store's spool,
//! or in a directory of this user elsewhere. `status` counts them.

use std::fs::{self, DirBuilder};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use enjamb_core::Digest;

use super::spool::open_appending;

/// Why an event is not in the spool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Miss {
    NoStore,
    SpoolFull,
    DiskFull,
    Denied,
    Busy,
    UnknownRuntime,
    Failed,
}

impl Miss {
    const ALL: [Self; 7] =
        [Self::NoStore, Self::SpoolFull, Self::DiskFull, Self::Denied, Self::Busy, Self::UnknownRuntime, Self::Failed];

    pub(super) fn of(error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::WriteZero => Self::DiskFull,
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => Self::Denied,
            _ => Self::Failed,
        }
    }

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NoStore => "no-store",
            Self::SpoolFull => "spool-full",
            Self::DiskFull => "disk-full",
            Self::Denied => "denied",
            Self::Busy => "busy",
            Self::UnknownRuntime => "no-such-runtime",
            Self::Failed => "failed",
        }
    }

    /// What happened, in a few words.
    pub const fn sentence(self) -> &'static str {
        match self {
            Self::NoStore => "there was no store",
            Self::SpoolFull => "the spool was full",
            Self::DiskFull => "the disk was full",
            Self::Denied => "the store could not be written",
            Self::Busy => "the spool was busy",
            Self::UnknownRuntime => "the runtime is not known",
            Self::Failed => "the spool could not be written",
        }
    }
}

/// Where misses are noted: the store's own spool, then places that may be on another disk.
#[derive(Clone, Debug)]
pub struct MissedAt {
    store: String,
    own: PathBuf,
    elsewhere: Vec<PathBuf>,
}

/// Events that were missed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Missed {
    /// At least so many.
    pub count: u64,
    pub last: Option<(u64, Miss)>,
}

const FILE: &str = "missed";
/// Lines that one file takes; more say nothing new.
const FILE_BYTES_MAX: u64 = 64 << 10;
const STORE_CHARS: usize = 16;

/// Directories of this user, besides the store; `variable` answers what the environment says.
pub fn missed_elsewhere(variable: &dyn Fn(&str) -> Option<PathBuf>, temporary: &Path) -> Vec<PathBuf> {
    let state = variable("XDG_STATE_HOME").or_else(|| Some(variable("HOME")?.join(".local/state")));
    let named = [state, variable("XDG_RUNTIME_DIR")].into_iter().flatten().map(|dir| dir.join("enjamb"));
    let user = rustix::process::geteuid().as_raw();
    let shared = temporary.join(format!("enjamb-{user}"));
    named.chain([shared]).filter(|dir| dir.is_absolute()).collect()
}

impl MissedAt {
    /// `elsewhere` are directories of this user, made when needed.
    pub fn new(store: &Path, elsewhere: Vec<PathBuf>) -> Self {
        let absolute = std::path::absolute(store).unwrap_or_else(|_| store.to_owned());
        let mut name = Digest::of(absolute.as_os_str().as_encoded_bytes()).to_hex();
        name.truncate(STORE_CHARS);
        Self { store: name, own: super::spool_dir(store), elsewhere }
    }

    /// Leaves a line in the first place that takes one.
    pub(super) fn note(&self, at_ms: u64, miss: Miss) {
        let line = format!("{at_ms} {} {}\n", self.store, miss.as_str());
        if append_line(&self.own, &line).is_ok() {
            return;
        }
        let _ = self.elsewhere.iter().any(|dir| is_private(dir, true) && append_line(dir, &line).is_ok());
    }

    /// What was missed by hooks of this store.
    pub fn read(&self) -> Missed {
        let mut missed = Missed::default();
        for dir in self.dirs() {
            let text = fs::read_to_string(dir.join(FILE)).unwrap_or_default();
            for (at_ms, miss) in text.lines().filter_map(|line| self.ours(line)) {
                missed.count += 1;
                if missed.last.is_none_or(|(last_ms, _)| last_ms <= at_ms) {
                    missed.last = Some((at_ms, miss));
                }
            }
        }
        missed
    }

    /// Forgets misses that something else has made up for.
    pub fn forget(&self) -> io::Result<()> {
        for dir in self.dirs() {
            let path = dir.join(FILE);
            let Ok(text) = fs::read_to_string(&path) else { continue };
            let others: Vec<&str> = text.lines().filter(|line| self.ours(line).is_none()).collect();
            fs::remove_file(&path)?;
            others.iter().try_for_each(|line| append_line(dir, &format!("{line}\n")))?;
        }
        Ok(())
    }

    fn dirs(&self) -> impl Iterator<Item = &PathBuf> {
        let elsewhere = self.elsewhere.iter().filter(|dir| is_private(dir, false));
        std::iter::once(&self.own).chain(elsewhere)
    }

    fn ours(&self, line: &str) -> Option<(u64, Miss)> {
        let mut words = line.split(' ');
        let at_ms = words.next()?.parse().ok()?;
        words.next().filter(|store| *store == self.store)?;
        let word = words.next()?;
        Some((at_ms, Miss::ALL.into_iter().find(|miss| miss.as_str() == word)?))
    }
}

fn append_line(dir: &Path, line: &str) -> io::Result<()> {
    let mut file = open_appending(&dir.join(FILE))?;
    let meta = file.metadata()?;
    if !meta.is_file() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    if meta.len() < FILE_BYTES_MAX {
        file.write_all(line.as_bytes())?;
    }
    Ok(())
}

/// Whether a directory is there and nobody else can write to it; it may lie in one where everybody can.
fn is_private(dir: &Path, make: bool) -> bool {
    if make {
        // It is there already, or else what follows finds out.
        let _ = DirBuilder::new().recursive(true).mode(0o700).create(dir);
    }
    let user = rustix::process::geteuid().as_raw();
    fs::symlink_metadata(dir).is_ok_and(|meta| meta.is_dir() && meta.uid() == user && meta.mode() & 0o022 == 0)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_miss_is_noted_in_the_first_place_that_takes_it() {
        let home = tempfile::tempdir().unwrap();
        let (store, state) = (home.path().join("store"), home.path().join("state/enjamb"));
        let at = MissedAt::new(&store, vec![home.path().join("file/x"), state.clone()]);
        fs::write(home.path().join("file"), b"").unwrap();
        assert_eq!(at.read(), Missed::default());
        at.note(5, Miss::NoStore);
        at.note(9, Miss::DiskFull);
        assert_eq!(at.read(), Missed { count: 2, last: Some((9, Miss::DiskFull)) });
        let other = MissedAt::new(&home.path().join("other"), vec![state.clone()]);
        other.note(7, Miss::Denied);
        at.forget().unwrap();
        assert_eq!(at.read().count, 0);
        assert_eq!(other.read().count, 1, "those of another store stay");
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&state), mode(&state.join(FILE))), (0o700, 0o600));
    }

    #[test]
    fn a_directory_that_others_can_write_to_is_not_used() {
        let home = tempfile::tempdir().unwrap();
        let open = home.path().join("open");
        fs::create_dir(&open).unwrap();
        fs::set_permissions(&open, fs::Permissions::from_mode(0o777)).unwrap();
        let link = home.path().join("link");
        std::os::unix::fs::symlink(home.path(), &link).unwrap();
        let at = MissedAt::new(&home.path().join("store"), vec![open.clone(), link]);
        at.note(5, Miss::NoStore);
        assert_eq!(fs::read_dir(&open).unwrap().count(), 0);
        assert!(!home.path().join(FILE).exists());
    }

    #[test]
    fn misses_are_bounded() {
        let home = tempfile::tempdir().unwrap();
        let at = MissedAt::new(&home.path().join("store"), vec![home.path().join("state")]);
        (0..3000).for_each(|n| at.note(n, Miss::NoStore));
        assert!(fs::metadata(home.path().join("state").join(FILE)).unwrap().len() <= FILE_BYTES_MAX + 64);
    }
}

//! The root of a workspace, and ways to what is below it that no symlink leads astray.
//!
//! Every file is reached from the descriptor of the root, one name after another, and no name on the way is followed if
//! it is a symlink. Whoever swaps a directory for a link while we are at it gets an error, not somebody else's file.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use enjamb_core::order::CheckpointAt;
use enjamb_core::workspace::{check_name, escape};
use rustix::fs::{AtFlags, Mode, OFlags};

use super::WorkspaceError;
use crate::{Result, ServiceError};

const DIR: OFlags = OFlags::DIRECTORY.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
/// Opening a pipe or a device under a file's name must not wait for anybody.
const READ: OFlags = OFlags::NOFOLLOW.union(OFlags::NONBLOCK).union(OFlags::CLOEXEC);
const NEW: OFlags = OFlags::WRONLY.union(OFlags::CREATE).union(OFlags::EXCL).union(READ);

/// A directory that is checkpointed as a whole.
pub struct Root {
    fd: OwnedFd,
    path: PathBuf,
}

/// A directory of the workspace.
enum Dir<'r> {
    Root(BorrowedFd<'r>),
    Below(OwnedFd),
}

impl AsFd for Dir<'_> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Root(fd) => *fd,
            Self::Below(fd) => fd.as_fd(),
        }
    }
}

impl Root {
    /// The directory itself, whichever way was taken to it.
    pub fn open(path: &Path) -> Result<Self> {
        let failed = |source| ServiceError::File { path: path.to_owned(), source };
        let path = path.canonicalize().map_err(failed)?;
        if !path.is_dir() {
            return Err(WorkspaceError::NotADirectory(path).into());
        }
        let flags = OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = rustix::fs::open(&path, flags, Mode::empty()).map_err(|error| failed(error.into()))?;
        Ok(Self { fd, path })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The path as frames have it.
    pub(super) fn text(&self) -> String {
        escape(self.path.as_os_str().as_bytes())
    }

    /// A short name for the workspace, by which its files in the store and its stream go.
    pub(super) fn key(&self) -> String {
        CheckpointAt::key(&self.text())
    }

    /// A path that a person gave, relative to the root. It is taken as it is written: links in it are not followed.
    pub fn inside(&self, given: &Path, base: &Path) -> Result<Vec<u8>> {
        let outside = || WorkspaceError::Outside { path: given.display().to_string(), root: self.path.clone() };
        let joined = plain(&base.join(given)).ok_or_else(outside)?;
        // The base may have been reached through a link; the root was not.
        let below = joined.strip_prefix(&self.path).map(Path::to_owned).or_else(|_| {
            let base = base.canonicalize().unwrap_or_else(|_| base.to_owned());
            let joined = plain(&base.join(given)).unwrap_or_default();
            joined.strip_prefix(&self.path).map(Path::to_owned)
        });
        let below = below.map_err(|_| outside())?.as_os_str().as_bytes().to_vec();
        let mut names = below.split(|byte| *byte == b'/').filter(|name| !name.is_empty());
        // What a repository keeps for itself is no part of the workspace.
        if names.any(|name| check_name(name).is_err()) { Err(outside().into()) } else { Ok(below) }
    }

    /// The directory that a path lies in, and its name there.
    fn parent<'p>(&self, path: &'p [u8]) -> io::Result<(Dir<'_>, &'p OsStr)> {
        let (above, name) = match path.iter().rposition(|byte| *byte == b'/') {
            Some(slash) => (&path[..slash], &path[slash + 1..]),
            None => (&b""[..], path),
        };
        let mut dir = Dir::Root(self.fd.as_fd());
        for name in above.split(|byte| *byte == b'/').filter(|name| !name.is_empty()) {
            dir = Dir::Below(rustix::fs::openat(&dir, OsStr::from_bytes(name), DIR, Mode::empty())?);
        }
        Ok((dir, OsStr::from_bytes(name)))
    }

    pub(super) fn open_file(&self, path: &[u8]) -> io::Result<File> {
        let (dir, name) = self.parent(path)?;
        Ok(rustix::fs::openat(&dir, name, READ, Mode::empty())?.into())
    }

    pub(super) fn read_link(&self, path: &[u8]) -> io::Result<Vec<u8>> {
        let (dir, name) = self.parent(path)?;
        Ok(rustix::fs::readlinkat(&dir, name, Vec::new())?.into_bytes())
    }

    /// Makes a file that nothing had the name of.
    pub(super) fn create_file(&self, path: &[u8]) -> io::Result<File> {
        let (dir, name) = self.parent(path)?;
        Ok(rustix::fs::openat(&dir, name, NEW, Mode::from_raw_mode(0o600))?.into())
    }

    pub(super) fn create_link(&self, path: &[u8], target: &[u8]) -> io::Result<()> {
        let (dir, name) = self.parent(path)?;
        Ok(rustix::fs::symlinkat(OsStr::from_bytes(target), &dir, name)?)
    }

    pub(super) fn create_dir(&self, path: &[u8]) -> io::Result<()> {
        let (dir, name) = self.parent(path)?;
        Ok(rustix::fs::mkdirat(&dir, name, Mode::from_raw_mode(0o700))?)
    }

    /// Gives a file another name in the same directory, in place of whatever had it.
    pub(super) fn rename(&self, from: &[u8], to: &[u8]) -> io::Result<()> {
        let ((dir, name), (_, new_name)) = (self.parent(from)?, self.parent(to)?);
        Ok(rustix::fs::renameat(&dir, name, &dir, new_name)?)
    }

    pub(super) fn remove(&self, path: &[u8], is_dir: bool) -> io::Result<()> {
        let (dir, name) = self.parent(path)?;
        let flags = if is_dir { AtFlags::REMOVEDIR } else { AtFlags::empty() };
        Ok(rustix::fs::unlinkat(&dir, name, flags)?)
    }

    /// What stands at a path, itself and not what it may point to.
    pub(super) fn stat(&self, path: &[u8]) -> io::Result<rustix::fs::Stat> {
        let (dir, name) = self.parent(path)?;
        Ok(rustix::fs::statat(&dir, name, AtFlags::SYMLINK_NOFOLLOW)?)
    }

    pub(super) fn set_mode(&self, path: &[u8], mode: u32, is_dir: bool) -> io::Result<()> {
        let (dir, name) = self.parent(path)?;
        let flags = if is_dir { DIR } else { READ };
        let fd = rustix::fs::openat(&dir, name, flags, Mode::empty())?;
        Ok(rustix::fs::fchmod(&fd, Mode::from_raw_mode(mode))?)
    }

    /// All that was written to the file system of the root is on disk.
    pub(super) fn sync(&self) -> io::Result<()> {
        #[cfg(target_os = "linux")]
        rustix::fs::syncfs(&self.fd)?;
        #[cfg(not(target_os = "linux"))]
        rustix::fs::sync();
        Ok(())
    }
}

/// A path without `.` and `..`; `None` when it leads above everything.
fn plain(path: &Path) -> Option<PathBuf> {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir if !plain.pop() => return None,
            Component::ParentDir => {}
            other => plain.push(other),
        }
    }
    Some(plain)
}

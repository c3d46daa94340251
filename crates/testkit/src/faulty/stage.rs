//! One directory in memory on which images are laid out in turn.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use super::image::Image;

/// Lays images out in a directory that is reused: files that are the same as in the image before, and that nobody has
/// written since, are left alone.
pub struct Stage {
    directory: tempfile::TempDir,
    laid: BTreeMap<Arc<Path>, Arc<Vec<u8>>>,
}

impl Stage {
    /// In `/dev/shm` where there is one: syncs are free there, and recovery syncs a lot.
    pub fn new() -> io::Result<Self> {
        let memory = Path::new("/dev/shm");
        let directory = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() }?;
        Ok(Self { directory, laid: BTreeMap::new() })
    }

    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    /// Makes the directory hold exactly the image. Nothing in it may be open.
    pub fn lay(&mut self, image: &Image) -> io::Result<&Path> {
        let kept = self.clear_changed(image)?;
        remove_empty_directories(self.directory.path())?;
        image.make_directories(self.directory.path())?;
        for (path, bytes) in image.contents() {
            if !kept.contains(path) {
                write_stamped(&self.directory.path().join(path), bytes)?;
            }
        }
        self.laid = image.contents().clone();
        Ok(self.directory.path())
    }

    /// Removes everything but the files that are as the image wants them, and returns those.
    fn clear_changed(&self, image: &Image) -> io::Result<Vec<Arc<Path>>> {
        let root = self.directory.path();
        let mut kept = Vec::new();
        for absolute in files_below(root)? {
            let path: Arc<Path> = absolute.strip_prefix(root).unwrap_or(&absolute).into();
            let same = |wanted: &Arc<Vec<u8>>| self.laid.get(&path).is_some_and(|laid| Arc::ptr_eq(laid, wanted));
            if image.contents().get(&path).is_some_and(same) && fs::metadata(&absolute)?.modified()? == stamp() {
                kept.push(path);
            } else {
                fs::remove_file(&absolute)?;
            }
        }
        Ok(kept)
    }
}

/// A time that no write gives a file. The clock of the file system is too coarse to tell a write by the time that it
/// leaves, unless that time cannot be confused with the present.
fn stamp() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(1)
}

fn write_stamped(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = fs::File::create(path)?;
    io::Write::write_all(&mut file, bytes)?;
    file.set_modified(stamp())
}

fn files_below(root: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let mut directories = vec![root.to_owned()];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(&directory)? {
            let path = entry?.path();
            let list = if path.is_dir() { &mut directories } else { &mut files };
            list.push(path);
        }
    }
    Ok(files)
}

/// Directories that recovery made are not part of the next image. Those that still hold something are, and stay.
fn remove_empty_directories(root: &Path) -> io::Result<()> {
    for entry in fs::read_dir(root)? {
        let path = entry?.path();
        if path.is_dir() {
            remove_empty_directories(&path)?;
            if fs::read_dir(&path)?.next().is_none() {
                fs::remove_dir(&path)?;
            }
        }
    }
    Ok(())
}

//! Files and directories that only their owner reads. What agents were told and shown is nobody else's business.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

const FILE_MODE: u32 = 0o600;
const DIR_MODE: u32 = 0o700;

/// Makes a directory and those above it that are missing.
pub fn make_dir(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(DIR_MODE).create(path)
}

/// A new, empty file in place of whatever was there.
pub fn create(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create(true).truncate(true).mode(FILE_MODE).open(path)
}

/// An empty file without a name, gone when it is closed.
pub fn scratch(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new().read(true).write(true).create_new(true).mode(FILE_MODE).open(path)?;
    fs::remove_file(path)?;
    Ok(file)
}

/// Makes a file its owner's alone without opening it: whoever closes a file gives up all locks that the process has on it,
/// and those of SQLite are such locks.
pub fn restrict(path: &Path) -> io::Result<()> {
    fs::set_permissions(path, Permissions::from_mode(FILE_MODE))
}

/// The file as it is, or a new, empty one.
pub fn create_if_missing(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create(true).truncate(false).mode(FILE_MODE).open(path)
}

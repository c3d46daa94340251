//! One file written where none was: whole and checked, or not at all.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::{Result, ServiceError};

/// Writes a new file, lets it be checked as it reads back, and gives it its name. What has the name already is left alone.
pub(super) fn write(path: &Path, bytes: &[u8], check: impl FnOnce(&[u8]) -> Result<()>) -> Result<()> {
    if path.symlink_metadata().is_ok() {
        return Err(failed(path, io::ErrorKind::AlreadyExists.into()));
    }
    let dir = path.parent().unwrap_or(Path::new("."));
    let made = make_dir(dir).map_err(|source| failed(dir, source))?;
    let written = write_in(dir, path, bytes, check);
    if written.is_err() {
        // Only those that are empty go: nobody else's file is in them.
        made.iter().take_while(|dir| fs::remove_dir(dir).is_ok()).count();
    }
    written
}

fn write_in(dir: &Path, path: &Path, bytes: &[u8], check: impl FnOnce(&[u8]) -> Result<()>) -> Result<()> {
    let mut file =
        tempfile::Builder::new().prefix(".enjamb-").tempfile_in(dir).map_err(|source| failed(dir, source))?;
    file.write_all(bytes).and_then(|()| file.as_file().sync_all()).map_err(|source| failed(path, source))?;
    let read = fs::read(file.path()).map_err(|source| failed(path, source))?;
    check(&read)?;
    file.persist_noclobber(path).map_err(|error| failed(path, error.error))?;
    // The name is durable once its directory is; some file systems have no such sync.
    let _ = File::open(dir).and_then(|dir| dir.sync_all());
    Ok(())
}

/// Makes a directory, and says which were missing, the innermost first.
fn make_dir(dir: &Path) -> io::Result<Vec<PathBuf>> {
    let missing: Vec<PathBuf> = dir.ancestors().take_while(|dir| !dir.exists()).map(Path::to_owned).collect();
    if let Err(error) = fs::create_dir_all(dir) {
        missing.iter().for_each(|dir| drop(fs::remove_dir(dir)));
        return Err(error);
    }
    Ok(missing)
}

fn failed(path: &Path, source: io::Error) -> ServiceError {
    ServiceError::File { path: path.to_owned(), source }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_there_is_never_touched() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("a/b/session.jsonl");
        let check = |read: &[u8]| {
            assert_eq!(read, b"one\n");
            Ok(())
        };
        write(&path, b"one\n", check).unwrap();
        let again = write(&path, b"two\n", |_| Ok(())).unwrap_err();
        assert_eq!(again.kind(), enjamb_core::ErrorKind::Conflict);
        assert_eq!(fs::read(&path).unwrap(), b"one\n");
    }

    #[test]
    fn what_fails_its_check_leaves_nothing() {
        let home = tempfile::tempdir().unwrap();
        let refuse = |_: &[u8]| Err(ServiceError::NoStreamNamed);
        write(&home.path().join("a/b/session.jsonl"), b"one\n", refuse).unwrap_err();
        assert_eq!(fs::read_dir(home.path()).unwrap().count(), 0);
        fs::create_dir(home.path().join("a")).unwrap();
        write(&home.path().join("a/b/session.jsonl"), b"one\n", refuse).unwrap_err();
        assert_eq!(fs::read_dir(home.path().join("a")).unwrap().count(), 0);
    }
}

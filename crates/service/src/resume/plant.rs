//! One file written where none was: whole and checked, or not at all.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use crate::{Result, ServiceError};

const PIECE_BYTES: usize = 1 << 18;

/// Has a new file filled and checked as it reads back, and gives it its name. What has the name already is left alone.
pub(super) fn write<T>(
    path: &Path,
    fill: impl FnOnce(&mut dyn Write) -> Result<T>,
    check: impl FnOnce(&mut dyn Read, &T) -> Result<()>,
) -> Result<T> {
    if path.symlink_metadata().is_ok() {
        return Err(failed(path, io::ErrorKind::AlreadyExists.into()));
    }
    let dir = path.parent().unwrap_or(Path::new("."));
    let made = make_dir(dir).map_err(|source| failed(dir, source))?;
    let written = write_in(dir, path, fill, check);
    if written.is_err() {
        // Only those that are empty go: nobody else's file is in them.
        made.iter().take_while(|dir| fs::remove_dir(dir).is_ok()).count();
    }
    written
}

fn write_in<T>(
    dir: &Path,
    path: &Path,
    fill: impl FnOnce(&mut dyn Write) -> Result<T>,
    check: impl FnOnce(&mut dyn Read, &T) -> Result<()>,
) -> Result<T> {
    let mut file =
        tempfile::Builder::new().prefix(".enjamb-").tempfile_in(dir).map_err(|source| failed(dir, source))?;
    let filled = fill(file.as_file_mut())?;
    file.as_file().sync_all().map_err(|source| failed(path, source))?;
    let mut read = File::open(file.path()).map_err(|source| failed(path, source))?;
    check(&mut read, &filled)?;
    file.persist_noclobber(path).map_err(|error| failed(path, error.error))?;
    // The name is durable once its directory is; some file systems have no such sync.
    let _ = File::open(dir).and_then(|dir| dir.sync_all());
    Ok(filled)
}

/// Calls back with the bytes of a file, piece by piece.
pub(super) fn each_piece(path: &Path, file: &mut dyn Read, mut visit: impl FnMut(&[u8]) -> Result<()>) -> Result<()> {
    let mut piece = vec![0; PIECE_BYTES];
    loop {
        match file.read(&mut piece).map_err(|source| failed(path, source))? {
            0 => return Ok(()),
            read => visit(&piece[..read])?,
        }
    }
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

pub(super) fn failed(path: &Path, source: io::Error) -> ServiceError {
    ServiceError::File { path: path.to_owned(), source }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(bytes: &'static [u8]) -> impl FnOnce(&mut dyn Write) -> Result<()> {
        move |file| file.write_all(bytes).map_err(|source| failed(Path::new("it"), source))
    }

    #[test]
    fn what_is_there_is_never_touched() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("a/b/session.jsonl");
        let check = |file: &mut dyn Read, (): &()| {
            let mut read = String::new();
            file.read_to_string(&mut read).unwrap();
            assert_eq!(read, "one\n");
            Ok(())
        };
        write(&path, filled(b"one\n"), check).unwrap();
        let again = write(&path, filled(b"two\n"), |_, ()| Ok(())).unwrap_err();
        assert_eq!(again.kind(), enjamb_core::ErrorKind::Conflict);
        assert_eq!(fs::read(&path).unwrap(), b"one\n");
    }

    #[test]
    fn what_fails_leaves_nothing() {
        let home = tempfile::tempdir().unwrap();
        let refuse = |_: &mut dyn Read, (): &()| Err(ServiceError::NoStreamNamed);
        write(&home.path().join("a/b/session.jsonl"), filled(b"one\n"), refuse).unwrap_err();
        assert_eq!(fs::read_dir(home.path()).unwrap().count(), 0);
        fs::create_dir(home.path().join("a")).unwrap();
        write(&home.path().join("a/b/session.jsonl"), filled(b"one\n"), refuse).unwrap_err();
        let half = |file: &mut dyn Write| {
            file.write_all(b"half").unwrap();
            Err(ServiceError::NoStreamNamed)
        };
        write(&home.path().join("a/b/session.jsonl"), half, |_, ()| Ok(())).unwrap_err();
        assert_eq!(fs::read_dir(home.path().join("a")).unwrap().count(), 0);
    }
}

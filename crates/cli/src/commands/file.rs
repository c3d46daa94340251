//! Files that commands read from and write to.

use std::fs::File;
use std::io::{BufWriter, ErrorKind, Write};
use std::path::Path;

use enjamb_service::ServiceError;
use tempfile::Builder;

use crate::failure::{Failure, Result};

/// Opens a file to read, and says so when it is a directory.
pub fn open(path: &Path) -> Result<File> {
    let opened = File::open(path).and_then(|source| source.metadata().map(|meta| (source, meta)));
    let (source, meta) = opened.map_err(|source| failed(path, source))?;
    if meta.is_dir() {
        let detail = "it is a directory; name the files in it".to_owned();
        return Err(ServiceError::BadFile { path: path.to_owned(), detail }.into());
    }
    Ok(source)
}

/// Writes a new file. Until all of it is written nothing has its name, and what has it already is left alone.
pub fn create<T>(path: &Path, write: impl FnOnce(&mut dyn Write) -> Result<T>) -> Result<T> {
    if path.symlink_metadata().is_ok() {
        return Err(failed(path, ErrorKind::AlreadyExists.into()));
    }
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut builder = Builder::new();
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    let file = builder.prefix(".enjamb-").tempfile_in(dir).map_err(|source| failed(dir, source))?;
    let mut out = BufWriter::with_capacity(1 << 18, file);
    let written = write(&mut out)?;
    let file = out.into_inner().map_err(|error| failed(path, error.into_error()))?;
    file.persist_noclobber(path).map_err(|error| failed(path, error.error))?;
    Ok(written)
}

fn failed(path: &Path, source: std::io::Error) -> Failure {
    ServiceError::File { path: path.to_owned(), source }.into()
}

//! Where settings are kept: the user's own file, and those of the repository that somebody is in.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

use super::ConfigError;

/// No file of settings is longer.
const FILE_BYTES_MAX: u64 = 1 << 20;
const REPOSITORY_FILES: [&str; 2] = [".enjamb.toml", ".enjamb.local.toml"];

/// Where to look.
#[derive(Clone, Debug, Default)]
pub struct ConfigPlaces {
    /// The user's file, which need not be there unless it was named.
    pub user: Option<PathBuf>,
    /// Somebody named the user's file.
    pub is_named: bool,
    /// The directory that somebody is in.
    pub here: PathBuf,
}

/// A file as it was read.
#[derive(Clone, Debug)]
pub(super) struct FileText {
    pub path: PathBuf,
    pub text: String,
}

impl FileText {
    /// The line, from 1, of a byte.
    pub fn line(&self, at: usize) -> usize {
        let before = &self.text.as_bytes()[..at.min(self.text.len())];
        1 + before.iter().filter(|byte| **byte == b'\n').count()
    }
}

impl ConfigPlaces {
    /// As the environment says: `ENJAMB_CONFIG`, else below `XDG_CONFIG_HOME` or the home directory.
    pub fn of(variable: &dyn Fn(&str) -> Option<PathBuf>, here: PathBuf) -> Self {
        let named = variable("ENJAMB_CONFIG");
        let is_named = named.is_some();
        let usual = || variable("XDG_CONFIG_HOME").or_else(|| Some(variable("HOME")?.join(".config")));
        let user = named.or_else(|| Some(usual()?.join("enjamb/config.toml")));
        Self { user, is_named, here }
    }

    /// Where it is written which files are trusted: beside the user's own.
    pub(super) fn trusted(&self) -> Option<PathBuf> {
        Some(self.user.as_ref()?.with_file_name("trusted"))
    }

    pub(super) fn user_file(&self) -> Result<Option<FileText>, ConfigError> {
        let Some(path) = &self.user else { return Ok(None) };
        match read(path)? {
            None if self.is_named => {
                Err(ConfigError::Unreadable { path: path.clone(), source: ErrorKind::NotFound.into() })
            }
            found => Ok(found),
        }
    }

    /// What the user's file says; nothing, if it is not there.
    pub(super) fn user_text(&self) -> Result<String, ConfigError> {
        let found = self.user.as_ref().map(|path| read(path)).transpose()?.flatten();
        Ok(found.map(|file| file.text).unwrap_or_default())
    }

    /// The files of the repository, in the order in which they are laid over one another.
    pub(super) fn repository_files(&self) -> Result<Vec<FileText>, ConfigError> {
        let Some(dir) = self.repository() else { return Ok(Vec::new()) };
        let read = REPOSITORY_FILES.iter().map(|name| read(&dir.join(name)));
        Ok(read.collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect())
    }

    /// The nearest directory with such a file, no further up than where the repository begins.
    fn repository(&self) -> Option<&Path> {
        let root = self.here.ancestors().find(|dir| dir.join(".git").exists()).unwrap_or(&self.here);
        let within = self.here.ancestors().take_while(|dir| dir.starts_with(root));
        let has_one = |dir: &&Path| REPOSITORY_FILES.iter().any(|name| dir.join(name).symlink_metadata().is_ok());
        within.into_iter().find(has_one)
    }
}

/// A file's text, if it is there. What is not a plain file, or too long, is not read.
fn read(path: &Path) -> Result<Option<FileText>, ConfigError> {
    let unreadable = |source| ConfigError::Unreadable { path: path.to_owned(), source };
    let refused = |detail| ConfigError::NotAFile { path: path.to_owned(), detail };
    match path.metadata() {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(unreadable(error)),
        Ok(meta) if !meta.is_file() => return Err(refused("settings are read from a plain file")),
        Ok(_) => {}
    }
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(unreadable)?;
    file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(refused("it is longer than settings can be (1 MiB)"));
    }
    let text = String::from_utf8(bytes).map_err(|_| refused("it is not UTF-8"))?;
    Ok(Some(FileText { path: path.to_owned(), text }))
}

//! Which files of repositories are trusted: by path and content, so that a changed file is asked for again.
//!
//! Cloning a repository must not be enough to have it run something.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::PathBuf;

use enjamb_core::ArtifactId;

use super::places::FileText;
use super::{ConfigError, ConfigPlaces};

/// What the user said to trust: lines of a digest and a path.
#[derive(Clone, Debug, Default)]
pub struct Trust {
    lines: BTreeSet<String>,
}

impl Trust {
    pub(super) fn read(places: &ConfigPlaces) -> Result<Self, ConfigError> {
        let Some(path) = places.trusted() else { return Ok(Self::default()) };
        match std::fs::read_to_string(&path) {
            Ok(text) => Ok(Self { lines: text.lines().map(str::to_owned).collect() }),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Self::default()),
            Err(source) => Err(ConfigError::Unreadable { path, source }),
        }
    }

    pub(super) fn holds(&self, file: &FileText) -> bool {
        self.lines.contains(&line_of(file))
    }

    /// Trusts the files of the repository as they are, or no longer; returns which.
    pub fn grant(places: &ConfigPlaces, is_trusted: bool) -> Result<Vec<PathBuf>, ConfigError> {
        let files = places.repository_files()?;
        let mut trust = Self::read(places)?;
        for file in &files {
            // What an earlier content of the file was granted goes with it.
            trust.lines.retain(|line| path_of(line) != path_of(&line_of(file)));
            if is_trusted {
                trust.lines.insert(line_of(file));
            }
        }
        trust.write(places)?;
        Ok(files.into_iter().map(|file| file.path).collect())
    }

    /// Written beside its place and renamed: a reader sees the old list or the new one.
    fn write(&self, places: &ConfigPlaces) -> Result<(), ConfigError> {
        let Some(path) = places.trusted() else { return Ok(()) };
        let failed = |source| ConfigError::Unreadable { path: path.clone(), source };
        let dir = path.parent().expect("a file is in a directory");
        std::fs::create_dir_all(dir).map_err(failed)?;
        let mut file = tempfile::NamedTempFile::new_in(dir).map_err(failed)?;
        for line in &self.lines {
            writeln!(file, "{line}").map_err(failed)?;
        }
        file.as_file().sync_all().map_err(failed)?;
        file.persist(&path).map(drop).map_err(|error| failed(error.error))
    }
}

fn line_of(file: &FileText) -> String {
    let path = file.path.canonicalize().unwrap_or_else(|_| file.path.clone());
    format!("{} {:?}", ArtifactId::of(file.text.as_bytes()), path)
}

fn path_of(line: &str) -> &str {
    line.split_once(' ').map_or("", |(_, path)| path)
}

//! Importing what runtimes wrote: every byte of a file, cut into commits where turns end.
//!
//! A file's bytes become consecutive parts, each the delta of a commit; a frame in the stream of the file says which, so
//! that what was read, from where and how far follows from frames alone. Reading on begins after the last part that the
//! file still begins with: a file that grew adds its tail, and one that was rewritten becomes a branch from where it
//! differs. Many commits are stored with one sync, together with how far each file was read.

mod ahead;
mod bounded;
mod branches;
mod commit;
mod cut;
mod database;
mod document;
mod file;
mod group;
mod growth;
mod importer;
mod judge;
mod packed;
mod places;
mod segment;
mod source;
mod storing;
mod things;
mod told;
mod window;

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};

use enjamb_core::Timestamp;
use enjamb_core::redact::Redacted;

pub use places::{Place, Runtime, SourceFile, arrange, files_in, known_places};
pub(crate) use places::{named_files, transcript_at};
pub(crate) use source::stream_of;
pub use source::{KnownPart, SourceState};

use self::commit::Origin;
use self::file::FileImport;
use self::importer::Importer;
use crate::{Actor, Result, Store};

/// What the frame of a database says it is in: its sessions are sources of their own.
pub(crate) const DATABASE_FORMAT: &str = "opencode-db";

/// How to import.
#[derive(Clone, Debug)]
pub struct ImportOptions {
    pub principal: String,
    pub machine: Option<String>,
    pub by: Actor,
    pub bounds: ImportBounds,
    /// What whoever started the agent knows of it.
    pub started: Option<Started>,
}

/// An agent that was started by us: what its transcript does not say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Started {
    pub template: String,
    pub ticket: Option<String>,
    /// Why the transcript is read now.
    pub trigger: &'static str,
}

/// How much is held in memory, and how much a kill may undo.
#[derive(Clone, Copy, Debug)]
pub struct ImportBounds {
    /// Bytes that are read and understood at once. A line that is longer is kept without being understood.
    pub window_bytes: usize,
    /// Frames after which what was read is stored: what a kill undoes should not be much.
    pub group_frames: usize,
}

impl Default for ImportBounds {
    fn default() -> Self {
        Self { window_bytes: 8 << 20, group_frames: 1_000 }
    }
}

/// What an import came to.
#[derive(Clone, Debug, Default)]
pub struct Imported {
    /// Files that held something new, those that did not, and those of them that were rewritten since.
    pub files: u64,
    pub unchanged: u64,
    pub rewritten: u64,
    /// Bytes that were read in.
    pub bytes: u64,
    pub commits: u64,
    /// Commits that were here already, from a copy of the same file.
    pub known: u64,
    pub by_runtime: BTreeMap<&'static str, u64>,
    /// Records by the type that they say they are of.
    pub records: BTreeMap<String, u64>,
    /// Places that hold something else than a record, with their lines.
    pub issues: Vec<ImportIssue>,
    /// Sources in which secrets were found, and how many of each kind.
    pub secrets: Vec<SourceSecrets>,
    /// Files that could not be read, and why.
    pub failed: Vec<(PathBuf, String)>,
}

/// Secrets that were found in a source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceSecrets {
    pub path: String,
    pub session: Option<String>,
    pub found: Redacted,
}

/// Something in a file that was kept, but could not be understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImportIssue {
    pub path: PathBuf,
    pub line: u64,
    pub detail: String,
}

/// Told which file is read, and how many bytes of how many are done.
pub type ImportProgress<'a> = dyn FnMut(&Path, u64, u64) + 'a;

impl Store {
    /// Imports files in the order given. What a file holds that cannot be understood is kept and reported; a file that
    /// cannot be read is reported too, and the others go on.
    pub fn import(
        &self,
        files: Vec<SourceFile>,
        options: &ImportOptions,
        progress: &mut ImportProgress<'_>,
    ) -> Result<Imported> {
        let mut importer = Importer::new(self, options, progress);
        // A file that is named twice is read once.
        let mut queued = HashSet::new();
        let files = files.into_iter().filter(|file| queued.insert(file.path.clone())).collect();
        importer.queue_all(files)?;
        importer.run()?;
        Ok(importer.report)
    }

    /// Whether a file is as it was when it was last read, as far as can be told without reading it.
    pub fn is_imported(&self, file: &SourceFile) -> Result<bool> {
        let last = self.last_read(&source::stream_of(&path_text(&file.path)))?;
        if file.is_database() {
            let modified = database::last_modified(file).map(Timestamp::as_micros);
            return Ok(last.is_some_and(|last| last.modified_us.is_some() && last.modified_us == modified));
        }
        Ok(last.is_some_and(|last| {
            last.size == file.size
                && last.modified_us.is_some()
                && last.modified_us == file.modified.map(Timestamp::as_micros)
        }))
    }
}

impl Store {
    /// Whether a session was told as it is now, as far as can be told from when it last changed.
    fn is_told(&self, session: &things::Session) -> Result<bool> {
        let Some(modified) = session.modified.filter(|_| session.files.is_empty()) else { return Ok(false) };
        let last = self.last_read(&source::stream_of(&path_text(&session.path)))?;
        Ok(last.is_some_and(|last| last.modified_us == Some(modified.as_micros())))
    }
}

impl Imported {
    fn add(&mut self, import: FileImport) {
        if !import.in_files {
            self.files += 1;
            *self.by_runtime.entry(import.file.runtime.as_str()).or_default() += 1;
        }
        self.rewritten += u64::from(import.rewritten);
        if import.secrets_counted.total() > 0 {
            let Origin { path, session, .. } = import.origin;
            self.secrets.push(SourceSecrets { path, session, found: import.secrets_counted });
        }
        self.issues.extend(import.issues);
        for (kind, count) in import.counted {
            *self.records.entry(kind).or_default() += count;
        }
    }
}

/// The name of a file's stream: its path, absolute, as text.
pub(crate) fn path_text(path: &Path) -> String {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    match absolute.to_str() {
        Some(text) => text.to_owned(),
        // Two names that are no text may look the same; their bytes tell them apart.
        None => {
            let digest = enjamb_core::Digest::of(absolute.as_os_str().as_encoded_bytes()).to_hex();
            format!("{}~{}", absolute.to_string_lossy(), &digest[..16])
        }
    }
}

#[cfg(test)]
mod tests;

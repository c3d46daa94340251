//! Putting a session back where its runtime had it: for what was deleted, and never over what is there.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use enjamb_core::{Digest, Hasher};

use super::{ResumeError, RuntimeHomes, place, plant};
use crate::{Result, Runtime, ServiceError, SourceState, Store};

/// A session as it stands in its runtime again.
#[derive(Clone, Debug)]
pub struct Replanted {
    pub session: String,
    pub runtime: Runtime,
    /// The session's own file, then what lay beside it.
    pub files: Vec<ReplantedFile>,
    /// The program and its arguments.
    pub command: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplantedFile {
    pub path: PathBuf,
    pub bytes: u64,
    pub state: FileState,
}

/// What was found where a file belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileState {
    /// Nothing: it was put back, or would be.
    Missing,
    /// The file itself, perhaps with more at its end.
    There,
    /// Something else, which was left alone.
    Differs,
}

impl FileState {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Missing => "missing",
            Self::There => "there",
            Self::Differs => "differs",
        }
    }
}

impl Store {
    /// Writes the files of a session that are missing. Fails if its own file is there and is not what was stored.
    pub fn replant(&self, source: &SourceState, homes: &RuntimeHomes, dry_run: bool) -> Result<Replanted> {
        let (session, runtime) = replantable(source, homes)?;
        let own = self.put_back(source, dry_run)?;
        if own.state == FileState::Differs {
            return Err(ResumeError::Damaged { session, path: own.path }.into());
        }
        let mut files = vec![own];
        for beside in self.beside(source)? {
            files.push(self.put_back(&beside, dry_run)?);
        }
        Ok(Replanted { command: place::command(runtime, &session), session, runtime, files })
    }

    /// Files of the directory that bears the session's name: subagents, and outputs that were too long.
    fn beside(&self, source: &SourceState) -> Result<Vec<SourceState>> {
        let Some(dir) = source.path.strip_suffix(".jsonl").map(|stem| format!("{stem}/")) else {
            return Ok(Vec::new());
        };
        let sources = self.sources()?;
        Ok(sources.into_iter().filter(|source| source.path.starts_with(&dir)).collect())
    }

    fn put_back(&self, source: &SourceState, dry_run: bool) -> Result<ReplantedFile> {
        let path = PathBuf::from(&source.path);
        let mut stored = Hasher::new();
        let mut there = There::at(&path)?;
        let bytes = self.export(source, &mut |part| {
            stored.update(part);
            there.compare(part)
        })?;
        let state = there.state();
        if state == FileState::Missing && !dry_run {
            let stored = stored.finish();
            plant::write(&path, |file| self.copy_out(source, file), |file, ()| same(&path, file, stored))?;
        }
        Ok(ReplantedFile { path, bytes, state })
    }

    fn copy_out(&self, source: &SourceState, file: &mut dyn Write) -> Result<()> {
        self.export(source, &mut |part| file.write_all(part)).map(drop)
    }
}

/// What was written reads back as what was stored.
fn same(path: &Path, file: &mut dyn Read, stored: Digest) -> Result<()> {
    let mut found = Hasher::new();
    plant::each_piece(path, file, |piece| {
        found.update(piece);
        Ok(())
    })?;
    match found.finish() == stored {
        true => Ok(()),
        false => Err(ResumeError::NotReadBack { path: path.to_owned(), detail: "the bytes differ".into() }.into()),
    }
}

/// Whose session it is, if it lies where that runtime looks here.
fn replantable(source: &SourceState, homes: &RuntimeHomes) -> Result<(String, Runtime)> {
    let path = Path::new(&source.path);
    let runtime = match Runtime::from_name(&source.runtime) {
        Some(Runtime::ClaudeCode) => Some(Runtime::ClaudeCode).filter(|_| path.starts_with(&homes.claude)),
        Some(Runtime::Codex) => Some(Runtime::Codex).filter(|_| path.starts_with(&homes.codex)),
        Some(Runtime::Gemini | Runtime::OpenCode | Runtime::Other) | None => None,
    };
    match (runtime, &source.session) {
        (Some(runtime), Some(session)) => Ok((session.clone(), runtime)),
        _ => Err(ResumeError::NotAtHome { path: path.to_owned(), tip: source.tip() }.into()),
    }
}

/// What lies where a file belongs, compared with what is stored of it as that comes.
struct There {
    file: Option<File>,
    is_same: bool,
    found: Vec<u8>,
}

impl There {
    fn at(path: &Path) -> Result<Self> {
        match File::open(path) {
            Ok(file) => Ok(Self { file: Some(file), is_same: true, found: Vec::new() }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Ok(Self { file: None, is_same: false, found: Vec::new() })
            }
            Err(source) => Err(ServiceError::File { path: path.to_owned(), source }),
        }
    }

    fn compare(&mut self, stored: &[u8]) -> io::Result<()> {
        if let Some(file) = self.file.as_mut().filter(|_| self.is_same) {
            self.found.clear();
            file.take(stored.len() as u64).read_to_end(&mut self.found)?;
            self.is_same = self.found == stored;
        }
        Ok(())
    }

    fn state(&self) -> FileState {
        match (&self.file, self.is_same) {
            (None, _) => FileState::Missing,
            (Some(_), true) => FileState::There,
            (Some(_), false) => FileState::Differs,
        }
    }
}

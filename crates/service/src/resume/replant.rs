//! Putting a session back where its runtime had it: for what was deleted, and never over what is there.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

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
        let mut stored = Vec::new();
        let bytes = self.export(source, &mut |part| {
            stored.extend_from_slice(part);
            Ok(())
        })?;
        let state = found(&path, &stored)?;
        if state == FileState::Missing && !dry_run {
            let differs = || ResumeError::NotReadBack { path: path.clone(), detail: "the bytes differ".into() };
            plant::write(&path, &stored, |read| if read == stored { Ok(()) } else { Err(differs().into()) })?;
        }
        Ok(ReplantedFile { path, bytes, state })
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

fn found(path: &Path, stored: &[u8]) -> Result<FileState> {
    match fs::read(path) {
        Ok(bytes) if bytes.starts_with(stored) => Ok(FileState::There),
        Ok(_) => Ok(FileState::Differs),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(FileState::Missing),
        Err(source) => Err(ServiceError::File { path: path.to_owned(), source }),
    }
}

//! Sessions that are kept thing by thing: in the rows of a database, or in a file for each message and each part.
//!
//! Each becomes a source of its own, named after where it is kept and its id. Its lines are the things in their order; of
//! a session that was told before, only those that are new or changed follow.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fs;
use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use enjamb_core::Timestamp;
use tempfile::TempPath;

use super::database::Database;
use super::places::{files_under, found_at};
use super::source::failed;
use super::{Runtime, SourceFile};
use crate::Result;

/// A session, a line a thing.
pub(super) struct Session {
    /// What it is known by as a source.
    pub path: PathBuf,
    pub id: String,
    pub modified: Option<Timestamp>,
    pub lines: Vec<String>,
    /// Files that hold its things, one each.
    pub files: Vec<SourceFile>,
}

impl Session {
    pub(super) fn text(&self) -> String {
        self.lines.iter().flat_map(|line| [line.as_str(), "\n"]).collect()
    }

    /// A file that is only there to be read: after as many bytes as were told before, the lines that are new.
    pub(super) fn written(&self, from: u64, lines: &[usize], dir: &Path) -> Result<(SourceFile, TempPath)> {
        let writing = |source| failed(dir, source);
        let held = tempfile::Builder::new().prefix("tmp-").suffix(".jsonl").tempfile_in(dir);
        let mut held = held.map_err(writing)?;
        held.as_file().set_len(from).map_err(writing)?;
        held.seek(SeekFrom::Start(from)).map_err(writing)?;
        let text: String = lines.iter().flat_map(|index| [self.lines[*index].as_str(), "\n"]).collect();
        held.write_all(text.as_bytes()).map_err(writing)?;
        let held = held.into_temp_path();
        let size = from + text.len() as u64;
        let file = SourceFile { path: held.to_path_buf(), runtime: Runtime::OpenCode, size, modified: self.modified };
        Ok((file, held))
    }
}

/// What a session is known by as a source.
pub(super) fn named(place: &Path, id: &str) -> PathBuf {
    let mut path = place.as_os_str().to_owned();
    path.push("#");
    path.push(id);
    path.into()
}

/// Sessions that are yet to be looked at.
pub(super) enum Keeping {
    Database(Database),
    Storage(VecDeque<StoredSession>),
}

impl Keeping {
    pub(super) fn next(&mut self) -> Result<Option<Session>> {
        match self {
            Self::Database(database) => database.next(),
            Self::Storage(sessions) => sessions.pop_front().map(StoredSession::read).transpose(),
        }
    }

    pub(super) fn bytes_left(&self) -> u64 {
        match self {
            Self::Database(database) => database.bytes_left(),
            Self::Storage(sessions) => sessions.iter().flat_map(|session| &session.files).map(|file| file.size).sum(),
        }
    }

    /// The files to begin anew with.
    pub(super) fn found(&self) -> Vec<SourceFile> {
        match self {
            Self::Database(database) => vec![database.file.clone()],
            Self::Storage(sessions) => sessions.iter().flat_map(|session| session.files.clone()).collect(),
        }
    }
}

/// A session whose things are files.
pub(super) struct StoredSession {
    place: PathBuf,
    id: String,
    pub files: Vec<SourceFile>,
}

impl StoredSession {
    /// The session, then each message and its parts. Ids sort by time.
    fn read(self) -> Result<Session> {
        let mut things: BTreeMap<(u8, String, u8, String), String> = BTreeMap::new();
        for file in &self.files {
            let text = fs::read_to_string(&file.path).map_err(|source| failed(&file.path, source))?;
            // What is not whole is kept as a file, and told when it is.
            let Ok(line) = one_line(&text) else { continue };
            let (name, place) = names(&file.path);
            let order = match kind_of(&name) {
                Some(Kind::Session) => (0, String::new(), 0, name),
                Some(Kind::Message) => (1, name, 0, String::new()),
                Some(Kind::Part) => (1, place, 1, name),
                None => continue,
            };
            things.insert(order, line);
        }
        let modified = self.files.iter().filter_map(|file| file.modified).max();
        let (path, lines) = (named(&self.place, &self.id), things.into_values().collect());
        Ok(Session { path, id: self.id, modified, lines, files: self.files })
    }
}

/// A document on one line: a line end can only stand between two tokens, where it means nothing.
fn one_line(text: &str) -> serde_json::Result<String> {
    let value: &serde_json::value::RawValue = serde_json::from_str(text)?;
    Ok(value.get().lines().map(str::trim).collect())
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Session,
    Message,
    Part,
}

fn kind_of(id: &str) -> Option<Kind> {
    let kinds = [("ses_", Kind::Session), ("msg_", Kind::Message), ("prt_", Kind::Part)];
    kinds.into_iter().find(|(prefix, _)| id.starts_with(prefix)).map(|(_, kind)| kind)
}

/// A file's own name without its ending, and that of the directory that it is in.
fn names(path: &Path) -> (String, String) {
    let text = |name: Option<&std::ffi::OsStr>| name.unwrap_or_default().to_string_lossy().into_owned();
    (text(path.file_stem()), text(path.parent().and_then(Path::file_name)))
}

/// The directory under which opencode keeps all things.
fn storage_of(path: &Path) -> Option<PathBuf> {
    path.ancestors().find(|place| place.file_name().is_some_and(|name| name == "storage")).map(Path::to_owned)
}

/// Takes out the files that are things of sessions, and finds all other things of those sessions.
pub(super) fn gather(files: Vec<SourceFile>) -> (Vec<SourceFile>, Vec<StoredSession>) {
    let mut rest = Vec::new();
    let mut wanted: BTreeMap<(PathBuf, String), ()> = BTreeMap::new();
    let mut sessions: HashMap<String, String> = HashMap::new();
    for file in files {
        let (name, place) = names(&file.path);
        let storage = storage_of(&file.path).filter(|_| file.runtime == Runtime::OpenCode && !file.is_database());
        let session = storage.as_ref().and(kind_of(&name)).and_then(|kind| match kind {
            Kind::Session => Some(name),
            Kind::Message => Some(place),
            Kind::Part => sessions.get(&place).cloned().or_else(|| {
                let session = session_told_in(&file.path)?;
                sessions.insert(place, session.clone());
                Some(session)
            }),
        });
        match (storage, session) {
            (Some(storage), Some(session)) => drop(wanted.insert((storage, session), ())),
            _ => rest.push(file),
        }
    }
    (rest, wanted.into_keys().map(|(place, id)| stored_session(place, id)).collect())
}

fn session_told_in(path: &Path) -> Option<String> {
    let value: serde_json::Value = serde_json::from_slice(&fs::read(path).ok()?).ok()?;
    value["sessionID"].as_str().map(str::to_owned)
}

/// All files of a session. Storages of the oldest kind have one more directory above each.
fn stored_session(place: PathBuf, id: String) -> StoredSession {
    let mut files = Vec::new();
    for project in directories(&place.join("session")) {
        files.extend(found_at(&project.join(format!("{id}.json")), Runtime::OpenCode));
    }
    for above in [place.clone(), place.join("session")] {
        for message in files_under(&above.join("message").join(&id), Runtime::OpenCode) {
            let (name, _) = names(&message.path);
            files.push(message);
            files.extend(files_under(&above.join("part").join(&name), Runtime::OpenCode));
            files.extend(files_under(&above.join("part").join(&id).join(&name), Runtime::OpenCode));
        }
    }
    StoredSession { place, id, files }
}

fn directories(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).map(|entries| entries.flatten().map(|entry| entry.path()).collect());
    let mut paths: Vec<PathBuf> = entries.unwrap_or_default();
    paths.retain(|path| path.is_dir());
    paths.sort();
    paths
}

//! opencode's database, read without touching it.
//!
//! A database whose log is empty is nobody's at the moment: it is opened as one that cannot change, which makes no file
//! beside it and takes no lock. Where a log is there, only a reader that writes into the files beside it could follow it,
//! so the set is copied and the copy is read; a set that changed meanwhile is copied again.

use std::collections::{HashMap, VecDeque};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use enjamb_core::Timestamp;
use enjamb_core::frame::Json;
use enjamb_core::json::ObjectWriter;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OpenFlags, Row};
use tempfile::TempPath;

use super::SourceFile;
use super::source::failed;
use super::things::{Session, named};
use crate::Result;

/// Copies that are made of a set that changes as it is copied.
const COPIES_MAX: usize = 5;

/// Sessions, and when anything in them last changed.
const SESSIONS: &str = "SELECT id, max(time_updated, \
    coalesce((SELECT max(time_updated) FROM message WHERE session_id = session.id), 0), \
    coalesce((SELECT max(time_updated) FROM part WHERE session_id = session.id), 0)) \
    FROM session ORDER BY time_created, id";

const MESSAGES: &str = "SELECT * FROM message WHERE session_id = ?1 ORDER BY time_created, id";
const PARTS: &str = "SELECT * FROM part WHERE session_id = ?1 ORDER BY id";

pub(super) struct Database {
    pub file: SourceFile,
    connection: Connection,
    sessions: VecDeque<(String, i64)>,
    count: usize,
    /// The copy that is read, if it is one.
    _held: Vec<TempPath>,
}

/// When a database was last written to.
pub(super) fn last_modified(file: &SourceFile) -> Option<Timestamp> {
    let log = fs::metadata(log_of(&file.path)).and_then(|meta| meta.modified()).ok();
    let log = log.and_then(|time| time.duration_since(std::time::UNIX_EPOCH).ok());
    file.modified.max(log.map(|since| Timestamp::from_micros(since.as_micros() as i64)))
}

fn log_of(path: &Path) -> PathBuf {
    let mut log = path.as_os_str().to_owned();
    log.push("-wal");
    log.into()
}

impl Database {
    pub(super) fn open(file: &SourceFile, dir: &Path) -> Result<Self> {
        let (connection, held) = connect(&file.path, dir).map_err(|source| failed(&file.path, source))?;
        let sessions = sessions(&connection).map_err(|cause| unread(&file.path, cause))?;
        Ok(Self { file: file.clone(), connection, count: sessions.len(), sessions, _held: held })
    }

    pub(super) fn bytes_left(&self) -> u64 {
        self.file.size / self.count.max(1) as u64 * self.sessions.len() as u64
    }

    pub(super) fn next(&mut self) -> Result<Option<Session>> {
        let Some((id, updated_ms)) = self.sessions.pop_front() else { return Ok(None) };
        let lines = lines(&self.connection, &id).map_err(|cause| unread(&self.file.path, cause))?;
        let modified = Some(Timestamp::from_millis(updated_ms));
        Ok(Some(Session { path: named(&self.file.path, &id), id, modified, lines, files: Vec::new() }))
    }
}

fn unread(path: &Path, cause: rusqlite::Error) -> crate::ServiceError {
    failed(path, io::Error::other(cause))
}

fn connect(path: &Path, dir: &Path) -> io::Result<(Connection, Vec<TempPath>)> {
    let flags = OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_URI;
    let has_log = fs::metadata(log_of(path)).is_ok_and(|meta| meta.len() > 0);
    if !has_log {
        let flags = flags | OpenFlags::SQLITE_OPEN_READ_ONLY;
        let connection = Connection::open_with_flags(uri(path), flags).map_err(io::Error::other)?;
        return Ok((connection, Vec::new()));
    }
    let held = copied(path, dir)?;
    let flags = flags | OpenFlags::SQLITE_OPEN_READ_WRITE;
    let connection = Connection::open_with_flags(&held[0], flags).map_err(io::Error::other)?;
    Ok((connection, held))
}

/// The path as one that says that the file does not change. What means something in a URI is spelled out.
fn uri(path: &Path) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-~".contains(&byte);
    let spelled = |byte: &u8| if plain(*byte) { char::from(*byte).to_string() } else { format!("%{byte:02X}") };
    let name: String = path.as_os_str().as_encoded_bytes().iter().map(spelled).collect();
    format!("file:{name}?immutable=1")
}

/// A copy of a database and of its log, as they were at one moment.
fn copied(path: &Path, dir: &Path) -> io::Result<Vec<TempPath>> {
    for _ in 0..COPIES_MAX {
        let before = state(path)?;
        let held = tempfile::Builder::new().prefix("tmp-").suffix(".db").tempfile_in(dir)?.into_temp_path();
        let beside = |ending: &str| {
            let mut name = held.as_os_str().to_owned();
            name.push(ending);
            TempPath::try_from_path(PathBuf::from(name))
        };
        let (log, index) = (beside("-wal")?, beside("-shm")?);
        io::copy(&mut File::open(path)?, &mut File::create(&held)?)?;
        io::copy(&mut File::open(log_of(path))?, &mut File::create(&log)?)?;
        if state(path)? == before {
            return Ok(vec![held, log, index]);
        }
    }
    Err(io::Error::other("it is being written to; run the import again"))
}

type FileState = (u64, Option<std::time::SystemTime>);

fn state(path: &Path) -> io::Result<[FileState; 2]> {
    let one = |path: &Path| fs::metadata(path).map(|meta| (meta.len(), meta.modified().ok()));
    Ok([one(path)?, one(&log_of(path))?])
}

fn sessions(connection: &Connection) -> rusqlite::Result<VecDeque<(String, i64)>> {
    let mut statement = connection.prepare(SESSIONS)?;
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    rows.collect()
}

/// The session's row, then each message's and those of its parts.
fn lines(connection: &Connection, id: &str) -> rusqlite::Result<Vec<String>> {
    let sessions = rows(connection, "session", "SELECT * FROM session WHERE id = ?1", id)?;
    let messages = rows(connection, "message", MESSAGES, id)?;
    let mut parts: HashMap<String, Vec<String>> = HashMap::new();
    for (key, line) in rows(connection, "part", PARTS, id)? {
        parts.entry(key.message).or_default().push(line);
    }
    let mut lines: Vec<String> = sessions.into_iter().map(|(_, line)| line).collect();
    for (key, line) in messages {
        lines.push(line);
        lines.extend(parts.remove(&key.id).unwrap_or_default());
    }
    Ok(lines)
}

struct Key {
    id: String,
    message: String,
}

fn rows(connection: &Connection, table: &str, query: &str, session: &str) -> rusqlite::Result<Vec<(Key, String)>> {
    let mut statement = connection.prepare_cached(query)?;
    let names: Vec<String> = statement.column_names().map(str::to_owned).collect();
    let rows = statement.query_map([session], |row| {
        let key = Key { id: row.get("id")?, message: row.get("message_id").unwrap_or_default() };
        Ok((key, line(table, &names, row)?))
    })?;
    rows.collect()
}

/// A row as JSON: its table, and its columns in their order. Data that is JSON stands as it is.
fn line(table: &str, names: &[String], row: &Row<'_>) -> rusqlite::Result<String> {
    let mut line = ObjectWriter::new().member("table", table);
    for (index, name) in names.iter().enumerate() {
        match row.get_ref(index)? {
            ValueRef::Null => line.put(name, &serde_json::Value::Null),
            ValueRef::Integer(number) => line.put(name, &number),
            ValueRef::Real(number) => line.put(name, &number),
            ValueRef::Text(text) => {
                let text = String::from_utf8_lossy(text);
                match Json::parse(text.replace(['\n', '\r'], "")).ok().filter(|_| name == "data") {
                    Some(data) => line.put(name, &data),
                    None => line.put(name, &text),
                }
            }
            ValueRef::Blob(bytes) => {
                let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
                line.put(name, &ObjectWriter::new().member("hex", &hex).json());
            }
        }
    }
    Ok(line.json().get().to_owned())
}

//! `log.db`: the truth. Records under sequential numbers, and which ranges of them have moved into segments.

use std::io::{Seek, SeekFrom, Write};
use std::path::Path;
use std::time::Duration;

use enjamb_core::Digest;
use rusqlite::blob::Blob;
use rusqlite::{Connection, MAIN_DB, OpenFlags, OptionalExtension, params};

use crate::error::LedgerError;
use crate::private;

/// `enjA` in ASCII: tells our files from other SQLite databases.
const APPLICATION_ID: i32 = 0x656e_6a41;
/// The version of everything a store holds.
pub(crate) const FORMAT: u32 = 1;
/// How long a writer waits for another process.
pub(crate) const BUSY_WAIT: Duration = Duration::from_secs(60);
/// A record and what belongs to it take some five kilobytes. Larger pages make one commit write more, smaller ones make
/// a group of commits write more pages.
pub(super) const PAGE_BYTES: u32 = 16384;
/// The write-ahead log is taken in, and begun again, before it outgrows what it was grown to.
pub(super) const WAL_PAGES_MAX: u32 = WAL_BYTES as u32 / PAGE_BYTES - 16;

/// Pages that a connection keeps which only reads.
const READER_PAGES: u32 = 16;

const SCHEMA: &str = "
    CREATE TABLE records(n INTEGER PRIMARY KEY, body BLOB NOT NULL);
    CREATE TABLE sealed(first_n INTEGER PRIMARY KEY, last_n INTEGER NOT NULL, segment BLOB NOT NULL, bytes INTEGER NOT NULL);
    CREATE TABLE meta(name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
";

/// A range of records that lives in a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SealedRange {
    pub first_n: u64,
    pub last_n: u64,
    pub segment: Digest,
    pub bytes: u64,
}

impl SealedRange {
    pub(crate) fn holds(&self, n: u64) -> bool {
        (self.first_n..=self.last_n).contains(&n)
    }
}

/// Opens the log of an existing store for reading and writing.
pub(crate) fn open(path: &Path, vfs: Option<&str>) -> Result<Connection, LedgerError> {
    ready(path, connect(path, vfs)?)
}

/// Connects to the log of an existing store, and looks at nothing in it yet.
pub(crate) fn connect(path: &Path, vfs: Option<&str>) -> Result<Connection, LedgerError> {
    connect_with(path, vfs, OpenFlags::empty())
}

/// Looks whether a log that was connected to is one, and sets it up.
pub(crate) fn ready(path: &Path, connection: Connection) -> Result<Connection, LedgerError> {
    // A file that is not ours to open is not ours to change either.
    check_identity(&connection, path)?;
    configure(&connection, path)?;
    Ok(connection)
}

/// Records are read one after another: for a connection that only reads, a larger cache is memory that is touched once.
pub(crate) fn only_read(connection: &Connection) -> Result<(), LedgerError> {
    let set = connection.pragma_update(None, "cache_size", READER_PAGES);
    set.map_err(|error| LedgerError::sqlite("opening the log", &error))
}

/// Makes the log of a new store.
pub(crate) fn create(path: &Path, vfs: Option<&str>, store_id: &str) -> Result<Connection, LedgerError> {
    let doing = "creating the log";
    let connection = connect_with(path, vfs, OpenFlags::SQLITE_OPEN_CREATE)?;
    if vfs.is_none() {
        // SQLite gives its other files, which it makes later, the mode of this one.
        private::restrict(path).map_err(|error| LedgerError::io(path, error))?;
    }
    configure(&connection, path)?;
    let known = |error: rusqlite::Error| LedgerError::sqlite(doing, &error);
    connection.execute_batch("BEGIN IMMEDIATE").map_err(known)?;
    if identity(&connection).map_err(known)? == (APPLICATION_ID, FORMAT) {
        // Another process was first; its store is as good.
        connection.execute_batch("COMMIT").map_err(known)?;
        return Ok(connection);
    }
    connection.execute_batch(SCHEMA).map_err(known)?;
    connection.execute("INSERT INTO meta VALUES('store_id', ?1)", [store_id]).map_err(known)?;
    connection.pragma_update(None, "application_id", APPLICATION_ID).map_err(known)?;
    connection.pragma_update(None, "user_version", FORMAT).map_err(known)?;
    connection.execute_batch("COMMIT").map_err(known)?;
    Ok(connection)
}

/// Whether the making of this log was cut short: its file is there, and says nothing yet.
pub(crate) fn is_unfinished(path: &Path, vfs: Option<&str>) -> Result<bool, LedgerError> {
    let connection = connect(path, vfs)?;
    let known = |error: rusqlite::Error| opening(path, "reading the log's version", &error);
    let tables: i64 =
        connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0)).map_err(known)?;
    Ok(tables == 0 && identity(&connection).map_err(known)? == (0, 0))
}

fn connect_with(path: &Path, vfs: Option<&str>, extra: OpenFlags) -> Result<Connection, LedgerError> {
    let doing = "opening the log";
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX | extra;
    let known = |error: rusqlite::Error| opening(path, doing, &error);
    let connection = connect_plainly(path, vfs, flags).map_err(known)?;
    connection.busy_timeout(BUSY_WAIT).map_err(known)?;
    if extra.contains(OpenFlags::SQLITE_OPEN_CREATE) {
        // What a log that is there already has been made with stays as it is.
        connection.pragma_update(None, "page_size", PAGE_BYTES).map_err(known)?;
    }
    Ok(connection)
}

fn configure(connection: &Connection, path: &Path) -> Result<(), LedgerError> {
    let known = |error: rusqlite::Error| opening(path, "opening the log", &error);
    connection.pragma_update(None, "journal_mode", "WAL").map_err(known)?;
    connection.pragma_update(None, "synchronous", "FULL").map_err(known)?;
    connection.pragma_update(None, "wal_autocheckpoint", WAL_PAGES_MAX).map_err(known)?;
    connection.pragma_update(None, "cell_size_check", true).map_err(known)?;
    connection.set_prepared_statement_cache_capacity(32);
    Ok(())
}

fn connect_plainly(path: &Path, vfs: Option<&str>, flags: OpenFlags) -> rusqlite::Result<Connection> {
    match vfs {
        Some(vfs) => Connection::open_with_flags_and_vfs(path, flags, vfs),
        None => Connection::open_with_flags(path, flags),
    }
}

/// Makes what is in the log durable before anyone is shown it. A process that died may have left commits in the page cache
/// that no sync followed; served now, they could be gone after a power loss.
///
/// Answers the connection, if there was nothing to take in. Otherwise it is closed, so that the write-ahead log goes with
/// it: a full disk may need that room.
pub(crate) fn settle(connection: Connection) -> Result<Option<Connection>, LedgerError> {
    let frames = connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |row| row.get::<_, i64>(1));
    match frames.map_err(|error| LedgerError::sqlite("taking in the write-ahead log", &error)) {
        // It is synced before it is taken in, and for the latter there will be room another time.
        Err(LedgerError::Full { .. }) => Ok(None),
        frames => Ok((frames? == 0).then_some(connection)),
    }
}

/// What the write-ahead log is grown to, once a process turns out to write more than a little. Zeros cost as much as
/// anything else that is written: four times as many made the first six hundred commits a third slower.
const WAL_BYTES: u64 = 4 << 20;

/// Grows the write-ahead log with zeros ahead of use. Syncing a file that grows costs several times what syncing one that
/// does not costs, and SQLite writes its log from the start again once it has been taken in.
///
/// The caller holds the write lock. SQLite goes by the number of valid frames, never by the length of the file, and
/// recovery ends at the first frame that is not valid, so zeros after the last frame mean nothing to it. The sync of the
/// commit that follows is theirs too.
pub(crate) fn grow_wal(log: &Path) -> Result<(), LedgerError> {
    let mut name = log.as_os_str().to_owned();
    name.push("-wal");
    let path = std::path::PathBuf::from(name);
    let known = |error| LedgerError::io(&path, error);
    let mut file = std::fs::File::options().write(true).open(&path).map_err(known)?;
    let len = file.seek(SeekFrom::End(0)).map_err(known)?;
    let zeros = vec![0; WAL_BYTES.saturating_sub(len) as usize];
    file.write_all(&zeros).map_err(known)
}

/// Tells a file that is no log, and a directory that may not be written, from a failing disk.
pub(crate) fn opening(path: &Path, doing: &'static str, error: &rusqlite::Error) -> LedgerError {
    use rusqlite::ErrorCode;
    match error.sqlite_error_code() {
        Some(ErrorCode::NotADatabase) => {
            LedgerError::corrupt(path.display().to_string(), "its first bytes are not those of a database")
        }
        Some(ErrorCode::CannotOpen | ErrorCode::ReadOnly | ErrorCode::PermissionDenied) => {
            LedgerError::Denied { path: path.to_owned(), detail: "it cannot be opened for writing".into() }
        }
        _ => LedgerError::sqlite(doing, error),
    }
}

fn identity(connection: &Connection) -> rusqlite::Result<(i32, u32)> {
    let application = connection.pragma_query_value(None, "application_id", |row| row.get(0))?;
    let version = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
    Ok((application, version))
}

/// The format of the store whose log this is, read without changing anything; `None` when it is no log of ours.
pub(crate) fn format_of(path: &Path, vfs: Option<&str>) -> Result<Option<u32>, LedgerError> {
    if !path.is_file() {
        return Ok(None);
    }
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let found = connect_plainly(path, vfs, flags).and_then(|connection| identity(&connection));
    match found {
        Ok((APPLICATION_ID, format)) => Ok(Some(format)),
        // What is wrong with it is for whoever opens it to say.
        Ok(_) | Err(_) => Ok(None),
    }
}

fn check_identity(connection: &Connection, path: &Path) -> Result<(), LedgerError> {
    let (application, found) =
        identity(connection).map_err(|error| opening(path, "reading the log's version", &error))?;
    if application != APPLICATION_ID {
        let detail = "log.db was not made by enjamb".to_owned();
        return Err(LedgerError::NotAStore { path: path.to_owned(), detail });
    }
    if found > FORMAT {
        return Err(LedgerError::TooNew { path: path.to_owned(), found, supported: FORMAT });
    }
    Ok(())
}

/// Takes the number and the body of a row, and says whether to go on.
pub(crate) type Visit<'a> = dyn FnMut(u64, &[u8]) -> Result<bool, LedgerError> + 'a;

/// One connection's view of the log.
#[derive(Clone, Copy)]
pub(crate) struct Log<'c>(pub(crate) &'c Connection);

impl Log<'_> {
    /// The number of the last record, 0 when there is none.
    pub(crate) fn last(&self) -> Result<u64, LedgerError> {
        let sql = "SELECT max(coalesce((SELECT n FROM records ORDER BY n DESC LIMIT 1), 0),
                              coalesce((SELECT last_n FROM sealed ORDER BY first_n DESC LIMIT 1), 0))";
        self.value(sql)
    }

    fn value(&self, sql: &str) -> Result<u64, LedgerError> {
        let known = |error: rusqlite::Error| LedgerError::sqlite("reading the log", &error);
        let mut statement = self.0.prepare_cached(sql).map_err(known)?;
        statement.query_row([], |row| row.get::<_, i64>(0)).map(|value| value as u64).map_err(known)
    }

    pub(crate) fn store_id(&self) -> Result<String, LedgerError> {
        let known = |error: rusqlite::Error| LedgerError::sqlite("reading the log", &error);
        self.0.query_row("SELECT value FROM meta WHERE name = 'store_id'", [], |row| row.get(0)).map_err(known)
    }

    /// The body of record `n`, if it is a row of the log.
    pub(crate) fn body(&self, n: u64) -> Result<Option<Vec<u8>>, LedgerError> {
        let known = |error: rusqlite::Error| LedgerError::sqlite("reading a record", &error);
        let mut statement = self.0.prepare_cached("SELECT body FROM records WHERE n = ?1").map_err(known)?;
        statement.query_row([n as i64], |row| row.get(0)).optional().map_err(known)
    }

    /// The last record that has moved out, and with it all before.
    pub(crate) fn last_sealed(&self) -> Result<u64, LedgerError> {
        let known = |error: rusqlite::Error| LedgerError::sqlite("reading sealed ranges", &error);
        let mut statement = self.0.prepare_cached("SELECT max(last_n) FROM sealed").map_err(known)?;
        let last: Option<i64> = statement.query_row([], |row| row.get(0)).map_err(known)?;
        Ok(last.unwrap_or(0) as u64)
    }

    /// Rows `from..=to` in order, until `visit` says to stop.
    pub(crate) fn bodies(&self, from: u64, to: u64, visit: &mut Visit<'_>) -> Result<(), LedgerError> {
        let known = |error: rusqlite::Error| LedgerError::sqlite("reading records", &error);
        let sql = "SELECT n, body FROM records WHERE n >= ?1 AND n <= ?2 ORDER BY n";
        let mut statement = self.0.prepare_cached(sql).map_err(known)?;
        let mut rows = statement.query(params![from as i64, to as i64]).map_err(known)?;
        while let Some(row) = rows.next().map_err(known)? {
            let n = row.get::<_, i64>(0).map_err(known)? as u64;
            let value = row.get_ref(1).map_err(known)?;
            let body =
                value.as_blob().map_err(|_| LedgerError::corrupt(format!("record {n}"), "its row holds no bytes"))?;
            if !visit(n, body)? {
                break;
            }
        }
        Ok(())
    }

    pub(crate) fn insert(&self, n: u64, body: &[u8]) -> rusqlite::Result<()> {
        let mut statement = self.0.prepare_cached("INSERT INTO records(n, body) VALUES(?1, ?2)")?;
        statement.execute(params![n as i64, body]).map(drop)
    }

    pub(crate) fn sealed(&self) -> Result<Vec<SealedRange>, LedgerError> {
        let known = |error: rusqlite::Error| LedgerError::sqlite("reading sealed ranges", &error);
        let sql = "SELECT first_n, last_n, segment, bytes FROM sealed ORDER BY first_n";
        let mut statement = self.0.prepare_cached(sql).map_err(known)?;
        let rows = statement.query_map([], sealed_range).map_err(known)?;
        rows.map(|row| row.map_err(known)?.ok_or_else(|| LedgerError::corrupt("a sealed range", "it names no segment")))
            .collect()
    }

    /// The sealed range that holds record `n`.
    pub(crate) fn sealed_range(&self, n: u64) -> Result<Option<SealedRange>, LedgerError> {
        let known = |error: rusqlite::Error| LedgerError::sqlite("reading sealed ranges", &error);
        let sql =
            "SELECT first_n, last_n, segment, bytes FROM sealed WHERE first_n <= ?1 ORDER BY first_n DESC LIMIT 1";
        let mut statement = self.0.prepare_cached(sql).map_err(known)?;
        let range = statement.query_row([n as i64], sealed_range).optional().map_err(known)?.flatten();
        Ok(range.filter(|range| range.last_n >= n))
    }
}

impl<'c> Log<'c> {
    /// The log as it is now, for as long as the answer is held.
    pub(crate) fn held(self) -> Result<rusqlite::Transaction<'c>, LedgerError> {
        self.0.unchecked_transaction().map_err(|error| LedgerError::sqlite("reading the log", &error))
    }
}

/// Reads bodies one after the other into memory of the caller's. A query would copy each twice.
pub(crate) struct Bodies<'c> {
    log: &'c Connection,
    open: Option<Blob<'c>>,
}

impl<'c> Bodies<'c> {
    pub(crate) fn of(log: &'c Connection) -> Self {
        Self { log, open: None }
    }

    /// Puts the body of record `n`, which is in the log, into `out` from `start` on, and says where it ends. What `out`
    /// holds beyond that stays: memory that is used again need not be cleared.
    pub(crate) fn put(&mut self, n: u64, out: &mut Vec<u8>, start: usize) -> Result<usize, LedgerError> {
        let known = |error: rusqlite::Error| LedgerError::sqlite("reading a record", &error);
        let blob = match self.open.take() {
            Some(mut blob) => blob.reopen(n as i64).map(|()| blob),
            None => self.log.blob_open(MAIN_DB, "records", "body", n as i64, true),
        }
        .map_err(known)?;
        let end = start + blob.len();
        if out.len() < end {
            out.resize(end, 0);
        }
        blob.read_at_exact(&mut out[start..end], 0).map_err(known)?;
        self.open = Some(blob);
        Ok(end)
    }
}

fn sealed_range(row: &rusqlite::Row<'_>) -> rusqlite::Result<Option<SealedRange>> {
    let segment: Vec<u8> = row.get(2)?;
    let (first_n, last_n, bytes): (i64, i64, i64) = (row.get(0)?, row.get(1)?, row.get(3)?);
    Ok(Digest::from_slice(&segment).map(|segment| SealedRange {
        first_n: first_n as u64,
        last_n: last_n as u64,
        segment,
        bytes: bytes as u64,
    }))
}

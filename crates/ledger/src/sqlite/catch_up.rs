//! Bringing `index.db` up to the log: a few records after a write, all of them after a loss.

use std::fs::File;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OpenFlags, TransactionBehavior};

use super::Records;
use super::log::BUSY_WAIT;
use crate::error::LedgerError;
use crate::index::{INDEX_FORMAT, IndexError, Rows, SCHEMA, View, fold, unreadable};
use crate::private;

/// Records folded in one transaction: enough to be quick, few enough to stay small in memory.
const RECORDS_PER_TRANSACTION: u64 = 5_000;

/// Opens the index, making an empty one when there is none that can be used.
pub(crate) fn open(path: &Path, vfs: Option<&str>) -> Result<Connection, LedgerError> {
    let _alone = alone(path)?;
    match connect(path, vfs) {
        Ok(connection) => Ok(connection),
        Err(IndexError::Damaged(_)) => {
            remove_files(path)?;
            connect(path, vfs).map_err(unreadable)
        }
        Err(other) => Err(unreadable(other)),
    }
}

/// Opens the index if that changes nothing: it is there, and as this version makes it. Whoever asks need not know yet whether
/// the files beside it are ours.
pub(crate) fn open_as_it_is(path: &Path) -> Option<Connection> {
    let lock = File::options().write(true).open(lock_path(path)).ok()?;
    lock.lock().ok()?;
    let connection = Connection::open_with_flags(path, OPENING).ok()?;
    connection.busy_timeout(BUSY_WAIT).ok()?;
    let journal: String = connection.pragma_query_value(None, "journal_mode", |row| row.get(0)).ok()?;
    if journal != "wal" || format_of(&connection).ok()? != INDEX_FORMAT {
        return None;
    }
    configure(&connection).ok()?;
    Some(connection)
}

/// Held while the index is opened, made or removed. It is several files, and SQLite cannot see to it that those it opens
/// are of one make when others replace them at the same time.
fn alone(path: &Path) -> Result<File, LedgerError> {
    let lock = lock_path(path);
    let locked = private::create_if_missing(&lock).and_then(|file| file.lock().map(|()| file));
    locked.map_err(|error| LedgerError::io(lock, error))
}

fn lock_path(path: &Path) -> PathBuf {
    path.with_extension("lock")
}

const OPENING: OpenFlags = OpenFlags::SQLITE_OPEN_READ_WRITE.union(OpenFlags::SQLITE_OPEN_NO_MUTEX);

fn connect(path: &Path, vfs: Option<&str>) -> Result<Connection, IndexError> {
    let flags = OPENING | OpenFlags::SQLITE_OPEN_CREATE;
    let is_new = !path.exists();
    let connection = match vfs {
        Some(vfs) => Connection::open_with_flags_and_vfs(path, flags, vfs)?,
        None => Connection::open_with_flags(path, flags)?,
    };
    if is_new && vfs.is_none() {
        // The directory is its owner's alone in any case.
        let _ = private::restrict(path);
    }
    connection.busy_timeout(BUSY_WAIT)?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    configure(&connection)?;
    if format_of(&connection)? != INDEX_FORMAT {
        connection.execute_batch("DROP TABLE IF EXISTS kv")?;
        connection.execute_batch(SCHEMA)?;
        connection.pragma_update(None, "user_version", INDEX_FORMAT)?;
    }
    Ok(connection)
}

fn configure(connection: &Connection) -> rusqlite::Result<()> {
    connection.pragma_update(None, "synchronous", "NORMAL")?;
    connection.pragma_update(None, "cell_size_check", true)?;
    connection.pragma_update(None, "cache_size", -16_000)?;
    connection.set_prepared_statement_cache_capacity(32);
    Ok(())
}

fn format_of(connection: &Connection) -> rusqlite::Result<u32> {
    connection.pragma_query_value(None, "user_version", |row| row.get(0))
}

/// A copy of the index that takes no room on disk.
pub(crate) fn in_memory(index: &Connection) -> Result<Connection, IndexError> {
    let copy = Connection::open_in_memory()?;
    copy.execute_batch(SCHEMA)?;
    let mut insert = copy.prepare("INSERT INTO kv(k, v) VALUES(?1, ?2)")?;
    let mut rows = index.prepare("SELECT k, v FROM kv ORDER BY k")?;
    let mut rows = rows.query([])?;
    copy.execute_batch("BEGIN")?;
    while let Some(row) = rows.next()? {
        let (key, value): (Vec<u8>, Vec<u8>) = (row.get(0)?, row.get(1)?);
        insert.execute((key, value))?;
    }
    copy.execute_batch("COMMIT")?;
    drop(insert);
    Ok(copy)
}

/// Throws the index away. It holds nothing that the log does not.
pub(crate) fn remove(path: &Path) -> Result<(), LedgerError> {
    let _alone = alone(path)?;
    remove_files(path)
}

fn remove_files(path: &Path) -> Result<(), LedgerError> {
    for suffix in ["", "-wal", "-shm"] {
        let mut name = path.as_os_str().to_owned();
        name.push(suffix);
        let file = PathBuf::from(name);
        match std::fs::remove_file(&file) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(LedgerError::io(file, error)),
            _ => {}
        }
    }
    Ok(())
}

/// Folds every record that the index does not have yet, and returns the number of the last one it has.
pub(crate) fn run(index: &mut Connection, records: Records<'_>) -> Result<u64, LedgerError> {
    let last = records.log.last()?;
    loop {
        let applied = step(index, records, last)?;
        if applied >= last {
            return Ok(applied);
        }
    }
}

/// Folds one transaction's worth. Another process may have been there first, so the position is read under the lock.
fn step(index: &mut Connection, records: Records<'_>, last: u64) -> Result<u64, LedgerError> {
    let sqlite = |error: rusqlite::Error| unreadable(error.into());
    if Rows(index).applied().map_err(unreadable)? == last {
        return Ok(last);
    }
    let transaction = index.transaction_with_behavior(TransactionBehavior::Immediate).map_err(sqlite)?;
    let rows = Rows(&transaction);
    let applied = rows.applied().map_err(unreadable)?;
    if applied > last {
        // Others may have appended since `last` was read; only a log that is shorter now is one that lost records.
        let now = records.log.last()?;
        return if applied > now { Err(log_is_short(now, applied)) } else { Ok(applied) };
    }
    let to = last.min(applied + RECORDS_PER_TRANSACTION);
    let mut view = View::new(&rows);
    records.each(applied + 1, to, &mut |n, record| fold(&mut view, n, record).map_err(unreadable).map(|()| true))?;
    rows.write(view.into_changes(), to).map_err(unreadable)?;
    transaction.commit().map_err(sqlite)?;
    Ok(to)
}

pub(crate) fn log_is_short(last: u64, known: u64) -> LedgerError {
    LedgerError::corrupt(
        "log.db",
        format!(
            "it ends at record {last}, but {known} were written: restore it from a backup, or delete index.db to accept the loss"
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_index_is_opened_as_it_is_or_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("index.db");
        assert!(open_as_it_is(&path).is_none(), "there is none");
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "none was made");
        drop(open(&path, None).unwrap());
        assert!(open_as_it_is(&path).is_some());
        for change in ["PRAGMA user_version = 4000", "PRAGMA journal_mode = DELETE"] {
            let changed = open(&path, None).unwrap();
            changed.execute_batch(change).unwrap();
            drop(changed);
            let before = std::fs::read(&path).unwrap();
            assert!(open_as_it_is(&path).is_none(), "{change}");
            assert_eq!(std::fs::read(&path).unwrap(), before, "{change}");
        }
    }
}

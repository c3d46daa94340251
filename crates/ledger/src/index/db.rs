//! The index as a table of sealed and linked rows in `index.db`, where absence is proved as well as presence.
//!
//! SQLite does not notice a flipped bit. In a row it changes a value; in a key, in a page's count of rows or in a
//! pointer between pages it makes rows vanish. So every value carries a checksum, and names the row before it: a row that
//! is not found is known to be absent because the row after it says so, and a listing is complete because each of its
//! rows, and the one after them, follows from the one before. A last row that sorts after all others ends the chain.

use rusqlite::{Connection, params};

use super::fold::Changes;
use super::queries::Lookup;
use super::rows;
use super::table::Table;
use crate::error::LedgerError;

/// Why an index could not answer. It holds nothing that the log does not, so the remedy is always to rebuild it.
#[derive(Debug)]
pub struct Damaged(pub String);

/// What SQLite says of a damaged file, or of a disk that fails.
#[derive(Debug)]
pub enum IndexError {
    Damaged(Damaged),
    Sqlite(rusqlite::Error),
    /// What another engine could not read its rows for.
    Engine(Box<LedgerError>),
}

impl From<rusqlite::Error> for IndexError {
    /// A table that is not there, or a value of another type, is damage too: nobody else writes this file.
    fn from(error: rusqlite::Error) -> Self {
        use rusqlite::ErrorCode;
        match error.sqlite_error_code() {
            None
            | Some(
                ErrorCode::DatabaseCorrupt
                | ErrorCode::NotADatabase
                | ErrorCode::ConstraintViolation
                | ErrorCode::TypeMismatch
                | ErrorCode::Unknown,
            ) => Self::Damaged(Damaged(error.to_string())),
            Some(_) => Self::Sqlite(error),
        }
    }
}

pub type Result<T> = std::result::Result<T, IndexError>;

pub(crate) fn damaged<T>(detail: impl Into<String>) -> Result<T> {
    Err(IndexError::Damaged(Damaged(detail.into())))
}

pub const SCHEMA: &str = "CREATE TABLE IF NOT EXISTS kv(k BLOB PRIMARY KEY, v BLOB NOT NULL) WITHOUT ROWID";

const APPLIED_KEY: &[u8] = b"0";

/// The rows of one index, read through one connection.
#[derive(Clone, Copy)]
pub struct Rows<'c>(pub &'c Connection);

/// Takes the key and the payload of a row, and says whether to go on.
pub type Visit<'a> = dyn FnMut(&[u8], &[u8]) -> Result<bool> + 'a;

/// A row whose checksum matches.
struct Row {
    key: Vec<u8>,
    payload: Vec<u8>,
    /// Of the key of the row before it; of nothing, for the first.
    link: u32,
}

/// Sorts after every key.
const END_KEY: &[u8] = &[0xff];

impl Lookup for Rows<'_> {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        match self.at_or_after(key)? {
            Some(row) if row.key == key => Ok(Some(row.payload)),
            after => {
                check_link(self.link_before(key)?, after.as_ref())?;
                Ok(None)
            }
        }
    }
}

impl Table for Rows<'_> {
    fn scan(&self, from: &[u8], to: &[u8], visit: &mut Visit<'_>) -> Result<()> {
        let mut link = self.link_before(from)?;
        let mut statement = self.0.prepare_cached("SELECT k, v FROM kv WHERE k >= ?1 ORDER BY k")?;
        let mut found = statement.query([from])?;
        while let Some(row) = found.next()? {
            let (key, payload, own_link) = checked(row)?;
            if own_link != link {
                return damaged(format!("row {} does not follow the one before it", printable(key)));
            }
            if key >= to || !visit(key, payload)? {
                return Ok(());
            }
            link = rows::link(key);
        }
        check_link(link, None)
    }

    fn scan_back(&self, from: &[u8], to: &[u8], visit: &mut Visit<'_>) -> Result<()> {
        let Some(Row { mut link, .. }) = self.at_or_after(to)? else {
            return check_link(self.link_before(to)?, None);
        };
        let mut statement = self.0.prepare_cached("SELECT k, v FROM kv WHERE k < ?1 ORDER BY k DESC")?;
        let mut found = statement.query([to])?;
        while let Some(row) = found.next()? {
            let (key, payload, own_link) = checked(row)?;
            if rows::link(key) != link {
                return damaged(format!("row {} does not precede the one after it", printable(key)));
            }
            if key < from || !visit(key, payload)? {
                return Ok(());
            }
            link = own_link;
        }
        if link == rows::link(&[]) { Ok(()) } else { damaged("the first row is missing") }
    }
}

impl Rows<'_> {
    /// Writes changes, `None` being a row that goes, and that the index now stands at record `n`.
    pub fn write(&self, mut changes: Changes, n: u64) -> Result<()> {
        changes.insert(APPLIED_KEY.to_vec(), Some(rows::encode_number(n)));
        let mut next = None;
        for (key, change) in changes {
            let row = self.advance(next.take(), &key)?;
            next = Some(self.change(row, key, change)?);
        }
        next.map_or(Ok(()), |row| self.store(&row))
    }

    /// The row at or after `key`, given the one after the change before. That one may have changed and is stored when it
    /// is left behind, so that rows that go into one gap cost one look-up and one new link.
    fn advance(&self, next: Option<Row>, key: &[u8]) -> Result<Row> {
        match next {
            Some(row) if row.key.as_slice() >= key => return Ok(row),
            Some(row) => self.store(&row)?,
            None => {}
        }
        let end = || Row { key: END_KEY.to_vec(), payload: Vec::new(), link: rows::link(&[]) };
        Ok(self.at_or_after(key)?.unwrap_or_else(end))
    }

    /// Makes one change, and returns the row after it with what that has to say now.
    fn change(&self, next: Row, key: Vec<u8>, change: Option<Vec<u8>>) -> Result<Row> {
        match change {
            Some(payload) if next.key == key => Ok(Row { payload, ..next }),
            Some(payload) => {
                let after = Row { link: rows::link(&key), ..next };
                self.store(&Row { key, payload, link: next.link })?;
                Ok(after)
            }
            None if next.key == key => {
                self.0.prepare_cached("DELETE FROM kv WHERE k = ?1")?.execute([&key])?;
                match self.at_or_after(&key)? {
                    Some(after) => Ok(Row { link: next.link, ..after }),
                    None => damaged("the last row is missing"),
                }
            }
            None => Ok(next),
        }
    }

    fn store(&self, row: &Row) -> Result<()> {
        let mut statement = self.0.prepare_cached("REPLACE INTO kv(k, v) VALUES(?1, ?2)")?;
        statement.execute(params![row.key, rows::seal(&row.key, row.payload.clone(), row.link)])?;
        Ok(())
    }

    fn at_or_after(&self, key: &[u8]) -> Result<Option<Row>> {
        let mut statement = self.0.prepare_cached("SELECT k, v FROM kv WHERE k >= ?1 ORDER BY k LIMIT 1")?;
        let mut found = statement.query([key])?;
        let Some(row) = found.next()? else { return Ok(None) };
        let (key, payload, link) = checked(row)?;
        Ok(Some(Row { key: key.to_vec(), payload: payload.to_vec(), link }))
    }

    /// What the row at or after `key` has to be linked to.
    fn link_before(&self, key: &[u8]) -> Result<u32> {
        let mut statement = self.0.prepare_cached("SELECT k FROM kv WHERE k < ?1 ORDER BY k DESC LIMIT 1")?;
        let mut found = statement.query([key])?;
        match found.next()? {
            Some(row) => Ok(rows::link(row.get_ref(0)?.as_blob().unwrap_or_default())),
            None => Ok(rows::link(&[])),
        }
    }

    /// How many rows there are, without those that are about the table itself.
    pub fn count(&self) -> Result<u64> {
        let count =
            self.0.query_row("SELECT count(*) FROM kv WHERE k NOT IN (?1, ?2)", [APPLIED_KEY, END_KEY], |row| {
                row.get::<_, i64>(0)
            })?;
        Ok(count as u64)
    }

    /// The number of the last record folded into this index.
    pub fn applied(&self) -> Result<u64> {
        let Some(payload) = self.get(APPLIED_KEY)? else { return Ok(0) };
        match rows::decode_number(&payload) {
            Some(n) => Ok(n),
            None => damaged("the position row does not parse"),
        }
    }
}

/// Refuses unless the row after a gap follows from the row before it. A table without any row has neither.
fn check_link(link_before: u32, after: Option<&Row>) -> Result<()> {
    if after.map_or_else(|| rows::link(&[]), |row| row.link) == link_before {
        return Ok(());
    }
    damaged("a row is missing")
}

/// Key, payload and link of a row whose checksum matches.
fn checked<'r>(row: &'r rusqlite::Row<'_>) -> Result<(&'r [u8], &'r [u8], u32)> {
    let key = row.get_ref(0)?.as_blob().unwrap_or_default();
    let value = row.get_ref(1)?.as_blob().unwrap_or_default();
    match rows::unseal(key, value) {
        Some((payload, link)) => Ok((key, payload, link)),
        None => damaged(format!("row {} does not match its checksum", printable(key))),
    }
}

fn printable(key: &[u8]) -> String {
    key.iter().flat_map(|byte| std::ascii::escape_default(*byte)).map(char::from).take(80).collect()
}

//! The index as a table of sealed rows in `index.db`, where absence is proved as well as presence.
//!
//! SQLite does not notice a flipped bit in a row, and a flipped key can make a search end in the wrong place. So every
//! value carries a checksum, and a search that finds nothing checks the two rows it ended between: whichever row misled
//! it is one of those two.

use rusqlite::{Connection, params};

use super::rows;

/// Why an index could not answer. It holds nothing that the log does not, so the remedy is always to rebuild it.
#[derive(Debug)]
pub struct Damaged(pub String);

/// What SQLite says of a damaged file, or of a disk that fails.
#[derive(Debug)]
pub enum IndexError {
    Damaged(Damaged),
    Sqlite(rusqlite::Error),
}

impl From<rusqlite::Error> for IndexError {
    fn from(error: rusqlite::Error) -> Self {
        match error.sqlite_error_code() {
            Some(rusqlite::ErrorCode::DatabaseCorrupt | rusqlite::ErrorCode::NotADatabase) => {
                Self::Damaged(Damaged(error.to_string()))
            }
            _ => Self::Sqlite(error),
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

impl Rows<'_> {
    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let sql = "SELECT * FROM (SELECT k, v FROM kv WHERE k >= ?1 ORDER BY k LIMIT 1) UNION ALL
                   SELECT * FROM (SELECT k, v FROM kv WHERE k < ?1 ORDER BY k DESC LIMIT 1)";
        let mut statement = self.0.prepare_cached(sql)?;
        let mut found = statement.query([key])?;
        while let Some(row) = found.next()? {
            let payload = checked(row)?;
            if row.get_ref(0)?.as_blob().is_ok_and(|at| at == key) {
                return Ok(Some(payload.to_vec()));
            }
        }
        Ok(None)
    }

    /// Rows with `from <= key < to`, in order, until `visit` says to stop.
    pub fn scan(&self, from: &[u8], to: &[u8], visit: &mut dyn FnMut(&[u8], &[u8]) -> Result<bool>) -> Result<()> {
        self.walk("SELECT k, v FROM kv WHERE k >= ?1 AND k < ?2 ORDER BY k", from, to, visit)
    }

    /// As [`Rows::scan`], last first.
    pub fn scan_back(&self, from: &[u8], to: &[u8], visit: &mut dyn FnMut(&[u8], &[u8]) -> Result<bool>) -> Result<()> {
        self.walk("SELECT k, v FROM kv WHERE k >= ?1 AND k < ?2 ORDER BY k DESC", from, to, visit)
    }

    fn walk(
        &self,
        sql: &str,
        from: &[u8],
        to: &[u8],
        visit: &mut dyn FnMut(&[u8], &[u8]) -> Result<bool>,
    ) -> Result<()> {
        let mut statement = self.0.prepare_cached(sql)?;
        let mut found = statement.query(params![from, to])?;
        while let Some(row) = found.next()? {
            let payload = checked(row)?;
            if !visit(row.get_ref(0)?.as_blob().unwrap_or_default(), payload)? {
                break;
            }
        }
        Ok(())
    }

    pub fn put(&self, key: &[u8], payload: Vec<u8>) -> Result<()> {
        let mut statement = self.0.prepare_cached("INSERT INTO kv(k, v) VALUES(?1, ?2) ON CONFLICT(k) DO UPDATE SET v = ?2")?;
        statement.execute(params![key, rows::seal(key, payload)])?;
        Ok(())
    }

    pub fn delete(&self, key: &[u8]) -> Result<()> {
        self.0.prepare_cached("DELETE FROM kv WHERE k = ?1")?.execute([key])?;
        Ok(())
    }

    /// The number of the last record folded into this index.
    pub fn applied(&self) -> Result<u64> {
        let Some(payload) = self.get(APPLIED_KEY)? else { return Ok(0) };
        match rows::decode_number(&payload) {
            Some(n) => Ok(n),
            None => damaged("the position row does not parse"),
        }
    }

    pub fn set_applied(&self, n: u64) -> Result<()> {
        self.put(APPLIED_KEY, rows::encode_number(n))
    }
}

/// The payload of a row whose checksum matches.
fn checked<'r>(row: &'r rusqlite::Row<'_>) -> Result<&'r [u8]> {
    let key = row.get_ref(0)?.as_blob().unwrap_or_default();
    let value = row.get_ref(1)?.as_blob().unwrap_or_default();
    rows::unseal(key, value).map_or_else(|| damaged(format!("row {} does not match its checksum", printable(key))), Ok)
}

fn printable(key: &[u8]) -> String {
    key.iter().flat_map(|byte| std::ascii::escape_default(*byte)).map(char::from).take(80).collect()
}

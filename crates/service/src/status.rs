//! What is in a store, at a glance.

use std::path::Path;

use enjamb_ledger::{Engine, Ledger, LedgerError, StreamOrder, StreamSummary, Totals};

use crate::{Result, Store};

/// The state of a store. Everything in it is read from counters, so it costs the same however much is stored.
#[derive(Clone, Debug)]
pub struct Status {
    pub store_id: String,
    pub totals: Totals,
    pub disk: DiskUse,
    /// The streams written to last.
    pub recent: Vec<StreamSummary>,
}

/// Bytes on disk, here or on the database's server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskUse {
    pub log: u64,
    pub index: u64,
    pub segments: u64,
}

impl DiskUse {
    pub fn total(&self) -> u64 {
        self.log + self.index + self.segments
    }
}

impl Store {
    pub fn status(&self, recent: usize) -> Result<Status> {
        Ok(Status {
            store_id: self.ledger.store_id()?,
            totals: self.ledger.totals()?,
            disk: self.disk_use()?,
            recent: self.ledger.streams(None, StreamOrder::Recent, recent)?,
        })
    }

    pub fn disk_use(&self) -> Result<DiskUse> {
        let segments = self.ledger.segments().files()?.iter().map(|file| file.bytes).sum();
        let (log, index) = match &*self.ledger {
            Engine::Directory(ledger) => {
                (database_bytes(ledger.dir(), "log.db")?, database_bytes(ledger.dir(), "index.db")?)
            }
            Engine::Database(ledger) => ledger.table_bytes()?,
        };
        Ok(DiskUse { log, index, segments })
    }
}

fn database_bytes(dir: &Path, name: &str) -> Result<u64> {
    let mut bytes = 0;
    for suffix in ["", "-wal"] {
        let path = dir.join(format!("{name}{suffix}"));
        match std::fs::metadata(&path) {
            Ok(meta) => bytes += meta.len(),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(LedgerError::io(path, error).into()),
        }
    }
    Ok(bytes)
}

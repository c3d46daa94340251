//! Keeping a store whole, small and in more than one place.

use std::path::Path;

use enjamb_ledger::{Backup, Checked, Finding, Progress, Sealed, SqliteLedger};

use crate::{Env, Result, ServiceError, Store};

/// What maintenance did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Maintained {
    pub sealed: Sealed,
    /// Bytes of files that nothing named; `None` when someone was writing one.
    pub swept_bytes: Option<u64>,
    pub bytes_before: u64,
    pub bytes_after: u64,
}

impl Store {
    /// Reads everything again and asks every rule again; or, quickly, only that all is there.
    pub fn verify(&self, quick: bool, progress: &mut Progress<'_>) -> Result<Checked> {
        Ok(if quick { self.ledger.verify_quick()? } else { self.ledger.verify_full(progress)? })
    }

    /// Bytes that maintenance would move into segments, about.
    pub fn hot_bytes(&self) -> Result<u64> {
        Ok(self.ledger.hot_bytes()?)
    }

    /// Moves cold bytes into segments and removes files that nothing names.
    pub fn maintain(&self, progress: &mut Progress<'_>) -> Result<Maintained> {
        let bytes_before = self.disk_use()?.total();
        let sealed = self.ledger.seal(progress)?;
        self.ledger.replicate(progress)?;
        let swept_bytes = self.ledger.sweep()?;
        Ok(Maintained { sealed, swept_bytes, bytes_before, bytes_after: self.disk_use()?.total() })
    }

    /// Throws the index away and makes it anew from the log.
    pub fn rebuild_index(&self) -> Result<()> {
        Ok(self.ledger.rebuild_index()?)
    }

    /// Copies the store while it is in use.
    pub fn backup(&self, to: &Path, progress: &mut Progress<'_>) -> Result<Backup> {
        check_target(self.dir(), to)?;
        Ok(self.ledger.backup(to, progress)?)
    }

    /// Makes a store from a backup, every file checked on the way, and opens it.
    pub fn restore(from: &Path, dir: &Path, env: Env, progress: &mut Progress<'_>) -> Result<(Self, Backup)> {
        check_source(from)?;
        let restored = SqliteLedger::restore(from, dir, progress)?;
        Ok((Self::open(dir, env)?, restored))
    }

    /// Checks a backup against its own manifest.
    pub fn verify_backup(from: &Path, progress: &mut Progress<'_>) -> Result<Vec<Finding>> {
        check_source(from)?;
        Ok(SqliteLedger::verify_backup(from, progress)?)
    }
}

/// What a backup is made of, finished or not. A store has an index as well, so none is ever taken for a backup.
const BACKUP_NAMES: [&str; 6] =
    ["MANIFEST", "MANIFEST.partial", "log.db", "log.db-partial", "log.db-partial-journal", "segments"];

/// Refuses to write a backup over anything but an earlier one, and into the store that it is of.
fn check_target(store: &Path, to: &Path) -> Result<()> {
    let bad = |detail: String| Err(ServiceError::BadFile { path: to.to_owned(), detail });
    let store = std::fs::canonicalize(store).unwrap_or_else(|_| store.to_owned());
    let there = std::path::absolute(to).unwrap_or_else(|_| to.to_owned());
    if there.ancestors().any(|part| std::fs::canonicalize(part).is_ok_and(|part| part == store)) {
        return bad("it is inside the store; name a directory outside".into());
    }
    let Ok(entries) = std::fs::read_dir(to) else { return Ok(()) };
    let mut names = entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
    match names.find(|name| !BACKUP_NAMES.contains(&name.as_str())) {
        Some(name) => bad(format!("it holds {name:?} and is no backup; name a directory that is empty or not there")),
        None => Ok(()),
    }
}

fn check_source(from: &Path) -> Result<()> {
    match std::fs::metadata(from) {
        Ok(_) => Ok(()),
        Err(source) => Err(ServiceError::File { path: from.to_owned(), source }),
    }
}

//! Keeping a store whole, small and in more than one place.

use std::path::Path;

use enjamb_ledger::{Backup, Checked, Finding, Progress, Sealed, SqliteLedger};

use crate::{Env, Result, Store};

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

    /// Moves cold bytes into segments and removes files that nothing names.
    pub fn maintain(&self, progress: &mut Progress<'_>) -> Result<Maintained> {
        let bytes_before = self.disk_use()?.total();
        let sealed = self.ledger.seal(progress)?;
        let swept_bytes = self.ledger.sweep()?;
        Ok(Maintained { sealed, swept_bytes, bytes_before, bytes_after: self.disk_use()?.total() })
    }

    /// Throws the index away and makes it anew from the log.
    pub fn rebuild_index(&self) -> Result<()> {
        Ok(self.ledger.rebuild_index()?)
    }

    /// Copies the store while it is in use.
    pub fn backup(&self, to: &Path, progress: &mut Progress<'_>) -> Result<Backup> {
        Ok(self.ledger.backup(to, progress)?)
    }

    /// Makes a store from a backup, every file checked on the way, and opens it.
    pub fn restore(from: &Path, dir: &Path, env: Env, progress: &mut Progress<'_>) -> Result<(Self, Backup)> {
        let restored = SqliteLedger::restore(from, dir, progress)?;
        Ok((Self::open(dir, env)?, restored))
    }

    /// Checks a backup against its own manifest.
    pub fn verify_backup(from: &Path, progress: &mut Progress<'_>) -> Result<Vec<Finding>> {
        Ok(SqliteLedger::verify_backup(from, progress)?)
    }
}

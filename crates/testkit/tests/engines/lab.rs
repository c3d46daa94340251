//! A store on a disk that fails on request.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use enjamb_ledger::{Result, SqliteLedger, SqliteOptions};
use enjamb_testkit::faulty::FaultyVfs;
use tempfile::TempDir;

use crate::store;

/// A directory that is watched by a shim of its own.
pub struct Lab {
    pub vfs: Arc<FaultyVfs>,
    dir: TempDir,
}

impl Lab {
    pub fn new() -> Self {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let name = format!("engines-{}", COUNT.fetch_add(1, Ordering::Relaxed));
        let vfs = FaultyVfs::register(&name).expect("no other VFS has this name");
        let mut lab = Self { vfs, dir: store::directory() };
        lab.begin_anew();
        lab
    }

    /// An empty directory, nothing recorded, nothing armed. Shims are never given back, so one serves many runs.
    pub fn begin_anew(&mut self) {
        self.dir = store::directory();
        self.vfs.watch(self.dir.path()).expect("the directory can be read");
    }

    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    pub fn create(&self) -> SqliteLedger {
        SqliteLedger::create(self.path(), self.options(), "store-1").expect("a new store")
    }

    pub fn open(&self) -> Result<SqliteLedger> {
        SqliteLedger::open(self.path(), self.options())
    }

    pub fn options(&self) -> SqliteOptions {
        SqliteOptions { vfs: Some(self.vfs.name().to_owned()) }
    }
}

//! Stores in directories that go away.

use std::fs;
use std::path::Path;

use enjamb_ledger::{SqliteLedger, SqliteOptions};
use tempfile::TempDir;

/// A directory in memory where there is one: syncs are free there.
pub fn directory() -> TempDir {
    let memory = Path::new("/dev/shm");
    let made = if memory.is_dir() { TempDir::new_in(memory) } else { TempDir::new() };
    made.expect("a temporary directory")
}

pub fn create(dir: &Path) -> SqliteLedger {
    SqliteLedger::create(dir, SqliteOptions::default(), "store-1").expect("a new store")
}

pub fn open(dir: &Path) -> SqliteLedger {
    SqliteLedger::open(dir, SqliteOptions::default()).expect("the store opens")
}

pub fn delete_index(dir: &Path) {
    for name in ["index.db", "index.db-wal", "index.db-shm"] {
        match fs::remove_file(dir.join(name)) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => panic!("{name}: {error}"),
            _ => {}
        }
    }
}

/// How much to do: what the environment says, or what a normal run has time for.
pub fn setting(name: &str, normal: u64) -> u64 {
    match std::env::var(name) {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{name} is {text:?}: expected a number")),
        Err(_) => normal,
    }
}

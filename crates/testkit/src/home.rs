//! The home of a test: a temporary directory, and the stores in it, on whichever engine the run is about.
//!
//! `cargo xtask test` runs the suites of the service, the server and the command line twice: on directories, and with
//! [`ENGINE`] set, each store in a schema of its own. [`check_left_out`] holds the list of tests that the second run
//! leaves out against the tests that there are.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use enjamb_ledger::{link_database, linked_database};
use tempfile::TempDir;

use crate::database::{Database, Schema};

/// Says which engine the stores of tests are on: a directory's, or `postgres`.
pub const ENGINE: &str = "ENJAMB_TEST_ENGINE";

/// Tests that the run on PostgreSQL leaves out: package, name, and why.
pub const LEFT_OUT: &str = include_str!("../left_out_on_postgres.txt");

/// The database that stores of this run are in, if they are in one.
pub fn database() -> Option<Database> {
    match std::env::var(ENGINE).ok()?.as_str() {
        "" | "sqlite" => None,
        "postgres" => Some(Database::find().expect("PostgreSQL is installed: cargo xtask test does that")),
        other => panic!("{ENGINE} is {other:?}: expected sqlite or postgres"),
    }
}

/// How often a test does something with a store of its own each time: with a schema for each, a tenth will do, since
/// the same has been seen on directories.
pub fn times(usual: u64) -> u64 {
    if std::env::var_os(ENGINE).is_some_and(|engine| engine == "postgres") { usual.div_ceil(10) } else { usual }
}

/// A temporary directory. What is in it is removed when this is dropped, and so are the schemas of its stores.
pub struct Home {
    dir: TempDir,
    schemas: Mutex<Vec<Schema>>,
    /// Last, because the schemas need it to go.
    database: Option<Database>,
}

impl Home {
    #[expect(clippy::new_without_default, reason = "it makes a directory")]
    pub fn new() -> Self {
        let dir = TempDir::new().expect("a temporary directory");
        Self { dir, schemas: Mutex::default(), database: database() }
    }

    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    /// The directory of its store.
    pub fn store(&self) -> PathBuf {
        self.store_named("store")
    }

    /// The directory of one of its stores. It is not made, except to say which schema the store is in.
    pub fn store_named(&self, name: &str) -> PathBuf {
        let dir = self.path().join(name);
        let Some(database) = &self.database else { return dir };
        if linked_database(&dir).expect("a directory that can be read").is_none() {
            let schema = database.schema();
            let address = schema.address_with_objects(&self.path().join(format!("objects-{}", schema.name())));
            link_database(&dir, &address).expect("a directory for a store");
            self.schemas.lock().unwrap_or_else(PoisonError::into_inner).push(schema);
        }
        dir
    }
}

/// A test that is left out: its package, its name, and why.
fn left_out() -> impl Iterator<Item = (&'static str, &'static str, &'static str)> {
    let lines = LEFT_OUT.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(|line| {
        let mut words = line.splitn(3, ' ');
        let mut word = || words.next().map(str::trim).unwrap_or_default();
        (word(), word(), word())
    })
}

/// Every test of a package that is left out is among those of this program, and has a reason.
pub fn check_left_out(package: &str) {
    let program = std::env::current_exe().expect("the path of this program");
    let listed = Command::new(program).args(["--list", "--format", "terse"]).output().expect("a list of the tests");
    let listed = String::from_utf8(listed.stdout).expect("names");
    let there: BTreeSet<&str> = listed.lines().filter_map(|line| line.strip_suffix(": test")).collect();
    assert!(!there.is_empty(), "no tests are listed");
    for (_, name, why) in left_out().filter(|(of, ..)| *of == package) {
        assert!(there.contains(name), "{name} is left out on PostgreSQL, and there is no such test in {package}");
        assert!(why.len() > 10, "{name} is left out on PostgreSQL without a reason");
    }
}

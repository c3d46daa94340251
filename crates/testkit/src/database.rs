//! A real PostgreSQL for tests: made in a temporary directory, listening on the loopback alone, gone when dropped.
//!
//! `cargo xtask test` starts one for all tests and names it in [`VARIABLE`]. A test that runs without it starts its own.

mod server;

use std::io::Write;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use enjamb_ledger::{PostgresLedger, PostgresOptions};
use tempfile::TempDir;

pub use server::{Server, Stop};

/// Holds the address of a server that is there for all tests.
pub const VARIABLE: &str = "ENJAMB_POSTGRES";

/// A database that tests may use.
pub enum Database {
    Shared(String),
    Own(Box<Server>),
}

impl Database {
    /// The one that all tests share, or one of its own. `None` when PostgreSQL is not installed, which the test then says:
    /// `cargo xtask test` installs it.
    pub fn find() -> Option<Self> {
        let found = match std::env::var(VARIABLE) {
            Ok(address) if !address.is_empty() => Some(Self::Shared(address)),
            _ => Server::start().map(|server| Self::Own(Box::new(server))),
        };
        if found.is_none() {
            // A test harness shows this beside the test that it is about.
            let _ = writeln!(std::io::stderr(), "skipped: PostgreSQL is not installed");
        }
        found
    }

    pub fn address(&self) -> String {
        match self {
            Self::Shared(address) => address.clone(),
            Self::Own(server) => server.address(),
        }
    }

    /// A schema for one test.
    pub fn schema(&self) -> Schema {
        Schema::new(&self.address())
    }
}

/// Drops a schema, and those of its namespaces, whose names go on from its own.
const DROP: &str = "DO $$ DECLARE name text; BEGIN
    FOR name IN SELECT nspname FROM pg_namespace WHERE nspname = '{schema}' OR starts_with(nspname, '{schema}_') LOOP
        EXECUTE format('DROP SCHEMA %I CASCADE', name);
    END LOOP;
END $$";

/// A schema of one test, dropped with all it holds. Segments are beside it, in a directory.
pub struct Schema {
    server: String,
    name: String,
    dir: TempDir,
}

impl Schema {
    pub fn new(server: &str) -> Self {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let name = format!("test_{}_{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        Self { server: server.to_owned(), name, dir: TempDir::new().expect("a temporary directory") }
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// The address of the store in it.
    pub fn address(&self) -> String {
        self.address_at(&self.server)
    }

    /// The address of the store in it, with its segments in a directory that all nodes have.
    pub fn address_with_objects(&self, objects: &Path) -> String {
        format!("{}&objects={}", self.address(), objects.display())
    }

    /// The same store, reached through another server's address: one that is in between.
    pub fn address_at(&self, server: &str) -> String {
        let joint = if server.contains('?') { '&' } else { '?' };
        format!("{server}{joint}schema={}", self.name)
    }

    pub fn options(&self) -> PostgresOptions {
        PostgresOptions::at(self.dir.path())
    }

    pub fn create(&self) -> PostgresLedger {
        PostgresLedger::create(&self.address(), &self.options(), "store-1").expect("a new store")
    }

    pub fn open(&self) -> PostgresLedger {
        PostgresLedger::open(&self.address(), &self.options()).expect("the store opens")
    }

    /// Does something that the engine would not do. `{schema}` stands for its schema.
    pub fn execute(&self, sql: &str) {
        server::execute(&self.server, &sql.replace("{schema}", &self.name)).expect("the database does as it is told");
    }
}

impl Drop for Schema {
    fn drop(&mut self) {
        // A server that is gone took the schema along.
        let _ = server::execute(&self.server, &DROP.replace("{schema}", &self.name));
    }
}

//! A store in a database, and the directory on this machine that belongs to it.

use std::path::{Path, PathBuf};

use enjamb_core::Digest;
use enjamb_ledger::{Engine, ServerSettings, link_database, linked_database, namespace_address, shown_address};

pub use enjamb_ledger::is_database;

use crate::doctor::Check;
use crate::{Env, Result, Store};

/// Where the directories of databases are, below the usual one.
const DIR: &str = "databases";
/// Where the stores of namespaces are, below a store's own directory.
const NAMESPACES: &str = "namespaces";

/// The directory of the store at an address, made if it is not there. It is the same for one database and schema, whoever
/// logs in.
pub fn database_dir(home: &Path, address: &str) -> Result<PathBuf> {
    let name = Digest::of(shown_address(address)?.as_bytes()).to_string();
    let dir = home.join(DIR).join(&name[..16]);
    link_database(&dir, address)?;
    Ok(dir)
}

impl Store {
    /// Where the store is, as it may be shown: a directory, or the address of a database.
    pub fn location(&self) -> String {
        match &self.ledger {
            Engine::Directory(ledger) => ledger.dir().display().to_string(),
            Engine::Database(ledger) => ledger.shown().to_owned(),
        }
    }

    /// Opens a namespace of this store, making it if there is none: a directory below its own, or a schema beside it.
    pub fn namespace(&self, name: &str, env: Env) -> Result<Self> {
        let dir = self.dir().join(NAMESPACES).join(name);
        if let Some(address) = linked_database(self.dir())? {
            link_database(&dir, &namespace_address(&address, name)?)?;
        }
        Self::create(&dir, env)
    }

    /// What matters about the server that a store is kept by.
    pub(crate) fn check_server(&self) -> Result<Vec<Check>> {
        match &self.ledger {
            Engine::Directory(_) => Ok(Vec::new()),
            Engine::Database(ledger) => Ok(server_checks(&ledger.server_settings()?)),
        }
    }
}

fn server_checks(server: &ServerSettings) -> Vec<Check> {
    let durable = match server.fsync && server.full_page_writes {
        true => Check::good("server", format!("PostgreSQL {} syncs what it acknowledges", server.version)),
        false => Check::bad(
            "server",
            "fsync or full_page_writes is off: what was acknowledged is lost when its machine fails",
            "set fsync = on and full_page_writes = on, and restart it",
        ),
    };
    let checksums = match server.data_checksums {
        true => Check::good("checksums", "the server notices damaged pages"),
        false => Check::warning(
            "checksums",
            "the server does not notice damaged pages; records and rows have checksums of their own",
            "pg_checksums --enable, while it is stopped",
        ),
    };
    let standby = match server.has_synchronous_standby {
        true => Check::good("standby", "a commit waits for a second server"),
        false => Check::warning(
            "standby",
            "no commit waits for a second server: a failover may lose what came last",
            "set synchronous_standby_names, or keep backups",
        ),
    };
    vec![durable, checksums, standby]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_loses_acknowledged_writes_is_bad() {
        let good = ServerSettings {
            version: "15.1".into(),
            fsync: true,
            data_checksums: true,
            full_page_writes: true,
            has_synchronous_standby: true,
        };
        let words = |server: &ServerSettings| {
            server_checks(server).iter().map(|check| format!("{:?}", check.verdict)).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(words(&good), "Good Good Good");
        assert_eq!(words(&ServerSettings { fsync: false, ..good.clone() }), "Bad Good Good");
        let alone = ServerSettings { data_checksums: false, has_synchronous_standby: false, ..good };
        assert_eq!(words(&alone), "Good Warning Warning");
    }
}

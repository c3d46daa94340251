//! A store in a database, and the directory on this machine that belongs to it.

use std::path::{Path, PathBuf};

use enjamb_core::Digest;
use enjamb_ledger::{
    ConditionalPuts, Engine, ObjectsError, ServerSettings, link_database, link_objects, linked_database,
    namespace_address, shown_address,
};

pub use enjamb_ledger::is_database;

use crate::doctor::Check;
use crate::{Env, Result, Store};

/// Where the directories of databases are, below the usual one.
const DIR: &str = "databases";
/// Where the stores of namespaces are, below a store's own directory.
const NAMESPACES: &str = "namespaces";

/// The directory of the store at an address, whether it is there or not. It is the same for one database and schema,
/// whoever logs in.
pub fn database_dir(home: &Path, address: &str) -> Result<PathBuf> {
    let name = Digest::of(shown_address(address)?.as_bytes()).to_string();
    Ok(home.join(DIR).join(&name[..16]))
}

/// As [`database_dir`], made if it is not there. If somebody says where its segments live, that is remembered.
pub fn make_database_dir(home: &Path, address: &str, objects: Option<&str>) -> Result<PathBuf> {
    let dir = database_dir(home, address)?;
    link_database(&dir, address)?;
    objects.map_or(Ok(()), |objects| link_objects(&dir, objects))?;
    Ok(dir)
}

/// Says of a store in a directory that some of its segments are to be in an object store as well. `false` when there is no
/// store.
pub fn objects_of(dir: &Path, objects: &str) -> Result<bool> {
    if !dir.join("log.db").is_file() {
        return Ok(false);
    }
    link_objects(dir, objects)?;
    Ok(true)
}

/// Where the store of a directory is, as it may be shown: there, or at the address of a database.
pub fn shown_store(dir: &Path) -> Result<String> {
    match linked_database(dir)? {
        None => Ok(dir.display().to_string()),
        Some(address) => Ok(shown_address(&address)?),
    }
}

impl Store {
    /// Where the store is, as it may be shown: a directory, or the address of a database.
    pub fn location(&self) -> String {
        match self.ledger() {
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
        // What somebody wants of one store in a directory, they need not want of another.
        if let Engine::Database(ledger) = &*self.ledger
            && let Some(objects) = ledger.objects()
        {
            link_objects(&dir, &objects.address().to_string())?;
        }
        Self::create(&dir, env)
    }

    /// What matters about the server that a store is kept by.
    pub(crate) fn check_server(&self) -> Result<Vec<Check>> {
        match self.ledger() {
            Engine::Directory(_) => Ok(Vec::new()),
            Engine::Database(ledger) => {
                let mut checks = server_checks(&ledger.server_settings()?);
                checks.extend(ledger.objects().is_none().then(|| {
                    Check::warning(
                        "objects",
                        "segments are on each machine: only the one that took a large artifact can give it back",
                        "name a place that all nodes have: --objects s3://bucket/prefix, or a directory",
                    )
                }));
                Ok(checks)
            }
        }
    }

    /// What matters about the object store that segments are in, if they are in one.
    pub(crate) fn check_objects(&self) -> Option<Check> {
        self.ledger.objects().map(|objects| objects_check(&objects.shown(), objects.probe()))
    }
}

/// Whether objects can be put and read back. What becomes of conditions is told for those who use the bucket otherwise.
fn objects_check(place: &str, probed: std::result::Result<ConditionalPuts, ObjectsError>) -> Check {
    let told = |what: &str| Check::good("objects", format!("{place} can be written and read, and {what}"));
    match probed {
        Ok(ConditionalPuts::Honoured) => told("honours conditional puts"),
        Ok(ConditionalPuts::Ignored) => told("ignores conditional puts, on which nothing here depends"),
        Ok(ConditionalPuts::Unsupported) => told("does not know conditional puts, on which nothing here depends"),
        Err(error) => {
            Check::bad("objects", error.to_string(), "check AWS_ENDPOINT_URL, the credentials and the bucket")
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

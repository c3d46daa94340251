//! The address of a store in PostgreSQL: which server, which database, and which schema is the namespace.

use std::path::PathBuf;

use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode};

use crate::Result;
use crate::error::LedgerError;
use crate::objects::ObjectsAddress;

/// The schema of a store whose address names none.
const SCHEMA: &str = "enjamb";
/// PostgreSQL cuts longer names without a word.
const SCHEMA_BYTES_MAX: usize = 63;

#[derive(Clone, Debug)]
pub(super) struct Address {
    pub(super) config: Config,
    pub(super) schema: String,
    /// Where segments live.
    pub(super) objects: Option<ObjectsAddress>,
    /// A file with the certificates that may vouch for the server; those of the system, if not given.
    pub(super) root_certificates: Option<PathBuf>,
    /// Without a password.
    pub(super) shown: String,
}

/// Whether this is the address of a database, and not the path of a directory.
pub fn is_database(address: &str) -> bool {
    ["postgres://", "postgresql://"].iter().any(|scheme| address.starts_with(scheme))
}

impl Address {
    /// Reads `postgres://user:password@host:port/database?schema=…&objects=…&sslmode=…&sslrootcert=…`.
    pub(super) fn parse(address: &str) -> Result<Self> {
        let invalid = |detail: String| LedgerError::BadAddress { address: hidden(address), detail };
        let (base, query) = address.split_once('?').unwrap_or((address, ""));
        let (mut schema, mut mode, mut rest) = (SCHEMA.to_owned(), None, Vec::new());
        let (mut objects, mut root_certificates) = (None, None);
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            match pair.split_once('=') {
                Some(("schema", name)) => schema = name.to_owned(),
                Some(("objects", place)) => objects = Some(ObjectsAddress::parse(place)?),
                Some(("sslmode", asked)) => mode = Some(asked),
                Some(("sslrootcert", path)) => root_certificates = Some(PathBuf::from(path)),
                _ => rest.push(pair),
            }
        }
        if !is_schema(&schema) {
            return Err(invalid(format!("the schema is {schema:?}: expected a-z, 0-9 and _, not beginning with pg_")));
        }
        let plain = if rest.is_empty() { base.to_owned() } else { format!("{base}?{}", rest.join("&")) };
        let mut config: Config = plain.parse().map_err(|error: tokio_postgres::Error| invalid(causes(&error)))?;
        config.ssl_mode(ssl_mode(mode, &config).map_err(invalid)?);
        config.application_name("enjamb");
        let shown = shown(&config, &schema);
        if config.get_password().is_none()
            && let Ok(password) = std::env::var("PGPASSWORD")
        {
            config.password(password);
        }
        Ok(Self { config, schema, objects, root_certificates, shown })
    }
}

/// An address as it may be shown to anyone.
pub fn shown_address(address: &str) -> Result<String> {
    Ok(Address::parse(address)?.shown)
}

/// The address of a namespace of a store: the same database, in a schema beside the store's own.
pub fn namespace_address(address: &str, name: &str) -> Result<String> {
    let own = Address::parse(address)?;
    let schema = format!("{}_{}", own.schema, name.replace('-', "_"));
    if !is_schema(&schema) {
        let detail = format!("the namespace {name:?} would be the schema {schema:?}, which cannot be one");
        return Err(LedgerError::BadAddress { address: own.shown, detail });
    }
    let (base, query) = address.split_once('?').unwrap_or((address, ""));
    let others = query.split('&').filter(|pair| !pair.is_empty() && !pair.starts_with("schema="));
    let named = format!("schema={schema}");
    let pairs: Vec<&str> = others.chain([named.as_str()]).collect();
    Ok(format!("{base}?{}", pairs.join("&")))
}

/// Nothing that a shell, a person or SQL could take for something else.
fn is_schema(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    (1..=SCHEMA_BYTES_MAX).contains(&name.len())
        && name.bytes().all(plain)
        && !name.starts_with(|first: char| first.is_ascii_digit())
        && !name.starts_with("pg_")
}

/// Without being told otherwise, what crosses a network is encrypted and the server has to prove who it is.
fn ssl_mode(asked: Option<&str>, config: &Config) -> std::result::Result<SslMode, String> {
    let is_here = |host: &Host| match host {
        #[cfg(unix)]
        Host::Unix(_) => true,
        Host::Tcp(name) => name == "localhost" || name.parse().is_ok_and(|ip: std::net::IpAddr| ip.is_loopback()),
    };
    match asked {
        Some("disable") => Ok(SslMode::Disable),
        Some("prefer") => Ok(SslMode::Prefer),
        Some("require" | "verify-ca" | "verify-full") => Ok(SslMode::Require),
        Some(other) => Err(format!("sslmode is {other:?}: expected disable, prefer, require or verify-full")),
        None if config.get_hosts().iter().all(is_here) => Ok(SslMode::Disable),
        None => Ok(SslMode::Require),
    }
}

fn shown(config: &Config, schema: &str) -> String {
    let host = match config.get_hosts().first() {
        Some(Host::Tcp(name)) => name.clone(),
        #[cfg(unix)]
        Some(Host::Unix(path)) => path.display().to_string(),
        None => "localhost".to_owned(),
    };
    let port = config.get_ports().first().map(|port| format!(":{port}")).unwrap_or_default();
    let database = config.get_dbname().or(config.get_user()).unwrap_or_default();
    format!("postgres://{host}{port}/{database}?schema={schema}")
}

/// An address that could not be read may have a password anywhere before the last `@`.
fn hidden(address: &str) -> String {
    let (scheme, rest) = address.split_once("://").unwrap_or(("postgres", address));
    let end = rest.find('?').unwrap_or(rest.len());
    let place = rest[..end].rsplit_once('@').map_or(&rest[..end], |(_, place)| place);
    format!("{scheme}://{place}")
}

/// An error with what caused it, which tokio-postgres leaves out of its words.
pub(super) fn causes(error: &dyn std::error::Error) -> String {
    let mut words = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        words = format!("{words}: {cause}");
        next = cause.source();
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(address: &str, expected: &str) {
        let found = match Address::parse(address) {
            Ok(address) => format!("{} {:?}", address.shown, address.config.get_ssl_mode()),
            Err(error) => error.to_string(),
        };
        assert_eq!(found, expected);
        assert!(!found.contains("secret"), "{found}");
    }

    #[test]
    fn addresses_name_a_database_and_a_schema() {
        check("postgres://ann:secret@127.0.0.1:6000/team", "postgres://127.0.0.1:6000/team?schema=enjamb Disable");
        check("postgresql://db.example/team?schema=a_1", "postgres://db.example:5432/team?schema=a_1 Require");
        check("postgres://db.example/team?sslmode=disable", "postgres://db.example:5432/team?schema=enjamb Disable");
        check("postgres:///team?host=/run/pg", "postgres:///run/pg/team?schema=enjamb Disable");
    }

    #[test]
    fn what_cannot_be_an_address_is_told_without_its_password() {
        check(
            "postgres://ann:secret@h/team?schema=Team",
            "postgres://h/team is no address of a database: the schema is \"Team\": expected a-z, 0-9 and _, not beginning with pg_",
        );
        check(
            "postgres://ann:secret@h/team?sslmode=maybe",
            "postgres://h/team is no address of a database: sslmode is \"maybe\": expected disable, prefer, require or verify-full",
        );
        check(
            "postgres://ann:secret@h:port/team",
            "postgres://h:port/team is no address of a database: invalid connection string: invalid value for option `port`",
        );
    }
    #[test]
    fn namespaces_are_schemas_beside_the_stores_own() {
        let named = namespace_address("postgres://h/team?sslmode=disable&schema=a", "red-team").unwrap();
        assert_eq!(named, "postgres://h/team?sslmode=disable&schema=a_red_team");
        assert_eq!(namespace_address("postgres://h/team", "x").unwrap(), "postgres://h/team?schema=enjamb_x");
        assert!(namespace_address("postgres://h/team", "Red").is_err());
    }

    #[test]
    fn an_address_may_say_where_segments_live() {
        let objects = |address| Address::parse(address).map(|address| address.objects.map(|place| place.to_string()));
        assert_eq!(objects("postgres://h/t?objects=file:///mnt/a").unwrap(), Some("file:///mnt/a".into()));
        assert_eq!(objects("postgres://h/t?objects=s3://bucket/p").unwrap(), Some("s3://bucket/p".into()));
        assert!(objects("postgres://h/t?objects=gs://bucket").is_err());
    }
}

//! Tables, and how they come to be: once, under a lock, whoever comes first.

use tokio_postgres::Client;

use super::fault::Fault;
use crate::error::LedgerError;
use crate::index::INDEX_FORMAT;

/// The version of the tables. A greater one is refused, a smaller one is brought up.
const FORMAT: u32 = 3;

/// One step each, from the version before. Never changed once released.
const STEPS: [&str; FORMAT as usize] = ["
    CREATE TABLE {schema}.meta(name text PRIMARY KEY, value text NOT NULL);
    CREATE TABLE {schema}.head(one boolean PRIMARY KEY DEFAULT true CHECK (one), n bigint NOT NULL, epoch bigint NOT NULL)
        WITH (fillfactor = 10);
    CREATE TABLE {schema}.records(n bigint PRIMARY KEY, body bytea NOT NULL);
    ALTER TABLE {schema}.records ALTER COLUMN body SET STORAGE EXTERNAL;
    CREATE TABLE {schema}.sealed(first_n bigint PRIMARY KEY, last_n bigint NOT NULL, segment bytea NOT NULL, bytes bigint NOT NULL);
    CREATE TABLE {schema}.batches(id bytea PRIMARY KEY, n bigint NOT NULL, at timestamptz NOT NULL DEFAULT now());
    CREATE TABLE {schema}.kv(k bytea PRIMARY KEY, v bytea NOT NULL) WITH (fillfactor = 70);
    ALTER TABLE {schema}.kv ALTER COLUMN v SET STORAGE MAIN;
    INSERT INTO {schema}.head(n, epoch) VALUES (0, 1);
", "
    CREATE TABLE {schema}.segments(segment bytea PRIMARY KEY, bytes bigint NOT NULL, trailer bytea NOT NULL,
        deps bytea NOT NULL, stored boolean NOT NULL DEFAULT false, at timestamptz NOT NULL DEFAULT now(),
        doomed timestamptz);
", "
    CREATE TABLE {schema}.jobs(name text PRIMARY KEY, epoch bigint NOT NULL, at timestamptz NOT NULL DEFAULT now());
"];

/// What is found where a store should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) format: u32,
    pub(super) index_format: u32,
    pub(super) store_id: String,
    /// Where its segments live, if not on each machine.
    pub(super) objects: Option<String>,
}

impl Found {
    /// Whether this version can use it as it is.
    pub(super) fn is_current(&self) -> bool {
        (self.format, self.index_format) == (FORMAT, INDEX_FORMAT)
    }
}

/// What is in a schema; `None` when there is no store.
pub(super) async fn find(client: &Client, schema: &str) -> Result<Option<Found>, Fault> {
    let known = |error: tokio_postgres::Error| Fault::of("looking for the store", &error);
    let meta = format!("{schema}.meta");
    if !client.query_one("SELECT to_regclass($1) IS NOT NULL", &[&meta]).await.map_err(known)?.get::<_, bool>(0) {
        return Ok(None);
    }
    let rows = client.query(&format!("SELECT name, value FROM {schema}.meta"), &[]).await.map_err(known)?;
    let text = |name: &str| rows.iter().find(|row| row.get::<_, &str>(0) == name).map(|row| row.get::<_, String>(1));
    let number = |name: &str| text(name).and_then(|text| text.parse().ok()).unwrap_or(0);
    Ok(Some(Found {
        format: number("format"),
        index_format: number("index_format"),
        store_id: text("store_id").unwrap_or_default(),
        objects: text("objects"),
    }))
}

/// Makes the tables, or brings them up. Of several who do so at once, one does.
pub(super) async fn bring_up(client: &Client, schema: &str, shown: &str, store_id: Option<&str>) -> Result<(), Fault> {
    let known = |error: tokio_postgres::Error| Fault::of("preparing the tables", &error);
    client.batch_execute("BEGIN").await.map_err(known)?;
    let brought = step_by_step(client, schema, shown, store_id).await;
    let end = if brought.is_ok() { "COMMIT" } else { "ROLLBACK" };
    let ended = client.batch_execute(end).await.map_err(known);
    brought.and(ended)
}

async fn step_by_step(client: &Client, schema: &str, shown: &str, store_id: Option<&str>) -> Result<(), Fault> {
    let known = |error: tokio_postgres::Error| Fault::of("preparing the tables", &error);
    client
        .query("SELECT pg_advisory_xact_lock(hashtextextended($1, 0))", &[&format!("enjamb {schema}")])
        .await
        .map_err(known)?;
    let found = find(client, schema).await?;
    let from = match &found {
        None => {
            client.batch_execute(&format!("CREATE SCHEMA IF NOT EXISTS {schema}")).await.map_err(known)?;
            0
        }
        Some(found) => found.format,
    };
    if from > FORMAT {
        return Err(LedgerError::TooNew { path: shown.into(), found: from, supported: FORMAT }.into());
    }
    for step in &STEPS[from as usize..] {
        client.batch_execute(&step.replace("{schema}", schema)).await.map_err(known)?;
    }
    let note = format!(
        "INSERT INTO {schema}.meta(name, value) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET value = EXCLUDED.value"
    );
    client.execute(&note, &[&"format", &FORMAT.to_string()]).await.map_err(known)?;
    if let Some(store_id) = store_id.filter(|_| found.is_none()) {
        client.execute(&note, &[&"store_id", &store_id]).await.map_err(known)?;
        client.execute(&note, &[&"index_format", &INDEX_FORMAT.to_string()]).await.map_err(known)?;
    }
    Ok(())
}

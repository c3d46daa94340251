//! What the database knows of segments: which of them live in the object store, and how to tell that they are right.
//!
//! A row comes before the object and goes before it: `announce` waits for whoever is removing the same segment, and one
//! that was announced is not removed for a day. So a segment that a record names is there.

use std::sync::Arc;

use enjamb_core::Digest;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use super::PostgresLedger;
use super::connect::Connections;
use super::fault::{Fault, TRIES_MAX, pause};
use super::schema::Found;
use super::sql::Sql;
use crate::Result;
use crate::batch::Batch;
use crate::error::LedgerError;
use crate::objects::{Objects, ObjectsAddress};
use crate::segments::{About, Register, Role, Segments, Upstream};

const DIGEST_BYTES: usize = 32;

pub(super) struct Registered {
    connections: Arc<Connections>,
    sql: Arc<Sql>,
}

impl Registered {
    /// Each of these statements may be sent again without harm.
    fn query(&self, sql: &str, parameters: &[&(dyn ToSql + Sync)]) -> Result<Vec<Row>> {
        let mut tried = 0;
        loop {
            tried += 1;
            let asked = self.connections.block_on(async {
                let client = self.connections.client_aside().await?;
                let rows = client.query(sql, parameters).await;
                rows.map_err(|error| Fault::of("noting where a segment is", &error))
            });
            match asked {
                Ok(rows) => return Ok(rows),
                Err(Fault::Final(error)) => return Err(error),
                Err(fault) if tried >= TRIES_MAX => return Err(fault.into_error()),
                Err(Fault::Lost(_)) => self.connections.forget(),
                Err(Fault::Conflict(_)) => {}
            }
            std::thread::sleep(pause(tried));
        }
    }
}

impl Register for Registered {
    fn announce(&self, about: &About) -> Result<()> {
        let (segment, trailer): (&[u8], &[u8]) = (about.segment.as_bytes(), &about.trailer);
        let deps: Vec<u8> = about.deps.iter().flat_map(|dep| *dep.as_bytes()).collect();
        self.query(&self.sql.segments.announce, &[&segment, &(about.len as i64), &trailer, &deps]).map(drop)
    }

    fn confirm(&self, about: &About) -> Result<()> {
        let segment: &[u8] = about.segment.as_bytes();
        self.query(&self.sql.segments.confirm, &[&segment]).map(drop)
    }

    fn about(&self, segment: &Digest) -> Result<Option<About>> {
        let name: &[u8] = segment.as_bytes();
        let rows = self.query(&self.sql.segments.about, &[&name])?;
        let Some(row) = rows.first() else { return Ok(None) };
        let damaged = || LedgerError::corrupt("the table segments", format!("the row of {segment} cannot be read"));
        let len = row.get::<_, i64>(0) as u64;
        let trailer: [u8; _] = row.get::<_, &[u8]>(1).try_into().map_err(|_| damaged())?;
        if len < trailer.len() as u64 {
            return Err(damaged());
        }
        Ok(Some(About { segment: *segment, len, trailer, deps: digests(row.get(2)).ok_or_else(damaged)? }))
    }
}

/// Digests, one after another.
pub(super) fn digests(bytes: &[u8]) -> Option<Vec<Digest>> {
    bytes.chunks(DIGEST_BYTES).map(Digest::from_slice).collect()
}

impl PostgresLedger {
    /// The same, with its segments where they live: as the database notes, or as was asked for if it notes nothing.
    pub(super) fn bound(mut self, found: &Found) -> Result<Self> {
        if found.store_id.is_empty() {
            return Err(LedgerError::corrupt("the table meta", "it has no store_id"));
        }
        self.store_id.clone_from(&found.store_id);
        let Some(address) = self.objects_address(found)? else { return Ok(self) };
        let register = Registered { connections: self.connections.clone(), sql: self.sql.clone() };
        let upstream = Upstream::new(Role::Home, Objects::new(address, &found.store_id), Box::new(register));
        self.segments = Arc::new(Segments::open(&self.dir)?.with_upstream(upstream));
        Ok(self)
    }

    fn objects_address(&self, found: &Found) -> Result<Option<ObjectsAddress>> {
        let noted = found.objects.as_deref().map(ObjectsAddress::parse).transpose()?;
        let (named, noted) = match (self.address.objects.clone(), noted) {
            (None, noted) => return Ok(noted),
            (Some(named), Some(noted)) => (named, noted),
            (Some(named), None) => {
                self.note_objects(&named)?;
                let again = self.alone(async |client| super::schema::find(client, &self.address.schema).await)?;
                let noted = again.and_then(|found| found.objects).as_deref().map(ObjectsAddress::parse).transpose()?;
                (named.clone(), noted.unwrap_or(named))
            }
        };
        if !named.is_same_place(&noted) {
            let (store, there) = (self.address.shown.clone(), noted.to_string());
            return Err(LedgerError::ObjectsDiffer { store, there, named: named.to_string() });
        }
        Ok(Some(named))
    }

    /// Of several who do this at once, one does.
    fn note_objects(&self, address: &ObjectsAddress) -> Result<()> {
        let address = address.to_string();
        self.alone(async |client| {
            let noted = client.execute(&self.sql.segments.bind_objects, &[&address]).await;
            noted.map(drop).map_err(|error| Fault::of("noting where segments live", &error))
        })
    }

    /// Where segments live, if not on each machine.
    pub fn objects(&self) -> Option<&Objects> {
        self.segments.upstream().map(Upstream::objects)
    }

    /// Whether a batch may be handed in. A segment that it names was announced not long ago, so nobody takes it away
    /// before the batch is written.
    pub(super) fn admit(&self, batch: &Batch) -> Result<()> {
        batch.check()?;
        if batch.segments.is_empty() || self.segments.upstream().is_none() {
            return Ok(());
        }
        let named: Vec<&[u8]> = batch.segments.iter().map(|record| record.segment.as_bytes().as_slice()).collect();
        let rows = self.ask(|snapshot| snapshot.query(&self.sql.segments.is_nameable, &[&named]))?;
        let there: Vec<&[u8]> = rows.iter().map(|row| row.get(0)).collect();
        match batch.segments.iter().find(|record| !there.contains(&record.segment.as_bytes().as_slice())) {
            Some(gone) => Err(LedgerError::SegmentGone(gone.segment)),
            None => Ok(()),
        }
    }
}

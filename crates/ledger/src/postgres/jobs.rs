//! Turns at background jobs: a lock of the server's that ends with the session, and a number that outlives it.
//!
//! A node that dies loses its session, and so its lock. One that hangs says nothing, and the server ends its session
//! after a while. Either way the next who comes gets the lock and the next number. What the old one still writes
//! carries the old number: it is checked in the transaction that writes, under a lock that the next turn waits for.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use deadpool_postgres::{Client, ClientWrapper};
use tokio::task::AbortHandle;
use tokio_postgres::Client as Connection;

use super::PostgresLedger;
use super::fault::Fault;
use super::sql::Sql;
use crate::Result;
use crate::error::LedgerError;
use crate::job::{Fence, JobKind};

/// A node that says nothing for so long loses its turn.
pub(super) const JOB_SILENCE: Duration = Duration::from_secs(30);
/// Signs of life in that time.
const BEATS: u32 = 4;
/// How long giving a turn back may take; the server takes it back anyway when the session ends.
const UNLOCK_WAIT: Duration = Duration::from_secs(2);

/// A turn at a job on some node.
pub(crate) struct Held<'l> {
    ledger: &'l PostgresLedger,
    client: Arc<ClientWrapper>,
    beats: AbortHandle,
    fence: Fence,
}

impl Held<'_> {
    pub(crate) fn fence(&self) -> Fence {
        self.fence
    }
}

impl PostgresLedger {
    /// Takes a turn at a job, unless another node is at it.
    pub(crate) fn hold(&self, job: JobKind) -> Result<Held<'_>> {
        let taken = self.connections.block_on(async {
            let client = Arc::new(Client::take(self.connections.client().await?));
            let epoch = self.take_turn(&client, job).await?;
            let beats = self.connections.spawn(beat(Arc::clone(&client), self.job_silence / BEATS));
            Ok(Held { ledger: self, client, beats, fence: Fence { job, epoch } })
        });
        taken.map_err(Fault::into_error)
    }

    async fn take_turn(&self, client: &ClientWrapper, job: JobKind) -> std::result::Result<i64, Fault> {
        let known = |error: tokio_postgres::Error| Fault::of("taking a turn at a job", &error);
        let silence = format!("SET idle_session_timeout = {}", self.job_silence.as_millis());
        client.batch_execute(&silence).await.map_err(known)?;
        let name = format!("enjamb {} {job}", self.address.schema);
        let locked = client.query_one("SELECT pg_try_advisory_lock(hashtextextended($1, 1))", &[&name]).await;
        if !locked.map_err(known)?.get::<_, bool>(0) {
            return Err(LedgerError::JobTaken { job, silence_s: self.job_silence.as_secs() }.into());
        }
        Ok(client.query_one(&self.sql.next_turn, &[&job.as_str()]).await.map_err(known)?.get(0))
    }
}

async fn beat(client: Arc<ClientWrapper>, every: Duration) {
    // Whoever lost the session learns of it when it writes.
    while client.batch_execute("SELECT 1").await.is_ok() {
        tokio::time::sleep(every).await;
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.beats.abort();
        let unlock = self.client.batch_execute("SELECT pg_advisory_unlock_all()");
        // If it fails, the session is gone or about to go, and the lock with it.
        let _ = self.ledger.connections.block_on(async { tokio::time::timeout(UNLOCK_WAIT, unlock).await });
    }
}

/// Which turns that something is written for are over. Those that are not stay so until the transaction ends.
pub(super) async fn ended_turns(
    client: &Connection,
    sql: &Sql,
    fences: &HashSet<Fence>,
) -> std::result::Result<HashSet<Fence>, Fault> {
    let known = |error: tokio_postgres::Error| Fault::of("looking whose turn it is", &error);
    if fences.is_empty() {
        return Ok(HashSet::new());
    }
    let names: Vec<_> = fences.iter().map(|fence| fence.job.as_str()).collect();
    let rows = client.query(&sql.turns, &[&names]).await.map_err(known)?;
    let is_on = |fence: &Fence| {
        let of_job = rows.iter().find(|row| row.get::<_, &str>(0) == fence.job.as_str());
        of_job.is_some_and(|row| row.get::<_, i64>(1) == fence.epoch)
    };
    Ok(fences.iter().copied().filter(|fence| !is_on(fence)).collect())
}

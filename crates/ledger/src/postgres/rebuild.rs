//! The index made anew from the log, while readers go on with the old one.

use super::PostgresLedger;
use super::fault::Fault;
use super::rows::unseal;
use super::snapshot::{missing, sealed_page, sealed_range};
use super::stage::{Known, refold};
use super::writer::Rows;
use crate::Result;
use crate::index::{Changes, INDEX_FORMAT, unreadable};
use crate::record::Record;
use tokio_postgres::Client;

impl PostgresLedger {
    /// Throws the index away and folds the log anew, in one transaction. Writers wait.
    pub fn rebuild_index(&self) -> Result<()> {
        self.alone(async |client| {
            let known = |error: tokio_postgres::Error| Fault::of("rebuilding the index", &error);
            client.batch_execute("BEGIN ISOLATION LEVEL READ COMMITTED").await.map_err(known)?;
            let head = client.query_one(&self.sql.lock, &[]).await.map_err(known)?;
            client.execute(&self.sql.clear_rows, &[]).await.map_err(known)?;
            let last = head.get::<_, i64>(0) as u64;
            let mut next = 1;
            while next <= last {
                let page = self.records_page(client, next, last).await?;
                next += page.len() as u64;
                let changes = self.fold_page(client, &page).await?;
                self.write_rows(client, &changes).await?;
            }
            client.execute(&self.sql.next_epoch, &[]).await.map_err(known)?;
            client.execute(&self.sql.note_index_format, &[&INDEX_FORMAT.to_string()]).await.map_err(known)?;
            client.batch_execute("COMMIT").await.map_err(known)
        })
    }

    async fn records_page(
        &self,
        client: &Client,
        from: u64,
        to: u64,
    ) -> std::result::Result<Vec<(u64, Record)>, Fault> {
        let known = |error: tokio_postgres::Error| Fault::of("reading records", &error);
        let rows = client.query(&self.sql.page, &[&(from as i64), &(to as i64)]).await.map_err(known)?;
        let in_a_row = rows.iter().zip(from..).take_while(|(row, n)| row.get::<_, i64>(0) as u64 == *n);
        let read = |(row, n): (&tokio_postgres::Row, u64)| Ok((n, Record::decode(n, row.get(1))?));
        let page: Vec<_> = in_a_row.map(read).collect::<Result<_>>()?;
        if !page.is_empty() {
            return Ok(page);
        }
        let rows = client.query(&self.sql.sealed_range, &[&(from as i64)]).await.map_err(known)?;
        let range = rows.first().map(sealed_range).transpose()?.filter(|range| range.holds(from));
        let range = range.ok_or_else(|| missing(from))?;
        // Segments are read by whoever waits, and wait for answers themselves.
        Ok(tokio::task::block_in_place(|| sealed_page(&self.segments, &range, from, to))?)
    }

    async fn fold_page(&self, client: &Client, page: &[(u64, Record)]) -> std::result::Result<Changes, Fault> {
        let error_of = |error: tokio_postgres::Error| Fault::of("reading rows", &error);
        let mut known = Known::default();
        loop {
            let changes = refold(page, &known);
            let missed = known.take_missed();
            if missed.is_empty() {
                return Ok(changes?);
            }
            let rows = client.query(&self.sql.get_many, &[&missed]).await.map_err(error_of)?;
            missed.into_iter().for_each(|key| known.learn(key, None));
            for row in &rows {
                let (key, value): (&[u8], &[u8]) = (row.get(0), row.get(1));
                known.learn(key.to_vec(), Some(unseal(key, value).map_err(unreadable)?.to_vec()));
            }
        }
    }

    async fn write_rows(&self, client: &Client, changes: &Changes) -> std::result::Result<(), Fault> {
        let known = |error: tokio_postgres::Error| Fault::of("writing rows", &error);
        let Rows { keys, values, gone } = Rows::of(changes);
        client.execute(&self.sql.put_rows, &[&keys, &values]).await.map_err(known)?;
        client.execute(&self.sql.delete_rows, &[&gone]).await.map_err(known)?;
        Ok(())
    }
}

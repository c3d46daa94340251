//! Keeping a store in a database whole: what is read again, what is freed, and how the server is set up.

use std::collections::HashSet;

use enjamb_core::{ArtifactId, Digest};

use super::PostgresLedger;
use super::snapshot::Snapshot;
use crate::error::LedgerError;
use crate::index::{Index, Lookup, Place, Rows, Table};
use crate::look::ByNumber;
use crate::record::Record;
use crate::sqlite::{Recheck, check_segment, scratch_index};
use crate::{ArtifactPlace, Checked, Ledger, Progress, Result};

/// The last records that a quick check reads.
const QUICK_RECORDS: u64 = 1_000;
/// Segments that a quick check asks for: each may be a request.
const QUICK_SEGMENTS: usize = 100;
/// Artifacts that are asked about at once.
const ASKED_MAX: usize = 10_000;

/// How a server is set up that matters to whoever stores something there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerSettings {
    pub version: String,
    pub fsync: bool,
    pub data_checksums: bool,
    pub full_page_writes: bool,
    /// Whether a commit waits for a second server.
    pub has_synchronous_standby: bool,
}

impl PostgresLedger {
    pub fn server_settings(&self) -> Result<ServerSettings> {
        let sql = "SELECT current_setting('server_version'), current_setting('fsync') = 'on',
            current_setting('data_checksums') = 'on', current_setting('full_page_writes') = 'on',
            current_setting('synchronous_standby_names') <> ''";
        let rows = self.ask(|snapshot| snapshot.query(sql, &[]))?;
        let row = rows.first().ok_or_else(|| LedgerError::corrupt("the server", "it does not say how it is set up"))?;
        Ok(ServerSettings {
            version: row.get(0),
            fsync: row.get(1),
            data_checksums: row.get(2),
            full_page_writes: row.get(3),
            has_synchronous_standby: row.get(4),
        })
    }

    /// Bytes that the server keeps: of the records, and of the index.
    pub fn table_bytes(&self) -> Result<(u64, u64)> {
        let rows = self.ask(|snapshot| snapshot.query(&self.sql.table_bytes, &[]))?;
        let bytes = |row: &tokio_postgres::Row| (row.get::<_, i64>(0) as u64, row.get::<_, i64>(1) as u64);
        Ok(rows.first().map(bytes).unwrap_or_default())
    }

    pub(crate) fn here(&self, ids: &[ArtifactId]) -> Result<HashSet<ArtifactId>> {
        let mut here = HashSet::new();
        for some in ids.chunks(ASKED_MAX) {
            let keys: Vec<_> = some.iter().map(crate::index::artifact_key).collect();
            let rows = self.ask(|snapshot| snapshot.query(&self.sql.get_many, &[&keys]))?;
            let found: HashSet<&[u8]> = rows.iter().map(|row| row.get(0)).collect();
            here.extend(some.iter().zip(&keys).filter(|(_, key)| found.contains(key.as_slice())).map(|(id, _)| *id));
        }
        Ok(here)
    }

    pub(crate) fn place(&self, id: &ArtifactId) -> Result<Option<ArtifactPlace>> {
        self.look(|look| {
            let Some(row) = look.index.artifact(id)? else { return Ok(None) };
            let sealed = look.records.segment_of(row.n)?.is_some();
            let large = row.place == Place::Segment;
            Ok(Some(ArtifactPlace { id: *id, n: row.n, len: row.len, sealed, large }))
        })
    }

    /// Checks what can be checked without reading everything.
    pub(crate) fn verify_quick(&self) -> Result<Checked> {
        let mut checked = Checked::default();
        let last = self.position()?;
        for n in last.saturating_sub(QUICK_RECORDS).max(1)..=last {
            checked.records += 1;
            if let Err(error) = self.ask(|snapshot| snapshot.record(n)) {
                checked.find_error(format!("record {n}"), &error);
            }
        }
        for digest in self.named_segments()?.into_iter().take(QUICK_SEGMENTS) {
            checked.segments += 1;
            if let Err(error) = self.segments.glance(&digest) {
                checked.find_error(format!("segment {digest}"), &error.into());
            }
        }
        Ok(checked)
    }

    /// Reads every record again, asks every rule again, and compares the index with one made anew.
    pub(crate) fn verify_full(&self, progress: &mut Progress<'_>) -> Result<Checked> {
        let (scratch, last) = (scratch_index()?, self.position()?);
        let mut recheck = Recheck::new(&scratch);
        let mut next = 1;
        while next <= last {
            match self.ask(|snapshot| snapshot.page(next, last)) {
                Ok(page) => {
                    recheck.take(&page)?;
                    next += page.len() as u64;
                }
                // One by one: something in this page is damaged.
                Err(_) => {
                    match self.ask(|snapshot| snapshot.record(next)) {
                        Ok(record) => recheck.take(&[(next, record)])?,
                        Err(error) => recheck.checked.find_error(format!("record {next}"), &error),
                    }
                    next += 1;
                }
            }
            progress(next - 1, last);
        }
        let mut checked = recheck.checked;
        if self.position()? == last
            && let Some(detail) = self.ask(|snapshot| first_difference(snapshot, &Rows(&scratch)))?
        {
            checked.find("index-mismatch", "the index", detail);
        }
        for digest in self.named_segments()? {
            checked.add([(digest, check_segment(&self.segments, &digest))].into());
            // A copy on this machine is of no use to another one.
            if let Err(error) = self.segments.glance_upstream(&digest) {
                checked.find_error(format!("segment {digest}"), &error.into());
            }
        }
        Ok(checked)
    }

    /// Segments that ranges of records are in, or that hold large artifacts which the index knows.
    pub(super) fn named_segments(&self) -> Result<HashSet<Digest>> {
        self.ask(|snapshot| {
            let numbers = Index(snapshot).segment_records().map_err(crate::index::unreadable)?;
            let named = |record| match record {
                Record::Segment(segment) => Ok(segment.segment),
                _ => Err(LedgerError::corrupt("the index", "it names a record for a segment that names none")),
            };
            let of_artifacts = snapshot.records(&numbers)?.into_iter().map(named);
            let of_ranges = snapshot.sealed()?.into_iter().map(|range| Ok(range.segment));
            of_ranges.chain(of_artifacts).collect()
        })
    }
}

/// The first row in which the index differs from one made anew.
fn first_difference(index: &Snapshot<'_>, rebuilt: &Rows<'_>) -> Result<Option<String>> {
    let (mut rows, mut difference) = (0u64, None);
    let compared = index.scan(&[], &[0xff], &mut |key, payload| {
        rows += 1;
        if rebuilt.get(key)?.as_deref() != Some(payload) {
            difference = Some(format!("the row {} is not what the log gives", key.escape_ascii()));
        }
        Ok(difference.is_none())
    });
    compared.map_err(crate::index::unreadable)?;
    let expected = rebuilt.count().map_err(crate::index::unreadable)?;
    Ok(difference.or_else(|| (rows != expected).then(|| format!("it has {rows} rows, and the log gives {expected}"))))
}

//! Sweeping: segments that nothing names are taken out of the object store, a day after they were found so.
//!
//! What is named is decided while nobody writes. Between that and the removal, whoever wants the same segment announces
//! it, which spares it or waits until it is gone; so nothing that is named is ever removed.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, SystemTime};

use enjamb_core::Digest;
use tokio_postgres::Client;

use super::PostgresLedger;
use super::fault::Fault;
use super::register::digests;
use super::snapshot::sealed_range;
use crate::error::LedgerError;
use crate::job::JobKind;
use crate::objects::{Objects, file_name};
use crate::record::Record;
use crate::segment::SegmentError;
use crate::segments::SegmentFile;
use crate::{Ledger, Result};

/// After this time nobody goes on with a file that has no name yet.
const UNFINISHED_MAX: Duration = Duration::from_secs(24 * 3_600);

/// A segment as the database notes it.
struct Noted {
    segment: Digest,
    bytes: u64,
    deps: Vec<Digest>,
    /// It was announced so long ago that whoever did so has named it or given up.
    is_old: bool,
    at: SystemTime,
}

impl PostgresLedger {
    /// Segments that no record, sealed range or other live segment names, and that nobody is about to name.
    pub(crate) fn unnamed_files(&self) -> Result<Vec<SegmentFile>> {
        let Some(objects) = self.objects() else { return Ok(Vec::new()) };
        let named = self.named_segments()?;
        let noted = self.ask(|snapshot| {
            snapshot.query(&self.sql.segments.all_segments, &[])?.iter().map(noted).collect::<Result<Vec<_>>>()
        })?;
        let unnamed = unnamed(&noted, named);
        let file = |segment: &Noted| SegmentFile {
            path: format!("{}/{}", objects.shown(), file_name(&segment.segment)).into(),
            digest: Some(segment.segment),
            bytes: segment.bytes,
            used: segment.at,
        };
        Ok(noted.iter().filter(|segment| unnamed.contains(&segment.segment)).map(file).collect())
    }

    /// Removes what was found unnamed a day ago, finds what is unnamed now, and returns how many bytes that freed; `None`
    /// when segments live on each machine, of which nobody can say who has them.
    pub(crate) fn sweep(&self) -> Result<Option<u64>> {
        let Some(objects) = self.objects() else { return Ok(None) };
        let _turn = self.hold(JobKind::Maintain)?;
        let before = self.position()?;
        let named = self.named_segments()?;
        self.doom(before, named)?;
        let mut freed = 0;
        for row in self.ask(|snapshot| snapshot.query(&self.sql.segments.doomed, &[]))? {
            let damaged = || LedgerError::corrupt("the table segments", "a row names no segment");
            let segment = Digest::from_slice(row.get(0)).ok_or_else(damaged)?;
            if self.remove(objects, &segment)? {
                freed += row.get::<_, i64>(1) as u64;
            }
        }
        self.remove_unfinished()?;
        Ok(Some(freed))
    }

    /// Notes which segments nothing names. `named` are those that something named at record `before`.
    fn doom(&self, before: u64, mut named: HashSet<Digest>) -> Result<()> {
        self.alone(async |client| {
            let known = |error: tokio_postgres::Error| Fault::of("finding segments that nothing names", &error);
            client.batch_execute("BEGIN ISOLATION LEVEL READ COMMITTED").await.map_err(known)?;
            // Nobody names anything from here to the end of this transaction.
            client.query(&self.sql.lock, &[]).await.map_err(known)?;
            self.add_named_since(client, before, &mut named).await?;
            let rows = client.query(&self.sql.segments.all_segments, &[]).await.map_err(known)?;
            let noted: Vec<_> = rows.iter().map(noted).collect::<Result<_>>()?;
            let doomed: Vec<Vec<u8>> =
                unnamed(&noted, named).iter().map(|segment| segment.as_bytes().to_vec()).collect();
            client.execute(&self.sql.segments.doom, &[&doomed]).await.map_err(known)?;
            client.batch_execute("COMMIT").await.map_err(known)
        })
    }

    async fn add_named_since(
        &self,
        client: &Client,
        before: u64,
        named: &mut HashSet<Digest>,
    ) -> std::result::Result<(), Fault> {
        let known = |error: tokio_postgres::Error| Fault::of("finding segments that nothing names", &error);
        for row in client.query(&self.sql.segments.named_since, &[&(before as i64)]).await.map_err(known)? {
            if let Record::Segment(record) = Record::decode(row.get::<_, i64>(0) as u64, row.get(1))? {
                named.insert(record.segment);
            }
        }
        for row in client.query(&self.sql.segments.sealed, &[]).await.map_err(known)? {
            named.insert(sealed_range(&row)?.segment);
        }
        Ok(())
    }

    /// Removes a segment while whoever announces the same one waits; `false` when it was spared.
    fn remove(&self, objects: &Objects, segment: &Digest) -> Result<bool> {
        let name: &[u8] = segment.as_bytes();
        self.alone(async |client| {
            let known = |error: tokio_postgres::Error| Fault::of("removing a segment", &error);
            // An answer of the object store may take longer than the server waits otherwise.
            let begin = "BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL idle_in_transaction_session_timeout = 0";
            client.batch_execute(begin).await.map_err(known)?;
            if client.execute(&self.sql.segments.forget_doomed, &[&name]).await.map_err(known)? == 0 {
                return Ok(false);
            }
            tokio::task::block_in_place(|| objects.remove(segment)).map_err(LedgerError::from)?;
            client.batch_execute("COMMIT").await.map_err(known)?;
            Ok(true)
        })
    }

    /// Files on this machine that someone began and nobody went on with.
    fn remove_unfinished(&self) -> Result<()> {
        let is_old = |file: &SegmentFile| file.used.elapsed().is_ok_and(|age| age > UNFINISHED_MAX);
        for file in self.segments.files()?.iter().filter(|file| file.digest.is_none() && is_old(file)) {
            self.segments.remove(file)?;
        }
        Ok(())
    }

    /// Puts segments upstream that something names and that only this machine has: those of before it had an upstream, and
    /// those that were lost there.
    pub(super) fn push_what_is_only_here(&self) -> Result<()> {
        let named = self.named_segments()?;
        let here = self.segments.files()?.into_iter().filter_map(|file| file.digest);
        for digest in here.filter(|digest| named.contains(digest)) {
            match self.segments.glance_upstream(&digest) {
                Ok(()) => {}
                Err(SegmentError::MissingSegment { .. }) => self.segments.push(&digest)?,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }
}

fn noted(row: &tokio_postgres::Row) -> Result<Noted> {
    let damaged = || LedgerError::corrupt("the table segments", "a row cannot be read");
    Ok(Noted {
        segment: Digest::from_slice(row.get(0)).ok_or_else(damaged)?,
        bytes: row.get::<_, i64>(1) as u64,
        deps: digests(row.get(2)).ok_or_else(damaged)?,
        is_old: row.get(3),
        at: row.get(4),
    })
}

/// What may go: old, and neither named nor holding bytes of what is named.
fn unnamed(noted: &[Noted], named: HashSet<Digest>) -> HashSet<Digest> {
    let deps: HashMap<_, _> = noted.iter().map(|segment| (segment.segment, &segment.deps)).collect();
    let (mut live, mut waiting) = (HashSet::new(), Vec::from_iter(named));
    while let Some(segment) = waiting.pop() {
        if live.insert(segment) {
            waiting.extend(deps.get(&segment).into_iter().copied().flatten());
        }
    }
    let is_unnamed = |segment: &&Noted| segment.is_old && !live.contains(&segment.segment);
    noted.iter().filter(is_unnamed).map(|segment| segment.segment).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(noted: &[(&str, &[&str], bool)], named: &[&str], expected: &[&str]) {
        let digest = |name: &&str| Digest::of(name.as_bytes());
        let noted: Vec<_> = noted
            .iter()
            .map(|(name, deps, is_old)| Noted {
                segment: digest(name),
                bytes: 1,
                deps: deps.iter().map(digest).collect(),
                is_old: *is_old,
                at: SystemTime::UNIX_EPOCH,
            })
            .collect();
        assert_eq!(unnamed(&noted, named.iter().map(digest).collect()), expected.iter().map(digest).collect());
    }

    #[test]
    fn only_what_is_old_and_needed_by_nobody_may_go() {
        check(&[("a", &[], true), ("b", &[], true)], &["a"], &["b"]);
        check(&[("a", &[], false)], &[], &[]);
        check(&[("a", &["b"], true), ("b", &["c"], true), ("c", &[], true), ("d", &["a"], true)], &["a"], &["d"]);
        check(&[("a", &["b"], false), ("b", &[], true)], &[], &["b"]);
    }
}

//! Verifying: every byte read again, every rule asked again, the index compared with one made anew.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

use enjamb_core::Digest;
use enjamb_core::frame::RawFrame;
use rusqlite::Connection;

use super::log::{self, Log};
use super::{AHEAD_BYTES_MAX, Records, SqliteLedger, catch_up};
use crate::error::LedgerError;
use crate::index::{Changes, Index, Rows, SCHEMA, Stored, View, fold, unreadable};
use crate::plan::{Facts, admit};
use crate::record::{FrameRecord, Record};
use crate::segments::Segments;
use crate::{Progress, Result};

/// Records folded between two writes of the rebuilt index.
const RECORDS_PER_WRITE: u64 = 10_000;
/// Findings of one check: a store that is damaged all over need not say so a million times.
const FINDINGS_MAX: usize = 1_000;
/// Threads that read segments. Each holds a block, and memory is to stay small.
const THREADS_MAX: usize = 3;
/// The last records that a quick check reads.
const QUICK_RECORDS: u64 = 1_000;

/// One thing that is wrong with a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// A stable word for what kind of thing it is.
    pub code: &'static str,
    /// The damaged thing: a record, a frame, an artifact, a segment, the index.
    pub subject: String,
    pub detail: String,
}

/// What was checked, and what was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Checked {
    pub records: u64,
    pub frames: u64,
    pub artifacts: u64,
    pub segments: u64,
    pub bytes: u64,
    pub findings: Vec<Finding>,
}

impl Checked {
    pub(crate) fn find(&mut self, code: &'static str, subject: impl Into<String>, detail: impl Into<String>) {
        if self.findings.len() < FINDINGS_MAX {
            self.findings.push(Finding { code, subject: subject.into(), detail: detail.into() });
        }
    }

    pub(crate) fn find_error(&mut self, subject: impl Into<String>, error: &LedgerError) {
        self.find(error.code(), subject, error.to_string());
    }

    /// What was found in segments, told in the order of their names.
    pub(crate) fn add(&mut self, segments: BTreeMap<Digest, Self>) {
        for one in segments.into_values() {
            self.segments += one.segments;
            self.bytes += one.bytes;
            self.findings.extend(one.findings);
        }
        self.findings.truncate(FINDINGS_MAX);
    }
}

impl SqliteLedger {
    /// Checks what can be checked without reading everything: that all is there, and that its ends are whole.
    pub fn verify_quick(&self) -> Result<Checked> {
        let log = log::open(&self.dir.join("log.db"), self.vfs())?;
        let records = Records { log: Log(&log), segments: &self.segments };
        let mut checked = Checked::default();
        check_ranges(&mut checked, records)?;
        let last = records.log.last()?;
        for n in last.saturating_sub(QUICK_RECORDS).max(1)..=last {
            checked.records += 1;
            if let Err(error) = records.record(n) {
                checked.find_error(format!("record {n}"), &error);
            }
        }
        if let Err(error) = self.check_segments_quickly(&mut checked, records) {
            checked.find_error("index.db", &error);
        }
        Ok(checked)
    }

    fn check_segments_quickly(&self, checked: &mut Checked, records: Records<'_>) -> Result<()> {
        let mut index = catch_up::open(&self.dir.join("index.db"), self.vfs())?;
        catch_up::run(&mut index, records)?;
        for digest in self.named_segments(records, Index(&Rows(&index)))? {
            checked.segments += 1;
            if let Err(error) = self.segments.segment(&digest) {
                checked.find_error(format!("segment {digest}"), &error.into());
            }
        }
        Ok(())
    }

    /// Checks everything. Segments depend on nothing else, so other cores read them while this one reads the records.
    pub fn verify_full(&self, progress: &mut Progress<'_>) -> Result<Checked> {
        let log = log::open(&self.dir.join("log.db"), self.vfs())?;
        let records = Records { log: Log(&log), segments: &self.segments };
        let mut checked = Checked::default();
        check_ranges(&mut checked, records)?;
        let last = records.log.last()?;
        let rebuilt = scratch_index()?;
        let sealed = records.log.sealed()?.iter().map(|range| range.segment).collect();
        let mut segments =
            self.check_segments(&sealed, || check_records(&mut checked, records, &rebuilt, last, progress))?;
        let mut named = self.named_segments(records, Index(&Rows(&rebuilt)))?;
        named.retain(|digest| !sealed.contains(digest));
        segments.extend(self.check_segments(&named, || Ok(()))?);
        checked.add(segments);
        self.compare_index(&mut checked, records, &rebuilt)?;
        Ok(checked)
    }

    /// Checks segments on as many cores as there are, one of which does something `meanwhile` and then joins in.
    fn check_segments(
        &self,
        named: &BTreeSet<Digest>,
        meanwhile: impl FnOnce() -> Result<()>,
    ) -> Result<BTreeMap<Digest, Checked>> {
        let next = Mutex::new(named.iter());
        let threads = std::thread::available_parallelism().map_or(1, usize::from).min(THREADS_MAX).min(named.len() + 1);
        let work = || {
            let taken = std::iter::from_fn(|| next.lock().unwrap_or_else(PoisonError::into_inner).next());
            taken.map(|digest| (*digest, check_segment(&self.segments, digest))).collect::<Vec<_>>()
        };
        std::thread::scope(|scope| {
            let others: Vec<_> = (1..threads).map(|_| scope.spawn(work)).collect();
            let done = meanwhile();
            let own = work();
            let theirs = others.into_iter().flat_map(|thread| thread.join().expect("a check does not panic"));
            let all = own.into_iter().chain(theirs).collect();
            done.map(|()| all)
        })
    }

    /// Segments that the log names, in order. What they name in turn is found when they are read.
    fn named_segments(&self, records: Records<'_>, index: Index<'_>) -> Result<BTreeSet<Digest>> {
        let mut named: BTreeSet<_> = records.log.sealed()?.iter().map(|range| range.segment).collect();
        for n in index.segment_records().map_err(unreadable)? {
            if let Ok(Record::Segment(segment)) = records.record(n) {
                named.insert(segment.segment);
            }
        }
        Ok(named)
    }

    /// The index must be what folding the log gives. One that lags is brought up first, as any reader would do.
    fn compare_index(&self, checked: &mut Checked, records: Records<'_>, rebuilt: &Connection) -> Result<()> {
        let mut index = catch_up::open(&self.dir.join("index.db"), self.vfs())?;
        if let Err(error) = catch_up::run(&mut index, records) {
            checked.find_error("index.db", &error);
            return Ok(());
        }
        let difference = first_difference(&index, rebuilt);
        match difference.map_err(|error| unreadable(error.into())) {
            Ok(None) => {}
            Ok(Some(detail)) => checked.find("index-differs", "index.db", detail),
            Err(error) => checked.find_error("index.db", &error),
        }
        Ok(())
    }
}

pub(crate) fn check_segment(segments: &Segments, digest: &Digest) -> Checked {
    let mut checked = Checked { segments: 1, ..Checked::default() };
    let subject = format!("segment {digest}");
    match segments.stored(digest) {
        Err(error) => checked.find_error(subject, &error.into()),
        Ok(stored) => {
            checked.bytes += stored.file_bytes();
            for finding in crate::segment::verify(stored, *digest) {
                checked.find("segment-damaged", subject.clone(), finding.to_string());
            }
        }
    }
    checked
}

pub(crate) fn scratch_index() -> Result<Connection> {
    // An empty path is a database of this connection's own, on disk when it outgrows memory, gone when it closes.
    let made = Connection::open("").and_then(|connection| {
        connection.execute_batch(SCHEMA)?;
        Ok(connection)
    });
    made.map_err(|error| LedgerError::sqlite("making a scratch index", &error))
}

/// Every number from 1 to the last is in exactly one place.
fn check_ranges(checked: &mut Checked, records: Records<'_>) -> Result<()> {
    let mut next = 1;
    for range in records.log.sealed()? {
        if range.first_n != next || range.last_n < range.first_n {
            let detail = format!("sealed range {}-{} does not follow record {}", range.first_n, range.last_n, next - 1);
            checked.find("records-missing", "log.db", detail);
        }
        next = range.last_n + 1;
    }
    Ok(())
}

/// Reads all records in order, asks every rule again, and folds them into `rebuilt`.
fn check_records(
    checked: &mut Checked,
    records: Records<'_>,
    rebuilt: &Connection,
    last: u64,
    progress: &mut Progress<'_>,
) -> Result<()> {
    let mut first = 1;
    while first <= last {
        let to = last.min(first + RECORDS_PER_WRITE - 1);
        let rows = Rows(rebuilt);
        let mut view = View::new(&rows);
        let mut next = first;
        while next <= to {
            for (n, record) in records.some(next, to, AHEAD_BYTES_MAX) {
                next = n + 1;
                match record {
                    Ok(record) => check_record(checked, &mut view, n, &record)?,
                    Err(error) => checked.find_error(format!("record {n}"), &error),
                }
            }
        }
        write_scratch(rebuilt, view.into_changes(), to)?;
        progress(to, last);
        first = to + 1;
    }
    Ok(())
}

/// Records of any engine, checked in order and folded anew into a scratch index.
pub(crate) struct Recheck<'c> {
    pub(crate) checked: Checked,
    rebuilt: &'c Connection,
}

impl<'c> Recheck<'c> {
    pub(crate) fn new(rebuilt: &'c Connection) -> Self {
        Self { checked: Checked::default(), rebuilt }
    }

    pub(crate) fn take(&mut self, records: &[(u64, Record)]) -> Result<()> {
        let Some((to, _)) = records.last() else { return Ok(()) };
        let rows = Rows(self.rebuilt);
        let mut view = View::new(&rows);
        for (n, record) in records {
            check_record(&mut self.checked, &mut view, *n, record)?;
        }
        write_scratch(self.rebuilt, view.into_changes(), *to)
    }
}

fn write_scratch(rebuilt: &Connection, changes: Changes, to: u64) -> Result<()> {
    let write = |error: rusqlite::Error| LedgerError::sqlite("writing a scratch index", &error);
    rebuilt.execute_batch("BEGIN").map_err(write)?;
    Rows(rebuilt).write(changes, to).map_err(unreadable)?;
    rebuilt.execute_batch("COMMIT").map_err(write)
}

fn check_record(checked: &mut Checked, view: &mut View<'_>, n: u64, record: &Record) -> Result<()> {
    checked.records += 1;
    checked.bytes += record.content_len();
    match record {
        Record::Frame(frame) => {
            checked.frames += 1;
            check_frame(checked, view, n, frame)?;
        }
        Record::Bytes { .. } => checked.artifacts += 1,
        Record::Segment(segment) => checked.artifacts += segment.artifacts.len() as u64,
        Record::Dropped { .. } => {}
    }
    fold(view, n, record).map_err(unreadable)
}

fn check_frame(checked: &mut Checked, view: &View<'_>, n: u64, frame: &FrameRecord) -> Result<()> {
    let subject = format!("frame {} of {} (record {n})", frame.seq, frame.stream);
    let facts = Stored(view);
    let head = facts.head(&frame.stream)?;
    let (next_seq, chain) = head.map_or((0, Digest::ZERO), |head| (head.next_seq, head.chain));
    if frame.seq != next_seq {
        checked.find("seq-gap", subject.clone(), format!("its seq should be {next_seq}"));
    }
    if frame.following(&chain).is_none() {
        checked.find("chain-broken", subject.clone(), "its digest does not follow from the frame before");
    }
    match RawFrame::parse(frame.json.clone()) {
        Err(error) => checked.find(error.code(), subject, error.to_string()),
        Ok(raw) => {
            if raw.seq() != frame.seq || *raw.stream() != frame.stream {
                checked.find("frame-mismatch", subject.clone(), "its JSON names another stream or seq");
            }
            if let Err(error) = admit(&raw, &facts) {
                checked.find_error(subject, &error);
            }
        }
    }
    Ok(())
}

/// The first row in which two indexes differ.
fn first_difference(index: &Connection, rebuilt: &Connection) -> rusqlite::Result<Option<String>> {
    let sql = "SELECT k, v FROM kv ORDER BY k";
    let (mut left, mut right) = (index.prepare(sql)?, rebuilt.prepare(sql)?);
    let (mut left, mut right) = (left.query([])?, right.query([])?);
    loop {
        let (a, b) = (row(left.next()?)?, row(right.next()?)?);
        if a != b {
            let missing = || "nothing".to_owned();
            let text = |row: &Option<(Vec<u8>, Vec<u8>)>| row.as_ref().map_or_else(missing, |(key, _)| printable(key));
            return Ok(Some(format!("it has {} where the log gives {}", text(&a), text(&b))));
        }
        if a.is_none() {
            return Ok(None);
        }
    }
}

fn row(row: Option<&rusqlite::Row<'_>>) -> rusqlite::Result<Option<(Vec<u8>, Vec<u8>)>> {
    row.map(|row| Ok((row.get(0)?, row.get(1)?))).transpose()
}

fn printable(key: &[u8]) -> String {
    key.iter().flat_map(|byte| std::ascii::escape_default(*byte)).map(char::from).take(80).collect()
}

//! The embedded engine: `log.db` is the truth, `index.db` follows it, several processes may use both at once.

mod backup;
mod beside;
mod catch_up;
mod checkpoint;
mod log;
mod migrate;
mod parts;
mod seal;
mod sweep;
mod upstream;
mod verify;
mod writer;

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::JoinHandle;

use enjamb_core::chain::Stop;
use enjamb_core::lexicon::Postings;
use enjamb_core::order::{MarkKey, Scope};
use enjamb_core::{ArtifactId, CommitId, Digest, StreamId, Timestamp};
use rusqlite::Connection;

use self::beside::Beside;
use crate::batch::{Appended, Batch};
use crate::error::{LedgerError, Outcome};
use crate::group::{Group, Party};
use crate::index::{ArtifactRow, Index, IndexError, Lookup, Place, Rows, StreamOrder, Totals, unreadable};
use crate::look::{self, ByNumber, Look, Trouble, answers, told};
use crate::private;
use crate::record::{FrameRecord, Record};
use crate::segment::SegmentError;
use crate::segments::Segments;
use crate::{
    ArtifactSummary, Ledger, Link, Part, PartSink, Present, Result, Sink, Span, StoredCommit, StoredFrame,
    StreamSummary, Walk, clip,
};
pub use backup::Backup;
use checkpoint::Checkpoints;
use log::Log;
pub use log::SealedRange;
pub use sweep::ArtifactPlace;
pub use verify::{Checked, Finding};
pub(crate) use verify::{Recheck, check_segment, scratch_index};
use writer::Writer;

/// Records that the index may lag behind before a thread is started to fold them.
const FOLD_LAG_MAX: u64 = 50_000;

/// How a store is opened.
#[derive(Clone, Debug, Default)]
pub struct SqliteOptions {
    /// The SQLite VFS to go through; tests use one that fails on purpose.
    pub vfs: Option<String>,
}

/// A store in a directory.
pub struct SqliteLedger {
    dir: PathBuf,
    options: SqliteOptions,
    segments: Arc<Segments>,
    group: Group,
    writer: Mutex<Option<Writer>>,
    readers: Mutex<Vec<Reader>>,
    /// The connection that the store was opened with, for whoever reads first: opening one takes as long as a question.
    opened_log: Mutex<Option<Connection>>,
    index_beside: Beside,
    poisoned: AtomicBool,
    folded_n: Arc<AtomicU64>,
    folding: Mutex<Option<JoinHandle<()>>>,
    checkpoints: Checkpoints,
    store_id: OnceLock<String>,
}

struct Reader {
    log: Connection,
    index: Connection,
}

impl Reader {
    /// The number of the last record. A log that ends before what the index has seen of it is damaged.
    fn last(&self) -> Result<u64> {
        let seen = Rows(&self.index).applied().map_err(unreadable)?;
        match Log(&self.log).last()? {
            last if last < seen => Err(catch_up::log_is_short(last, seen)),
            last => Ok(last),
        }
    }
}

/// Bytes of sealed records that are read together, at first and at most. They lie by stream and not by number, in blocks that
/// are large: read one by one, records of many streams would have every block unpacked as often as it has records.
const AHEAD_BYTES_MIN: u64 = 256 << 10;
const AHEAD_BYTES_MAX: u64 = 16 << 20;

/// The log with what has moved out of it: every record, wherever it is.
#[derive(Clone, Copy)]
pub(crate) struct Records<'c> {
    pub(crate) log: Log<'c>,
    pub(crate) segments: &'c Segments,
}

impl Records<'_> {
    pub(crate) fn record(&self, n: u64) -> Result<Record> {
        if let Some(body) = self.log.body(n)? {
            return Record::decode(n, &body);
        }
        if let Some(range) = self.log.sealed_range(n)? {
            return Record::unseal(n, &self.segments.record(&range.segment, n)?);
        }
        // Sealing moves rows while others read: the row may have gone between the two questions above.
        let body = self.log.body(n)?;
        Record::decode(n, &body.ok_or_else(|| LedgerError::corrupt(format!("record {n}"), "it is missing"))?)
    }

    /// The record `from` and those after it, not past `to`, that are sealed together with it and have `bytes_max` together.
    /// What is wrong with one is told of that one alone.
    pub(crate) fn some(&self, from: u64, to: u64, bytes_max: u64) -> Vec<(u64, Result<Record>)> {
        match self.sealed(from, to, bytes_max) {
            Ok(bodies) if bodies.is_empty() => vec![(from, self.record(from))],
            Ok(bodies) => {
                (from..).zip(bodies).map(|(n, body)| (n, body.and_then(|body| Record::unseal(n, &body)))).collect()
            }
            Err(error) => vec![(from, Err(error))],
        }
    }

    fn sealed(&self, from: u64, to: u64, bytes_max: u64) -> Result<Vec<Result<Vec<u8>>>> {
        match self.log.sealed_range(from)? {
            Some(range) => self.segments.records(&range.segment, from, to.min(range.last_n), bytes_max),
            None => Ok(Vec::new()),
        }
    }

    /// Records `from..=to`, decoded, in order. A missing one is an error.
    pub(crate) fn each(&self, from: u64, to: u64, visit: &mut dyn FnMut(u64, &Record) -> Result<bool>) -> Result<()> {
        let (mut next, mut go_on) = (from, true);
        // Whoever wants little is not to wait for much.
        let mut bytes_max = AHEAD_BYTES_MIN;
        while go_on && next <= to {
            let before = next;
            self.log.bodies(next, to, &mut |n, body| {
                if n == next {
                    next += 1;
                    go_on = visit(n, &Record::decode(n, body)?)?;
                    return Ok(go_on);
                }
                Ok(false)
            })?;
            if next == before {
                for (n, record) in self.some(next, to, bytes_max) {
                    next = n + 1;
                    go_on = visit(n, &record?)?;
                    if !go_on {
                        break;
                    }
                }
                bytes_max = (bytes_max * 8).min(AHEAD_BYTES_MAX);
            }
        }
        Ok(())
    }
}

impl ByNumber for Records<'_> {
    fn record(&self, n: u64) -> Result<Record> {
        Records::record(self, n)
    }

    fn records(&self, numbers: &[u64]) -> Result<Vec<Record>> {
        // The log is locked once for all of them.
        let _held = self.log.held()?;
        numbers.iter().map(|n| self.record(*n)).collect()
    }

    fn segment_of(&self, n: u64) -> Result<Option<Digest>> {
        Ok(self.log.sealed_range(n)?.map(|range| range.segment))
    }
}

impl SqliteLedger {
    /// Opens the store in `dir`.
    pub fn open(dir: &Path, options: SqliteOptions) -> Result<Self> {
        migrate::bring_up(dir, options.vfs.as_deref())?;
        let path = dir.join("log.db");
        if !path.is_file() {
            return Err(missing(dir));
        }
        // SQLite sets itself up while there is one thread: what two threads have mapped is dear to change.
        let log = log::connect(&path, options.vfs.as_deref())?;
        let index = if options.vfs.is_none() { Beside::start(dir) } else { Beside::default() };
        let log = log::ready(&path, log)?;
        Self::with_log(dir, options, log::settle(log)?, index)
    }

    /// Makes a store in `dir`, which must be empty or not there yet. Opens it if there is one already.
    pub fn create(dir: &Path, options: SqliteOptions, store_id: &str) -> Result<Self> {
        make_dir(dir)?;
        make_log(dir, options.vfs.as_deref(), store_id)?;
        Self::open(dir, options)
    }

    fn with_log(dir: &Path, options: SqliteOptions, log: Option<Connection>, index_beside: Beside) -> Result<Self> {
        Ok(Self {
            segments: Arc::new(Segments::open(dir)?),
            dir: dir.to_owned(),
            options,
            group: Group::default(),
            writer: Mutex::new(None),
            readers: Mutex::new(Vec::new()),
            opened_log: Mutex::new(log),
            index_beside,
            poisoned: AtomicBool::new(false),
            folded_n: Arc::new(AtomicU64::new(0)),
            folding: Mutex::new(None),
            checkpoints: Checkpoints::default(),
            store_id: OnceLock::new(),
        })
    }

    pub fn dir(&self) -> &Path {
        &self.dir
    }

    pub fn segments(&self) -> &Segments {
        &self.segments
    }

    /// The id given to the store when it was made.
    pub fn store_id(&self) -> Result<String> {
        if let Some(id) = self.store_id.get() {
            return Ok(id.clone());
        }
        let reader = self.reader()?;
        let id = Log(&reader.log).store_id();
        self.give_back(reader);
        let id = id?;
        Ok(self.store_id.get_or_init(|| id).clone())
    }

    fn vfs(&self) -> Option<&str> {
        self.options.vfs.as_deref()
    }

    /// Whether a batch may be handed in.
    fn admit(&self, batch: &Batch) -> Result<()> {
        batch.check()?;
        if self.poisoned.load(Ordering::SeqCst) { Err(LedgerError::Poisoned) } else { Ok(()) }
    }

    fn write_group(&self, party: &mut Party<'_>) {
        // A sync may have failed since these joined the queue.
        if self.poisoned.load(Ordering::SeqCst) {
            party.tickets().iter().for_each(|ticket| ticket.answer(Err(LedgerError::Poisoned)));
            return;
        }
        let written = self.with_writer(|writer| {
            writer.write(party, &self.segments)?;
            Ok((writer.known_n(), writer.written_bytes()))
        });
        match written {
            Ok((known_n, bytes)) => {
                self.fold_when_far_behind(known_n);
                self.checkpoints.note(bytes, &self.dir.join("log.db"), self.vfs());
            }
            Err(error) => {
                self.poisoned.fetch_or(error.outcome() == Outcome::Indeterminate, Ordering::SeqCst);
                for ticket in party.tickets().iter().filter(|ticket| !ticket.is_answered()) {
                    ticket.answer(Err(writer::copy_of(&error)));
                }
            }
        }
        if party.tickets().iter().any(|ticket| ticket.met_damaged_index()) {
            // Whoever met it is told, and the next one finds the index made anew; if this fails, they are told in turn.
            let _ = self.rebuild_index();
        }
    }

    fn with_writer<T>(&self, act: impl FnOnce(&mut Writer) -> Result<T>) -> Result<T> {
        let mut slot = lock(&self.writer);
        if slot.is_none() {
            *slot = Some(self.open_writer()?);
        }
        act(slot.as_mut().expect("opened just above"))
    }

    fn open_writer(&self) -> Result<Writer> {
        match Writer::open(&self.dir, self.vfs(), &self.segments) {
            Err(LedgerError::Corrupt { what, .. }) if what == "the index" => {
                self.refold()?;
                Writer::open(&self.dir, self.vfs(), &self.segments)
            }
            opened => opened,
        }
    }

    /// Folds in the background, so that neither writers nor the next reader wait for a long backlog.
    fn fold_when_far_behind(&self, known_n: u64) {
        if known_n - self.folded_n.load(Ordering::Relaxed).min(known_n) < FOLD_LAG_MAX {
            return;
        }
        let mut folding = lock(&self.folding);
        if folding.as_ref().is_some_and(|thread| !thread.is_finished()) {
            return;
        }
        let (dir, vfs, segments) = (self.dir.clone(), self.options.vfs.clone(), self.segments.clone());
        let folded_n = self.folded_n.clone();
        *folding = Some(std::thread::spawn(move || {
            // Whatever goes wrong here goes wrong again where someone can be told: at the next read.
            if let Ok(applied) = catch_up_in(&dir, vfs.as_deref(), &segments) {
                folded_n.store(applied, Ordering::Relaxed);
            }
        }));
    }

    /// For a process that is about to end: if it wrote nothing and nothing is left to take in, the files that SQLite keeps
    /// beside an open database stay where they are, as after a crash, for who opens the store next. Removing them and making
    /// them again takes as long as a question.
    pub fn leave(&self) {
        let is_empty = |name| std::fs::metadata(self.dir.join(name)).is_ok_and(|file| file.len() == 0);
        if lock(&self.writer).is_none() && is_empty("log.db-wal") && is_empty("index.db-wal") {
            std::mem::forget(std::mem::take(&mut *lock(&self.readers)));
        }
    }

    fn reader(&self) -> Result<Reader> {
        if let Some(reader) = lock(&self.readers).pop() {
            return Ok(reader);
        }
        let opened = lock(&self.opened_log).take();
        let log = opened.map_or_else(|| log::open(&self.dir.join("log.db"), self.vfs()), Ok)?;
        log::only_read(&log)?;
        let opened = self.index_beside.take();
        let index = opened.map_or_else(|| catch_up::open(&self.dir.join("index.db"), self.vfs()), Ok)?;
        Ok(Reader { log, index })
    }

    /// A reader and the number of the last record. A damaged index is rebuilt first.
    fn reader_and_last(&self) -> Result<(Reader, u64)> {
        let reader = self.reader()?;
        match reader.last() {
            Err(LedgerError::Corrupt { what, .. }) if what == "the index" => {
                drop(reader);
                self.rebuild_index()?;
                let reader = self.reader()?;
                let last = reader.last()?;
                Ok((reader, last))
            }
            last => Ok((reader, last?)),
        }
    }

    fn give_back(&self, reader: Reader) {
        lock(&self.readers).push(reader);
    }

    /// Looks at the store with the index caught up. A damaged index is rebuilt, and the question asked again.
    fn look<T>(&self, ask: impl Fn(&Look<'_>) -> std::result::Result<T, Trouble>) -> Result<T> {
        match self.look_once(&ask) {
            Ok(answer) => Ok(answer),
            Err(Trouble::Index(IndexError::Damaged(_))) => {
                self.rebuild_index()?;
                self.look_once(&ask).map_err(told)
            }
            Err(trouble) => Err(told(trouble)),
        }
    }

    fn look_once<T>(
        &self,
        ask: &impl Fn(&Look<'_>) -> std::result::Result<T, Trouble>,
    ) -> std::result::Result<T, Trouble> {
        let mut reader = self.reader()?;
        let records = Records { log: Log(&reader.log), segments: &self.segments };
        let mut caught_up = catch_up::run(&mut reader.index, records);
        let is_full = matches!(caught_up, Err(LedgerError::Full { .. }));
        if is_full {
            // A disk without room for the index to grow can still be read: for this answer it grows in memory.
            reader.index = catch_up::in_memory(&reader.index)?;
            caught_up = catch_up::run(&mut reader.index, records);
        }
        match caught_up {
            Err(LedgerError::Corrupt { what, detail }) if what == "the index" => {
                return Err(Trouble::Index(IndexError::Damaged(crate::index::Damaged(detail))));
            }
            other => other?,
        };
        let answer = ask_in_transaction(&reader, &self.segments, ask);
        if answer.is_ok() && !is_full {
            self.give_back(reader);
        }
        answer
    }

    /// Reads out of the segment that an artifact is in, and goes on in the one that it is moved to meanwhile.
    fn read_segment(&self, id: &ArtifactId, row: &ArtifactRow, range: Range<u64>, sink: &mut Sink<'_>) -> Result<()> {
        let Range { mut start, end } = range;
        let find = || self.look(|look| look.segment_of(id, row));
        let mut segment = find()?;
        loop {
            let rest = start..end;
            let mut take = |bytes: &[u8]| {
                start += bytes.len() as u64;
                sink(bytes)
            };
            let read = self.segments.artifact(&segment, id, rest, &mut take);
            let Err(LedgerError::Segment(SegmentError::MissingSegment { .. })) = read else { return read };
            let before = std::mem::replace(&mut segment, find()?);
            if segment == before {
                return read;
            }
        }
    }

    /// Throws the index away and folds the log anew.
    pub fn rebuild_index(&self) -> Result<()> {
        let mut writer = lock(&self.writer);
        *writer = None;
        self.refold()
    }

    /// Makes the index anew. Whoever calls this holds the lock of the writer, and there is none.
    fn refold(&self) -> Result<()> {
        lock(&self.readers).clear();
        drop(self.index_beside.take());
        catch_up::remove(&self.dir.join("index.db"))?;
        catch_up_in(&self.dir, self.vfs(), &self.segments).map(drop)
    }
}

fn catch_up_in(dir: &Path, vfs: Option<&str>, segments: &Segments) -> Result<u64> {
    let log = log::open(&dir.join("log.db"), vfs)?;
    let mut index = catch_up::open(&dir.join("index.db"), vfs)?;
    catch_up::run(&mut index, Records { log: Log(&log), segments })
}

fn ask_in_transaction<T>(
    reader: &Reader,
    segments: &Segments,
    ask: &impl Fn(&Look<'_>) -> std::result::Result<T, Trouble>,
) -> std::result::Result<T, Trouble> {
    let transaction = reader.index.unchecked_transaction().map_err(IndexError::from)?;
    let (rows, records) = (Rows(&transaction), Records { log: Log(&reader.log), segments });
    ask(&Look { index: Index(&rows), records: &records })
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn missing(dir: &Path) -> LedgerError {
    if dir.is_file() {
        return LedgerError::NotAStore { path: dir.to_owned(), detail: "it is a file, not a directory".into() };
    }
    match first_entry(dir) {
        Some(name) => {
            LedgerError::NotAStore { path: dir.to_owned(), detail: format!("it has no log.db, but holds {name:?}") }
        }
        None => LedgerError::NoStore(dir.to_owned()),
    }
}

fn first_entry(dir: &Path) -> Option<String> {
    let entry = std::fs::read_dir(dir).ok()?.flatten().next()?;
    Some(entry.file_name().to_string_lossy().into_owned())
}

/// Makes the directory of a new store, for its owner alone.
fn make_dir(dir: &Path) -> Result<()> {
    if dir.is_file() {
        return Err(missing(dir));
    }
    private::make_dir(dir).map_err(|error| LedgerError::io(dir, error))
}

/// As [`make_dir`], and refuses one that holds something.
fn prepare_dir(dir: &Path) -> Result<()> {
    match missing(dir) {
        LedgerError::NoStore(_) => make_dir(dir),
        other => Err(other),
    }
}

/// Makes the log of a new store, or finishes one whose making was cut short. Refuses a directory that holds something else.
fn make_log(dir: &Path, vfs: Option<&str>, store_id: &str) -> Result<()> {
    let held = std::fs::File::open(dir).map_err(|error| LedgerError::io(dir, error))?;
    // Of several who make a store at once one does. Where a directory cannot be locked, the others find it busy.
    let _ = held.lock();
    let path = dir.join("log.db");
    if path.exists() && !log::is_unfinished(&path, vfs)? {
        return Ok(());
    }
    if !path.exists() && first_entry(dir).is_some() {
        return Err(missing(dir));
    }
    log::create(&path, vfs, store_id)?;
    crate::segments::sync_dir(dir)
}

impl Drop for SqliteLedger {
    fn drop(&mut self) {
        if let Some(thread) = lock(&self.folding).take() {
            let _ = thread.join();
        }
        self.checkpoints.stop();
        // Whoever opens the store next is spared the wait; if it fails now, they will be told.
        if lock(&self.writer).take().is_some() {
            let _ = catch_up_in(&self.dir, self.vfs(), &self.segments);
        }
    }
}

impl Ledger for SqliteLedger {
    fn append(&self, batch: Batch) -> Result<Appended> {
        self.admit(&batch)?;
        self.group.run(batch, |party| self.write_group(party))
    }

    fn append_all(&self, batches: Vec<Batch>) -> Vec<Result<Appended>> {
        self.group.run_admitted(batches, |batch| self.admit(batch), |party| self.write_group(party))
    }

    answers!(few: look, any: look, deep: look);

    fn read(&self, id: &ArtifactId, range: Option<Range<u64>>, sink: &mut Sink<'_>) -> Result<()> {
        let row = self.look(|look| Ok(look.index.artifact(id)?))?.ok_or(LedgerError::NoArtifact(*id))?;
        let range = clip(id, row.len, range)?;
        match row.place {
            Place::Record => {
                let bytes = self.look(|look| look.inline_bytes(id, &row))?;
                sink(&bytes[range.start as usize..range.end as usize]).map_err(LedgerError::Output)
            }
            Place::Segment => self.read_segment(id, &row, range, sink),
        }
    }

    fn read_parts(&self, parts: &[Part], sink: &mut PartSink<'_>) -> Result<()> {
        self.stream_parts(parts, sink)
    }

    fn each_frame(&self, from: u64, visit: &mut dyn FnMut(u64, &FrameRecord) -> Result<bool>) -> Result<()> {
        let (reader, last) = self.reader_and_last()?;
        let records = Records { log: Log(&reader.log), segments: &self.segments };
        records.each(from.max(1), last, &mut |n, record| match record {
            Record::Frame(frame) => visit(n, frame),
            Record::Bytes { .. } | Record::Segment(_) | Record::Dropped { .. } => Ok(true),
        })?;
        self.give_back(reader);
        Ok(())
    }

    fn position(&self) -> Result<u64> {
        let (reader, last) = self.reader_and_last()?;
        self.give_back(reader);
        Ok(last)
    }
}

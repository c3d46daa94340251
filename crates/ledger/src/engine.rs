//! The engine of a store that people use: in a directory, or in a database. What is asked of records goes to whichever it
//! is; what keeps a store whole is here for both, and says so where one of them has no need of it.

use std::collections::HashSet;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use enjamb_core::chain::Stop;
use enjamb_core::lexicon::Postings;
use enjamb_core::order::{MarkKey, Scope};
use enjamb_core::{ArtifactId, CommitId, StreamId, Timestamp};

use crate::batch::{Appended, Batch};
use crate::error::LedgerError;
use crate::job::{Job, JobKind};
use crate::objects::{Objects, ObjectsAddress};
use crate::record::FrameRecord;
use crate::segments::{SegmentFile, Segments};
use crate::{
    ArtifactPlace, ArtifactSummary, Backup, Checked, Ledger, Link, Part, PartSink, PostgresLedger, PostgresOptions,
    Present, Progress, Result, Sealed, Sink, Span, SqliteLedger, SqliteOptions, StoredCommit, StoredFrame, StreamOrder,
    StreamSummary, Totals, Walk, private,
};

/// The file of a directory whose store is in a database: its one line is the address.
const DATABASE_FILE: &str = "database";
/// The file of a directory whose segments live elsewhere: its one line is where.
const OBJECTS_FILE: &str = "objects";

/// A second one is the same engine.
#[derive(Clone)]
pub enum Engine {
    Directory(Arc<SqliteLedger>),
    Database(Arc<PostgresLedger>),
}

impl From<SqliteLedger> for Engine {
    fn from(ledger: SqliteLedger) -> Self {
        Self::Directory(Arc::new(ledger))
    }
}

impl From<PostgresLedger> for Engine {
    fn from(ledger: PostgresLedger) -> Self {
        Self::Database(Arc::new(ledger))
    }
}

/// Asks whichever engine it is.
macro_rules! either {
    ($engine:expr, $method:ident($($argument:expr),*)) => {
        match $engine {
            Engine::Directory(ledger) => ledger.$method($($argument),*),
            Engine::Database(ledger) => ledger.$method($($argument),*),
        }
    };
}

/// Says that the store of a directory is in a database. What is of this machine alone stays in the directory.
pub fn link_database(dir: &Path, address: &str) -> Result<()> {
    if dir.join("log.db").exists() {
        let detail = "it has records of its own, so its store cannot be in a database".to_owned();
        return Err(LedgerError::NotAStore { path: dir.to_owned(), detail });
    }
    link(dir, DATABASE_FILE, address)
}

/// The address of the database that a directory's store is in, if it is.
pub fn linked_database(dir: &Path) -> Result<Option<String>> {
    linked(dir, DATABASE_FILE)
}

/// Says where the segments of a directory's store live.
pub fn link_objects(dir: &Path, address: &str) -> Result<()> {
    ObjectsAddress::parse(address)?;
    link(dir, OBJECTS_FILE, address)
}

/// Where the segments of a directory's store live, if somebody said so here.
pub fn linked_objects(dir: &Path) -> Result<Option<String>> {
    linked(dir, OBJECTS_FILE)
}

fn link(dir: &Path, name: &str, address: &str) -> Result<()> {
    let path = dir.join(name);
    let failed = |error| LedgerError::io(&path, error);
    private::make_dir(dir).map_err(failed)?;
    match std::fs::read_to_string(&path) {
        Ok(linked) if linked.trim_end() == address => return Ok(()),
        _ => {}
    }
    // Whoever reads it meanwhile finds the old line or the new one.
    let new = dir.join(format!("{name}.{}", std::process::id()));
    let mut file = private::create(&new).map_err(failed)?;
    std::io::Write::write_all(&mut file, format!("{address}\n").as_bytes()).map_err(failed)?;
    std::fs::rename(&new, &path).map_err(failed)
}

fn linked(dir: &Path, name: &str) -> Result<Option<String>> {
    let path = dir.join(name);
    match std::fs::read_to_string(&path) {
        Ok(text) => Ok(Some(text.trim_end().to_owned())),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) if error.kind() == std::io::ErrorKind::NotADirectory => Ok(None),
        Err(error) => Err(LedgerError::io(path, error)),
    }
}

fn options(dir: &Path) -> Result<PostgresOptions> {
    let objects = linked_objects(dir)?.as_deref().map(ObjectsAddress::parse).transpose()?;
    Ok(PostgresOptions { objects, ..PostgresOptions::at(dir) })
}

fn in_directory(dir: &Path, ledger: SqliteLedger) -> Result<Engine> {
    match linked_objects(dir)? {
        None => Ok(ledger.into()),
        Some(address) => Ok(ledger.with_objects(ObjectsAddress::parse(&address)?)?.into()),
    }
}

fn in_database(dir: &Path, opened: Result<PostgresLedger>) -> Result<Engine> {
    if let Err(LedgerError::ObjectsDiffer { .. }) = &opened {
        // What somebody named does not hold, so it is not to be remembered.
        let path = dir.join(OBJECTS_FILE);
        std::fs::remove_file(&path).map_err(|error| LedgerError::io(path, error))?;
    }
    opened.map(Engine::from)
}

impl Engine {
    /// Opens the store of a directory.
    pub fn open(dir: &Path) -> Result<Self> {
        match linked_database(dir)? {
            None => in_directory(dir, SqliteLedger::open(dir, SqliteOptions::default())?),
            Some(address) => in_database(dir, PostgresLedger::open(&address, &options(dir)?)),
        }
    }

    /// Opens the store of a directory, making it if there is none.
    pub fn create(dir: &Path, store_id: &str) -> Result<Self> {
        match linked_database(dir)? {
            None => in_directory(dir, SqliteLedger::create(dir, SqliteOptions::default(), store_id)?),
            Some(address) => in_database(dir, PostgresLedger::create(&address, &options(dir)?, store_id)),
        }
    }

    pub fn dir(&self) -> &Path {
        either!(self, dir())
    }

    pub fn segments(&self) -> &Segments {
        either!(self, segments())
    }

    pub fn store_id(&self) -> Result<String> {
        either!(self, store_id())
    }

    /// Which of these are here, asked at once.
    pub fn here(&self, ids: &[ArtifactId]) -> Result<HashSet<ArtifactId>> {
        either!(self, here(ids))
    }

    /// Where an artifact's bytes are, to free them once it is dropped.
    pub fn place(&self, id: &ArtifactId) -> Result<Option<ArtifactPlace>> {
        either!(self, place(id))
    }

    /// Frees the bytes of artifacts that were dropped, given where they were before.
    pub fn erase(&self, dropped: &[ArtifactPlace], progress: &mut Progress<'_>) -> Result<()> {
        either!(self, erase(dropped, progress))
    }

    /// Segments that nothing names. Of a database without a place for them that all nodes have, nobody can say.
    pub fn unnamed_files(&self) -> Result<Vec<SegmentFile>> {
        either!(self, unnamed_files())
    }

    /// Removes segments that nothing names; `None` when it must wait, because someone may be writing one.
    pub fn sweep(&self) -> Result<Option<u64>> {
        either!(self, sweep())
    }

    pub fn seal(&self, progress: &mut Progress<'_>) -> Result<Sealed> {
        either!(self, seal(progress))
    }

    /// Pushes what is to be upstream and lets go of copies that are too many; in a database both are done as it is written
    /// and read. Returns how many segments were pushed.
    pub fn replicate(&self, progress: &mut Progress<'_>) -> Result<u64> {
        match self {
            Self::Directory(ledger) => ledger.replicate(progress),
            Self::Database(_) => Ok(0),
        }
    }

    /// Where segments live, or are as well, besides this machine.
    pub fn objects(&self) -> Option<&Objects> {
        either!(self, objects())
    }

    /// Bytes that sealing would move, about; of a directory, those of the whole log.
    pub fn hot_bytes(&self) -> Result<u64> {
        match self {
            Self::Directory(ledger) => Ok(std::fs::metadata(ledger.dir().join("log.db")).map_or(0, |log| log.len())),
            Self::Database(ledger) => ledger.hot_bytes(),
        }
    }

    pub fn backup(&self, to: &Path, progress: &mut Progress<'_>) -> Result<Backup> {
        match self {
            Self::Directory(ledger) => ledger.backup(to, progress),
            Self::Database(_) => Err(LedgerError::NotInDatabase {
                what: "a backup",
                instead: "use pg_dump --schema, and copy the objects after it",
            }),
        }
    }

    /// Takes a turn at a background job, unless another node is at it.
    pub fn job(&self, job: JobKind) -> Result<Job<'_>> {
        match self {
            Self::Directory(_) => Ok(Job(None)),
            Self::Database(ledger) => Ok(Job(Some(ledger.hold(job)?))),
        }
    }

    pub fn verify_quick(&self) -> Result<Checked> {
        either!(self, verify_quick())
    }

    pub fn verify_full(&self, progress: &mut Progress<'_>) -> Result<Checked> {
        either!(self, verify_full(progress))
    }

    pub fn rebuild_index(&self) -> Result<()> {
        either!(self, rebuild_index())
    }

    /// For a process that is about to end: leaves as it is what the next one would make again.
    pub fn leave(&self) {
        match self {
            Self::Directory(ledger) => ledger.leave(),
            // Connections that are not closed are told of in the server's log.
            Self::Database(_) => {}
        }
    }
}

impl Ledger for Engine {
    fn append(&self, batch: Batch) -> Result<Appended> {
        either!(self, append(batch))
    }

    fn append_all(&self, batches: Vec<Batch>) -> Vec<Result<Appended>> {
        either!(self, append_all(batches))
    }

    fn totals(&self) -> Result<Totals> {
        either!(self, totals())
    }

    fn stream(&self, stream: &StreamId) -> Result<Option<StreamSummary>> {
        either!(self, stream(stream))
    }

    fn streams(&self, kind: Option<&str>, order: StreamOrder, limit: usize) -> Result<Vec<StreamSummary>> {
        either!(self, streams(kind, order, limit))
    }

    fn frames(&self, stream: &StreamId, from_seq: u64, limit: usize) -> Result<Vec<StoredFrame>> {
        either!(self, frames(stream, from_seq, limit))
    }

    fn artifact(&self, id: &ArtifactId) -> Result<Option<ArtifactSummary>> {
        either!(self, artifact(id))
    }

    fn artifacts(&self, low: &[u8], high: &[u8], limit: usize) -> Result<Vec<ArtifactSummary>> {
        either!(self, artifacts(low, high, limit))
    }

    fn read(&self, id: &ArtifactId, range: Option<Range<u64>>, sink: &mut Sink<'_>) -> Result<()> {
        either!(self, read(id, range, sink))
    }

    fn present(&self, commits: &[CommitId], artifacts: &[ArtifactId]) -> Result<Present> {
        either!(self, present(commits, artifacts))
    }

    fn mark(&self, scope: &Scope, key: &MarkKey) -> Result<Option<String>> {
        either!(self, mark(scope, key))
    }

    fn marks(&self, scope: &Scope, like: &MarkKey) -> Result<Vec<(String, String)>> {
        either!(self, marks(scope, like))
    }

    fn marks_in(
        &self,
        scope: &Scope,
        from: &MarkKey,
        to: &MarkKey,
        walk: Walk,
        limit: usize,
    ) -> Result<Vec<(MarkKey, String)>> {
        either!(self, marks_in(scope, from, to, walk, limit))
    }

    fn message_numbered(&self, thread: &StreamId, ordinal: u64) -> Result<Option<u64>> {
        either!(self, message_numbered(thread, ordinal))
    }

    fn postings(&self, thread: &StreamId, word: &str, upto_seq: u64, limit: usize) -> Result<Postings> {
        either!(self, postings(thread, word, upto_seq, limit))
    }

    fn words(&self, prefix: &str) -> Result<Vec<(String, StreamId)>> {
        either!(self, words(prefix))
    }

    fn commit(&self, id: &CommitId) -> Result<Option<StoredCommit>> {
        either!(self, commit(id))
    }

    fn commits(&self, low: &[u8], high: &[u8], limit: usize) -> Result<Vec<CommitId>> {
        either!(self, commits(low, high, limit))
    }

    fn walk(&self, tip: &CommitId, stop: &Stop, limit: usize) -> Result<Option<Vec<Link>>> {
        either!(self, walk(tip, stop, limit))
    }

    fn parts(&self, tip: &CommitId, stop: &Stop, limit: usize) -> Result<Option<Vec<Part>>> {
        either!(self, parts(tip, stop, limit))
    }

    fn read_parts(&self, parts: &[Part], sink: &mut PartSink<'_>) -> Result<()> {
        either!(self, read_parts(parts, sink))
    }

    fn children(&self, id: &CommitId) -> Result<Vec<CommitId>> {
        either!(self, children(id))
    }

    fn commit_at(&self, principal: &StreamId, at: Timestamp) -> Result<Option<CommitId>> {
        either!(self, commit_at(principal, at))
    }

    fn timeline(&self, span: &Span, limit: usize) -> Result<Vec<CommitId>> {
        either!(self, timeline(span, limit))
    }

    fn unsummarised(&self, after: Option<&CommitId>, limit: usize) -> Result<Vec<CommitId>> {
        either!(self, unsummarised(after, limit))
    }

    fn each_frame(&self, from: u64, visit: &mut dyn FnMut(u64, &FrameRecord) -> Result<bool>) -> Result<()> {
        either!(self, each_frame(from, visit))
    }

    fn position(&self) -> Result<u64> {
        either!(self, position())
    }
}

//! Importing what runtimes wrote: every byte of a file, cut into commits where turns end.
//!
//! A file's bytes become consecutive parts, each the delta of a commit; a frame in the stream of the file says which, so
//! that what was read, from where and how far follows from frames alone. Reading on begins after the last part that the
//! file still begins with: a file that grew adds its tail, and one that was rewritten becomes a branch from where it
//! differs. Many commits are stored with one sync, together with how far each file was read.

mod commit;
mod cut;
mod file;
mod group;
mod places;
mod source;
mod window;

use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::path::{Path, PathBuf};

use enjamb_core::order::Rule;
use enjamb_core::{Timestamp, limits};
use enjamb_ledger::{Ledger, LedgerError, NewSegment, Progress};

pub use places::{Place, Runtime, SourceFile, arrange, files_in, known_places};
pub use source::{KnownPart, SourceState};

use self::commit::Origin;
use self::file::{FileImport, Step};
use self::group::Group;
use self::source::failed;
use crate::{Actor, Result, ServiceError, Store};

/// How to import.
#[derive(Clone, Debug)]
pub struct ImportOptions {
    pub principal: String,
    pub machine: Option<String>,
    pub by: Actor,
}

/// What an import came to.
#[derive(Clone, Debug, Default)]
pub struct Imported {
    /// Files that held something new, those that did not, and those of them that were rewritten since.
    pub files: u64,
    pub unchanged: u64,
    pub rewritten: u64,
    /// Bytes that were read in.
    pub bytes: u64,
    pub commits: u64,
    /// Commits that were here already, from a copy of the same file.
    pub known: u64,
    pub by_runtime: BTreeMap<&'static str, u64>,
    /// Records by the type that they say they are of.
    pub records: BTreeMap<String, u64>,
    /// Places that hold something else than a record, with their lines.
    pub issues: Vec<ImportIssue>,
    /// Files that could not be read, and why.
    pub failed: Vec<(PathBuf, String)>,
}

/// Something in a file that was kept, but could not be understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImportIssue {
    pub path: PathBuf,
    pub line: u64,
    pub detail: String,
}

/// Groups that are begun again because someone else imported the same file meanwhile.
const RETRIES_MAX: usize = 5;
/// How much of what is stored is looked at to find the commit that a file's tail goes back to.
const REMEMBERED_BYTES: u64 = 4 << 20;

struct Importer<'s, 'p> {
    store: &'s Store,
    options: &'s ImportOptions,
    waiting: VecDeque<FileImport>,
    report: Imported,
    done: u64,
    total: u64,
    progress: &'p mut (dyn FnMut(u64, u64) + 'p),
}

impl Store {
    /// Imports files in the order given. What a file holds that cannot be understood is kept and reported; a file that
    /// cannot be read is reported too, and the others go on.
    pub fn import(
        &self,
        files: Vec<SourceFile>,
        options: &ImportOptions,
        progress: &mut Progress<'_>,
    ) -> Result<Imported> {
        let report = Imported::default();
        let mut importer =
            Importer { store: self, options, waiting: VecDeque::new(), report, done: 0, total: 0, progress };
        for file in files {
            importer.queue(file)?;
        }
        importer.run()?;
        Ok(importer.report)
    }

    /// Whether a file is as it was when it was last read, as far as can be told without reading it.
    pub fn is_imported(&self, file: &SourceFile) -> Result<bool> {
        let last = self.last_read(&source::stream_of(&path_text(&file.path)))?;
        Ok(last.is_some_and(|last| {
            last.size == file.size
                && last.modified_us.is_some()
                && last.modified_us == file.modified.map(Timestamp::as_micros)
        }))
    }
}

impl Importer<'_, '_> {
    fn queue(&mut self, file: SourceFile) -> Result<()> {
        if self.store.is_imported(&file)? {
            self.report.unchanged += 1;
            return Ok(());
        }
        match self.prepare(file.clone()) {
            Ok(Some(import)) => {
                self.total += import.file.size - import.offset;
                self.waiting.push_back(import);
            }
            Ok(None) => self.report.unchanged += 1,
            Err(ServiceError::File { source, .. }) => self.report.failed.push((file.path, source.to_string())),
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// What is new in a file, if anything is.
    fn prepare(&self, mut found: SourceFile) -> Result<Option<FileImport>> {
        let mut file = File::open(&found.path).map_err(|source| failed(&found.path, source))?;
        let meta = file.metadata().map_err(|source| failed(&found.path, source))?;
        found.size = meta.len();
        let path = path_text(&found.path);
        let Some(state) = self.store.source(&path)? else {
            let origin = self.origin(&found, path, None);
            return Ok(Some(FileImport::new(found, origin, None, 0, 0, 0)));
        };
        let matched = state.matched(&mut file, &found.path, found.size)?;
        let is_all = matched.parts == state.parts.len();
        if is_all && found.size == state.size && state.tail_matches(&mut file, &found.path, matched.bytes)? {
            return Ok(None);
        }
        let mut origin = self.origin(&found, path, state.session.clone());
        // A document stands for what came before it, whatever that was.
        let is_document = found.is_document();
        let (parts, from, lines) =
            if is_document { (state.parts.len(), 0, 0) } else { (matched.parts, matched.bytes, matched.lines) };
        if let Some(last) = parts.checked_sub(1).and_then(|last| state.parts.get(last)) {
            origin.recall(&self.store.show(&last.commit)?);
        }
        let mut import = FileImport::new(found, origin, Some(&state), from, lines, parts);
        import.rewritten = !is_all;
        self.remember(&mut import, &state.parts[..parts])?;
        Ok(Some(import))
    }

    fn origin(&self, found: &SourceFile, path: String, session: Option<String>) -> Origin {
        let stem = found.path.file_stem().and_then(|stem| stem.to_str()).map(str::to_owned);
        let session = match found.runtime {
            // A session's file bears its id; records may bear that of the session it was continued from.
            Runtime::ClaudeCode => session.or(stem),
            Runtime::Codex => session,
            Runtime::Gemini | Runtime::OpenCode | Runtime::Other => session.or(stem),
        };
        Origin {
            path,
            runtime: found.runtime.as_str(),
            format: found.format(),
            principal: self.options.principal.clone(),
            machine: self.options.machine.clone(),
            session,
            ..Origin::default()
        }
    }

    /// Reads which records the last commits hold, so that a prompt that goes back to one of them is a branch from it.
    fn remember(&self, import: &mut FileImport, parts: &[KnownPart]) -> Result<()> {
        let Some(format) = enjamb_formats::by_id(import.file.format()) else { return Ok(()) };
        let mut bytes = 0;
        let last = parts.iter().rev().take_while(|part| {
            bytes += part.bytes;
            bytes <= REMEMBERED_BYTES
        });
        let mut last: Vec<_> = last.collect();
        last.reverse();
        for part in last {
            let stored = self.store.get_small(&part.artifact)?;
            if let Ok(items) = format.framing().items(&stored) {
                import.remember(part.commit, &window::records(&items.items));
            }
        }
        Ok(())
    }

    fn run(&mut self) -> Result<()> {
        let mut retries = 0;
        while !self.waiting.is_empty() {
            let taken: Vec<SourceFile> = self.waiting.iter().map(|import| import.file.clone()).collect();
            match self.store_group() {
                Err(error) if is_race(&error) && retries < RETRIES_MAX => {
                    retries += 1;
                    self.waiting.clear();
                    taken.into_iter().try_for_each(|file| self.queue(file))?;
                }
                other => other?,
            }
        }
        Ok(())
    }

    /// Reads files until a group is full, and stores it.
    fn store_group(&mut self) -> Result<()> {
        let left: u64 = self.waiting.iter().map(|import| import.file.size - import.offset).sum();
        if left <= limits::ARTIFACT_INLINE_BYTES_MAX as u64 {
            let mut group = Group::new(self.store, None);
            let finished = self.fill(&mut group)?;
            let (made, known) = (group.made, group.known);
            let (batch, _) = group.finish()?;
            return self.store_batch(batch, made, known, finished);
        }
        let segments = self.store.ledger.segments();
        let _lease = segments.lease()?;
        let mut new = segments.create()?;
        let filled = group::writer(new.writer()).and_then(|writer| {
            let mut group = Group::new(self.store, Some(writer));
            let finished = self.fill(&mut group)?;
            Ok((group.made, group.known, finished, group.finish()?))
        });
        match filled {
            Err(error) => {
                segments.discard(new);
                Err(error)
            }
            Ok((made, known, finished, (batch, digest))) => {
                self.publish(new, digest)?;
                self.store_batch(batch, made, known, finished)
            }
        }
    }

    fn publish(&self, new: NewSegment, digest: Option<enjamb_core::Digest>) -> Result<()> {
        let segments = self.store.ledger.segments();
        match digest {
            Some(digest) => Ok(segments.publish(new, &digest)?),
            None => {
                segments.discard(new);
                Ok(())
            }
        }
    }

    fn store_batch(
        &mut self,
        batch: enjamb_ledger::Batch,
        made: u64,
        known: u64,
        finished: Vec<FileImport>,
    ) -> Result<()> {
        if !batch.frames.is_empty() {
            self.store.ledger.append(batch)?;
        }
        self.report.commits += made;
        self.report.known += known;
        for import in finished {
            self.report.files += 1;
            self.report.rewritten += u64::from(import.rewritten);
            *self.report.by_runtime.entry(import.file.runtime.as_str()).or_default() += 1;
            self.report.issues.extend(import.issues);
            for (kind, count) in import.counted {
                *self.report.records.entry(kind).or_default() += count;
            }
        }
        Ok(())
    }

    /// Reads windows into a group until it is full or nothing waits. Gives the files that are read to their end.
    fn fill(&mut self, group: &mut Group<'_, '_>) -> Result<Vec<FileImport>> {
        let mut finished = Vec::new();
        while !group.is_full() {
            let Some(mut import) = self.waiting.pop_front() else { break };
            let before = import.offset;
            let step = import.step(group);
            self.report.bytes += import.offset - before;
            self.done += import.offset - before;
            (self.progress)(self.done, self.total.max(self.done));
            match step {
                // Its commits so far stay; how far it was read is not told, so the next import reads it again.
                Err(ServiceError::File { path, source }) => self.report.failed.push((path, source.to_string())),
                Err(error) => return Err(error),
                Ok(Step::More) => self.waiting.push_front(import),
                Ok(Step::Finished) => {
                    import.tell(true, self.store, group, &self.options.by)?;
                    finished.push(import);
                }
            }
        }
        // Of a file that is not read to its end, it is told how far it was.
        if let Some(import) = self.waiting.front_mut().filter(|import| import.offset > import.from) {
            import.tell(false, self.store, group, &self.options.by)?;
        }
        Ok(finished)
    }
}

/// Whether someone else stored the same meanwhile.
fn is_race(error: &ServiceError) -> bool {
    match error {
        ServiceError::Ledger(LedgerError::SeqConflict { .. }) => true,
        ServiceError::Ledger(LedgerError::Refused(refusal)) => {
            matches!(refusal.rule, Rule::DuplicateCommit | Rule::CommitConflict)
        }
        _ => false,
    }
}

/// The name of a file's stream: its path, absolute, as text.
pub(crate) fn path_text(path: &Path) -> String {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    absolute.to_string_lossy().into_owned()
}

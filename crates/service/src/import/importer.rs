//! Files on their way in, one after another: what is new in each, and when it is stored.

use std::collections::VecDeque;
use std::fs::File;
use std::io::BufWriter;
use std::sync::atomic::AtomicU64;

use enjamb_core::limits;
use enjamb_core::order::Rule;
use enjamb_ledger::{Batch, Ledger, LedgerError, SegmentRecord};

use super::commit::Origin;
use super::file::{FileImport, Step};
use super::group::{Group, Sink};
use super::source::{KnownPart, failed};
use super::{ImportOptions, ImportProgress, Imported, Runtime, SourceFile, packed, path_text, segment, window};
use crate::{Result, ServiceError, Store};

/// Groups that are begun again because someone else imported the same file meanwhile.
const RETRIES_MAX: usize = 5;
/// How much of what is stored is looked at to find the commit that a file's tail goes back to.
const REMEMBERED_BYTES: u64 = 4 << 20;

pub(super) struct Importer<'s, 'p> {
    pub store: &'s Store,
    pub options: &'s ImportOptions,
    waiting: VecDeque<Waiting>,
    pub report: Imported,
    done: u64,
    total: u64,
    progress: &'p mut ImportProgress<'p>,
}

/// A file whose turn has not come, or is not over.
enum Waiting {
    Begun(Box<FileImport>),
    /// Compressed: what it holds is looked at when its turn comes, one at a time.
    Packed(SourceFile),
}

impl Waiting {
    fn bytes_left(&self) -> u64 {
        match self {
            Self::Begun(import) => import.file.size - import.offset,
            // What it holds may be large whatever its size, so it never counts as little.
            Self::Packed(file) => packed::estimate(file).max(limits::ARTIFACT_INLINE_BYTES_MAX as u64 + 1),
        }
    }

    /// The file that was found, to be begun anew. What was unpacked comes again with what it was unpacked from.
    fn found(&self) -> Option<SourceFile> {
        match self {
            Self::Begun(import) if import.held.is_some() => None,
            Self::Begun(import) => Some(import.file.clone()),
            Self::Packed(file) => Some(file.clone()),
        }
    }
}

impl<'s, 'p> Importer<'s, 'p> {
    pub(super) fn new(store: &'s Store, options: &'s ImportOptions, progress: &'p mut ImportProgress<'p>) -> Self {
        let (waiting, report) = (VecDeque::new(), Imported::default());
        Self { store, options, waiting, report, done: 0, total: 0, progress }
    }

    pub(super) fn queue(&mut self, file: SourceFile) -> Result<()> {
        if self.store.is_imported(&file)? {
            self.report.unchanged += 1;
            return Ok(());
        }
        let waiting = if packed::is_packed(&file) {
            Waiting::Packed(file)
        } else {
            let path = path_text(&file.path);
            match self.prepared(file, path)? {
                Some(import) => Waiting::Begun(Box::new(import)),
                None => return Ok(()),
            }
        };
        self.total += waiting.bytes_left();
        self.waiting.push_back(waiting);
        Ok(())
    }

    /// A file that holds something new; one that cannot be read is reported.
    fn prepared(&mut self, file: SourceFile, path: String) -> Result<Option<FileImport>> {
        let found = file.path.clone();
        match self.prepare(file, path) {
            Ok(Some(mut import)) => {
                import.window_bytes = self.options.bounds.window_bytes;
                return Ok(Some(import));
            }
            Ok(None) => self.report.unchanged += 1,
            Err(ServiceError::File { source, .. }) => self.report.failed.push((found, source.to_string())),
            Err(error) => return Err(error),
        }
        Ok(None)
    }

    /// Puts what a compressed file holds before the file itself: once the file is told of, so is what it holds.
    fn unpack(&mut self, file: SourceFile) -> Result<()> {
        let path = path_text(&file.path);
        let packed = self.prepared(file.clone(), path)?;
        if let Some(import) = packed {
            self.waiting.push_front(Waiting::Begun(Box::new(import)));
        }
        if packed::is_there(&file).unwrap_or(false) {
            return Ok(());
        }
        match packed::unpack(&file, &self.store.dir().join("segments")) {
            Err(ServiceError::File { path, source }) => self.report.failed.push((path, source.to_string())),
            Err(error) => return Err(error),
            Ok(unpacked) => {
                let import = self.prepared(unpacked.file, path_text(&unpacked.named))?;
                if let Some(mut import) = import {
                    import.held = Some(unpacked.held);
                    self.waiting.push_front(Waiting::Begun(Box::new(import)));
                }
            }
        }
        Ok(())
    }

    /// What is new in a file, if anything is.
    fn prepare(&self, mut found: SourceFile, path: String) -> Result<Option<FileImport>> {
        let mut file = File::open(&found.path).map_err(|source| failed(&found.path, source))?;
        let meta = file.metadata().map_err(|source| failed(&found.path, source))?;
        found.size = meta.len();
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
        import.recall = last_parts(&state.parts[..parts]);
        Ok(Some(import))
    }

    fn origin(&self, found: &SourceFile, path: String, session: Option<String>) -> Origin {
        let stem = found.path.file_stem().and_then(|stem| stem.to_str()).map(str::to_owned);
        let session = match found.runtime {
            // A session's file bears its id; records may bear that of the session it was continued from.
            Runtime::ClaudeCode => session.or(stem),
            Runtime::Codex | Runtime::Gemini | Runtime::OpenCode | Runtime::Other => session,
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
    fn remember(&self, import: &mut FileImport) -> Result<()> {
        let Some(format) = enjamb_formats::by_id(import.file.format()) else { return Ok(()) };
        for part in std::mem::take(&mut import.recall) {
            let stored = self.store.get_small(&part.artifact)?;
            if let Ok(items) = format.framing().items(&stored) {
                import.remember(part.commit, &window::records(&items.items));
            }
        }
        Ok(())
    }

    pub(super) fn run(&mut self) -> Result<()> {
        let mut retries = 0;
        while !self.waiting.is_empty() {
            let taken: Vec<SourceFile> = self.waiting.iter().filter_map(Waiting::found).collect();
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
        let segments = self.store.ledger.segments();
        // What is written or unpacked meanwhile is nobody's to sweep.
        let _lease = segments.lease()?;
        let left: u64 = self.waiting.iter().map(Waiting::bytes_left).sum();
        if left <= limits::ARTIFACT_INLINE_BYTES_MAX as u64 {
            let filled = self.fill(self.group(Sink::Batch))?;
            return self.store_batch(filled);
        }
        let mut new = segments.create()?;
        match self.fill_segment(new.writer()) {
            Err(error) => {
                segments.discard(new);
                Err(error)
            }
            Ok((filled, None)) => {
                segments.discard(new);
                self.store_batch(filled)
            }
            Ok((mut filled, Some(record))) => {
                segments.publish(new, &record.segment)?;
                filled.batches[0].segments.push(record);
                self.store_batch(filled)
            }
        }
    }

    fn group<'g>(&self, sink: Sink<'g>) -> Group<'g>
    where
        's: 'g,
    {
        Group::new(self.store, sink, self.options.bounds.group_frames)
    }

    /// Fills a group while another thread writes its bytes.
    fn fill_segment(&mut self, sink: &mut BufWriter<File>) -> Result<(Filled, Option<SegmentRecord>)> {
        let written = AtomicU64::new(0);
        std::thread::scope(|scope| {
            let (sender, segment) = segment::start(scope, sink, &written);
            let filled = self.fill(self.group(Sink::Segment { sender, written: &written }));
            // What the writer failed of is why the reader could not go on.
            let record = segment.join().map_err(|_| LedgerError::corrupt("a segment", "its writer gave up"))??;
            Ok((filled?, record))
        })
    }

    fn store_batch(&mut self, filled: Filled) -> Result<()> {
        for batch in filled.batches.into_iter().filter(|batch| !batch.frames.is_empty()) {
            self.store.ledger.append(batch)?;
        }
        self.report.commits += filled.made;
        self.report.known += filled.known;
        for import in filled.finished {
            self.report.add(import);
        }
        Ok(())
    }

    /// Reads windows into a group until it is full or nothing waits.
    fn fill(&mut self, mut group: Group<'_>) -> Result<Filled> {
        let mut finished = Vec::new();
        while !group.is_full() {
            let mut import = match self.waiting.pop_front() {
                None => break,
                Some(Waiting::Begun(import)) => import,
                Some(Waiting::Packed(file)) => {
                    self.unpack(file)?;
                    continue;
                }
            };
            self.remember(&mut import)?;
            let before = import.offset;
            let step = import.step(&mut group);
            self.report.bytes += import.offset - before;
            self.done += import.offset - before;
            (self.progress)(&import.file.path, self.done, self.total.max(self.done));
            match step {
                // Its commits so far stay; how far it was read is not told, so the next import reads it again.
                Err(ServiceError::File { path, source }) => self.report.failed.push((path, source.to_string())),
                Err(error) => return Err(error),
                Ok(Step::More) => {
                    if import.is_much() {
                        import.tell(false, self.store, &mut group, &self.options.by)?;
                    }
                    self.waiting.push_front(Waiting::Begun(import));
                }
                Ok(Step::Finished) => {
                    import.tell(true, self.store, &mut group, &self.options.by)?;
                    finished.push(*import);
                }
            }
        }
        // Of a file that is not read to its end, it is told how far it was.
        if let Some(Waiting::Begun(import)) = self.waiting.front_mut()
            && import.offset > import.from
        {
            import.tell(false, self.store, &mut group, &self.options.by)?;
        }
        Ok(Filled { made: group.made, known: group.known, batches: group.finish(), finished })
    }
}

/// A group that is ready to be stored.
struct Filled {
    /// At least one.
    batches: Vec<Batch>,
    made: u64,
    known: u64,
    /// Files that are read to their end.
    finished: Vec<FileImport>,
}

/// The last parts that are worth looking at.
fn last_parts(parts: &[KnownPart]) -> Vec<KnownPart> {
    let mut bytes = 0;
    let first = parts.iter().rposition(|part| {
        bytes += part.bytes;
        bytes > REMEMBERED_BYTES
    });
    parts[first.map_or(0, |first| first + 1)..].to_vec()
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

//! Files on their way in, one after another: what is new in each, and when it is stored.

use std::collections::{HashSet, VecDeque};
use std::fs::File;
use std::io::BufWriter;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::thread::Scope;

use enjamb_core::chain::Stop;
use enjamb_core::order::Rule;
use enjamb_core::{CommitId, limits};
use enjamb_formats::Format;
use enjamb_ledger::{Batch, Ledger, LedgerError};

use super::ahead::{Ahead, Task};
use super::commit::Origin;
use super::database::{self, Database};
use super::document::known_lines;
use super::file::{FileImport, Step};
use super::group::{Group, Sink};
use super::growth::{Sequence, growth};
use super::segment::{self, Chunks, WrittenSegment};
use super::source::{KnownPart, failed};
use super::storing::{Counted, Storing, Underway, Written};
use super::things::{self, Keeping, Session};
use super::{DATABASE_FORMAT, ImportOptions, ImportProgress, Imported, Runtime, SourceFile, packed, path_text, window};
use crate::{Result, ServiceError, Store};

/// Groups that are begun again, one after the other, because someone else imported the same file meanwhile.
pub(super) const RETRIES_MAX: usize = 5;
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
    ahead: Ahead,
    chunks: Chunks,
    /// What the group that is being stored will have stored.
    underway: Arc<Underway>,
}

/// A file whose turn has not come, or is not over.
enum Waiting {
    Begun(Box<FileImport>),
    /// Compressed: what it holds is looked at when its turn comes, one at a time.
    Packed(SourceFile),
    /// Sessions that are not files: they are looked at one at a time as well.
    Kept(Keeping),
}

impl Waiting {
    fn bytes_left(&self) -> u64 {
        match self {
            Self::Begun(import) => import.file.size - import.offset,
            // What it holds may be large whatever its size, so it never counts as little.
            Self::Packed(file) => packed::estimate(file).max(limits::ARTIFACT_INLINE_BYTES_MAX as u64 + 1),
            Self::Kept(keeping) => keeping.bytes_left(),
        }
    }

    /// What there is to judge of it, unless that takes knowing more than the file.
    fn task(&self) -> Option<Task> {
        let Self::Begun(import) = self else { return None };
        (!import.file.is_document()).then(|| Task {
            path: import.file.path.clone(),
            format: import.origin.format,
            offset: import.offset,
            size: import.file.size,
            window_bytes: import.window_bytes,
        })
    }

    /// The files that were found, to be begun anew. What was unpacked comes again with what it was unpacked from.
    fn found(&self) -> Vec<SourceFile> {
        match self {
            Self::Begun(import) if import.held.is_some() => import.beside.clone(),
            Self::Begun(import) => vec![import.file.clone()],
            Self::Packed(file) => vec![file.clone()],
            Self::Kept(keeping) => keeping.found(),
        }
    }
}

impl<'s, 'p> Importer<'s, 'p> {
    pub(super) fn new(store: &'s Store, options: &'s ImportOptions, progress: &'p mut ImportProgress<'p>) -> Self {
        let (waiting, report) = (VecDeque::new(), Imported::default());
        Self {
            store,
            options,
            waiting,
            report,
            done: 0,
            total: 0,
            progress,
            ahead: Ahead::default(),
            chunks: Chunks::default(),
            underway: Arc::default(),
        }
    }

    /// Queues files in their order. Those in which opencode keeps the things of a session come together.
    pub(super) fn queue_all(&mut self, files: Vec<SourceFile>) -> Result<()> {
        let (files, storages) = things::gather(files);
        for file in files {
            self.queue(file)?;
        }
        let mut changed = VecDeque::new();
        for session in storages {
            let mut known = 0;
            for file in &session.files {
                known += u64::from(self.store.is_imported(file)?);
            }
            if known == session.files.len() as u64 {
                self.report.unchanged += known;
            } else {
                changed.push_back(session);
            }
        }
        if !changed.is_empty() {
            self.queue_kept(Keeping::Storage(changed));
        }
        Ok(())
    }

    fn queue_kept(&mut self, keeping: Keeping) {
        self.total += keeping.bytes_left();
        self.waiting.push_back(Waiting::Kept(keeping));
    }

    fn queue(&mut self, file: SourceFile) -> Result<()> {
        if file.is_database() {
            return self.queue_database(file);
        }
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

    fn queue_database(&mut self, mut file: SourceFile) -> Result<()> {
        if self.store.is_imported(&file)? {
            self.report.unchanged += 1;
            return Ok(());
        }
        file.modified = database::last_modified(&file);
        match Database::open(&file, &self.store.dir().join("segments")) {
            Ok(database) => self.queue_kept(Keeping::Database(database)),
            Err(ServiceError::File { path, source }) => self.report.failed.push((path, source.to_string())),
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Puts the next session before those that follow it.
    fn next_session(&mut self, mut keeping: Keeping, group: &mut Group<'_>) -> Result<()> {
        let session = match keeping.next() {
            Err(ServiceError::File { path, source }) => {
                self.report.failed.push((path, source.to_string()));
                return Ok(());
            }
            other => other?,
        };
        let Some(session) = session else { return self.finish_kept(&keeping, group) };
        let bytes = keeping.bytes_left();
        self.waiting.push_front(Waiting::Kept(keeping));
        if self.store.is_told(&session)? {
            self.report.unchanged += 1;
            return Ok(());
        }
        if let Some(import) = self.session(session)? {
            self.total = self.total.max(self.done + bytes + import.file.size - import.offset);
            self.waiting.push_front(Waiting::Begun(Box::new(import)));
        }
        Ok(())
    }

    /// A session as a file of lines, of which those are new that were not told.
    fn session(&mut self, session: Session) -> Result<Option<FileImport>> {
        let format = enjamb_formats::by_id(Runtime::OpenCode.format())
            .ok_or_else(|| ServiceError::UnknownFormat(Runtime::OpenCode.format().to_owned()))?;
        let path = path_text(&session.path);
        let state = self.store.source(&path)?.unwrap_or_default();
        let mut told = Vec::new();
        for part in &state.parts {
            told.push(known_lines(format, &self.store.get_small(&part.artifact)?));
        }
        let growth = growth(&told, &known_lines(format, session.text().as_bytes()), Sequence::Free);
        if growth.lines.is_empty() && growth.kept == told.len() && session.files.is_empty() {
            self.report.unchanged += 1;
            return Ok(None);
        }
        let from: u64 = state.parts[..growth.kept].iter().map(|part| part.bytes).sum();
        let lines = told[..growth.kept].iter().map(Vec::len).sum::<usize>() as u64;
        let (file, held) = session.written(from, &growth.lines, &self.store.dir().join("segments"))?;
        let mut origin = self.origin(&file, path, Some(session.id.clone()));
        if let Some(last) = growth.kept.checked_sub(1) {
            origin.recall(&self.store.show(&state.parts[last].commit)?);
        }
        let mut import = FileImport::new(file, origin, Some(&state), from, lines, growth.kept);
        import.window_bytes = self.options.bounds.window_bytes;
        import.in_files = !session.files.is_empty();
        (import.held, import.beside) = (Some(held), session.files);
        Ok(Some(import))
    }

    /// Says that a database was read as it is now. Its bytes are not kept: it is its sessions that are.
    fn finish_kept(&mut self, keeping: &Keeping, group: &mut Group<'_>) -> Result<()> {
        let Keeping::Database(Database { file, .. }) = keeping else { return Ok(()) };
        let mut file = file.clone();
        // What was written meanwhile was not read.
        if database::last_modified(&found_now(&file)) != file.modified {
            return Ok(());
        }
        let path = path_text(&file.path);
        let state = self.store.source(&path)?;
        file.size = 0;
        let mut origin = self.origin(&file, path, None);
        origin.format = DATABASE_FORMAT;
        let mut import = FileImport::new(file, origin, state.as_ref(), 0, 0, 0);
        import.tell(true, self.store, group, &self.options.by)
    }

    /// Keeps the files of a session as they are.
    fn keep_beside(&mut self, import: &mut FileImport, group: &mut Group<'_>) -> Result<()> {
        let Some(tip) = import.tip else { return Ok(()) };
        for file in std::mem::take(&mut import.beside) {
            if self.store.is_imported(&file)? {
                self.report.unchanged += 1;
                continue;
            }
            let path = path_text(&file.path);
            let state = self.store.source(&path)?;
            // The session is found by its id; its files are not.
            let origin = self.origin(&file, path, None);
            let mut kept = FileImport::new(file, origin, state.as_ref(), 0, 0, 0);
            kept.rewritten = false;
            match kept.whole(tip, group) {
                Err(ServiceError::File { path, source }) => self.report.failed.push((path, source.to_string())),
                Err(error) => return Err(error),
                Ok(()) => {
                    kept.tell(true, self.store, group, &self.options.by)?;
                    self.report.add(kept);
                }
            }
        }
        Ok(())
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
        import.rewritten = !is_all && !is_document;
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
            started: self.options.started.clone(),
            ..Origin::default()
        }
    }

    /// Reads which records the last commits hold, so that a prompt that goes back to one of them is a branch from it.
    fn remember(&self, import: &mut FileImport) -> Result<()> {
        let Some(format) = enjamb_formats::by_id(import.file.format()) else { return Ok(()) };
        if import.file.is_document() {
            return self.remember_document(import, format);
        }
        for part in std::mem::take(&mut import.recall) {
            let stored = self.store.get_small(&part.artifact)?;
            if let Ok(items) = format.framing().items(&stored) {
                let parent = self.store.show(&part.commit)?.link.parent;
                let conversation = format.understand(&items.items).conversation;
                import.remember(part.commit, parent, &window::records(&items.items), &conversation);
            }
        }
        Ok(())
    }

    /// Reads what was told of a document, so that only what is new is told.
    fn remember_document(&self, import: &mut FileImport, format: &dyn Format) -> Result<()> {
        import.recall.clear();
        let Some(tip) = import.tip.filter(|_| import.told.is_empty()) else { return Ok(()) };
        let Some(parts) = self.store.ledger.parts(&tip, &Stop::Root, limits::CHAIN_COMMITS_MAX)? else { return Ok(()) };
        for part in parts.iter().rev().filter(|part| *part.format == *format.id()) {
            let mut delta = Vec::new();
            self.store.ledger.read_parts(std::slice::from_ref(part), &mut |_, bytes| {
                delta.extend_from_slice(bytes);
                Ok(())
            })?;
            import.told.push((part.link.id, known_lines(format, &delta)));
        }
        Ok(())
    }

    /// Reads all that waits. Where that is much, windows are judged ahead.
    pub(super) fn run(&mut self) -> Result<()> {
        std::thread::scope(|scope| {
            if self.bytes_left() > limits::ARTIFACT_INLINE_BYTES_MAX as u64 {
                self.ahead = Ahead::start(scope, self.waiting.iter().filter_map(Waiting::task).collect());
            }
            let stored = self.store_all(scope);
            // Nobody listens any more, so whoever judges ends.
            self.ahead = Ahead::default();
            stored
        })
    }

    fn bytes_left(&self) -> u64 {
        self.waiting.iter().map(Waiting::bytes_left).sum()
    }

    /// Stores one group after another, each while the next is read.
    fn store_all<'scope>(&mut self, scope: &'scope Scope<'scope, '_>) -> Result<()>
    where
        's: 'scope,
    {
        // What is written or unpacked meanwhile is nobody's to sweep, and neither are segments of earlier groups, whose
        // chunks are left out of later ones: `maintain` may have put their artifacts elsewhere.
        let _lease = self.store.ledger.segments().lease()?;
        let mut retries = 0;
        let mut storing: Option<Storing<'scope>> = None;
        loop {
            let next = self.next_group()?;
            match storing.take().map(Storing::wait) {
                None => {}
                Some((Ok(counted), _)) => {
                    self.count(counted);
                    // Who gets on has not lost for good, however many others import the same.
                    retries = 0;
                }
                Some((Err(error), taken)) => {
                    // What was read after it counted on it.
                    if let Some(next) = next {
                        next.discard(self.store);
                    }
                    if !is_race(&error) || retries == RETRIES_MAX {
                        return Err(error);
                    }
                    retries += 1;
                    self.begin_again(taken)?;
                    continue;
                }
            }
            let Some(next) = next else { return Ok(()) };
            self.underway = Arc::new(next.underway());
            storing = Some(next.start(scope, self.store));
        }
    }

    /// Forgets what was read and not stored.
    fn begin_again(&mut self, taken: Vec<SourceFile>) -> Result<()> {
        (self.underway, self.chunks) = Default::default();
        self.waiting.clear();
        self.queue_all(taken)
    }

    fn count(&mut self, Counted { made, known, finished }: Counted) {
        self.report.commits += made;
        self.report.known += known;
        for import in finished {
            self.report.add(import);
        }
    }

    /// Reads files until a group is full, if any wait, and writes their bytes.
    fn next_group(&mut self) -> Result<Option<Written>> {
        if self.waiting.is_empty() {
            return Ok(None);
        }
        let taken = self.waiting.iter().flat_map(Waiting::found).collect();
        let segments = self.store.ledger.segments();
        let written = |Filled { batches, commits, counted }, segment| {
            Ok(Some(Written { taken, segment, batches, commits, counted }))
        };
        if self.bytes_left() <= limits::ARTIFACT_INLINE_BYTES_MAX as u64 {
            return written(self.fill(self.group(Sink::Batch))?, None);
        }
        let mut new = segments.create()?;
        match self.fill_segment(new.writer()) {
            Err(error) => {
                segments.discard(new);
                Err(error)
            }
            Ok((filled, None)) => {
                segments.discard(new);
                written(filled, None)
            }
            Ok((filled, Some(WrittenSegment { record, chunks }))) => {
                self.chunks.learn(chunks);
                written(filled, Some((new, record)))
            }
        }
    }

    fn group<'g>(&self, sink: Sink<'g>) -> Group<'g>
    where
        's: 'g,
    {
        Group::new(self.store, sink, self.options.bounds.group_frames, Arc::clone(&self.underway))
    }

    /// Fills a group while another thread writes its bytes.
    fn fill_segment(&mut self, sink: &mut BufWriter<File>) -> Result<(Filled, Option<WrittenSegment>)> {
        let (written, chunks) = (AtomicU64::new(0), std::mem::take(&mut self.chunks));
        let both = std::thread::scope(|scope| {
            let (sender, segment) = segment::start(scope, sink, &chunks, &written);
            let filled = self.fill(self.group(Sink::Segment { sender, written: &written }));
            // What the writer failed of is why the reader could not go on.
            let segment = segment.join().map_err(|_| LedgerError::corrupt("a segment", "its writer gave up"))??;
            Ok((filled?, segment))
        });
        self.chunks = chunks;
        both
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
                Some(Waiting::Kept(keeping)) => {
                    self.next_session(keeping, &mut group)?;
                    continue;
                }
            };
            self.remember(&mut import)?;
            let before = import.offset;
            let step = import.step(&mut self.ahead, &mut group);
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
                    self.keep_beside(&mut import, &mut group)?;
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
        let counted = Counted { made: group.made, known: group.known, finished };
        let (batches, commits) = group.finish();
        Ok(Filled { batches, commits, counted })
    }
}

/// A group that nothing is added to any more.
struct Filled {
    /// At least one.
    batches: Vec<Batch>,
    commits: HashSet<CommitId>,
    counted: Counted,
}

/// The file as it is by now.
fn found_now(file: &SourceFile) -> SourceFile {
    super::places::found_at(&file.path, file.runtime).unwrap_or_else(|| file.clone())
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

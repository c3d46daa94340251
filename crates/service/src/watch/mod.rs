//! Following what runtimes write, as they write it.
//!
//! A file is read when its turn is over, or a hook says so, or nobody writes to it any more. The system tells what changes;
//! where it cannot, or tells too much at once, the directories are looked through instead.

mod directories;
mod settle;
mod turn;

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use enjamb_core::{CommitId, ErrorKind};
use enjamb_ledger::LedgerError;

use self::directories::Directories;
use self::settle::Settling;
pub(crate) use self::turn::{is_over, is_tool_result};
use crate::capture::is_spool_empty;
use crate::import::{path_text, transcript_at};
use crate::{DrainBounds, ImportOptions, MissedAt, Place, Result, Runtime, ServiceError, SourceFile, Store, arrange};

/// How often is looked whether there is anything to do.
const TICK: Duration = Duration::from_millis(200);
/// How often all directories are looked through: to be sure, and where the system does not tell of changes.
const SWEEP: Duration = Duration::from_secs(60);
const SWEEP_UNTOLD: Duration = Duration::from_secs(2);
/// How long events of hooks are left: the end of a turn is told before its last record is written.
const HOOKS_LEAD: Duration = Duration::from_millis(500);
/// So many files are stored with one sync rather than one each.
const GROUP_FILES: usize = 16;
/// How much of the end of a file is looked at.
const TAIL_BYTES: u64 = 64 << 10;

/// What to watch, and how to import what is found.
#[derive(Clone, Debug)]
pub struct WatchOptions {
    pub places: Vec<Place>,
    pub import: ImportOptions,
    /// Where hooks note what they missed; looking through the directories makes up for it.
    pub missed_at: MissedAt,
    /// Take in what is there now, and end.
    pub once: bool,
}

/// Something that happened while watching.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WatchEvent {
    /// A directory is watched from now on.
    Watching { dir: PathBuf },
    /// Something new of a file was taken in, or of several in one go: then the path is the place that they are in.
    Imported { path: PathBuf, files: u64, runtime: Runtime, commits: u64, bytes: u64, tip: Option<CommitId> },
    /// Events of hooks were taken from the spool, and with them commits of the transcripts that they name.
    Drained { events: u64, commits: u64 },
    /// A file could not be read. It is tried again when it changes.
    Failed { path: PathBuf, why: String },
}

/// Told what happened; what it answers otherwise ends the watch.
pub type WatchTell<'t> = dyn FnMut(WatchEvent) -> Result<()> + 't;

impl Store {
    /// Takes in what runtimes write until `go_on` says no.
    pub fn watch(&self, options: WatchOptions, go_on: &dyn Fn() -> bool, tell: &mut WatchTell<'_>) -> Result<()> {
        let mut watch = Watch {
            store: self,
            directories: Directories::new(options.places),
            import: options.import,
            missed_at: options.missed_at,
            settling: Settling::default(),
            began: Instant::now(),
            swept: None,
            hooked: None,
            tell,
        };
        if options.once {
            return watch.once();
        }
        while go_on() {
            match watch.tick() {
                Err(error) if passes(&error) => watch.pause(&error)?,
                ticked => ticked?,
            }
        }
        Ok(())
    }
}

/// Whether trying again may help: the disk is full, or somebody else is writing.
fn passes(error: &ServiceError) -> bool {
    let is_ours = matches!(error, ServiceError::Ledger(LedgerError::Output(_)));
    !is_ours && matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Busy)
}

struct Watch<'w, 't> {
    store: &'w Store,
    directories: Directories,
    import: ImportOptions,
    missed_at: MissedAt,
    settling: Settling,
    began: Instant,
    swept: Option<Instant>,
    /// Since when events of hooks wait.
    hooked: Option<Instant>,
    tell: &'w mut WatchTell<'t>,
}

impl Watch<'_, '_> {
    fn once(&mut self) -> Result<()> {
        self.drain()?;
        let files = self.unread_files()?;
        self.read(files)?;
        self.missed_at.forget();
        Ok(())
    }

    fn tick(&mut self) -> Result<()> {
        for dir in self.directories.look() {
            (self.tell)(WatchEvent::Watching { dir })?;
        }
        if self.is_sweep_due() {
            self.sweep()?;
        }
        if self.is_drain_due() {
            self.drain()?;
        }
        let due = self.settling.due(self.began.elapsed(), is_turn_over);
        // A file that is gone was read as far as it got.
        self.read(due.iter().filter_map(|(runtime, path)| transcript_at(*runtime, path)).collect())?;
        for path in self.directories.wait(TICK) {
            self.touch(&path);
        }
        Ok(())
    }

    /// Tells of trouble that may pass, and looks for everything anew a little later.
    fn pause(&mut self, error: &ServiceError) -> Result<()> {
        (self.tell)(WatchEvent::Failed { path: self.store.dir().to_owned(), why: error.to_string() })?;
        self.directories.set_unclear();
        std::thread::sleep(SWEEP_UNTOLD);
        Ok(())
    }

    fn touch(&mut self, path: &Path) {
        let Some(place) = self.directories.place_of(path) else { return };
        let is_transcript = transcript_at(place.runtime, path).is_some();
        if is_transcript && !self.settling.touch(place.runtime, path, self.began.elapsed()) {
            self.directories.set_unclear();
        }
    }

    fn is_sweep_due(&self) -> bool {
        let pause = if self.directories.is_told() { SWEEP } else { SWEEP_UNTOLD };
        self.directories.take_unclear() || self.swept.is_none_or(|swept| swept.elapsed() >= pause)
    }

    /// Looks for files that hold something new, whether or not anybody told of them.
    fn sweep(&mut self) -> Result<()> {
        self.swept = Some(Instant::now());
        let mut old = Vec::new();
        for file in self.unread_files()? {
            if self.settling.knows(&file.path) {
                continue;
            }
            let age = file.modified.map_or(0, |at| self.store.env.now().as_millis().saturating_sub(at.as_millis()));
            let at = self.began.elapsed().saturating_sub(Duration::from_millis(age));
            if age >= SWEEP.as_millis() as u64 {
                old.push(file);
            } else if !self.settling.touch(file.runtime, &file.path, at) {
                self.directories.set_unclear();
            }
        }
        self.read(old)?;
        self.missed_at.forget();
        Ok(())
    }

    fn unread_files(&self) -> Result<Vec<SourceFile>> {
        let mut unread = Vec::new();
        for file in self.directories.places().flat_map(Place::files) {
            if !self.store.is_imported(&file)? {
                unread.push(file);
            }
        }
        arrange(&mut unread, self.store.env.now());
        Ok(unread)
    }

    fn is_drain_due(&mut self) -> bool {
        if is_spool_empty(self.store.dir()) {
            return false;
        }
        self.hooked.get_or_insert_with(Instant::now).elapsed() >= HOOKS_LEAD
    }

    fn drain(&mut self) -> Result<()> {
        self.hooked = None;
        let drained = self.store.drain(&self.import, DrainBounds::ALL)?;
        if drained.events > 0 {
            (self.tell)(WatchEvent::Drained { events: drained.events, commits: drained.commits })?;
        }
        drained.failed.into_iter().try_for_each(|(path, why)| (self.tell)(WatchEvent::Failed { path, why }))
    }

    /// Reads files, those of one place in one go where there are many, or where a session is many files.
    fn read(&mut self, mut files: Vec<SourceFile>) -> Result<()> {
        while let Some(first) = files.first() {
            let place = self.directories.place_of(&first.path).map(|place| (place.runtime, place.dir.clone()));
            let (runtime, dir) = place.unwrap_or_else(|| (first.runtime, first.path.clone()));
            let (group, rest): (Vec<_>, _) = files.into_iter().partition(|file| file.path.starts_with(&dir));
            files = rest;
            if group.len() >= GROUP_FILES || runtime == Runtime::OpenCode {
                self.read_group(dir, runtime, group)?;
            } else {
                group.into_iter().try_for_each(|file| self.read_group(file.path.clone(), runtime, vec![file]))?;
            }
        }
        Ok(())
    }

    fn read_group(&mut self, path: PathBuf, runtime: Runtime, files: Vec<SourceFile>) -> Result<()> {
        let imported = self.store.import(files, &self.import, &mut |_, _, _| {})?;
        if imported.files > 0 {
            let tip = self.store.source(&path_text(&path))?.and_then(|source| source.tip());
            let (files, commits, bytes) = (imported.files, imported.commits, imported.bytes);
            (self.tell)(WatchEvent::Imported { path, files, runtime, commits, bytes, tip })?;
        }
        imported.failed.into_iter().try_for_each(|(path, why)| (self.tell)(WatchEvent::Failed { path, why }))
    }
}

/// Whether a file ends where a turn does. What cannot be read is left for the importer to tell of.
fn is_turn_over(runtime: Runtime, path: &Path) -> bool {
    read_tail(path).is_ok_and(|tail| turn::is_over(runtime, &tail))
}

fn read_tail(path: &Path) -> Result<Vec<u8>> {
    let failed = |source| ServiceError::File { path: path.to_owned(), source };
    let mut file = File::open(path).map_err(failed)?;
    let size = file.metadata().map_err(failed)?.len();
    file.seek(SeekFrom::Start(size.saturating_sub(TAIL_BYTES))).map_err(failed)?;
    let mut tail = Vec::new();
    file.take(TAIL_BYTES).read_to_end(&mut tail).map_err(failed)?;
    Ok(tail)
}

#[cfg(test)]
mod tests;

//! What the disk holds for certain, and what is still on its way, after the first so many ops.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use super::fate::{Fate, Pending, Piece, Subject, mix};
use super::record::{Action, Op, SyncReach};

pub(super) type Files = BTreeMap<Arc<Path>, Arc<Vec<u8>>>;

/// Files are told apart from their names, as on a real disk: a name that was deleted and made again may come back as
/// either file.
#[derive(Default)]
pub(super) struct Disk {
    files: Vec<File>,
    names: BTreeMap<Arc<Path>, usize>,
    durable_names: BTreeMap<Arc<Path>, usize>,
    entries: Vec<Entry>,
    directories: BTreeSet<Arc<Path>>,
}

#[derive(Default)]
struct File {
    /// What a reader sees now.
    current: Arc<Vec<u8>>,
    /// What is durable, without `changes`.
    base: Arc<Vec<u8>>,
    changes: Vec<Change>,
}

struct Change {
    op: u64,
    effect: Effect,
    state: State,
}

enum Effect {
    Write { offset: u64, bytes: Arc<[u8]> },
    Truncate { length: u64 },
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Pending,
    /// A sync failed after it: it may be on disk, but no later sync puts it there.
    Doomed,
    Durable,
}

/// A change of names that is not durable.
struct Entry {
    op: u64,
    directory: Arc<Path>,
    link: Link,
}

enum Link {
    Add { path: Arc<Path>, file: usize },
    Remove { path: Arc<Path> },
    Move { from: Arc<Path>, to: Arc<Path>, file: usize },
}

impl Disk {
    pub(super) fn apply(&mut self, op: &Op) {
        match &op.action {
            Action::Existing { path, bytes } => self.existing(path, bytes),
            Action::Directory { path } => {
                self.directories.insert(path.clone());
            }
            Action::Create { path } => self.create(op.number, path),
            Action::Write { path, offset, bytes } => {
                self.change(op.number, path, Effect::Write { offset: *offset, bytes: bytes.clone() });
            }
            Action::Truncate { path, length } => self.change(op.number, path, Effect::Truncate { length: *length }),
            Action::Sync { path, reach } => self.sync(path, *reach),
            Action::SyncFailed { path } => self.doom(path),
            Action::Delete { path, directory_synced } => self.delete(op.number, path, *directory_synced),
            Action::Rename { from, to } => self.rename(op.number, from, to),
            Action::DirectorySync { path } => self.sync_directory(path),
            Action::Mark { .. } => {}
        }
    }

    pub(super) fn directories(&self) -> &BTreeSet<Arc<Path>> {
        &self.directories
    }

    /// What the process itself sees; all of it survives the process.
    pub(super) fn current(&self) -> Files {
        self.names.iter().map(|(path, file)| (path.clone(), self.files[*file].current.clone())).collect()
    }

    /// What is not durable, in the order in which it happened.
    pub(super) fn pending(&self) -> Vec<Pending> {
        let entries = self
            .entries
            .iter()
            .map(|entry| Pending { op: entry.op, subject: Subject::Entry { directory: entry.directory.clone() } });
        let changes = self.files.iter().enumerate().flat_map(|(id, file)| file.pending(id));
        let mut pending: Vec<Pending> = entries.chain(changes).collect();
        pending.sort_by_key(|change| change.op);
        pending
    }

    /// What is found after a power loss with this fate.
    pub(super) fn after(&self, fate: &Fate) -> Files {
        let mut names = self.durable_names.clone();
        for entry in self.entries.iter().filter(|entry| fate.survives(entry.op)) {
            entry.link.apply(&mut names);
        }
        names.into_iter().map(|(path, file)| (path, self.files[file].after(file, fate))).collect()
    }

    fn existing(&mut self, path: &Arc<Path>, bytes: &[u8]) {
        let content = Arc::new(bytes.to_vec());
        let file = self.add_file(File { current: content.clone(), base: content, changes: Vec::new() });
        self.names.insert(path.clone(), file);
        self.durable_names.insert(path.clone(), file);
    }

    /// Creating a file that exists empties it, as `File::create` does.
    fn create(&mut self, op: u64, path: &Arc<Path>) {
        if self.names.contains_key(path) {
            return self.change(op, path, Effect::Truncate { length: 0 });
        }
        let file = self.add_file(File::default());
        self.names.insert(path.clone(), file);
        self.entries.push(Entry { op, directory: parent(path), link: Link::Add { path: path.clone(), file } });
    }

    fn add_file(&mut self, file: File) -> usize {
        self.files.push(file);
        self.files.len() - 1
    }

    fn change(&mut self, op: u64, path: &Path, effect: Effect) {
        if let Some(file) = self.names.get(path) {
            let file = &mut self.files[*file];
            effect.apply(Arc::make_mut(&mut file.current));
            file.changes.push(Change { op, effect, state: State::Pending });
        }
    }

    fn sync(&mut self, path: &Path, reach: SyncReach) {
        let Some(file) = self.names.get(path).copied() else { return };
        self.files[file].sync();
        match reach {
            SyncReach::Bytes => {}
            SyncReach::Name => self.settle_entry(path, file),
            SyncReach::Directory => self.sync_directory(&parent(path)),
        }
    }

    fn doom(&mut self, path: &Path) {
        if let Some(file) = self.names.get(path) {
            self.files[*file].doom();
        }
    }

    fn delete(&mut self, op: u64, path: &Arc<Path>, directory_synced: bool) {
        self.names.remove(path);
        let directory = parent(path);
        self.entries.push(Entry { op, directory: directory.clone(), link: Link::Remove { path: path.clone() } });
        if directory_synced {
            self.sync_directory(&directory);
        }
    }

    fn rename(&mut self, op: u64, from: &Arc<Path>, to: &Arc<Path>) {
        if let Some(file) = self.names.remove(from) {
            self.names.insert(to.clone(), file);
            let link = Link::Move { from: from.clone(), to: to.clone(), file };
            self.entries.push(Entry { op, directory: parent(to), link });
        }
    }

    fn sync_directory(&mut self, directory: &Path) {
        self.settle(|entry| *entry.directory == *directory);
    }

    /// Makes the name of this file durable, with the earlier changes to the same name, and nothing else: the sync of
    /// one file must not hide that the entries of others were never synced.
    fn settle_entry(&mut self, path: &Path, file: usize) {
        let names_file = |entry: &Entry| matches!(&entry.link, Link::Add { file: added, .. } if *added == file);
        if let Some(last) = self.entries.iter().find(|entry| names_file(entry)).map(|entry| entry.op) {
            self.settle(|entry| entry.op <= last && entry.link.touches(path));
        }
    }

    fn settle(&mut self, is_settled: impl Fn(&Entry) -> bool) {
        let (settled, open): (Vec<Entry>, Vec<Entry>) =
            std::mem::take(&mut self.entries).into_iter().partition(|entry| is_settled(entry));
        self.entries = open;
        for entry in settled {
            entry.link.apply(&mut self.durable_names);
        }
    }
}

impl Link {
    fn apply(&self, names: &mut BTreeMap<Arc<Path>, usize>) {
        match self {
            Self::Add { path, file } => {
                names.insert(path.clone(), *file);
            }
            Self::Remove { path } => {
                names.remove(path);
            }
            Self::Move { from, to, file } => {
                names.remove(from);
                names.insert(to.clone(), *file);
            }
        }
    }

    fn touches(&self, name: &Path) -> bool {
        match self {
            Self::Add { path, .. } | Self::Remove { path } => **path == *name,
            Self::Move { from, to, .. } => **from == *name || **to == *name,
        }
    }
}

impl File {
    fn pending(&self, file: usize) -> impl Iterator<Item = Pending> {
        self.changes.iter().filter(|change| change.state != State::Durable).map(move |change| {
            let subject = match change.effect {
                Effect::Write { .. } => Subject::Write { file },
                Effect::Truncate { .. } => Subject::Truncate { file },
            };
            Pending { op: change.op, subject }
        })
    }

    fn sync(&mut self) {
        for change in self.changes.iter_mut().filter(|change| change.state == State::Pending) {
            change.state = State::Durable;
        }
        // A doomed change holds the later ones back, because they must be applied on top of it if it survives.
        let settled = self.changes.iter().take_while(|change| change.state == State::Durable).count();
        for change in self.changes.drain(..settled) {
            change.effect.apply(Arc::make_mut(&mut self.base));
        }
    }

    fn doom(&mut self) {
        for change in self.changes.iter_mut().filter(|change| change.state == State::Pending) {
            change.state = State::Doomed;
        }
    }

    fn after(&self, file: usize, fate: &Fate) -> Arc<Vec<u8>> {
        let grown = fate.grown_length(file, &self.growing_lengths());
        let is_there = |change: &Change| change.state == State::Durable || fate.survives(change.op);
        if grown.is_none() && !self.changes.iter().any(is_there) {
            return self.base.clone();
        }
        let mut bytes = Vec::clone(&self.base);
        for (position, change) in self.changes.iter().enumerate() {
            if !is_there(change) {
                self.apply_blocks_of_later_writes(position, fate, &mut bytes);
            } else if fate.is_torn(change.op) {
                change.effect.apply_torn(change.op, fate, &mut bytes);
            } else {
                change.effect.apply(&mut bytes);
            }
        }
        if let Some(length) = grown.filter(|length| *length > bytes.len() as u64) {
            bytes.resize(length as usize, 0);
        }
        Arc::new(bytes)
    }

    /// The lengths beyond the durable one that the writes under way would have given the file.
    fn growing_lengths(&self) -> Vec<u64> {
        let pending = self.changes.iter().filter(|change| change.state == State::Pending);
        pending.filter_map(|change| change.effect.end()).filter(|end| *end > self.base.len() as u64).collect()
    }

    /// Where blocks keep their order, a write that is otherwise lost is found in the blocks that a later one reached.
    fn apply_blocks_of_later_writes(&self, position: usize, fate: &Fate, bytes: &mut Vec<u8>) {
        let Effect::Write { offset, bytes: written } = &self.changes[position].effect else { return };
        if !fate.blocks_keep_order() {
            return;
        }
        for unit in units(*offset, written.len(), fate.unit_bytes()) {
            if self.changes[position + 1..].iter().any(|later| later.reaches(unit.number, fate)) {
                write_at(bytes, unit.offset, &written[unit.within.clone()]);
            }
        }
    }
}

impl Change {
    fn reaches(&self, unit_number: u64, fate: &Fate) -> bool {
        let Effect::Write { offset, bytes } = &self.effect else { return false };
        if !fate.survives(self.op) {
            return false;
        }
        let mut touched = units(*offset, bytes.len(), fate.unit_bytes());
        touched.any(|unit| {
            unit.number == unit_number
                && (!fate.is_torn(self.op) || fate.piece(self.op, unit.index, unit.count) == Piece::New)
        })
    }
}

impl Effect {
    fn apply(&self, content: &mut Vec<u8>) {
        match self {
            Self::Write { offset, bytes } => write_at(content, *offset, bytes),
            Self::Truncate { length } => content.resize(*length as usize, 0),
        }
    }

    fn apply_torn(&self, op: u64, fate: &Fate, content: &mut Vec<u8>) {
        let Self::Write { offset, bytes } = self else { return self.apply(content) };
        for unit in units(*offset, bytes.len(), fate.unit_bytes()) {
            let new = &bytes[unit.within.clone()];
            match fate.piece(op, unit.index, unit.count) {
                Piece::New => write_at(content, unit.offset, new),
                Piece::Old => {}
                Piece::Zero => write_at(content, unit.offset, &vec![0; new.len()]),
                Piece::Garbage => {
                    write_at(content, unit.offset, &garbage(fate.garbage_seed(op, unit.index), new.len()));
                }
            }
        }
    }

    fn end(&self) -> Option<u64> {
        match self {
            Self::Write { offset, bytes } => Some(offset + bytes.len() as u64),
            Self::Truncate { .. } => None,
        }
    }
}

/// The part of one write that falls into one sector or block of the file.
struct Unit {
    /// Counted from the start of the file.
    number: u64,
    /// Counted from the start of the write, of `count`.
    index: u64,
    count: u64,
    offset: u64,
    within: std::ops::Range<usize>,
}

fn units(offset: u64, length: usize, unit_bytes: u64) -> impl Iterator<Item = Unit> {
    let end = offset + length as u64;
    let numbers = offset / unit_bytes..end.div_ceil(unit_bytes);
    let (first, count) = (numbers.start, numbers.end - numbers.start);
    numbers.map(move |number| {
        let from = offset.max(number * unit_bytes);
        let to = end.min((number + 1) * unit_bytes);
        Unit {
            number,
            index: number - first,
            count,
            offset: from,
            within: (from - offset) as usize..(to - offset) as usize,
        }
    })
}

fn write_at(content: &mut Vec<u8>, offset: u64, bytes: &[u8]) {
    let (from, to) = (offset as usize, offset as usize + bytes.len());
    if content.len() < to {
        content.resize(to, 0);
    }
    content[from..to].copy_from_slice(bytes);
}

fn garbage(seed: u64, length: usize) -> Vec<u8> {
    (0..length as u64).map(|position| mix(seed ^ position) as u8).collect()
}

fn parent(path: &Path) -> Arc<Path> {
    path.parent().unwrap_or(Path::new("")).into()
}

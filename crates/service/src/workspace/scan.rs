//! Looking through a workspace: every file, link and directory that version control would not ignore. What git tracks it
//! does not ignore, whatever the rules say.

use std::fs::Metadata;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};

use enjamb_core::workspace::{NodeKind, order};
use ignore::{DirEntry, WalkBuilder, WalkState};

use super::git_index::tracked;
use super::root::Root;
use crate::{Result, ServiceError};

/// Files of a rewind that are not yet under their own names.
pub(super) const UNFINISHED: &str = ".enjamb-rewind-";
/// More threads than this only wait for the same disk.
const THREADS_MAX: usize = 8;

/// What stands at a path, as the file system tells it without the bytes being read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Found {
    pub path: Vec<u8>,
    pub kind: NodeKind,
    pub stat: Stat,
}

/// By which a file that was not written to is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Stat {
    pub mode: u32,
    pub size: u64,
    pub modified_ns: i64,
    pub changed_ns: i64,
    pub inode: u64,
}

/// What is to be looked at.
#[derive(Clone, Debug, Default)]
pub(super) struct Scope {
    /// Also what version control ignores.
    pub ignored: bool,
    /// Never this directory: the store that the files go to.
    pub store: PathBuf,
    /// These, even if they are ignored, and all that is below them.
    pub also: Vec<Vec<u8>>,
}

/// A workspace, looked through.
#[derive(Debug, Default)]
pub(super) struct Scan {
    /// In the order of paths.
    pub found: Vec<Found>,
    /// Files of a rewind that was cut short.
    pub leftovers: Vec<Vec<u8>>,
}

/// What one look at a path came to.
enum Seen {
    Found(Found),
    Leftover(Vec<u8>),
    Failed(PathBuf, io::Error),
}

pub(super) fn scan(root: &Root, scope: &Scope) -> Result<Scan> {
    let (sender, receiver) = channel();
    walk(walker(root.path(), scope), root.path(), &sender);
    drop(sender);
    let mut scan = gathered(receiver)?;
    let (sender, receiver) = channel();
    for path in scope.also.iter().filter(|path| !scan.has_file(path)) {
        add_named(root, scope, path, &sender);
    }
    if !scope.ignored {
        tracked(root.path())
            .iter()
            .filter(|path| !scan.has_file(path))
            .for_each(|path| add_tracked(root, scope, path, &sender));
    }
    drop(sender);
    let named = gathered(receiver)?;
    if !named.found.is_empty() {
        scan.found.extend(named.found);
        scan.leftovers.extend(named.leftovers);
        scan.arrange();
    }
    Ok(scan)
}

fn gathered(receiver: Receiver<Seen>) -> Result<Scan> {
    let mut scan = Scan::default();
    for seen in receiver {
        match seen {
            Seen::Found(found) => scan.found.push(found),
            Seen::Leftover(path) => scan.leftovers.push(path),
            // It was there a moment ago; that it is gone is as good an answer.
            Seen::Failed(_, error) if error.kind() == io::ErrorKind::NotFound => {}
            Seen::Failed(path, source) => return Err(ServiceError::File { path, source }),
        }
    }
    scan.arrange();
    Ok(scan)
}

impl Scan {
    fn arrange(&mut self) {
        self.found.sort_unstable_by(|a, b| order(&a.path, &b.path));
        self.found.dedup_by(|a, b| a.path == b.path);
    }

    fn has_file(&self, path: &[u8]) -> bool {
        let at = self.found.binary_search_by(|found| order(&found.path, path));
        at.is_ok_and(|at| self.found[at].kind != NodeKind::Dir)
    }
}

fn walker(dir: &Path, scope: &Scope) -> WalkBuilder {
    let mut builder = WalkBuilder::new(dir);
    builder.standard_filters(false);
    if !scope.ignored {
        // Outside a repository, a .gitignore means what it says; but one above everything does not rule over strangers.
        let in_repository = dir.ancestors().any(|above| above.join(".git").exists());
        builder.git_ignore(true).git_exclude(true).git_global(true).require_git(false).parents(in_repository);
    }
    let store = scope.store.clone();
    builder.filter_entry(move |entry| is_ours(entry, &store));
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    builder.threads(threads.min(THREADS_MAX));
    builder
}

/// Neither a repository's own files nor the store's.
fn is_ours(entry: &DirEntry, store: &Path) -> bool {
    entry.depth() == 0 || !(entry.file_name().eq_ignore_ascii_case(".git") || entry.path() == store)
}

fn walk(builder: WalkBuilder, root: &Path, sender: &Sender<Seen>) {
    builder.build_parallel().run(|| {
        let sender = sender.clone();
        Box::new(move |entry| {
            let seen = match entry {
                Ok(entry) if entry.path() == root => None,
                Ok(entry) => look(root, entry.path(), entry.metadata().map_err(plain_error)),
                Err(error) => Some(Seen::Failed(root.to_owned(), plain_error(error))),
            };
            // Whoever listens does so until the last of us is done.
            seen.into_iter().for_each(|seen| drop(sender.send(seen)));
            WalkState::Continue
        })
    });
}

fn plain_error(error: ignore::Error) -> io::Error {
    let kind = error.io_error().map_or(io::ErrorKind::Other, io::Error::kind);
    io::Error::new(kind, error)
}

fn look(root: &Path, path: &Path, meta: io::Result<Metadata>) -> Option<Seen> {
    let meta = match meta {
        Ok(meta) => meta,
        Err(error) => return Some(Seen::Failed(path.to_owned(), error)),
    };
    let below = path.strip_prefix(root).ok()?.as_os_str().as_bytes().to_vec();
    let name = path.file_name()?.as_bytes();
    if name.starts_with(UNFINISHED.as_bytes()) {
        return Some(Seen::Leftover(below));
    }
    // Pipes, sockets and devices hold no bytes of their own: they are neither kept nor touched.
    let kind = kind_of(&meta)?;
    Some(Seen::Found(Found { path: below, kind, stat: Stat::of(&meta, kind) }))
}

fn kind_of(meta: &Metadata) -> Option<NodeKind> {
    let kind = meta.file_type();
    let is = [(kind.is_file(), NodeKind::File), (kind.is_symlink(), NodeKind::Link), (kind.is_dir(), NodeKind::Dir)];
    is.into_iter().find(|(is, _)| *is).map(|(_, kind)| kind)
}

/// Adds a path that is to be there whatever rules say, with the directories above it and all that is below it.
fn add_named(root: &Root, scope: &Scope, path: &[u8], sender: &Sender<Seen>) {
    let ends = path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at).chain([path.len()]);
    for end in ends.filter(|end| *end > 0) {
        let at = root.path().join(std::ffi::OsStr::from_bytes(&path[..end]));
        let meta = at.symlink_metadata();
        let is_dir = meta.as_ref().is_ok_and(Metadata::is_dir);
        look(root.path(), &at, meta).into_iter().for_each(|seen| drop(sender.send(seen)));
        if !is_dir {
            return;
        }
    }
    let at = root.path().join(std::ffi::OsStr::from_bytes(path));
    walk(walker(&at, &Scope { ignored: true, ..scope.clone() }), root.path(), sender);
}

/// Adds a file that git tracks, if it is there.
fn add_tracked(root: &Root, scope: &Scope, path: &[u8], sender: &Sender<Seen>) {
    let at = root.path().join(std::ffi::OsStr::from_bytes(path));
    let is_file = at.symlink_metadata().is_ok_and(|meta| !meta.is_dir());
    if is_file && !at.starts_with(&scope.store) {
        add_named(root, scope, path, sender);
    }
}

impl Stat {
    pub(super) fn of(meta: &Metadata, kind: NodeKind) -> Self {
        Self::from_parts(
            kind,
            meta.mode(),
            meta.size(),
            meta.ino(),
            [meta.mtime(), meta.mtime_nsec()],
            [meta.ctime(), meta.ctime_nsec()],
        )
    }

    pub(super) fn of_raw(stat: &rustix::fs::Stat, kind: NodeKind) -> Self {
        // The widths of these differ from system to system.
        #[allow(clippy::unnecessary_cast)]
        Self::from_parts(
            kind,
            stat.st_mode as u32,
            stat.st_size as u64,
            stat.st_ino as u64,
            [stat.st_mtime as i64, stat.st_mtime_nsec as i64],
            [stat.st_ctime as i64, stat.st_ctime_nsec as i64],
        )
    }

    fn from_parts(kind: NodeKind, mode: u32, size: u64, inode: u64, modified: [i64; 2], changed: [i64; 2]) -> Self {
        let ns = |[seconds, ns]: [i64; 2]| seconds.saturating_mul(1_000_000_000).saturating_add(ns);
        let (mode, size) = match kind {
            // Whoever restores a file is not to hand out their own rights with it.
            NodeKind::File => (mode & 0o777, size),
            NodeKind::Link => (0, size),
            NodeKind::Dir => (mode & 0o7777, 0),
        };
        Self { mode, size, modified_ns: ns(modified), changed_ns: ns(changed), inode }
    }
}

//! Making files what a listing says, one small step after another, so that a crash between any two leaves nothing that
//! the next attempt does not see and mend.

use std::collections::BTreeSet;
use std::io::{self, BufWriter, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use enjamb_core::ArtifactId;
use enjamb_core::workspace::{Change, Item, Manifest, Node, NodeKind, escape, order};
use enjamb_ledger::{Ledger, LedgerError};
use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};
use rustix::fs::Mode;

use super::WorkspaceError;
use super::rewind::RewindStep;
use super::root::Root;
use super::scan::{Stat, UNFINISHED};
use super::take::Taken;
use crate::{Result, ServiceError, Store};

/// What a directory's owner needs in order to work in it.
const OWN: u32 = 0o700;

/// A restoration under way.
pub(super) struct Restore<'r> {
    store: &'r Store,
    root: &'r Root,
    taken: &'r Taken,
    target: &'r [Item],
    changes: &'r [Change],
    done: u64,
    total: u64,
}

impl<'r> Restore<'r> {
    pub(super) fn new(
        store: &'r Store,
        root: &'r Root,
        taken: &'r Taken,
        target: &'r [Item],
        changes: &'r [Change],
    ) -> Self {
        let steps = changes.iter().map(|change| u64::from(is_removal(change)) + u64::from(change.to.is_some()));
        // One before the first, one before and one after the last.
        let total = steps.sum::<u64>() + 3;
        Self { store, root, taken, target, changes, done: 0, total }
    }

    pub(super) fn run(mut self, step: &mut RewindStep<'_>) -> Result<()> {
        self.step(step)?;
        for path in &self.taken.leftovers {
            self.tolerating(io::ErrorKind::NotFound, path, self.root.remove(path, false))?;
        }
        self.open_dirs()?;
        for change in self.changes.iter().rev().filter(|change| is_removal(change)) {
            self.step(step)?;
            self.remove(change)?;
        }
        for change in self.changes {
            if let Some(to) = &change.to {
                self.step(step)?;
                self.make(change, to)?;
            }
        }
        self.step(step)?;
        self.close_dirs()?;
        self.root.sync().map_err(|source| self.failed(b"", source))?;
        self.step(step)
    }

    fn step(&mut self, step: &mut RewindStep<'_>) -> Result<()> {
        self.done += 1;
        step(self.done, self.total)
    }

    /// Lets us write in directories that are to change and that not even their owner may write in.
    fn open_dirs(&self) -> Result<()> {
        for path in self.dirs_to_change() {
            let closed = |node: &&Node| node.kind == NodeKind::Dir && node.mode & OWN != OWN;
            if let Some(node) = node_at(&self.taken.items, path).filter(closed) {
                let opened = self.root.set_mode(path, node.mode | OWN, true);
                opened.map_err(|source| self.failed(path, source))?;
            }
        }
        Ok(())
    }

    /// Gives directories their modes, the innermost first.
    fn close_dirs(&self) -> Result<()> {
        let new = self.changes.iter().filter(|change| change.to.is_some_and(|node| node.kind == NodeKind::Dir));
        let mut paths: BTreeSet<&[u8]> = new.map(|change| change.path.as_slice()).collect();
        paths.extend(self.dirs_to_change());
        for path in paths.iter().rev() {
            let wanted = node_at(self.target, path).filter(|node| node.kind == NodeKind::Dir);
            let there = wanted.filter(|node| self.needs_mode(path, node));
            if let Some(node) = there {
                self.root.set_mode(path, node.mode, true).map_err(|source| self.failed(path, source))?;
            }
        }
        Ok(())
    }

    fn needs_mode(&self, path: &[u8], node: &Node) -> bool {
        let before = node_at(&self.taken.items, path);
        before.is_none_or(|before| before.mode != node.mode || before.mode & OWN != OWN)
    }

    fn dirs_to_change(&self) -> BTreeSet<&[u8]> {
        self.changes.iter().filter_map(|change| parent(&change.path)).collect()
    }

    fn remove(&self, change: &Change) -> Result<()> {
        let is_dir = change.from.is_some_and(|node| node.kind == NodeKind::Dir);
        if !is_dir {
            self.check_unchanged(change)?;
        }
        let removed = self.root.remove(&change.path, is_dir);
        // What version control ignores stays, and the directory with it.
        if is_dir && change.to.is_none() {
            return self.tolerating(io::ErrorKind::DirectoryNotEmpty, &change.path, removed);
        }
        removed.map_err(|source| self.failed(&change.path, source))
    }

    fn make(&self, change: &Change, to: &Node) -> Result<()> {
        let path = &change.path;
        match to.kind {
            NodeKind::Dir => self.tolerating(io::ErrorKind::AlreadyExists, path, self.root.create_dir(path)),
            NodeKind::Link => {
                self.check_unchanged(change)?;
                let target = self.store.get_small(&ArtifactId::from_digest(to.id))?;
                self.beside(path, |name| self.root.create_link(name, &target).map_err(|e| self.failed(path, e)))
            }
            NodeKind::File => {
                self.check_unchanged(change)?;
                if change.from.is_some_and(|from| from.kind == NodeKind::File && from.id == to.id)
                    && self.root.set_mode(path, to.mode, false).is_ok()
                {
                    return Ok(());
                }
                self.beside(path, |name| self.write_file(name, to))
            }
        }
    }

    /// Makes something under another name first: whoever looks sees what was there, or all of what is to be there.
    fn beside(&self, path: &[u8], make: impl FnOnce(&[u8]) -> Result<()>) -> Result<()> {
        let mut name = parent(path).map_or_else(Vec::new, |dir| [dir, b"/"].concat());
        name.extend(format!("{UNFINISHED}{}-{}", std::process::id(), self.done).bytes());
        make(&name)?;
        self.root.rename(&name, path).map_err(|source| self.failed(path, source))
    }

    fn write_file(&self, name: &[u8], node: &Node) -> Result<()> {
        let failed = |source| self.failed(name, source);
        let mut out = BufWriter::with_capacity(1 << 18, self.root.create_file(name).map_err(failed)?);
        let written = self.store.ledger.read(&ArtifactId::from_digest(node.id), None, &mut |part| out.write_all(part));
        written.map_err(|error| match error {
            LedgerError::Output(source) => self.failed(name, source),
            other => other.into(),
        })?;
        let file = out.into_inner().map_err(|error| self.failed(name, error.into_error()))?;
        rustix::fs::fchmod(&file, Mode::from_raw_mode(node.mode)).map_err(|error| self.failed(name, error.into()))
    }

    /// What is about to be replaced is what was kept, and not what somebody has made of it since.
    fn check_unchanged(&self, change: &Change) -> Result<()> {
        let path = &change.path;
        let now = match self.root.stat(path) {
            Ok(stat) => Some(stat),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(source) => return Err(self.failed(path, source)),
        };
        let before = change.from.filter(|node| node.kind != NodeKind::Dir);
        let same = match (now, before) {
            (None, None) => true,
            (Some(now), Some(node)) => self.taken.stat(path).is_some_and(|stat| *stat == Stat::of_raw(&now, node.kind)),
            (Some(_), None) | (None, Some(_)) => false,
        };
        // A directory that turns into a file was removed by an earlier step; so was a file that turns into a directory.
        if same || now.is_none() && is_removal(change) {
            return Ok(());
        }
        Err(WorkspaceError::Changed { path: escape(path), root: self.root.path().to_owned() }.into())
    }

    fn tolerating(&self, kind: io::ErrorKind, path: &[u8], done: io::Result<()>) -> Result<()> {
        match done {
            Err(error) if error.kind() == kind => Ok(()),
            done => done.map_err(|source| self.failed(path, source)),
        }
    }

    fn failed(&self, path: &[u8], source: io::Error) -> ServiceError {
        ServiceError::File { path: self.root.path().join(escape(path)), source }
    }
}

/// Whether what is there has to go before anything else can take its place.
fn is_removal(change: &Change) -> bool {
    match (&change.from, &change.to) {
        (Some(_), None) => true,
        (Some(from), Some(to)) => from.kind != to.kind && (from.kind == NodeKind::Dir || to.kind == NodeKind::Dir),
        (None, _) => false,
    }
}

fn parent(path: &[u8]) -> Option<&[u8]> {
    path.iter().rposition(|byte| *byte == b'/').map(|slash| &path[..slash])
}

fn node_at<'i>(items: &'i [Item], path: &[u8]) -> Option<&'i Node> {
    items.binary_search_by(|item| order(&item.path, path)).ok().map(|at| &items[at].node)
}

/// What version control ignored when a checkpoint was made, as far as the checkpoint can tell.
pub(super) struct Ignored {
    /// Each `.gitignore`, by its directory; the outermost first.
    rules: Vec<(Vec<u8>, Gitignore)>,
}

impl Ignored {
    pub(super) fn of(store: &Store, manifest: &Manifest, items: &[Item]) -> Result<Self> {
        let mut rules = Vec::new();
        let is_rules = |item: &&Item| item.node.kind == NodeKind::File && item.path.ends_with(b".gitignore");
        for item in items.iter().filter(is_rules).filter(|_| !manifest.ignored) {
            let dir = parent(&item.path).unwrap_or_default().to_vec();
            if item.path.len() != dir.len() + usize::from(!dir.is_empty()) + b".gitignore".len() {
                continue;
            }
            let bytes = store.get_document(&ArtifactId::from_digest(item.node.id))?;
            let mut builder = GitignoreBuilder::new(Path::new(std::ffi::OsStr::from_bytes(&dir)));
            for line in String::from_utf8_lossy(&bytes).lines() {
                // A line that is no pattern ignores nothing.
                let _ = builder.add_line(None, line);
            }
            rules.extend(builder.build().ok().map(|built| (dir, built)));
        }
        Ok(Self { rules })
    }

    /// Whether a path was ignored.
    pub(super) fn holds(&self, path: &[u8], is_dir: bool) -> bool {
        let below = |dir: &[u8]| enjamb_core::workspace::is_within(path, dir) && path != dir;
        let applying = self.rules.iter().rev().filter(|(dir, _)| below(dir));
        let at = Path::new(std::ffi::OsStr::from_bytes(path));
        let verdict = applying
            .map(|(_, rules)| rules.matched_path_or_any_parents(at, is_dir))
            .find(|verdict| !matches!(verdict, Match::None));
        matches!(verdict, Some(Match::Ignore(_)))
    }
}

//! Taking a workspace as it is: looked through, compared with what was noted, and read where that does not say enough.

use std::cmp::Ordering;

use enjamb_core::order::{MarkKey, Scope as MarkScope};
use enjamb_core::workspace::{Item, Manifest, Node, NodeKind, Tree, forest, order};
use enjamb_core::{Digest, Timestamp};
use enjamb_ledger::Ledger;

use super::keep::{Kept, Unread, read_only};
use super::root::Root;
use super::scan::{Found, Scope, Stat, scan};
use super::stats::{StatEntry, Stats, is_settled};
use super::{Place, git};
use crate::{Actor, Result, Store};

/// A workspace as it is.
pub(super) struct Taken {
    pub items: Vec<Item>,
    /// Of each item.
    pub stats: Vec<Stat>,
    /// Paths that are not what was noted, those that are gone among them.
    pub changed: Vec<Vec<u8>>,
    /// Trees that are not what was noted, and the root's.
    pub trees: Vec<Tree>,
    pub kept: Kept,
    pub leftovers: Vec<Vec<u8>>,
    tree: Digest,
    looked: Timestamp,
}

/// An item as it was found, and as it was noted.
struct Pair<'a> {
    found: &'a Found,
    noted: Option<&'a StatEntry>,
}

impl Store {
    /// What was noted of a workspace, if the checkpoint it tells of is in the log: then all that it names is stored.
    pub(super) fn noted(&self, place: &Place) -> Result<Stats> {
        let stats = Stats::read(&place.stats());
        if stats.checkpoint.is_empty() {
            return Ok(Stats::default());
        }
        let key = MarkKey::Checkpoint(stats.checkpoint.clone());
        let is_here = self.ledger.mark(&MarkScope::Store, &key)?.is_some();
        Ok(if is_here { stats } else { Stats::default() })
    }

    /// Reads what is not known, and makes the trees. Nothing is in the log yet, and nothing is kept where nobody wants it.
    pub(super) fn take(&self, root: &Root, scope: &Scope, noted: &Stats, by: Option<&Actor>) -> Result<Taken> {
        let looked = self.env.now();
        let scan = scan(root, scope)?;
        let (pairs, gone) = paired(&scan.found, &noted.entries);
        let unknown: Vec<_> = pairs.iter().filter(|pair| pair.known().is_none()).collect();
        let unread = Unread {
            root,
            files: unknown.iter().map(|pair| pair.found).collect(),
            stored: unknown.iter().filter_map(|pair| Some(pair.noted?.node.id)).collect(),
        };
        let (read, kept) = match by {
            Some(by) => self.keep_files(&unread, by)?,
            None => (read_only(&unread)?, Kept::default()),
        };
        let mut read = read.into_iter();
        let mut taken = Taken {
            items: Vec::with_capacity(pairs.len()),
            stats: Vec::with_capacity(pairs.len()),
            changed: gone,
            trees: Vec::new(),
            kept,
            leftovers: scan.leftovers,
            tree: Digest::ZERO,
            looked,
        };
        for pair in &pairs {
            let (id, size, stat) = match pair.known() {
                Some(id) => (id, pair.found.stat.size, pair.found.stat),
                None => match read.next().flatten() {
                    Some(file) => (file.id, file.len, file.stat),
                    None => continue,
                },
            };
            let node = Node { kind: pair.found.kind, mode: stat.mode, size, id };
            if !pair.noted.is_some_and(|noted| noted.node.is_like(&node)) {
                taken.changed.push(pair.found.path.clone());
            }
            taken.items.push(Item { path: pair.found.path.clone(), node });
            taken.stats.push(stat);
        }
        taken.changed.sort_unstable_by(|a, b| order(a, b));
        taken.grow(noted);
        Ok(taken)
    }
}

impl Pair<'_> {
    /// The id of what stands there, as far as it need not be read. That of a directory comes later.
    fn known(&self) -> Option<Digest> {
        match self.found.kind {
            NodeKind::Dir => Some(Digest::ZERO),
            NodeKind::File | NodeKind::Link => self.noted.and_then(|noted| noted.known(self.found)),
        }
    }
}

/// What was found, each with what was noted of it, and the paths that are gone.
fn paired<'a>(found: &'a [Found], noted: &'a [StatEntry]) -> (Vec<Pair<'a>>, Vec<Vec<u8>>) {
    let mut noted = noted.iter().peekable();
    let (mut pairs, mut gone) = (Vec::with_capacity(found.len()), Vec::new());
    for found in found {
        while let Some(old) = noted.next_if(|old| order(&old.path, &found.path) == Ordering::Less) {
            gone.push(old.path.clone());
        }
        pairs.push(Pair { found, noted: noted.next_if(|old| old.path == found.path) });
    }
    gone.extend(noted.map(|old| old.path.clone()));
    (pairs, gone)
}

impl Taken {
    /// Makes the trees, and leaves out those that were stored with what was noted.
    fn grow(&mut self, noted: &Stats) {
        let mut trees = forest(&mut self.items);
        self.tree = trees.last().map_or(Digest::ZERO, |root| root.id);
        let stored = |tree: &Tree| {
            let at = noted.entries.binary_search_by(|entry| order(&entry.path, &tree.path));
            at.is_ok_and(|at| noted.entries[at].node.id == tree.id)
        };
        trees.retain(|tree| !stored(tree));
        self.trees = trees;
    }

    pub(super) fn manifest(&self, root: &Root, ignored: bool) -> Manifest {
        let files = self.items.iter().filter(|item| item.node.kind != NodeKind::Dir);
        let (count, bytes) = files.fold((0, 0), |(count, bytes), item| (count + 1, bytes + item.node.size));
        let git = git::place(root.path());
        Manifest::new(root.text(), self.tree, (count, bytes), ignored, git)
    }

    /// What to note, once the checkpoint is in the log.
    pub(super) fn stats(&self, checkpoint: &str) -> Stats {
        let entry = |(item, stat): (&Item, &Stat)| StatEntry {
            path: item.path.clone(),
            node: item.node,
            stat: *stat,
            settled: is_settled(stat, self.looked),
        };
        let entries = self.items.iter().zip(&self.stats).map(entry).collect();
        Stats { checkpoint: checkpoint.to_owned(), entries }
    }

    /// The stat of a path, if it was there.
    pub(super) fn stat(&self, path: &[u8]) -> Option<&Stat> {
        let at = self.items.binary_search_by(|item| order(&item.path, path)).ok()?;
        self.stats.get(at)
    }
}

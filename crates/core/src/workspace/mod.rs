//! Workspaces as checkpoints keep them: a listing of files, links and directories, the trees that it is stored as, and
//! what it takes to get from one listing to another.
//!
//! Paths are bytes, as file systems have them, relative to the root and with `/` between names. Nothing that leads out of
//! the root, or into a repository's own files, is ever read from a tree.

mod change;
mod manifest;
mod name;
mod tree;

#[cfg(test)]
mod tests;

pub use change::{Change, changes};
pub use manifest::{GitPlace, Manifest, ManifestError};
pub use name::{NameFault, check_name, escape, order, unescape};
pub use tree::{Tree, TreeEntry, TreeError, decode_tree, forest};

use crate::Digest;

/// What stands at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Node {
    pub kind: NodeKind,
    /// Permission bits; 0 of a link, which has none of its own.
    pub mode: u32,
    /// Bytes of a file, or of a link's target; 0 of a directory.
    pub size: u64,
    /// The artifact of a file's bytes, of a link's target, or of a directory's tree.
    pub id: Digest,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NodeKind {
    File,
    Link,
    Dir,
}

/// A path and what stands there. A listing has them in the [`order`] of paths, so that a directory comes right before
/// what is in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    pub path: Vec<u8>,
    pub node: Node,
}

impl Node {
    /// Whether two nodes are the same to whoever looks at the files: a directory is what it is called and may be done with.
    pub fn is_like(&self, other: &Self) -> bool {
        let same = self.kind == other.kind && self.mode == other.mode;
        same && (self.kind == NodeKind::Dir || self.id == other.id)
    }
}

/// Whether a path is this one or lies below it.
pub fn is_within(path: &[u8], above: &[u8]) -> bool {
    above.is_empty() || path.strip_prefix(above).is_some_and(|rest| rest.is_empty() || rest[0] == b'/')
}

//! Trees: what a directory holds, as text of one line an entry, so that a directory that did not change is stored once.

use std::fmt::Write as _;

use super::name::{escape_into, push_hex};
use super::{Item, NameFault, Node, NodeKind, check_name, unescape};
use crate::Digest;

const HEAD: &str = "enjamb tree 1";

/// A name in a directory, and what stands there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TreeEntry {
    pub name: Vec<u8>,
    pub node: Node,
}

/// A directory's tree as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tree {
    /// The directory; empty for the root.
    pub path: Vec<u8>,
    pub id: Digest,
    pub bytes: Vec<u8>,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TreeError {
    #[error("it does not begin with {HEAD:?}")]
    Head,
    #[error("line {line} is not kind, mode, size, digest and name")]
    Line { line: usize },
    #[error("the name in line {line} {fault}")]
    Name { line: usize, fault: NameFault },
    #[error("the name in line {line} does not follow the one before")]
    Order { line: usize },
}

/// The trees of a listing, each after those within it, the root's last. Directories of the listing get their ids.
pub fn forest(items: &mut [Item]) -> Vec<Tree> {
    let mut trees = Vec::new();
    let mut at = 0;
    let entries = entries_below(items, &mut at, b"", &mut trees);
    trees.push(tree(b"", entries));
    trees
}

fn entries_below(items: &mut [Item], at: &mut usize, dir: &[u8], trees: &mut Vec<Tree>) -> String {
    let mut text = format!("{HEAD}\n");
    while *at < items.len() && super::is_within(&items[*at].path, dir) {
        let here = *at;
        *at += 1;
        if items[here].node.kind == NodeKind::Dir {
            let path = items[here].path.clone();
            let below = entries_below(items, at, &path, trees);
            let tree = tree(&path, below);
            items[here].node.id = tree.id;
            trees.push(tree);
        }
        let Item { path, node } = &items[here];
        write_entry(&mut text, &path[name_start(path)..], node);
    }
    text
}

fn tree(path: &[u8], text: String) -> Tree {
    let bytes = text.into_bytes();
    Tree { path: path.to_vec(), id: Digest::of(&bytes), bytes }
}

fn name_start(path: &[u8]) -> usize {
    path.iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1)
}

fn write_entry(text: &mut String, name: &[u8], node: &Node) {
    let kind = match node.kind {
        NodeKind::File => 'f',
        NodeKind::Link => 'l',
        NodeKind::Dir => 'd',
    };
    // Writing to a string does not fail.
    let _ = write!(text, "{kind} {:o} {} ", node.mode, node.size);
    node.id.as_bytes().iter().for_each(|byte| push_hex(text, *byte));
    text.push(' ');
    escape_into(text, name);
    text.push('\n');
}

/// What a directory holds, by name. Whatever could lead out of it is refused.
pub fn decode_tree(bytes: &[u8]) -> Result<Vec<TreeEntry>, TreeError> {
    let text = std::str::from_utf8(bytes).map_err(|_| TreeError::Head)?;
    let text = text.strip_prefix(HEAD).and_then(|rest| rest.strip_prefix('\n')).ok_or(TreeError::Head)?;
    let mut entries: Vec<TreeEntry> = Vec::new();
    for (index, line) in text.split_terminator('\n').enumerate() {
        let line_number = index + 2;
        let entry = read_entry(line).ok_or(TreeError::Line { line: line_number })?;
        check_name(&entry.name).map_err(|fault| TreeError::Name { line: line_number, fault })?;
        if entries.last().is_some_and(|last| last.name >= entry.name) {
            return Err(TreeError::Order { line: line_number });
        }
        entries.push(entry);
    }
    Ok(entries)
}

fn read_entry(line: &str) -> Option<TreeEntry> {
    let mut words = line.splitn(5, ' ');
    let kind = match words.next()? {
        "f" => NodeKind::File,
        "l" => NodeKind::Link,
        "d" => NodeKind::Dir,
        _ => return None,
    };
    let mode = u32::from_str_radix(words.next()?, 8).ok().filter(|mode| *mode <= 0o7777)?;
    let size = words.next()?.parse().ok()?;
    let id = Digest::from_hex(words.next()?)?;
    Some(TreeEntry { name: unescape(words.next()?)?, node: Node { kind, mode, size, id } })
}

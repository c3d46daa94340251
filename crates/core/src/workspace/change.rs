//! What it takes to get from one listing to another.

use std::cmp::Ordering;

use super::{Item, Node, order};

/// What becomes of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    pub path: Vec<u8>,
    /// What is there; `None` when nothing is.
    pub from: Option<Node>,
    /// What is to be there; `None` when it goes.
    pub to: Option<Node>,
}

/// Every path at which two listings differ, in the order of paths.
pub fn changes(from: &[Item], to: &[Item]) -> Vec<Change> {
    let (mut from, mut to) = (from.iter().peekable(), to.iter().peekable());
    let mut found = Vec::new();
    loop {
        let which = match (from.peek(), to.peek()) {
            (None, None) => return found,
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some(old), Some(new)) => order(&old.path, &new.path),
        };
        let old = if which.is_le() { from.next() } else { None };
        let new = if which.is_ge() { to.next() } else { None };
        found.extend(change(old, new));
    }
}

fn change(old: Option<&Item>, new: Option<&Item>) -> Option<Change> {
    if let (Some(old), Some(new)) = (old, new)
        && old.node.is_like(&new.node)
    {
        return None;
    }
    let path = old.or(new)?.path.clone();
    Some(Change { path, from: old.map(|item| item.node), to: new.map(|item| item.node) })
}

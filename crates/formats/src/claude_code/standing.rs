//! Which records the model would see if the session went on.
//!
//! Claude Code walks from the last message up the parents. That walk alone is not the context: results of parallel calls
//! hang beside the path and belong to it, and records that a compaction carried over stand before its boundary in the
//! file but after its summary in the context.

use std::collections::{HashMap, HashSet};

use enjamb_core::conversation::{Entry, Standing, attribute};

use super::read::{Node, NodeKind};
use crate::format::Reading;

/// Where each record stands.
pub(super) struct Live {
    pub(super) standings: Vec<Standing>,
    /// Records from the last message up to the root, or to the last compaction.
    pub(super) path: Vec<bool>,
    /// The record that the next one would follow.
    pub(super) leaf: Option<usize>,
    /// The last compaction on the path.
    pub(super) boundary: Option<usize>,
    /// Messages with which a branch begins that was left.
    pub(super) branch_points: usize,
}

pub(super) fn live(entries: &[Entry], nodes: &[Node]) -> Live {
    let tree = Tree::of(nodes);
    let boundary = tree.last_boundary();
    let on_path = tree.entries_on_path(entries, boundary);
    let branches = tree.branches(&on_path);
    let standing = |(index, node): (usize, &Node)| {
        if tree.is_aside(node) {
            Standing::Sidechain
        } else if on_path.contains(&node.entry) {
            Standing::Context
        } else if boundary.is_some_and(|boundary| index < boundary) {
            Standing::Compacted
        } else if branches[index] == Branch::Left {
            Standing::Abandoned
        } else {
            Standing::Context
        }
    };
    let standings: Vec<Standing> = nodes.iter().enumerate().map(standing).collect();
    let begins = |index: usize| branches[index] == Branch::Left && tree.begins_a_branch(index, &branches);
    let branch_points = (0..nodes.len()).filter(|index| begins(*index)).count();
    let leaf = tree.last();
    Live { standings, path: tree.path, leaf, boundary, branch_points }
}

pub(super) fn settle(reading: &mut Reading, nodes: &[Node], live: &Live) {
    for (node, standing) in nodes.iter().zip(&live.standings) {
        reading.conversation.entries[node.entry].standing = *standing;
    }
    if let Some(boundary) = live.boundary {
        carry_over(reading, nodes[boundary].entry);
    }
}

/// Puts what stands in the context although it was written before the boundary where the model sees it: after the
/// summary.
fn carry_over(reading: &mut Reading, boundary: usize) {
    let is_carried = |entry: &Entry| entry.standing == Standing::Context && entry.is_message();
    let placed = reading.conversation.entries.drain(..).zip(reading.origins.drain(..));
    let (mut before, mut carried, mut after) = (Vec::new(), Vec::new(), Vec::new());
    for (index, (mut entry, at)) in placed.enumerate() {
        if index < boundary && is_carried(&entry) {
            entry.set_attribute(attribute::KEPT, Some("true"));
            carried.push((entry, at, index));
        } else if index <= boundary {
            before.push((entry, at, index));
        } else {
            after.push((entry, at, index));
        }
    }
    for (entry, at, index) in before.into_iter().chain(carried).chain(after) {
        reading.conversation.entries.push(entry);
        reading.origins.push(at);
        reading.read_as.push(index);
    }
}

struct Tree<'n> {
    nodes: &'n [Node],
    /// Each node's parent, where it is known.
    parents: Vec<Option<usize>>,
    path: Vec<bool>,
    /// A subagent's own transcript is all side chain; there it is the main line.
    all_aside: bool,
}

impl<'n> Tree<'n> {
    fn of(nodes: &'n [Node]) -> Self {
        let all_aside = nodes.iter().filter(|node| is_message(node)).all(|node| node.is_sidechain);
        let mut tree = Self { nodes, parents: parents(nodes), path: vec![false; nodes.len()], all_aside };
        let mut next = tree.leaf();
        while let Some(index) = next.filter(|index| !tree.path[*index]) {
            tree.path[index] = true;
            next = tree.parents[index];
        }
        tree
    }

    fn is_aside(&self, node: &Node) -> bool {
        node.is_sidechain && !self.all_aside
    }

    /// The message that was written last.
    fn leaf(&self) -> Option<usize> {
        self.nodes.iter().rposition(|node| is_message(node) && !self.is_aside(node))
    }

    /// The record that the next one would follow: the last that comes after the last message, or is it.
    fn last(&self) -> Option<usize> {
        let leaf = self.leaf()?;
        let follows = |index: &usize| {
            let mut next = Some(*index);
            std::iter::from_fn(|| {
                let node = next.filter(|node| *node >= leaf)?;
                next = self.parents[node].filter(|parent| *parent < node);
                Some(node)
            })
            .any(|node| node == leaf)
        };
        (leaf..self.nodes.len()).rev().filter(|index| !self.is_aside(&self.nodes[*index])).find(follows)
    }

    /// True where the branch parts from the main line. The records of one reply are one message.
    fn begins_a_branch(&self, index: usize, branches: &[Branch]) -> bool {
        self.parents[index].is_none_or(|parent| branches[parent] == Branch::Main)
    }

    fn last_boundary(&self) -> Option<usize> {
        let is_boundary = |node: &Node| matches!(node.kind, NodeKind::Boundary { .. }) && !self.is_aside(node);
        self.nodes.iter().rposition(is_boundary).filter(|index| self.path[*index])
    }

    /// Entries with a record on the path, and those that answer their calls on the same side of the boundary.
    fn entries_on_path(&self, entries: &[Entry], boundary: Option<usize>) -> HashSet<usize> {
        let placed = self.nodes.iter().zip(&self.path).filter(|(_, on_path)| **on_path);
        let mut found: HashSet<usize> = placed.map(|(node, _)| node.entry).collect();
        let boundary = boundary.map_or(0, |boundary| self.nodes[boundary].entry);
        let calls: HashSet<(bool, &str)> = found
            .iter()
            .flat_map(|index| entries[*index].tool_calls().map(|call| (*index < boundary, call.id.as_str())))
            .collect();
        let answers = entries.iter().enumerate().filter(|(index, entry)| {
            entry.tool_results().any(|result| calls.contains(&(*index < boundary, result.call_id.as_str())))
        });
        let answers: Vec<usize> = answers.map(|(index, _)| index).collect();
        found.extend(answers);
        found
    }

    /// Where each node stands, told from its ancestors.
    fn branches(&self, on_path: &HashSet<usize>) -> Vec<Branch> {
        let mut known: Vec<Option<Branch>> = self.path.iter().map(|on| on.then_some(Branch::Main)).collect();
        for index in 0..self.nodes.len() {
            let mut walked = Vec::new();
            let mut next = Some(index);
            while let Some(node) = next.filter(|node| known[*node].is_none()) {
                // Settled for now, so that a circle of parents ends the walk.
                known[node] = Some(Branch::Elsewhere);
                walked.push(node);
                next = self.parents[node];
            }
            let mut branch = next.and_then(|node| known[node]).unwrap_or(Branch::Elsewhere);
            for node in walked.into_iter().rev() {
                branch = branch.grown(&self.nodes[node], on_path);
                known[node] = Some(branch);
            }
        }
        known.into_iter().map(|branch| branch.unwrap_or(Branch::Elsewhere)).collect()
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Branch {
    /// On the path, or hanging on it without a message of its own: progress, attachments, results.
    Main,
    /// Beyond a message at which the user went another way.
    Left,
    /// Under a root that the path does not come from.
    Elsewhere,
}

impl Branch {
    /// Where a child of a node on this branch stands.
    fn grown(self, child: &Node, on_path: &HashSet<usize>) -> Self {
        match self {
            Self::Main if is_message(child) && !on_path.contains(&child.entry) => Self::Left,
            Self::Main => Self::Main,
            Self::Left => Self::Left,
            Self::Elsewhere => Self::Elsewhere,
        }
    }
}

fn is_message(node: &Node) -> bool {
    match node.kind {
        NodeKind::Message => true,
        NodeKind::Boundary { .. } | NodeKind::Other => false,
    }
}

/// The parent of each node, with those that compactions carried over put after the summary.
fn parents(nodes: &[Node]) -> Vec<Option<usize>> {
    let mut index: HashMap<&str, usize> = HashMap::with_capacity(nodes.len());
    for (position, node) in nodes.iter().enumerate() {
        index.entry(&node.uuid).or_insert(position);
    }
    let mut parents: Vec<Option<usize>> =
        nodes.iter().map(|node| index.get(node.parent.as_deref()?).copied()).collect();
    for node in nodes {
        if let NodeKind::Boundary { carried: Some((head, anchor)) } = &node.kind
            && let (Some(head), Some(anchor)) = (index.get(head.as_str()), index.get(anchor.as_str()))
        {
            parents[*head] = Some(*anchor);
        }
    }
    parents
}

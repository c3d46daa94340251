//! What is wrong with the records of a transcript and with the tree that they form.

use std::collections::HashSet;

use enjamb_core::conversation::{Block, Entry, Standing, attribute};

use super::read::{Node, NodeKind};
use super::standing::Live;
use crate::check::shown;
use crate::format::Reading;
use crate::position::Position;
use crate::problem::{Code, Problem};

/// Branches that were left, from which on a reader who does not follow parents is more likely wrong than right.
const BRANCH_POINTS_MANY: usize = 50;

pub(super) fn of(reading: &Reading, nodes: &[Node], live: &Live, repeated: &[(Position, usize)]) -> Vec<Problem> {
    let mut problems = parents(nodes, live);
    problems.extend(repeated.iter().map(|(at, node)| {
        let uuid = nodes.get(*node).map(|node| node.uuid.as_str()).unwrap_or_default();
        let sentence = format!("The id {} was used before: the record says again what was said.", shown(uuid));
        Problem::warning(Code::IdRepeated, *at, sentence).of(Some(uuid))
    }));
    problems.extend(lacking(nodes, live));
    problems.extend(compactions(&reading.conversation.entries, nodes));
    problems.extend(branches(nodes, live));
    problems.extend(beginning(reading, nodes));
    problems.extend(cwd(reading));
    problems
}

/// Parents that are not there: Claude Code sees nothing of what came before.
fn parents(nodes: &[Node], live: &Live) -> Vec<Problem> {
    let ids: HashSet<&str> = nodes.iter().map(|node| node.uuid.as_str()).collect();
    let missing = |node: &Node| node.parent.clone().filter(|parent| !ids.contains(parent.as_str()));
    let broken = nodes.iter().zip(&live.path).filter_map(|(node, on_path)| Some((node, *on_path, missing(node)?)));
    broken
        .map(|(node, on_path, parent)| {
            let effect = if on_path { "the model would see nothing from before it" } else { "it hangs in the air" };
            let sentence = format!("The parent {} is not in the transcript: {effect}.", shown(&parent));
            Problem::warning(Code::ParentMissing, node.at, sentence).of(Some(&node.uuid))
        })
        .collect()
}

fn lacking(nodes: &[Node], live: &Live) -> Vec<Problem> {
    let mut problems = Vec::new();
    let current = nodes.iter().zip(&live.standings).filter(|(_, standing)| **standing == Standing::Context);
    for (node, _) in current {
        if node.lacks.timestamp {
            let sentence = "The record has no timestamp: Claude Code would not find the conversation.";
            problems.push(Problem::error(Code::TimestampMissing, node.at, sentence).of(Some(&node.uuid)));
        }
        if node.lacks.envelope {
            let sentence = "The assistant's message lacks its id, type, model or usage: Claude Code would hang.";
            problems.push(Problem::error(Code::EnvelopeIncomplete, node.at, sentence).of(Some(&node.uuid)));
        }
        if node.lacks.content {
            let sentence = "The user's message has no content: Claude Code would fail.";
            problems.push(Problem::error(Code::EnvelopeIncomplete, node.at, sentence).of(Some(&node.uuid)));
        }
    }
    problems
}

/// Compactions with nothing said between them, and such as have no summary.
fn compactions(entries: &[Entry], nodes: &[Node]) -> Vec<Problem> {
    let mut problems = Vec::new();
    let mut said_since = true;
    for node in nodes.iter().filter(|node| !node.is_sidechain) {
        let is_summary = entries[node.entry].blocks.iter().any(|block| matches!(block, Block::Compaction { .. }));
        match node.kind {
            NodeKind::Boundary { .. } => {
                if !is_summary {
                    let sentence = "A compaction has no summary: the model would see nothing from before it.";
                    problems.push(Problem::warning(Code::CompactionEmpty, node.at, sentence).of(Some(&node.uuid)));
                }
                if !std::mem::replace(&mut said_since, false) {
                    let sentence = "A compaction follows another with nothing said between them.";
                    problems.push(Problem::warning(Code::CompactionDoubled, node.at, sentence).of(Some(&node.uuid)));
                }
            }
            NodeKind::Message => said_since |= !is_summary,
            NodeKind::Other => {}
        }
    }
    problems
}

fn branches(nodes: &[Node], live: &Live) -> Option<Problem> {
    let last = nodes.last().filter(|_| live.branch_points >= BRANCH_POINTS_MANY)?;
    let on_path = live.path.iter().filter(|on_path| **on_path).count();
    let sentence = format!(
        "{} branches were left: of {} records, {on_path} lead to the last message.",
        live.branch_points,
        nodes.len()
    );
    Some(Problem::warning(Code::BranchesMany, last.at, sentence).of(Some(&last.uuid)))
}

fn beginning(reading: &Reading, nodes: &[Node]) -> Option<Problem> {
    let messages = || nodes.iter().filter(|node| matches!(node.kind, NodeKind::Message));
    match messages().next() {
        Some(node) if messages().all(|node| node.is_sidechain) => {
            let sentence = "Every message is a side chain's: Claude Code would not find the conversation.";
            Some(Problem::error(Code::FirstSidechain, node.at, sentence).of(Some(&node.uuid)))
        }
        Some(node) if node.is_sidechain => {
            let sentence = "The first message is a side chain's: \
                the whole file passes for a subagent's and is not offered to resume.";
            Some(Problem::warning(Code::FirstSidechain, node.at, sentence).of(Some(&node.uuid)))
        }
        Some(_) => None,
        None => reading
            .origins
            .first()
            .map(|at| Problem::error(Code::NoMessages, *at, "No record is a message: the session would not be found.")),
    }
}

fn cwd(reading: &Reading) -> Option<Problem> {
    let is_named = reading.conversation.entries.iter().any(|entry| entry.attribute(attribute::CWD).is_some());
    let at = reading.origins.first().filter(|_| !is_named)?;
    Some(Problem::warning(Code::CwdMissing, *at, "No record names the working directory."))
}

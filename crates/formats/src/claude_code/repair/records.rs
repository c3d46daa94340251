//! Whole records: such as should not be there, such as hang in the air, such as lack what the loader needs.

use std::collections::HashSet;

use enjamb_core::conversation::{Entry, Role, Standing};

use super::super::read::NodeKind;
use super::{Plan, Survey};
use crate::derived::milliseconds;
use crate::json::{Object, json_text, with_member};
use crate::problem::Code;

/// Records that say again what was said, or that no model would see.
pub(super) fn superfluous(survey: &Survey<'_>, plan: &mut Plan) {
    repeated(survey, plan);
    empty_compactions(survey, plan);
    doubled_compactions(survey, plan);
    if survey.found(Code::BranchesMany).next().is_some() {
        let left = |node: &usize| survey.live.standings[*node] == Standing::Abandoned;
        remove_all(survey, plan, Code::BranchesMany, left, "left out, on a branch that was left");
    }
    if survey.found(Code::FirstSidechain).next().is_some() {
        side_chains(survey, plan);
    }
}

fn remove_all(survey: &Survey<'_>, plan: &mut Plan, code: Code, which: impl Fn(&usize) -> bool, what: &'static str) {
    for node in (0..survey.nodes.len()).filter(which) {
        plan.note(survey, code, node, what);
        plan.remove(survey, node);
    }
}

/// A second record of an id is no part of the tree: nothing follows it that does not follow the first.
fn repeated(survey: &Survey<'_>, plan: &mut Plan) {
    for line in survey.found(Code::IdRepeated) {
        if let Some(node) = survey.node_at(line) {
            plan.note(survey, Code::IdRepeated, node, "left out, says again what was said");
            plan.edits.drop(line);
        }
    }
}

/// A compaction without its summary: what came before stands again.
fn empty_compactions(survey: &Survey<'_>, plan: &mut Plan) {
    for node in survey.found(Code::CompactionEmpty).filter_map(|line| survey.node_at(line)) {
        plan.note(survey, Code::CompactionEmpty, node, "left out the mark of a compaction that has no summary");
        plan.remove_for(survey, node, before(survey, node));
    }
}

/// Of two compactions with nothing said between them no model sees the first.
fn doubled_compactions(survey: &Survey<'_>, plan: &mut Plan) {
    let is_boundary = |node: &usize| matches!(survey.nodes[*node].kind, NodeKind::Boundary { .. });
    for node in survey.found(Code::CompactionDoubled).filter_map(|line| survey.node_at(line)) {
        if plan.edits.is_dropped(survey.line(node)) {
            continue;
        }
        let Some(earlier) = (0..node).rev().find(is_boundary) else { continue };
        let entry = survey.nodes[earlier].entry;
        for part in (earlier..node).filter(|part| survey.nodes[*part].entry == entry) {
            if !plan.edits.is_dropped(survey.line(part)) {
                plan.note(survey, Code::CompactionDoubled, part, "left out, a later compaction stands for it");
                plan.remove(survey, part);
            }
        }
    }
}

/// A subagent's own transcript becomes one to resume; elsewhere side chains go.
fn side_chains(survey: &Survey<'_>, plan: &mut Plan) {
    let is_message = |node: &usize| matches!(survey.nodes[*node].kind, NodeKind::Message);
    let all_aside = (0..survey.nodes.len()).filter(is_message).all(|node| survey.nodes[node].is_sidechain);
    if !all_aside {
        let aside = |node: &usize| survey.nodes[*node].is_sidechain;
        return remove_all(survey, plan, Code::FirstSidechain, aside, "left out, said on a side chain");
    }
    for node in (0..survey.nodes.len()).filter(|node| survey.nodes[*node].is_sidechain) {
        plan.note(survey, Code::FirstSidechain, node, "taken for the main line");
        plan.edits.replace(survey.line(node), with_member(survey.text(node), "isSidechain", "false"));
    }
}

/// Puts records whose parent is not there after the record before them.
pub(super) fn links(survey: &Survey<'_>, plan: &mut Plan) {
    for node in survey.found(Code::ParentMissing).filter_map(|line| survey.node_at(line)) {
        let parent = before(survey, node);
        let what = match &parent {
            Some(uuid) => format!("put after {uuid}"),
            None => "made the first record".to_owned(),
        };
        plan.note(survey, Code::ParentMissing, node, what);
        plan.parents.insert(node, parent);
    }
}

/// The record that this one most likely followed: the last of its chain that was written before it and does not itself
/// come after it.
fn before(survey: &Survey<'_>, node: usize) -> Option<String> {
    let found = &survey.nodes[node];
    let mut descendants: HashSet<&str> = HashSet::from([found.uuid.as_str()]);
    // Records rarely stand before their parents; two looks find those that do.
    for _ in 0..2 {
        for other in &survey.nodes {
            if other.parent.as_deref().is_some_and(|parent| descendants.contains(parent)) {
                descendants.insert(&other.uuid);
            }
        }
    }
    let fits = |other: &usize| {
        let other = &survey.nodes[*other];
        other.is_sidechain == found.is_sidechain && !descendants.contains(other.uuid.as_str())
    };
    (0..node).rev().find(fits).map(|other| survey.nodes[other].uuid.clone())
}

/// Members without which the loader would not take a record.
pub(super) fn members(survey: &Survey<'_>, plan: &mut Plan) {
    for node in survey.seen() {
        let lacks = survey.nodes[node].lacks;
        if lacks.content {
            plan.note(survey, Code::EnvelopeIncomplete, node, "left out, it says nothing");
            plan.remove(survey, node);
            continue;
        }
        if lacks.timestamp {
            let value = json_text(&time_before(survey, node));
            let text = with_member(plan.edits.text(survey.line(node), survey.sheet), "timestamp", value.get());
            plan.note(survey, Code::TimestampMissing, node, "got the time of the record before");
            plan.edits.replace(survey.line(node), text);
        }
        if lacks.envelope {
            let text = enveloped(plan.edits.text(survey.line(node), survey.sheet), &survey.nodes[node].uuid);
            plan.note(survey, Code::EnvelopeIncomplete, node, "filled in the members that were missing");
            plan.edits.replace(survey.line(node), text);
        }
    }
    first_not_user(survey, plan);
}

fn time_before(survey: &Survey<'_>, node: usize) -> String {
    let time = |node: usize| Object::parse(survey.text(node))?.text("timestamp");
    (0..node).rev().find_map(time).unwrap_or_else(|| milliseconds(enjamb_core::Timestamp::from_millis(0)))
}

fn enveloped(record: &str, uuid: &str) -> String {
    let Some(message) = Object::parse(record).and_then(|object| object.get("message")) else {
        return record.to_owned();
    };
    let id = json_text(&format!("msg_{}", uuid.replace('-', "")));
    let defaults = [
        ("usage", r#"{"input_tokens":0,"output_tokens":0}"#),
        ("stop_reason", "\"end_turn\""),
        ("content", "[]"),
        ("model", "\"unknown\""),
        ("role", "\"assistant\""),
        ("type", "\"message\""),
        ("id", id.get()),
    ];
    let mut whole = message.to_owned();
    for (key, value) in defaults {
        if Object::parse(&whole).is_some_and(|object| object.get(key).is_none()) {
            whole = with_member(&whole, key, value);
        }
    }
    with_member(record, "message", &whole)
}

/// The provider wants a user's message first.
fn first_not_user(survey: &Survey<'_>, plan: &mut Plan) {
    let seen = |entry: &&Entry| entry.standing == Standing::Context && entry.is_message();
    let first = survey.reading.conversation.entries.iter().find(seen);
    let is_reply = first.is_some_and(|entry| entry.role == Role::Assistant);
    let Some(node) = survey.seen().next().filter(|_| is_reply) else { return };
    let parent = survey.nodes[node].parent.clone();
    let text = "[The beginning of this conversation is not here.]";
    let record = super::pairs::record_like(survey, node, parent.as_deref(), &json_text(text), "beginning");
    plan.note(survey, Code::FirstNotUser, node, "put a message before it");
    plan.parents.insert(node, Some(record.uuid));
    plan.edits.insert_before(survey.line(node), record.text);
}

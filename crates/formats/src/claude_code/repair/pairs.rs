//! Calls and their answers: what is missing is said to be, what came late is put where it belongs.

use std::collections::{BTreeMap, HashMap, HashSet};

use enjamb_core::Json;
use enjamb_core::conversation::Role;

use super::super::read::NodeKind;
use super::blocks::content_blocks;
use super::{Plan, Survey};
use crate::check::{self, Pairs};
use crate::derived::derived_uuid;
use crate::json::{Object, Writer, array_text, json};
use crate::problem::Code;
use crate::repair::INTERRUPTED;

pub(super) fn complete(survey: &Survey<'_>, plan: &mut Plan) {
    let pairs = Pairs::of(&survey.reading);
    let late: HashSet<&str> = check::late(&survey.reading).into_iter().map(|(_, id)| id).collect();
    let missing = pairs.unanswered.iter().map(|(_, id, _)| *id);
    let wanted: HashSet<&str> = missing.chain(late.iter().copied()).collect();
    if wanted.is_empty() {
        return;
    }
    let places = Places::of(survey);
    let mut answers: BTreeMap<usize, Vec<String>> = BTreeMap::new();
    for (id, call) in &places.calls {
        if wanted.contains(id.as_str()) {
            let answer = places.results.get(id).filter(|_| late.contains(id.as_str()));
            let block = answer.map_or_else(|| interrupted(id), |(_, block)| block.clone());
            let (code, what) = match answer {
                Some(_) => (Code::ResultMisplaced, "put its result after it"),
                None => (Code::CallUnanswered, "a result says that it was interrupted"),
            };
            plan.note(survey, code, *call, what);
            answers.entry(places.after_reply(survey, *call)).or_default().push(block);
        }
    }
    for (place, blocks) in answers {
        insert(survey, plan, &places, place, &blocks);
    }
    for id in late {
        if let Some((node, block)) = places.results.get(id) {
            take_out(survey, plan, *node, block);
        }
    }
}

fn interrupted(id: &str) -> String {
    let block = Writer::of("tool_result").member("tool_use_id", id).member("content", INTERRUPTED);
    block.member("is_error", &true).json().get().to_owned()
}

/// Where calls and results stand.
struct Places {
    /// The record of each call, in order.
    calls: Vec<(String, usize)>,
    results: HashMap<String, (usize, String)>,
    /// Records from the first to the last that the model would see.
    path: Vec<usize>,
}

impl Places {
    fn of(survey: &Survey<'_>) -> Self {
        let (mut calls, mut results) = (Vec::new(), HashMap::new());
        for node in survey.seen() {
            for block in content_blocks(survey.text(node)) {
                let Some(object) = Object::parse(block) else { continue };
                match object.text("type").as_deref() {
                    Some("tool_use") => calls.extend(object.text("id").map(|id| (id, node))),
                    Some("tool_result") => {
                        results.extend(object.text("tool_use_id").map(|id| (id, (node, block.to_owned()))));
                    }
                    _ => {}
                }
            }
        }
        Self { calls, results, path: path(survey) }
    }

    /// The last record of the reply that makes a call, its other results included.
    fn after_reply(&self, survey: &Survey<'_>, call: usize) -> usize {
        let entry = survey.nodes[call].entry;
        let of_reply = |node: &usize| survey.nodes[*node].entry == entry;
        let Some(from) = self.path.iter().rposition(of_reply) else { return call };
        let goes_on = |node: &&usize| of_reply(node) || !is_said(survey, **node);
        let later = self.path[from..].iter().take_while(goes_on).count();
        self.path[from + later.max(1) - 1]
    }
}

/// A message that is no result.
fn is_said(survey: &Survey<'_>, node: usize) -> bool {
    let is_result = |block: &&str| Object::parse(block).is_some_and(|block| block.get("tool_use_id").is_some());
    let blocks = content_blocks(survey.text(node));
    let only_results = !blocks.is_empty() && blocks.iter().all(is_result);
    matches!(survey.nodes[node].kind, NodeKind::Message) && !only_results
}

fn path(survey: &Survey<'_>) -> Vec<usize> {
    let index: HashMap<&str, usize> =
        survey.nodes.iter().enumerate().rev().map(|(node, found)| (found.uuid.as_str(), node)).collect();
    let mut path = Vec::new();
    let mut seen = HashSet::new();
    let mut next = survey.live.leaf;
    while let Some(node) = next.filter(|node| seen.insert(*node)) {
        path.push(node);
        next = survey.nodes[node].parent.as_deref().and_then(|parent| index.get(parent).copied());
    }
    path.reverse();
    path
}

/// Puts a record of results after a record, and before whatever followed it.
fn insert(survey: &Survey<'_>, plan: &mut Plan, places: &Places, place: usize, blocks: &[String]) {
    let content = json(&array_text(blocks.iter().map(String::as_str)));
    let parent = survey.nodes[place].uuid.clone();
    let record = record_like(survey, place, Some(&parent), &content, &blocks.concat());
    let next = places.path.iter().position(|node| *node == place).and_then(|at| places.path.get(at + 1));
    if let Some(next) = next {
        plan.parents.insert(*next, Some(record.uuid));
    }
    plan.edits.insert_after(survey.line(place), record.text);
}

/// Takes a block out of a record, and the record with it if nothing is left.
fn take_out(survey: &Survey<'_>, plan: &mut Plan, node: usize, block: &str) {
    let blocks = content_blocks(survey.text(node));
    let rest: Vec<&str> = blocks.iter().copied().filter(|found| *found != block).collect();
    match rest.as_slice() {
        [] => plan.remove(survey, node),
        rest => {
            let text = super::blocks::with_content(survey.text(node), &array_text(rest.iter().copied()));
            plan.edits.replace(survey.line(node), text);
        }
    }
}

pub(super) struct Made {
    pub(super) uuid: String,
    pub(super) text: String,
}

/// A user's record that stands beside another: same session, directory and time.
pub(super) fn record_like(survey: &Survey<'_>, node: usize, parent: Option<&str>, content: &Json, what: &str) -> Made {
    let like = Object::parse(survey.text(node));
    let uuid = derived_uuid(&[&survey.nodes[node].uuid, what]);
    let message = Writer::new().member("role", Role::User.as_str()).member("content", content).json();
    let mut record = Writer::new().member("parentUuid", &parent).member("isSidechain", &false);
    for key in ["userType", "cwd", "sessionId", "version", "gitBranch"] {
        record = record.optional(key, like.as_ref().and_then(|like| like.json(key)));
    }
    let record = record.member("type", "user").member("message", &message).member("uuid", &uuid);
    let time = like.as_ref().and_then(|like| like.json("timestamp"));
    // A text that nobody typed is no prompt; results never are.
    let is_meta = content.get().starts_with('"').then_some(true);
    let text = record.optional("timestamp", time).optional("isMeta", is_meta).json().get().to_owned();
    Made { uuid, text }
}

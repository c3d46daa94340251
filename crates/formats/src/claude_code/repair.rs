//! A transcript mended record by record. Records that change place or go are taken out of the tree: what followed them
//! follows what they followed.

mod blocks;
mod pairs;
mod records;

use std::collections::{BTreeMap, HashMap};

use enjamb_core::conversation::Standing;

use super::read::{Node, NodeKind, Reader};
use super::standing::Live;
use crate::checker::Reuse;
use crate::format::Reading;
use crate::json::{json_text, with_member};
use crate::outline::Detail;
use crate::problem::Code;
use crate::repair::{Edits, Sheet};

/// One round: the first of these that finds something to do. Each makes visible what the next can see.
pub(crate) fn operate(sheet: &mut Sheet<'_>, _: Reuse) -> bool {
    let steps: [fn(&Survey<'_>, &mut Plan); 5] =
        [records::superfluous, records::links, records::members, blocks::treat, pairs::complete];
    let mut reader = Reader::new(Detail::Skeleton);
    sheet.read(&mut reader);
    let (reading, nodes, live) = reader.settle();
    let survey = Survey { sheet, reading, nodes, live };
    for step in steps {
        let mut plan = Plan::default();
        step(&survey, &mut plan);
        if !plan.is_empty() {
            let (edits, notes) = plan.settle(&survey);
            notes.into_iter().for_each(|note| sheet.note(note.code, note.line, note.record.as_deref(), note.what));
            sheet.apply(edits);
            return true;
        }
    }
    false
}

/// What is known of a transcript before a step.
struct Survey<'s> {
    sheet: &'s Sheet<'s>,
    reading: Reading,
    nodes: Vec<Node>,
    live: Live,
}

impl Survey<'_> {
    /// The line of a record: the sheet counts them by offsets.
    fn line(&self, node: usize) -> usize {
        self.nodes[node].at.offset() as usize
    }

    fn text(&self, node: usize) -> &str {
        self.sheet.line(self.line(node))
    }

    /// Messages that the model would see.
    fn seen(&self) -> impl Iterator<Item = usize> {
        let is_seen = |node: &usize| {
            matches!(self.nodes[*node].kind, NodeKind::Message) && self.live.standings[*node] == Standing::Context
        };
        (0..self.nodes.len()).filter(is_seen)
    }

    /// Lines at which something was found.
    fn found(&self, code: Code) -> impl Iterator<Item = usize> {
        let findings = self.reading.findings.iter().filter(move |problem| problem.code == code);
        findings.map(|problem| problem.at.offset() as usize)
    }

    fn node_at(&self, line: usize) -> Option<usize> {
        self.nodes.binary_search_by_key(&(line as u64), |node| node.at.offset()).ok()
    }
}

struct Note {
    code: Code,
    line: usize,
    record: Option<String>,
    what: String,
}

/// What a step wants done.
#[derive(Default)]
struct Plan {
    edits: Edits,
    notes: Vec<Note>,
    /// Records that go, and what their children follow instead.
    gone: HashMap<String, Option<String>>,
    /// Records that get another parent.
    parents: BTreeMap<usize, Option<String>>,
}

impl Plan {
    fn is_empty(&self) -> bool {
        self.edits.is_empty() && self.parents.is_empty()
    }

    fn note(&mut self, survey: &Survey<'_>, code: Code, node: usize, what: impl Into<String>) {
        let record = Some(survey.nodes[node].uuid.clone());
        self.notes.push(Note { code, line: survey.line(node), record, what: what.into() });
    }

    /// Takes a record out of the tree.
    fn remove(&mut self, survey: &Survey<'_>, node: usize) {
        let Node { uuid, parent, .. } = &survey.nodes[node];
        self.remove_for(survey, node, parent.clone());
        debug_assert!(self.gone.contains_key(uuid));
    }

    fn remove_for(&mut self, survey: &Survey<'_>, node: usize, parent: Option<String>) {
        self.edits.drop(survey.line(node));
        self.gone.insert(survey.nodes[node].uuid.clone(), parent);
    }

    /// The edits, with every parent as it must be when the records that go are gone.
    fn settle(mut self, survey: &Survey<'_>) -> (Edits, Vec<Note>) {
        for (node, found) in survey.nodes.iter().enumerate() {
            let line = survey.line(node);
            if self.edits.is_dropped(line) {
                continue;
            }
            let wanted = self.parents.get(&node).cloned().unwrap_or_else(|| found.parent.clone());
            let wanted = self.standing_ancestor(wanted);
            if wanted != found.parent {
                let value = wanted.map_or_else(|| "null".to_owned(), |uuid| json_text(&uuid).get().to_owned());
                let text = with_member(self.edits.text(line, survey.sheet), "parentUuid", &value);
                self.edits.replace(line, text);
            }
        }
        (self.edits, self.notes)
    }

    fn standing_ancestor(&self, mut parent: Option<String>) -> Option<String> {
        // No walk is longer than the records that go: a circle of them ends it.
        for _ in 0..=self.gone.len() {
            match parent.as_ref().and_then(|uuid| self.gone.get(uuid)) {
                Some(next) => parent = next.clone(),
                None => return parent,
            }
        }
        None
    }
}

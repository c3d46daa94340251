//! A conversation mended, for formats that are written as a whole.

use std::collections::HashSet;

use enjamb_core::conversation::{Block, Conversation, Entry, Role, Standing, ToolResult};

use super::{Change, Repaired, wrong};
use crate::check::{self, Pairs};
use crate::checker::Reuse;
use crate::fidelity::Outcome;
use crate::format::{Format, Reading};
use crate::join::concat;
use crate::narrative;
use crate::position::{FormatError, Position};
use crate::problem::{Code, Problem};

/// What stands for a result that never came.
pub(crate) const INTERRUPTED: &str = "[Interrupted: no result was recorded.]";

/// Entries with the places that they came from, and what was done to them.
struct Patient {
    reading: Reading,
    changes: Vec<Change>,
}

pub(super) fn mended<D: AsRef<[u8]>>(format: &dyn Format, deltas: &[D], reuse: Reuse) -> Result<Repaired, FormatError> {
    let unchanged = || Repaired { deltas: vec![None; deltas.len()], ..Repaired::default() };
    let whole = concat(format, deltas)?;
    let reading = format.read(&whole)?;
    if wrong(format, &reading.conversation, reuse).iter().all(|problem| !problem.code.remedy().is_repair()) {
        return Ok(unchanged());
    }
    let first = first_wrong(format, &reading, reuse);
    let mut patient = Patient { reading, changes: Vec::new() };
    patient.pair();
    patient.unseal(format, reuse);
    patient.begin(format);
    let keep = kept_deltas(format, deltas, first)?;
    let Some(rest) = patient.written(format, keep.entries) else { return Ok(unchanged()) };
    let mut repaired = unchanged();
    for (delta, place) in repaired.deltas.iter_mut().enumerate().skip(keep.deltas) {
        *place = Some(if delta == keep.deltas { rest.clone() } else { concat::<&[u8]>(format, &[])? });
    }
    repaired.changes = patient.changes;
    Ok(repaired)
}

/// The first entry that something is wrong with.
fn first_wrong(format: &dyn Format, reading: &Reading, reuse: Reuse) -> usize {
    let problems = wrong(format, &reading.conversation, reuse);
    problems.iter().map(|problem| problem.at.offset() as usize).min().unwrap_or(0)
}

/// How much stays as it is: whole deltas before the first entry that is wrong.
struct Kept {
    deltas: usize,
    entries: usize,
}

fn kept_deltas<D: AsRef<[u8]>>(format: &dyn Format, deltas: &[D], first: usize) -> Result<Kept, FormatError> {
    let mut kept = Kept { deltas: 0, entries: 0 };
    for delta in deltas {
        let entries = kept.entries + format.read(delta.as_ref())?.conversation.entries.len();
        if entries > first {
            break;
        }
        kept = Kept { deltas: kept.deltas + 1, entries };
    }
    Ok(kept)
}

impl Patient {
    fn note(&mut self, code: Code, entry: usize, what: impl Into<String>) {
        let at = self.reading.origins.get(entry).or(self.reading.origins.last()).copied();
        let at = at.unwrap_or(Position::Item { number: 1, offset: 0 });
        let record = self.reading.conversation.entries.get(entry).and_then(|entry| entry.id.clone());
        self.changes.push(Change { code, at, record, what: what.into() });
    }

    /// Every call gets one answer, directly after it, and every answer has its call.
    fn pair(&mut self) {
        let pairs = Pairs::of(&self.reading);
        let owned =
            |ids: &[(Position, &str)]| -> HashSet<String> { ids.iter().map(|(_, id)| (*id).to_owned()).collect() };
        let orphans = owned(&pairs.orphaned);
        let late = owned(&check::late(&self.reading));
        let unanswered: HashSet<String> = pairs.unanswered.iter().map(|(_, id, _)| (*id).to_owned()).collect();
        let mut moved = self.take_late(&late);
        let (mut calls, mut results) = (HashSet::new(), HashSet::new());
        let mut index = 0;
        while index < self.reading.conversation.entries.len() {
            self.treat(index, &orphans, &mut calls, &mut results);
            let answers = self.answers(index, &unanswered, &mut moved);
            index += 1;
            if !answers.is_empty() {
                let at = self.reading.origins[index - 1];
                let entry = Entry { synthetic: true, ..Entry::new(Role::Tool, answers) };
                self.reading.conversation.entries.insert(index, entry);
                self.reading.origins.insert(index, at);
                index += 1;
            }
        }
    }

    fn take_late(&mut self, late: &HashSet<String>) -> Vec<ToolResult> {
        let mut taken = Vec::new();
        for entry in &mut self.reading.conversation.entries {
            let is_late = |block: &Block| block.as_tool_result().is_some_and(|result| late.contains(&result.call_id));
            let (out, rest): (Vec<Block>, Vec<Block>) = entry.blocks.drain(..).partition(is_late);
            taken.extend(out.into_iter().filter_map(|block| block.as_tool_result().cloned()));
            entry.blocks = rest;
        }
        taken
    }

    /// Drops what is there twice, and tells what no call asked for.
    fn treat(
        &mut self,
        index: usize,
        orphans: &HashSet<String>,
        calls: &mut HashSet<String>,
        results: &mut HashSet<String>,
    ) {
        let entry = &mut self.reading.conversation.entries[index];
        if entry.standing != Standing::Context {
            return;
        }
        let mut notes = Vec::new();
        let blocks = std::mem::take(&mut entry.blocks);
        entry.blocks = blocks
            .into_iter()
            .filter_map(|block| match &block {
                Block::ToolCall(call) if !call.server && !calls.insert(call.id.clone()) => {
                    notes.push((Code::CallRepeated, "left out a call that was made before"));
                    None
                }
                Block::ToolResult(result) if orphans.contains(&result.call_id) => {
                    notes.push((Code::ResultOrphaned, "told as text"));
                    Some(Block::Text(narrative::brief(&block)))
                }
                Block::ToolResult(result) if !results.insert(result.call_id.clone()) => {
                    notes.push((Code::ResultRepeated, "left out a result that was given before"));
                    None
                }
                _ => Some(block),
            })
            .collect();
        if entry.role == Role::Tool && entry.tool_results().next().is_none() {
            entry.role = Role::User;
            entry.synthetic = true;
        }
        notes.into_iter().for_each(|(code, what)| self.note(code, index, what));
    }

    /// Results that an entry's calls still want.
    fn answers(&mut self, index: usize, unanswered: &HashSet<String>, moved: &mut Vec<ToolResult>) -> Vec<Block> {
        let entry = &self.reading.conversation.entries[index];
        let ids: Vec<String> = entry.tool_calls().map(|call| call.id.clone()).collect();
        let mut answers = Vec::new();
        for id in ids {
            if let Some(place) = moved.iter().position(|result| result.call_id == id) {
                self.note(Code::ResultMisplaced, index, "put its result after it");
                answers.push(Block::ToolResult(moved.remove(place)));
            } else if unanswered.contains(&id) {
                self.note(Code::CallUnanswered, index, "a result says that it was interrupted");
                let content = vec![Block::Text(INTERRUPTED.to_owned())];
                answers.push(Block::ToolResult(ToolResult { call_id: id, content, is_error: true }));
            }
        }
        answers
    }

    /// Thoughts that the provider would not take go.
    fn unseal(&mut self, format: &dyn Format, reuse: Reuse) {
        let is_seal = |problem: &&Problem| {
            matches!(problem.code, Code::EncryptedForeign | Code::ThinkingForeign | Code::ThinkingUnsigned)
        };
        let problems = wrong(format, &self.reading.conversation, reuse);
        for problem in problems.iter().filter(is_seal) {
            let index = problem.at.offset() as usize;
            let blocks = &mut self.reading.conversation.entries[index].blocks;
            let before = blocks.len();
            blocks.retain(|block| !matches!(block, Block::Reasoning(_)));
            if blocks.len() < before {
                self.note(problem.code, index, "left out a thought that the provider would refuse");
            }
        }
    }

    fn begin(&mut self, format: &dyn Format) {
        let problems = wrong(format, &self.reading.conversation, Reuse::SameAccount);
        let Some(first) = problems.iter().find(|problem| problem.code == Code::FirstNotUser) else { return };
        let index = first.at.offset() as usize;
        self.note(Code::FirstNotUser, index, "put a message before it");
        let text = Block::Text("[The beginning of this conversation is not here.]".to_owned());
        let entry = Entry { synthetic: true, ..Entry::new(Role::User, vec![text]) };
        self.reading.conversation.entries.insert(index, entry);
        let at = self.reading.origins[index];
        self.reading.origins.insert(index, at);
    }

    /// What comes after the entries that stay, written anew. What writing changes is listed like the rest.
    fn written(&mut self, format: &dyn Format, kept: usize) -> Option<Vec<u8>> {
        let entries = self.reading.conversation.entries.split_off(kept.min(self.reading.conversation.entries.len()));
        let rest = Conversation { entries };
        let encoded = format.encode(&rest);
        for fate in encoded.ledger.iter().filter(|fate| fate.outcome != Outcome::Kept) {
            let code = match rest.entries[fate.entry].blocks[fate.block] {
                Block::Text(_) => Code::TextEmpty,
                Block::Reasoning(_) => Code::ThinkingUnsigned,
                Block::ToolCall(_) => Code::InputNotObject,
                Block::ToolResult(_) => Code::CallIdCharacters,
                Block::Image(_) | Block::Compaction { .. } | Block::Verbatim(_) => continue,
            };
            self.note(code, kept + fate.entry, format!("{}: {}", fate.outcome.as_str(), fate.reason));
        }
        (!self.changes.is_empty()).then_some(encoded.bytes)
    }
}

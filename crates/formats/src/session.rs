//! A transcript under a new identity, as its runtime would load it.
//!
//! What is in the runtime's own format stays byte for byte, but for what names the session and, if it moves, the
//! directory. What was translated is put after it. Which member of which record that is, each runtime knows.

mod claude_code;
mod codex;
mod gemini;
mod opencode;
mod splice;

#[cfg(test)]
mod tests;

use std::collections::HashSet;

use enjamb_core::conversation::{Block, Conversation, Entry, Role, Standing, ToolResult, attribute};
use enjamb_core::{Json, Timestamp};

use crate::fidelity::{Encoded, FidelityLedger, Outcome};
use crate::format::Format;
use crate::position::FormatError;
use crate::repair::INTERRUPTED;

/// Whose the session is to be.
#[derive(Clone, Debug)]
pub struct Identity {
    /// A UUID that no session has.
    pub session: String,
    /// Where it goes on.
    pub cwd: String,
    /// Where it was, if that is to be changed wherever it stands.
    pub moved_from: Option<String>,
    /// When it is made.
    pub at: Timestamp,
}

/// Deltas of one format that follow each other.
pub struct Stretch<'a> {
    pub format: &'static dyn Format,
    pub bytes: &'a [u8],
}

/// What is to become a session.
pub struct Memory<'a> {
    pub stretches: &'a [Stretch<'a>],
    /// Records were left out, so that what follows them has to be linked to what is left.
    pub is_cut: bool,
    /// The beginning of the chain, for what the runtime writes only there.
    pub head: &'a [u8],
}

/// A session, ready to be written.
#[derive(Debug)]
pub struct Session {
    pub bytes: Vec<u8>,
    /// What became of each block.
    pub ledger: FidelityLedger,
    /// What has to be found in it, in this order.
    pub said: Vec<Said>,
    /// Calls without a result, which got one that says so: no provider takes them without.
    pub interrupted: u64,
}

/// What a model would see.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Said {
    Text(String),
    Call { name: String, input: Json },
    Result(String),
}

/// How a runtime loads a transcript of its own.
trait Loader {
    /// Whether records can be loaded as they are.
    fn loads(&self, bytes: &[u8]) -> bool;

    /// Adds records as they are, under the new identity.
    fn native(&mut self, bytes: &[u8]);

    /// Adds records that were made for this session.
    fn made(&mut self, bytes: &[u8]);

    /// Whether the runtime keeps one message for each id, wherever it is: then none may come again.
    fn is_kept_by_id(&self) -> bool {
        false
    }

    fn finish(self: Box<Self>) -> Vec<u8>;
}

/// Whether sessions can be made in a format.
pub fn is_loaded(format: &str) -> bool {
    [crate::claude_code::ID, crate::codex::ID, crate::gemini::ID, crate::opencode::ID].contains(&format)
}

/// Puts a session together. `None` where no runtime loads the format.
pub fn compose(
    target: &'static dyn Format,
    memory: &Memory<'_>,
    identity: &Identity,
) -> Result<Option<Session>, FormatError> {
    let Some(mut loader) = loader(target.id(), memory, identity) else { return Ok(None) };
    let mut session =
        Session { bytes: Vec::new(), ledger: FidelityLedger::default(), said: Vec::new(), interrupted: 0 };
    let mut readings = Vec::with_capacity(memory.stretches.len());
    for stretch in memory.stretches {
        readings.push(stretch.format.decode(stretch.bytes)?);
    }
    settle(&mut readings);
    let mut last = identity.at.min(first_time(&readings).unwrap_or(identity.at));
    for (stretch, reading) in memory.stretches.iter().zip(readings) {
        let is_own = stretch.format.id() == target.id();
        if is_own && loader.loads(stretch.bytes) {
            loader.native(stretch.bytes);
            session.kept(&reading);
            last = reading.time_span().map_or(last, |(_, end)| end.max(last));
        } else {
            let (seen, added) = answered(session.seen(reading, is_own.then(|| target.id())));
            let mut made = dressed(seen.clone(), identity, &mut last);
            if loader.is_kept_by_id() {
                made.entries.iter_mut().for_each(|entry| entry.id = None);
            }
            let mut encoded = target.encode(&made);
            loader.made(&encoded.bytes);
            encoded.ledger.retain(|fate| !added.contains(&fate.entry));
            session.interrupted += added.len() as u64;
            session.translated(&seen, &encoded);
        }
    }
    session.bytes = loader.finish();
    Ok(Some(session))
}

fn loader<'m>(format: &str, memory: &Memory<'m>, identity: &'m Identity) -> Option<Box<dyn Loader + 'm>> {
    match format {
        crate::claude_code::ID => Some(Box::new(claude_code::Transcript::new(memory, identity))),
        crate::codex::ID => Some(Box::new(codex::Rollout::new(memory, identity))),
        crate::gemini::ID => Some(Box::new(gemini::Chat::new(memory, identity))),
        crate::opencode::ID => Some(Box::new(opencode::Document::default())),
        _ => None,
    }
}

/// The lines that a session amounts to: a document is read as them.
pub fn lines(target: &dyn Format, session: &[u8]) -> Vec<u8> {
    match target.unroll(session) {
        Some(lines) => lines.into_iter().flat_map(|line| (line.text + "\n").into_bytes()).collect(),
        None => session.to_owned(),
    }
}

/// A directory as Gemini CLI tells projects apart.
pub fn gemini_project(cwd: &str) -> String {
    gemini::project_hash(cwd)
}

/// A compaction in a later stretch stands for all of the earlier ones.
fn settle(readings: &mut [Conversation]) {
    let stands = |reading: &Conversation| {
        let is_summary = |block: &Block| matches!(block, Block::Compaction { .. });
        let mut current = reading.entries.iter().filter(|entry| entry.standing == Standing::Context);
        current.any(|entry| entry.blocks.iter().any(is_summary))
    };
    let Some(last) = readings.iter().rposition(stands) else { return };
    for entry in readings[..last].iter_mut().flat_map(|reading| &mut reading.entries) {
        if entry.standing == Standing::Context && entry.is_message() {
            entry.standing = Standing::Compacted;
        }
    }
}

fn first_time(readings: &[Conversation]) -> Option<Timestamp> {
    readings.iter().filter_map(|reading| reading.time_span().map(|(first, _)| first)).min()
}

/// The conversation as this session has it. Entries without a time get one just after those before: loaders go by time.
fn dressed(mut conversation: Conversation, identity: &Identity, last: &mut Timestamp) -> Conversation {
    for entry in &mut conversation.entries {
        let after = Timestamp::from_micros(last.as_micros().saturating_add(1000));
        let at = entry.at.filter(|at| *at > *last).unwrap_or(after);
        *last = at;
        entry.at = Some(at);
        entry.set_attribute(attribute::SESSION_ID, Some(identity.session.clone()));
        entry.set_attribute(attribute::CWD, Some(identity.cwd.clone()));
    }
    conversation
}

/// The conversation with a result for every call, and which entries were added for that.
fn answered(conversation: Conversation) -> (Conversation, HashSet<usize>) {
    let results = conversation.entries.iter().flat_map(Entry::tool_results);
    let results: HashSet<String> = results.map(|result| result.call_id.clone()).collect();
    let (mut entries, mut added) = (Vec::with_capacity(conversation.entries.len()), HashSet::new());
    for entry in conversation.entries {
        let calls = entry.tool_calls().filter(|call| !call.server && !results.contains(&call.id));
        let content = || vec![Block::Text(INTERRUPTED.to_owned())];
        let answers: Vec<Entry> = calls
            .map(|call| ToolResult { call_id: call.id.clone(), content: content(), is_error: false })
            .map(|result| Entry::new(Role::Tool, vec![Block::ToolResult(result)]))
            .collect();
        entries.push(entry);
        for answer in answers {
            added.insert(entries.len());
            entries.push(answer);
        }
    }
    (Conversation { entries }, added)
}

impl Session {
    fn kept(&mut self, reading: &Conversation) {
        self.count(Outcome::Kept, "", reading.block_count());
        self.said.extend(said(reading));
    }

    /// What the model would see of a conversation that is to be translated; the rest stays behind, and is counted.
    fn seen(&mut self, mut reading: Conversation, own: Option<&str>) -> Conversation {
        for entry in &mut reading.entries {
            let before = entry.blocks.len() as u64;
            entry.blocks.retain(|block| !is_record_of(block, own));
            self.count(Outcome::Dropped, "the runtime's own bookkeeping", before - entry.blocks.len() as u64);
        }
        // Where the summary is the provider's secret, what it stands for is all there is.
        let is_told = !last_summary(&reading).is_some_and(|summary| summary.trim().is_empty());
        let is_seen = |entry: &Entry| match entry.standing {
            Standing::Context => true,
            Standing::Compacted => !is_told,
            Standing::Abandoned | Standing::Sidechain => false,
        };
        let (seen, left): (Vec<_>, Vec<_>) = reading.entries.into_iter().partition(is_seen);
        for entry in left {
            let reason = match entry.standing {
                Standing::Context => continue,
                Standing::Compacted => "a compaction stands for it",
                Standing::Abandoned => "on an abandoned branch",
                Standing::Sidechain => "said on a side chain",
            };
            self.count(Outcome::Dropped, reason, entry.blocks.len() as u64);
        }
        Conversation { entries: seen }
    }

    fn translated(&mut self, source: &Conversation, encoded: &Encoded) {
        self.ledger.merge(&encoded.fidelity());
        for fate in encoded.ledger.iter().filter(|fate| fate.outcome == Outcome::Kept) {
            let block = source.entries.get(fate.entry).and_then(|entry| entry.blocks.get(fate.block));
            self.said.extend(block.and_then(said_in));
        }
    }

    fn count(&mut self, outcome: Outcome, reason: &str, blocks: u64) {
        if blocks > 0 {
            self.ledger.merge(&FidelityLedger::from_rows([(outcome, reason.to_owned(), blocks)]));
        }
    }
}

fn last_summary(conversation: &Conversation) -> Option<&str> {
    let blocks = conversation.entries.iter().rev().flat_map(|entry| entry.blocks.iter().rev());
    let mut summaries = blocks.filter_map(|block| match block {
        Block::Compaction { summary } => Some(summary.as_str()),
        _ => None,
    });
    summaries.next()
}

fn is_record_of(block: &Block, own: Option<&str>) -> bool {
    block.as_verbatim().is_some_and(|verbatim| own == Some(verbatim.format.as_str()))
}

/// What a conversation says to the model that goes on with it.
pub fn said(conversation: &Conversation) -> Vec<Said> {
    let current = conversation.entries.iter().filter(|entry| entry.standing == Standing::Context);
    current.flat_map(|entry| &entry.blocks).filter_map(said_in).collect()
}

fn said_in(block: &Block) -> Option<Said> {
    match block {
        Block::Text(text) | Block::Compaction { summary: text } => Some(Said::Text(text.clone())),
        Block::ToolCall(call) => Some(Said::Call { name: call.name.clone(), input: call.input.clone() }),
        Block::ToolResult(result) => Some(Said::Result(result.text())),
        Block::Reasoning(_) | Block::Image(_) | Block::Verbatim(_) => None,
    }
}

/// The first thing of `wanted` that `found` does not say in its place, or nothing.
pub fn missing<'w>(wanted: &'w [Said], found: &[Said]) -> Option<&'w Said> {
    let mut rest = found.iter();
    wanted.iter().find(|said| !rest.any(|other| other == *said))
}

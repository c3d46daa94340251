//! Compaction of a chain of commits: a commit that stands for everything before it, and takes less.

use enjamb_core::CommitId;
use enjamb_core::chain::{CommitKind, Stop};
use enjamb_core::compact::{Delta, FactSet, Score, chain_markdown, score};
use enjamb_core::conversation::{Block, Conversation, Entry, Role, Standing};
use enjamb_formats::{TokenCounting, Tokens};
use enjamb_ledger::StoredCommit;
use serde_json::json;

use super::summarizer::{SummaryTask, Writer};
use crate::{Checkpoint, Checkpointed, Content, Result, ServiceError, Store, ThreadError};

/// The tag that keeps what a commit says out of every compaction.
const PIN_TAG: &str = "pin";

/// How a chain is compacted.
#[derive(Clone, Debug)]
pub struct ChainCompact {
    /// Turns at the end that stay as they are.
    pub keep_turns: usize,
    pub summary: ChainSummary,
    /// Write nothing.
    pub dry_run: bool,
}

/// Where the words come from.
#[derive(Clone, Debug)]
pub enum ChainSummary {
    Rule,
    Words(String),
    Written(Writer),
}

/// What became of it.
#[derive(Clone, Debug)]
pub struct ChainCompacted {
    pub tip: CommitId,
    pub tokens_before: u64,
    pub tokens_after: u64,
    pub summary: String,
    /// Entries that were pinned, and stay.
    pub pinned: u64,
    /// How much of the prefix the summary still says.
    pub score: Score,
    /// `None` when nothing was written.
    pub commit: Option<Checkpointed>,
}

/// What a chain says.
pub(crate) struct ChainSaid {
    /// Each with whether it is pinned.
    pub(crate) entries: Vec<(bool, Entry)>,
    /// Commits that are pinned.
    pub(crate) pins: Vec<CommitId>,
}

/// What a chain says, in parts.
struct Parted {
    pinned: Vec<Entry>,
    prefix: Vec<Entry>,
    kept: Vec<Entry>,
}

impl Store {
    /// Writes a compaction commit on top of a chain. One that would not shrink it is refused.
    pub fn compact_chain(&self, tip: &CommitId, request: &ChainCompact) -> Result<ChainCompacted> {
        let tip_commit = self.show(tip)?;
        let format_id = tip_commit.commit.format.clone();
        let format = enjamb_formats::by_id(&format_id).ok_or_else(|| ServiceError::UnknownFormat(format_id.clone()))?;
        let parted = self.parted(tip, request.keep_turns)?;
        let summary = summed_up(tip, &parted, &request.summary)?;
        let pinned = parted.pinned.len() as u64;
        let score = score(&facts(parted.prefix.iter().chain(&parted.pinned)), &still_said(&summary, &parted.pinned));
        let before = conversation(parted.prefix.iter().chain(&parted.pinned).chain(&parted.kept));
        let stands = Entry::new(Role::User, vec![Block::Compaction { summary: summary.clone() }]);
        let after = conversation(parted.pinned.iter().chain([&stands]).chain(&parted.kept));
        let bytes = format.encode(&after).bytes;
        let tokens_before = count(&before);
        let tokens_after = count(&format.decode(&bytes).map_err(ServiceError::from)?);
        if tokens_after >= tokens_before {
            return Err(ThreadError::DoesNotShrink { before: tokens_before, after: tokens_after }.into());
        }
        let commit = match request.dry_run {
            true => None,
            false => Some(self.checkpoint(compaction(&tip_commit, bytes, &summary, (tokens_before, tokens_after)))?),
        };
        Ok(ChainCompacted { tip: *tip, tokens_before, tokens_after, summary, pinned, score, commit })
    }

    /// What a compaction commit lost of what it stands for.
    pub fn chain_loss(&self, id: &CommitId) -> Result<Score> {
        let commit = self.show(id)?;
        let not = || ServiceError::Invalid {
            what: "commit",
            text: id.to_string(),
            expected: "one of the type compaction, with a parent",
        };
        let parent = commit.link.parent.filter(|_| commit.link.kind == CommitKind::Compaction).ok_or_else(not)?;
        let before = self.chain_entries(&parent)?;
        let after = self.said(&commit)?;
        let said: Vec<String> = after.entries.iter().map(entry_text).collect();
        Ok(score(&facts(before.iter().map(|(_, entry)| entry)), &said.join("\n")))
    }

    /// What a model would see of a chain, and whether it is pinned.
    pub(crate) fn chain_entries(&self, tip: &CommitId) -> Result<Vec<(bool, Entry)>> {
        self.chain_said(tip, None).map(|said| said.entries)
    }

    /// As [`Store::chain_entries`], with the commits that are pinned: those given, or those that have the tag by now.
    pub(crate) fn chain_said(&self, tip: &CommitId, pins: Option<&[CommitId]>) -> Result<ChainSaid> {
        let (mut entries, mut pinned_commits) = (Vec::new(), Vec::new());
        for (commit, said) in self.chain_deltas(tip, Stop::Compaction)? {
            let pinned = match pins {
                Some(pins) => pins.contains(&commit.link.id),
                None => commit.tags.iter().any(|tag| tag == PIN_TAG),
            };
            pinned_commits.extend(pinned.then_some(commit.link.id));
            let seen = said.entries.into_iter().filter(|entry| entry.is_message());
            let seen = seen.filter(|entry| entry.standing == Standing::Context);
            entries.extend(seen.map(|entry| (pinned || is_instruction(&entry), entry)));
        }
        Ok(ChainSaid { entries, pins: pinned_commits })
    }

    fn parted(&self, tip: &CommitId, keep_turns: usize) -> Result<Parted> {
        let entries = self.chain_entries(tip)?;
        let prompts = entries.iter().enumerate().filter(|(_, (_, entry))| entry.is_prompt()).map(|(at, _)| at);
        let prompts: Vec<_> = prompts.collect();
        let from = match prompts.len().checked_sub(keep_turns) {
            Some(at) => prompts.get(at).copied().unwrap_or(entries.len()),
            None => 0,
        };
        let mut parted = Parted { pinned: Vec::new(), prefix: Vec::new(), kept: Vec::new() };
        for (at, (pinned, entry)) in entries.into_iter().enumerate() {
            match (at >= from, pinned) {
                (true, _) => parted.kept.push(entry),
                (false, true) => parted.pinned.push(entry),
                (false, false) => parted.prefix.push(entry),
            }
        }
        Ok(parted)
    }
}

/// What the system or the developer said binds for as long as the conversation lasts.
fn is_instruction(entry: &Entry) -> bool {
    matches!(entry.role, Role::System | Role::Developer) && !entry.synthetic && !summary_of(entry)
}

fn summary_of(entry: &Entry) -> bool {
    entry.blocks.iter().any(|block| matches!(block, Block::Compaction { .. }))
}

fn conversation<'e>(entries: impl Iterator<Item = &'e Entry>) -> Conversation {
    Conversation { entries: entries.cloned().collect() }
}

fn count(conversation: &Conversation) -> u64 {
    Tokens::of(conversation, TokenCounting::Exact).count
}

fn summed_up(tip: &CommitId, parted: &Parted, how: &ChainSummary) -> Result<String> {
    let (earlier, said): (Vec<&Entry>, Vec<&Entry>) = parted.prefix.iter().partition(|entry| summary_of(entry));
    let base = earlier.last().map(|entry| entry_text(entry));
    let named = |entry: &&Entry| (entry.role.as_str().to_owned(), entry_text(entry));
    let messages: Vec<_> = said.iter().map(named).filter(|(_, text)| !text.trim().is_empty()).collect();
    match how {
        ChainSummary::Words(words) => Ok(words.clone()),
        ChainSummary::Written(writer) => writer.write(&SummaryTask { base, messages }),
        ChainSummary::Rule => {
            let mut delta = Delta::default();
            messages.iter().for_each(|(role, text)| delta.add(role, text));
            let touched = conversation(said.into_iter()).files_touched();
            Ok(chain_markdown(&tip.to_string(), base.as_deref(), &delta, &touched.read, &touched.written))
        }
    }
}

/// Everything that an entry says in words.
fn entry_text(entry: &Entry) -> String {
    let text = |block: &Block| match block {
        Block::Text(text) => Some(text.clone()),
        Block::Compaction { summary } => Some(summary.clone()),
        Block::ToolResult(_) | Block::ToolCall(_) | Block::Reasoning(_) | Block::Image(_) | Block::Verbatim(_) => None,
    };
    entry.blocks.iter().filter_map(text).collect::<Vec<_>>().join("\n")
}

fn facts<'e>(entries: impl Iterator<Item = &'e Entry>) -> FactSet {
    let mut facts = FactSet::default();
    let mut seen = Vec::new();
    for entry in entries {
        facts.add(&entry_text(entry), matches!(entry.role, Role::User | Role::System | Role::Developer));
        seen.push(entry);
    }
    let touched = conversation(seen.into_iter()).files_touched();
    touched.read.iter().chain(&touched.written).for_each(|path| facts.add(path, false));
    facts
}

fn still_said(summary: &str, pinned: &[Entry]) -> String {
    let pinned = pinned.iter().map(entry_text);
    [summary.to_owned()].into_iter().chain(pinned).collect::<Vec<_>>().join("\n")
}

fn compaction(tip: &StoredCommit, bytes: Vec<u8>, summary: &str, tokens: (u64, u64)) -> Checkpoint {
    let first = summary.lines().find(|line| !line.trim().is_empty() && !line.starts_with('#'));
    Checkpoint {
        trigger: "compaction".into(),
        summary: first.map(|line| line.chars().take(120).collect()),
        attributes: Some(json!({"tokens_before": tokens.0, "tokens_after": tokens.1})),
        ..Checkpoint::after(tip, CommitKind::Compaction, Content::Bytes(bytes))
    }
}

//! What becomes of an entry that is translated into a session: only what the model would see travels, under the new
//! identity, and every call has a result.

use std::collections::HashSet;

use enjamb_core::Timestamp;
use enjamb_core::conversation::{Block, Conversation, Entry, Role, Standing, ToolResult, attribute};

use super::Identity;
use crate::fidelity::{FidelityLedger, Outcome};
use crate::repair::INTERRUPTED;

/// Dresses the entries of one stretch, in order.
#[derive(Clone)]
pub(super) struct Dressing<'s> {
    identity: &'s Identity,
    /// The format whose own records stay behind.
    own: Option<&'static str>,
    /// A summary says what it stands for. Where it is the provider's secret, what it stands for is all there is.
    is_told: bool,
    /// Calls that have a result.
    answered: HashSet<&'s str>,
    pub without_ids: bool,
    /// The time of the entry before.
    pub last: Timestamp,
}

/// An entry as it is written.
pub(super) struct Dressed {
    pub entry: Entry,
    /// It was added, and stands for nothing that was there.
    pub is_added: bool,
}

impl<'s> Dressing<'s> {
    pub(super) fn new(
        outline: &'s Conversation,
        own: Option<&'static str>,
        identity: &'s Identity,
        last: Timestamp,
    ) -> Self {
        let is_told = !last_summary(outline).is_some_and(|summary| summary.trim().is_empty());
        let mut dressing = Self { identity, own, is_told, answered: HashSet::new(), without_ids: false, last };
        let seen = outline.entries.iter().filter(|entry| dressing.is_seen(entry));
        let answered = seen.flat_map(Entry::tool_results).map(|result| result.call_id.as_str()).collect();
        dressing.answered = answered;
        dressing
    }

    fn is_seen(&self, entry: &Entry) -> bool {
        match entry.standing {
            Standing::Context => true,
            Standing::Compacted => !self.is_told,
            Standing::Abandoned | Standing::Sidechain => false,
        }
    }

    fn stays_behind(&self, block: &Block) -> bool {
        block.as_verbatim().is_some_and(|verbatim| self.own == Some(verbatim.format.as_str()))
    }

    /// The blocks that stay behind, and why.
    pub(super) fn left(&self, outline: &Conversation) -> FidelityLedger {
        let mut left = FidelityLedger::default();
        let mut drop = |reason: &str, blocks: u64| {
            if blocks > 0 {
                left.merge(&FidelityLedger::from_rows([(Outcome::Dropped, reason.to_owned(), blocks)]));
            }
        };
        for entry in &outline.entries {
            let records = entry.blocks.iter().filter(|block| self.stays_behind(block)).count() as u64;
            drop("the runtime's own bookkeeping", records);
            let reason = match entry.standing {
                _ if self.is_seen(entry) => continue,
                Standing::Context => continue,
                Standing::Compacted => "a compaction stands for it",
                Standing::Abandoned => "on an abandoned branch",
                Standing::Sidechain => "said on a side chain",
            };
            drop(reason, entry.blocks.len() as u64 - records);
        }
        left
    }

    /// The entry if it is seen, and after it results for those of its calls that have none.
    pub(super) fn dress(&mut self, mut entry: Entry) -> Vec<Dressed> {
        if !self.is_seen(&entry) {
            return Vec::new();
        }
        entry.blocks.retain(|block| !self.stays_behind(block));
        let calls = entry.tool_calls().filter(|call| !call.server && !self.answered.contains(call.id.as_str()));
        let content = || vec![Block::Text(INTERRUPTED.to_owned())];
        let added: Vec<Entry> = calls
            .map(|call| ToolResult { call_id: call.id.clone(), content: content(), is_error: false })
            .map(|result| Entry::new(Role::Tool, vec![Block::ToolResult(result)]))
            .collect();
        let mut dressed = vec![Dressed { entry: self.clothed(entry), is_added: false }];
        dressed.extend(added.into_iter().map(|entry| Dressed { entry: self.clothed(entry), is_added: true }));
        dressed
    }

    /// Entries without a time get one just after those before: loaders go by time.
    fn clothed(&mut self, mut entry: Entry) -> Entry {
        let after = Timestamp::from_micros(self.last.as_micros().saturating_add(1000));
        self.last = entry.at.filter(|at| *at > self.last).unwrap_or(after);
        entry.at = Some(self.last);
        entry.set_attribute(attribute::SESSION_ID, Some(self.identity.session.clone()));
        entry.set_attribute(attribute::CWD, Some(self.identity.cwd.clone()));
        if self.without_ids {
            entry.id = None;
        }
        entry
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

//! Two contexts side by side: what they share, and what each has that the other has not.

use std::collections::BTreeSet;

use enjamb_core::CommitId;
use enjamb_core::chain::Stop;
use enjamb_core::conversation::Conversation;
use enjamb_ledger::StoredCommit;

use crate::{Result, Store};

/// How two contexts differ.
#[derive(Clone, Debug)]
pub struct Difference {
    /// The last commit that both have.
    pub shared: Option<CommitId>,
    pub sides: [Side; 2],
}

/// What one context has since the shared commit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Side {
    pub commits: u64,
    pub messages: u64,
    pub tokens: u64,
    pub tools: Vec<String>,
    pub read: Vec<String>,
    pub wrote: Vec<String>,
    /// How it ends: the last words of the agent, or of whoever spoke last.
    pub ends: Option<String>,
}

impl Store {
    pub fn diff(&self, a: &CommitId, b: &CommitId) -> Result<Difference> {
        let shared = self.merge_base(a, b)?;
        Ok(Difference { shared, sides: [self.side(a, shared)?, self.side(b, shared)?] })
    }

    fn side(&self, tip: &CommitId, shared: Option<CommitId>) -> Result<Side> {
        let mut side = Side::default();
        let mut tools = BTreeSet::new();
        let (mut read, mut wrote) = (BTreeSet::new(), BTreeSet::new());
        let stop = shared.map_or(Stop::Root, Stop::At);
        for link in self.links(tip, &stop, usize::MAX)?.iter().rev().filter(|link| Some(link.id) != shared) {
            let commit = self.show(&link.id)?;
            side.commits += 1;
            side.messages += commit.commit.message_count;
            side.tokens += commit.commit.token_count;
            if link.kind.begins() {
                continue;
            }
            let said = self.said(&commit)?;
            tools.extend(said.tool_names().into_keys().map(str::to_owned));
            let touched = said.files_touched();
            read.extend(touched.read);
            wrote.extend(touched.written);
            side.ends = said.last_assistant_text().or_else(|| said.last_user_text()).or(side.ends.take());
        }
        side.tools = tools.into_iter().collect();
        side.read = read.into_iter().collect();
        side.wrote = wrote.into_iter().collect();
        Ok(side)
    }

    /// What a commit's delta says, as far as its format is known.
    pub(crate) fn said(&self, commit: &StoredCommit) -> Result<Conversation> {
        let Some(format) = enjamb_formats::by_id(&commit.commit.format) else { return Ok(Conversation::default()) };
        let Ok(artifact) = commit.commit.artifact_ref.parse() else { return Ok(Conversation::default()) };
        Ok(format.decode(&self.get_small(&artifact)?)?)
    }
}

//! Looking at commits: one, its history, its children, and what is said of it.

use enjamb_core::chain::Stop;
use enjamb_core::frame::{Body, ContextNoted};
use enjamb_core::{CommitId, StreamId, StreamKind, Timestamp, limits};
use enjamb_ledger::{Ledger, Link, StoredCommit};

use crate::{Actor, Result, ServiceError, Store, link};

/// New words about a commit; `None` leaves what was there. Links to tickets are no tags: they stay.
#[derive(Clone, Debug, Default)]
pub struct Note {
    pub summary: Option<String>,
    pub tags: Option<Vec<String>>,
}

/// The ends of branches.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tips {
    pub ids: Vec<CommitId>,
    /// The search ended before all were found.
    pub more: bool,
}

impl Store {
    pub fn show(&self, id: &CommitId) -> Result<StoredCommit> {
        self.ledger.commit(id)?.ok_or_else(|| unknown(id))
    }

    /// The commits from `tip` back towards the first of its chain, tip first, at most `depth` of them.
    pub fn history(&self, tip: &CommitId, depth: usize) -> Result<Vec<StoredCommit>> {
        self.links(tip, &Stop::Root, depth)?.iter().map(|link| self.show(&link.id)).collect()
    }

    /// As [`Store::history`], only where each commit stands.
    pub fn links(&self, tip: &CommitId, stop: &Stop, depth: usize) -> Result<Vec<Link>> {
        let depth = depth.min(limits::CHAIN_COMMITS_MAX);
        self.ledger.walk(tip, stop, depth)?.ok_or_else(|| unknown(tip))
    }

    pub fn children(&self, id: &CommitId) -> Result<Vec<CommitId>> {
        self.ledger.commit(id)?.ok_or_else(|| unknown(id))?;
        Ok(self.ledger.children(id)?)
    }

    /// Up to `limit` commits that can be reached from `id` and that no commit follows: the ends of its branches.
    pub fn tips(&self, id: &CommitId, limit: usize) -> Result<Tips> {
        self.show(id)?;
        let mut waiting = vec![*id];
        let mut tips = Tips::default();
        let mut seen = 0;
        while let Some(id) = waiting.pop() {
            if tips.ids.len() == limit || seen == limits::CHAIN_COMMITS_MAX {
                tips.more = true;
                break;
            }
            seen += 1;
            let children = self.ledger.children(&id)?;
            if children.is_empty() {
                tips.ids.push(id);
            }
            waiting.extend(children);
        }
        Ok(tips)
    }

    /// What a principal knew at an instant: its last commit at or before it.
    pub fn resolve(&self, principal: &str, at: Timestamp) -> Result<CommitId> {
        let stream = StreamId::new(StreamKind::Context, principal)?;
        let found = self.ledger.commit_at(&stream, at)?;
        found.ok_or_else(|| ServiceError::Unknown { what: "commit", name: format!("of {principal} at or before {at}") })
    }

    /// Says something new of a commit. What was said before stays in the log.
    pub fn note(&self, id: &CommitId, note: Note, by: &Actor) -> Result<StoredCommit> {
        let commit = self.show(id)?;
        let body = noted(&commit, note, by);
        self.append_bodies(&commit.stream, &[body], Vec::new())?;
        self.show(id)
    }

    /// The commit that two chains share and that is nearest to both.
    pub fn merge_base(&self, a: &CommitId, b: &CommitId) -> Result<Option<CommitId>> {
        let mut left = self.links(a, &Stop::Root, usize::MAX)?.into_iter().peekable();
        let mut right = self.links(b, &Stop::Root, usize::MAX)?.into_iter().peekable();
        while let (Some(one), Some(other)) = (left.peek(), right.peek()) {
            match one.generation.cmp(&other.generation) {
                std::cmp::Ordering::Greater => drop(left.next()),
                std::cmp::Ordering::Less => drop(right.next()),
                std::cmp::Ordering::Equal if one.id == other.id => return Ok(Some(one.id)),
                std::cmp::Ordering::Equal => drop((left.next(), right.next())),
            }
        }
        Ok(None)
    }
}

pub(crate) fn unknown(id: &CommitId) -> ServiceError {
    ServiceError::Unknown { what: "commit", name: id.to_string() }
}

/// Links stay, whatever the other tags become.
pub(crate) fn noted(commit: &StoredCommit, note: Note, by: &Actor) -> Body {
    let links = commit.tags.iter().filter(|tag| link::is_link(tag)).cloned();
    let kept = |tags: Vec<String>| tags.into_iter().filter(|tag| !link::is_link(tag)).chain(links).collect();
    ContextNoted {
        commit_id: commit.link.id.to_string(),
        summary: note.summary,
        tags: note.tags.map(kept),
        actor_id: by.actor_id.clone(),
        origin: by.origin.clone(),
    }
    .into()
}

//! Repairing a context: a fork that loads, as close to the original as can be.
//!
//! The fork begins after the last commit that is sound together with all before it. Commits after that one whose deltas
//! are sound keep their artifacts. Nothing of the original changes.

use enjamb_core::CommitId;
use enjamb_core::chain::Stop;
use enjamb_formats::{Change, Repaired, Reuse};
use enjamb_ledger::{Part, StoredCommit};
use serde_json::json;

use crate::check::{Reach, known};
use crate::checkpoint::Counted;
use crate::{Actor, Checkpoint, Checkpointed, Content, Expect, Located, Materialize, Result, ServiceError, Store};

#[derive(Clone, Debug)]
pub struct RepairContext {
    pub tip: CommitId,
    pub stop: Stop,
    pub reuse: Reuse,
    /// Write nothing.
    pub dry_run: bool,
    /// A name for the fork.
    pub name: Option<String>,
    pub by: Actor,
}

/// What a repair came to.
#[derive(Clone, Debug)]
pub struct RepairedContext {
    pub tip: CommitId,
    pub format: String,
    /// Every block or record that changed, with the commit that had it.
    pub changes: Vec<(Change, Option<CommitId>)>,
    /// What no repair mends.
    pub left: Vec<Located>,
    /// The last commit that the fork shares with the original.
    pub shared: Option<CommitId>,
    /// Commits that were made, or would be.
    pub commits: u64,
    /// The end of the fork; `None` when nothing was written.
    pub fork: Option<CommitId>,
}

impl RepairedContext {
    pub fn would_load(&self) -> bool {
        self.left.iter().all(|found| !found.problem.is_error())
    }
}

impl Store {
    /// Writes the smallest fork of a chain that loads.
    pub fn repair(&self, request: &RepairContext) -> Result<RepairedContext> {
        let parts = self.contributing(&Materialize { tip: Some(request.tip), stop: request.stop, format: None })?;
        let format = parts.first().map(|part| part.format.to_string()).unwrap_or_default();
        if let Some(other) = parts.iter().find(|part| *part.format != *format) {
            let formats = [format, other.format.to_string()];
            return Err(ServiceError::MixedFormats { tip: request.tip, formats });
        }
        let mut deltas: Vec<Vec<u8>> = Vec::with_capacity(parts.len());
        self.each_delta(&parts, |_, delta| {
            deltas.push(delta.to_vec());
            Ok(())
        })?;
        let repaired = enjamb_formats::repair(known(&format)?, &deltas, request.reuse)?;
        let reach = Reach::of(parts.iter().zip(deltas.iter().map(|delta| lines_len(delta))));
        drop(deltas);
        self.fork_off(request, format, &parts, &reach, repaired)
    }

    fn fork_off(
        &self,
        request: &RepairContext,
        format: String,
        parts: &[Part],
        reach: &Reach,
        repaired: Repaired,
    ) -> Result<RepairedContext> {
        let Repaired { deltas, changes, left } = repaired;
        let first = deltas.iter().position(Option::is_some);
        let line = match first {
            Some(first) => self.line(parts, deltas, first)?,
            None => Vec::new(),
        };
        let commits = line.len() as u64;
        let shared = first.map_or(Some(request.tip), |first| parts[first].link.parent);
        let made = if request.dry_run { Vec::new() } else { self.checkpoint_line(line)? };
        let fork = made.last().map(|made: &Checkpointed| made.id);
        if let (Some(name), Some(fork)) = (&request.name, fork) {
            self.move_reference(name, Some(fork), Expect::Nothing, &request.by)?;
        }
        let changes = changes.into_iter().map(|change| {
            let commit = reach.commit_at(change.at);
            (change, commit)
        });
        let left = left.into_iter().map(|problem| Located { problem, commit: None });
        let (changes, left) = (changes.collect(), left.collect());
        Ok(RepairedContext { tip: request.tip, format, changes, left, shared, commits, fork })
    }

    /// The commits of the fork, from the first whose delta changed on. Deltas of which nothing is left are left out.
    fn line(
        &self,
        parts: &[Part],
        deltas: Vec<Option<Vec<u8>>>,
        first: usize,
    ) -> Result<Vec<(Checkpoint, Option<Counted>)>> {
        let mut line = Vec::with_capacity(parts.len() - first);
        for (part, delta) in parts.iter().zip(deltas).skip(first) {
            let stored = self.show(&part.link.id)?;
            match (delta, part.artifact) {
                (Some(bytes), _) if is_empty(&bytes) => {}
                (Some(bytes), _) => line.push((again(&stored, Content::Bytes(bytes)), None)),
                (None, Some(artifact)) => {
                    let counted = Counted {
                        messages: stored.commit.message_count,
                        tokens: stored.commit.token_count,
                        method: stored.commit.token_method.clone().unwrap_or_default(),
                    };
                    line.push((again(&stored, Content::Stored(artifact)), Some(counted)));
                }
                (None, None) => return Err(crate::commits::unknown(&part.link.id)),
            }
        }
        Ok(line)
    }
}

/// Bytes that a delta of lines has in what it is joined to.
fn lines_len(delta: &[u8]) -> u64 {
    delta.len() as u64 + u64::from(!delta.is_empty() && !delta.ends_with(b"\n"))
}

fn is_empty(delta: &[u8]) -> bool {
    delta.is_empty() || delta == b"[]" || delta == [0x80]
}

/// A commit like the one that it stands for.
fn again(stored: &StoredCommit, content: Content) -> Checkpoint {
    let commit = &stored.commit;
    Checkpoint {
        parent: stored.link.parent,
        kind: stored.link.kind,
        content,
        format: commit.format.clone(),
        principal: commit.principal.clone().unwrap_or_else(|| stored.stream.id.clone()),
        trigger: commit.checkpoint.as_str().to_owned(),
        template: commit.template.clone(),
        machine: commit.machine.clone(),
        session_id: commit.agent_session_id.clone(),
        ticket_id: commit.ticket_id.clone(),
        thread_id: commit.thread_id.clone(),
        summary: stored.summary.clone(),
        attributes: Some(attributes(stored)),
        created_at: None,
    }
}

/// What the commit said of itself, and which one it repairs.
fn attributes(stored: &StoredCommit) -> serde_json::Value {
    let known = stored.commit.attributes.as_ref().and_then(|raw| serde_json::from_str(raw.get()).ok());
    let mut known = known.filter(serde_json::Value::is_object).unwrap_or_else(|| json!({}));
    known["repairs"] = stored.link.id.to_string().into();
    known
}

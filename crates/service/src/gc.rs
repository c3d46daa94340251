//! Collecting what nobody needs: in two steps, so that whoever needs it after all can say so in between.
//!
//! Only an ephemeral artifact whose time is over, which no tag names and no frame mentions, is ever a candidate. The
//! first cycle condemns it; a later one drops it if nothing has mentioned it since. Both are frames, and the order rules
//! refuse a drop that comes too late, so no clock and no race decides what is lost.

use std::collections::HashSet;

use enjamb_core::frame::{ArtifactCondemned, ArtifactDropped, Body, artifact_mentions};
use enjamb_core::order::{MarkKey, Rule, Scope};
use enjamb_core::{ArtifactId, StreamId, StreamKind};
use enjamb_ledger::{ArtifactPlace, Job, JobKind, Ledger, LedgerError, Progress};

use crate::{Actor, Result, ServiceError, Store};

/// Artifacts that one frame condemns or drops.
const IDS_PER_FRAME: usize = 500;

/// An artifact that may go, and how far it is on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate {
    pub id: ArtifactId,
    pub len: u64,
    /// Condemned by an earlier cycle, so the next one drops it.
    pub condemned: bool,
}

/// What a cycle would do, and why it would do no more.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GcPlan {
    pub candidates: Vec<Candidate>,
    /// Ephemeral, but their time is not over.
    pub waiting: u64,
    /// Over, but a tag names them or a frame mentions them.
    pub needed: u64,
    /// Files that nothing names, and their bytes.
    pub unnamed_files: u64,
    pub unnamed_bytes: u64,
}

/// What a cycle did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GcRun {
    pub condemned: u64,
    pub dropped: u64,
    pub dropped_bytes: u64,
    pub files_bytes: u64,
    /// Files were left, because someone was writing a segment.
    pub sweep_skipped: bool,
}

impl Store {
    /// What a cycle would do now. Any failure to learn who needs what ends it.
    pub fn gc_plan(&self) -> Result<GcPlan> {
        let mut plan = GcPlan::default();
        let now = self.env.now();
        let mut over = Vec::new();
        for (id, policy) in self.policies()? {
            match policy.expires_ms() {
                None => {}
                Some(_) if self.ledger.artifact(&id)?.is_none() => {}
                Some(_) if policy.is_over(now) => over.push(id),
                Some(_) => plan.waiting += 1,
            }
        }
        let needed = self.needed(&over)?;
        for id in over {
            if needed.contains(&id) {
                plan.needed += 1;
            } else {
                plan.candidates.extend(self.candidate(id)?);
            }
        }
        let unnamed = self.ledger.unnamed_files()?;
        plan.unnamed_files = unnamed.len() as u64;
        plan.unnamed_bytes = unnamed.iter().map(|file| file.bytes).sum();
        Ok(plan)
    }

    fn candidate(&self, id: ArtifactId) -> Result<Option<Candidate>> {
        let Some(artifact) = self.ledger.artifact(&id)? else { return Ok(None) };
        let mark = self.ledger.mark(&Scope::Store, &MarkKey::Condemned(id))?;
        Ok(Some(Candidate { id, len: artifact.len, condemned: mark.is_some_and(|mark| !mark.is_empty()) }))
    }

    /// Those of `ids` that a tag names, a frame mentions or a workspace checkpoint holds. What is said in the artifact stream itself does not count.
    fn needed(&self, ids: &[ArtifactId]) -> Result<HashSet<ArtifactId>> {
        let asked: HashSet<_> = ids.iter().copied().collect();
        let mut needed: HashSet<_> =
            self.tags()?.into_iter().map(|tag| tag.artifact).filter(|id| asked.contains(id)).collect();
        if asked.is_empty() {
            return Ok(needed);
        }
        self.ledger.each_frame(1, &mut |_, frame| {
            if frame.stream.kind != StreamKind::Artifact {
                needed.extend(artifact_mentions(&frame.json).into_iter().filter(|id| asked.contains(id)));
            }
            Ok(true)
        })?;
        needed.extend(self.kept_by_workspaces()?.intersection(&asked));
        Ok(needed)
    }

    /// Runs a cycle: drops what an earlier one condemned, condemns the rest, and removes files that nothing names.
    pub fn gc_run(&self, by: &Actor, progress: &mut Progress<'_>) -> Result<GcRun> {
        let job = self.ledger.job(JobKind::Collect)?;
        let plan = self.gc_plan()?;
        let (condemned, fresh): (Vec<_>, Vec<_>) = plan.candidates.iter().partition(|candidate| candidate.condemned);
        let mut run = GcRun::default();
        let mut places = Vec::new();
        for group in condemned.chunks(IDS_PER_FRAME) {
            places.extend(self.drop_group(&job, group, by)?);
        }
        run.dropped = places.len() as u64;
        run.dropped_bytes = places.iter().map(|place: &ArtifactPlace| place.len).sum();
        if !places.is_empty() {
            self.ledger.erase(&places, progress)?;
        }
        for group in fresh.chunks(IDS_PER_FRAME) {
            let artifact_ids = group.iter().map(|candidate| candidate.id.to_hex()).collect();
            let (actor_id, origin) = (by.actor_id.clone(), by.origin.clone());
            let body: Body = ArtifactCondemned { artifact_ids, actor_id, origin }.into();
            self.append_for(&job, &StreamId::artifacts(), &body)?;
            run.condemned += group.len() as u64;
        }
        match self.ledger.sweep()? {
            Some(bytes) => run.files_bytes = bytes,
            None => run.sweep_skipped = true,
        }
        Ok(run)
    }

    /// Drops a group; when one of them was spared in the meantime, each goes by itself and that one stays.
    fn drop_group(&self, job: &Job<'_>, group: &[&Candidate], by: &Actor) -> Result<Vec<ArtifactPlace>> {
        let mut places = Vec::new();
        for candidate in group {
            places.extend(self.ledger.place(&candidate.id)?);
        }
        let (actor_id, origin) = (by.actor_id.clone(), by.origin.clone());
        let artifact_ids = group.iter().map(|candidate| candidate.id.to_hex()).collect();
        let body: Body = ArtifactDropped { artifact_ids, actor_id, origin }.into();
        match self.append_for(job, &StreamId::artifacts(), &body) {
            Ok(_) => Ok(places),
            Err(ServiceError::Ledger(LedgerError::Refused(refusal))) if refusal.rule == Rule::NotCondemned => {
                if group.len() == 1 {
                    return Ok(Vec::new());
                }
                let each = group.iter().map(|candidate| self.drop_group(job, &[candidate], by));
                Ok(each.collect::<Result<Vec<_>>>()?.concat())
            }
            Err(other) => Err(other),
        }
    }
}

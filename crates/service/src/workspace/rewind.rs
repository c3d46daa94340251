//! Rewinding a workspace: what is there now is kept as a checkpoint, then every file becomes what an earlier one says.

use std::path::{Path, PathBuf};

use enjamb_core::ArtifactId;
use enjamb_core::frame::{Body, CheckpointAction, CheckpointFailed, CheckpointRewound};
use enjamb_core::workspace::{Change, Item, Manifest, NodeKind, changes, escape, is_within, unescape};

use super::journal::Journal;
use super::restore::{Ignored, Restore};
use super::root::Root;
use super::scan::Scope;
use super::stats::Stats;
use super::take::Taken;
use super::view::is_among;
use super::{
    Place, WorkspaceChange, WorkspaceCheckpoint, WorkspaceCheckpointed, WorkspaceError, WorkspaceView, listed,
    session_stream,
};
use crate::{Actor, Result, Store};

/// A rewind to make.
#[derive(Clone, Debug)]
pub struct Rewind {
    pub root: PathBuf,
    pub to: RewindTo,
    /// Only these paths and what is below them, relative to the root; all, if none is named.
    pub paths: Vec<Vec<u8>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RewindTo {
    /// To this checkpoint, by its id or the beginning of it.
    Checkpoint(String),
    /// On to where a rewind that was cut short was going.
    Continue,
    /// Back to where it came from.
    Undo,
}

/// A rewind that was cut short.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interrupted {
    pub target: String,
    pub saved: String,
}

/// What a rewind would do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RewindPlan {
    pub target: WorkspaceView,
    pub changes: Vec<WorkspaceChange>,
}

/// What a rewind did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rewound {
    pub target: WorkspaceView,
    /// What was there before.
    pub saved: WorkspaceCheckpointed,
    pub changes: Vec<WorkspaceChange>,
}

/// Where a rewind goes, and how much of the way.
struct Goal {
    target: WorkspaceView,
    manifest: Manifest,
    items: Vec<Item>,
    paths: Vec<Vec<u8>>,
    /// What was noted of files is not to be believed: they may have been cut short.
    resumed: bool,
    saved: Option<String>,
}

/// Told how many steps of how many are done; an error ends the rewind there.
pub type RewindStep<'s> = dyn FnMut(u64, u64) -> Result<()> + 's;

impl Store {
    /// The rewind of a workspace that was cut short, if one was.
    pub fn rewind_interrupted(&self, root: &Path) -> Result<Option<Interrupted>> {
        let place = self.workspace_place(&Root::open(root)?)?;
        Ok(place.interrupted()?.map(Interrupted::from))
    }

    /// What a rewind would do now. Nothing is written.
    pub fn rewind_plan(&self, request: &Rewind) -> Result<RewindPlan> {
        let root = Root::open(&request.root)?;
        let place = self.workspace_place(&root)?;
        let goal = self.goal(&root, &place, request)?;
        let noted = self.noted_for(&place, &goal)?;
        let taken = self.take(&root, &self.goal_scope(&goal), &noted, None)?;
        let changes = goal.changes(&taken, &Ignored::of(self, &goal.manifest, &goal.items)?);
        Ok(RewindPlan { changes: changes.iter().map(WorkspaceChange::of).collect(), target: goal.target })
    }

    /// Keeps what is there, and makes every file what the checkpoint says.
    pub fn rewind(&self, request: &Rewind, by: &Actor, step: &mut RewindStep<'_>) -> Result<Rewound> {
        let root = Root::open(&request.root)?;
        let place = self.workspace_place(&root)?;
        let goal = self.goal(&root, &place, request)?;
        let rewound = self.rewind_to(&root, &place, goal, by, step);
        if let Err(error) = &rewound {
            let body: Body = CheckpointFailed { action: CheckpointAction::Rewind, error: error.to_string() }.into();
            // What went wrong is worth more to the caller than what went wrong with telling of it.
            let _ = session_stream(&place.session).and_then(|stream| self.append_bodies(&stream, &[body], Vec::new()));
        }
        rewound
    }

    fn rewind_to(
        &self,
        root: &Root,
        place: &Place,
        goal: Goal,
        by: &Actor,
        step: &mut RewindStep<'_>,
    ) -> Result<Rewound> {
        self.check_stored(&goal)?;
        if goal.resumed {
            // Nothing that was noted of these files is to be believed.
            Stats::default().write(&place.stats()).ok();
        }
        let request = goal.saving(root);
        let (saved, mut taken) = self.checkpoint_locked(root, place, &self.goal_scope(&goal), &request, by)?;
        if !goal.resumed {
            // No rewind of ours left them.
            taken.leftovers.clear();
        }
        let changes = goal.changes(&taken, &Ignored::of(self, &goal.manifest, &goal.items)?);
        let paths = goal.paths.iter().map(|path| escape(path)).collect();
        let first_saved = goal.saved.clone().unwrap_or_else(|| saved.id.clone());
        place.begin(&Journal { target: goal.target.id.clone(), saved: first_saved, paths })?;
        Restore::new(self, root, &taken, &goal.items, &changes).run(step)?;
        let changes: Vec<_> = changes.iter().map(WorkspaceChange::of).collect();
        let body = rewound_frame(root, &goal, &saved, &changes, by);
        self.append_bodies(&session_stream(&place.session)?, &[body], Vec::new())?;
        place.end()?;
        Ok(Rewound { target: goal.target, saved, changes })
    }

    fn goal(&self, root: &Root, place: &Place, request: &Rewind) -> Result<Goal> {
        let interrupted = place.interrupted()?;
        let cut_short = || interrupted.clone().ok_or_else(|| WorkspaceError::NotInterrupted(root.path().to_owned()));
        let (word, paths, saved) = match &request.to {
            RewindTo::Checkpoint(word) => {
                place.check_settled(root)?;
                (word.clone(), request.paths.clone(), None)
            }
            RewindTo::Continue => {
                let journal = cut_short()?;
                (journal.target, unescaped(&journal.paths), Some(journal.saved))
            }
            RewindTo::Undo => {
                let journal = cut_short()?;
                (journal.saved.clone(), unescaped(&journal.paths), Some(journal.saved))
            }
        };
        let target = self.workspace_checkpoint_named(&word)?;
        let (manifest, items) = self.listing(&target)?;
        Ok(Goal { target, manifest, items, paths, resumed: saved.is_some(), saved })
    }

    fn noted_for(&self, place: &Place, goal: &Goal) -> Result<Stats> {
        if goal.resumed { Ok(Stats::default()) } else { self.noted(place) }
    }

    /// All that will be written over or is in the way is looked at, ignored or not.
    fn goal_scope(&self, goal: &Goal) -> Scope {
        let files = goal.items.iter().filter(|item| item.node.kind != NodeKind::Dir);
        let also = files.map(|item| item.path.clone()).collect();
        Scope { ignored: goal.manifest.ignored, store: self.own_dir(), also }
    }

    /// Nothing is touched before all that will be needed was found.
    fn check_stored(&self, goal: &Goal) -> Result<()> {
        let files =
            goal.items.iter().filter(|item| item.node.kind != NodeKind::Dir && is_among(&item.path, &goal.paths));
        let files: Vec<_> = files.map(|item| (ArtifactId::from_digest(item.node.id), &item.path)).collect();
        let ids: Vec<_> = files.iter().map(|(id, _)| *id).collect();
        let here = self.ledger.here(&ids)?;
        if let Some((id, path)) = files.iter().find(|(id, _)| !here.contains(id)) {
            let detail = format!("the bytes of {} are not in the store ({id})", escape(path));
            return Err(WorkspaceError::Damaged { id: goal.target.id.clone(), detail }.into());
        }
        Ok(())
    }

    /// The files of a workspace as they are, read and not kept.
    pub(super) fn present(&self, root: &Root, ignored: bool) -> Result<Vec<Item>> {
        let place = self.workspace_place(root)?;
        let scope = Scope { ignored, store: self.own_dir(), also: Vec::new() };
        let noted = if place.interrupted()?.is_some() { Stats::default() } else { self.noted(&place)? };
        Ok(self.take(root, &scope, &noted, None)?.items)
    }
}

impl Goal {
    fn changes(&self, taken: &Taken, ignored: &Ignored) -> Vec<Change> {
        let mut changes = changes(&taken.items, &self.items);
        changes.retain(|change| self.wants(change));
        // What was ignored then was there then, for all we know, and stays.
        changes.retain(|change| change.to.is_some() || !ignored.holds(&change.path, is_dir(change)));
        changes
    }

    fn wants(&self, change: &Change) -> bool {
        // A file that comes back needs the directories above it.
        let leads_there = || self.paths.iter().any(|path| is_within(path, &change.path));
        is_among(&change.path, &self.paths) || change.from.is_none() && leads_there()
    }

    /// The checkpoint of what is there now.
    fn saving(&self, root: &Root) -> WorkspaceCheckpoint {
        let id = &self.target.id;
        WorkspaceCheckpoint {
            root: root.path().to_owned(),
            label: format!("before rewind to {}", &id[..id.len().min(8)]),
            auto: true,
            ignored: self.manifest.ignored,
            ..WorkspaceCheckpoint::default()
        }
    }
}

fn is_dir(change: &Change) -> bool {
    change.from.is_some_and(|node| node.kind == NodeKind::Dir)
}

fn unescaped(paths: &[String]) -> Vec<Vec<u8>> {
    paths.iter().filter_map(|path| unescape(path)).collect()
}

fn rewound_frame(
    root: &Root,
    goal: &Goal,
    saved: &WorkspaceCheckpointed,
    changes: &[WorkspaceChange],
    by: &Actor,
) -> Body {
    let paths: Vec<_> = changes.iter().map(|change| change.path.clone()).collect();
    CheckpointRewound {
        checkpoint_id: goal.target.id.clone(),
        label: goal.target.label.clone(),
        files: listed(&paths),
        workspace: Some(root.text()),
        saved_checkpoint_id: Some(saved.id.clone()),
        files_changed: Some(paths.len() as u64),
        actor_id: Some(by.actor_id.clone()),
        origin: Some(by.origin.clone()),
    }
    .into()
}

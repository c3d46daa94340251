//! Looking at workspace checkpoints: which there are, what is in them, and how they differ.

use std::path::Path;

use enjamb_core::frame::{Body, CheckpointCreated, Frame, SessionBody};
use enjamb_core::order::{CheckpointAt, MarkKey, Scope as MarkScope};
use enjamb_core::workspace::{Change, Item, Manifest, Node, NodeKind, changes, decode_tree, escape};
use enjamb_core::{ArtifactId, Digest, StreamId, limits};
use enjamb_ledger::{Ledger, LedgerError, Walk};

use super::{Root, WorkspaceError, session_stream};
use crate::{Result, ServiceError, Store};

/// Directories within one another that a tree may have.
const DEPTH_MAX: usize = 256;
const PATH_BYTES_MAX: usize = 4_096;

/// A checkpoint as listings show it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkspaceView {
    pub id: String,
    pub label: String,
    pub created_at_ms: u64,
    pub auto: bool,
    pub tool_name: Option<String>,
    /// Where the workspace was, escaped.
    pub workspace: Option<String>,
    pub manifest: Option<ArtifactId>,
    /// Paths that differed from the checkpoint before, as many as the frame lists.
    pub files: Vec<String>,
    pub files_changed: u64,
    pub stream: StreamId,
    pub seq: u64,
}

/// What becomes of a path between two states of a workspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkspaceChange {
    /// Escaped.
    pub path: String,
    /// `added`, `removed`, `changed`, `mode` or `kind`.
    pub what: &'static str,
    pub from: Option<Node>,
    pub to: Option<Node>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkspaceDiff {
    pub from: WorkspaceView,
    /// `None` for the files as they are now.
    pub to: Option<WorkspaceView>,
    pub changes: Vec<WorkspaceChange>,
}

impl WorkspaceChange {
    pub(super) fn of(change: &Change) -> Self {
        let what = match (&change.from, &change.to) {
            (None, _) => "added",
            (_, None) => "removed",
            (Some(from), Some(to)) if from.kind != to.kind => "kind",
            (Some(from), Some(to)) if from.kind != NodeKind::Dir && from.id != to.id => "changed",
            (Some(_), Some(_)) => "mode",
        };
        Self { path: escape(&change.path), what, from: change.from, to: change.to }
    }
}

impl Store {
    /// Up to `limit` checkpoints, newest first: of one workspace, or of all.
    pub fn workspace_checkpoints(&self, root: Option<&Path>, limit: usize) -> Result<Vec<WorkspaceView>> {
        let key = root.map(Root::open).transpose()?.map(|root| root.key());
        let like = MarkKey::Checkpoint(String::new());
        let marks = self.ledger.marks(&MarkScope::Store, &like)?;
        let mut places: Vec<_> =
            marks.into_iter().filter_map(|(id, mark)| Some((CheckpointAt::parse(&mark)?, id))).collect();
        places.retain(|(at, _)| key.is_none() || at.workspace == key);
        places.sort_by(|(a, id), (b, other)| (b.created_at_ms, b.seq, other).cmp(&(a.created_at_ms, a.seq, id)));
        places.truncate(limit);
        places.into_iter().map(|(at, id)| self.checkpoint_at(&id, &at)).collect()
    }

    /// The checkpoint that a person means: by id, or by the beginning of one.
    pub fn workspace_checkpoint_named(&self, word: &str) -> Result<WorkspaceView> {
        let unknown = || ServiceError::Unknown { what: "workspace checkpoint", name: word.to_owned() };
        if !(limits::ID_PREFIX_DIGITS_MIN..=limits::NAME_BYTES_MAX).contains(&word.len()) {
            return Err(unknown());
        }
        let (from, to) = (MarkKey::Checkpoint(word.to_owned()), MarkKey::Checkpoint(format!("{word}\u{10ffff}")));
        let found = self.ledger.marks_in(&MarkScope::Store, &from, &to, Walk::Forward, limits::CANDIDATES_MAX + 1)?;
        let named = |(key, mark): &(MarkKey, String)| match key {
            MarkKey::Checkpoint(id) => Some((id.clone(), CheckpointAt::parse(mark)?)),
            _ => None,
        };
        let found: Vec<_> = found.iter().filter_map(named).collect();
        match found.as_slice() {
            [] => Err(unknown()),
            [(id, at)] => self.checkpoint_at(id, at),
            [(id, at), ..] if id == word => self.checkpoint_at(id, at),
            many => {
                let candidates = many.iter().map(|(id, _)| id.clone()).collect();
                Err(ServiceError::Ambiguous { prefix: word.to_owned(), candidates })
            }
        }
    }

    fn checkpoint_at(&self, id: &str, at: &CheckpointAt) -> Result<WorkspaceView> {
        let stream = session_stream(&at.session)?;
        let stored = self.ledger.frames(&stream, at.seq, 1)?;
        let frame = stored.first().map(|stored| Frame::parse(&stored.json)).transpose()?;
        match frame.map(|frame| frame.body) {
            Some(Body::Session(SessionBody::CheckpointCreated(created))) => Ok(view(created, stream, at.seq)),
            _ => Err(LedgerError::corrupt(format!("workspace checkpoint {id}"), "its frame is not there").into()),
        }
    }

    /// What a checkpoint holds, in a few words.
    pub fn workspace_manifest(&self, checkpoint: &WorkspaceView) -> Result<Manifest> {
        let id = checkpoint.manifest.ok_or_else(|| WorkspaceError::NoFiles(checkpoint.id.clone()))?;
        let damaged = |detail: String| WorkspaceError::Damaged { id: checkpoint.id.clone(), detail };
        let bytes = self.get_document(&id)?;
        Ok(Manifest::parse(&bytes).map_err(|error| damaged(error.to_string()))?)
    }

    /// What a checkpoint holds, path by path.
    pub(super) fn listing(&self, checkpoint: &WorkspaceView) -> Result<(Manifest, Vec<Item>)> {
        let manifest = self.workspace_manifest(checkpoint)?;
        let mut items = Vec::new();
        let tree = manifest.tree().unwrap_or(Digest::ZERO);
        self.list_tree(checkpoint, tree, &mut Vec::new(), 0, &mut items)?;
        Ok((manifest, items))
    }

    fn list_tree(
        &self,
        checkpoint: &WorkspaceView,
        tree: Digest,
        dir: &mut Vec<u8>,
        depth: usize,
        items: &mut Vec<Item>,
    ) -> Result<()> {
        let damaged = |detail: String| WorkspaceError::Damaged { id: checkpoint.id.clone(), detail };
        if depth > DEPTH_MAX || dir.len() > PATH_BYTES_MAX {
            return Err(damaged(format!("{} is deeper than any directory", escape(&dir[..dir.len().min(100)]))).into());
        }
        let id = ArtifactId::from_digest(tree);
        let entries = decode_tree(&self.get_document(&id)?).map_err(|error| damaged(format!("tree {id}: {error}")))?;
        for entry in entries {
            let len = dir.len();
            if len > 0 {
                dir.push(b'/');
            }
            dir.extend_from_slice(&entry.name);
            items.push(Item { path: dir.clone(), node: entry.node });
            if entry.node.kind == NodeKind::Dir {
                self.list_tree(checkpoint, entry.node.id, dir, depth + 1, items)?;
            }
            dir.truncate(len);
        }
        Ok(())
    }

    /// How two checkpoints differ, or one from the files as they are in a workspace now.
    pub fn workspace_diff(
        &self,
        from: WorkspaceView,
        to: Option<WorkspaceView>,
        root: &Path,
        paths: &[Vec<u8>],
    ) -> Result<WorkspaceDiff> {
        let (manifest, old) = self.listing(&from)?;
        let new = match &to {
            Some(to) => self.listing(to)?.1,
            None => self.present(&Root::open(root)?, manifest.ignored)?,
        };
        let wanted = |change: &&Change| is_among(&change.path, paths);
        let changes = changes(&old, &new).iter().filter(wanted).map(WorkspaceChange::of).collect();
        Ok(WorkspaceDiff { from, to, changes })
    }
}

/// Whether a path is one of these or below one; all are, if none is named.
pub(super) fn is_among(path: &[u8], paths: &[Vec<u8>]) -> bool {
    paths.is_empty() || paths.iter().any(|above| enjamb_core::workspace::is_within(path, above))
}

fn view(created: CheckpointCreated, stream: StreamId, seq: u64) -> WorkspaceView {
    WorkspaceView {
        id: created.checkpoint_id,
        label: created.label,
        created_at_ms: created.created_at_ms,
        auto: created.auto,
        tool_name: created.tool_name,
        workspace: created.workspace,
        manifest: created.manifest_artifact_id.and_then(|hex| hex.parse().ok()),
        files_changed: created.files_changed.unwrap_or(created.files.len() as u64),
        files: created.files,
        stream,
        seq,
    }
}

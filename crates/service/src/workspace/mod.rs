//! Workspace checkpoints: the files of a directory as they are now, kept so that they can be compared and restored.
//!
//! A checkpoint is a frame `checkpoint_created` in the stream of a session, which names a manifest; the manifest names
//! trees, and trees name files. All of it is stored in one batch. What runs a tool that may write calls
//! [`Store::workspace_checkpoint`] before it does.

mod content;
mod error;
mod git;
mod git_index;
mod journal;
mod keep;
mod link;
mod reach;
mod restore;
mod rewind;
mod root;
mod scan;
mod stats;
mod take;
mod view;

#[cfg(test)]
mod tests;

use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use enjamb_core::frame::{Body, CheckpointAction, CheckpointCreated, CheckpointFailed};
use enjamb_core::workspace::{Manifest, escape};
use enjamb_core::{ArtifactId, StreamId, StreamKind, limits};
use enjamb_ledger::{Batch, NewFrame, private};

pub use content::WorkspaceContent;
pub use error::WorkspaceError;
pub use link::Forked;
pub(crate) use link::WORKSPACE_CHECKPOINT;
pub use rewind::{Interrupted, Rewind, RewindPlan, RewindTo, Rewound};
pub use root::Root;
pub use view::{WorkspaceChange, WorkspaceDiff, WorkspaceView};

use crate::{Actor, Result, ServiceError, Store};
use scan::Scope;
use take::Taken;

/// Paths that a frame lists; the manifest has them all.
const FRAME_FILES_MAX: usize = 1_000;
const FRAME_FILES_BYTES_MAX: usize = 256 << 10;
/// How long a workspace that someone else is at is waited for.
const BUSY_WAIT: Duration = Duration::from_secs(10);
const BUSY_LOOK_EVERY: Duration = Duration::from_millis(2);

/// A checkpoint to make.
#[derive(Clone, Debug, Default)]
pub struct WorkspaceCheckpoint {
    /// The workspace's directory.
    pub root: PathBuf,
    /// The session whose stream the frame goes to; the workspace's own, if none is named.
    pub session: Option<String>,
    pub label: String,
    /// Made for a tool, and not because somebody asked.
    pub auto: bool,
    pub tool_name: Option<String>,
    /// Also what version control ignores.
    pub ignored: bool,
    /// These paths, even if they are ignored: what a tool says that it will write to. Relative to the root.
    pub also: Vec<PathBuf>,
}

impl WorkspaceCheckpoint {
    /// What a run makes before a tool that may write to files.
    pub fn before_tool(root: &Path, session: &str, tool_name: &str, also: Vec<PathBuf>) -> Self {
        Self {
            root: root.to_owned(),
            session: Some(session.to_owned()),
            label: format!("auto:{tool_name}"),
            auto: true,
            tool_name: Some(tool_name.to_owned()),
            ignored: false,
            also,
        }
    }

    /// What a run makes after such a tool: how it left the files.
    pub fn after_tool(root: &Path, session: &str, tool_name: &str, also: Vec<PathBuf>) -> Self {
        Self { label: format!("after:{tool_name}"), ..Self::before_tool(root, session, tool_name, also) }
    }
}

/// A checkpoint that was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkspaceCheckpointed {
    /// Of the checkpoint, and of its frame.
    pub id: String,
    pub stream: StreamId,
    pub seq: u64,
    pub manifest: ArtifactId,
    /// Of the whole workspace.
    pub files: u64,
    pub bytes: u64,
    /// Paths that differ from the checkpoint before; all of them, if there was none.
    pub changed: Vec<String>,
}

impl Store {
    /// Keeps the files of a workspace as they are, and returns when they are on disk. Of a session's checkpoint that could
    /// not be made, the session's stream says so.
    pub fn workspace_checkpoint(&self, request: &WorkspaceCheckpoint, by: &Actor) -> Result<WorkspaceCheckpointed> {
        let made = self.checkpoint_now(request, by);
        if let (Err(error), Some(session)) = (&made, &request.session) {
            let body: Body = CheckpointFailed { action: CheckpointAction::Create, error: error.to_string() }.into();
            // What went wrong with the checkpoint is worth more to the caller than what went wrong with telling of it.
            let _ = session_stream(session).and_then(|stream| self.append_bodies(&stream, &[body], Vec::new()));
        }
        made
    }

    fn checkpoint_now(&self, request: &WorkspaceCheckpoint, by: &Actor) -> Result<WorkspaceCheckpointed> {
        let root = Root::open(&request.root)?;
        let place = self.workspace_place(&root)?;
        place.check_settled(&root)?;
        let scope = self.scope_of(&root, request)?;
        self.checkpoint_locked(&root, &place, &scope, request, by).map(|(made, _)| made)
    }

    fn scope_of(&self, root: &Root, request: &WorkspaceCheckpoint) -> Result<Scope> {
        let also = request.also.iter().map(|path| root.inside(path, root.path())).collect::<Result<_>>()?;
        Ok(Scope { ignored: request.ignored, store: self.own_dir(), also })
    }

    fn own_dir(&self) -> PathBuf {
        self.dir().canonicalize().unwrap_or_else(|_| self.dir().to_owned())
    }

    /// Makes a checkpoint of a workspace that nobody else is at.
    fn checkpoint_locked(
        &self,
        root: &Root,
        place: &Place,
        scope: &Scope,
        request: &WorkspaceCheckpoint,
        by: &Actor,
    ) -> Result<(WorkspaceCheckpointed, Taken)> {
        let before = self.noted(place)?;
        let mut taken = self.take(root, scope, &before, Some(by))?;
        let manifest = taken.manifest(root, scope.ignored);
        let id = self.env.new_id();
        let stream = session_stream(request.session.as_deref().unwrap_or(&place.session))?;
        let (made, batch) = self.batch_of(root, request, &mut taken, (id, stream), &manifest, by)?;
        let seq = self.ledger.append(batch)?.frames.first().map_or(0, |frame| frame.seq);
        // Without it the next checkpoint only takes longer.
        let _ = taken.stats(&made.id).write(&place.stats());
        Ok((WorkspaceCheckpointed { seq, ..made }, taken))
    }

    fn batch_of(
        &self,
        root: &Root,
        request: &WorkspaceCheckpoint,
        taken: &mut Taken,
        (id, stream): (String, StreamId),
        manifest: &Manifest,
        by: &Actor,
    ) -> Result<(WorkspaceCheckpointed, Batch)> {
        let mut artifacts = std::mem::take(&mut taken.kept.artifacts);
        let mut new = Vec::new();
        for tree in std::mem::take(&mut taken.trees) {
            match tree.bytes.len() {
                0..=limits::ARTIFACT_INLINE_BYTES_MAX => new.push((tree.id, tree.bytes)),
                _ => artifacts.push(self.artifact_of(tree.bytes)?),
            }
        }
        let document = manifest.to_json();
        let document_id = ArtifactId::of(&document);
        new.push((document_id.digest(), document));
        artifacts.extend(self.wanted(new, by)?);
        let made = WorkspaceCheckpointed {
            id: id.clone(),
            stream: stream.clone(),
            seq: 0,
            manifest: document_id,
            files: manifest.files,
            bytes: manifest.bytes,
            changed: taken.changed.iter().map(|path| escape(path)).collect(),
        };
        let body: Body = CheckpointCreated {
            checkpoint_id: id.clone(),
            label: request.label.clone(),
            created_at_ms: self.env.now().as_millis(),
            files: listed(&made.changed),
            auto: request.auto,
            tool_name: request.tool_name.clone(),
            workspace: Some(root.text()),
            manifest_artifact_id: Some(made.manifest.to_hex()),
            files_changed: Some(made.changed.len() as u64),
            actor_id: Some(by.actor_id.clone()),
            origin: Some(by.origin.clone()),
        }
        .into();
        let frame = NewFrame { id, ..self.frame_of(&stream, &body)? };
        let segments = std::mem::take(&mut taken.kept.segments);
        Ok((made, Batch { artifacts, segments, frames: vec![frame], ..Batch::default() }))
    }

    /// Where the store keeps what is its own about a workspace, while nobody else is at it.
    fn workspace_place(&self, root: &Root) -> Result<Place> {
        let key = root.key();
        let dir = self.dir().join("workspaces").join(&key);
        let failed = |source| ServiceError::File { path: dir.clone(), source };
        private::make_dir(&dir).map_err(failed)?;
        let lock = private::create_if_missing(&dir.join("lock")).map_err(failed)?;
        // Whoever is at it is hardly ever at it for long: runs make checkpoints of one workspace at the same time.
        let began = Instant::now();
        loop {
            match lock.try_lock() {
                Ok(()) => return Ok(Place { session: format!("workspace-{key}"), dir, _lock: lock }),
                Err(TryLockError::WouldBlock) if began.elapsed() < BUSY_WAIT => std::thread::sleep(BUSY_LOOK_EVERY),
                Err(TryLockError::WouldBlock) => return Err(WorkspaceError::Busy(root.path().to_owned()).into()),
                Err(TryLockError::Error(source)) => return Err(failed(source)),
            }
        }
    }
}

/// A directory of the store, and the lock on it.
struct Place {
    dir: PathBuf,
    /// The stream of checkpoints that no run asked for.
    session: String,
    _lock: File,
}

impl Place {
    fn stats(&self) -> PathBuf {
        self.dir.join("stats")
    }
}

fn session_stream(session: &str) -> Result<StreamId> {
    Ok(StreamId::new(StreamKind::Session, session)?)
}

/// As many paths as a frame has room for.
fn listed(paths: &[String]) -> Vec<String> {
    let mut bytes = 0;
    let fits = |path: &&String| {
        bytes += path.len() + 3;
        bytes <= FRAME_FILES_BYTES_MAX
    };
    paths.iter().take(FRAME_FILES_MAX).take_while(fits).cloned().collect()
}

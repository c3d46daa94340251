//! Workspace checkpoints: the files of a directory as they were.

use enjamb_core::CommitId;
use enjamb_core::workspace::{Node, NodeKind};
use enjamb_service::{RewindPlan, Rewound, WorkspaceCheckpointed, WorkspaceView};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::instant;

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct WorkspaceCheckpoint {
    pub checkpoint: String,
    pub label: String,
    pub created_at: String,
    /// Made for a tool, and not because somebody asked
    pub auto: bool,
    pub tool: Option<String>,
    /// The directory, on the machine that it was made on
    pub workspace: Option<String>,
    pub manifest: Option<String>,
    /// How many paths differ from the checkpoint before
    pub changed: u64,
    pub stream: String,
    pub seq: u64,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct WorkspaceCheckpoints {
    pub checkpoints: Vec<WorkspaceCheckpoint>,
}

/// A checkpoint that was made.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct WorkspaceMade {
    pub checkpoint: String,
    pub stream: String,
    pub seq: u64,
    pub manifest: String,
    pub files: u64,
    pub bytes: u64,
    /// Paths that differ from the checkpoint before
    pub changed: Vec<String>,
    /// The context commit that it was linked to
    pub commit: Option<String>,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct WorkspaceDiff {
    pub from: String,
    /// Nothing for the files as they are
    pub to: Option<String>,
    pub changes: Vec<WorkspaceChange>,
}

/// A rewind that was made, or that would be.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct WorkspaceRewind {
    pub dry_run: bool,
    pub checkpoint: String,
    /// The checkpoint of what was there before
    pub saved: Option<String>,
    pub changes: Vec<WorkspaceChange>,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct WorkspaceChange {
    pub path: String,
    /// `added`, `removed`, `changed`, `mode` or `kind`
    pub what: String,
    pub from: Option<WorkspaceNode>,
    pub to: Option<WorkspaceNode>,
}

/// What stands at a path.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct WorkspaceNode {
    /// `file`, `link` or `dir`
    pub kind: String,
    /// In octal
    pub mode: String,
    pub bytes: u64,
    /// Digits of the artifact that holds its bytes
    pub artifact: String,
}

impl From<&WorkspaceView> for WorkspaceCheckpoint {
    fn from(view: &WorkspaceView) -> Self {
        Self {
            checkpoint: view.id.clone(),
            label: view.label.clone(),
            created_at: instant(view.created_at_ms),
            auto: view.auto,
            tool: view.tool_name.clone(),
            workspace: view.workspace.clone(),
            manifest: view.manifest.map(|id| id.to_string()),
            changed: view.files_changed,
            stream: view.stream.to_string(),
            seq: view.seq,
        }
    }
}

impl WorkspaceMade {
    pub fn of(made: &WorkspaceCheckpointed, commit: Option<CommitId>) -> Self {
        Self {
            checkpoint: made.id.clone(),
            stream: made.stream.to_string(),
            seq: made.seq,
            manifest: made.manifest.to_string(),
            files: made.files,
            bytes: made.bytes,
            changed: made.changed.clone(),
            commit: commit.map(|id| id.to_string()),
        }
    }
}

impl From<&enjamb_service::WorkspaceDiff> for WorkspaceDiff {
    fn from(diff: &enjamb_service::WorkspaceDiff) -> Self {
        let to = diff.to.as_ref().map(|to| to.id.clone());
        Self { from: diff.from.id.clone(), to, changes: diff.changes.iter().map(WorkspaceChange::from).collect() }
    }
}

impl From<&RewindPlan> for WorkspaceRewind {
    fn from(plan: &RewindPlan) -> Self {
        let changes = plan.changes.iter().map(WorkspaceChange::from).collect();
        Self { dry_run: true, checkpoint: plan.target.id.clone(), saved: None, changes }
    }
}

impl From<&Rewound> for WorkspaceRewind {
    fn from(rewound: &Rewound) -> Self {
        let changes = rewound.changes.iter().map(WorkspaceChange::from).collect();
        let saved = Some(rewound.saved.id.clone());
        Self { dry_run: false, checkpoint: rewound.target.id.clone(), saved, changes }
    }
}

impl From<&enjamb_service::WorkspaceChange> for WorkspaceChange {
    fn from(change: &enjamb_service::WorkspaceChange) -> Self {
        let side = |node: &Option<Node>| node.as_ref().map(WorkspaceNode::from);
        let (path, what) = (change.path.clone(), change.what.to_owned());
        Self { path, what, from: side(&change.from), to: side(&change.to) }
    }
}

impl From<&Node> for WorkspaceNode {
    fn from(node: &Node) -> Self {
        let kind = match node.kind {
            NodeKind::File => "file",
            NodeKind::Link => "link",
            NodeKind::Dir => "dir",
        };
        Self { kind: kind.into(), mode: format!("{:o}", node.mode), bytes: node.size, artifact: node.id.to_hex() }
    }
}

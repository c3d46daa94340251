//! Threads, and what links them.

use enjamb_core::frame::SelectionDecided;
use enjamb_service::{CursorView, ThreadChild, ThreadEdge, ThreadHit, ThreadView};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::parsed;

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Thread {
    pub thread_id: String,
    pub workspace: Option<String>,
    pub title: Option<String>,
    pub created_at_ms: u64,
    pub updated_at_ms: u64,
    pub frames: u64,
    pub messages: u64,
    pub archived: bool,
    pub tags: Vec<String>,
    pub origin: Option<Origin>,
    /// Whether it was made by this very request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created: Option<bool>,
}

/// Where a thread came from.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Origin {
    /// `branch` or `handoff`
    pub kind: String,
    pub thread_id: String,
    pub seq: u64,
    pub message_id: Option<String>,
    pub summary_artifact: Option<String>,
}

impl From<&ThreadView> for Thread {
    fn from(view: &ThreadView) -> Self {
        let origin = view.origin.as_ref().map(|origin| Origin {
            kind: origin.kind.to_owned(),
            thread_id: origin.thread.clone(),
            seq: origin.seq,
            message_id: origin.message.clone(),
            summary_artifact: origin.summary_artifact.clone(),
        });
        Self {
            thread_id: view.id.clone(),
            workspace: view.workspace.clone(),
            title: view.title.clone(),
            created_at_ms: view.created_ms,
            updated_at_ms: view.updated_ms,
            frames: view.frames,
            messages: view.messages,
            archived: view.archived,
            tags: view.tags.clone(),
            origin,
            created: None,
        }
    }
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Threads {
    pub threads: Vec<Thread>,
    pub next: Option<String>,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct PostedMessage {
    pub thread_id: String,
    pub message_id: String,
    pub seq: u64,
    pub run: Option<String>,
    pub replayed: bool,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Child {
    pub thread_id: String,
    pub parent_thread_id: String,
    pub parent_seq: u64,
    pub parent_message_id: Option<String>,
    pub summary_artifact: Option<String>,
}

impl From<&ThreadChild> for Child {
    fn from(child: &ThreadChild) -> Self {
        Self {
            thread_id: child.thread.id.clone(),
            parent_thread_id: child.parent.id.clone(),
            parent_seq: child.cut.seq,
            parent_message_id: child.cut.message.clone(),
            summary_artifact: child.summary.map(|id| id.to_string()),
        }
    }
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Reference {
    pub thread_id: String,
    pub to_thread_id: String,
    pub seq: u64,
    pub extract: String,
    pub messages: u64,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Hit {
    pub thread_id: String,
    pub seq: u64,
    pub at_ms: u64,
    pub actor_id: String,
    pub id: String,
    pub text: String,
}

impl From<&ThreadHit> for Hit {
    fn from(hit: &ThreadHit) -> Self {
        Self {
            thread_id: hit.thread.clone(),
            seq: hit.seq,
            at_ms: hit.at_ms,
            actor_id: hit.actor_id.clone(),
            id: hit.id.clone(),
            text: hit.text.clone(),
        }
    }
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Hits {
    pub hits: Vec<Hit>,
    /// The cursor of the next page, if there may be one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Edge {
    /// `branch`, `handoff` or `reference`
    pub kind: String,
    pub from: String,
    pub to: String,
    pub to_seq: Option<u64>,
}

impl From<&ThreadEdge> for Edge {
    fn from(edge: &ThreadEdge) -> Self {
        Self { kind: edge.kind.to_owned(), from: edge.from.clone(), to: edge.to.clone(), to_seq: edge.to_seq }
    }
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ThreadMap {
    pub threads: Vec<Thread>,
    pub edges: Vec<Edge>,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Pins {
    pub thread_id: String,
    /// The messages that are pinned.
    pub pinned: Vec<String>,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct CheckpointName {
    pub checkpoint_id: String,
    pub to_seq: u64,
}

/// What was decided for a run's context.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Decision {
    pub seq: u64,
    pub run: String,
    pub message_id: String,
    pub strategy: String,
    pub limits: Value,
    pub reason: Option<Value>,
    pub checkpoints: Vec<CheckpointName>,
    pub resets: u64,
}

impl From<&(u64, SelectionDecided)> for Decision {
    fn from((seq, decision): &(u64, SelectionDecided)) -> Self {
        let checkpoints = decision.compaction_checkpoints.iter().map(|checkpoint| CheckpointName {
            checkpoint_id: checkpoint.checkpoint_id.clone(),
            to_seq: checkpoint.to_seq,
        });
        Self {
            seq: *seq,
            run: decision.run_session_id.clone(),
            message_id: decision.message_id.clone(),
            strategy: decision.compiler_strategy.clone(),
            limits: parsed(&decision.limits),
            reason: decision.reason.as_ref().map(parsed),
            checkpoints: checkpoints.collect(),
            resets: decision.resets.len() as u64,
        }
    }
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Decisions {
    pub thread_id: String,
    pub decisions: Vec<Decision>,
}

/// Where a provider's own conversation stands.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Cursor {
    pub seq: u64,
    pub provider: String,
    pub endpoint: Option<String>,
    pub model: Option<String>,
    pub cursor: Option<Value>,
    pub action: String,
    pub reason: Option<String>,
    pub run: Option<String>,
}

impl From<&CursorView> for Cursor {
    fn from(view: &CursorView) -> Self {
        let update = &view.update;
        Self {
            seq: view.seq,
            provider: update.provider.clone(),
            endpoint: update.endpoint.clone(),
            model: update.model.clone(),
            cursor: update.cursor.as_ref().map(parsed),
            action: update.action.clone(),
            reason: update.reason.clone(),
            run: update.run_session_id.clone(),
        }
    }
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Cursors {
    pub active: Option<Cursor>,
    pub cursors: Vec<Cursor>,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Rotated {
    /// Whether a cursor fitted; if none did, nothing was written.
    pub rotated: bool,
    pub cursor: Option<Cursor>,
}

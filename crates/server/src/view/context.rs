//! Commits, their histories and what is made of them.

use enjamb_core::chain::CommitKind;
use enjamb_core::frame::{CommitType, ContextCommitted, Trigger};
use enjamb_core::{CommitId, Json};
use enjamb_ledger::{Link, StoredCommit};
use enjamb_service::{Checkpointed, Difference, Materialized, Page, RefView, Side};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::parsed;

/// A number of tokens, and how they were counted.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Tokens {
    pub value: u64,
    pub method: Option<String>,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Context {
    pub id: String,
    /// `delta`, `compaction` or `snapshot`
    #[serde(rename = "type")]
    pub kind: String,
    pub parent: Option<String>,
    pub generation: u64,
    pub principal: Option<String>,
    pub template: Option<String>,
    pub machine: Option<String>,
    pub session_id: Option<String>,
    pub ticket_id: Option<String>,
    pub thread_id: Option<String>,
    /// What made it happen.
    pub checkpoint: String,
    pub format: String,
    pub artifact: String,
    pub messages: u64,
    pub tokens: Tokens,
    pub created_at: String,
    pub summary: Option<String>,
    pub tags: Vec<String>,
    pub attributes: Option<Value>,
    pub stream: String,
    pub seq: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub children: Option<Vec<String>>,
}

impl Context {
    pub fn of(stored: &StoredCommit, children: Option<&[CommitId]>) -> Self {
        let commit = &stored.commit;
        Self {
            id: commit.commit_id.clone(),
            kind: stored.link.kind.as_str().to_owned(),
            parent: commit.parent.clone(),
            generation: stored.link.generation,
            principal: commit.principal.clone(),
            template: commit.template.clone(),
            machine: commit.machine.clone(),
            session_id: commit.agent_session_id.clone(),
            ticket_id: commit.ticket_id.clone(),
            thread_id: commit.thread_id.clone(),
            checkpoint: commit.checkpoint.as_str().to_owned(),
            format: commit.format.clone(),
            artifact: commit.artifact_ref.clone(),
            messages: commit.message_count,
            tokens: Tokens { value: commit.token_count, method: commit.token_method.clone() },
            created_at: commit.created_at.clone(),
            summary: stored.summary.clone(),
            tags: stored.tags.clone(),
            attributes: commit.attributes.as_ref().map(parsed),
            stream: stored.stream.to_string(),
            seq: stored.seq,
            children: children.map(ids),
        }
    }
}

impl Context {
    /// The commit as a store on this machine has it.
    pub fn stored(&self) -> Option<StoredCommit> {
        let kind = match self.kind.as_str() {
            "delta" => CommitKind::Delta,
            "compaction" => CommitKind::Compaction,
            "snapshot" => CommitKind::Snapshot,
            _ => return None,
        };
        let link = Link {
            id: self.id.parse().ok()?,
            parent: self.parent.as_deref().and_then(|parent| parent.parse().ok()),
            kind,
            generation: self.generation,
            created_at: self.created_at.parse().ok()?,
        };
        let (summary, tags) = (self.summary.clone(), self.tags.clone());
        Some(StoredCommit {
            link,
            stream: self.stream.parse().ok()?,
            seq: self.seq,
            commit: self.frame(kind),
            summary,
            tags,
        })
    }

    fn frame(&self, kind: CommitKind) -> ContextCommitted {
        ContextCommitted {
            commit_id: self.id.clone(),
            version: 1,
            parent: self.parent.clone(),
            commit_type: match kind {
                CommitKind::Delta => CommitType::Delta,
                CommitKind::Compaction => CommitType::Compaction,
                CommitKind::Snapshot => CommitType::Snapshot,
            },
            artifact_ref: self.artifact.clone(),
            format: self.format.clone(),
            template: self.template.clone(),
            principal: self.principal.clone(),
            machine: self.machine.clone(),
            agent_session_id: self.session_id.clone(),
            checkpoint: Trigger::from(self.checkpoint.as_str()),
            ticket_id: self.ticket_id.clone(),
            thread_id: self.thread_id.clone(),
            summary: self.summary.clone(),
            message_count: self.messages,
            token_count: self.tokens.value,
            token_method: self.tokens.method.clone(),
            created_at: self.created_at.clone(),
            attributes: self.attributes.clone().map(Json::from),
        }
    }
}

pub fn ids(ids: &[CommitId]) -> Vec<String> {
    ids.iter().map(ToString::to_string).collect()
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Contexts {
    pub contexts: Vec<Context>,
    /// Give it as `cursor` for the next page.
    pub next: Option<String>,
}

impl From<&Page> for Contexts {
    fn from(page: &Page) -> Self {
        let contexts = page.commits.iter().map(|commit| Context::of(commit, None)).collect();
        Self { contexts, next: page.next.map(|id| id.to_string()) }
    }
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ContextIds {
    pub contexts: Vec<String>,
    /// There are more than are listed.
    pub more: bool,
}

/// A commit that was made.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Made {
    pub id: String,
    pub artifact: String,
    pub messages: u64,
    pub tokens: Tokens,
    /// The very same commit was there already.
    pub known: bool,
}

impl From<&Checkpointed> for Made {
    fn from(made: &Checkpointed) -> Self {
        Self {
            id: made.id.to_string(),
            artifact: made.artifact.to_string(),
            messages: made.messages,
            tokens: Tokens { value: made.tokens, method: Some(made.token_method.clone()) },
            known: made.known,
        }
    }
}

/// Commits that were made together, oldest first.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct MadeAll {
    pub commits: Vec<Made>,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Resolved {
    pub id: String,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct MergeBase {
    /// Null when the two share nothing.
    pub id: Option<String>,
}

/// What became of the blocks of a conversation that was translated.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Fate {
    pub outcome: String,
    pub reason: String,
    pub blocks: u64,
}

/// What was materialized.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Account {
    /// `native`, `mapped`, `rendered` or `raw`
    pub tier: String,
    pub format: String,
    pub commits: u64,
    pub bytes: u64,
    pub messages: u64,
    pub tokens: u64,
    pub ledger: Option<Vec<Fate>>,
}

impl From<&Materialized> for Account {
    fn from(said: &Materialized) -> Self {
        let fate = |(outcome, reason, blocks): (enjamb_formats::Outcome, &str, u64)| Fate {
            outcome: outcome.as_str().to_owned(),
            reason: reason.to_owned(),
            blocks,
        };
        Self {
            tier: said.tier.as_str().to_owned(),
            format: said.format.clone(),
            commits: said.commits,
            bytes: said.bytes,
            messages: said.messages,
            tokens: said.tokens,
            ledger: said.ledger.as_ref().map(|ledger| ledger.rows().map(fate).collect()),
        }
    }
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct DiffSide {
    pub id: String,
    pub commits: u64,
    pub messages: u64,
    pub tokens: u64,
    pub tools: Vec<String>,
    pub read: Vec<String>,
    pub wrote: Vec<String>,
    pub ends: Option<String>,
}

/// What two contexts share, and what each has of its own.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Diff {
    pub shared: Option<String>,
    pub a: DiffSide,
    pub b: DiffSide,
}

impl Diff {
    pub fn of(a: &CommitId, b: &CommitId, difference: &Difference) -> Self {
        let side = |id: &CommitId, side: &Side| DiffSide {
            id: id.to_string(),
            commits: side.commits,
            messages: side.messages,
            tokens: side.tokens,
            tools: side.tools.clone(),
            read: side.read.clone(),
            wrote: side.wrote.clone(),
            ends: side.ends.clone(),
        };
        let [left, right] = &difference.sides;
        Self { shared: difference.shared.map(|id| id.to_string()), a: side(a, left), b: side(b, right) }
    }
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Ref {
    pub name: String,
    pub commit: Option<String>,
    /// What it named before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous: Option<String>,
}

impl From<&RefView> for Ref {
    fn from(view: &RefView) -> Self {
        Self { name: view.name.clone(), commit: Some(view.commit.to_string()), previous: None }
    }
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Refs {
    pub refs: Vec<Ref>,
}

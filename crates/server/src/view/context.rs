//! Commits, their histories and what is made of them.

use enjamb_core::CommitId;
use enjamb_ledger::StoredCommit;
use enjamb_service::{Checkpointed, Difference, Materialized, Page, RefView, Side, tags_of, tickets_of};
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
    /// The one that it was made for, and those that it was linked to since.
    pub tickets: Vec<String>,
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
            tags: tags_of(stored).into_iter().map(str::to_owned).collect(),
            tickets: tickets_of(stored).into_iter().map(str::to_owned).collect(),
            attributes: commit.attributes.as_ref().map(parsed),
            stream: stored.stream.to_string(),
            seq: stored.seq,
            children: children.map(ids),
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
pub struct SomeContexts {
    pub contexts: Vec<Context>,
    /// There are more than are listed.
    pub more: bool,
}

/// What a word names: a thread or a commit.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Named {
    pub thread_id: Option<String>,
    pub context: Option<String>,
}

/// The commit of whoever asks.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Current {
    pub id: String,
    /// How it was found: `context`, `session`, `directory` or `principal`
    pub by: String,
    pub session_id: Option<String>,
    pub runtime: Option<String>,
}

/// The tickets of a commit.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Links {
    pub id: String,
    pub tickets: Vec<String>,
}

/// What a run of summaries did.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Summaries {
    pub written: u64,
    /// Those that say nothing to sum up.
    pub skipped: u64,
    /// Those that are still without one.
    pub remaining: u64,
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

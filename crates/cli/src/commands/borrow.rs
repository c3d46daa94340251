//! A chain of commits that a server has, in a store that is thrown away: for what has to be read here, byte by byte.

use std::ops::Deref;

use enjamb_core::CommitId;
use enjamb_core::chain::CommitKind;
use enjamb_server::{Operations, view};
use enjamb_service::{Actor, Checkpoint, Content, Env, Filter, PutOptions, ServiceError, Store};
use serde_json::json;
use tempfile::TempDir;

use super::Context;
use super::log::{commit_id, list};
use super::remote::unreadable;
use crate::failure::Result;

/// A store to read a chain from: the one that is here, or a copy of the chain.
pub struct Lent {
    store: Store,
    /// Goes when the store does.
    _dir: Option<TempDir>,
}

impl Deref for Lent {
    type Target = Store;

    fn deref(&self) -> &Store {
        &self.store
    }
}

impl Context<'_> {
    /// A store that holds the chain of a commit, and a word for the commit there. What is written to a copy is lost with it.
    pub fn open_chain(&self, revision: &str) -> Result<(Lent, String)> {
        if self.address().is_none() {
            return Ok((Lent { store: self.open()?, _dir: None }, revision.to_owned()));
        }
        let operations = self.operations()?;
        let tip = commit_id(&operations, revision)?;
        let page = list(&operations, Some(&tip), &Filter::default(), None, usize::MAX)?;
        let here = |source| ServiceError::File { path: std::env::temp_dir(), source };
        let dir = TempDir::with_prefix("enjamb-").map_err(here)?;
        let store = Store::create(dir.path(), Env::system())?;
        for commit in page.contexts.iter().rev() {
            copy(&operations, &store, commit, &self.actor())?;
        }
        Ok((Lent { store, _dir: Some(dir) }, tip))
    }
}

/// Copies one commit. Its id is that of what it holds, so a copy that differs is found.
fn copy(operations: &Operations, store: &Store, commit: &view::Context, by: &Actor) -> Result<()> {
    let (bytes, _) = operations.bytes("get", json!({"artifact": commit.artifact}))?;
    let expected = commit.artifact.parse().map_err(|_| unreadable("an id"))?;
    let options = PutOptions { expected: Some(expected), ttl_ms: None, by: by.clone() };
    let artifact = store.put(&mut bytes.as_slice(), &options)?.id;
    let id: CommitId = commit.id.parse().map_err(|_| unreadable("an id"))?;
    let made = store.checkpoint(request(commit, Content::Stored(artifact))?)?;
    if made.id == id { Ok(()) } else { Err(unreadable("a commit")) }
}

fn request(commit: &view::Context, content: Content) -> Result<Checkpoint> {
    let parent = commit.parent.as_deref().map(|parent| parent.parse().map_err(|_| unreadable("an id")));
    Ok(Checkpoint {
        parent: parent.transpose()?,
        kind: match commit.kind.as_str() {
            "compaction" => CommitKind::Compaction,
            "snapshot" => CommitKind::Snapshot,
            _ => CommitKind::Delta,
        },
        content,
        format: commit.format.clone(),
        principal: commit.principal.clone().unwrap_or_else(|| "user".into()),
        trigger: commit.checkpoint.clone(),
        template: commit.template.clone(),
        machine: commit.machine.clone(),
        session_id: commit.session_id.clone(),
        ticket_id: commit.ticket_id.clone(),
        thread_id: commit.thread_id.clone(),
        summary: commit.summary.clone(),
        attributes: commit.attributes.clone(),
        created_at: Some(commit.created_at.parse().map_err(|_| unreadable("a time"))?),
    })
}

//! Workspaces: files of the machine that the store is on, kept, compared and put back. What is stored is for whoever may
//! read; the files themselves are the owner's.

use std::path::PathBuf;

use enjamb_service::{Rewind, RewindTo, Root, WorkspaceCheckpoint};
use schemars::JsonSchema;
use serde::Deserialize;

use super::rows;
use crate::call::Call;
use crate::problem::{Problem, Result};
use crate::route::{Method, Route, Scope, at};
use crate::view;

pub fn routes() -> Vec<Route> {
    use Method::{Get, Post};
    vec![
        at(Get, "/v1/workspaces/checkpoints", "workspace_checkpoints", Scope::Read, "List workspace checkpoints")
            .json(list),
        at(Post, "/v1/workspaces/checkpoints", "checkpoint_workspace", Scope::Owner, "Keep the files of a workspace")
            .status(201)
            .json(make),
        at(
            Get,
            "/v1/workspaces/checkpoints/{checkpoint}",
            "workspace_checkpoint",
            Scope::Read,
            "Show a workspace checkpoint",
        )
        .json(show),
        at(
            Get,
            "/v1/workspaces/checkpoints/{checkpoint}/diff",
            "workspace_diff",
            Scope::Read,
            "How two workspace checkpoints differ",
        )
        .json(diff),
        at(
            Get,
            "/v1/workspaces/checkpoints/{checkpoint}/changes",
            "workspace_changes",
            Scope::Owner,
            "How the files of a workspace differ from a checkpoint",
        )
        .json(changes),
        at(Post, "/v1/workspaces/rewind", "rewind_workspace", Scope::Owner, "Make files what a checkpoint says")
            .json(rewind),
    ]
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct List {
    /// Only those of this directory
    root: Option<String>,
    limit: Option<usize>,
}

fn list(call: &Call, asked: List) -> Result<view::WorkspaceCheckpoints> {
    // Compared with what frames say: nobody learns here which directories there are.
    let mut found =
        call.store().workspace_checkpoints(None, if asked.root.is_some() { usize::MAX } else { rows(asked.limit) })?;
    found.retain(|view| asked.root.is_none() || view.workspace == asked.root);
    found.truncate(rows(asked.limit));
    Ok(view::WorkspaceCheckpoints { checkpoints: found.iter().map(view::WorkspaceCheckpoint::from).collect() })
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Make {
    /// A directory of the machine that the store is on
    root: String,
    #[serde(default)]
    label: String,
    /// Also what .gitignore ignores
    #[serde(default)]
    ignored: bool,
    /// These paths, even if they are ignored
    #[serde(default)]
    also: Vec<String>,
    /// A context commit that it belongs to
    commit: Option<String>,
}

fn make(call: &Call, asked: Make) -> Result<view::WorkspaceMade> {
    let (store, by) = (call.store(), call.actor());
    let commit = asked.commit.as_deref().map(|word| store.revision(word)).transpose()?;
    let request = WorkspaceCheckpoint {
        root: asked.root.into(),
        label: asked.label,
        ignored: asked.ignored,
        also: asked.also.into_iter().map(PathBuf::from).collect(),
        ..WorkspaceCheckpoint::default()
    };
    let made = store.workspace_checkpoint(&request, &by)?;
    if let Some(commit) = &commit {
        store.link_workspace(commit, &made.id, &by)?;
    }
    Ok(view::WorkspaceMade::of(&made, commit))
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct One {
    /// An id, or the beginning of one
    checkpoint: String,
}

fn show(call: &Call, asked: One) -> Result<view::WorkspaceCheckpoint> {
    Ok(view::WorkspaceCheckpoint::from(&call.store().workspace_checkpoint_named(&asked.checkpoint)?))
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Diff {
    checkpoint: String,
    /// The checkpoint to compare with
    to: String,
}

fn diff(call: &Call, asked: Diff) -> Result<view::WorkspaceDiff> {
    let store = call.store();
    let from = store.workspace_checkpoint_named(&asked.checkpoint)?;
    let to = store.workspace_checkpoint_named(&asked.to)?;
    Ok(view::WorkspaceDiff::from(&store.workspace_diff(from, Some(to), "/".as_ref(), &[])?))
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Changes {
    checkpoint: String,
    /// The directory; the one that the checkpoint is of, if not given
    root: Option<String>,
}

fn changes(call: &Call, asked: Changes) -> Result<view::WorkspaceDiff> {
    let store = call.store();
    let from = store.workspace_checkpoint_named(&asked.checkpoint)?;
    let root = asked.root.or_else(|| from.workspace.clone()).unwrap_or_default();
    Ok(view::WorkspaceDiff::from(&store.workspace_diff(from, None, root.as_ref(), &[])?))
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Back {
    root: String,
    /// The checkpoint to go to
    checkpoint: Option<String>,
    /// `continue` or `undo` a rewind that was cut short
    unfinished: Option<Unfinished>,
    /// Only these paths, seen from the root
    #[serde(default)]
    paths: Vec<String>,
    /// Only say what would change
    #[serde(default)]
    dry_run: bool,
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Unfinished {
    Continue,
    Undo,
}

fn rewind(call: &Call, asked: Back) -> Result<view::WorkspaceRewind> {
    let to = match (asked.checkpoint, asked.unfinished) {
        (Some(word), None) => RewindTo::Checkpoint(word),
        (None, Some(Unfinished::Continue)) => RewindTo::Continue,
        (None, Some(Unfinished::Undo)) => RewindTo::Undo,
        _ => return Err(Problem::schema("", "give checkpoint or unfinished")),
    };
    let root = Root::open(asked.root.as_ref())?;
    let paths = asked
        .paths
        .iter()
        .map(|path| root.inside(path.as_ref(), root.path()))
        .collect::<std::result::Result<_, _>>()?;
    let request = Rewind { root: root.path().to_owned(), to, paths };
    if asked.dry_run {
        return Ok(view::WorkspaceRewind::from(&call.store().rewind_plan(&request)?));
    }
    Ok(view::WorkspaceRewind::from(&call.store().rewind(&request, &call.actor(), &mut |_, _| Ok(()))?))
}

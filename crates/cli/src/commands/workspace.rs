//! `enjamb workspace`

use std::io::IsTerminal;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use enjamb_service::{
    Rewind as Request, RewindTo, Root, ServiceError, Store, WorkspaceCheckpoint, WorkspaceError, WorkspaceView,
};

use super::Context;
use super::workspace_diff;
use super::workspace_view::{show_diff, show_list, show_made, show_plan, show_rewound};
use crate::failure::{Exit, Failure, Result};

#[derive(Subcommand)]
pub enum Workspace {
    /// Keep the files of a workspace as they are now
    Checkpoint(Checkpoint),
    /// List workspace checkpoints, newest first
    List(List),
    /// Show how files differ from a checkpoint, or between two
    Diff(Diff),
    /// Make files what a checkpoint says; what is there now is kept first
    Rewind(Rewind),
}

/// Which directory is meant.
#[derive(Args)]
struct Where {
    /// The workspace [default: the git repository around the current directory, or the current directory]
    #[arg(long, value_name = "DIR")]
    root: Option<PathBuf>,
}

#[derive(Args)]
#[command(after_help = "Example:\n  enjamb workspace checkpoint -m 'before the big rename'\n  \
    enjamb workspace checkpoint --commit @\n\n\
    Every file is kept, untracked ones too, but what .gitignore ignores and .git itself. A file that was not written to \
    since the checkpoint before is not read again, and bytes that are here already are kept once.")]
pub struct Checkpoint {
    #[command(flatten)]
    place: Where,
    /// A few words about it
    #[arg(short = 'm', long, default_value = "", hide_default_value = true)]
    label: String,
    /// Keep what .gitignore ignores too
    #[arg(long)]
    ignored: bool,
    /// Keep these paths even if they are ignored
    #[arg(long, value_name = "PATH")]
    also: Vec<PathBuf>,
    /// Link it to this context commit: `enjamb fork --worktree` restores both
    #[arg(long, value_name = "REV")]
    commit: Option<String>,
}

#[derive(Args)]
#[command(after_help = "Example:\n  enjamb workspace list\n  enjamb workspace list --all -n 5 --json")]
pub struct List {
    #[command(flatten)]
    place: Where,
    /// Those of every workspace
    #[arg(long, conflicts_with = "root")]
    all: bool,
    /// At most this many
    #[arg(short = 'n', long, default_value_t = 20, value_name = "COUNT")]
    limit: usize,
}

#[derive(Args)]
#[command(
    after_help = "Example:\n  enjamb workspace diff                     the last checkpoint and the files now\n  \
    enjamb workspace diff 3f2a91c4 77c0aa12   two checkpoints\n  enjamb workspace diff 3f2a91c4 -- src\n  \
    enjamb workspace diff --stat\n\nExits with 1 when they differ."
)]
pub struct Diff {
    #[command(flatten)]
    place: Where,
    /// A checkpoint, by the beginning of its id [default: the last one]
    from: Option<String>,
    /// Another one [default: the files as they are now]
    to: Option<String>,
    /// Only name the paths, and how large they are
    #[arg(long)]
    stat: bool,
    /// Only these paths
    #[arg(last = true)]
    paths: Vec<PathBuf>,
}

#[derive(Args)]
#[command(after_help = "Example:\n  enjamb workspace rewind 3f2a91c4          shows what would change, and asks\n  \
    enjamb workspace rewind 3f2a91c4 --yes -- src/pay\n  enjamb workspace rewind --undo            after one that was cut short\n\n\
    Before a file is touched, all that is there becomes a checkpoint of its own, so a rewind can be rewound. What \
    .gitignore ignores stays.")]
pub struct Rewind {
    #[command(flatten)]
    place: Where,
    /// The checkpoint, by the beginning of its id
    #[arg(required_unless_present_any = ["go_on", "undo"])]
    checkpoint: Option<String>,
    /// Go on with a rewind that was cut short
    #[arg(long = "continue", conflicts_with_all = ["checkpoint", "undo", "paths"])]
    go_on: bool,
    /// Go back to where a rewind that was cut short came from
    #[arg(long, conflicts_with_all = ["checkpoint", "paths"])]
    undo: bool,
    /// Do it without asking
    #[arg(short = 'y', long)]
    yes: bool,
    /// Only show what would change
    #[arg(long, conflicts_with = "yes")]
    dry_run: bool,
    /// Only these paths
    #[arg(last = true)]
    paths: Vec<PathBuf>,
}

impl Workspace {
    pub fn run(self, context: &mut Context<'_>) -> Result<Exit> {
        match self {
            Self::Checkpoint(checkpoint) => checkpoint.run(context),
            Self::List(list) => list.run(context),
            Self::Diff(diff) => diff.run(context),
            Self::Rewind(rewind) => rewind.run(context),
        }
    }
}

impl Where {
    fn dir(&self) -> Result<PathBuf> {
        let here = here()?;
        if let Some(root) = &self.root {
            return Ok(here.join(root));
        }
        let found = here.ancestors().find(|above| above.join(".git").exists()).unwrap_or(&here).to_owned();
        let home = super::environment("HOME").and_then(|home| home.canonicalize().ok());
        // A whole home is hardly ever meant, and a rewind of one never.
        if found.parent().is_none() || Some(&found) == home.as_ref() {
            return Err(ServiceError::from(WorkspaceError::TooWide(found)).into());
        }
        Ok(found)
    }
}

fn here() -> Result<PathBuf> {
    let failed = |source| ServiceError::File { path: ".".into(), source };
    Ok(std::env::current_dir().map_err(failed)?)
}

/// Paths as they were typed, within the workspace.
fn within(root: &Path, paths: &[PathBuf]) -> Result<Vec<Vec<u8>>> {
    let (root, here) = (Root::open(root)?, here()?);
    Ok(paths.iter().map(|path| root.inside(path, &here)).collect::<std::result::Result<_, _>>()?)
}

impl Checkpoint {
    fn run(self, context: &mut Context<'_>) -> Result<Exit> {
        let root = self.place.dir()?;
        let also = within(&root, &self.also)?;
        let store = context.open_or_create()?;
        let commit = self.commit.as_deref().map(|word| store.revision(word)).transpose()?;
        let request = WorkspaceCheckpoint {
            root,
            label: self.label,
            ignored: self.ignored,
            also: also.into_iter().map(path_of).collect(),
            ..WorkspaceCheckpoint::default()
        };
        let made = store.workspace_checkpoint(&request, &context.actor())?;
        if let Some(commit) = &commit {
            store.link_workspace(commit, &made.id, &context.actor())?;
        }
        show_made(context, &made, commit)
    }
}

fn path_of(bytes: Vec<u8>) -> PathBuf {
    use std::os::unix::ffi::OsStringExt;
    std::ffi::OsString::from_vec(bytes).into()
}

impl List {
    fn run(self, context: &mut Context<'_>) -> Result<Exit> {
        let root = if self.all { None } else { Some(self.place.dir()?) };
        let found = context.open()?.workspace_checkpoints(root.as_deref(), self.limit)?;
        show_list(context, &found, self.all)
    }
}

impl Diff {
    fn run(self, context: &mut Context<'_>) -> Result<Exit> {
        let root = self.place.dir()?;
        let store = context.open()?;
        let from = match &self.from {
            Some(word) => store.workspace_checkpoint_named(word)?,
            None => last(&store, &root)?,
        };
        let to = self.to.as_deref().map(|word| store.workspace_checkpoint_named(word)).transpose()?;
        let paths = within(&root, &self.paths)?;
        let diff = store.workspace_diff(from, to, &root, &paths)?;
        if self.stat || context.ui.is_json() {
            return show_diff(context, &diff);
        }
        workspace_diff::show(context, &store, &diff, &root)
    }
}

fn last(store: &Store, root: &Path) -> Result<WorkspaceView> {
    let found = store.workspace_checkpoints(Some(root), 1)?.pop();
    let name = format!("of {}", root.display());
    Ok(found.ok_or(ServiceError::Unknown { what: "workspace checkpoint", name })?)
}

impl Rewind {
    fn run(self, context: &mut Context<'_>) -> Result<Exit> {
        let root = self.place.dir()?;
        let store = context.open()?;
        let to = match (self.checkpoint, self.go_on) {
            (Some(word), _) => RewindTo::Checkpoint(word),
            (None, true) => RewindTo::Continue,
            (None, false) => RewindTo::Undo,
        };
        let paths = within(&root, &self.paths)?;
        let request = Request { root, to, paths };
        if !self.yes {
            let plan = store.rewind_plan(&request)?;
            let unfinished = !matches!(request.to, RewindTo::Checkpoint(_));
            show_plan(context, &plan)?;
            if self.dry_run || plan.changes.is_empty() && !unfinished {
                return Ok(Exit::Done);
            }
            agreed(context)?;
        }
        let actor = context.actor();
        let rewound = context.ui.with_progress("rewinding", |progress| {
            store.rewind(&request, &actor, &mut |done, total| {
                progress(done, total);
                Ok(())
            })
        })?;
        show_rewound(context, &rewound)
    }
}

/// Asks whoever is there; a program has to say so beforehand.
fn agreed(context: &mut Context<'_>) -> Result<()> {
    let refused = |message: &str| Failure::Usage { message: message.into(), help: Some("add --yes to do it".into()) };
    if context.ui.is_json() || !std::io::stdin().is_terminal() {
        return Err(refused("nothing was changed: nobody is there to agree to it"));
    }
    if context.ui.ask("Do it?")? { Ok(()) } else { Err(refused("nothing was changed")) }
}

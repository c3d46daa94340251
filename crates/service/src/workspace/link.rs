//! Commits and the workspace checkpoints that they belong to.
//!
//! A commit made together with a checkpoint says so in its attributes, as `workspace_checkpoint`. One that was there before
//! is linked by a note: a tag that begins with `workspace:`. Neither is part of what a commit's id is derived from.

use std::path::{Path, PathBuf};
use std::process::Command;

use enjamb_core::CommitId;
use enjamb_core::workspace::{Manifest, changes, unescape};
use enjamb_ledger::StoredCommit;

use super::restore::Restore;
use super::root::Root;
use super::scan::Scope;
use super::stats::Stats;
use super::{WorkspaceError, WorkspaceView};
use crate::link::WORKSPACE;
use crate::{Actor, Expect, Result, ServiceError, Store};

/// The member of a commit's attributes that names a checkpoint.
pub(crate) const WORKSPACE_CHECKPOINT: &str = "workspace_checkpoint";

/// A fork with its files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Forked {
    pub previous: Option<CommitId>,
    pub checkpoint: WorkspaceView,
    pub worktree: PathBuf,
    /// The git commit that is checked out beneath the files.
    pub head: String,
    pub files: u64,
}

impl Store {
    /// Says that a commit belongs to a workspace checkpoint; another one, if it belonged to one.
    pub fn link_workspace(&self, commit: &CommitId, checkpoint: &str, by: &Actor) -> Result<StoredCommit> {
        let checkpoint = self.workspace_checkpoint_named(checkpoint)?;
        let link = format!("{WORKSPACE}{}", checkpoint.id);
        self.change_links(commit, by, &|stored| {
            let others = stored.tags.iter().filter(|tag| !tag.starts_with(WORKSPACE)).cloned();
            (!stored.tags.contains(&link)).then(|| others.chain([link.clone()]).collect())
        })
    }

    /// The workspace checkpoint that a commit belongs to.
    pub fn workspace_of(&self, stored: &StoredCommit) -> Result<Option<WorkspaceView>> {
        let linked = stored.tags.iter().find_map(|tag| tag.strip_prefix(WORKSPACE)).map(str::to_owned);
        let made_with = || {
            let attributes: serde_json::Value = serde_json::from_str(stored.commit.attributes.as_ref()?.get()).ok()?;
            Some(attributes[WORKSPACE_CHECKPOINT].as_str()?.to_owned())
        };
        linked.or_else(made_with).map(|id| self.workspace_checkpoint_named(&id)).transpose()
    }

    /// Names a commit, and puts the files that belong to it into a new git worktree. The name comes last: until all is
    /// there, nothing is.
    pub fn fork_worktree(
        &self,
        commit: &CommitId,
        name: &str,
        expect: Expect<CommitId>,
        dir: &Path,
        by: &Actor,
    ) -> Result<Forked> {
        let checkpoint = self.workspace_of(&self.show(commit)?)?.ok_or(WorkspaceError::Unlinked(*commit))?;
        let (manifest, items) = self.listing(&checkpoint)?;
        expect.check("ref", name, self.reference(name)?)?;
        let worktree = Worktree::add(&manifest, dir)?;
        let filled = self.fill(&worktree, &items).and_then(|()| self.move_reference(name, Some(*commit), expect, by));
        match filled {
            Ok(previous) => {
                let Worktree { dir, head, .. } = worktree;
                Ok(Forked { previous, checkpoint, worktree: dir, head, files: manifest.files })
            }
            Err(error) => {
                worktree.remove();
                Err(error)
            }
        }
    }

    /// Makes the files of a worktree what a listing says.
    fn fill(&self, worktree: &Worktree, items: &[enjamb_core::workspace::Item]) -> Result<()> {
        let dir = worktree.dir.join(&worktree.prefix);
        std::fs::create_dir_all(&dir).map_err(|source| ServiceError::File { path: dir.clone(), source })?;
        let root = Root::open(&dir)?;
        let scope = Scope { ignored: true, store: self.own_dir(), also: Vec::new() };
        let taken = self.take(&root, &scope, &Stats::default(), None)?;
        let changes = changes(&taken.items, items);
        Restore::new(self, &root, &taken, items, &changes).run(&mut |_, _| Ok(()))
    }
}

/// A worktree of a repository, made by git.
struct Worktree {
    repository: PathBuf,
    dir: PathBuf,
    head: String,
    /// Where in the repository the workspace was.
    prefix: PathBuf,
}

impl Worktree {
    fn add(manifest: &Manifest, dir: &Path) -> Result<Self> {
        let repository = path_of(&manifest.root);
        let place = manifest.git.as_ref().filter(|_| repository.is_dir());
        let head = place.ok_or_else(|| WorkspaceError::NoRepository(repository.clone()))?.head.clone();
        if dir.symlink_metadata().is_ok() {
            let source = std::io::ErrorKind::AlreadyExists.into();
            return Err(ServiceError::File { path: dir.to_owned(), source });
        }
        let prefix = git(&repository, "rev-parse", &["--show-prefix".as_ref()])?;
        let dir = std::path::absolute(dir).map_err(|source| ServiceError::File { path: dir.to_owned(), source })?;
        git(&repository, "worktree", &["add".as_ref(), "--detach".as_ref(), dir.as_os_str(), head.as_ref()])?;
        let dir = dir.canonicalize().unwrap_or(dir);
        Ok(Self { repository, dir, head, prefix: PathBuf::from(prefix.trim_end_matches(['\n', '/'])) })
    }

    fn remove(&self) {
        // It was ours alone, and whoever asked learns why it is gone.
        let _ = git(&self.repository, "worktree", &["remove".as_ref(), "--force".as_ref(), self.dir.as_os_str()]);
    }
}

fn path_of(text: &str) -> PathBuf {
    use std::os::unix::ffi::OsStringExt;
    PathBuf::from(std::ffi::OsString::from_vec(unescape(text).unwrap_or_default()))
}

/// Asks git, in a directory and not where the environment says, and without running what a repository would have run.
fn git(dir: &Path, command: &'static str, arguments: &[&std::ffi::OsStr]) -> Result<String> {
    let failed = |detail: String| WorkspaceError::Git { command, detail };
    let mut git = Command::new("git");
    git.arg("-C").arg(dir).args(["-c", "core.hooksPath=/dev/null", command]).args(arguments);
    for name in ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR", "GIT_PREFIX"] {
        git.env_remove(name);
    }
    let output = git.output().map_err(|error| failed(error.to_string()))?;
    if !output.status.success() {
        return Err(failed(String::from_utf8_lossy(&output.stderr).trim().to_owned()).into());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

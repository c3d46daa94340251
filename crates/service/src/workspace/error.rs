//! What can be wrong with a request about a workspace.

use std::path::PathBuf;

use enjamb_core::{CommitId, ErrorKind};

#[derive(Debug, thiserror::Error)]
pub enum WorkspaceError {
    #[error("{} is not a directory", .0.display())]
    NotADirectory(PathBuf),
    #[error("{path} is outside the workspace {}", root.display())]
    Outside { path: String, root: PathBuf },
    #[error("{} holds far more than one piece of work", .0.display())]
    TooWide(PathBuf),
    #[error("{}: {} bytes are more than one artifact holds", path.display(), size)]
    TooLarge { path: PathBuf, size: u64 },
    #[error("someone else is at work on the workspace {}", .0.display())]
    Busy(PathBuf),
    #[error("a rewind of {} to {target} was cut short", root.display())]
    Interrupted { root: PathBuf, target: String, saved: String },
    #[error("no rewind of {} was cut short", .0.display())]
    NotInterrupted(PathBuf),
    #[error("workspace checkpoint {0} was made elsewhere, and its files are not here")]
    NoFiles(String),
    #[error("workspace checkpoint {id} is damaged: {detail}")]
    Damaged { id: String, detail: String },
    #[error("{path} changed while the workspace was being rewound")]
    Changed { path: String, root: PathBuf },
    #[error("commit {0} belongs to no workspace checkpoint")]
    Unlinked(CommitId),
    #[error("{} was in no git repository", .0.display())]
    NoRepository(PathBuf),
    #[error("git {command}: {detail}")]
    Git { command: &'static str, detail: String },
}

impl WorkspaceError {
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::NotADirectory(_) | Self::Outside { .. } | Self::TooWide(_) | Self::TooLarge { .. } => {
                ErrorKind::Invalid
            }
            Self::Busy(_) => ErrorKind::Busy,
            Self::Interrupted { .. } | Self::NotInterrupted(_) | Self::Changed { .. } => ErrorKind::Conflict,
            Self::NoFiles(_) | Self::NoRepository(_) => ErrorKind::Unsupported,
            Self::Damaged { .. } => ErrorKind::Corrupt,
            Self::Unlinked(_) => ErrorKind::NotFound,
            Self::Git { .. } => ErrorKind::Unavailable,
        }
    }

    pub fn code(&self) -> &'static str {
        match self {
            Self::NotADirectory(_) => "not-a-directory",
            Self::Outside { .. } => "outside-workspace",
            Self::TooWide(_) => "workspace-too-wide",
            Self::TooLarge { .. } => "file-too-large",
            Self::Busy(_) => "workspace-busy",
            Self::Interrupted { .. } => "rewind-interrupted",
            Self::NotInterrupted(_) => "no-interrupted-rewind",
            Self::NoFiles(_) => "checkpoint-without-files",
            Self::Damaged { .. } => "checkpoint-damaged",
            Self::Changed { .. } => "workspace-changed",
            Self::Unlinked(_) => "no-workspace-checkpoint",
            Self::NoRepository(_) => "no-repository",
            Self::Git { .. } => "git-failed",
        }
    }

    pub fn help(&self) -> Option<String> {
        match self {
            Self::TooWide(path) => Some(format!("enjamb workspace … --root {}    if that is meant", path.display())),
            Self::TooLarge { .. } => Some("let .gitignore name it".into()),
            Self::Interrupted { saved, .. } => Some(format!(
                "enjamb workspace rewind --continue    or --undo, which goes back to {}",
                &saved[..saved.len().min(8)]
            )),
            Self::Changed { .. } => Some("enjamb workspace rewind --continue    or --undo".into()),
            Self::Unlinked(id) => Some(format!("enjamb workspace checkpoint --commit {id}    links one to it")),
            Self::NoRepository(_) => {
                Some("enjamb workspace rewind ID --root DIR    restores into any directory".into())
            }
            Self::NotADirectory(_)
            | Self::Outside { .. }
            | Self::Busy(_)
            | Self::NotInterrupted(_)
            | Self::NoFiles(_)
            | Self::Damaged { .. }
            | Self::Git { .. } => None,
        }
    }
}

//! What an operation may answer instead of a result.

use std::path::PathBuf;

use enjamb_core::frame::FrameError;
use enjamb_core::pack::PackError;
use enjamb_core::{ArtifactId, CommitId, ErrorKind, ParseIdError, ParseStreamError, StreamId};
use enjamb_formats::FormatError;
use enjamb_ledger::{LedgerError, Outcome};

use crate::{ConfigError, Denial, Ending, ResumeError, SyncError, TaskError, ThreadError, WorkspaceError};

/// What a text stands for that is no id, nor the name of anything.
pub(crate) const UNNAMED: &str = "tag or artifact";

#[derive(Debug, thiserror::Error)]
pub enum ServiceError {
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    #[error("line {line}: {source}")]
    Line { line: u64, source: Box<ServiceError> },
    #[error(transparent)]
    Frame(#[from] FrameError),
    #[error(transparent)]
    Id(#[from] ParseIdError),
    #[error(transparent)]
    Stream(#[from] ParseStreamError),
    #[error("the frame names no stream: give it as an argument, or as stream_kind and stream_id")]
    NoStreamNamed,
    #[error("no stream {0}")]
    UnknownStream(StreamId),
    #[error("no {what} {name}")]
    Unknown { what: &'static str, name: String },
    #[error("{prefix} fits {} things", candidates.len())]
    Ambiguous { prefix: String, candidates: Vec<String> },
    #[error("the bytes offered are {found}, not {expected}")]
    DigestMismatch { expected: ArtifactId, found: ArtifactId },
    #[error("{what} {name} names {actual}, not {expected}")]
    NameMoved { what: &'static str, name: String, expected: String, actual: String },
    #[error(transparent)]
    Pack(#[from] PackError),
    #[error(transparent)]
    Thread(#[from] ThreadError),
    #[error(transparent)]
    Resume(#[from] ResumeError),
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error(transparent)]
    Workspace(#[from] WorkspaceError),
    #[error(transparent)]
    Task(#[from] TaskError),
    #[error(transparent)]
    Sync(#[from] SyncError),
    #[error(transparent)]
    Format(#[from] FormatError),
    #[error("no format {0}")]
    UnknownFormat(String),
    #[error("{stop} is not an ancestor of {tip}")]
    NotAnAncestor { stop: CommitId, tip: CommitId },
    #[error("the chain of {tip} is in {} and {}, which do not join without loss", formats[0], formats[1])]
    MixedFormats { tip: CommitId, formats: [String; 2] },
    #[error("{what} {text:?} is not valid: expected {expected}")]
    Invalid { what: &'static str, text: String, expected: &'static str },
    #[error("no provider is configured, and a run needs one to ask")]
    NoProvider,
    #[error("no budget is set, and nobody is asked without one")]
    NoBudget,
    #[error("{0}")]
    Denied(Denial),
    #[error("run {run} ended: {}{}", ending.reason.as_str(), ending.said())]
    Run { run: String, ending: Ending },
    #[error("{url}: {detail}")]
    Endpoint { url: String, kind: ErrorKind, detail: String },
    #[error("{}: {source}", path.display())]
    File { path: PathBuf, source: std::io::Error },
    #[error("{}: {detail}", path.display())]
    BadFile { path: PathBuf, detail: String },
}

impl ServiceError {
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Ledger(error) => error.kind(),
            Self::Line { source, .. } => source.kind(),
            Self::Frame(error) => error.kind(),
            Self::Pack(error) => error.kind(),
            Self::Id(_) | Self::Stream(_) | Self::NoStreamNamed | Self::Invalid { .. } | Self::BadFile { .. } => {
                ErrorKind::Invalid
            }
            Self::NoProvider | Self::NoBudget => ErrorKind::Invalid,
            Self::Denied(denial) => denial.kind(),
            Self::Run { ending, .. } => ending.reason.kind(),
            Self::Thread(error) => error.kind(),
            Self::Resume(error) => error.kind(),
            Self::Config(error) => error.kind(),
            Self::Workspace(error) => error.kind(),
            Self::Task(error) => error.kind(),
            Self::Sync(error) => error.kind(),
            Self::Format(_) | Self::NotAnAncestor { .. } => ErrorKind::Invalid,
            Self::UnknownFormat(_) | Self::MixedFormats { .. } => ErrorKind::Unsupported,
            Self::DigestMismatch { .. } => ErrorKind::Corrupt,
            Self::UnknownStream(_) | Self::Unknown { .. } => ErrorKind::NotFound,
            Self::Ambiguous { .. } => ErrorKind::Ambiguous,
            Self::NameMoved { .. } => ErrorKind::Conflict,
            Self::Endpoint { kind, .. } => *kind,
            Self::File { source, .. } => match source.kind() {
                std::io::ErrorKind::NotFound => ErrorKind::NotFound,
                std::io::ErrorKind::PermissionDenied => ErrorKind::Denied,
                std::io::ErrorKind::AlreadyExists => ErrorKind::Conflict,
                _ => ErrorKind::Unavailable,
            },
        }
    }

    /// A stable word for the failure, the same on every surface.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Ledger(error) => error.code(),
            Self::Line { source, .. } => source.code(),
            Self::Frame(error) => error.code(),
            Self::Pack(error) => error.code(),
            Self::Id(_) => "bad-id",
            Self::Stream(_) => "bad-stream",
            Self::NoStreamNamed => "no-stream-named",
            Self::UnknownStream(_) => "stream-not-found",
            Self::Unknown { .. } => "not-found",
            Self::Ambiguous { .. } => "ambiguous-id",
            Self::DigestMismatch { .. } => "hash-mismatch",
            Self::NameMoved { .. } => "ref-moved",
            Self::Thread(error) => error.code(),
            Self::Resume(error) => error.code(),
            Self::Config(error) => error.code(),
            Self::Workspace(error) => error.code(),
            Self::Task(error) => error.code(),
            Self::Sync(error) => error.code(),
            Self::Format(_) => "malformed-delta",
            Self::UnknownFormat(_) => "unsupported-format",
            Self::MixedFormats { .. } => "mixed-formats",
            Self::NotAnAncestor { .. } => "not-an-ancestor",
            Self::Invalid { .. } => "bad-request",
            Self::NoProvider => "no-provider",
            Self::NoBudget => "no-budget",
            Self::Denied(denial) => denial.code(),
            Self::Run { ending, .. } => ending.reason.code(),
            Self::Endpoint { .. } => "endpoint-failed",
            Self::File { .. } => "file-error",
            Self::BadFile { .. } => "bad-file",
        }
    }

    /// Whether a write that failed may have been stored all the same.
    pub fn outcome(&self) -> Outcome {
        match self {
            Self::Ledger(error) => error.outcome(),
            Self::Line { source, .. } => source.outcome(),
            _ => Outcome::None,
        }
    }

    /// Whether it was only the reader of our output that went away.
    pub fn is_closed_output(&self) -> bool {
        matches!(self, Self::Ledger(LedgerError::Output(error)) if error.kind() == std::io::ErrorKind::BrokenPipe)
    }

    /// What to do about it, as a command where there is one.
    pub fn help(&self) -> Option<String> {
        match self {
            Self::Ledger(error) => ledger_help(error),
            Self::Line { source, .. } => source.help(),
            Self::Ambiguous { .. } => Some("type one more digit".into()),
            Self::File { source, .. } => match source.kind() {
                std::io::ErrorKind::NotFound => Some("name a file or a directory that is there".into()),
                std::io::ErrorKind::PermissionDenied => Some("let this user read it, or be one who may".into()),
                std::io::ErrorKind::AlreadyExists => Some("nothing is overwritten; name a file that is not there".into()),
                _ => None,
            },
            Self::UnknownStream(_) => Some("enjamb streams".into()),
            Self::Unknown { what: "artifact", .. } => Some("enjamb artifacts".into()),
            Self::Unknown { what: "pack", .. } => Some("enjamb pack list".into()),
            Self::Pack(PackError::TooLarge { .. }) => {
                Some("enjamb pack REV --stop compaction    packs only what came after the last compaction".into())
            }
            Self::Unknown { what: "source" | "session", .. } => Some("enjamb streams --kind source --all".into()),
            Self::Unknown { what: "commit", .. } => Some("enjamb log".into()),
            Self::Unknown { what: "context", .. } => {
                Some("enjamb resolve PRINCIPAL --at TIME    or set ENJAMB_CONTEXT_ID where the agent runs".into())
            }
            Self::Unknown { what: "thread", .. } => Some("enjamb thread list".into()),
            Self::NoProvider => Some(
                "set ENJAMB_ENDPOINT to the URL of a provider, ENJAMB_MODEL to a model and ENJAMB_ENDPOINT_KEY to a key; or \
                 [provider] endpoint and model in the config file"
                    .into(),
            ),
            Self::NoBudget => Some(
                "--budget TOKENS, ENJAMB_BUDGET_TOKENS, or [provider] budget_tokens in your config file: what a run may take, read \
                 and written"
                    .into(),
            ),
            Self::Run { ending, .. } => ending.help().map(str::to_owned),
            Self::Denied(Denial::Unknown(_)) => Some("enjamb tool list".into()),
            Self::Thread(error) => error.help(),
            Self::Resume(error) => error.help(),
            Self::Config(error) => error.help(),
            Self::Workspace(error) => error.help(),
            Self::Task(error) => error.help(),
            Self::Unknown { what: "task", .. } => Some("enjamb task list".into()),
            Self::Unknown { what: "workspace checkpoint", .. } => Some("enjamb workspace list --all".into()),
            Self::UnknownFormat(_) => {
                let ids: Vec<_> = enjamb_formats::all().iter().map(|format| format.id()).collect();
                Some(format!("known formats: {}", ids.join(", ")))
            }
            Self::MixedFormats { tip, formats } => Some(format!(
                "enjamb materialize {tip} --format {0} | enjamb checkpoint --type snapshot --parent {tip} --format {0}",
                formats[0]
            )),
            Self::Unknown { what: "tag", .. } => Some("enjamb tag".into()),
            Self::Unknown { what: "ref", .. } => Some("enjamb refs".into()),
            Self::Unknown { what: UNNAMED, .. } => Some("enjamb tag    and enjamb artifacts list what there is".into()),
            Self::NameMoved { what: "ref", .. } => Some("enjamb refs    shows what each names now".into()),
            Self::NameMoved { name, .. } => Some(format!("enjamb tag {name}    to see what it names now")),
            _ => None,
        }
    }
}

fn ledger_help(error: &LedgerError) -> Option<String> {
    match error {
        LedgerError::NoStore(_) => Some("enjamb init".into()),
        LedgerError::BadAddress { .. } => Some("postgres://user@host:5432/database?schema=name".into()),
        LedgerError::JobTaken { .. } => Some("try again when it is done".into()),
        LedgerError::JobLost { .. } => Some("nothing that was done is lost; begin again to go on".into()),
        LedgerError::Unreachable { .. } => Some("check that the server runs, its address, and the network".into()),
        error if error.is_unreadable_log() => {
            Some("enjamb --store OTHER-DIR restore BACKUP    makes a store of a backup".into())
        }
        LedgerError::Corrupt { .. } | LedgerError::Segment(_) => {
            Some("enjamb verify    names everything that is damaged".into())
        }
        LedgerError::TooNew { .. } => Some("use the enjamb that wrote it, or a later one".into()),
        LedgerError::Full { .. } => Some("free some space and try again; nothing was written".into()),
        LedgerError::NoArtifact(_) => Some("enjamb artifacts".into()),
        LedgerError::SeqConflict { stream, actual, .. } => {
            let last = actual.checked_sub(1)?;
            Some(format!("enjamb frames {stream} --from {last}    shows the last frame"))
        }
        _ => None,
    }
}

//! What can keep a chain from being resumed.

use std::path::PathBuf;

use enjamb_core::{CommitId, ErrorKind};
use enjamb_formats::Tier;

use crate::Runtime;

#[derive(Debug, thiserror::Error)]
pub enum ResumeError {
    #[error("{tip} is in no runtime's format: say in which it is to go on")]
    NoRuntime { tip: CommitId },
    #[error("no session can be written for {} yet", runtime.as_str())]
    CannotWrite { runtime: Runtime },
    #[error("{tip} would reach {} at tier {}, {tier}, and less is lost only elsewhere", runtime.as_str(), *tier as u8 + 1)]
    TierTooLow { tip: CommitId, runtime: Runtime, tier: Tier },
    #[error("the budget is {budget} tokens, and the last turn alone takes {needed}")]
    BudgetTooSmall { budget: u64, needed: u64 },
    #[error("{}: what was written does not read back: {detail}; it was removed", path.display())]
    NotReadBack { path: PathBuf, detail: String },
    #[error("{tip} says nothing that a session could begin with")]
    Empty { tip: CommitId },
    #[error("{} is there, and is not what was stored of session {session}", path.display())]
    Damaged { session: String, path: PathBuf },
    #[error("{} is not where a runtime looks for its sessions here", path.display())]
    NotAtHome { path: PathBuf, tip: Option<CommitId> },
}

impl ResumeError {
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::NotAtHome { .. } | Self::NoRuntime { .. } | Self::BudgetTooSmall { .. } | Self::Empty { .. } => {
                ErrorKind::Invalid
            }
            Self::CannotWrite { .. } => ErrorKind::Unsupported,
            Self::TierTooLow { .. } => ErrorKind::Lossy,
            Self::NotReadBack { .. } => ErrorKind::Corrupt,
            Self::Damaged { .. } => ErrorKind::Conflict,
        }
    }

    pub fn code(&self) -> &'static str {
        match self {
            Self::NoRuntime { .. } => "no-runtime",
            Self::CannotWrite { .. } => "unsupported-runtime",
            Self::TierTooLow { .. } => "tier-too-low",
            Self::BudgetTooSmall { .. } => "budget-too-small",
            Self::NotReadBack { .. } => "not-read-back",
            Self::Empty { .. } => "nothing-to-resume",
            Self::Damaged { .. } => "session-differs",
            Self::NotAtHome { .. } => "not-at-home",
        }
    }

    pub fn help(&self) -> Option<String> {
        match self {
            Self::NoRuntime { tip } => Some(format!("enjamb resume {tip} --in claude-code")),
            Self::CannotWrite { .. } => Some("--in claude-code, codex, gemini or opencode".into()),
            Self::TierTooLow { tip, runtime, tier } => Some(format!(
                "enjamb resume {tip} --in {} --min-tier {}    takes it all the same",
                runtime.as_str(),
                *tier as u8 + 1
            )),
            Self::Damaged { session, .. } => {
                Some(format!("enjamb replant {session} --beside    writes it under an id of its own"))
            }
            Self::NotAtHome { tip, .. } => tip
                .map(|tip| format!("enjamb resume {tip}    makes a session of it; enjamb export gives the file back")),
            Self::BudgetTooSmall { .. } | Self::NotReadBack { .. } | Self::Empty { .. } => None,
        }
    }
}

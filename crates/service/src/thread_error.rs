//! What can be wrong with a request about a thread, its contexts and its compactions.

use enjamb_core::{ArtifactId, ErrorKind};

#[derive(Debug, thiserror::Error)]
pub enum ThreadError {
    #[error("both a message and a seq were given: one says where")]
    BothSelectors,
    #[error("thread {thread} ends at seq {head}, before {seq}")]
    PastHead { thread: String, seq: u64, head: u64 },
    #[error("thread {thread} has no message {message}")]
    UnknownMessage { thread: String, message: String },
    #[error("frame {seq} of thread {thread} is not a message")]
    NotAMessage { thread: String, seq: u64 },
    #[error("thread {0} has no messages")]
    NoMessages(String),
    #[error(
        "{text:?} has no word to search for: expected one of three letters or more that is not among the most common"
    )]
    NoSearchWord { text: String },
    #[error("a {what} needs a summary: words, or the artifact that holds them")]
    NoSummary { what: &'static str },
    #[error("thread {thread} has no run {run}")]
    UnknownRun { thread: String, run: String },
    #[error("run {run} of thread {thread} has ended")]
    RunEnded { thread: String, run: String },
    #[error("no strategy {0}")]
    UnknownStrategy(String),
    #[error("the budget is {budget} tokens, and what has to be in takes {needed}")]
    BudgetTooSmall { budget: u64, needed: u64 },
    #[error("{artifact} is no context bundle: {detail}")]
    NotABundle { artifact: ArtifactId, detail: String },
    #[error("item {index} of the bundle has the type {type_name:?}, which this version does not know")]
    UnknownItem { index: usize, type_name: String },
    #[error("{artifact} is no {expected}: {detail}")]
    NotASummary { artifact: String, expected: &'static str, detail: String },
    #[error("{member} of summary {artifact} is {found}: expected {expected}")]
    SummaryMismatch { artifact: ArtifactId, member: &'static str, found: String, expected: String },
    #[error("a stride of 0 messages cuts nowhere")]
    StrideZero,
    #[error("thread {thread} has {count} messages, and the first cut of stride {stride} is at {stride}")]
    CutNotReached { thread: String, stride: u64, count: u64 },
    #[error("thread {thread} has no job {job}")]
    UnknownJob { thread: String, job: String },
    #[error("job {job} of thread {thread} has ended")]
    JobEnded { thread: String, job: String },
    #[error("job {job} is of the kind {kind:?}, which this version cannot run")]
    UnknownJobKind { job: String, kind: String },
    #[error("the summary takes {after} tokens, and what it stands for takes {before}")]
    DoesNotShrink { before: u64, after: u64 },
    #[error("the summarizer {command:?} failed: {detail}")]
    SummarizerFailed { command: String, detail: String },
}

impl ThreadError {
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::UnknownMessage { .. } | Self::UnknownRun { .. } | Self::UnknownJob { .. } => ErrorKind::NotFound,
            Self::RunEnded { .. } | Self::JobEnded { .. } | Self::CutNotReached { .. } | Self::NoMessages(_) => {
                ErrorKind::Conflict
            }
            Self::UnknownItem { .. } | Self::UnknownJobKind { .. } | Self::UnknownStrategy(_) => ErrorKind::Unsupported,
            Self::SummarizerFailed { .. } => ErrorKind::Unavailable,
            Self::BothSelectors
            | Self::PastHead { .. }
            | Self::NotAMessage { .. }
            | Self::NoSearchWord { .. }
            | Self::NoSummary { .. }
            | Self::BudgetTooSmall { .. }
            | Self::NotABundle { .. }
            | Self::NotASummary { .. }
            | Self::SummaryMismatch { .. }
            | Self::StrideZero
            | Self::DoesNotShrink { .. } => ErrorKind::Invalid,
        }
    }

    pub fn code(&self) -> &'static str {
        match self {
            Self::BothSelectors => "both-selectors",
            Self::PastHead { .. } => "seq-out-of-range",
            Self::UnknownMessage { .. } => "message-not-found",
            Self::NotAMessage { .. } => "not-a-message",
            Self::NoMessages(_) => "thread-empty",
            Self::NoSearchWord { .. } => "no-search-word",
            Self::NoSummary { .. } => "summary-missing",
            Self::UnknownRun { .. } => "run-not-found",
            Self::RunEnded { .. } => "run-ended",
            Self::UnknownStrategy(_) => "unknown-strategy",
            Self::BudgetTooSmall { .. } => "budget-too-small",
            Self::NotABundle { .. } => "not-a-bundle",
            Self::UnknownItem { .. } => "unknown-item",
            Self::NotASummary { .. } => "not-a-summary",
            Self::SummaryMismatch { .. } => "summary-mismatch",
            Self::StrideZero => "invalid-stride",
            Self::CutNotReached { .. } => "cut-not-reached",
            Self::UnknownJob { .. } => "job-not-found",
            Self::JobEnded { .. } => "job-ended",
            Self::UnknownJobKind { .. } => "unknown-job-kind",
            Self::DoesNotShrink { .. } => "does-not-shrink",
            Self::SummarizerFailed { .. } => "summarizer-failed",
        }
    }

    pub fn help(&self) -> Option<String> {
        match self {
            Self::UnknownMessage { thread, .. } | Self::NotAMessage { thread, .. } => {
                Some(format!("enjamb thread events {thread}    shows its messages and their seqs"))
            }
            Self::UnknownRun { thread, .. } | Self::RunEnded { thread, .. } => {
                Some(format!("enjamb thread post {thread} --run …    asks for an answer to a message"))
            }
            Self::UnknownJob { thread, .. } | Self::JobEnded { thread, .. } => {
                Some(format!("enjamb job list {thread}"))
            }
            Self::NoMessages(thread) => Some(format!("enjamb thread post {thread} 'hello'")),
            _ => None,
        }
    }
}

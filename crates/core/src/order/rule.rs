//! The rules by which a frame is refused, and the refusal itself.

use std::fmt;

use crate::{ErrorKind, RawFrame, StreamId};

/// A frame that may not come next, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    pub rule: Rule,
    pub stream: StreamId,
    pub seq: u64,
    pub frame_type: String,
    pub detail: String,
}

impl Refusal {
    pub(super) fn of(frame: &RawFrame, rule: Rule, detail: String) -> Self {
        let frame_type = bounded(frame.type_name(), 100);
        Self { rule, stream: frame.stream().clone(), seq: frame.seq(), frame_type, detail: bounded(&detail, 1_000) }
    }

    pub fn code(&self) -> &'static str {
        self.rule.code()
    }

    pub fn kind(&self) -> ErrorKind {
        self.rule.kind()
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rule, stream, seq, frame_type, detail } = self;
        write!(f, "{frame_type} is refused at seq {seq} of {stream} by rule {}: {detail}", rule.code())
    }
}

impl std::error::Error for Refusal {}

/// Ids in a frame may be as long as the frame; a sentence about it may not.
fn bounded(text: &str, chars_max: usize) -> String {
    text.chars().take(chars_max).collect()
}

macro_rules! rules {
    ($($(#[$doc:meta])* $rule:ident, $code:literal, $kind:ident;)*) => {
        /// What every admitted history keeps to.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Rule {
            $($(#[$doc])* $rule,)*
        }

        impl Rule {
            pub const ALL: &'static [Self] = &[$(Self::$rule),*];

            /// A stable word for programs.
            pub const fn code(self) -> &'static str {
                match self {
                    $(Self::$rule => $code,)*
                }
            }

            /// `Conflict` where another history would have admitted the frame, `Invalid` where none would.
            pub const fn kind(self) -> ErrorKind {
                match self {
                    $(Self::$rule => ErrorKind::$kind,)*
                }
            }
        }
    };
}

rules! {
    /// The payload is what its type says.
    MalformedPayload, "malformed-payload", Invalid;
    /// Names and ids by which things are found again fit an index, and names can be shown.
    BadName, "bad-name", Invalid;

    /// Nothing follows the end of a session.
    SessionEnded, "session-ended", Conflict;
    /// A tool ends once.
    ToolEndedTwice, "tool-ended-twice", Conflict;
    /// An automatic workspace checkpoint comes before its tool starts.
    CheckpointAfterStart, "checkpoint-after-start", Conflict;

    /// A task's frames are in the stream of its id.
    TaskElsewhere, "task-elsewhere", Invalid;
    /// A task's stream begins with its spawning.
    TaskUnknown, "task-unknown", Conflict;
    TaskSpawnedTwice, "task-spawned-twice", Conflict;
    /// Nothing follows a task's last status.
    TaskEnded, "task-ended", Conflict;

    /// A message is pinned that is there.
    MessageUnknown, "message-unknown", Conflict;
    /// What a thread says of a run follows its spawning.
    RunUnknown, "run-unknown", Conflict;
    RunSpawnedTwice, "run-spawned-twice", Conflict;
    /// What a thread says of a run precedes its end.
    RunEnded, "run-ended", Conflict;
    /// A context is selected before it is compiled.
    SelectionAfterCompiled, "selection-after-compiled", Conflict;
    /// A tool's side effects are told once the tool has ended.
    ToolStillRunning, "tool-still-running", Conflict;
    JobUnknown, "job-unknown", Conflict;
    JobSpawnedTwice, "job-spawned-twice", Conflict;
    JobEndedTwice, "job-ended-twice", Conflict;
    /// A compaction checkpoint ends at a message.
    NotAMessage, "not-a-message", Conflict;
    /// The message at which a compaction checkpoint ends has the id that it says.
    OtherMessage, "other-message", Conflict;
    RangeReversed, "range-reversed", Invalid;
    /// A handoff says something.
    HandoffEmpty, "handoff-empty", Invalid;

    /// A tag moves from where it is.
    TagMoved, "tag-moved", Conflict;
    PolicyUnknown, "policy-unknown", Invalid;
    TtlMissing, "ttl-missing", Invalid;
    /// What is gone can be neither kept nor condemned.
    ArtifactGone, "artifact-gone", Conflict;
    /// Only what was condemned, and not mentioned since, is dropped.
    NotCondemned, "not-condemned", Conflict;

    /// Packs are recorded in the one stream where they are looked for, under a hash that is one.
    PackMalformed, "pack-malformed", Invalid;
    /// A pack of this hash is already there, and so says the same.
    DuplicatePack, "duplicate-pack", Conflict;

    CommitMalformed, "commit-malformed", Invalid;
    CommitTypeUnknown, "commit-type-unknown", Invalid;
    TriggerUnknown, "trigger-unknown", Invalid;
    /// A format is a name and a version.
    FormatMalformed, "format-malformed", Invalid;
    /// A commit's id follows from what it is.
    CommitIdWrong, "commit-id-wrong", Invalid;
    /// A compaction replaces what came before, so something did.
    CompactionWithoutParent, "compaction-without-parent", Invalid;
    MissingParent, "missing-parent", Conflict;
    /// The very commit is already there.
    DuplicateCommit, "duplicate-commit", Conflict;
    /// Another commit has this id.
    CommitConflict, "commit-conflict", Conflict;
    CommitUnknown, "commit-unknown", Conflict;
    /// A chain is compiled as it was decided to be.
    NotDecided, "not-decided", Conflict;
    /// A branch holds frames of another stream, one after the other, under the name that its first one gives it.
    BranchMalformed, "branch-malformed", Invalid;
    /// What is said of a source adds up.
    SourceMalformed, "source-malformed", Invalid;
    /// A ref moves from where it is.
    RefMoved, "ref-moved", Conflict;
}

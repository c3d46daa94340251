//! What may be wrong with a transcript: a stable code for each shape, its place, and whether it can be repaired.

use std::fmt;

use crate::position::Position;

/// Something about a transcript that its runtime or provider may not take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    pub code: Code,
    pub severity: Severity,
    pub at: Position,
    /// The id that the record bears, where it has one.
    pub record: Option<String>,
    /// For people.
    pub sentence: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// The runtime or the provider would refuse to go on.
    Error,
    /// It would go on, with less than there was.
    Warning,
}

impl Severity {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
        }
    }
}

impl Problem {
    pub fn error(code: Code, at: Position, sentence: impl Into<String>) -> Self {
        Self { code, severity: Severity::Error, at, record: None, sentence: sentence.into() }
    }

    pub fn warning(code: Code, at: Position, sentence: impl Into<String>) -> Self {
        Self { severity: Severity::Warning, ..Self::error(code, at, sentence) }
    }

    #[must_use]
    pub fn of(self, record: Option<&str>) -> Self {
        Self { record: record.map(str::to_owned), ..self }
    }

    pub fn is_error(&self) -> bool {
        self.severity == Severity::Error
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} [{}]", self.at, self.sentence, self.code)
    }
}

/// The shapes that a transcript can be broken in. Their names never change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Code {
    BlockOversized,
    BranchesMany,
    CallIdCharacters,
    CallRepeated,
    CallUnanswered,
    CompactionDoubled,
    CompactionEmpty,
    CwdGone,
    CwdMissing,
    DamagedLine,
    EncryptedForeign,
    EnvelopeIncomplete,
    FirstNotUser,
    FirstSidechain,
    IdRepeated,
    InputNotObject,
    Malformed,
    NoMessages,
    ParentMissing,
    PromptIgnored,
    RecordUnknown,
    RecordsJoined,
    ResultMisplaced,
    ResultOrphaned,
    ResultRepeated,
    SessionMetaIncomplete,
    SessionMetaMissing,
    TextEmpty,
    ThinkingForeign,
    ThinkingUnsigned,
    TimestampMissing,
    TornTail,
}

impl Code {
    pub const ALL: [Self; 32] = [
        Self::BlockOversized,
        Self::BranchesMany,
        Self::CallIdCharacters,
        Self::CallRepeated,
        Self::CallUnanswered,
        Self::CompactionDoubled,
        Self::CompactionEmpty,
        Self::CwdGone,
        Self::CwdMissing,
        Self::DamagedLine,
        Self::EncryptedForeign,
        Self::EnvelopeIncomplete,
        Self::FirstNotUser,
        Self::FirstSidechain,
        Self::IdRepeated,
        Self::InputNotObject,
        Self::Malformed,
        Self::NoMessages,
        Self::ParentMissing,
        Self::PromptIgnored,
        Self::RecordUnknown,
        Self::RecordsJoined,
        Self::ResultMisplaced,
        Self::ResultOrphaned,
        Self::ResultRepeated,
        Self::SessionMetaIncomplete,
        Self::SessionMetaMissing,
        Self::TextEmpty,
        Self::ThinkingForeign,
        Self::ThinkingUnsigned,
        Self::TimestampMissing,
        Self::TornTail,
    ];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::BlockOversized => "block-oversized",
            Self::BranchesMany => "branches-many",
            Self::CallIdCharacters => "call-id-characters",
            Self::CallRepeated => "call-repeated",
            Self::CallUnanswered => "call-unanswered",
            Self::CompactionDoubled => "compaction-doubled",
            Self::CompactionEmpty => "compaction-empty",
            Self::CwdGone => "cwd-gone",
            Self::CwdMissing => "cwd-missing",
            Self::DamagedLine => "damaged-line",
            Self::EncryptedForeign => "encrypted-foreign",
            Self::EnvelopeIncomplete => "envelope-incomplete",
            Self::FirstNotUser => "first-not-user",
            Self::FirstSidechain => "first-sidechain",
            Self::IdRepeated => "id-repeated",
            Self::InputNotObject => "input-not-object",
            Self::Malformed => "malformed",
            Self::NoMessages => "no-messages",
            Self::ParentMissing => "parent-missing",
            Self::PromptIgnored => "prompt-ignored",
            Self::RecordUnknown => "record-unknown",
            Self::RecordsJoined => "records-joined",
            Self::ResultMisplaced => "result-misplaced",
            Self::ResultOrphaned => "result-orphaned",
            Self::ResultRepeated => "result-repeated",
            Self::SessionMetaIncomplete => "session-meta-incomplete",
            Self::SessionMetaMissing => "session-meta-missing",
            Self::TextEmpty => "text-empty",
            Self::ThinkingForeign => "thinking-foreign",
            Self::ThinkingUnsigned => "thinking-unsigned",
            Self::TimestampMissing => "timestamp-missing",
            Self::TornTail => "torn-tail",
        }
    }

    pub const fn remedy(self) -> Remedy {
        match self {
            Self::BlockOversized => Remedy::Repair("a short text takes its place"),
            Self::BranchesMany => Remedy::Repair("what was abandoned is left out"),
            Self::CallIdCharacters => Remedy::Repair("the id is written in other characters"),
            Self::CallRepeated | Self::ResultRepeated => Remedy::Repair("the later one is left out"),
            Self::CallUnanswered => Remedy::Repair("a result says that it was interrupted"),
            Self::CompactionDoubled => Remedy::Repair("the earlier one, which no model sees, is left out"),
            Self::CompactionEmpty => Remedy::Repair("it is left out, and what came before stands again"),
            Self::CwdMissing => Remedy::Advice("name the directory when resuming"),
            Self::CwdGone => Remedy::Advice("name another directory when resuming"),
            Self::DamagedLine | Self::TornTail => Remedy::Repair("what cannot be read is left out"),
            Self::EncryptedForeign => Remedy::Repair("the encrypted content is left out"),
            Self::EnvelopeIncomplete => Remedy::Repair("what is missing is filled in, and what says nothing left out"),
            Self::FirstNotUser => Remedy::Repair("a message says that the beginning is missing"),
            Self::FirstSidechain => Remedy::Repair("side chains are left out"),
            Self::IdRepeated => Remedy::Repair("the repeated record is left out"),
            Self::InputNotObject => Remedy::Repair("it becomes an argument"),
            Self::Malformed => Remedy::Nothing("the bytes are not in the format that their commit names"),
            Self::NoMessages => Remedy::Nothing("nothing was said"),
            Self::ParentMissing => Remedy::Repair("it is put after the record before it"),
            Self::PromptIgnored => Remedy::Advice("ask it again in other words"),
            Self::RecordUnknown => Remedy::Advice("it is kept as it is, and passed over"),
            Self::RecordsJoined => Remedy::Repair("each goes on a line of its own"),
            Self::ResultMisplaced => Remedy::Repair("it is put after its call"),
            Self::ResultOrphaned => Remedy::Repair("it is told as text"),
            Self::SessionMetaIncomplete | Self::SessionMetaMissing => Remedy::Repair("it is made from what is known"),
            Self::TextEmpty => Remedy::Repair("the block is left out"),
            Self::ThinkingForeign | Self::ThinkingUnsigned => Remedy::Repair("the thinking block is left out"),
            Self::TimestampMissing => Remedy::Repair("it gets the time of the record before"),
        }
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What can be done about a problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remedy {
    /// A repair does this.
    Repair(&'static str),
    /// Nothing in the bytes needs to change; whoever resumes can do this.
    Advice(&'static str),
    /// No repair helps, and why.
    Nothing(&'static str),
}

impl Remedy {
    pub const fn is_repair(self) -> bool {
        matches!(self, Self::Repair(_))
    }

    pub const fn words(self) -> &'static str {
        match self {
            Self::Repair(words) | Self::Advice(words) | Self::Nothing(words) => words,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_words_and_differ() {
        let words = Code::ALL.map(Code::as_str);
        assert!(words.is_sorted() && words.windows(2).all(|pair| pair[0] != pair[1]), "{words:?}");
        let manual = include_str!("../../../docs/CHECKS.md");
        let told: Vec<&str> = manual.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next()).collect();
        assert_eq!(told, words, "docs/CHECKS.md tells of each");
        assert!(words.iter().all(|word| word.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-')));
    }
}

//! Chains: from a tip back to a stop, and what each commit on the way contributes.

use std::fmt;
use std::str::FromStr;

use crate::{CommitId, ParseIdError};

/// Where a walk back from a tip ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stop {
    /// At the nearest compaction or snapshot, which is included.
    Compaction,
    /// At the first commit. Later compactions and snapshots contribute nothing: what they stand for is there itself.
    Root,
    /// As `Root`, but at this ancestor.
    At(CommitId),
}

impl FromStr for Stop {
    type Err = ParseIdError;

    fn from_str(text: &str) -> Result<Self, ParseIdError> {
        match text {
            "compaction" => Ok(Self::Compaction),
            "root" => Ok(Self::Root),
            _ => text.parse().map(Self::At),
        }
    }
}

impl fmt::Display for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Compaction => f.write_str("compaction"),
            Self::Root => f.write_str("root"),
            Self::At(id) => id.fmt(f),
        }
    }
}

/// What a commit's artifact holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommitKind {
    /// What is new since the parent.
    Delta,
    /// What stands for everything before it.
    Compaction,
    /// Everything up to it.
    Snapshot,
}

impl CommitKind {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Delta => "delta",
            Self::Compaction => "compaction",
            Self::Snapshot => "snapshot",
        }
    }

    /// Whether a conversation can begin here.
    pub const fn begins(self) -> bool {
        match self {
            Self::Delta => false,
            Self::Compaction | Self::Snapshot => true,
        }
    }
}

impl Stop {
    /// Whether a walk that has just included this commit is over.
    pub fn ends_at(&self, id: &CommitId, kind: CommitKind) -> bool {
        match self {
            Self::Compaction => kind.begins(),
            Self::Root => false,
            Self::At(stop) => stop == id,
        }
    }
}

/// Which commits of a walk contribute, given their kinds from the stop to the tip.
pub fn contributes(stop: &Stop, kinds: &[CommitKind]) -> Vec<bool> {
    let in_place = |(at, kind): (usize, &CommitKind)| match stop {
        // The walk ended at the first thing that a conversation can begin with, so all of it counts.
        Stop::Compaction => true,
        Stop::Root | Stop::At(_) => at == 0 || !kind.begins(),
    };
    kinds.iter().enumerate().map(in_place).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Kinds from the first commit to the tip: d, c or s. Checks which letters a walk from the tip contributes.
    fn check(chain: &str, stop: Stop, expected: &str) {
        let all: Vec<_> = chain
            .chars()
            .map(|letter| match letter {
                'c' => CommitKind::Compaction,
                's' => CommitKind::Snapshot,
                _ => CommitKind::Delta,
            })
            .collect();
        let id = |at: usize| CommitId::from_bytes([at as u8; 16]);
        let last = (0..all.len()).rev().find(|at| stop.ends_at(&id(*at), all[*at])).unwrap_or(0);
        let used = contributes(&stop, &all[last..]);
        let letters: String =
            chain[last..].chars().zip(used).filter(|(_, used)| *used).map(|(letter, _)| letter).collect();
        assert_eq!(letters, expected, "{chain} {stop:?}");
    }

    #[test]
    fn compaction_begins_with_the_summary() {
        check("ddcdd", Stop::Compaction, "cdd");
        check("ddd", Stop::Compaction, "ddd");
        check("dscdsd", Stop::Compaction, "sd");
        check("ddc", Stop::Compaction, "c");
    }

    #[test]
    fn root_passes_over_compactions_and_snapshots() {
        check("ddcdd", Stop::Root, "dddd");
        check("ddcdsd", Stop::Root, "dddd");
        check("sdd", Stop::Root, "sdd");
    }

    #[test]
    fn an_ancestor_is_where_it_begins_whatever_it_is() {
        check("ddcdd", Stop::At(CommitId::from_bytes([2; 16])), "cdd");
        check("ddcdd", Stop::At(CommitId::from_bytes([1; 16])), "ddd");
    }

    #[test]
    fn stops_are_read_as_written() {
        for text in ["compaction", "root", "ctx-0123456789abcdef0123456789abcdef"] {
            assert_eq!(text.parse::<Stop>().unwrap().to_string(), text);
        }
        assert!("rot".parse::<Stop>().is_err());
    }
}

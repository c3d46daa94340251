//! What became of each block when a conversation was put into another format.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

/// A conversation in some format, and the fate of every block that it had.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Encoded {
    pub bytes: Vec<u8>,
    /// One for each block of the source, in its order.
    pub ledger: Vec<Fate>,
}

impl Encoded {
    pub fn fidelity(&self) -> FidelityLedger {
        FidelityLedger::of(&self.ledger)
    }
}

/// What became of one block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fate {
    /// Index of the entry in the source.
    pub entry: usize,
    /// Index of the block in that entry.
    pub block: usize,
    pub outcome: Outcome,
    /// Why, in words fit for a report; empty for what was kept.
    pub reason: &'static str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Outcome {
    /// The same, in the words of the new format.
    Kept,
    /// The same to a reader, though not the same in form.
    Mapped,
    /// Told in prose.
    Rendered,
    /// Gone.
    Dropped,
}

impl Outcome {
    pub const ALL: [Self; 4] = [Self::Kept, Self::Mapped, Self::Rendered, Self::Dropped];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Kept => "kept",
            Self::Mapped => "mapped",
            Self::Rendered => "rendered",
            Self::Dropped => "dropped",
        }
    }
}

/// How faithful a materialization is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Tier {
    /// In its own format, or with every block kept.
    Native,
    /// A conversation to go on from, in another format.
    Mapped,
    /// Told, not continued.
    Rendered,
    /// The bytes as they are, for a reader who can make something of them.
    Raw,
}

impl Tier {
    pub const ALL: [Self; 4] = [Self::Native, Self::Mapped, Self::Rendered, Self::Raw];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::Mapped => "mapped",
            Self::Rendered => "rendered",
            Self::Raw => "raw",
        }
    }
}

impl fmt::Display for Tier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Blocks counted by what became of them and why. Counts add up to the blocks of the source.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FidelityLedger {
    counts: BTreeMap<(Outcome, Cow<'static, str>), u64>,
}

impl FidelityLedger {
    pub fn of(fates: &[Fate]) -> Self {
        let mut ledger = Self::default();
        for fate in fates {
            *ledger.counts.entry((fate.outcome, fate.reason.into())).or_default() += 1;
        }
        ledger
    }

    /// The ledger of blocks that are all as they were.
    pub fn kept(blocks: u64) -> Self {
        let counts = (blocks > 0).then_some(((Outcome::Kept, Cow::Borrowed("")), blocks));
        Self { counts: counts.into_iter().collect() }
    }

    /// Adds what became of other blocks, such as those of the next delta.
    pub fn merge(&mut self, other: &Self) {
        for (key, count) in &other.counts {
            *self.counts.entry(key.clone()).or_default() += count;
        }
    }

    pub fn blocks(&self) -> u64 {
        self.counts.values().sum()
    }

    pub fn count(&self, outcome: Outcome) -> u64 {
        self.counts.iter().filter(|((found, _), _)| *found == outcome).map(|(_, count)| count).sum()
    }

    /// Outcome, reason and count, in that order.
    pub fn rows(&self) -> impl Iterator<Item = (Outcome, &str, u64)> {
        self.counts.iter().map(|((outcome, reason), count)| (*outcome, &**reason, *count))
    }

    /// The ledger that gave such rows.
    pub fn from_rows(rows: impl IntoIterator<Item = (Outcome, String, u64)>) -> Self {
        Self { counts: rows.into_iter().map(|(outcome, reason, count)| ((outcome, reason.into()), count)).collect() }
    }

    pub fn tier(&self) -> Tier {
        let kept = self.count(Outcome::Kept);
        if kept == self.blocks() {
            Tier::Native
        } else if kept + self.count(Outcome::Mapped) > 0 {
            Tier::Mapped
        } else {
            Tier::Rendered
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_add_up_and_the_tier_follows() {
        let fate = |outcome, reason| Fate { entry: 0, block: 0, outcome, reason };
        let mut ledger = FidelityLedger::of(&[fate(Outcome::Kept, ""), fate(Outcome::Kept, "")]);
        assert_eq!((ledger.blocks(), ledger.tier()), (2, Tier::Native));
        ledger.merge(&FidelityLedger::of(&[fate(Outcome::Dropped, "no place for it")]));
        assert_eq!((ledger.blocks(), ledger.tier()), (3, Tier::Mapped));
        let told = FidelityLedger::of(&[fate(Outcome::Rendered, "told")]);
        assert_eq!(
            (told.tier(), told.rows().collect::<Vec<_>>()),
            (Tier::Rendered, vec![(Outcome::Rendered, "told", 1)])
        );
    }
}

//! How what was told of a session goes on when it is found changed: what is added, or from where it goes another way.

use std::collections::{HashMap, HashSet};

use enjamb_core::Digest;

/// A line, known by what it tells of and by what it says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Known {
    pub key: String,
    pub digest: Digest,
}

/// Whether the order in which things are found is part of what they say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sequence {
    /// A document: what stands elsewhere is not what it was.
    Fixed,
    /// Rows: one that is added later may belong before others.
    Free,
}

/// What becomes of the commits that told of a session, and what is told next.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Growth {
    /// Commits that still hold; the next follows the last of them.
    pub kept: usize,
    /// Which of the lines that are there now are to be told.
    pub lines: Vec<usize>,
}

/// A line that changed is told again. One that is gone was taken back: whatever was told from it on is another branch.
pub(super) fn growth(told: &[Vec<Known>], found: &[Known], sequence: Sequence) -> Growth {
    let gone = first_gone(told, found, sequence);
    let kept = gone.unwrap_or(told.len());
    let last: HashMap<&str, Digest> =
        told[..kept].iter().flatten().map(|line| (line.key.as_str(), line.digest)).collect();
    let is_new = |line: &Known| last.get(line.key.as_str()) != Some(&line.digest);
    let lines = found.iter().enumerate().filter(|(_, line)| is_new(line)).map(|(index, _)| index).collect();
    Growth { kept, lines }
}

/// The first commit that told of something that is no longer there.
fn first_gone(told: &[Vec<Known>], found: &[Known], sequence: Sequence) -> Option<usize> {
    let there: HashSet<&str> = found.iter().map(|line| line.key.as_str()).collect();
    let mut seen = HashSet::new();
    let first_told = told.iter().enumerate().flat_map(|(commit, lines)| lines.iter().map(move |line| (commit, line)));
    let mut place = 0;
    for (commit, line) in first_told {
        if !seen.insert(line.key.as_str()) {
            continue;
        }
        let holds = match sequence {
            Sequence::Free => there.contains(line.key.as_str()),
            Sequence::Fixed => found.get(place).is_some_and(|found| found.key == line.key),
        };
        if !holds {
            return Some(commit);
        }
        place += 1;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lines such as `a1`: what they tell of, and what they say of it.
    fn lines(text: &str) -> Vec<Known> {
        let line = |word: &str| Known { key: word[..1].to_owned(), digest: Digest::of(word.as_bytes()) };
        text.split_whitespace().map(line).collect()
    }

    fn check(told: &str, found: &str, sequence: Sequence, kept: usize, expected: &str) {
        let told: Vec<Vec<Known>> = told.split('|').filter(|commit| !commit.is_empty()).map(lines).collect();
        let growth = growth(&told, &lines(found), sequence);
        let words: Vec<&str> = found.split_whitespace().collect();
        let added: Vec<&str> = growth.lines.iter().map(|index| words[*index]).collect();
        assert_eq!((growth.kept, added.join(" ").as_str()), (kept, expected), "{found}");
    }

    #[test]
    fn what_is_added_or_changed_is_told() {
        for sequence in [Sequence::Fixed, Sequence::Free] {
            check("", "a1 b1", sequence, 0, "a1 b1");
            check("a1 b1|c1", "a1 b1 c1", sequence, 2, "");
            check("a1 b1|c1", "a1 b1 c1 d1", sequence, 2, "d1");
            check("a1 b1|c1", "a1 b2 c2 d1", sequence, 2, "b2 c2 d1");
            check("a1 b1|b2 c1", "a1 b2 c1", sequence, 2, "");
        }
    }

    #[test]
    fn what_is_gone_is_another_branch() {
        for sequence in [Sequence::Fixed, Sequence::Free] {
            check("a1|b1|c1", "a1 d1", sequence, 1, "d1");
            check("a1|b1 c1|d1", "a1 b1 e1", sequence, 1, "b1 e1");
            check("a1|b1", "z1", sequence, 0, "z1");
            // A change that was told on the branch that is left is told again.
            check("a1|b1|a2 c1", "a2 b1", sequence, 2, "a2");
        }
    }

    #[test]
    fn only_in_a_document_does_order_count() {
        check("a1|b1|c1", "a1 x1 b1 c1", Sequence::Free, 3, "x1");
        check("a1|b1|c1", "a1 x1 b1 c1", Sequence::Fixed, 1, "x1 b1 c1");
    }
}

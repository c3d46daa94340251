//! What a conversation establishes, and how much of it a summary still says.
//!
//! Facts are found by their form: a path looks like a path, an instruction has a word that binds. That misses some and
//! finds some that are none, but it finds the same ones every time, so that two summaries of one prefix can be compared.

use std::collections::BTreeSet;

use super::summarize::{topic_words, words};

/// What kind of fact it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Category {
    Instruction,
    Identifier,
    File,
    Decision,
    OpenTask,
}

impl Category {
    pub const ALL: [Self; 5] = [Self::Instruction, Self::Identifier, Self::File, Self::Decision, Self::OpenTask];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Instruction => "instruction",
            Self::Identifier => "identifier",
            Self::File => "file",
            Self::Decision => "decision",
            Self::OpenTask => "open task",
        }
    }
}

/// Facts of a text, each once.
#[derive(Clone, Debug, Default)]
pub struct FactSet(BTreeSet<(Category, String)>);

/// A fact that a summary does not say any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lost {
    pub category: Category,
    pub fact: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CategoryScore {
    pub category: Category,
    pub kept: u64,
    pub of: u64,
}

/// How much is kept: in hundredths, each kind of fact counting alike.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Score {
    pub percent: u64,
    pub categories: Vec<CategoryScore>,
    pub lost: Vec<Lost>,
}

const BINDING: [&str; 9] = ["always", "never", "must", "don't", "do not", "only", "make sure", "no longer", "required"];
const DECIDED: [&str; 7] = ["decision", "decided", "we will", "let's", "agreed", "going with", "we chose"];
const OPEN: [&str; 7] = ["todo", "- todo", "- [ ]", "fix", "next", "open question", "remaining"];
const SENTENCE_CHARS_MAX: usize = 200;
/// Of the words of a sentence, so many hundredths have to be there for it to count as said.
const SAID_PERCENT: usize = 60;

impl FactSet {
    /// Takes in what was said; only a user's words bind.
    pub fn add(&mut self, text: &str, by_user: bool) {
        for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
            self.add_sentence(line, by_user);
            self.0.extend(line.split_whitespace().filter_map(name_in));
        }
    }

    fn add_sentence(&mut self, line: &str, by_user: bool) {
        let lower = line.to_lowercase();
        let begins = |words: &[&str]| words.iter().any(|word| lower.starts_with(word));
        let category = if begins(&OPEN) {
            Category::OpenTask
        } else if begins(&DECIDED) {
            Category::Decision
        } else if by_user && BINDING.iter().any(|word| has_phrase(&lower, word)) {
            Category::Instruction
        } else {
            return;
        };
        self.0.insert((category, line.chars().take(SENTENCE_CHARS_MAX).collect()));
    }
}

/// The phrase, with no letter right before or after it.
fn has_phrase(text: &str, phrase: &str) -> bool {
    let is_edge = |c: Option<char>| c.is_none_or(|c| !c.is_alphanumeric());
    text.match_indices(phrase)
        .any(|(at, _)| is_edge(text[..at].chars().next_back()) && is_edge(text[at + phrase.len()..].chars().next()))
}

/// A path or an identifier, without the punctuation around it.
fn name_in(word: &str) -> Option<(Category, String)> {
    let quoted = word.contains('`');
    let name = word.trim_matches(|c: char| !(c.is_alphanumeric() || c == '_' || c == '/' || c == '#')).to_owned();
    let has_letter = name.chars().any(char::is_alphabetic);
    if name.len() < 3 || name.contains("://") {
        return None;
    }
    if has_letter && is_path(&name) {
        return Some((Category::File, name));
    }
    let is_issue = name.strip_prefix('#').is_some_and(|rest| rest.chars().all(|c| c.is_ascii_digit()));
    let has_mark = name.contains('_') || name.contains("::") || name.contains('(');
    let has_hump = name.chars().zip(name.chars().skip(1)).any(|(a, b)| a.is_lowercase() && b.is_uppercase());
    (is_issue || has_letter && (quoted || has_mark || has_hump)).then_some((Category::Identifier, name))
}

/// Something with a slash inside, or a name with a short extension.
fn is_path(name: &str) -> bool {
    let extension = name.rsplit_once('.').map(|(stem, extension)| (stem, extension.split(':').next().unwrap_or("")));
    let has_extension = extension.is_some_and(|(stem, extension)| {
        let letters = extension.chars().all(|c| c.is_ascii_alphanumeric());
        !stem.is_empty() && (1..=5).contains(&extension.len()) && letters && !stem.ends_with(char::is_numeric)
    });
    let has_folder = name.trim_matches('/').contains('/');
    has_folder && !name.contains("//") || has_extension && !name.contains('(')
}

/// What of the facts a summary still says.
pub fn score(facts: &FactSet, summary: &str) -> Score {
    let said: BTreeSet<String> = summary.lines().flat_map(words).collect();
    let lost: Vec<Lost> = facts
        .0
        .iter()
        .filter(|(category, fact)| !is_said(*category, fact, summary, &said))
        .map(|(category, fact)| Lost { category: *category, fact: fact.clone() })
        .collect();
    let counted = Category::ALL.map(|category| {
        let of = facts.0.iter().filter(|(other, _)| *other == category).count() as u64;
        let missing = lost.iter().filter(|lost| lost.category == category).count() as u64;
        CategoryScore { category, kept: of - missing, of }
    });
    let categories: Vec<_> = counted.into_iter().filter(|counted| counted.of > 0).collect();
    let sum: u64 = categories.iter().map(|counted| counted.kept * 100 / counted.of).sum();
    let percent = sum.checked_div(categories.len() as u64).unwrap_or(100);
    Score { percent, categories, lost }
}

fn is_said(category: Category, fact: &str, summary: &str, said: &BTreeSet<String>) -> bool {
    match category {
        Category::Identifier | Category::File => summary.contains(fact),
        Category::Instruction | Category::Decision | Category::OpenTask => {
            let own: Vec<String> = topic_words(fact).collect();
            let kept = own.iter().filter(|word| said.contains(*word)).count();
            summary.contains(fact) || (!own.is_empty() && kept * 100 >= own.len() * SAID_PERCENT)
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn facts(text: &str) -> Vec<String> {
        let mut set = FactSet::default();
        set.add(text, true);
        set.0.into_iter().map(|(category, fact)| format!("{}: {fact}", category.as_str())).collect()
    }

    proptest! {
        #[test]
        fn any_text_can_be_summed_up_and_scored(text in "(\\PC|\n|İ|`|#|/|\\.){0,60}", actor in "\\PC{0,5}") {
            let mut set = FactSet::default();
            set.add(&text, true);
            prop_assert_eq!(score(&set, &text).percent, 100, "a text loses nothing against itself");
            let mut delta = crate::compact::Delta::default();
            delta.add(&actor, &text);
            let none = BTreeSet::new();
            prop_assert!(crate::compact::chain_markdown("t", Some(&text), &delta, &none, &none).chars().count() <= 20_000);
        }
    }

    #[test]
    fn facts_are_known_by_their_form() {
        assert_eq!(facts("Never push to main."), ["instruction: Never push to main."]);
        assert_eq!(facts("whenever you like"), Vec::<String>::new());
        assert_eq!(facts("see src/pay/retry.rs:42, and README.md."), ["file: README.md", "file: src/pay/retry.rs:42"]);
        assert_eq!(
            facts("call max_retries() in `Gateway`, see #17"),
            ["identifier: #17", "identifier: Gateway", "identifier: max_retries"]
        );
        assert_eq!(facts("TODO: add a test"), ["open task: TODO: add a test"]);
        assert_eq!(facts("Decided: three attempts"), ["decision: Decided: three attempts"]);
        assert_eq!(facts("version 1.2, 3/4 done, https://a.b/c"), Vec::<String>::new());
    }

    #[test]
    fn a_score_counts_what_is_still_said() {
        let mut set = FactSet::default();
        set.add("never push to main\nfix the retry loop in src/pay.rs\ncap_retries", true);
        set.add("you must ask me", false);
        let whole = score(&set, "Rule: never push to main. Open: fix retry loop (src/pay.rs, cap_retries).");
        assert_eq!((whole.percent, whole.lost.len()), (100, 0));
        let part = score(&set, "push main. something else");
        let lost: Vec<_> = part.lost.iter().map(|lost| lost.fact.as_str()).collect();
        assert_eq!(lost, ["cap_retries", "src/pay.rs", "fix the retry loop in src/pay.rs"]);
        assert_eq!(part.percent, 25, "{part:?}");
        assert_eq!(score(&FactSet::default(), "").percent, 100);
    }
}

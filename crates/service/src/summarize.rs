//! Summaries for commits that have none: by rule, without a network or a model, so that a chain can be read like a log.

use enjamb_ledger::{Ledger, StoredCommit};

use crate::{Actor, Note, Result, Store};

/// Characters of a summary: one line of a log.
const SUMMARY_CHARS_MAX: usize = 100;

/// What a run did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summarised {
    pub written: u64,
    /// Deltas that say nothing to sum up, or are in a format that is not known.
    pub skipped: u64,
}

impl Store {
    /// Writes a note for up to `limit` commits without a summary. Safe to stop and to run again.
    pub fn summarize(&self, limit: usize, by: &Actor) -> Result<Summarised> {
        let mut done = Summarised::default();
        for id in self.ledger.unsummarised(limit)? {
            let commit = self.show(&id)?;
            match self.summary_of(&commit)? {
                Some(summary) => {
                    self.note(&id, Note { summary: Some(summary), tags: None }, by)?;
                    done.written += 1;
                }
                None => done.skipped += 1,
            }
        }
        Ok(done)
    }

    /// What was asked, else what was answered, else which tools were used.
    fn summary_of(&self, commit: &StoredCommit) -> Result<Option<String>> {
        let said = self.said(commit)?;
        let tools = || {
            let names = said.tool_names();
            (!names.is_empty()).then(|| format!("uses {}", names.into_keys().collect::<Vec<_>>().join(", ")))
        };
        let words = said.first_prompt().or_else(|| said.last_assistant_text()).or_else(tools);
        Ok(words.map(|words| one_line(&words)).filter(|line| !line.is_empty()))
    }
}

/// The first line that says something, cut to fit.
pub(crate) fn one_line(text: &str) -> String {
    let line = text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    if line.chars().count() <= SUMMARY_CHARS_MAX {
        return line.to_owned();
    }
    line.chars().take(SUMMARY_CHARS_MAX - 1).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_is_one_line_that_fits() {
        assert_eq!(one_line("\n\n  fix the retry \nmore"), "fix the retry");
        assert_eq!(one_line(&"x".repeat(300)).chars().count(), SUMMARY_CHARS_MAX);
        assert_eq!(one_line("  \n "), "");
    }
}

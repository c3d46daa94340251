//! Summaries for commits that have none, so that a chain can be read like a log.
//!
//! Who sums up is a [`Summarizer`]: a rule that needs neither network nor model, or a model behind an endpoint. Each
//! summary is a note of its own, stored before the next commit is looked at: a run can stop anywhere and be run again.

mod dialect;
mod endpoint;

use enjamb_core::CommitId;
use enjamb_core::conversation::Conversation;
use enjamb_ledger::{Job, JobKind, Ledger, LedgerError, StoredCommit};

use crate::commits::noted;
use crate::{Actor, Note, Result, ServiceError, Store};

pub(crate) use dialect::complaint;
pub use endpoint::{Endpoint, EndpointOptions, Key};

/// Characters of a summary by rule: one line of a log.
const SUMMARY_CHARS_MAX: usize = 100;
/// Commits that are looked up at once.
const STEP: usize = 64;
/// Commits without a summary that are counted after a run.
pub const REMAINING_MAX: usize = 10_000;

/// Sums up what a commit says.
pub trait Summarizer {
    fn sum_up(&mut self, said: &Conversation) -> Result<Summary>;
}

/// What came of summing up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Summary {
    Words(String),
    /// It says nothing that could be summed up.
    Nothing,
    /// It may take `needs` tokens, and only `left` of the budget are left.
    OverBudget {
        needs: u64,
        left: u64,
    },
}

/// What was asked, else what was answered, else which tools were used.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rule;

/// What a run did.
#[derive(Debug, Default)]
pub struct Summarised {
    pub written: u64,
    /// Deltas that say nothing to sum up, or that cannot be read.
    pub skipped: u64,
    /// Commits that are still without a summary, counted up to [`REMAINING_MAX`].
    pub remaining: u64,
    pub stopped: Option<Stopped>,
}

/// Why a run ended before its work did.
#[derive(Debug)]
pub enum Stopped {
    Budget {
        needs: u64,
        left: u64,
    },
    /// What was written before is kept.
    Failed(ServiceError),
}

/// What became of one commit.
enum Step {
    Written,
    Skipped,
    Stopped(Stopped),
}

impl Store {
    /// Writes notes for up to `limit` commits without a summary, oldest first. Safe to stop and to run again.
    pub fn summarize(&self, summarizer: &mut dyn Summarizer, limit: u64, by: &Actor) -> Result<Summarised> {
        let job = self.ledger.job(JobKind::Summarize)?;
        let mut done = Summarised::default();
        let mut after = None;
        while done.stopped.is_none() && done.written < limit {
            let some = self.ledger.unsummarised(after.as_ref(), STEP)?;
            if some.is_empty() {
                break;
            }
            for id in some {
                if done.stopped.is_some() || done.written == limit {
                    break;
                }
                match self.sum_up_one(&job, &id, summarizer, by)? {
                    Step::Written => done.written += 1,
                    Step::Skipped => done.skipped += 1,
                    Step::Stopped(why) => done.stopped = Some(why),
                }
                after = Some(id);
            }
        }
        done.remaining = self.ledger.unsummarised(None, REMAINING_MAX)?.len() as u64;
        Ok(done)
    }

    fn sum_up_one(&self, job: &Job<'_>, id: &CommitId, summarizer: &mut dyn Summarizer, by: &Actor) -> Result<Step> {
        let Some(said) = self.readable(&self.show(id)?)? else { return Ok(Step::Skipped) };
        let words = match summarizer.sum_up(&said) {
            Ok(Summary::Words(words)) => words,
            Ok(Summary::Nothing) => return Ok(Step::Skipped),
            Ok(Summary::OverBudget { needs, left }) => return Ok(Step::Stopped(Stopped::Budget { needs, left })),
            Err(error) => return Ok(Step::Stopped(Stopped::Failed(error))),
        };
        // Somebody may have said something better while the summarizer was at work.
        let commit = self.show(id)?;
        if commit.summary.is_none() {
            self.append_for(job, &commit.stream, &noted(&commit, Note { summary: Some(words), tags: None }, by))?;
        }
        Ok(Step::Written)
    }

    /// What a commit says, unless somebody has summed it up by now, its format cannot be read, or its bytes are gone.
    fn readable(&self, commit: &StoredCommit) -> Result<Option<Conversation>> {
        if commit.summary.is_some() {
            return Ok(None);
        }
        match self.said(commit) {
            Ok(said) => Ok(Some(said)),
            Err(ServiceError::Format(_) | ServiceError::Ledger(LedgerError::NoArtifact(_))) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

impl Summarizer for Rule {
    fn sum_up(&mut self, said: &Conversation) -> Result<Summary> {
        let tools = || {
            let names = said.tool_names();
            (!names.is_empty()).then(|| format!("uses {}", names.into_keys().collect::<Vec<_>>().join(", ")))
        };
        let words = said.first_prompt().or_else(|| said.last_assistant_text()).or_else(tools);
        let line = words.map(|words| one_line(&words)).filter(|line| !line.is_empty());
        Ok(line.map_or(Summary::Nothing, Summary::Words))
    }
}

/// The first line that says something, cut to fit.
fn one_line(text: &str) -> String {
    let line = text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    cut(line, SUMMARY_CHARS_MAX)
}

/// At most so many characters, the last of which says if some were left out.
fn cut(text: &str, chars_max: usize) -> String {
    if text.chars().count() <= chars_max {
        return text.to_owned();
    }
    text.chars().take(chars_max - 1).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use enjamb_testkit::database::{Database, Schema};

    use super::*;
    use crate::{Checkpoint, Content, Env};

    /// Sums up whatever it is given; at its second commit another node takes over.
    struct Slow<'a> {
        schema: &'a Schema,
        rival: &'a Store,
        asked: u64,
    }

    impl Summarizer for Slow<'_> {
        fn sum_up(&mut self, _: &Conversation) -> Result<Summary> {
            let taken = self.rival.summarize(&mut Rule, 9, &Actor::default()).expect_err("another node is at it");
            assert_eq!(taken.code(), "job-taken");
            self.asked += 1;
            if self.asked == 2 {
                self.schema.execute("UPDATE {schema}.jobs SET epoch = epoch + 1 WHERE name = 'summarize'");
            }
            Ok(Summary::Words(format!("summary {}", self.asked)))
        }
    }

    #[test]
    fn of_two_nodes_one_writes_summaries_and_only_while_it_is_its_turn() {
        // `cargo xtask test` installs PostgreSQL; without it there is nothing to see here.
        let Some(database) = Database::find() else { return };
        let (schema, dirs) = (database.schema(), [(); 2].map(|()| tempfile::tempdir().unwrap()));
        let [store, rival] = dirs.each_ref().map(|dir| {
            enjamb_ledger::link_database(dir.path(), &schema.address()).unwrap();
            Store::create(dir.path(), Env::system()).unwrap()
        });
        for n in 0..3 {
            let content = Content::Bytes(format!("{{\"role\":\"user\",\"content\":\"{n}\"}}\n").into_bytes());
            store.checkpoint(Checkpoint::new(content, "generic-v1", "dana")).unwrap();
        }
        let mut slow = Slow { schema: &schema, rival: &rival, asked: 0 };
        let lost = store.summarize(&mut slow, 9, &Actor::default()).expect_err("it lost its turn");
        assert_eq!((lost.code(), slow.asked), ("job-lost", 2));
        assert_eq!(rival.summarize(&mut Rule, 9, &Actor::default()).unwrap().written, 2, "one was written before");
    }

    #[test]
    fn a_summary_is_one_line_that_fits() {
        assert_eq!(one_line("\n\n  fix the retry \nmore"), "fix the retry");
        assert_eq!(one_line(&"x".repeat(300)).chars().count(), SUMMARY_CHARS_MAX);
        assert_eq!(one_line("  \n "), "");
    }
}

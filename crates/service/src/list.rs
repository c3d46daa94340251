//! Lists of commits: those of the store, of one chain, or without a summary, that are what was asked for.

use enjamb_core::chain::Stop;
use enjamb_core::{CommitId, StreamId, StreamKind, Timestamp};
use enjamb_ledger::{Ledger, Span, StoredCommit};

use crate::link::tickets_of;
use crate::{Result, Store};

/// Commits that one page looks at. Where few fit, a page has few rows and says where to go on.
const EXAMINED_MAX: usize = 10_000;
/// Commits that are looked up at once, at first. Where few fit, each step is so many times the one before.
const FIRST_STEP: usize = 256;
const STEP_GROWTH: usize = 4;

/// Where the commits of a list come from, and in which order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// All of the store, newest first.
    Store,
    /// A chain, from this tip back.
    Chain(CommitId),
    /// Those that nobody has summed up, the one stored first before the others. One that gets a summary leaves the list,
    /// and a page that goes on after it goes on all the same.
    Unsummarised,
}

/// What a commit has to be to be listed; what is not given does not matter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    pub principal: Option<String>,
    pub template: Option<String>,
    pub session: Option<String>,
    /// Made for this ticket, or linked to it since.
    pub ticket: Option<String>,
    /// Only commits with a ticket, whichever.
    pub has_ticket: bool,
    pub thread: Option<String>,
    pub format: Option<String>,
    pub since: Option<Timestamp>,
    pub until: Option<Timestamp>,
    pub no_summary: bool,
    /// Only commits that no commit follows.
    pub tips: bool,
}

/// Commits, and the one after which the next page begins, if there may be more.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    pub commits: Vec<StoredCommit>,
    pub next: Option<CommitId>,
}

impl Store {
    /// Up to `limit` commits that fit. `after` is the `next` of the page before.
    pub fn list(&self, source: Source, filter: &Filter, after: Option<CommitId>, limit: usize) -> Result<Page> {
        let mut page = Page { commits: Vec::new(), next: after };
        // Where everything fits, one more than is shown tells whether there is more.
        let mut step = if *filter == Filter::default() { limit.saturating_add(1) } else { FIRST_STEP };
        let mut examined = 0;
        while page.commits.len() < limit && examined < EXAMINED_MAX {
            let some = self.candidates(source, filter, page.next, step)?;
            let is_end = some.len() < step;
            for id in some {
                if page.commits.len() == limit {
                    return Ok(page);
                }
                examined += 1;
                page.next = Some(id);
                page.commits.extend(self.fitting(&id, filter)?);
            }
            if is_end {
                page.next = None;
                break;
            }
            step = step.saturating_mul(STEP_GROWTH);
        }
        Ok(page)
    }

    fn fitting(&self, id: &CommitId, filter: &Filter) -> Result<Option<StoredCommit>> {
        let commit = self.show(id)?;
        let fits = filter.fits(&commit) && (!filter.tips || self.ledger.children(id)?.is_empty());
        Ok(Some(commit).filter(|_| fits))
    }

    /// Up to `count` commits to look at, after the one that was looked at last.
    fn candidates(
        &self,
        source: Source,
        filter: &Filter,
        after: Option<CommitId>,
        count: usize,
    ) -> Result<Vec<CommitId>> {
        match source {
            Source::Store => Ok(self.ledger.timeline(&filter.span(after)?, count)?),
            Source::Chain(tip) => {
                let passed = usize::from(after.is_some());
                let links = self.links(&after.unwrap_or(tip), &Stop::Root, count.saturating_add(passed))?;
                Ok(links.iter().skip(passed).map(|link| link.id).collect())
            }
            Source::Unsummarised => Ok(self.ledger.unsummarised(after.as_ref(), count)?),
        }
    }
}

impl Filter {
    fn span(&self, before: Option<CommitId>) -> Result<Span> {
        let stream = |principal: &String| StreamId::new(StreamKind::Context, principal);
        let principal = self.principal.as_ref().map(stream).transpose()?;
        Ok(Span { principal, since: self.since, until: self.until, before })
    }

    fn fits(&self, stored: &StoredCommit) -> bool {
        let commit = &stored.commit;
        let is = |wanted: &Option<String>, found: Option<&String>| wanted.is_none() || wanted.as_ref() == found;
        is(&self.principal, Some(&stored.stream.id))
            && is(&self.template, commit.template.as_ref())
            && is(&self.session, commit.agent_session_id.as_ref())
            && self.ticket.as_ref().is_none_or(|ticket| tickets_of(stored).contains(&ticket.as_str()))
            && !(self.has_ticket && tickets_of(stored).is_empty())
            && is(&self.thread, commit.thread_id.as_ref())
            && is(&self.format, Some(&commit.format))
            && self.since.is_none_or(|since| stored.link.created_at >= since)
            && self.until.is_none_or(|until| stored.link.created_at <= until)
            && !(self.no_summary && stored.summary.is_some())
    }
}

#[cfg(test)]
mod tests {
    use enjamb_core::frame::{Body, CommitType, ContextCommitted, Draft, Trigger};
    use enjamb_ledger::{Batch, NewFrame};

    use enjamb_testkit::home::Home;

    use super::*;
    use crate::Env;

    /// A commit of this second, with a ticket of its own.
    fn committed(number: usize) -> Body {
        let (artifact, at) = ("art-1", Timestamp::from_millis(number as i64 * 1000).to_string());
        ContextCommitted {
            commit_id: CommitId::derive("", artifact, &at, "").to_string(),
            version: 1,
            parent: None,
            commit_type: CommitType::Delta,
            artifact_ref: artifact.into(),
            format: "generic-v1".into(),
            template: None,
            principal: None,
            machine: None,
            agent_session_id: None,
            checkpoint: Trigger::Explicit,
            ticket_id: Some(format!("tkt-{number}")),
            thread_id: None,
            summary: None,
            message_count: 0,
            token_count: 0,
            token_method: None,
            created_at: at,
            attributes: None,
        }
        .into()
    }

    /// Makes so many commits, more than are looked up at once.
    fn fill(store: &Store, commits: usize) {
        let stream: StreamId = "context/p".parse().unwrap();
        let frame = |number| NewFrame {
            stream: stream.clone(),
            draft: Draft::of(&stream, &committed(number)).unwrap(),
            id: number.to_string(),
            timestamp_ms: 0,
            expected_seq: None,
        };
        let frames = (0..commits).map(frame).collect();
        store.ledger.append(Batch { frames, ..Batch::default() }).unwrap();
    }

    #[test]
    fn the_few_that_fit_are_found_among_the_many() {
        let home = Home::new();
        let store = Store::create(&home.store(), Env::system()).unwrap();
        let commits = FIRST_STEP + 40;
        fill(&store, commits);
        let list = |filter: &Filter, after, limit| store.list(Source::Store, filter, after, limit).unwrap();
        let first = Filter { ticket: Some("tkt-0".into()), ..Filter::default() };
        let page = list(&first, None, 9);
        assert_eq!((page.commits.len(), page.next), (1, None));
        assert_eq!(list(&first, None, 1).next, None, "it was the last to be looked at");
        let page = list(&Filter::default(), None, commits - 1);
        assert_eq!(page.commits.len(), commits - 1);
        let rest = list(&Filter::default(), page.next, 9);
        assert_eq!((&rest.commits, rest.next), (&list(&first, None, 1).commits, None));
    }

    #[test]
    fn what_is_left_to_sum_up_is_listed_page_by_page() {
        let home = Home::new();
        let store = Store::create(&home.store(), Env::system()).unwrap();
        fill(&store, 5);
        let filter = Filter { no_summary: true, ..Filter::default() };
        let page = |after| store.list(Source::Unsummarised, &filter, after, 2).unwrap();
        let tickets =
            |page: &Page| page.commits.iter().filter_map(|it| it.commit.ticket_id.clone()).collect::<Vec<_>>();
        let first = page(None);
        assert_eq!(tickets(&first), ["tkt-0", "tkt-1"], "the oldest first");
        let note = crate::Note { summary: Some("done".into()), tags: None };
        for commit in &first.commits {
            store.note(&commit.link.id, note.clone(), &crate::Actor::default()).unwrap();
        }
        let second = page(first.next);
        assert_eq!(tickets(&second), ["tkt-2", "tkt-3"], "though what it goes on after has left the list");
        let third = page(second.next);
        assert_eq!((tickets(&third), third.next), (vec!["tkt-4".to_owned()], None));
        assert_eq!(tickets(&page(None)), ["tkt-2", "tkt-3"]);
    }
}

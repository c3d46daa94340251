//! Lists of commits: those of the store, of one chain, or without a summary, that are what was asked for.

use enjamb_core::chain::Stop;
use enjamb_core::{CommitId, StreamId, StreamKind, Timestamp};
use enjamb_ledger::{Ledger, Span, StoredCommit};

use crate::{Result, Store};

/// Commits that one page looks at. Where few fit, a page has few rows and says where to go on.
const EXAMINED_MAX: usize = 10_000;
/// Commits that are looked up at once.
const STEP: usize = 256;

/// Where the commits of a list come from, and in which order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// All of the store, newest first.
    Store,
    /// A chain, from this tip back.
    Chain(CommitId),
}

/// What a commit has to be to be listed; what is not given does not matter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    pub principal: Option<String>,
    pub template: Option<String>,
    pub session: Option<String>,
    pub ticket: Option<String>,
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
        let mut examined = 0;
        while page.commits.len() < limit && examined < EXAMINED_MAX {
            let some = self.candidates(source, filter, page.next)?;
            let is_end = some.len() < STEP;
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
        }
        Ok(page)
    }

    /// Up to `limit` commits that nobody has summed up and that fit, the one stored first before the others. There is no
    /// next page: whatever gets a summary leaves this list, so its beginning is what is left to do.
    pub fn unsummarised(&self, filter: &Filter, limit: usize) -> Result<Vec<StoredCommit>> {
        let is_any = *filter == Filter { no_summary: filter.no_summary, ..Filter::default() };
        let mut found = Vec::new();
        for id in self.ledger.unsummarised(if is_any { limit } else { EXAMINED_MAX })? {
            if found.len() == limit {
                break;
            }
            found.extend(self.fitting(&id, filter)?);
        }
        Ok(found)
    }

    fn fitting(&self, id: &CommitId, filter: &Filter) -> Result<Option<StoredCommit>> {
        let commit = self.show(id)?;
        let fits = filter.fits(&commit) && (!filter.tips || self.ledger.children(id)?.is_empty());
        Ok(Some(commit).filter(|_| fits))
    }

    fn candidates(&self, source: Source, filter: &Filter, after: Option<CommitId>) -> Result<Vec<CommitId>> {
        match source {
            Source::Store => Ok(self.ledger.timeline(&filter.span(after)?, STEP)?),
            Source::Chain(tip) => {
                let passed = usize::from(after.is_some());
                let links = self.links(&after.unwrap_or(tip), &Stop::Root, STEP + passed)?;
                Ok(links.iter().skip(passed).map(|link| link.id).collect())
            }
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
            && is(&self.ticket, commit.ticket_id.as_ref())
            && is(&self.thread, commit.thread_id.as_ref())
            && is(&self.format, Some(&commit.format))
            && self.since.is_none_or(|since| stored.link.created_at >= since)
            && self.until.is_none_or(|until| stored.link.created_at <= until)
            && !(self.no_summary && stored.summary.is_some())
    }
}

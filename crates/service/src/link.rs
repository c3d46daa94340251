//! Tickets of commits: the one that a commit was made for, and those that it was linked to since.
//!
//! A link is a note like others: a tag that begins with `ticket:`. What it says stays in the log.

use enjamb_core::CommitId;
use enjamb_core::frame::{Body, ContextNoted};
use enjamb_ledger::{Batch, Ledger, LedgerError, NewFrame, StoredCommit};

use crate::{Actor, Filter, Result, ServiceError, Source, Store};

const PREFIX: &str = "ticket:";
const TICKET_BYTES_MAX: usize = 200;
/// How often a link is tried again because somebody else wrote of the same principal meanwhile.
const RETRIES_MAX: usize = 20;

/// Tags that name a workspace checkpoint (`workspace::link`).
pub(crate) const WORKSPACE: &str = "workspace:";

pub(crate) fn is_link(tag: &str) -> bool {
    tag.starts_with(PREFIX) || tag.starts_with(WORKSPACE)
}

/// The tickets of a commit, each once.
pub fn tickets_of(stored: &StoredCommit) -> Vec<&str> {
    let made_for = stored.commit.ticket_id.as_deref();
    let mut tickets: Vec<&str> = made_for.into_iter().collect();
    for linked in stored.tags.iter().filter_map(|tag| tag.strip_prefix(PREFIX)) {
        if !tickets.contains(&linked) {
            tickets.push(linked);
        }
    }
    tickets
}

/// The tags of a commit that name no tickets.
pub fn tags_of(stored: &StoredCommit) -> Vec<&str> {
    stored.tags.iter().map(String::as_str).filter(|tag| !tag.starts_with(PREFIX)).collect()
}

impl Store {
    /// Links a commit to a ticket. Linking twice changes nothing.
    pub fn link(&self, id: &CommitId, ticket: &str, by: &Actor) -> Result<StoredCommit> {
        let is_name =
            !ticket.trim().is_empty() && ticket.len() <= TICKET_BYTES_MAX && !ticket.contains(char::is_control);
        if !is_name {
            let expected = "1 to 200 bytes without line breaks or other control characters";
            return Err(ServiceError::Invalid { what: "ticket", text: ticket.to_owned(), expected });
        }
        self.change_links(id, by, &|stored| {
            let is_there = tickets_of(stored).contains(&ticket);
            (!is_there).then(|| stored.tags.iter().cloned().chain([format!("{PREFIX}{ticket}")]).collect())
        })
    }

    /// The last commit that was made for a ticket, or linked to it: what its agent understood.
    pub fn understood(&self, ticket: &str) -> Result<StoredCommit> {
        let filter = Filter { ticket: Some(ticket.to_owned()), ..Filter::default() };
        let last = self.list(Source::Store, &filter, None, 1)?.commits.pop();
        last.ok_or_else(|| ServiceError::Unknown { what: "commit", name: format!("of ticket {ticket}") })
    }

    /// Takes a link away. The ticket that a commit was made for stays: commits do not change.
    pub fn unlink(&self, id: &CommitId, ticket: &str, by: &Actor) -> Result<StoredCommit> {
        let link = format!("{PREFIX}{ticket}");
        if !self.show(id)?.tags.contains(&link) {
            return Err(ServiceError::Unknown { what: "link", name: format!("of {id} to {ticket}") });
        }
        self.change_links(id, by, &|stored| {
            let is_there = stored.tags.contains(&link);
            is_there.then(|| stored.tags.iter().filter(|tag| **tag != link).cloned().collect())
        })
    }

    /// Notes new tags that follow from those that are there, which nobody else changes in between.
    pub(crate) fn change_links(
        &self,
        id: &CommitId,
        by: &Actor,
        change: &dyn Fn(&StoredCommit) -> Option<Vec<String>>,
    ) -> Result<StoredCommit> {
        let mut retries = 0;
        loop {
            let stream = self.show(id)?.stream;
            let expected_seq = self.ledger.stream(&stream)?.map(|summary| summary.next_seq);
            let stored = self.show(id)?;
            let Some(tags) = change(&stored) else { return Ok(stored) };
            let (actor_id, origin) = (by.actor_id.clone(), by.origin.clone());
            let body: Body =
                ContextNoted { commit_id: id.to_string(), summary: None, tags: Some(tags), actor_id, origin }.into();
            let frame = NewFrame { expected_seq, ..self.frame_of(&stream, &body)? };
            match self.ledger.append(Batch { frames: vec![frame], ..Batch::default() }) {
                Err(LedgerError::SeqConflict { .. }) if retries < RETRIES_MAX => retries += 1,
                appended => {
                    appended?;
                    return self.show(id);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use enjamb_testkit::home::Home;

    use super::*;
    use crate::{Checkpoint, Content, Env, Note};
    use enjamb_core::chain::CommitKind;

    fn commit(store: &Store, ticket: Option<&str>, text: &str) -> CommitId {
        let request = Checkpoint {
            parent: None,
            kind: CommitKind::Delta,
            content: Content::Bytes(format!("{{\"role\":\"user\",\"content\":\"{text}\"}}\n").into_bytes()),
            format: "generic-v1".into(),
            principal: "p".into(),
            trigger: "explicit".into(),
            template: None,
            machine: None,
            session_id: None,
            ticket_id: ticket.map(str::to_owned),
            thread_id: None,
            summary: None,
            attributes: None,
            created_at: None,
        };
        store.checkpoint(request).unwrap().id
    }

    #[test]
    fn a_commit_has_the_ticket_it_was_made_for_and_those_it_was_linked_to() {
        let home = Home::new();
        let store = Store::create(&home.store(), Env::system()).unwrap();
        let by = Actor::default();
        let (made, bare) = (commit(&store, Some("T-1"), "a"), commit(&store, None, "b"));
        for ticket in ["T-2", "T-2", "T-1", "ticket:odd"] {
            store.link(&made, ticket, &by).unwrap();
        }
        assert_eq!(tickets_of(&store.show(&made).unwrap()), ["T-1", "T-2", "ticket:odd"]);
        let listed = |filter: Filter| {
            let page = store.list(Source::Store, &filter, None, 9).unwrap();
            page.commits.iter().map(|stored| stored.link.id).collect::<Vec<_>>()
        };
        let of = |ticket: &str| listed(Filter { ticket: Some(ticket.into()), ..Filter::default() });
        assert_eq!((of("T-1"), of("T-2"), of("T-3")), (vec![made], vec![made], vec![]));
        assert_eq!(listed(Filter { has_ticket: true, ..Filter::default() }), [made]);
        let note = |tags: &[&str]| Note { summary: None, tags: Some(tags.iter().map(|tag| tag.to_string()).collect()) };
        let noted = store.note(&made, note(&["reviewed"]), &by).unwrap();
        assert_eq!((tags_of(&noted), tickets_of(&noted).len()), (vec!["reviewed"], 3), "notes leave links alone");
        store.unlink(&made, "T-2", &by).unwrap();
        assert_eq!(tickets_of(&store.show(&made).unwrap()), ["T-1", "ticket:odd"]);
        assert_eq!(store.unlink(&made, "T-1", &by).unwrap_err().code(), "not-found");
        assert!(tickets_of(&store.show(&bare).unwrap()).is_empty());
        for bad in ["", " ", "a\nb", &"x".repeat(201)] {
            assert_eq!(store.link(&bare, bad, &by).unwrap_err().code(), "bad-request");
        }
    }

    #[test]
    fn links_made_at_once_are_all_there() {
        let home = Home::new();
        let store = Store::create(&home.store(), Env::system()).unwrap();
        let id = commit(&store, None, "a");
        std::thread::scope(|scope| {
            for n in 0..8 {
                let store = &store;
                scope.spawn(move || store.link(&id, &format!("T-{n}"), &Actor::default()).unwrap());
            }
        });
        assert_eq!(tickets_of(&store.show(&id).unwrap()).len(), 8);
    }
}

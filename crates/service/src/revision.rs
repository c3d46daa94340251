//! Words for commits: ids, the beginnings of them, refs, and steps back from any of these.

use enjamb_core::chain::Stop;
use enjamb_core::frame::{Body, ContextBody, ContextRefMoved};
use enjamb_core::order::{MarkKey, Scope};
use enjamb_core::{CommitId, IdKind, IdPrefix, StreamId, Timestamp, limits};
use enjamb_ledger::{Ledger, LedgerError, StreamOrder};

use crate::naming::Move;
use crate::{Actor, Expect, Result, ServiceError, Store};

/// A name and the commit it points at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefView {
    pub name: String,
    pub commit: CommitId,
}

impl Store {
    /// The commit that a person means: `@`, `@-`, `@~3`, a ref, `ctx-3f2a`, `PRINCIPAL@TIME`.
    pub fn revision(&self, text: &str) -> Result<CommitId> {
        let (base, back) = steps_back(text)?;
        let mut id = self.base(base)?;
        if back > 0 {
            let links = self.links(&id, &Stop::Root, back + 1)?;
            let there =
                links.get(back).ok_or_else(|| ServiceError::Unknown { what: "commit", name: text.to_owned() })?;
            id = there.id;
        }
        Ok(id)
    }

    fn base(&self, text: &str) -> Result<CommitId> {
        if text == "@" {
            return self.latest();
        }
        if let Some(id) = self.reference(text)? {
            return Ok(id);
        }
        if let Some((principal, time)) = text.rsplit_once('@').filter(|(principal, _)| !principal.is_empty())
            && let Ok(at) = time.parse::<Timestamp>()
        {
            return self.resolve(principal, at);
        }
        self.prefixed(text)
    }

    fn prefixed(&self, text: &str) -> Result<CommitId> {
        let prefix = IdPrefix::parse(text, IdKind::Commit)?;
        let (low, high) = prefix.bounds();
        let found = self.ledger.commits(&low, &high, limits::CANDIDATES_MAX + 1)?;
        match found.as_slice() {
            [] => Err(ServiceError::Unknown { what: "commit", name: prefix.to_string() }),
            [one] => Ok(*one),
            many => {
                let candidates = many.iter().map(ToString::to_string).collect();
                Err(ServiceError::Ambiguous { prefix: prefix.to_string(), candidates })
            }
        }
    }

    /// The commit that was made last, by whomever.
    fn latest(&self) -> Result<CommitId> {
        for stream in self.ledger.streams(Some("context"), StreamOrder::Recent, limits::PAGE_ROWS_MAX)? {
            let at = Timestamp::from_micros(i64::MAX);
            if let Some(id) = self.ledger.commit_at(&stream.stream, at)? {
                return Ok(id);
            }
        }
        Err(ServiceError::Unknown { what: "commit", name: "@: nothing was committed yet".into() })
    }

    pub fn reference(&self, name: &str) -> Result<Option<CommitId>> {
        let id = self.ledger.mark(&Scope::Store, &MarkKey::Ref(name.to_owned()))?;
        id.filter(|id| !id.is_empty()).map(|id| parse(name, &id)).transpose()
    }

    /// All refs, by name.
    pub fn references(&self) -> Result<Vec<RefView>> {
        let marks = self.ledger.marks(&Scope::Store, &MarkKey::Ref(String::new()))?;
        marks.into_iter().map(|(name, id)| Ok(RefView { commit: parse(&name, &id)?, name })).collect()
    }

    /// Moves a ref to a commit, or removes it when `to` is none. Fails if it does not name what is expected.
    pub fn move_reference(
        &self,
        name: &str,
        to: Option<CommitId>,
        expect: Expect<CommitId>,
        by: &Actor,
    ) -> Result<Option<CommitId>> {
        let earlier = self.earlier(&refs()?)?.map(|frame| frame.body);
        if let Some(Body::Context(ContextBody::ContextRefMoved(before))) = earlier {
            return before.previous.map(|id| parse(name, &id)).transpose();
        }
        let write = |from| self.move_ref(name, from, to, by);
        Move { what: "ref", name, to, expect }.make(|| self.reference(name), write)
    }

    fn move_ref(&self, name: &str, from: Option<CommitId>, to: Option<CommitId>, by: &Actor) -> Result<()> {
        let body: Body = ContextRefMoved {
            name: name.to_owned(),
            commit_id: to.map(|id| id.to_string()),
            previous: from.map(|id| id.to_string()),
            actor_id: by.actor_id.clone(),
            origin: by.origin.clone(),
        }
        .into();
        self.append_bodies(&refs()?, &[body], Vec::new()).map(drop)
    }
}

/// Where names of commits move.
fn refs() -> Result<StreamId> {
    Ok("context/~refs".parse()?)
}

/// Takes `-` and `~N` off the end of a revision.
fn steps_back(text: &str) -> Result<(&str, usize)> {
    if let Some((base, count)) = text.rsplit_once('~') {
        let invalid = || ServiceError::Invalid {
            what: "revision",
            text: text.to_owned(),
            expected: "a number after ~, such as @~3",
        };
        return Ok((base, count.parse().map_err(|_| invalid())?));
    }
    let base = text.trim_end_matches('-');
    Ok((base, text.len() - base.len()))
}

fn parse(name: &str, id: &str) -> Result<CommitId> {
    id.parse().map_err(|_| LedgerError::corrupt(format!("ref {name}"), "it names no commit").into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_counted() {
        for (text, base, back) in
            [("@", "@", 0), ("@-", "@", 1), ("@--", "@", 2), ("ctx-12~7", "ctx-12", 7), ("a-b", "a-b", 0)]
        {
            assert_eq!(steps_back(text).unwrap(), (base, back), "{text}");
        }
        assert!(steps_back("@~x").is_err());
    }
}

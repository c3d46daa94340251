//! Tags: names that point at artifacts and move only from where they are.

use enjamb_core::frame::{ArtifactTagged, Body};
use enjamb_core::order::{MarkKey, Rule, Scope};
use enjamb_core::{ArtifactId, StreamId};
use enjamb_ledger::{Ledger, LedgerError};

use crate::{Actor, Result, ServiceError, Store};

/// A name and what it points at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TagView {
    pub name: String,
    pub artifact: ArtifactId,
}

/// What a tag must name for it to be moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    /// Whatever it names now.
    Anything,
    /// Nothing: the tag is new.
    Nothing,
    Artifact(ArtifactId),
}

impl Store {
    /// All tags, by name.
    pub fn tags(&self) -> Result<Vec<TagView>> {
        let marks = self.ledger.marks(&Scope::Store, &MarkKey::Tag(String::new()))?;
        marks.into_iter().map(|(name, hex)| Ok(TagView { artifact: parse(&name, &hex)?, name })).collect()
    }

    /// What a tag names.
    pub fn tagged(&self, name: &str) -> Result<Option<ArtifactId>> {
        let hex = self.ledger.mark(&Scope::Store, &MarkKey::Tag(name.to_owned()))?;
        hex.filter(|hex| !hex.is_empty()).map(|hex| parse(name, &hex)).transpose()
    }

    /// Moves a tag, or removes it when `to` is none. Fails if it does not name what is expected.
    pub fn tag(&self, name: &str, to: Option<ArtifactId>, expect: Expect, by: &Actor) -> Result<Option<ArtifactId>> {
        loop {
            let current = self.tagged(name)?;
            check(name, current, expect)?;
            if to.is_none() && current.is_none() {
                return Err(ServiceError::Unknown { what: "tag", name: name.to_owned() });
            }
            if let Some(id) = to {
                self.artifact(&id)?;
            }
            match self.move_tag(name, current, to, by) {
                // Someone moved it in between; whether that is a conflict depends on what was expected.
                Err(ServiceError::Ledger(LedgerError::Refused(refusal))) if refusal.rule == Rule::TagMoved => {}
                Err(other) => return Err(other),
                Ok(()) => return Ok(current),
            }
        }
    }

    fn move_tag(&self, name: &str, from: Option<ArtifactId>, to: Option<ArtifactId>, by: &Actor) -> Result<()> {
        let body: Body = ArtifactTagged {
            name: name.to_owned(),
            artifact_id: to.map(|id| id.to_hex()),
            previous: from.map(|id| id.to_hex()),
            actor_id: by.actor_id.clone(),
            origin: by.origin.clone(),
        }
        .into();
        self.append_bodies(&StreamId::artifacts(), &[body], Vec::new()).map(drop)
    }
}

fn check(name: &str, current: Option<ArtifactId>, expect: Expect) -> Result<()> {
    let expected = match expect {
        Expect::Anything => return Ok(()),
        Expect::Nothing => None,
        Expect::Artifact(id) => Some(id),
    };
    if current == expected {
        return Ok(());
    }
    let show = |id: Option<ArtifactId>| id.map_or_else(|| "nothing".to_owned(), |id| id.to_string());
    Err(ServiceError::TagMoved { name: name.to_owned(), expected: show(expected), actual: show(current) })
}

fn parse(name: &str, hex: &str) -> Result<ArtifactId> {
    hex.parse().map_err(|_| LedgerError::corrupt(format!("tag {name}"), "it names no artifact").into())
}

//! Tags: names that point at artifacts and move only from where they are.

use enjamb_core::frame::{ArtifactBody, ArtifactTagged, Body};
use enjamb_core::order::{MarkKey, Scope};
use enjamb_core::{ArtifactId, StreamId};
use enjamb_ledger::{Ledger, LedgerError};

use crate::naming::Move;
use crate::{Actor, Expect, Result, Store};

/// A name and what it points at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TagView {
    pub name: String,
    pub artifact: ArtifactId,
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
    pub fn tag(
        &self,
        name: &str,
        to: Option<ArtifactId>,
        expect: Expect<ArtifactId>,
        by: &Actor,
    ) -> Result<Option<ArtifactId>> {
        let earlier = self.earlier(&StreamId::artifacts())?.map(|frame| frame.body);
        if let Some(Body::Artifact(ArtifactBody::ArtifactTagged(before))) = earlier {
            return before.previous.map(|hex| parse(name, &hex)).transpose();
        }
        let write = |from| {
            if let Some(id) = to {
                self.artifact(&id)?;
            }
            self.move_tag(name, from, to, by)
        };
        Move { what: "tag", name, to, expect }.make(|| self.tagged(name), write)
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

fn parse(name: &str, hex: &str) -> Result<ArtifactId> {
    hex.parse().map_err(|_| LedgerError::corrupt(format!("tag {name}"), "it names no artifact").into())
}

//! `enjamb tag`

use clap::Args;
use enjamb_core::ArtifactId;
use enjamb_service::{Expect, Store};
use serde_json::json;

use super::Context;
use crate::failure::{Exit, Result};
use crate::ui::{Cell, Table};

#[derive(Args)]
#[command(after_help = "Example:\n  enjamb tag                                  all tags\n  \
    enjamb tag release-notes art-3f2a91         name it\n  \
    enjamb tag release-notes art-77c0 --expect art-3f2a91    only if it still names that\n  \
    enjamb tag release-notes --delete")]
pub struct Tag {
    /// The name
    name: Option<String>,
    /// What it is to name: an id, the beginning of one, or another tag
    artifact: Option<String>,
    /// Fail unless the tag names this now; none: unless it is new
    #[arg(long, value_name = "ID|none")]
    expect: Option<String>,
    /// Remove the name; the artifact stays
    #[arg(long, conflicts_with = "artifact", requires = "name")]
    delete: bool,
}

impl Tag {
    pub fn run(self, context: &mut Context<'_>) -> Result<Exit> {
        match (&self.name, &self.artifact) {
            (None, _) => list(context, None),
            (Some(name), None) if !self.delete => list(context, Some(name)),
            (Some(name), artifact) => self.set(context, name, artifact.as_deref()),
        }
    }

    fn set(&self, context: &mut Context<'_>, name: &str, artifact: Option<&str>) -> Result<Exit> {
        let store = context.open()?;
        let to = artifact.map(|text| store.resolve_artifact(text)).transpose()?;
        let expect = self.expectation(&store)?;
        let previous = store.tag(name, to, expect, &context.actor())?;
        let show = |id: Option<enjamb_core::ArtifactId>| id.map(|id| id.to_string());
        if context.ui.is_json() {
            context.ui.json("tag", json!({"name": name, "artifact": show(to), "previous": show(previous)}))?;
        } else {
            let now = show(to).unwrap_or_else(|| "nothing".into());
            context.ui.line(format!("{name} names {now}"))?;
        }
        Ok(Exit::Done)
    }

    fn expectation(&self, store: &Store) -> Result<Expect<ArtifactId>> {
        Ok(match self.expect.as_deref() {
            None => Expect::Anything,
            Some("none") => Expect::Nothing,
            Some(text) => Expect::Exactly(store.resolve_artifact(text)?),
        })
    }
}

fn list(context: &mut Context<'_>, name: Option<&str>) -> Result<Exit> {
    let store = context.open()?;
    let mut tags = store.tags()?;
    if let Some(name) = name {
        tags.retain(|tag| tag.name == name);
        if tags.is_empty() {
            return Err(enjamb_service::ServiceError::Unknown { what: "tag", name: name.to_owned() }.into());
        }
    }
    if context.ui.is_json() {
        let rows: Vec<_> =
            tags.iter().map(|tag| json!({"name": tag.name, "artifact": tag.artifact.to_string()})).collect();
        context.ui.json("tags", json!({"tags": rows}))?;
        return Ok(Exit::Done);
    }
    let mut table = Table::new(&["name", "artifact"]);
    for tag in &tags {
        let id = tag.artifact.to_string();
        table.row([tag.name.as_str().into(), Cell::new(&id[..20], &id)]);
    }
    context.ui.table(&table)?;
    Ok(Exit::Done)
}

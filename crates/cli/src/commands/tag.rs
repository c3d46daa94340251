//! `enjamb tag`

use clap::Args;
use enjamb_server::{Operations, view};
use serde_json::json;

use super::Context;
use super::show::as_json;
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
        let operations = context.operations()?;
        let expected = self.expectation(&operations)?;
        let headers: Vec<_> = expected.iter().map(|(header, value)| (*header, value.as_str())).collect();
        let operation = if artifact.is_some() { "tag" } else { "untag" };
        let asked = json!({"name": name, "artifact": artifact});
        let tag: view::Tag = operations.call_with(operation, asked, &headers)?;
        if context.ui.is_json() {
            context.ui.json("tag", json!({"name": tag.name, "artifact": tag.artifact, "previous": tag.previous}))?;
        } else {
            let now = tag.artifact.unwrap_or_else(|| "nothing".into());
            context.ui.line(format!("{name} names {now}"))?;
        }
        Ok(Exit::Done)
    }

    /// What the tag has to name, as headers say it.
    fn expectation(&self, operations: &Operations) -> Result<Option<(&'static str, String)>> {
        Ok(match self.expect.as_deref() {
            None => None,
            Some("none") => Some(("if-none-match", "*".into())),
            Some(text) => {
                let found: view::Artifact = operations.call("artifact", json!({"artifact": text}))?;
                Some(("if-match", format!("\"{}\"", found.id)))
            }
        })
    }
}

fn list(context: &mut Context<'_>, name: Option<&str>) -> Result<Exit> {
    let operations = context.operations()?;
    let tags = match name {
        Some(name) => view::Tags { tags: vec![operations.call("tagged", json!({"name": name}))?] },
        None => operations.call("tags", json!({}))?,
    };
    if context.ui.is_json() {
        context.ui.json("tags", as_json(&tags))?;
        return Ok(Exit::Done);
    }
    let mut table = Table::new(&["name", "artifact"]);
    for tag in &tags.tags {
        let id = tag.artifact.as_deref().unwrap_or_default();
        table.row([tag.name.as_str().into(), Cell::new(id.get(..20).unwrap_or(id), id)]);
    }
    context.ui.table(&table)?;
    Ok(Exit::Done)
}

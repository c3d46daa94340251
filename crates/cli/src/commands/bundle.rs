//! `enjamb bundle`

use clap::Subcommand;
use enjamb_core::compile::{Bundle as Compiled, Item};
use enjamb_server::view;
use serde_json::json;

use super::Context;
use super::remote::unreadable;
use super::show::as_json;
use crate::failure::{Exit, Result};
use crate::ui::Table;

#[derive(Subcommand)]
pub enum Bundle {
    /// Show what a bundle holds
    #[command(after_help = "Example:\n  enjamb bundle show art-3f2a91")]
    Show {
        /// The bundle: an artifact or a tag
        bundle: String,
    },
}

impl Bundle {
    pub fn run(self, context: &mut Context<'_>) -> Result<Exit> {
        let Self::Show { bundle } = self;
        let found: view::BundleDocument = context.operations()?.call("bundle", json!({"bundle": bundle}))?;
        if context.ui.is_json() {
            context.ui.json("bundle", as_json(&found))?;
            return Ok(Exit::Done);
        }
        let bundle = Compiled::parse(found.bundle.to_string().as_bytes()).map_err(|_| unreadable("a bundle"))?;
        for (name, value) in rows(&bundle) {
            context.ui.answer(format!("{name:12}{value}"))?;
        }
        let mut table = Table::new(&["item", "type", "from", "says"]);
        for (index, item) in bundle.items.iter().enumerate() {
            let (from, says) = told(item);
            table.row([index.to_string().into(), kind(item).into(), from.into(), says.into()]);
        }
        context.ui.table(&table)?;
        Ok(Exit::Done)
    }
}

fn rows(bundle: &Compiled) -> Vec<(&'static str, String)> {
    let mut rows = vec![
        ("thread", bundle.source.thread_id.clone()),
        ("up to", bundle.source.from_seq.to_string()),
        ("strategy", bundle.compiler.strategy.clone()),
        ("run", bundle.provenance.run_session_id.clone()),
    ];
    rows.extend(bundle.source.from_message_id.clone().map(|message| ("message", message)));
    rows.push(("by", format!("{} through {}", bundle.provenance.actor_id, bundle.provenance.origin)));
    rows
}

fn kind(item: &Item) -> String {
    match item {
        Item::Message { role, .. } => role.as_str().to_owned(),
        other => other.type_name().to_owned(),
    }
}

/// Where an item comes from, and the beginning of what it says.
fn told(item: &Item) -> (String, String) {
    let first = |text: &str| text.lines().next().unwrap_or_default().chars().take(80).collect::<String>();
    match item {
        Item::Message { content, thread_seq, .. } => {
            (thread_seq.map(|seq| seq.to_string()).unwrap_or_default(), first(content))
        }
        Item::SummaryRef { artifact_id, note } | Item::ArtifactRef { artifact_id, note, .. } => {
            (format!("art-{artifact_id}"), first(note.as_deref().unwrap_or_default()))
        }
        Item::HandoffBundleRef { artifact_id } => (format!("art-{artifact_id}"), String::new()),
        Item::FileRef { path, digest, .. } => {
            (digest.as_ref().map(|digest| format!("art-{digest}")).unwrap_or_default(), path.clone())
        }
        Item::ToolSideEffectRef { run_session_id, tool_id, affected_paths, .. } => {
            (format!("{run_session_id}/{tool_id}"), affected_paths.clone().unwrap_or_default().join(" "))
        }
    }
}

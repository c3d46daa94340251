//! `enjamb redact`

use clap::{Args, Subcommand};
use enjamb_server::view;
use serde_json::json;

use super::Context;
use super::show::as_json;
use crate::failure::{Exit, Result};
use crate::text::plural;
use crate::ui::{Cell, Table};

#[derive(Args)]
#[command(after_help = "Example:\n  enjamb redact list\n  enjamb redact list 0b5cfa9e --json\n\n\
    Secrets are found at import by rules that follow those of gitleaks 8. Stored bytes stay as they are, in files that \
    only you can read; whatever is shown or written to be read has [redacted:KIND] in their place.")]
pub struct Redact {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// List where secrets are, and of which kind
    List(List),
}

#[derive(Args)]
#[command(after_help = "Example:\n  enjamb redact list\n  enjamb redact list 0b5cfa9e")]
struct List {
    /// Only in this session: its id, or the beginning of it
    session: Option<String>,
}

impl Redact {
    pub fn run(self, context: &mut Context<'_>) -> Result<Exit> {
        let Action::List(list) = self.action;
        let found: view::Secrets = context.operations()?.call("secrets", json!({"session": list.session}))?;
        if context.ui.is_json() {
            context.ui.json("redact_list", as_json(&found))?;
            return Ok(Exit::Done);
        }
        let places = &found.secrets;
        let mut table = Table::new(&["session", "kind", "secret", "id", "place"]);
        for place in places {
            let session: String = place.session.as_deref().unwrap_or("-").chars().take(13).collect();
            table.row([
                Cell::new(session, place.session.as_deref().unwrap_or("-")),
                place.rule.as_str().into(),
                format!("{} ({})", place.preview, plural(place.bytes, "byte")).into(),
                place.digest.as_str().into(),
                format!("{}:{}", place.path, place.offset).into(),
            ]);
        }
        context.ui.table(&table)?;
        if places.is_empty() {
            context.ui.note("no secrets were found in what was imported");
        }
        Ok(Exit::Done)
    }
}

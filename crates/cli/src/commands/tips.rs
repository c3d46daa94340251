//! `enjamb tips`

use clap::Args;
use enjamb_server::view;
use enjamb_service::Filter;

use super::Context;
use super::children::some;
use super::filter::Filters;
use super::log::{commit_id, list, report};
use crate::failure::{Exit, Failure, Result};

#[derive(Args)]
#[command(after_help = "Example:\n  enjamb tips\n  enjamb tips --principal agent/reviewer\n  enjamb tips ctx-3f2a\n\n\
    A tip is a commit that no commit follows: where a branch can go on.")]
pub struct Tips {
    /// Only ends of branches that can be reached from here
    revision: Option<String>,
    /// At most so many
    #[arg(short = 'n', long, default_value_t = 20, value_name = "COUNT")]
    limit: usize,
    /// Go on after this commit, which ended a list
    #[arg(long, value_name = "ID", conflicts_with = "revision")]
    after: Option<String>,
    #[command(flatten)]
    filters: Filters,
}

impl Tips {
    pub fn run(self, context: &mut Context<'_>) -> Result<Exit> {
        let filter = self.filters.read()?;
        let operations = context.operations()?;
        let Some(revision) = self.revision else {
            let after = self.after.as_deref().map(|text| commit_id(&operations, text)).transpose()?;
            let page = list(&operations, None, &Filter { tips: true, ..filter }, after, self.limit)?;
            return report(context, "tips", &page);
        };
        if filter != Filter::default() {
            return Err(Failure::usage("filters go with all tips: leave them or the commit out"));
        }
        let tips = some(&operations, "tips", &revision, self.limit)?;
        if tips.more {
            context.ui.note(&format!("there may be more than {}: -n COUNT", self.limit));
        }
        report(context, "tips", &view::Contexts { contexts: tips.contexts, next: None })
    }
}

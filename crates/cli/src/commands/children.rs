//! `enjamb children`

use clap::Args;
use enjamb_service::Page;

use super::Context;
use super::log::report;
use crate::failure::{Exit, Result};

#[derive(Args)]
#[command(after_help = "Example:\n  enjamb children ctx-3f2a\n  enjamb children @-")]
pub struct Children {
    /// The commit: an id or its beginning, a ref, @, @-, PRINCIPAL@TIME
    #[arg(default_value = "@")]
    revision: String,
    /// At most so many, oldest first
    #[arg(short = 'n', long, default_value_t = 1_000, value_name = "COUNT")]
    limit: usize,
}

impl Children {
    pub fn run(self, context: &mut Context<'_>) -> Result<Exit> {
        let store = context.open()?;
        let children = store.children(&store.revision(&self.revision)?)?;
        let commits = children.iter().take(self.limit).map(|id| Ok(store.show(id)?)).collect::<Result<_>>()?;
        if children.len() > self.limit {
            context.ui.note(&format!("{} of {} are shown: -n COUNT", self.limit, children.len()));
        }
        report(context, "children", &Page { commits, next: None })
    }
}

//! `enjamb mcp`

use clap::Args;

use super::Context;
use crate::failure::{Exit, Failure, Result};

#[derive(Args)]
#[command(
    after_help = "Example:\n  enjamb mcp\n\nClaude Code is told of it with: claude mcp add enjamb -- enjamb mcp\n\n\
    Speaks the Model Context Protocol over stdin and stdout, for an agent that starts it: tools to search, read, commit, fork, \
    hand over and pack contexts. enjamb serve offers the same at /mcp."
)]
pub struct Mcp {}

impl Mcp {
    pub fn run(self, context: &mut Context<'_>) -> Result<Exit> {
        let store = context.open_or_create()?;
        let failed = |error: enjamb_server::ServeError| Failure::Usage { message: error.to_string(), help: None };
        enjamb_server::serve_mcp(store, super::current::surroundings()).map_err(failed)?;
        Ok(Exit::Done)
    }
}

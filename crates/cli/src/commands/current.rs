//! `enjamb current`

use clap::Args;
use enjamb_service::{Agent, Current as Found, Store};
use serde_json::json;

use super::Context;
use super::import::{of_hooks, places_at_home};
use crate::failure::{Exit, Result};

#[derive(Args)]
#[command(after_help = "Example:\n  enjamb current\n  enjamb current --json\n\n\
    Run by an agent, or by a tool or a git hook of one, it prints the commit of that agent's session, with all that the \
    session has said so far: git commit --trailer \"Context: $(enjamb current)\". The session is that of ENJAMB_CONTEXT_ID, of the runtime's own variable \
    (CLAUDE_CODE_SESSION_ID, CODEX_THREAD_ID), or else the last one in this directory within a day. Exits with 3 when \
    there is none.")]
pub struct Current {}

impl Current {
    pub fn run(self, context: &mut Context<'_>) -> Result<Exit> {
        let store = context.open()?;
        let Found { id, by } = ask(&store)?;
        if context.ui.is_json() {
            let stored = store.show(&id)?;
            let (session, runtime) = (&stored.commit.agent_session_id, &stored.commit.template);
            let value = json!({"id": id.to_string(), "by": by.as_str(), "session_id": session, "runtime": runtime});
            context.ui.json("current", value)?;
        } else {
            context.ui.answer(id.to_string())?;
        }
        Ok(Exit::Done)
    }
}

/// The commit of the agent that runs this program.
pub fn ask(store: &Store) -> Result<Found> {
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let agent = Agent::of(&variable, std::env::current_dir().ok(), places_at_home());
    Ok(store.current(&agent, &of_hooks())?)
}

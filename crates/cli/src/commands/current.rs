//! `enjamb current`

use clap::Args;
use enjamb_server::{Surroundings, view};
use enjamb_service::Agent;
use serde_json::json;

use super::Context;
use super::import::{of_hooks, places_at_home};
use super::show::as_json;
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
        let found = ask(context)?;
        if context.ui.is_json() {
            context.ui.json("current", as_json(&found))?;
        } else {
            context.ui.answer(found.id)?;
        }
        Ok(Exit::Done)
    }
}

/// The commit of the agent that runs this program. On this machine what it wrote is taken in first; a server elsewhere
/// knows what it was told.
pub fn ask(context: &Context<'_>) -> Result<view::Current> {
    let Surroundings { agent, options } = surroundings();
    if context.address().is_some() {
        let sessions: Vec<_> = agent.sessions.iter().map(|(_, session)| session).collect();
        let directory = agent.cwd.as_deref().map(|cwd| cwd.to_string_lossy());
        let asked = json!({"context": agent.context, "session": sessions, "directory": directory});
        return Ok(context.operations()?.call("current", asked)?);
    }
    let store = context.open()?;
    let found = store.current(&agent, &options)?;
    let commit = store.show(&found.id)?.commit;
    let (session_id, runtime) = (commit.agent_session_id, commit.template);
    Ok(view::Current { id: found.id.to_string(), by: found.by.as_str().to_owned(), session_id, runtime })
}

/// What the environment says of who runs this program.
pub fn surroundings() -> Surroundings {
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    Surroundings { agent: Agent::of(&variable, std::env::current_dir().ok(), places_at_home()), options: of_hooks() }
}

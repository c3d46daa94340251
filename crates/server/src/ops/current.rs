//! The commit of whoever asks.

use std::path::PathBuf;

use enjamb_core::Timestamp;
use enjamb_service::{Actor, Agent, ImportBounds, ImportOptions, Runtime};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::call::Call;
use crate::problem::Result;
use crate::route::{Method, Route, Scope, at};
use crate::view;

pub fn routes() -> Vec<Route> {
    vec![
        at(Method::Get, "/v1/current", "current", Scope::Read, "Find what the agent that asks knows last")
            .json(current),
    ]
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Asked {
    /// Any word for a commit, if the agent was told one
    context: Option<String>,
    /// The sessions that the agent may be
    #[serde(default)]
    session: Vec<String>,
    /// Or the directory that it works in
    directory: Option<String>,
}

/// By what the request says; or else by what the program knows of who started it; or else by who the token is for.
fn current(call: &Call, asked: Asked) -> Result<view::Current> {
    let is_told = asked.context.is_some() || !asked.session.is_empty() || asked.directory.is_some();
    let (id, by) = match &call.agent {
        _ if is_told => {
            let found = call.store().current(&asked.agent(), &nothing_is_read())?;
            (found.id, found.by.as_str())
        }
        Some(own) => {
            let found = call.store().current(&own.agent, &own.options)?;
            (found.id, found.by.as_str())
        }
        None => (call.store().resolve(&call.actor().actor_id, Timestamp::from_micros(i64::MAX))?, "principal"),
    };
    let stored = call.store().show(&id)?;
    let (session_id, runtime) = (stored.commit.agent_session_id.clone(), stored.commit.template.clone());
    Ok(view::Current { id: id.to_string(), by: by.to_owned(), session_id, runtime })
}

impl Asked {
    /// Transcripts are where the agent is, and that is not here.
    fn agent(self) -> Agent {
        let sessions = self.session.into_iter().map(|session| (Runtime::Other, session)).collect();
        let (run_socket, cwd) = (None, self.directory.map(PathBuf::from));
        Agent { run_socket, context: self.context, sessions, cwd, places: Vec::new() }
    }
}

fn nothing_is_read() -> ImportOptions {
    let by = Actor { actor_id: "enjamb".into(), origin: "http".into() };
    ImportOptions { principal: "user".into(), machine: None, by, bounds: ImportBounds::default(), started: None }
}

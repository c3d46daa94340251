//! Summaries of commits that have none, by rule. A model is asked where the store is, by whoever has its key.

use enjamb_service::{Rule, Stopped};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::call::Call;
use crate::problem::Result;
use crate::route::{Method, Route, Scope, at};
use crate::view;

pub fn routes() -> Vec<Route> {
    vec![
        at(Method::Post, "/v1/summaries", "summarize", Scope::Append, "Sum up commits that have no summary")
            .json(summarize),
    ]
}

/// Summaries that one request writes, if nobody says how many.
const WRITTEN_MAX: u64 = 10_000;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Asked {
    /// Write at most so many
    limit: Option<u64>,
}

fn summarize(call: &Call, asked: Asked) -> Result<view::Summaries> {
    let done = call.store().summarize(&mut Rule, asked.limit.unwrap_or(WRITTEN_MAX), &call.actor())?;
    if let Some(Stopped::Failed(error)) = done.stopped {
        return Err(error.into());
    }
    Ok(view::Summaries { written: done.written, skipped: done.skipped, remaining: done.remaining })
}

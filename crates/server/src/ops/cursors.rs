//! Providers' cursors of a thread.

use enjamb_service::CursorFilter;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::call::Call;
use crate::problem::Result;
use crate::route::{Method, Route, Scope, at};
use crate::view;

pub fn routes() -> Vec<Route> {
    use Method::{Get, Post, Put};
    vec![
        at(Get, "/v1/threads/{thread}/cursors", "cursors", Scope::Read, "Where providers' conversations stand")
            .json(list),
        at(Put, "/v1/threads/{thread}/cursors", "set_cursor", Scope::Append, "Say where one stands").json(set),
        at(Post, "/v1/threads/{thread}/cursors/rotate", "rotate_cursor", Scope::Append, "Drop the last that fits")
            .json(rotate),
    ]
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct One {
    thread: String,
}

fn list(call: &Call, asked: One) -> Result<view::Cursors> {
    let (all, active) = call.store().cursors(&call.thread(&asked.thread)?)?;
    let active = active.as_ref().map(view::Cursor::from);
    Ok(view::Cursors { active, cursors: all.iter().map(view::Cursor::from).collect() })
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Set {
    thread: String,
    provider: Option<String>,
    /// A name for where the provider is; nothing is ever sent there
    endpoint: Option<String>,
    model: Option<String>,
    /// What the provider gave
    cursor: Map<String, Value>,
    run: Option<String>,
}

fn set(call: &Call, asked: Set) -> Result<view::Cursor> {
    let key = CursorFilter { provider: asked.provider, endpoint: asked.endpoint, model: asked.model };
    let thread = call.thread(&asked.thread)?;
    let set = call.store().set_cursor(&thread, key, Value::Object(asked.cursor), asked.run, &call.actor())?;
    Ok(view::Cursor::from(&set))
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Rotate {
    thread: String,
    provider: Option<String>,
    endpoint: Option<String>,
    model: Option<String>,
    reason: Option<String>,
}

fn rotate(call: &Call, asked: Rotate) -> Result<view::Rotated> {
    let filter = CursorFilter { provider: asked.provider, endpoint: asked.endpoint, model: asked.model };
    let thread = call.thread(&asked.thread)?;
    let rotated = call.store().rotate_cursor(&thread, &filter, asked.reason, &call.actor())?;
    Ok(view::Rotated { rotated: rotated.is_some(), cursor: rotated.as_ref().map(view::Cursor::from) })
}

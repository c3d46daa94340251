//! The state of the store, and its keeping.

use schemars::JsonSchema;
use serde::Deserialize;

use crate::call::Call;
use crate::problem::Result;
use crate::route::{Method, Route, Scope, at};
use crate::view;

pub fn routes() -> Vec<Route> {
    use Method::{Get, Post};
    vec![
        at(Get, "/v1/status", "status", Scope::Read, "What is in the store").json(status),
        at(Get, "/v1/doctor", "doctor", Scope::Admin, "Look for trouble").json(doctor),
        at(Post, "/v1/verify", "verify", Scope::Admin, "Check every byte and every rule").json(verify),
        at(Post, "/v1/maintain", "maintain", Scope::Admin, "Move cold bytes into compressed segments").json(maintain),
        at(Post, "/v1/gc", "gc", Scope::Admin, "Collect what nobody needs, or show what would be").json(gc),
    ]
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Recent {
    /// So many of the streams that were written to last
    recent: Option<usize>,
}

fn status(call: &Call, asked: Recent) -> Result<view::StoreStatus> {
    Ok(view::StoreStatus::from(&call.store().status(asked.recent.unwrap_or(5).min(100))?))
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Nothing {}

fn doctor(call: &Call, _: Nothing) -> Result<view::DoctorReport> {
    Ok(view::DoctorReport::from(call.store().doctor()?.as_slice()))
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Depth {
    /// Only that everything is there
    #[serde(default)]
    quick: bool,
}

fn verify(call: &Call, asked: Depth) -> Result<view::Verified> {
    Ok(view::Verified::from(&call.store().verify(asked.quick, &mut |_, _| {})?))
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Maintain {
    /// Make the index anew before
    #[serde(default)]
    rebuild_index: bool,
}

fn maintain(call: &Call, asked: Maintain) -> Result<view::Maintenance> {
    if asked.rebuild_index {
        call.store().rebuild_index()?;
    }
    Ok(view::Maintenance::of(&call.store().maintain(&mut |_, _| {})?, asked.rebuild_index))
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Collect {
    /// Do it; else only the plan is shown
    #[serde(default)]
    run: bool,
}

fn gc(call: &Call, asked: Collect) -> Result<view::Collection> {
    if asked.run {
        return Ok(view::Collection::from(&call.store().gc_run(&call.actor(), &mut |_, _| {})?));
    }
    Ok(view::Collection::from(&call.store().gc_plan()?))
}

//! Names of commits, which move only from where they are.

use enjamb_core::CommitId;
use schemars::JsonSchema;
use serde::Deserialize;

use super::artifacts::expected;
use crate::call::{Call, Reply};
use crate::problem::{Problem, Result};
use crate::route::{Method, Route, Scope, at};
use crate::view;

pub fn routes() -> Vec<Route> {
    use Method::{Delete, Get, Post, Put};
    vec![
        at(Get, "/v1/refs", "refs", Scope::Read, "List names of commits").json(list),
        at(Get, "/v1/refs/{name}", "ref", Scope::Read, "Say which commit a name stands for")
            .answers::<Name, view::Ref>(show),
        at(Put, "/v1/refs/{name}", "move_ref", Scope::Append, "Name a commit").answers::<Named, view::Ref>(set),
        at(Delete, "/v1/refs/{name}", "delete_ref", Scope::Append, "Take a name away")
            .answers::<Name, view::Ref>(delete),
        at(Post, "/v1/contexts/{context}/fork", "fork", Scope::Append, "Name a commit to go on from")
            .status(201)
            .answers::<Fork, view::Ref>(fork),
    ]
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Nothing {}

fn list(call: &Call, _: Nothing) -> Result<view::Refs> {
    Ok(view::Refs { refs: call.store().references()?.iter().map(view::Ref::from).collect() })
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Name {
    name: String,
}

fn show(call: &Call, asked: Name) -> Result<Reply> {
    let commit = call.store().reference(&asked.name)?.ok_or_else(|| Problem::not_found("ref", &asked.name))?;
    let view = view::Ref { name: asked.name, commit: Some(commit.to_string()), previous: None };
    Ok(Reply::json(200, &view).header("etag", format!("\"{commit}\"")))
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Named {
    name: String,
    /// An id or its beginning, another ref, @, @-, PRINCIPAL@TIME
    commit: String,
}

fn set(call: &Call, asked: Named) -> Result<Reply> {
    let to = call.store().revision(&asked.commit)?;
    moved(call, 200, asked.name, Some(to))
}

fn delete(call: &Call, asked: Name) -> Result<Reply> {
    moved(call, 200, asked.name, None)
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Fork {
    context: String,
    /// The name of the new branch
    name: String,
}

fn fork(call: &Call, asked: Fork) -> Result<Reply> {
    let to = call.store().revision(&asked.context)?;
    moved(call, 201, asked.name, Some(to))
}

fn moved(call: &Call, status: u16, name: String, to: Option<CommitId>) -> Result<Reply> {
    let previous = call.store().move_reference(&name, to, expected(call)?, &call.actor())?;
    let text = |id: Option<CommitId>| id.map(|id| id.to_string());
    let etag = to.map(|id| format!("\"{id}\""));
    let reply = Reply::json(status, &view::Ref { name, commit: text(to), previous: text(previous) });
    Ok(etag.into_iter().fold(reply, |reply, etag| reply.header("etag", etag)))
}

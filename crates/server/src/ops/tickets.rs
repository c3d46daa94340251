//! Tickets that commits are linked to.

use enjamb_ledger::StoredCommit;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::call::Call;
use crate::problem::Result;
use crate::route::{Method, Route, Scope, at};
use crate::view;

pub fn routes() -> Vec<Route> {
    use Method::{Delete, Put};
    const PATH: &str = "/v1/contexts/{context}/tickets/{ticket}";
    vec![
        at(Put, PATH, "link", Scope::Append, "Link a commit to a ticket").json(link),
        at(Delete, PATH, "unlink", Scope::Append, "Take a link to a ticket away").json(unlink),
    ]
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Linked {
    context: String,
    /// As its tracker names it
    ticket: String,
}

fn link(call: &Call, asked: Linked) -> Result<view::Links> {
    let id = call.store().revision(&asked.context)?;
    Ok(links(&call.store().link(&id, &asked.ticket, &call.actor())?))
}

fn unlink(call: &Call, asked: Linked) -> Result<view::Links> {
    let id = call.store().revision(&asked.context)?;
    Ok(links(&call.store().unlink(&id, &asked.ticket, &call.actor())?))
}

fn links(stored: &StoredCommit) -> view::Links {
    let tickets = enjamb_service::tickets_of(stored).into_iter().map(str::to_owned).collect();
    view::Links { id: stored.commit.commit_id.clone(), tickets }
}

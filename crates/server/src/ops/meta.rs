//! What the server is, whether it lives, and what can be asked of it.

use schemars::JsonSchema;
use serde::Deserialize;

use crate::call::{Call, Reply};
use crate::problem::Result;
use crate::route::{Gives, Method, Route, Scope, at};
use crate::{docs, metrics, openapi, view};

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Nothing {}

pub fn routes() -> Vec<Route> {
    use Method::Get;
    vec![
        at(Get, "/v1/meta", "meta", Scope::Read, "Say what this server is and who is asking").json(meta),
        at(Get, "/v1/openapi.json", "openapi", Scope::Open, "This description").replies(openapi),
        at(Get, "/docs", "docs", Scope::Open, "This description for people").gives(Gives::Page).replies(docs_page),
        at(Get, "/healthz", "health", Scope::Open, "Say that the server lives").json(health),
        at(Get, "/readyz", "ready", Scope::Open, "Say whether the store can be read").json(ready),
        at(Get, "/metrics", "metrics", Scope::Read, "Counters, for Prometheus")
            .gives(Gives::Text)
            .replies(metrics_text),
    ]
}

fn meta(call: &Call, _: Nothing) -> Result<view::Meta> {
    Ok(view::Meta {
        name: "enjamb".into(),
        version: env!("CARGO_PKG_VERSION").into(),
        api: "v1".into(),
        store_id: call.store().status(0)?.store_id,
        namespace: call.caller.namespace.clone(),
        principal: call.caller.principal.clone(),
        scopes: call.caller.scopes.iter().map(|scope| scope.as_str().to_owned()).collect(),
    })
}

fn openapi(_: &Call, _: Nothing) -> Result<Reply> {
    Ok(Reply::text("application/json", openapi::text()))
}

fn docs_page(_: &Call, _: Nothing) -> Result<Reply> {
    Ok(Reply::text("text/html; charset=utf-8", docs::page()))
}

fn health(_: &Call, _: Nothing) -> Result<view::Health> {
    Ok(view::Health { status: "ok".into() })
}

fn ready(call: &Call, _: Nothing) -> Result<view::Health> {
    call.store().status(0)?;
    Ok(view::Health { status: "ok".into() })
}

fn metrics_text(call: &Call, _: Nothing) -> Result<Reply> {
    Ok(Reply::text("text/plain; version=0.0.4", metrics::text(call)?))
}

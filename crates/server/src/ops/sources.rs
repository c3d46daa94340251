//! What was imported: given back as it was, and which secrets are in it.

use std::path::Path;

use enjamb_core::redact::RULE_SET;
use enjamb_service::SourceState;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::call::{Call, Reply, Source};
use crate::problem::{Problem, Result};
use crate::route::{Gives, Method, Route, Scope, at};
use crate::view;

pub fn routes() -> Vec<Route> {
    use Method::Get;
    vec![
        at(Get, "/v1/sources/about", "source", Scope::Read, "Say what is known of an imported file").json(about),
        at(Get, "/v1/sources/bytes", "export", Scope::Read, "An imported file as it was, or without secrets")
            .gives(Gives::Bytes)
            .watched()
            .replies(export),
        at(Get, "/v1/secrets", "secrets", Scope::Read, "Where secrets are in what was imported, and of which kind")
            .json(secrets),
    ]
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Which {
    /// The id of its session, or the beginning of it
    session: Option<String>,
    /// Or the path that it was imported from
    path: Option<String>,
}

fn source(call: &Call, asked: &Which) -> Result<SourceState> {
    match (&asked.session, &asked.path) {
        (None, Some(path)) => Ok(call.store().source_at(Path::new(path))?),
        (Some(session), None) => Ok(call.store().source_of_session(session)?),
        _ => Err(Problem::schema("", "give session or path")),
    }
}

fn about(call: &Call, asked: Which) -> Result<view::ImportedFile> {
    Ok(view::ImportedFile::from(&source(call, &asked)?))
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Export {
    session: Option<String>,
    path: Option<String>,
    /// With [redacted:KIND] in the place of secrets
    #[serde(default)]
    redacted: bool,
}

fn export(call: &Call, asked: Export) -> Result<Reply> {
    let found = source(call, &Which { session: asked.session, path: asked.path })?;
    let space = call.space.clone();
    let written: Source = Box::new(move |out| {
        match asked.redacted {
            true => space.store.export_redacted(&found, out).map(drop)?,
            false => space.store.export(&found, out).map(drop)?,
        }
        Ok(())
    });
    let reply = Reply::bytes(200, None, written).header("content-disposition", "attachment");
    Ok(reply.header("content-security-policy", "sandbox; default-src 'none'"))
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Where {
    session: Option<String>,
}

fn secrets(call: &Call, asked: Where) -> Result<view::Secrets> {
    let places = call.store().secrets(asked.session.as_deref())?;
    Ok(view::Secrets { rules: RULE_SET.to_owned(), secrets: places.iter().map(view::SecretAt::from).collect() })
}

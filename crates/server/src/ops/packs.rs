//! Context packs: made, listed, read and taken in.

use std::io::Read;

use enjamb_core::limits;
use enjamb_core::pack::Repo;
use enjamb_core::redact::mask;
use enjamb_service::{Exported, PackRequest};
use schemars::JsonSchema;
use serde::Deserialize;

use super::{rows, stop};
use crate::call::{Call, Reply, invalid};
use crate::problem::{Problem, Result};
use crate::route::{Gives, Method, Route, Scope, Takes, at};
use crate::view;

pub fn routes() -> Vec<Route> {
    use Method::{Get, Post};
    vec![
        at(Get, "/v1/packs", "packs", Scope::Read, "List packs, newest first").json(list),
        at(Post, "/v1/packs", "pack", Scope::Append, "Pack sessions: messages and sources under one hash")
            .status(201)
            .answers::<Asked, view::Packs>(pack),
        at(Post, "/v1/packs/import", "unpack", Scope::Append, "Take in a pack that someone else made")
            .takes(Takes::Bytes)
            .status(201)
            .answers::<Nothing, view::Pack>(unpack),
        at(Get, "/v1/packs/{pack}/about", "pack_record", Scope::Read, "Say what is known of a pack").json(about),
        at(Get, "/v1/packs/{pack}", "packed", Scope::Read, "Read a pack").gives(Gives::Bytes).watched().replies(packed),
    ]
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct List {
    session: Option<String>,
    limit: Option<usize>,
    cursor: Option<String>,
}

fn list(call: &Call, asked: List) -> Result<view::Packs> {
    let before = asked.cursor.as_deref().map(place).transpose()?;
    let (records, next) = call.store().packs(asked.session.as_deref(), before, rows(asked.limit))?;
    let next = next.map(|seq| format!("seq-{seq}"));
    Ok(view::Packs { packs: records.iter().map(view::Pack::from).collect(), next })
}

fn place(cursor: &str) -> Result<u64> {
    cursor.strip_prefix("seq-").and_then(|seq| seq.parse().ok()).ok_or_else(|| Problem::bad_cursor(cursor))
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Asked {
    /// Commits, or threads as continuity/ID
    from: Vec<String>,
    /// compaction, root (the default here), or an ancestor
    stop: Option<String>,
    title: Option<String>,
    /// The repository that files are said to be of: OWNER/NAME
    repo: Option<String>,
    /// Replace secrets before hashing
    #[serde(default)]
    redact: bool,
}

fn pack(call: &Call, asked: Asked) -> Result<Reply> {
    if asked.from.is_empty() {
        return Err(Problem::schema("/from", "name at least one commit or thread"));
    }
    let stop = stop(call, Some(asked.stop.as_deref().unwrap_or("root")))?;
    let repo = asked.repo.as_deref().map(repo_of).transpose()?;
    let request = |text: &String| -> Result<PackRequest> {
        let from = call.store().pack_from(text, stop)?;
        Ok(PackRequest { from, title: asked.title.clone(), repo: repo.clone(), redact: asked.redact })
    };
    let requests = asked.from.iter().map(request).collect::<Result<Vec<_>>>()?;
    let packed = call.store().pack(&requests, &call.actor())?;
    let status = if packed.iter().all(|pack| pack.known) { 200 } else { 201 };
    Ok(Reply::json(status, &view::Packs { packs: packed.iter().map(view::Pack::from).collect(), next: None }))
}

fn repo_of(text: &str) -> Result<Repo> {
    match text.split_once('/') {
        Some((owner, repo)) if !owner.is_empty() && !repo.is_empty() => {
            Ok(Repo { owner: owner.to_owned(), repo: repo.to_owned() })
        }
        _ => Err(invalid("repo", text, "OWNER/NAME")),
    }
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Nothing {}

fn unpack(call: &Call, _: Nothing) -> Result<Reply> {
    let mut json = Vec::new();
    let read = call.take_body().take(limits::PACK_FILE_BYTES_MAX as u64 + 1).read_to_end(&mut json);
    read.map_err(|source| enjamb_service::ServiceError::File { path: "the body".into(), source })?;
    if json.len() > limits::PACK_FILE_BYTES_MAX {
        let limit = limits::PACK_FILE_BYTES_MAX;
        return Err(Problem::new(413, "too-large", format!("a pack has at most {limit} bytes")).with("limit", limit));
    }
    let packed = call.store().unpack(&json, &call.actor())?;
    Ok(Reply::json(if packed.known { 200 } else { 201 }, &view::Pack::from(&packed)))
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct About {
    /// The hash, or the beginning of it
    pack: String,
}

fn about(call: &Call, asked: About) -> Result<view::Pack> {
    Ok(view::Pack::from(&call.store().packed(&asked.pack)?))
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct One {
    /// The hash, or the beginning of it
    pack: String,
    /// json, md or yaml
    format: Option<String>,
}

fn packed(call: &Call, asked: One) -> Result<Reply> {
    let packed = call.store().packed(&asked.pack)?;
    let (exported, kind) = match asked.format.as_deref() {
        None | Some("json") => (Exported::Json, "application/json"),
        Some("md") => (Exported::Markdown, "text/markdown; charset=utf-8"),
        Some("yaml") => (Exported::Yaml, "application/yaml"),
        Some(other) => return Err(invalid("format", other, "json, md or yaml")),
    };
    let text = exported.write(&packed.pack);
    // What is to be read has no secrets in it. JSON is the pack itself, and its hash is of just these bytes.
    let text = match exported {
        Exported::Json => text,
        Exported::Markdown | Exported::Yaml => mask(&text).into_owned(),
    };
    let etag = format!("{}.{kind}", packed.record.hash).replace(['/', ';', ' ', '='], "-");
    let failed = |error| Problem::from(enjamb_ledger::LedgerError::Output(error));
    let len = text.len() as u64;
    let reply = Reply::bytes(200, Some(len), Box::new(move |out| out(text.as_bytes()).map_err(failed)));
    Ok(reply
        .immutable(&etag)
        .header("content-type", kind)
        .header("content-security-policy", "sandbox; default-src 'none'"))
}

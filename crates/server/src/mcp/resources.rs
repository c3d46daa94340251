//! Resources: contexts as written accounts, threads as what was said, bundles and artifacts as they are.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use enjamb_core::redact::mask;
use rmcp::model::{Resource, ResourceContents, ResourceTemplate};
use serde_json::{Map, Value, json};

use super::{Guest, piece};
use crate::ops;
use crate::problem::{Problem, Result};
use crate::route::Route;

/// Bytes of one resource that are read.
const BYTES_MAX: usize = 64 << 10;
/// Of each kind, so many of the newest are listed.
const LISTED: usize = 10;

/// (name, the template, what it is)
const TEMPLATES: [(&str, &str, &str, &str); 4] = [
    (
        "context",
        "enjamb://context/{id}",
        "The conversation that a context holds, as a written account",
        "text/markdown",
    ),
    ("thread", "enjamb://thread/{id}", "What was said in a thread", "application/json"),
    ("bundle", "enjamb://bundle/{id}", "A compiled context", "application/json"),
    ("artifact", "enjamb://artifact/{id}", "Stored bytes", "application/octet-stream"),
];

pub fn templates() -> Vec<ResourceTemplate> {
    let template = |(name, uri, about, kind): (&str, &str, &str, &str)| {
        ResourceTemplate::new(uri, name).with_description(about).with_mime_type(kind)
    };
    TEMPLATES.into_iter().map(template).collect()
}

fn route(operation: &str) -> Result<Route> {
    let found = ops::routes().into_iter().find(|route| route.operation == operation);
    found.ok_or_else(|| Problem::new(500, "internal", format!("there is no operation {operation}")))
}

fn params<const N: usize>(pairs: [(&str, Value); N]) -> Map<String, Value> {
    pairs.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// The newest contexts and threads.
pub fn list(guest: &Guest) -> Result<Vec<Resource>> {
    let mut all = Vec::new();
    let contexts = guest.perform(&route("log")?, params([("limit", LISTED.into())]))?;
    for context in contexts["contexts"].as_array().into_iter().flatten() {
        let id = context["id"].as_str().unwrap_or_default();
        let about = context["summary"].as_str().unwrap_or("a context");
        let name = piece(about, 0, 80).0;
        all.push(Resource::new(format!("enjamb://context/{id}"), name).with_mime_type("text/markdown"));
    }
    let threads = guest.perform(&route("threads")?, Map::new())?;
    for thread in threads["threads"].as_array().into_iter().flatten().rev().take(LISTED) {
        let id = thread["thread_id"].as_str().unwrap_or_default();
        let name = piece(thread["title"].as_str().unwrap_or(id), 0, 80).0;
        all.push(Resource::new(format!("enjamb://thread/{id}"), name).with_mime_type("application/json"));
    }
    Ok(all)
}

pub fn read(guest: &Guest, uri: &str) -> Result<ResourceContents> {
    let bad = || Problem::not_found("resource", &uri.chars().take(200).collect::<String>());
    let (kind, id) = uri.strip_prefix("enjamb://").and_then(|rest| rest.split_once('/')).ok_or_else(bad)?;
    let text = |text: &str, kind: &str| {
        let (piece, more) = piece(text, 0, BYTES_MAX);
        let rest = more.map_or_else(String::new, |_| format!("\n\n… {} bytes in all; tools read the rest", text.len()));
        ResourceContents::text(format!("{piece}{rest}"), uri).with_mime_type(kind)
    };
    match kind {
        "context" => Ok(text(&account(guest, id)?, "text/markdown")),
        "thread" => Ok(text(&said(guest, id)?, "application/json")),
        "bundle" => {
            let bundle = guest.perform(&route("bundle")?, params([("bundle", id.into())]))?;
            Ok(text(&bundle["bundle"].to_string(), "application/json"))
        }
        "artifact" => artifact(guest, id, uri),
        _ => Err(bad()),
    }
}

/// A context as a written account.
pub fn account(guest: &Guest, id: &str) -> Result<String> {
    let wanted = params([("context", id.into()), ("format", "narrative-v1".into())]);
    let told = guest.perform(&route("materialize")?, wanted)?;
    Ok(told.as_str().unwrap_or_default().to_owned())
}

/// The messages of a thread, as JSON.
pub fn said(guest: &Guest, id: &str) -> Result<String> {
    let thread = guest.perform(&route("thread")?, params([("thread", id.into())]))?;
    let whole = thread["thread_id"].as_str().unwrap_or(id).to_owned();
    let frames = params([("kind", "continuity".into()), ("id", whole.into()), ("limit", 1000.into())]);
    let frames = guest.perform(&route("frames")?, frames)?;
    let mut messages = Vec::new();
    for frame in frames["frames"].as_array().into_iter().flatten().map(|frame| &frame["frame"]) {
        if frame["type"] == "continuity_message_appended" {
            messages.push(json!({"id": frame["id"], "who": frame["actor_id"], "said": frame["content"]}));
        }
    }
    Ok(json!({"thread": thread, "messages": messages}).to_string())
}

fn artifact(guest: &Guest, id: &str, uri: &str) -> Result<ResourceContents> {
    let about = guest.perform(&route("artifact")?, params([("artifact", id.into())]))?;
    let bytes = about["bytes"].as_u64().unwrap_or(0);
    if bytes > BYTES_MAX as u64 {
        let title = format!("it has {bytes} bytes: more than a resource may");
        return Err(Problem::new(413, "too-large", title).help("enjamb get ID --range A-B"));
    }
    let call = crate::call::Call::new(guest.space.clone(), guest.caller.clone(), params([("artifact", id.into())]));
    let mut whole = Vec::new();
    if let crate::call::ReplyBody::Bytes { source, .. } = route("get")?.run(&call)?.body {
        source(&mut |part| {
            whole.extend_from_slice(part);
            Ok(())
        })?;
    }
    Ok(match String::from_utf8(whole) {
        Ok(text) => ResourceContents::text(mask(&text), uri).with_mime_type("text/plain"),
        Err(error) => ResourceContents::blob(STANDARD.encode(error.into_bytes()), uri),
    })
}

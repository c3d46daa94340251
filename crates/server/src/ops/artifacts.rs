//! Artifacts: bytes in, whole or a range out, and what is said of them.

use std::ops::Range;

use enjamb_core::{ArtifactId, IdKind, IdPrefix};
use enjamb_service::{Expect, PutOptions, parse_ttl};
use schemars::JsonSchema;
use serde::Deserialize;

use super::rows;
use crate::call::{Call, Reply, Source};
use crate::problem::{Problem, Result};
use crate::route::{Gives, Method, Route, Scope, Takes, at};
use crate::view;

pub fn routes() -> Vec<Route> {
    use Method::{Delete, Get, Post, Put};
    vec![
        at(Get, "/v1/artifacts", "artifacts", Scope::Read, "List artifacts").json(list),
        at(Post, "/v1/artifacts", "put", Scope::Append, "Store bytes")
            .takes(Takes::Bytes)
            .status(201)
            .answers::<Upload, view::StoredArtifact>(upload),
        at(Put, "/v1/artifacts/{artifact}", "put_as", Scope::Append, "Store bytes that have to have this id")
            .takes(Takes::Bytes)
            .status(201)
            .answers::<UploadAs, view::StoredArtifact>(upload_as),
        at(Get, "/v1/artifacts/{artifact}", "get", Scope::Read, "Get bytes back, or a range of them")
            .gives(Gives::Bytes)
            .watched()
            .replies(download),
        at(Get, "/v1/artifacts/{artifact}/about", "artifact", Scope::Read, "Say what is known of an artifact")
            .json(about),
        at(Put, "/v1/artifacts/{artifact}/policy", "pin", Scope::Append, "Say how long an artifact is kept")
            .json(policy),
        at(Get, "/v1/tags", "tags", Scope::Read, "List names of artifacts").json(tags),
        at(Get, "/v1/tags/{name}", "tagged", Scope::Read, "Say what a name stands for")
            .answers::<TagName, view::Tag>(tagged),
        at(Put, "/v1/tags/{name}", "tag", Scope::Append, "Name an artifact").answers::<Name, view::Tag>(tag),
        at(Delete, "/v1/tags/{name}", "untag", Scope::Append, "Take a name away").answers::<TagName, view::Tag>(untag),
    ]
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct List {
    /// Only those whose ids begin so
    prefix: Option<String>,
    limit: Option<usize>,
    cursor: Option<String>,
}

fn list(call: &Call, asked: List) -> Result<view::Artifacts> {
    let prefix = asked.prefix.as_deref().map(|text| IdPrefix::parse(text, IdKind::Artifact)).transpose()?;
    let after: Option<ArtifactId> =
        asked.cursor.as_deref().map(|text| text.parse().map_err(|_| Problem::bad_cursor(text))).transpose()?;
    let limit = rows(asked.limit);
    let found = call.store().artifacts_after(prefix.as_ref(), after.as_ref(), limit + 1)?;
    let next = (found.len() > limit).then(|| found[limit - 1].id.to_string());
    Ok(view::Artifacts { artifacts: found.iter().take(limit).map(view::Artifact::from).collect(), next })
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Upload {
    /// May be collected after this long, once nothing refers to it: 90s, 15m, 12h, 30d
    ttl: Option<String>,
}

fn upload(call: &Call, asked: Upload) -> Result<Reply> {
    store(call, None, asked.ttl.as_deref())
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct UploadAs {
    artifact: String,
    ttl: Option<String>,
}

fn upload_as(call: &Call, asked: UploadAs) -> Result<Reply> {
    store(call, Some(asked.artifact.parse()?), asked.ttl.as_deref())
}

fn store(call: &Call, expected: Option<ArtifactId>, ttl: Option<&str>) -> Result<Reply> {
    let ttl_ms = ttl.map(parse_ttl).transpose()?;
    let options = PutOptions { expected, ttl_ms, by: call.actor() };
    let stored = call.store().put(&mut call.take_body(), &options)?;
    let view = view::StoredArtifact::from(stored);
    let status = if stored.known { 200 } else { 201 };
    Ok(Reply::json(status, &view).header("location", format!("/v1/artifacts/{}", view.id)))
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Artifact {
    /// An id, the beginning of one, or a tag
    artifact: String,
}

fn download(call: &Call, asked: Artifact) -> Result<Reply> {
    let id = call.store().resolve_artifact(&asked.artifact)?;
    let len = call.store().artifact(&id)?.len;
    let space = call.space.clone();
    let read = move |range: Range<u64>| -> Source { Box::new(move |out| Ok(space.store.get(&id, Some(range), out)?)) };
    // What is stored may be a page made to harm whoever opens it, so it is never opened, only kept.
    let name = format!("attachment; filename=\"{id}\"");
    let etag = Etag { text: id.to_string(), is_final: asked.artifact == id.to_string() };
    let reply = ranged(call, &etag, len, read)?.header("content-disposition", name);
    Ok(reply.header("content-security-policy", "sandbox; default-src 'none'"))
}

/// What stands for bytes that never change.
pub(super) struct Etag {
    pub text: String,
    /// The address names these very bytes for good; a tag or a beginning of an id does not.
    pub is_final: bool,
}

impl Etag {
    fn mark(&self, reply: Reply) -> Reply {
        if self.is_final {
            return reply.immutable(&self.text);
        }
        reply.header("etag", format!("\"{}\"", self.text)).header("cache-control", "private, no-cache")
    }

    fn is_in(&self, header: &str) -> bool {
        header.split(',').any(|tag| tag.trim().trim_start_matches("W/").trim_matches('"') == self.text)
    }
}

/// Bytes that never change, or the range of them that was asked for.
pub(super) fn ranged(call: &Call, etag: &Etag, len: u64, read: impl FnOnce(Range<u64>) -> Source) -> Result<Reply> {
    if call.headers.if_none_match.as_ref().is_some_and(|header| etag.is_in(header)) {
        return Ok(etag.mark(Reply::nothing(304)));
    }
    let (status, range) = match &call.headers.range {
        None => (200, 0..len),
        Some(text) => (206, byte_range(text, len)?),
    };
    let sent = range.end - range.start;
    let shown = format!("bytes {}-{}/{len}", range.start, range.end.saturating_sub(1));
    let reply = etag.mark(Reply::bytes(status, Some(sent), read(range))).header("accept-ranges", "bytes");
    Ok(if status == 206 { reply.header("content-range", shown) } else { reply })
}

/// One range of `bytes=`: `a-b`, `a-` or `-n`.
fn byte_range(text: &str, len: u64) -> Result<Range<u64>> {
    let beyond = || {
        Problem::new(416, "bad-range", format!("{text:?} is no part of {len} bytes"))
            .header("content-range", format!("bytes */{len}"))
            .with("size", len)
    };
    let spec = text.trim().strip_prefix("bytes=").ok_or_else(beyond)?;
    if spec.contains(',') {
        return Err(Problem::new(400, "bad-range", "one range at a time").with("size", len));
    }
    let (from, to) = spec.split_once('-').ok_or_else(beyond)?;
    let number = |text: &str| text.parse::<u64>().map_err(|_| beyond());
    let range = match (from, to) {
        ("", last) => len.saturating_sub(number(last)?)..len,
        (from, "") => number(from)?..len,
        (from, to) => number(from)?..number(to)?.saturating_add(1).min(len),
    };
    if range.start < range.end { Ok(range) } else { Err(beyond()) }
}

fn about(call: &Call, asked: Artifact) -> Result<view::Artifact> {
    let id = call.store().resolve_artifact(&asked.artifact)?;
    Ok(view::Artifact::from(&call.store().artifact(&id)?))
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Policy {
    artifact: String,
    /// default, pin, ephemeral or replicate
    policy: String,
    /// For ephemeral: 90s, 15m, 12h, 30d
    ttl: Option<String>,
}

fn policy(call: &Call, asked: Policy) -> Result<view::Artifact> {
    let store = call.store();
    let id = store.resolve_artifact(&asked.artifact)?;
    let ttl_ms = asked.ttl.as_deref().map(parse_ttl).transpose()?;
    store.set_policy(&id, &asked.policy, ttl_ms, &call.actor())?;
    Ok(view::Artifact::from(&store.artifact(&id)?))
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Nothing {}

fn tags(call: &Call, _: Nothing) -> Result<view::Tags> {
    let tag = |tag: enjamb_service::TagView| view::Tag {
        name: tag.name,
        artifact: Some(tag.artifact.to_string()),
        previous: None,
    };
    Ok(view::Tags { tags: call.store().tags()?.into_iter().map(tag).collect() })
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct TagName {
    name: String,
}

fn tagged(call: &Call, asked: TagName) -> Result<Reply> {
    let found = call.store().tagged(&asked.name)?.ok_or_else(|| Problem::not_found("tag", &asked.name))?;
    let tag = view::Tag { name: asked.name, artifact: Some(found.to_string()), previous: None };
    Ok(Reply::json(200, &tag).header("etag", format!("\"{found}\"")))
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Name {
    name: String,
    /// An id, the beginning of one, or another tag
    artifact: String,
}

fn tag(call: &Call, asked: Name) -> Result<Reply> {
    let id = call.store().resolve_artifact(&asked.artifact)?;
    moved(call, asked.name, Some(id))
}

fn untag(call: &Call, asked: TagName) -> Result<Reply> {
    moved(call, asked.name, None)
}

fn moved(call: &Call, name: String, to: Option<ArtifactId>) -> Result<Reply> {
    let previous = call.store().tag(&name, to, expected(call)?, &call.actor())?;
    let text = |id: Option<ArtifactId>| id.map(|id| id.to_string());
    let tag = view::Tag { name, artifact: text(to), previous: text(previous) };
    let etag = to.map(|id| format!("\"{id}\""));
    let reply = Reply::json(200, &tag);
    Ok(etag.into_iter().fold(reply, |reply, etag| reply.header("etag", etag)))
}

/// What a name has to stand for: `If-Match` gives it, and `If-None-Match: *` says nothing.
pub(super) fn expected<T: std::str::FromStr>(call: &Call) -> Result<Expect<T>> {
    match (&call.headers.if_match, &call.headers.if_none_match) {
        (Some(text), _) => {
            let id = text.trim().trim_matches('"');
            let bad = || Problem::schema("", "If-Match has to be the id that the name stands for");
            id.parse().map(Expect::Exactly).map_err(|_| bad())
        }
        (None, Some(text)) if text.trim() == "*" => Ok(Expect::Nothing),
        _ => Ok(Expect::Anything),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_read_as_http_has_them() {
        let read = |text: &str| byte_range(text, 10).map_err(|problem| problem.status);
        assert_eq!(read("bytes=0-3"), Ok(0..4));
        assert_eq!(read("bytes=7-"), Ok(7..10));
        assert_eq!(read("bytes=-4"), Ok(6..10));
        assert_eq!(read("bytes=8-99"), Ok(8..10));
        for bad in ["bytes=10-", "bytes=5-3", "items=0-1", "bytes=x-1", "bytes=-0", "bytes="] {
            assert_eq!(read(bad), Err(416), "{bad}");
        }
        assert_eq!(read("bytes=0-1,3-4"), Err(400));
    }
}

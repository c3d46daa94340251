//! Contexts: made, listed, walked, compared, materialized.

use std::collections::BTreeSet;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use enjamb_core::chain::CommitKind;
use enjamb_core::{CommitId, Timestamp, limits};
use enjamb_service::{
    ChainCompact, ChainSummary, Checkpoint, Content, Filter, Materialize, Note, Reach, ServiceError, Snapshot,
    Source as Listed,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::artifacts::{Etag, ranged};
use super::{rows, stop};
use crate::call::{Call, Reply, Source, invalid, time};
use crate::problem::{Problem, Result};
use crate::route::{Gives, Method, Route, Scope, at};
use crate::view;

pub fn routes() -> Vec<Route> {
    use Method::{Get, Patch, Post};
    vec![
        at(Get, "/v1/contexts", "log", Scope::Read, "List commits, newest first, or along one chain").json(list),
        at(Post, "/v1/contexts", "checkpoint", Scope::Append, "Commit what an agent knows now")
            .status(201)
            .answers::<Commit, view::MadeAll>(checkpoint),
        at(Get, "/v1/contexts/{context}", "show", Scope::Read, "Show one commit").json(show),
        at(Patch, "/v1/contexts/{context}", "note", Scope::Append, "Say something about a commit").json(note),
        at(Get, "/v1/contexts/{context}/history", "history", Scope::Read, "The commits before one").json(history),
        at(Get, "/v1/contexts/{context}/children", "children", Scope::Read, "The commits that follow one")
            .json(children),
        at(Get, "/v1/contexts/{context}/tips", "tips", Scope::Read, "The ends of the branches that leave a commit")
            .json(tips),
        at(
            Get,
            "/v1/contexts/{context}/materialized",
            "materialize",
            Scope::Read,
            "The conversation that a chain holds",
        )
        .gives(Gives::Bytes)
        .replies(materialize),
        at(Get, "/v1/contexts/{context}/account", "account", Scope::Read, "What a materialization keeps and loses")
            .json(account),
        at(Get, "/v1/contexts/{context}/diff/{other}", "diff", Scope::Read, "Compare two contexts").json(diff),
        at(
            Get,
            "/v1/contexts/{context}/merge-base/{other}",
            "merge_base",
            Scope::Read,
            "Find where two histories part",
        )
        .json(merge_base),
        at(Post, "/v1/contexts/{context}/snapshot", "snapshot", Scope::Append, "Commit what a chain comes to")
            .status(201)
            .json(snapshot),
        at(
            Post,
            "/v1/contexts/{context}/compaction",
            "compact_chain",
            Scope::Append,
            "Let a summary stand for a chain",
        )
        .status(201)
        .json(compact),
        at(Get, "/v1/contexts/{context}/loss", "chain_loss", Scope::Read, "What a compaction of a chain lost")
            .json(loss),
        at(Get, "/v1/find", "find", Scope::Read, "Say whether a word names a thread or a commit, and which").json(find),
        at(Get, "/v1/resolve", "resolve", Scope::Read, "Find what someone knew at some time").json(resolve),
    ]
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct List {
    /// Along the chain of this commit: an id or its beginning, a ref, @, @-, PRINCIPAL@TIME
    from: Option<String>,
    principal: Option<String>,
    template: Option<String>,
    session: Option<String>,
    ticket: Option<String>,
    thread: Option<String>,
    format: Option<String>,
    since: Option<String>,
    until: Option<String>,
    /// Only commits without a summary
    #[serde(default)]
    no_summary: bool,
    /// Only commits that are linked to a ticket
    #[serde(default)]
    has_ticket: bool,
    /// Only commits that none follows
    #[serde(default)]
    tips: bool,
    /// With `from`: also commits that leave this part of the chain and what follows them, up to three times as many
    #[serde(default)]
    branches: bool,
    limit: Option<usize>,
    cursor: Option<String>,
}

fn list(call: &Call, asked: List) -> Result<view::Contexts> {
    let store = call.store();
    let filter = Filter {
        principal: asked.principal,
        template: asked.template,
        session: asked.session,
        ticket: asked.ticket,
        has_ticket: asked.has_ticket,
        thread: asked.thread,
        format: asked.format,
        since: asked.since.as_deref().map(|text| time("since", text)).transpose()?,
        until: asked.until.as_deref().map(|text| time("until", text)).transpose()?,
        no_summary: asked.no_summary,
        tips: asked.tips,
    };
    let source = match &asked.from {
        Some(text) => Listed::Chain(store.revision(text)?),
        // Those that wait for a summary have a list of their own, the oldest first.
        None if filter.no_summary => Listed::Unsummarised,
        None => Listed::Store,
    };
    let limit = rows(asked.limit);
    let after = cursor(call, asked.cursor.as_deref())?;
    let page = store.list(source, &filter, after, limit)?;
    let mut told = view::Contexts::from(&page);
    if asked.branches && asked.from.is_some() {
        let chain = page.commits.iter().map(|commit| commit.link.id).collect();
        told.contexts.extend(shown(call, &branches(call, chain, after, limit.saturating_mul(3))?)?);
    }
    Ok(told)
}

/// Up to so many commits that leave a chain, or follow those that do. What is above it was told with the page before.
fn branches(call: &Call, chain: Vec<CommitId>, above: Option<CommitId>, most: usize) -> Result<Vec<CommitId>> {
    let mut known: BTreeSet<_> = chain.iter().copied().chain(above).collect();
    let (mut found, mut waiting) = (Vec::new(), chain);
    waiting.reverse();
    while let Some(id) = waiting.pop() {
        for child in call.store().children(&id)? {
            if found.len() == most {
                return Ok(found);
            }
            if known.insert(child) {
                found.push(child);
                waiting.push(child);
            }
        }
    }
    Ok(found)
}

/// The commit that ended the page before; one that is not here was given by nobody.
fn cursor(call: &Call, text: Option<&str>) -> Result<Option<CommitId>> {
    let Some(text) = text else { return Ok(None) };
    let id: CommitId = text.parse().map_err(|_| Problem::bad_cursor(text))?;
    call.store().show(&id).map_err(|_| Problem::bad_cursor(text))?;
    Ok(Some(id))
}

/// A delta: words, bytes in base64, or an artifact that is stored.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Commit {
    /// The delta, as text
    content: Option<String>,
    /// The delta, in base64
    content_base64: Option<String>,
    /// The delta, stored before
    artifact: Option<String>,
    /// What a compaction replaces: a delta of its own, as text
    before: Option<String>,
    /// The same, in base64
    before_base64: Option<String>,
    format: String,
    /// Whose it is; a token that is bound to a principal commits for that one
    principal: Option<String>,
    parent: Option<String>,
    /// delta, compaction or snapshot
    #[serde(default = "delta", rename = "type")]
    kind: String,
    /// turn_boundary, tool_call, compaction, session_end or explicit
    #[serde(default = "explicit")]
    checkpoint: String,
    template: Option<String>,
    machine: Option<String>,
    session_id: Option<String>,
    ticket_id: Option<String>,
    thread_id: Option<String>,
    summary: Option<String>,
    attributes: Option<Value>,
    /// The same commit with the same time is the same commit
    created_at: Option<String>,
}

fn delta() -> String {
    "delta".into()
}

fn explicit() -> String {
    "explicit".into()
}

fn checkpoint(call: &Call, asked: Commit) -> Result<Reply> {
    let store = call.store();
    let before = before(&asked)?;
    let request = request(call, asked)?;
    let made = match before {
        None => vec![store.checkpoint(request)?],
        Some(bytes) if request.kind == CommitKind::Compaction => {
            let before = Checkpoint {
                kind: CommitKind::Delta,
                content: Content::Bytes(bytes),
                trigger: "compaction".into(),
                summary: None,
                ..request.clone()
            };
            store.checkpoint_compaction(before, request)?.to_vec()
        }
        Some(_) => return Err(Problem::schema("/before", "only a compaction has something before it")),
    };
    let status = if made.iter().all(|one| one.known) { 200 } else { 201 };
    let location = made.last().map(|one| format!("/v1/contexts/{}", one.id)).unwrap_or_default();
    let all = view::MadeAll { commits: made.iter().map(view::Made::from).collect() };
    Ok(Reply::json(status, &all).header("location", location))
}

fn before(asked: &Commit) -> Result<Option<Vec<u8>>> {
    match (&asked.before, &asked.before_base64) {
        (None, None) => Ok(None),
        (Some(text), None) => Ok(Some(text.clone().into_bytes())),
        (None, Some(text)) => {
            let bytes = STANDARD.decode(text);
            bytes.map(Some).map_err(|error| Problem::schema("/before_base64", error.to_string()))
        }
        _ => Err(Problem::schema("", "give one of before and before_base64")),
    }
}

fn request(call: &Call, asked: Commit) -> Result<Checkpoint> {
    let store = call.store();
    Ok(Checkpoint {
        parent: asked.parent.as_deref().map(|text| store.revision(text)).transpose()?,
        kind: kind(&asked.kind)?,
        content: content(call, &asked)?,
        format: asked.format,
        principal: principal(call, asked.principal)?,
        trigger: asked.checkpoint,
        template: asked.template,
        machine: asked.machine,
        session_id: asked.session_id,
        ticket_id: asked.ticket_id,
        thread_id: asked.thread_id,
        summary: asked.summary,
        attributes: asked.attributes,
        created_at: asked.created_at.as_deref().map(|text| time("created_at", text)).transpose()?,
    })
}

/// In whose name a commit is made: as asked for, if that may be.
fn principal(call: &Call, asked: Option<String>) -> Result<String> {
    let principal = asked.or_else(|| call.caller.principal.clone()).unwrap_or_else(|| call.actor().actor_id);
    call.check_principal(&principal)?;
    Ok(principal)
}

/// A commit on top of which another is made, in the name of the same principal.
fn committed_after(call: &Call, revision: &str) -> Result<CommitId> {
    let id = call.store().revision(revision)?;
    if call.caller.principal.is_some() {
        call.check_principal(&call.store().show(&id)?.stream.id)?;
    }
    Ok(id)
}

fn kind(text: &str) -> Result<CommitKind> {
    match text {
        "delta" => Ok(CommitKind::Delta),
        "compaction" => Ok(CommitKind::Compaction),
        "snapshot" => Ok(CommitKind::Snapshot),
        other => Err(invalid("type", other, "delta, compaction or snapshot")),
    }
}

fn content(call: &Call, asked: &Commit) -> Result<Content> {
    match (&asked.content, &asked.content_base64, &asked.artifact) {
        (Some(text), None, None) => Ok(Content::Bytes(text.clone().into_bytes())),
        (None, Some(text), None) => {
            let bytes = STANDARD.decode(text);
            bytes.map(Content::Bytes).map_err(|error| Problem::schema("/content_base64", error.to_string()))
        }
        (None, None, Some(text)) => Ok(Content::Stored(call.store().resolve_artifact(text)?)),
        _ => Err(Problem::schema("", "give one of content, content_base64 and artifact")),
    }
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct One {
    /// An id or its beginning, a ref, @, @-, PRINCIPAL@TIME
    context: String,
}

fn show(call: &Call, asked: One) -> Result<view::Context> {
    let id = call.store().revision(&asked.context)?;
    Ok(view::Context::of(&call.store().show(&id)?, Some(&call.store().children(&id)?)))
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Noted {
    context: String,
    /// Leaves what was there when not given
    summary: Option<String>,
    /// All tags; leaves what was there when not given
    tags: Option<Vec<String>>,
}

fn note(call: &Call, asked: Noted) -> Result<view::Context> {
    if asked.summary.is_none() && asked.tags.is_none() {
        return Err(Problem::schema("", "give a summary, tags or both"));
    }
    let id = call.store().revision(&asked.context)?;
    let note = Note { summary: asked.summary, tags: asked.tags };
    Ok(view::Context::of(&call.store().note(&id, note, &call.actor())?, None))
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Walk {
    context: String,
    limit: Option<usize>,
    cursor: Option<String>,
}

fn history(call: &Call, asked: Walk) -> Result<view::Contexts> {
    let tip = call.store().revision(&asked.context)?;
    let after = cursor(call, asked.cursor.as_deref())?;
    let page = call.store().list(Listed::Chain(tip), &Filter::default(), after, rows(asked.limit))?;
    Ok(view::Contexts::from(&page))
}

fn children(call: &Call, asked: Ends) -> Result<view::SomeContexts> {
    let id = call.store().revision(&asked.context)?;
    some(call, &call.store().children(&id)?, false, &asked)
}

/// A page of commits that are all known: those after the one that ended the page before.
fn some(call: &Call, ids: &[CommitId], more: bool, asked: &Ends) -> Result<view::SomeContexts> {
    let after = cursor(call, asked.cursor.as_deref())?;
    let begin = after.and_then(|after| ids.iter().position(|id| *id == after)).map_or(0, |at| at + 1);
    let end = ids.len().min(begin + rows(asked.limit));
    Ok(view::SomeContexts { contexts: shown(call, &ids[begin..end])?, more: more || end < ids.len() })
}

fn shown(call: &Call, ids: &[CommitId]) -> Result<Vec<view::Context>> {
    ids.iter().map(|id| Ok(view::Context::of(&call.store().show(id)?, None))).collect()
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Ends {
    context: String,
    limit: Option<usize>,
    /// The commit that ended the page before
    cursor: Option<String>,
}

fn tips(call: &Call, asked: Ends) -> Result<view::SomeContexts> {
    let id = call.store().revision(&asked.context)?;
    let tips = call.store().tips(&id, limits::CHAIN_COMMITS_MAX)?;
    some(call, &tips.ids, tips.more, &asked)
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Wanted {
    context: String,
    /// compaction, root, or an ancestor
    stop: Option<String>,
    /// The format wanted; that of the chain if not given
    format: Option<String>,
}

fn wanted(call: &Call, asked: &Wanted) -> Result<(CommitId, Materialize)> {
    let tip = call.store().revision(&asked.context)?;
    let stop = stop(call, asked.stop.as_deref())?;
    Ok((tip, Materialize { tip: Some(tip), stop, format: asked.format.clone() }))
}

fn materialize(call: &Call, asked: Wanted) -> Result<Reply> {
    let (tip, request) = wanted(call, &asked)?;
    let written = call.space.flights.materialize(call.store(), &request)?;
    let said = &written.said;
    // How formats are translated may change with a version, and nothing else can.
    let text = format!("{tip}.{}.{}.{}", request.stop, said.format, env!("CARGO_PKG_VERSION"));
    let etag = Etag { text, is_final: asked.context == tip.to_string() };
    let headers = [
        ("enjamb-tier", said.tier.as_str().to_owned()),
        ("enjamb-format", said.format.clone()),
        ("enjamb-commits", said.commits.to_string()),
        ("enjamb-messages", said.messages.to_string()),
        ("enjamb-tokens", said.tokens.to_string()),
    ];
    let len = written.len();
    let read = move |range| -> Source { Box::new(move |out| written.read(range, out)) };
    let reply = ranged(call, &etag, len, read)?.header("content-security-policy", "sandbox; default-src 'none'");
    Ok(headers.into_iter().fold(reply, |reply, (name, value)| reply.header(name, value)))
}

fn account(call: &Call, asked: Wanted) -> Result<view::Account> {
    let (_, request) = wanted(call, &asked)?;
    Ok(view::Account::from(&call.space.flights.materialize(call.store(), &request)?.said))
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Two {
    context: String,
    other: String,
}

fn diff(call: &Call, asked: Two) -> Result<view::Diff> {
    let store = call.store();
    let (a, b) = (store.revision(&asked.context)?, store.revision(&asked.other)?);
    Ok(view::Diff::of(&a, &b, &store.diff(&a, &b)?))
}

fn merge_base(call: &Call, asked: Two) -> Result<view::MergeBase> {
    let store = call.store();
    let base = store.merge_base(&store.revision(&asked.context)?, &store.revision(&asked.other)?)?;
    Ok(view::MergeBase { id: base.map(|id| id.to_string()) })
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct SnapshotOf {
    context: String,
    /// compaction or root
    stop: Option<String>,
    summary: Option<String>,
    created_at: Option<String>,
}

fn snapshot(call: &Call, asked: SnapshotOf) -> Result<view::Made> {
    let reach = match asked.stop.as_deref() {
        None | Some("compaction") => Reach::Compaction,
        Some("root") => Reach::Root,
        Some(other) => return Err(invalid("stop", other, "compaction or root")),
    };
    let of = committed_after(call, &asked.context)?;
    let created_at = asked.created_at.as_deref().map(|text| time("created_at", text)).transpose()?;
    let made = call.store().snapshot(&Snapshot { of, reach, summary: asked.summary, created_at })?;
    Ok(view::Made::from(&made))
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct CompactChain {
    context: String,
    /// Turns at the end that stay as they are
    #[serde(default = "one")]
    keep_turns: usize,
    /// The summary; made by rule if not given
    summary: Option<String>,
    #[serde(default)]
    dry_run: bool,
}

fn one() -> usize {
    1
}

fn compact(call: &Call, asked: CompactChain) -> Result<view::CompactedChain> {
    let tip = committed_after(call, &asked.context)?;
    let summary = asked.summary.map_or(ChainSummary::Rule, ChainSummary::Words);
    let request = ChainCompact { keep_turns: asked.keep_turns, summary, dry_run: asked.dry_run };
    Ok(view::CompactedChain::from(&call.store().compact_chain(&tip, &request)?))
}

fn loss(call: &Call, asked: One) -> Result<view::Loss> {
    let id = call.store().revision(&asked.context)?;
    Ok(view::Loss::of(id.to_string(), &call.store().chain_loss(&id)?))
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Resolve {
    principal: String,
    /// RFC 3339; the end of time, if not given
    at: Option<String>,
}

fn resolve(call: &Call, asked: Resolve) -> Result<view::Resolved> {
    let at = match asked.at.as_deref() {
        Some(text) => time("at", text)?,
        None => Timestamp::from_micros(i64::MAX),
    };
    Ok(view::Resolved { id: call.store().resolve(&asked.principal, at)?.to_string() })
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Word {
    /// A thread or a commit: an id or its beginning, a ref, @
    name: String,
}

/// A thread by its id, else a commit by its words.
fn find(call: &Call, asked: Word) -> Result<view::Named> {
    let store = call.store();
    let commit = |id: CommitId| view::Named { thread_id: None, context: Some(id.to_string()) };
    if asked.name.starts_with("ctx-") || asked.name.starts_with('@') {
        return Ok(commit(store.revision(&asked.name)?));
    }
    let unknown = match store.resolve_thread(&asked.name) {
        Ok(thread) => return Ok(view::Named { thread_id: Some(thread.id), context: None }),
        Err(unknown @ (ServiceError::Unknown { .. } | ServiceError::Stream(_))) => unknown,
        Err(error) => return Err(error.into()),
    };
    match store.revision(&asked.name) {
        Ok(id) => Ok(commit(id)),
        // What is no word for a commit was meant as a thread.
        Err(ServiceError::Id(_)) => Err(unknown.into()),
        Err(error) => Err(error.into()),
    }
}

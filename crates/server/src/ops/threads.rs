//! Threads: begun, posted to, branched, handed over, searched.

use std::cmp::Reverse;

use enjamb_core::thread::Selector;
use enjamb_service::{Handoff, HitPlace, Post as Message, RunId, ThreadError, ThreadQuery};
use schemars::JsonSchema;
use serde::Deserialize;

use super::rows;
use crate::call::{Call, Reply, ReplyBody};
use crate::problem::{Problem, Result};
use crate::route::{Gives, Method, Route, Scope, at};
use crate::sse::{self, Filter, Follow, Subject};
use crate::view;

pub fn routes() -> Vec<Route> {
    use Method::{Delete, Get, Patch, Post, Put};
    vec![
        at(Get, "/v1/threads", "threads", Scope::Read, "List threads in the order in which they were begun").json(list),
        at(Post, "/v1/threads", "create_thread", Scope::Append, "Begin a thread, or find the one of a workspace")
            .status(201)
            .answers::<Begin, view::Thread>(begin),
        at(Get, "/v1/threads/search", "search_threads", Scope::Read, "Find what was said, or who touched a file")
            .json(search),
        at(Get, "/v1/threads/map", "thread_map", Scope::Read, "How threads hang together").json(map),
        at(Get, "/v1/threads/{thread}", "thread", Scope::Read, "Show a thread").json(show),
        at(Patch, "/v1/threads/{thread}", "update_thread", Scope::Append, "Put a thread away, or tag it").json(update),
        at(Post, "/v1/threads/{thread}/messages", "post", Scope::Append, "Post a message, and say that a run starts")
            .status(201)
            .answers::<PostMessage, view::PostedMessage>(post),
        at(Get, "/v1/threads/{thread}/events", "follow_thread", Scope::Read, "Follow a thread")
            .gives(Gives::Events)
            .replies(follow),
        at(Post, "/v1/threads/{thread}/branch", "branch", Scope::Append, "Go on from a thread in another")
            .status(201)
            .json(branch),
        at(Post, "/v1/threads/{thread}/handoff", "handoff", Scope::Append, "Hand a thread over to a new one")
            .status(201)
            .json(handoff),
        at(
            Post,
            "/v1/threads/{thread}/references",
            "reference",
            Scope::Append,
            "Bring part of another thread into one",
        )
        .status(201)
        .json(reference),
        at(Get, "/v1/threads/{thread}/pins", "pins", Scope::Read, "List pinned messages").json(pins),
        at(Put, "/v1/threads/{thread}/pins/{message}", "pin_message", Scope::Append, "Pin a message").json(pin),
        at(Delete, "/v1/threads/{thread}/pins/{message}", "unpin_message", Scope::Append, "Let a message go")
            .json(unpin),
        at(Get, "/v1/threads/{thread}/decisions", "decisions", Scope::Read, "What was decided for its runs")
            .json(decisions),
    ]
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct List {
    /// Also those put away
    #[serde(default)]
    archived: bool,
    tag: Option<String>,
    workspace: Option<String>,
    limit: Option<usize>,
    cursor: Option<String>,
}

fn list(call: &Call, asked: List) -> Result<view::Threads> {
    let mut threads = call.store().threads()?;
    if let Some(cursor) = &asked.cursor {
        let at = threads.iter().position(|thread| thread.id == *cursor);
        threads.drain(..=at.ok_or_else(|| Problem::bad_cursor(cursor))?);
    }
    threads.retain(|thread| {
        (asked.archived || !thread.archived)
            && asked.tag.as_ref().is_none_or(|tag| thread.tags.contains(tag))
            && asked.workspace.as_ref().is_none_or(|workspace| thread.workspace.as_ref() == Some(workspace))
    });
    let limit = rows(asked.limit);
    let next = (threads.len() > limit).then(|| threads[limit - 1].id.clone());
    Ok(view::Threads { threads: threads.iter().take(limit).map(view::Thread::from).collect(), next })
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Begin {
    #[serde(default)]
    workspace: String,
    title: Option<String>,
    /// Give the thread that the workspace has already, if it has one
    #[serde(default)]
    ensure: bool,
}

fn begin(call: &Call, asked: Begin) -> Result<Reply> {
    let store = call.store();
    let (thread, created) = match asked.ensure {
        true => store.ensure_thread(&asked.workspace, asked.title)?,
        false => (store.create_thread(&asked.workspace, asked.title)?, true),
    };
    let view = view::Thread { created: Some(created), ..view::Thread::from(&store.thread(&thread)?) };
    let location = format!("/v1/threads/{}", view.thread_id);
    Ok(Reply::json(if created { 201 } else { 200 }, &view).header("location", location))
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Search {
    /// Words that a message has to hold, all of them
    q: Option<String>,
    /// A path that was touched, or something below it
    file: Option<String>,
    limit: Option<usize>,
    cursor: Option<String>,
}

fn search(call: &Call, asked: Search) -> Result<view::Hits> {
    let query = match (asked.q, asked.file) {
        (Some(words), None) => ThreadQuery::Text(words),
        (None, Some(path)) => ThreadQuery::File(path),
        _ => return Err(Problem::schema("", "give q or file")),
    };
    let (limit, after) = (rows(asked.limit), asked.cursor.as_deref().map(hit_place).transpose()?);
    let hits = call.store().search_threads(&query, after.as_ref(), limit)?;
    let last = hits.last().filter(|_| hits.len() == limit);
    let next = last.map(|hit| format!("{}-{}-{}", hit.at_ms, hit.seq, hit.thread));
    Ok(view::Hits { hits: hits.iter().map(view::Hit::from).collect(), next })
}

/// The place of a hit as pages hand it on.
fn hit_place(cursor: &str) -> Result<HitPlace> {
    let mut parts = cursor.splitn(3, '-');
    let mut number = || parts.next()?.parse().ok().map(Reverse);
    let place = number().zip(number());
    let place =
        place.zip(parts.next()).map(|((at_ms, seq), thread)| HitPlace { at_ms, seq, thread: thread.to_owned() });
    place.ok_or_else(|| Problem::bad_cursor(cursor))
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Map {
    /// Leave the threads themselves out
    #[serde(default)]
    edges_only: bool,
}

fn map(call: &Call, asked: Map) -> Result<view::ThreadMap> {
    let threads = if asked.edges_only { Vec::new() } else { call.store().threads()? };
    let edges = call.store().thread_edges()?;
    let threads = threads.iter().map(view::Thread::from).collect();
    Ok(view::ThreadMap { threads, edges: edges.iter().map(view::Edge::from).collect() })
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct One {
    /// An id, or the beginning of one
    thread: String,
}

fn show(call: &Call, asked: One) -> Result<view::Thread> {
    Ok(view::Thread::from(&call.store().thread(&call.thread(&asked.thread)?)?))
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Update {
    thread: String,
    archived: Option<bool>,
    #[serde(default)]
    add_tags: Vec<String>,
    #[serde(default)]
    remove_tags: Vec<String>,
}

fn update(call: &Call, asked: Update) -> Result<view::Thread> {
    let (store, thread, by) = (call.store(), call.thread(&asked.thread)?, call.actor());
    if !asked.add_tags.is_empty() || !asked.remove_tags.is_empty() {
        store.tag_thread(&thread, asked.add_tags, asked.remove_tags, &by)?;
    }
    if let Some(archived) = asked.archived {
        store.archive_thread(&thread, archived, &by)?;
    }
    Ok(view::Thread::from(&store.thread(&thread)?))
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct PostMessage {
    thread: String,
    content: String,
    actor_id: Option<String>,
    origin: Option<String>,
    /// Say that a run starts for it
    #[serde(default)]
    run: bool,
    /// The session that runs; a new one if not given
    run_id: Option<String>,
}

fn post(call: &Call, asked: PostMessage) -> Result<Reply> {
    let thread = call.thread(&asked.thread)?;
    let by = call.actor_or(asked.actor_id.as_deref(), asked.origin.as_deref());
    let run = match asked.run_id {
        Some(run) => Some(RunId::Given(run)),
        None => asked.run.then_some(RunId::New),
    };
    let message = Message { content: asked.content, run, idempotency_key: call.headers.idempotency_key.clone() };
    let posted = call.store().post(&thread, message, &by)?;
    let view = view::PostedMessage {
        thread_id: thread.id,
        message_id: posted.message,
        seq: posted.seq,
        run: posted.run,
        replayed: posted.replayed,
    };
    Ok(Reply::json(if posted.replayed { 200 } else { 201 }, &view))
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct FollowThread {
    thread: String,
    after: Option<u64>,
    #[serde(default, rename = "type")]
    types: Vec<String>,
}

fn follow(call: &Call, asked: FollowThread) -> Result<Reply> {
    let stream = call.thread(&asked.thread)?;
    let end = call.store().stream(&stream)?.next_seq;
    let next = sse::after(call.headers.last_event_id.as_deref(), asked.after, 0, end)?;
    let body = ReplyBody::Events(Follow {
        filter: Filter { subject: Subject::Stream(stream), types: asked.types, seed: false },
        next,
    });
    Ok(Reply { status: 200, headers: Vec::new(), body })
}

/// Where a thread is cut: a message, a seq, or its end.
pub(super) fn selector(message: Option<String>, seq: Option<u64>) -> Result<Selector> {
    Ok(Selector::of(message, seq).ok_or(ThreadError::BothSelectors)?)
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Branch {
    thread: String,
    title: Option<String>,
    from_message_id: Option<String>,
    from_seq: Option<u64>,
}

fn branch(call: &Call, asked: Branch) -> Result<view::Child> {
    let at = selector(asked.from_message_id, asked.from_seq)?;
    let child = call.store().branch_thread(&call.thread(&asked.thread)?, &at, asked.title, &call.actor())?;
    Ok(view::Child::from(&child))
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct HandOver {
    thread: String,
    title: Option<String>,
    summary_markdown: Option<String>,
    summary_artifact: Option<String>,
    from_message_id: Option<String>,
    from_seq: Option<u64>,
}

fn handoff(call: &Call, asked: HandOver) -> Result<view::Child> {
    let store = call.store();
    let at = selector(asked.from_message_id, asked.from_seq)?;
    let artifact = asked.summary_artifact.as_deref().map(|text| store.resolve_artifact(text)).transpose()?;
    let words = Handoff { markdown: asked.summary_markdown, artifact };
    let child = store.handoff_thread(&call.thread(&asked.thread)?, &at, asked.title, words, &call.actor())?;
    Ok(view::Child::from(&child))
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Refer {
    thread: String,
    /// The thread that is referred to
    other: String,
    from_message_id: Option<String>,
    from_seq: Option<u64>,
    /// How many of its last messages
    #[serde(default = "ten")]
    last: usize,
}

fn ten() -> usize {
    10
}

fn reference(call: &Call, asked: Refer) -> Result<view::Reference> {
    let at = selector(asked.from_message_id, asked.from_seq)?;
    let (thread, other) = (call.thread(&asked.thread)?, call.thread(&asked.other)?);
    let made = call.store().reference_thread(&thread, &other, &at, asked.last, &call.actor())?;
    let extract = made.extract.to_string();
    Ok(view::Reference {
        thread_id: thread.id,
        to_thread_id: other.id,
        seq: made.seq,
        extract,
        messages: made.messages,
    })
}

fn pins(call: &Call, asked: One) -> Result<view::Pins> {
    let thread = call.thread(&asked.thread)?;
    let pinned = call.store().pinned_messages(&thread)?;
    Ok(view::Pins { thread_id: thread.id, pinned })
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct PinOne {
    thread: String,
    message: String,
}

fn pin(call: &Call, asked: PinOne) -> Result<view::Pins> {
    set_pin(call, &asked, true)
}

fn unpin(call: &Call, asked: PinOne) -> Result<view::Pins> {
    set_pin(call, &asked, false)
}

fn set_pin(call: &Call, asked: &PinOne, pinned: bool) -> Result<view::Pins> {
    let thread = call.thread(&asked.thread)?;
    call.store().pin_message(&thread, &asked.message, pinned, &call.actor())?;
    let pinned = call.store().pinned_messages(&thread)?;
    Ok(view::Pins { thread_id: thread.id, pinned })
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Decided {
    thread: String,
    limit: Option<usize>,
}

fn decisions(call: &Call, asked: Decided) -> Result<view::Decisions> {
    let thread = call.thread(&asked.thread)?;
    let found = call.store().decisions(&thread, asked.limit.unwrap_or(10))?;
    Ok(view::Decisions { thread_id: thread.id, decisions: found.iter().map(view::Decision::from).collect() })
}

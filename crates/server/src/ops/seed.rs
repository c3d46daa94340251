//! The thread routes of the seed project, answered as its own server answers them: its clients work unchanged.
//!
//! Its sessions, which belong to no thread, are not here; its tasks are in `seed_tasks`. A posted message says that a run
//! starts, and whoever runs it appends to its session.

use enjamb_core::frame::{ContinuityBody, Json, RawFrame};
use enjamb_core::{ArtifactId, Body, StreamId};
use enjamb_service::{
    AutoCompact, CheckpointView, CursorFilter, CursorView, Growth, Handoff, ManualCompact, Post as Message, RunId,
    SchedulePolicy, ThreadView,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::compactions::{STRIDE, job};
use super::threads::selector;
use crate::call::{Call, Reply, ReplyBody};
use crate::openapi;
use crate::problem::{Problem, Result};
use crate::route::{Gives, Method, Route, Scope, at};
use crate::sse::{Filter, Follow, Subject};

pub fn routes() -> Vec<Route> {
    use Method::{Get, Post};
    let get = |path, operation| at(Get, path, operation, Scope::Read, "As the seed project has it").seed();
    let ask = |path, operation| at(Post, path, operation, Scope::Read, "As the seed project has it").seed();
    let post = |path, operation| at(Post, path, operation, Scope::Append, "As the seed project has it").seed();
    vec![
        at(Get, "/openapi.json", "seed_openapi", Scope::Open, "As the seed project has it").seed().replies(openapi),
        post("/threads/ensure", "seed_ensure").replies(ensure),
        get("/threads", "seed_threads").replies(list),
        get("/threads/{id}", "seed_thread").replies(show),
        get("/threads/{id}/events", "seed_events").gives(Gives::Events).replies(events),
        post("/threads/{id}/messages", "seed_post").replies(message),
        post("/threads/{id}/branch", "seed_branch").replies(branch),
        post("/threads/{id}/handoff", "seed_handoff").replies(handoff),
        post("/threads/{id}/compaction-checkpoint", "seed_compact").replies(checkpoint),
        ask("/threads/{id}/compaction-cut-points", "seed_cut_points").replies(cut_points),
        ask("/threads/{id}/compaction-status", "seed_compaction_status").replies(status),
        post("/threads/{id}/compaction-auto", "seed_compact_auto").replies(auto),
        post("/threads/{id}/compaction-auto-schedule", "seed_compact_schedule").replies(schedule),
        ask("/threads/{id}/provider-cursor-status", "seed_cursors").replies(cursors),
        post("/threads/{id}/provider-cursor-rotate", "seed_rotate_cursor").replies(rotate),
        ask("/threads/{id}/context-selection-status", "seed_decisions").replies(decisions),
    ]
}

#[derive(Deserialize, JsonSchema)]
struct Nothing {}

fn openapi(_: &Call, _: Nothing) -> Result<Reply> {
    Ok(Reply::text("application/json", openapi::text()))
}

/// The seed project has one thread a workspace, and its workspace is where its server was started.
fn ensure(call: &Call, _: Nothing) -> Result<Reply> {
    let workspace = std::env::current_dir().unwrap_or_default();
    let (thread, _) = call.store().ensure_thread(&workspace.to_string_lossy(), None)?;
    Ok(Reply::json(200, &json!({"thread_id": thread.id})))
}

fn meta(view: &ThreadView) -> Value {
    let (id, at) = (&view.id, view.created_ms);
    json!({"thread_id": id, "created_at_ms": at, "title": view.title, "archived": view.archived})
}

fn list(call: &Call, _: Nothing) -> Result<Reply> {
    Ok(Reply::json(200, &call.store().threads()?.iter().map(meta).collect::<Vec<_>>()))
}

#[derive(Deserialize, JsonSchema)]
struct One {
    id: String,
}

/// Ids are whole here: the seed project knows no beginnings of them.
fn thread(call: &Call, id: &str) -> Result<StreamId> {
    let found = call.thread(id)?;
    if found.id == id { Ok(found) } else { Err(Problem::not_found("thread", id)) }
}

fn show(call: &Call, asked: One) -> Result<Reply> {
    Ok(Reply::json(200, &meta(&call.store().thread(&thread(call, &asked.id)?)?)))
}

fn events(call: &Call, asked: One) -> Result<Reply> {
    let subject = Subject::Stream(thread(call, &asked.id)?);
    let body = ReplyBody::Events(Follow { filter: Filter { subject, types: Vec::new(), seed: true }, next: 0 });
    Ok(Reply { status: 200, headers: Vec::new(), body })
}

/// Who acts, as its bodies name them.
#[derive(Default, Deserialize, JsonSchema)]
struct By {
    actor_id: Option<String>,
    origin: Option<String>,
}

impl By {
    fn actor(&self, call: &Call) -> enjamb_service::Actor {
        let origin = self.origin.as_deref().filter(|origin| !origin.is_empty()).unwrap_or("server");
        call.actor_or(self.actor_id.as_deref(), Some(origin))
    }
}

#[derive(Deserialize, JsonSchema)]
struct PostMessage {
    id: String,
    content: String,
    #[serde(flatten)]
    by: By,
}

fn message(call: &Call, asked: PostMessage) -> Result<Reply> {
    let thread = thread(call, &asked.id)?;
    let idempotency_key = call.headers.idempotency_key.clone();
    let message = Message { content: asked.content, run: Some(RunId::New), idempotency_key };
    let posted = call.store().post(&thread, message, &asked.by.actor(call))?;
    let value = json!({"thread_id": thread.id, "message_id": posted.message, "session_id": posted.run});
    Ok(Reply::json(202, &value))
}

#[derive(Deserialize, JsonSchema)]
struct Branch {
    id: String,
    title: Option<String>,
    from_message_id: Option<String>,
    from_seq: Option<u64>,
    #[serde(flatten)]
    by: By,
}

fn branch(call: &Call, asked: Branch) -> Result<Reply> {
    let cut = selector(asked.from_message_id, asked.from_seq)?;
    let parent = thread(call, &asked.id)?;
    let child = call.store().branch_thread(&parent, &cut, asked.title, &asked.by.actor(call))?;
    let value = json!({
        "thread_id": child.thread.id, "parent_thread_id": child.parent.id, "parent_seq": child.cut.seq,
        "parent_message_id": child.cut.message,
    });
    Ok(Reply::json(201, &value))
}

#[derive(Deserialize, JsonSchema)]
struct HandOver {
    id: String,
    title: Option<String>,
    summary_markdown: Option<String>,
    summary_artifact_id: Option<String>,
    from_message_id: Option<String>,
    from_seq: Option<u64>,
    #[serde(flatten)]
    by: By,
}

fn handoff(call: &Call, asked: HandOver) -> Result<Reply> {
    let cut = selector(asked.from_message_id, asked.from_seq)?;
    let artifact = artifact(asked.summary_artifact_id.as_deref())?;
    let words = Handoff { markdown: asked.summary_markdown, artifact };
    let from = thread(call, &asked.id)?;
    let child = call.store().handoff_thread(&from, &cut, asked.title, words, &asked.by.actor(call))?;
    let value = json!({
        "thread_id": child.thread.id, "from_thread_id": child.parent.id, "from_seq": child.cut.seq,
        "from_message_id": child.cut.message,
    });
    Ok(Reply::json(201, &value))
}

fn artifact(text: Option<&str>) -> Result<Option<ArtifactId>> {
    Ok(text.map(str::parse).transpose()?)
}

#[derive(Deserialize, JsonSchema)]
struct Checkpoint {
    id: String,
    summary_markdown: Option<String>,
    summary_artifact_id: Option<String>,
    to_message_id: Option<String>,
    to_seq: Option<u64>,
    stride_messages: Option<u64>,
    #[serde(flatten)]
    by: By,
}

fn checkpoint(call: &Call, asked: Checkpoint) -> Result<Reply> {
    let thread = thread(call, &asked.id)?;
    let request = ManualCompact {
        artifact: artifact(asked.summary_artifact_id.as_deref())?,
        markdown: asked.summary_markdown,
        at: selector(asked.to_message_id, asked.to_seq)?,
        stride: asked.stride_messages.unwrap_or(STRIDE),
        // The seed project stores what it is given.
        growth: Growth::Allowed,
    };
    let made = call.store().compact_by_hand(&thread, &request, &asked.by.actor(call))?;
    let mut value = created(&made);
    value["thread_id"] = thread.id.into();
    Ok(Reply::json(201, &value))
}

/// A job that makes a checkpoint at every cut, as the contract has it.
fn contract_job(stride: Option<u64>, new_max: Option<u32>, dry_run: Option<bool>) -> AutoCompact {
    AutoCompact { growth: Growth::Allowed, ..job(stride, new_max, dry_run.unwrap_or(false)) }
}

fn created(made: &CheckpointView) -> Value {
    json!({
        "checkpoint_id": made.checkpoint_id, "summary_artifact_id": made.summary_artifact_id, "to_seq": made.to_seq,
        "to_message_id": made.to_message_id, "cut_rule_id": made.cut_rule_id,
    })
}

#[derive(Deserialize, JsonSchema)]
struct Points {
    id: String,
    stride_messages: Option<u64>,
    limit: Option<u64>,
}

fn cut_points(call: &Call, asked: Points) -> Result<Reply> {
    let thread = thread(call, &asked.id)?;
    let stride = asked.stride_messages.unwrap_or(STRIDE);
    let points = call.store().cut_points(&thread, stride, asked.limit.unwrap_or(1))?;
    Ok(Reply::json(200, &crate::view::Cuts::of(&thread.id, &points)))
}

fn status(call: &Call, asked: Points) -> Result<Reply> {
    let thread = thread(call, &asked.id)?;
    let stride = asked.stride_messages.unwrap_or(STRIDE);
    let status = call.store().compaction_status(&thread, stride)?;
    let next = status.next.as_ref().map(|cut| {
        let (ordinal, seq) = (cut.ordinal, cut.to_seq);
        json!({"target_message_ordinal": ordinal, "to_seq": seq, "to_message_id": cut.to_message_id})
    });
    let latest = status.latest.as_ref().map(|latest| {
        let mut value = created(latest);
        value["summary_kind"] = "cumulative_v1".into();
        value
    });
    let last_job = match status.last_job.as_ref().and_then(|job| job.ended_seq) {
        Some(seq) => Some(job_outcome(call, &thread, seq)?),
        None => None,
    };
    let value = json!({
        "thread_id": thread.id, "stride_messages": stride, "message_count": status.messages,
        "latest_checkpoint": latest, "next_cut_point": next, "inflight_job_id": status.inflight_job_id,
        "last_schedule_decision": last_decision(call, &thread, status.last_decision.is_some())?,
        "last_job_outcome": last_job,
    });
    Ok(Reply::json(200, &value))
}

/// A frame's members, with those of its envelope that the seed project shows.
fn frame_at(call: &Call, thread: &StreamId, seq: u64) -> Result<Value> {
    let frames = call.store().frames(thread, seq, 1)?;
    let json = frames.first().map(|frame| frame.json.as_slice()).unwrap_or(b"null");
    Ok(serde_json::from_slice(json).unwrap_or(Value::Null))
}

fn job_outcome(call: &Call, thread: &StreamId, seq: u64) -> Result<Value> {
    let frame = frame_at(call, thread, seq)?;
    Ok(json!({
        "job_id": frame["job_id"], "job_kind": frame["job_kind"], "status": frame["status"], "error": frame["error"],
        "created": frame["result"]["created"].as_array().cloned().unwrap_or_default(), "actor_id": frame["actor_id"],
        "origin": frame["origin"], "seq": seq, "timestamp_ms": frame["timestamp_ms"],
    }))
}

/// The last decision of a schedule: the frame itself, which has every member that is shown.
fn last_decision(call: &Call, thread: &StreamId, there_is: bool) -> Result<Option<Value>> {
    if !there_is {
        return Ok(None);
    }
    let mut end = call.store().stream(thread)?.next_seq;
    while end > 0 {
        let from = end.saturating_sub(200);
        for frame in call.store().frames(thread, from, (end - from) as usize)?.into_iter().rev() {
            let seq = frame.seq;
            let raw = RawFrame::parse(frame.json).ok().and_then(|raw| raw.decode().ok());
            let is_it = |body: &Body| matches!(body, Body::Continuity(ContinuityBody::CompactionScheduleDecided(_)));
            if raw.is_some_and(|frame| is_it(&frame.body)) {
                return frame_at(call, thread, seq).map(Some);
            }
        }
        end = from;
    }
    Ok(None)
}

#[derive(Deserialize, JsonSchema)]
struct Auto {
    id: String,
    stride_messages: Option<u64>,
    max_new_checkpoints: Option<u32>,
    dry_run: Option<bool>,
    block_on_inflight: Option<bool>,
    execute: Option<bool>,
    actor_id: String,
    origin: String,
}

impl Auto {
    fn by(&self) -> By {
        By { actor_id: Some(self.actor_id.clone()), origin: Some(self.origin.clone()) }
    }
}

fn auto(call: &Call, asked: Auto) -> Result<Reply> {
    let thread = thread(call, &asked.id)?;
    let request = contract_job(asked.stride_messages, asked.max_new_checkpoints, asked.dry_run);
    let done = call.store().compact_auto(&thread, &request, &asked.by().actor(call))?;
    let points = call.store().cut_points(&thread, request.stride, 1)?;
    let planned: Vec<_> = done.planned.iter().map(crate::view::Planned::from).collect();
    let value = json!({
        "thread_id": thread.id, "status": done.status, "stride_messages": request.stride, "job_id": done.job_id,
        "job_kind": done.job_id.as_ref().map(|_| request.summarizer.job_kind()), "message_count": points.messages,
        "cut_rule_id": points.rule, "planned": planned, "result": done.created.iter().map(created).collect::<Vec<_>>(),
        "error": done.error,
    });
    Ok(Reply::json(if done.job_id.is_some() { 202 } else { 200 }, &value))
}

fn schedule(call: &Call, asked: Auto) -> Result<Reply> {
    let thread = thread(call, &asked.id)?;
    let request = contract_job(asked.stride_messages, asked.max_new_checkpoints, asked.dry_run);
    let (block, execute) = (asked.block_on_inflight.unwrap_or(true), asked.execute.unwrap_or(true));
    let policy = SchedulePolicy { block_on_inflight: block, execute };
    let done = call.store().compact_schedule(&thread, &request, policy, &asked.by().actor(call))?;
    let points = call.store().cut_points(&thread, request.stride, 1)?;
    let job_id = done.done.job_id.clone().or(done.inflight_job_id.clone());
    let planned: Vec<_> = done.done.planned.iter().map(crate::view::Planned::from).collect();
    let value = json!({
        "thread_id": thread.id, "policy_id": done.policy_id, "decision_id": done.decision_id, "decision": done.decision,
        "execute": execute, "stride_messages": request.stride, "max_new_checkpoints": request.new_max.clamp(1, 32),
        "block_on_inflight": block, "message_count": points.messages, "cut_rule_id": points.rule, "planned": planned,
        "job_id": job_id, "job_kind": job_id.as_ref().map(|_| request.summarizer.job_kind()),
        "result": done.done.created.iter().map(created).collect::<Vec<_>>(), "error": done.done.error,
    });
    Ok(Reply::json(if done.done.job_id.is_some() { 202 } else { 200 }, &value))
}

fn cursor(call: &Call, thread: &StreamId, view: &CursorView) -> Result<Value> {
    let mut frame = frame_at(call, thread, view.seq)?;
    let parsed = |json: &Json| serde_json::from_str::<Value>(json.get()).unwrap_or(Value::Null);
    frame["cursor_event_id"] = frame["id"].take();
    frame["cursor"] = view.update.cursor.as_ref().map_or(Value::Null, parsed);
    let shown = ["cursor_event_id", "provider", "endpoint", "model", "cursor", "action", "reason", "run_session_id"];
    let shown = shown.into_iter().chain(["actor_id", "origin", "seq", "timestamp_ms"]);
    Ok(shown.map(|name| (name.to_owned(), frame[name].take())).collect::<serde_json::Map<_, _>>().into())
}

fn cursors(call: &Call, asked: One) -> Result<Reply> {
    let thread = thread(call, &asked.id)?;
    let (all, active) = call.store().cursors(&thread)?;
    let all = all.iter().map(|view| cursor(call, &thread, view)).collect::<Result<Vec<_>>>()?;
    let active = active.map(|view| cursor(call, &thread, &view)).transpose()?;
    Ok(Reply::json(200, &json!({"thread_id": thread.id, "active": active, "cursors": all})))
}

#[derive(Deserialize, JsonSchema)]
struct Rotate {
    id: String,
    provider: Option<String>,
    endpoint: Option<String>,
    model: Option<String>,
    reason: Option<String>,
    actor_id: String,
    origin: String,
}

fn rotate(call: &Call, asked: Rotate) -> Result<Reply> {
    let thread = thread(call, &asked.id)?;
    let filter = CursorFilter { provider: asked.provider, endpoint: asked.endpoint, model: asked.model };
    let by = By { actor_id: Some(asked.actor_id), origin: Some(asked.origin) }.actor(call);
    let value = match call.store().rotate_cursor(&thread, &filter, asked.reason, &by)? {
        None => json!({"thread_id": thread.id, "rotated": false}),
        Some(view) => json!({
            "thread_id": thread.id, "rotated": true, "cursor_event_id": frame_at(call, &thread, view.seq)?["id"],
            "provider": view.update.provider, "endpoint": view.update.endpoint, "model": view.update.model,
        }),
    };
    Ok(Reply::json(200, &value))
}

#[derive(Deserialize, JsonSchema)]
struct Last {
    id: String,
    limit: Option<usize>,
}

fn decisions(call: &Call, asked: Last) -> Result<Reply> {
    let thread = thread(call, &asked.id)?;
    let mut shown = Vec::new();
    for (seq, _) in call.store().decisions(&thread, asked.limit.unwrap_or(10))? {
        let mut frame = frame_at(call, &thread, seq)?;
        frame["decision_event_id"] = frame["id"].take();
        if frame["resets"].is_null() {
            frame["resets"] = json!([]);
        }
        if let Some(members) = frame.as_object_mut() {
            ["id", "session_id", "stream_kind", "stream_id", "type"]
                .iter()
                .for_each(|name| drop(members.remove(*name)));
        }
        shown.push(frame);
    }
    Ok(Reply::json(200, &json!({"thread_id": thread.id, "decisions": shown})))
}

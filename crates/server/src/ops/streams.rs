//! Streams and their frames: listed, read, appended to and followed.

use std::sync::LazyLock;

use axum::body::Bytes;
use enjamb_core::{Json, StreamId, StreamKind, limits};
use enjamb_ledger::{Appended, Batch, Ledger, StreamOrder};
use enjamb_service::{Append, DraftLine};
use memchr::memmem::Finder;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::rows;
use crate::call::{Call, Reply, ReplyBody};
use crate::problem::{Problem, Result};
use crate::route::{Gives, Method, Route, Scope, Takes, at};
use crate::sse::{self, Filter, Follow, Subject};
use crate::{input, view};

/// Bytes of frames that are appended together.
const BODY_BYTES_MAX: u64 = 16 << 20;

pub fn routes() -> Vec<Route> {
    use Method::{Get, Post};
    vec![
        at(Get, "/v1/streams", "streams", Scope::Read, "List streams").json(list),
        at(Get, "/v1/streams/{kind}/{id}", "stream", Scope::Read, "Say where a stream stands").json(show),
        at(Get, "/v1/streams/{kind}/{id}/frames", "frames", Scope::Read, "Read frames of a stream")
            .answers::<Page, view::Frames>(frames),
        at(Post, "/v1/streams/{kind}/{id}/frames", "append", Scope::Append, "Append frames to a stream, all or none")
            .takes(Takes::Frames)
            .status(201)
            .appends::<Target, view::AppendedFrames>(append, appended),
        at(Post, "/v1/frames", "append_any", Scope::Append, "Append frames that name their streams, all or none")
            .takes(Takes::Frames)
            .status(201)
            .appends::<Nowhere, view::AppendedFrames>(append_any, appended),
        at(Get, "/v1/streams/{kind}/{id}/events", "follow", Scope::Read, "Follow a stream")
            .gives(Gives::Events)
            .replies(follow),
        at(
            Get,
            "/v1/principals/{principal}/events",
            "follow_principal",
            Scope::Read,
            "Follow what a principal commits",
        )
        .gives(Gives::Events)
        .replies(follow_principal),
        at(Get, "/v1/events", "follow_all", Scope::Read, "Follow everything").gives(Gives::Events).replies(follow_all),
    ]
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct List {
    /// Only streams of this kind
    kind: Option<String>,
    /// By name, not by last activity. Only then there are pages.
    #[serde(default)]
    by_name: bool,
    limit: Option<usize>,
    cursor: Option<String>,
}

fn list(call: &Call, asked: List) -> Result<view::Streams> {
    let limit = rows(asked.limit);
    let kind = asked.kind.as_deref();
    let by_name = asked.by_name || asked.cursor.is_some();
    let (order, most) = if by_name { (StreamOrder::Name, usize::MAX) } else { (StreamOrder::Recent, limit) };
    let mut found = call.store().streams(kind, order, most)?;
    found.retain(|stream| may_read(call, &stream.stream));
    if let Some(cursor) = &asked.cursor {
        let after: StreamId = cursor.parse().map_err(|_| Problem::bad_cursor(cursor))?;
        found.retain(|stream| stream.stream.to_string() > after.to_string());
    }
    let next = (by_name && found.len() > limit).then(|| found[limit - 1].stream.to_string());
    Ok(view::Streams { streams: found.iter().take(limit).map(view::Stream::from).collect(), next })
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Target {
    kind: String,
    /// The id within the kind; a slash in it is written %2F
    id: String,
}

impl Target {
    fn stream(&self) -> Result<StreamId> {
        Ok(StreamId::new(StreamKind::from(self.kind.as_str()), &self.id)?)
    }

    /// The stream, if the caller may see it.
    fn readable(&self, call: &Call) -> Result<StreamId> {
        let stream = self.stream()?;
        if !may_read(call, &stream) {
            return Err(enjamb_service::ServiceError::UnknownStream(stream).into());
        }
        Ok(stream)
    }
}

/// Who did what is for those who administer.
fn may_read(call: &Call, stream: &StreamId) -> bool {
    !sse::is_audit(stream) || call.caller.may(Scope::Admin)
}

fn show(call: &Call, target: Target) -> Result<view::Stream> {
    Ok(view::Stream::from(&call.store().stream(&target.readable(call)?)?))
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Page {
    kind: String,
    id: String,
    /// The first seq wanted
    from_seq: Option<u64>,
    limit: Option<usize>,
    cursor: Option<String>,
    /// As they are stored, byte for byte: secrets too, which are replaced by their kind otherwise
    #[serde(default)]
    raw: bool,
}

fn frames(call: &Call, page: Page) -> Result<Reply> {
    let target = Target { kind: page.kind, id: page.id };
    let stream = target.readable(call)?;
    let from = match &page.cursor {
        Some(cursor) => seq_of(cursor)?,
        None => page.from_seq.unwrap_or(0),
    };
    let limit = rows(page.limit);
    let frames = call.store().frames(&stream, from, limit)?;
    let end = call.store().stream(&stream)?.next_seq;
    let next = frames.last().map(|frame| frame.seq + 1).filter(|next| *next < end);
    let view = view::Frames { frames: frames.iter().map(view::Frame::from).collect(), next: next.map(cursor_of) };
    Ok(if page.raw { Reply::raw_json(200, &view) } else { Reply::json(200, &view) })
}

/// A place in a stream as pages hand it on.
fn cursor_of(seq: u64) -> String {
    format!("seq-{seq}")
}

fn seq_of(cursor: &str) -> Result<u64> {
    cursor.strip_prefix("seq-").and_then(|seq| seq.parse().ok()).ok_or_else(|| Problem::bad_cursor(cursor))
}

fn append(call: &Call, target: Target) -> Result<Batch> {
    append_to(call, Some(target.stream()?))
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Nowhere {}

fn append_any(call: &Call, _: Nowhere) -> Result<Batch> {
    append_to(call, None)
}

fn append_to(call: &Call, stream: Option<StreamId>) -> Result<Batch> {
    let body = read_body(call)?;
    let is_one = is_one_frame(call, &body);
    let lines = if is_one { vec![DraftLine { line: 1, json: body.to_vec() }] } else { read_lines(call, &body)? };
    let lines = lines.into_iter().map(|line| attributed(call, line)).collect::<Result<Vec<_>>>()?;
    check_streams(call, stream.as_ref(), &lines)?;
    let (expected_seq, idempotency_key) = (expected_seq(call)?, call.headers.idempotency_key.clone());
    let batch = call.store().append_batch(Append { lines, stream, expected_seq, idempotency_key });
    if is_one && batch.is_err() {
        // What is wrong with it may be that it is no JSON at all.
        in_json(&body)?;
    }
    Ok(batch?)
}

/// Whether a body can be nothing but one frame, which then need not be read twice. An escape may hide a name.
fn is_one_frame(call: &Call, body: &[u8]) -> bool {
    let is_object = body.first() == Some(&b'{') && body.last() == Some(&b'}');
    is_object && !is_by_line(call) && !holds(&FRAMES, body) && !holds(&ESCAPE, body)
}

static FRAMES: LazyLock<Finder<'_>> = LazyLock::new(|| Finder::new("frames"));
static STREAM: LazyLock<Finder<'_>> = LazyLock::new(|| Finder::new("stream"));
static ESCAPE: LazyLock<Finder<'_>> = LazyLock::new(|| Finder::new("\\u"));

fn holds(word: &Finder<'_>, text: &[u8]) -> bool {
    word.find(text).is_some()
}

fn appended(appended: &Appended) -> Reply {
    let reply = Reply::json(if appended.replayed { 200 } else { 201 }, &view::AppendedFrames::from(appended));
    let reply = if appended.replayed { reply.header("idempotency-replayed", "true") } else { reply };
    match appended.frames.last() {
        Some(last) => reply.header("etag", format!("\"{}\"", last.seq + 1)),
        None => reply,
    }
}

/// Who did what is written by the server alone, and commits of a principal by who may commit for it.
fn check_streams(call: &Call, stream: Option<&StreamId>, lines: &[DraftLine]) -> Result<()> {
    stream.map_or(Ok(()), |stream| check_stream(call, stream))?;
    for line in lines {
        // Nearly no frame names its stream, and then it need not be read twice. An escape may hide the name.
        if holds(&STREAM, &line.json) || holds(&ESCAPE, &line.json) {
            let named = enjamb_core::Draft::parse(line.json.clone()).ok().and_then(|draft| draft.stream());
            named.map_or(Ok(()), |stream| check_stream(call, &stream))?;
        }
    }
    Ok(())
}

fn check_stream(call: &Call, stream: &StreamId) -> Result<()> {
    if sse::is_audit(stream) {
        return Err(Problem::new(403, "stream-reserved", "only the server writes who did what"));
    }
    if stream.kind == StreamKind::Branch {
        return Err(Problem::new(403, "stream-reserved", "branches hold what other stores wrote, and are synced"));
    }
    if stream.kind == StreamKind::Context { call.check_principal(&stream.id) } else { Ok(()) }
}

/// `If-Match` holds the seq that the first frame has to get, as `ETag` gave it.
fn expected_seq(call: &Call) -> Result<Option<u64>> {
    let Some(text) = &call.headers.if_match else { return Ok(None) };
    let bad = || Problem::schema("", "If-Match has to be the seq that the first frame gets, such as \"42\"");
    text.trim().trim_matches('"').parse().map(Some).map_err(|_| bad())
}

fn read_body(call: &Call) -> Result<Bytes> {
    let body = call.take_whole(BODY_BYTES_MAX);
    let body = body.map_err(|source| enjamb_service::ServiceError::File { path: "the body".into(), source })?;
    body.ok_or_else(too_large)
}

fn is_by_line(call: &Call) -> bool {
    call.headers.content_type.as_deref().is_some_and(|kind| kind.starts_with("application/x-ndjson"))
}

fn read_lines(call: &Call, body: &[u8]) -> Result<Vec<DraftLine>> {
    let jsons = if is_by_line(call) { by_line(body) } else { in_json(body)? };
    let lines: Vec<_> = jsons.into_iter().map(|(line, json)| DraftLine { line, json }).collect();
    if lines.len() > limits::BATCH_FRAMES_MAX {
        let limit = limits::BATCH_FRAMES_MAX;
        return Err(Problem::new(413, "too-large", format!("{} frames, and the limit is {limit}", lines.len())));
    }
    if lines.is_empty() {
        return Err(Problem::schema("", "there is no frame in the body"));
    }
    Ok(lines)
}

fn too_large() -> Problem {
    Problem::new(413, "too-large", format!("the body has more than {BODY_BYTES_MAX} bytes"))
        .with("limit", BODY_BYTES_MAX)
}

fn by_line(body: &[u8]) -> Vec<(u64, Vec<u8>)> {
    let lines = body.split(|byte| *byte == b'\n').enumerate();
    let lines = lines.filter(|(_, line)| !line.iter().all(u8::is_ascii_whitespace));
    lines.map(|(number, line)| (number as u64 + 1, line.to_vec())).collect()
}

/// One frame, a list of frames, or `{"frames": […]}`. Each is passed on byte for byte.
fn in_json(body: &[u8]) -> Result<Vec<(u64, Vec<u8>)>> {
    let text = std::str::from_utf8(body).map_err(|error| {
        let offset = error.valid_up_to();
        Problem::new(400, "invalid-utf8", format!("the body is not UTF-8 at byte {offset}")).with("offset", offset)
    })?;
    let whole: Json = serde_json::from_str(text).map_err(|error| input::not_json(&error))?;
    let list = match whole.get().trim_start().as_bytes().first() {
        Some(b'[') => whole.get().to_owned(),
        Some(b'{') => {
            match enjamb_core::json::Members::parse(whole.get()).ok().as_ref().and_then(|all| all.get("frames")) {
                Some(frames) => frames.get().to_owned(),
                None => return Ok(vec![(1, whole.get().as_bytes().to_vec())]),
            }
        }
        _ => return Err(Problem::schema("", "expected a frame, or a list of frames")),
    };
    let frames: Vec<Json> =
        serde_json::from_str(&list).map_err(|_| Problem::schema("/frames", "expected a list of frames"))?;
    Ok(frames.into_iter().enumerate().map(|(at, frame)| (at as u64 + 1, frame.get().as_bytes().to_vec())).collect())
}

/// A frame in the name of who sends it. What a bound token claims besides is kept apart.
fn attributed(call: &Call, line: DraftLine) -> Result<DraftLine> {
    let Some(principal) = &call.caller.principal else { return Ok(line) };
    let Ok(Value::Object(mut members)) = serde_json::from_slice::<Value>(&line.json) else { return Ok(line) };
    match members.get("actor_id").and_then(Value::as_str) {
        Some(claimed) if claimed != principal => {
            let claimed = claimed.to_owned();
            members.insert("actor_id".into(), principal.clone().into());
            members.insert("claimed_actor_id".into(), claimed.into());
            Ok(DraftLine { line: line.line, json: Value::Object(members).to_string().into_bytes() })
        }
        _ => Ok(line),
    }
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct FollowStream {
    kind: String,
    id: String,
    /// Go on after this seq; `Last-Event-ID` says the same
    after: Option<u64>,
    /// Only frames of these types
    #[serde(default, rename = "type")]
    types: Vec<String>,
}

fn follow(call: &Call, asked: FollowStream) -> Result<Reply> {
    let stream = Target { kind: asked.kind, id: asked.id }.readable(call)?;
    let end = call.store().stream(&stream)?.next_seq;
    events(call, Subject::Stream(stream), asked.after, asked.types, 0, end)
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct FollowPrincipal {
    principal: String,
    after: Option<u64>,
    #[serde(default, rename = "type")]
    types: Vec<String>,
}

/// A principal that has committed nothing yet can be followed all the same.
fn follow_principal(call: &Call, asked: FollowPrincipal) -> Result<Reply> {
    let stream = StreamId::new(StreamKind::Context, asked.principal)?;
    let end = call.store().ledger().stream(&stream)?.map_or(0, |stream| stream.next_seq);
    events(call, Subject::Stream(stream), asked.after, asked.types, 0, end)
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct FollowAll {
    /// Go on after this record; without it, from now on
    after: Option<u64>,
    #[serde(default, rename = "type")]
    types: Vec<String>,
}

fn follow_all(call: &Call, asked: FollowAll) -> Result<Reply> {
    let end = call.store().ledger().position()? + 1;
    let subject = Subject::Everything { with_audit: call.caller.may(Scope::Admin) };
    events(call, subject, asked.after, asked.types, end, end)
}

fn events(
    call: &Call,
    subject: Subject,
    after: Option<u64>,
    types: Vec<String>,
    first: u64,
    end: u64,
) -> Result<Reply> {
    let next = sse::after(call.headers.last_event_id.as_deref(), after, first, end)?;
    let body = ReplyBody::Events(Follow { filter: Filter { subject, types, seed: false }, next });
    Ok(Reply { status: 200, headers: Vec::new(), body })
}

//! HTTP: from the table of routes to a router, and from a request to a call and back.

use std::io;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant, SystemTime};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{FromRequestParts, RawPathParams, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method as HttpMethod, StatusCode, header};
use axum::response::Response;
use axum::routing::{MethodFilter, MethodRouter, on};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use serde_json::{Map, Value};
use tokio::sync::mpsc;
use tokio::task::spawn_blocking;
use tokio::time::timeout;
use tower_http::compression::CompressionLayer;
use tower_http::compression::predicate::Predicate;
use tower_service::Service;

use crate::app::{App, Peer};
use crate::audit::Entry;
use crate::auth::Caller;
use crate::body::{PIECES, Reading, Receiving, at_once, pass_on};
use crate::call::{Call, CallHeaders, Reply, ReplyBody, Sent, Source};
use crate::follower::{Allowed, Follower};
use crate::keys::{Claimed, Fingerprint};
use crate::limit::{Held, Slot};
use crate::listen::Aside;
use crate::otel::{Parent, Span};
use crate::problem::{Problem, Result};
use crate::route::{Gives, Method, Route, Takes};
use crate::run::{joined, permit, run};
use crate::space::Space;
use crate::sse::Follow;
use crate::{docs, input, mcp, ops};

/// Bytes of a request's address, and of its headers.
const URL_BYTES_MAX: usize = 8 << 10;
const HEADER_BYTES_MAX: usize = 16 << 10;
/// Of a request that is refused, so much is read, for so long.
const PASSED_OVER_BYTES_MAX: usize = 64 << 10;
const PASSED_OVER_WITHIN: Duration = Duration::from_millis(250);
const NOTHING_RUNS: &str = "default-src 'none'; frame-ancestors 'none'";

/// What every request comes to first.
#[derive(Clone)]
pub struct Front {
    app: Arc<App>,
    router: Router,
    /// The same, for who takes answers that are compressed.
    compressing: Router,
}

impl Front {
    pub fn new(app: &Arc<App>) -> Self {
        let router = router(app);
        let compressing = router.clone().layer(CompressionLayer::new().compress_when(Compressible));
        Self { app: app.clone(), router, compressing }
    }

    /// Looks at a request before it is routed, and sees to the headers of its answer.
    pub async fn answer(self, request: Request) -> Response {
        let is_page = request.uri().path() == "/docs";
        let mut response = match check(&self.app, &request) {
            Ok(()) => {
                let is_plain = !request.headers().contains_key(header::ACCEPT_ENCODING);
                let mut router = if is_plain { self.router } else { self.compressing };
                let Ok(response) = router.call(request).await;
                response
            }
            // Who is sent away is not told what they asked for.
            Err(problem) => answer_problem(&problem, Some(request.uri().path()).filter(|_| problem.status != 403)),
        };
        for (name, value) in if is_page { &PAGE_HEADERS } else { &HEADERS } {
            response.headers_mut().entry(name).or_insert(value.clone());
        }
        response
    }
}

/// Headers of an answer, those that hyper adds among them.
const HEADERS_USUALLY: usize = 12;

/// What every answer says, unless it says something else.
static HEADERS: Headers = headers(NOTHING_RUNS);
static PAGE_HEADERS: Headers = headers(docs::POLICY);

type Headers = [(HeaderName, HeaderValue); 5];

const fn headers(policy: &'static str) -> Headers {
    [
        (header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(policy)),
        (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
        (header::REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
        (HeaderName::from_static("cross-origin-resource-policy"), HeaderValue::from_static("same-origin")),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
    ]
}

fn router(app: &Arc<App>) -> Router {
    let mut by_path: Vec<(&'static str, MethodRouter)> = Vec::new();
    for route in ops::routes() {
        let route = Arc::new(Served { properties: route.properties(), route: Arc::new(route) });
        let (app, filter, path) = (app.clone(), filter(route.route.method), route.route.path);
        let handler = on(filter, move |request: Request| handle(app.clone(), route.clone(), request));
        match by_path.iter_mut().find(|(known, _)| *known == path) {
            Some((_, methods)) => *methods = std::mem::take(methods).merge(handler),
            None => by_path.push((path, handler)),
        }
    }
    let mut router = Router::new();
    for (path, methods) in by_path {
        router = router.route(path, methods);
    }
    let (guests, mcp) = (app.clone(), mcp::http());
    let mcp = axum::routing::any(async move |request: Request| {
        let answered = mcp::answer(guests, mcp, request).await;
        answered.unwrap_or_else(|problem| answer_problem(&problem, Some("/mcp")))
    });
    router
        .route("/mcp", mcp)
        .fallback(async |request: Request| answer_problem(&no_route(), Some(request.uri().path())))
        .method_not_allowed_fallback(async |request: Request| answer_problem(&no_method(), Some(request.uri().path())))
}

/// Documents that are worth it. Events are to come at once, and stored bytes keep their length, ranges and digests.
#[derive(Clone, Copy)]
struct Compressible;

impl Predicate for Compressible {
    fn should_compress<B: hyper::body::Body>(&self, response: &axum::http::Response<B>) -> bool {
        const BYTES_MIN: u64 = 1 << 10;
        let kind = response.headers().get(header::CONTENT_TYPE).map(HeaderValue::as_bytes).unwrap_or_default();
        let is_document = [&b"application/json"[..], b"text/html", b"text/plain"].iter().any(|is| kind.starts_with(is));
        is_document && response.body().size_hint().lower() >= BYTES_MIN
    }
}

/// A route and what is asked of it often.
struct Served {
    route: Arc<Route>,
    properties: Vec<(String, Value)>,
}

fn filter(method: Method) -> MethodFilter {
    match method {
        Method::Get => MethodFilter::GET,
        Method::Post => MethodFilter::POST,
        Method::Put => MethodFilter::PUT,
        Method::Patch => MethodFilter::PATCH,
        Method::Delete => MethodFilter::DELETE,
    }
}

fn no_route() -> Problem {
    Problem::new(404, "no-such-route", "there is nothing here").help("/docs lists what there is")
}

fn no_method() -> Problem {
    Problem::new(405, "method-not-allowed", "that cannot be done here").help("/docs lists what can")
}

fn check(app: &App, request: &Request) -> Result<()> {
    app.gate.check(request.headers())?;
    if request.uri().path_and_query().is_some_and(|address| address.as_str().len() > URL_BYTES_MAX) {
        return Err(Problem::new(414, "url-too-long", format!("the address has more than {URL_BYTES_MAX} bytes")));
    }
    let bytes: usize = request.headers().iter().map(|(name, value)| name.as_str().len() + value.len() + 4).sum();
    if bytes > HEADER_BYTES_MAX {
        return Err(Problem::new(
            431,
            "headers-too-large",
            format!("the headers have more than {HEADER_BYTES_MAX} bytes"),
        ));
    }
    let both = request.headers().contains_key(header::CONTENT_LENGTH)
        && request.headers().contains_key(header::TRANSFER_ENCODING);
    if both {
        return Err(Problem::new(400, "bad-request", "a body has a length or is chunked, not both")
            .header("connection", "close"));
    }
    if *app.ending.borrow() { Err(Problem::shutting_down()) } else { Ok(()) }
}

async fn handle(app: Arc<App>, served: Arc<Served>, request: Request) -> Response {
    let started = Instant::now();
    let path = request.uri().path().to_owned();
    let request_id = request_id();
    let parent = request.headers().get("traceparent").and_then(|header| Parent::parse(header.to_str().ok()?));
    let mut response = match respond(&app, &served, request, &request_id).await {
        Ok(response) => response,
        Err(problem) if served.route.seed => bare(problem.status),
        Err(problem) => answer_problem(&problem.with("request_id", request_id.as_str()), Some(&path)),
    };
    let (status, took) = (response.status().as_u16(), started.elapsed());
    if let Ok(value) = HeaderValue::from_str(&request_id) {
        response.headers_mut().insert(&REQUEST_ID, value);
    }
    app.metrics.note(served.route.operation, status, took);
    if let Some(spans) = &app.spans {
        let Route { method, path: route, operation, .. } = *served.route;
        let (method, ended) = (method.as_str(), SystemTime::now());
        let request_id = request_id.clone();
        spans.note(Span { parent, method, route, operation, request_id, status, ended, took });
    }
    let operation = served.route.operation;
    tracing::info!(request_id, operation, path, status, took_us = took.as_micros() as u64, "request");
    response
}

/// A name for a request, to find it in the logs by: random where the server began, and then one after the other, scattered.
fn request_id() -> String {
    static BEGAN: LazyLock<u64> = LazyLock::new(|| {
        let mut bytes = [0; 8];
        // Without random bytes servers merely share names of requests.
        let _ = getrandom::fill(&mut bytes);
        u64::from_be_bytes(bytes)
    });
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let number = BEGAN.wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed));
    // An odd factor: no two numbers come to the same.
    format!("req-{:016x}", number.wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

async fn respond(app: &Arc<App>, served: &Arc<Served>, request: Request, request_id: &str) -> Result<Response> {
    let route = &served.route;
    let (mut parts, body) = request.into_parts();
    let peer = parts.extensions.get::<Peer>().copied().unwrap_or(Peer::Network);
    let caller = app.caller(&parts.headers, peer).await;
    if let Err(problem) = app.admit(&caller, route).and_then(|()| check_media(route, &parts.headers)) {
        pass_over(body).await;
        return Err(problem);
    }
    let mut params = path_params(&mut parts).await?;
    let query = input::query(parts.uri.query().unwrap_or_default(), &served.properties)?;
    add(&mut params, query)?;
    let slot = slot(app, &caller, route)?;
    let headers = call_headers(&parts.headers)?;
    let sent = take_body(app, route, body, &parts.headers, &mut params).await?;
    let digest = digest(route, &parts, &params, &headers);
    let key = headers.idempotency_key.clone().zip(digest);
    let who = caller.token_id().unwrap_or_default();
    let claim = match key.as_ref().map(|(key, digest)| app.keys.claim(who, key, *digest)).transpose()? {
        Some(Claimed::Before(reply)) => {
            let space = app.spaces.main().clone();
            return answer(app, space, &caller, reply, slot, false).await;
        }
        Some(Claimed::Now(claim)) => Some(claim),
        None => None,
    };
    let space = space_of(app, &caller).await?;
    let keyed = key.filter(|_| route.carries_key()).map(|(key, digest)| {
        let (half, _) = digest.as_bytes().split_first_chunk().expect("a digest is longer");
        space.store.for_request(&enjamb_service::Request { caller: who, key: &key, digest: *half })
    });
    let mut call = Call::new(space.clone(), caller.clone(), params);
    (call.headers, call.metrics) = (headers, app.metrics.clone());
    let call = call.keyed(keyed.transpose()?);
    let call = match sent {
        Some(sent) => call.with_body(sent),
        None => call,
    };
    let entry = entry(&caller, route, &parts, request_id);
    let reply = run(app, &served.route, call, entry).await?;
    if let Some(claim) = claim {
        claim.answered(&reply);
    }
    let is_head = parts.method == HttpMethod::HEAD;
    answer(app, space, &caller, reply, slot, is_head).await
}

/// What a write under a key asks for, unless it keeps the key itself, or the bytes sent are their own key.
fn digest(route: &Route, parts: &Parts, params: &Map<String, Value>, headers: &CallHeaders) -> Option<Fingerprint> {
    headers.idempotency_key.as_ref()?;
    if !route.writes() || route.keeps_key() || route.takes == Takes::Bytes {
        return None;
    }
    let mut hasher = blake3::Hasher::new();
    let params = Value::Object(params.clone()).to_string();
    let texts = [parts.method.as_str(), parts.uri.path(), &params];
    let conditions = [&headers.if_match, &headers.if_none_match, &headers.actor, &headers.origin];
    for text in texts.into_iter().chain(conditions.map(|text| text.as_deref().unwrap_or_default())) {
        hasher.update(&(text.len() as u64).to_le_bytes()).update(text.as_bytes());
    }
    Some(hasher.finalize())
}

async fn space_of(app: &Arc<App>, caller: &Caller) -> Result<Arc<Space>> {
    if caller.namespace.is_none() {
        return Ok(app.spaces.main().clone());
    }
    let (app, namespace) = (app.clone(), caller.namespace.clone());
    Ok(joined(spawn_blocking(move || app.spaces.of(namespace.as_deref())).await)??)
}

/// What is told of a request in the audit stream: what others write, and what they read of artifacts and packs.
fn entry(caller: &Caller, route: &Route, parts: &Parts, request_id: &str) -> Option<Entry> {
    caller.token_id().filter(|_| route.writes() || route.watched)?;
    let claimed = parts.headers.get(&ACTOR).and_then(|value| value.to_str().ok());
    Some(Entry {
        operation: route.operation.to_owned(),
        path: parts.uri.path().to_owned(),
        status: 0,
        token_id: caller.token_id().map(str::to_owned),
        principal: caller.principal.clone(),
        claimed_actor: caller.overruled(claimed).map(str::to_owned),
        request_id: request_id.to_owned(),
    })
}

/// Whether the request sends what is taken, and takes what is given.
fn check_media(route: &Route, headers: &HeaderMap) -> Result<()> {
    let text = |name: HeaderName| headers.get(name).map(|value| value.to_str().unwrap_or("?"));
    if text(header::CONTENT_ENCODING).is_some_and(|coding| !coding.eq_ignore_ascii_case("identity")) {
        return Err(Problem::new(415, "unsupported-encoding", "bodies are taken as they are, not compressed"));
    }
    let bare = |media: &'_ str| -> usize { media.find(';').unwrap_or(media.len()) };
    let sent = text(header::CONTENT_TYPE);
    let is = |wanted: &str| sent.is_some_and(|sent| sent[..bare(sent)].trim().eq_ignore_ascii_case(wanted));
    let has_body = headers.contains_key(header::TRANSFER_ENCODING)
        || headers.get(header::CONTENT_LENGTH).is_some_and(|length| length.as_bytes() != b"0");
    let fits = match route.takes {
        Takes::Nothing | Takes::Bytes => true,
        Takes::Json => is("application/json") || (!has_body && sent.is_none()),
        Takes::Frames => is("application/json") || is("application/x-ndjson"),
    };
    if !fits {
        let expected =
            if route.takes == Takes::Frames { "application/json or application/x-ndjson" } else { "application/json" };
        return Err(
            Problem::new(415, "unsupported-media-type", format!("expected {expected}")).with("expected", expected)
        );
    }
    let (given, kind) = match route.gives {
        Gives::Json => ("application/json", "application/*"),
        Gives::Events => ("text/event-stream", "text/*"),
        Gives::Bytes | Gives::Text | Gives::Page => return Ok(()),
    };
    let takes = |range: &str| {
        let range = range[..bare(range)].trim();
        ["*/*", given, kind].iter().any(|is| range.eq_ignore_ascii_case(is))
    };
    if text(header::ACCEPT).is_none_or(|wanted| wanted.split(',').any(takes)) {
        return Ok(());
    }
    Err(Problem::new(406, "not-acceptable", format!("only {given} is given here")).with("given", given))
}

async fn path_params(parts: &mut Parts) -> Result<Map<String, Value>> {
    let bad = || Problem::new(400, "bad-request", "the path is not UTF-8");
    let raw = RawPathParams::from_request_parts(parts, &()).await.map_err(|_| bad())?;
    Ok(raw.iter().map(|(name, value)| (name.to_owned(), Value::String(value.to_owned()))).collect())
}

fn add(params: &mut Map<String, Value>, more: Map<String, Value>) -> Result<()> {
    for (name, value) in more {
        if params.contains_key(&name) {
            return Err(Problem::schema(format!("/{name}"), "given more than once"));
        }
        params.insert(name, value);
    }
    Ok(())
}

fn slot(app: &App, caller: &Caller, route: &Route) -> Result<Option<Held>> {
    let slot = match (route.gives, route.takes) {
        (Gives::Events, _) => Slot::Follower,
        (_, Takes::Bytes) => Slot::Upload,
        _ => return Ok(None),
    };
    let Some(token) = caller.token_id() else { return Ok(None) };
    let what = if slot == Slot::Follower { "followers" } else { "uploads" };
    app.limiter.hold(token, slot).map(Some).ok_or_else(|| Problem::rate_limited(what))
}

/// Names that are looked for in every request, in the form in which finding them takes least.
static IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
static LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
static ACTOR: HeaderName = HeaderName::from_static("enjamb-actor");
static ORIGIN: HeaderName = HeaderName::from_static("enjamb-origin");
static REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

fn call_headers(headers: &HeaderMap) -> Result<CallHeaders> {
    let text = |name: &HeaderName| match headers.get(name) {
        None => Ok(None),
        Some(value) => {
            let bad = |_| Problem::schema("", format!("the header {name} is not ASCII"));
            value.to_str().map(|text| Some(text.to_owned())).map_err(bad)
        }
    };
    Ok(CallHeaders {
        idempotency_key: text(&IDEMPOTENCY_KEY)?,
        if_match: text(&header::IF_MATCH)?,
        if_none_match: text(&header::IF_NONE_MATCH)?,
        range: text(&header::RANGE)?,
        last_event_id: text(&LAST_EVENT_ID)?,
        content_type: text(&header::CONTENT_TYPE)?,
        accept: text(&header::ACCEPT)?,
        actor: text(&ACTOR)?.map(|text| input::decoded(&text, false)).transpose()?,
        origin: text(&ORIGIN)?.map(|text| input::decoded(&text, false)).transpose()?,
    })
}

/// The body: as parameters, or as something to read from.
async fn take_body(
    app: &Arc<App>,
    route: &Route,
    body: Body,
    headers: &HeaderMap,
    params: &mut Map<String, Value>,
) -> Result<Option<Sent>> {
    match route.takes {
        Takes::Nothing => Ok(None),
        Takes::Bytes => {
            let (sender, reading) = Reading::pair();
            let (idle, most) = (app.patience.idle, enjamb_core::limits::ARTIFACT_BYTES_MAX);
            tokio::spawn(pass_on(body, sender, idle, most));
            Ok(Some(Sent::Coming(Box::new(reading))))
        }
        Takes::Frames => Ok(Some(Sent::whole(whole(app, body, headers).await?))),
        Takes::Json => {
            let body = whole(app, body, headers).await?;
            if body.is_empty() && !headers.contains_key(header::CONTENT_TYPE) {
                return Ok(None);
            }
            let mut members = input::object(&body)?;
            if route.seed {
                members.retain(|_, value| !value.is_null());
            }
            add(params, members)?;
            Ok(None)
        }
    }
}

/// Takes the body of a request that is refused, if it is small and comes at once: a connection that is closed on bytes that
/// nobody read takes the answer with it.
async fn pass_over(body: Body) {
    let _ = Box::pin(timeout(PASSED_OVER_WITHIN, Limited::new(body, PASSED_OVER_BYTES_MAX).collect())).await;
}

/// A body that is small enough to be held, and comes soon enough.
async fn whole(app: &App, body: Body, headers: &HeaderMap) -> Result<Bytes> {
    let limit = app.patience.body_bytes_max;
    let too_large = || {
        Problem::new(413, "too-large", format!("the body has more than {limit} bytes"))
            .with("limit", limit)
            .header("connection", "close")
    };
    let declared = headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
    if declared.is_some_and(|length| length > limit as u64) {
        return Err(too_large());
    }
    let mut body = pin!(Limited::new(body, limit).collect());
    let came = match at_once(body.as_mut()).await {
        Some(came) => Ok(came),
        // A timer is large and lies by itself in memory: what nearly no request needs is not to be part of them all.
        None => Box::pin(timeout(app.patience.body, body)).await,
    };
    match came {
        Err(_) => {
            Err(Problem::new(408, "body-too-slow", "the body did not come in time").header("connection", "close"))
        }
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(error)) if error.downcast_ref::<LengthLimitError>().is_some() => Err(too_large()),
        Ok(Err(_)) => Err(Problem::new(400, "bad-request", "the body broke off").header("connection", "close")),
    }
}

/// A reply as a response.
async fn answer(
    app: &Arc<App>,
    space: Arc<Space>,
    caller: &Caller,
    reply: Reply,
    slot: Option<Held>,
    is_head: bool,
) -> Result<Response> {
    let Reply { status, headers, body } = reply;
    let mut follower = None;
    let (kind, length, body) = match body {
        ReplyBody::Nothing => (None, None, Body::empty()),
        ReplyBody::Json(json) => (Some("application/json"), None, Body::from(json)),
        ReplyBody::Text { kind, text } => (Some(kind), None, Body::from(text)),
        ReplyBody::Bytes { len, .. } if is_head => (Some("application/octet-stream"), len, Body::empty()),
        ReplyBody::Bytes { len, source } => (Some("application/octet-stream"), len, stream(app, source).await?),
        ReplyBody::Events(_) if is_head => (Some("text/event-stream"), None, Body::empty()),
        ReplyBody::Events(follow) => {
            follower = Some(follow_on(app, space, caller, follow, slot));
            (Some("text/event-stream"), None, Body::empty())
        }
    };
    let mut response = Response::new(body);
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let own = response.headers_mut();
    own.reserve(HEADERS_USUALLY);
    for (name, value) in headers {
        if let Ok(value) = HeaderValue::from_str(&value) {
            own.insert(HeaderName::from_static(name), value);
        }
    }
    if let Some(kind) = kind {
        own.entry(header::CONTENT_TYPE).or_insert(HeaderValue::from_static(kind));
    }
    if let Some(length) = length {
        own.insert(header::CONTENT_LENGTH, HeaderValue::from(length));
    }
    if kind == Some("text/event-stream") {
        own.insert("x-accel-buffering", HeaderValue::from_static("no"));
        // The events end when the connection does.
        own.insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    if let Some(follower) = follower {
        response.extensions_mut().insert(Aside::of(follower));
    }
    Ok(response)
}

/// Bytes that a thread makes while they are sent. What fails before the first of them is still a problem document;
/// what fails later breaks the body off.
async fn stream(app: &Arc<App>, source: Source) -> Result<Body> {
    let permit = permit(app).await?;
    let (sender, mut receiver) = mpsc::channel::<io::Result<Bytes>>(PIECES);
    let writing = spawn_blocking(move || {
        let _permit = permit;
        let mut sent = false;
        let wrote = source(&mut |part| {
            sent = true;
            let gone = |_| io::Error::from(io::ErrorKind::BrokenPipe);
            sender.blocking_send(Ok(Bytes::copy_from_slice(part))).map_err(gone)
        });
        match wrote {
            Err(problem) if sent => {
                tracing::error!(code = problem.code, title = problem.title(), "an answer broke off");
                // The other side is gone, or learns it from the body's end.
                let _ = sender.blocking_send(Err(io::Error::other(problem.code)));
                Ok(())
            }
            wrote => wrote,
        }
    });
    match receiver.recv().await {
        Some(first) => Ok(Body::new(Receiving::new(Some(first), receiver))),
        None => joined(writing.await)?.map(|()| Body::empty()),
    }
}

fn follow_on(app: &Arc<App>, space: Arc<Space>, caller: &Caller, follow: Follow, slot: Option<Held>) -> Follower {
    let (doorkeeper, via) = (app.clone(), caller.via.clone());
    let allowed = caller.token_id().map(|_| -> Allowed { Box::new(move || doorkeeper.is_live(&via)) });
    let (ending, right_of_way) = (app.ending.clone(), app.right_of_way.clone());
    Follower { space, follow, pace: app.pace, allowed, ending, right_of_way, slot }
}

fn answer_problem(problem: &Problem, instance: Option<&str>) -> Response {
    let mut response = Response::new(Body::from(problem.document(instance).to_string()));
    *response.status_mut() = StatusCode::from_u16(problem.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
    for (name, value) in &problem.headers {
        if let Ok(value) = HeaderValue::from_str(value) {
            headers.insert(HeaderName::from_static(name), value);
        }
    }
    response
}

/// As the seed project fails: a status and nothing else.
fn bare(status: u16) -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    response
}

#[cfg(test)]
mod tests {
    use tokio::sync::watch;

    use super::*;
    use crate::auth::{Secret, Tokens};
    use crate::gate::Gate;
    use crate::space::Spaces;

    #[test]
    fn an_ending_server_takes_nothing_new() {
        let dir = tempfile::tempdir().unwrap();
        let (end, ending) = watch::channel(false);
        let (spaces, owner) = (Spaces::open(dir.path(), None).unwrap(), Secret::new().unwrap());
        let app = Arc::new(App::new(spaces, Tokens::of(dir.path()), &owner, Gate::new([]), ending));
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
        let ask = || {
            let front = Front::new(&app);
            let request = Request::get("/healthz").header(header::HOST, "localhost").body(Body::empty()).unwrap();
            runtime.block_on(front.answer(request))
        };
        assert_eq!(ask().status(), 200);
        end.send(true).unwrap();
        let answer = ask();
        assert_eq!((answer.status().as_u16(), answer.headers().contains_key("retry-after")), (503, true));
    }
}

//! What another store asks for and sends, so that both come to hold the same. It is meant for programs: whatever is told is
//! told byte for byte.

use std::io::Read;

use enjamb_core::frame::Linked;
use enjamb_core::sync::{Package, Writer};
use enjamb_core::{ArtifactId, StreamKind};
use enjamb_service::{ServiceError, SyncError};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::call::{Call, Reply};
use crate::problem::{Problem, Result};
use crate::route::{Gives, Method, Route, Scope, Takes, at};
use crate::view;

/// Bytes of one package that arrives.
const PACKAGE_BYTES_MAX: u64 = 24 << 20;
/// Frames, or artifacts, that one request asks about.
const ASKED_MAX: usize = 1_000;

pub fn routes() -> Vec<Route> {
    use Method::{Get, Post};
    vec![
        at(Get, "/v1/sync/heads", "sync_heads", Scope::Read, "Say which streams there are and where they end")
            .answers::<Beginning, view::SyncNode>(heads),
        at(Post, "/v1/sync/known", "sync_known", Scope::Read, "Say which of some frames are here")
            .answers::<Points, view::SyncKnown>(known),
        at(Post, "/v1/sync/points", "sync_points", Scope::Read, "Name frames on the way back from the ends of streams")
            .answers::<Points, view::SyncPoints>(points),
        at(Post, "/v1/sync/frames", "sync_frames", Scope::Read, "Get frames that another store lacks, in a package")
            .gives(Gives::Bytes)
            .watched()
            .replies(frames),
        at(
            Post,
            "/v1/sync/artifacts",
            "sync_artifacts",
            Scope::Read,
            "Get artifacts, none of them large, in a package",
        )
        .gives(Gives::Bytes)
        .watched()
        .replies(artifacts),
        at(Post, "/v1/sync/missing", "sync_missing", Scope::Append, "Say which of some artifacts are not here")
            .answers::<Artifacts, view::SyncMissing>(missing),
        at(Post, "/v1/sync/packages", "sync_receive", Scope::Append, "Store what a package of another store holds")
            .takes(Takes::Bytes)
            .answers::<Nothing, view::SyncReceived>(receive),
    ]
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Nothing {}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Beginning {
    /// Hex digits that the digests of the streams' names begin with
    prefix: Option<String>,
}

fn heads(call: &Call, asked: Beginning) -> Result<Reply> {
    let (node, position) = call.store().sync_node(asked.prefix.as_deref().unwrap_or_default())?;
    let private = call.store().staying()?.len() as u64;
    Ok(Reply::raw_json(200, &view::SyncNode::of(&node, position, private)))
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Points {
    points: Vec<view::SyncPoint>,
}

impl Points {
    fn read(&self) -> Result<Vec<enjamb_core::sync::Point>> {
        check_count("points", self.points.len())?;
        let bad = || Problem::schema("/points", "a point is a stream, a seq and a chain of 64 hex digits");
        self.points.iter().map(|point| point.point().ok_or_else(bad)).collect()
    }
}

fn check_count(what: &'static str, count: usize) -> Result<()> {
    match count {
        0..=ASKED_MAX => Ok(()),
        _ => Err(Problem::schema(format!("/{what}"), format!("{count} are too many: ask about {ASKED_MAX} at a time"))),
    }
}

fn known(call: &Call, asked: Points) -> Result<Reply> {
    Ok(Reply::raw_json(200, &view::SyncKnown { known: call.store().sync_known(&asked.read()?)? }))
}

fn points(call: &Call, asked: Points) -> Result<Reply> {
    let mut all = Vec::new();
    for tip in asked.read()? {
        all.push(call.store().sync_points(&tip)?.iter().map(view::SyncPoint::of).collect());
    }
    Ok(Reply::raw_json(200, &view::SyncPoints { points: all }))
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Wanted {
    /// The streams; all of them, if not given
    wants: Option<Vec<view::SyncWant>>,
    /// Only what was stored after this record
    after: Option<u64>,
}

fn frames(call: &Call, asked: Wanted) -> Result<Reply> {
    let bad = || Problem::schema("/wants", "a want is a stream and points of it");
    let read = |wants: &Vec<view::SyncWant>| wants.iter().map(|want| want.want().ok_or_else(bad)).collect();
    let wants: Option<Vec<_>> = asked.wants.as_ref().map(read).transpose()?;
    let page = call.store().sync_frames(wants.as_deref(), asked.after.unwrap_or(0))?;
    let mut package = Writer::default();
    page.frames.iter().for_each(|frame| package.frame(frame));
    page.needs.iter().for_each(|(id, len)| package.need(id, *len));
    let reply = packed(package.finish()).header("enjamb-next", page.next.to_string());
    Ok(reply.header("enjamb-done", page.done.to_string()))
}

fn packed(package: Vec<u8>) -> Reply {
    let len = package.len() as u64;
    Reply::bytes(200, Some(len), Box::new(move |out| out(&package).map_err(unwritten)))
}

fn unwritten(source: std::io::Error) -> Problem {
    ServiceError::File { path: "the answer".into(), source }.into()
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Artifacts {
    artifacts: Vec<String>,
}

impl Artifacts {
    fn ids(&self) -> Result<Vec<ArtifactId>> {
        check_count("artifacts", self.artifacts.len())?;
        Ok(self.artifacts.iter().map(|text| text.parse()).collect::<std::result::Result<_, _>>()?)
    }
}

fn artifacts(call: &Call, asked: Artifacts) -> Result<Reply> {
    Ok(packed(call.store().sync_artifacts(&asked.ids()?)?))
}

fn missing(call: &Call, asked: Artifacts) -> Result<Reply> {
    let missing = call.store().sync_missing(&asked.ids()?)?;
    Ok(Reply::raw_json(200, &view::SyncMissing { missing: missing.iter().map(ToString::to_string).collect() }))
}

fn receive(call: &Call, _: Nothing) -> Result<Reply> {
    let mut body = Vec::new();
    let read = call.take_body().take(PACKAGE_BYTES_MAX + 1).read_to_end(&mut body);
    read.map_err(|source| ServiceError::File { path: "the body".into(), source })?;
    if body.len() as u64 > PACKAGE_BYTES_MAX {
        let title = format!("the package has more than {PACKAGE_BYTES_MAX} bytes");
        return Err(Problem::new(413, "too-large", title).with("limit", PACKAGE_BYTES_MAX));
    }
    let package = Package::read(&body).map_err(|error| ServiceError::from(SyncError::from(error)))?;
    for frame in &package.frames {
        check_sender(call, frame)?;
    }
    Ok(Reply::raw_json(200, &view::SyncReceived::from(call.store().sync_receive(&package)?)))
}

/// A token that is bound to a principal sends what that principal did, and nothing else: frames are kept as they are, so
/// nobody could be told afterwards who claimed what.
fn check_sender(call: &Call, frame: &Linked) -> Result<()> {
    let Some(principal) = &call.caller.principal else { return Ok(()) };
    if frame.stream.kind == StreamKind::Context {
        call.check_principal(&frame.stream.id)?;
    }
    let actor = serde_json::from_slice::<Value>(&frame.json).ok();
    let actor = actor.as_ref().and_then(|json| json["actor_id"].as_str());
    if actor.is_none_or(|actor| actor == principal) {
        return Ok(());
    }
    let title =
        format!("frame {} of {} is another's, and this token sends for {principal} alone", frame.seq, frame.stream);
    Err(Problem::new(403, "principal-not-allowed", title).help("push with a token that is bound to nobody"))
}

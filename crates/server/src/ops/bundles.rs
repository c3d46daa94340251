//! Compiling what a run starts from, and looking at what was compiled.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use enjamb_core::compile::{ActorRoles, RenderTarget, Strategy};
use enjamb_core::conversation::Role;
use enjamb_core::redact::mask_bytes;
use enjamb_service::{Budget, Compile, ThreadError};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;

use crate::call::{Call, Reply, invalid};
use crate::problem::{Problem, Result};
use crate::route::{Gives, Method, Route, Scope, at};
use crate::view;

pub fn routes() -> Vec<Route> {
    use Method::{Get, Post};
    vec![
        at(Post, "/v1/compile", "compile", Scope::Append, "Compile what a run starts from")
            .status(201)
            .answers::<Asked, view::CompiledContext>(compile),
        at(Get, "/v1/bundles/{bundle}", "bundle", Scope::Read, "Read a compiled context").json(bundle),
        at(Get, "/v1/bundles/{bundle}/audit", "audit", Scope::Read, "Compile it again and compare").json(audit),
        at(Get, "/v1/bundles/{bundle}/rendered", "render", Scope::Read, "A compiled context as a provider takes it")
            .gives(Gives::Bytes)
            .replies(rendered),
    ]
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Asked {
    /// A thread to compile; or else a commit
    thread: Option<String>,
    /// A commit to compile: an id or its beginning, a ref, @
    from: Option<String>,
    message: Option<String>,
    run: Option<String>,
    /// The id of a strategy; chosen by rule if not given
    strategy: Option<String>,
    /// Tokens that it may have
    budget: Option<u64>,
    /// o200k_base or bytes
    counted_by: Option<String>,
    /// Roles by actor: user, assistant, system or developer
    #[serde(default)]
    roles: BTreeMap<String, String>,
    #[serde(default)]
    artifacts: Vec<String>,
    /// Files to refer to, as they are now
    #[serde(default)]
    files: Vec<Attached>,
    #[serde(default)]
    strict: bool,
    /// List every candidate with its tokens
    #[serde(default)]
    explain: bool,
    #[serde(default)]
    dry_run: bool,
}

/// A file of the caller's machine.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Attached {
    path: String,
    content_base64: String,
}

impl Attached {
    fn read(&self) -> Result<(String, Vec<u8>)> {
        let bytes = STANDARD.decode(&self.content_base64);
        Ok((self.path.clone(), bytes.map_err(|error| Problem::schema("/files", error.to_string()))?))
    }
}

fn compile(call: &Call, asked: Asked) -> Result<Reply> {
    let view = match (&asked.thread, &asked.from) {
        (Some(thread), None) => of_thread(call, thread, &asked)?,
        (None, Some(from)) => of_chain(call, from, &asked)?,
        _ => return Err(Problem::schema("", "give thread or from")),
    };
    let status = if asked.dry_run { 200 } else { 201 };
    Ok(Reply::json(status, &view).header("location", format!("/v1/bundles/{}", view.bundle)))
}

fn of_thread(call: &Call, thread: &str, asked: &Asked) -> Result<view::CompiledContext> {
    let store = call.store();
    let artifacts = asked.artifacts.iter().map(|text| store.resolve_artifact(text));
    let request = Compile {
        message: asked.message.clone(),
        run: asked.run.clone(),
        strategy: strategy(asked)?,
        budget: budget(asked)?,
        roles: asked.roles.iter().map(role).collect::<Result<ActorRoles>>()?,
        files: asked.files.iter().map(Attached::read).collect::<Result<_>>()?,
        artifacts: artifacts.collect::<std::result::Result<_, _>>()?,
        strict: asked.strict,
        explain: asked.explain,
        dry_run: asked.dry_run,
    };
    let compiled = store.compile(&call.thread(thread)?, &request, &call.actor())?;
    Ok(view::CompiledContext::of_thread(&compiled, asked.explain))
}

fn of_chain(call: &Call, from: &str, asked: &Asked) -> Result<view::CompiledContext> {
    let tip = call.store().revision(from)?;
    let run = asked.run.clone();
    let compiled = call.store().compile_chain(&tip, budget(asked)?, run, asked.dry_run, &call.actor())?;
    Ok(view::CompiledContext::of_chain(tip.to_string(), &compiled, asked.explain))
}

/// The strategy that was named, or that follows from what else was given.
fn strategy(asked: &Asked) -> Result<Option<Strategy>> {
    match asked.strategy.as_deref() {
        None if asked.budget.is_some() => Ok(Some(Strategy::TokenBudget)),
        None if !asked.roles.is_empty() => Ok(Some(Strategy::ActorRoles)),
        None => Ok(None),
        Some(id) => Ok(Some(Strategy::from_id(id).ok_or_else(|| ThreadError::UnknownStrategy(id.to_owned()))?)),
    }
}

fn budget(asked: &Asked) -> Result<Option<Budget>> {
    let method = asked.counted_by.as_deref().unwrap_or(enjamb_formats::TOKENIZER);
    let counting = Budget::counting(method).ok_or_else(|| invalid("counting", method, "o200k_base or bytes"))?;
    Ok(asked.budget.map(|tokens| Budget { tokens, counting }))
}

fn role((actor, role): (&String, &String)) -> Result<(String, Role)> {
    let parsed = Role::from_name(role).filter(|role| *role != Role::Tool);
    let expected = "ACTOR=user, =assistant, =system or =developer";
    let bad = || invalid("role", &format!("{actor}={role}"), expected);
    Ok((actor.clone(), parsed.ok_or_else(bad)?))
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct One {
    /// The artifact of the bundle: an id, the beginning of one, or a tag
    bundle: String,
}

fn bundle(call: &Call, asked: One) -> Result<view::BundleDocument> {
    let artifact = call.store().resolve_artifact(&asked.bundle)?;
    let bundle = call.store().bundle(&artifact)?;
    let document: Value = serde_json::from_slice(&bundle.to_bytes()).unwrap_or(Value::Null);
    Ok(view::BundleDocument { artifact: artifact.to_string(), bundle: document })
}

fn audit(call: &Call, asked: One) -> Result<view::AuditReport> {
    let artifact = call.store().resolve_artifact(&asked.bundle)?;
    Ok(view::AuditReport::from(&call.store().audit(&artifact)?))
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Rendering {
    bundle: String,
    /// open-responses, anthropic or openai-chat
    target: String,
}

fn rendered(call: &Call, asked: Rendering) -> Result<Reply> {
    let unknown = || invalid("provider", &asked.target, "open-responses, anthropic or openai-chat");
    let target = RenderTarget::from_id(&asked.target).ok_or_else(unknown)?;
    let artifact = call.store().resolve_artifact(&asked.bundle)?;
    let bytes = mask_bytes(&call.store().render(&artifact, target)?).into_owned();
    let len = bytes.len() as u64;
    let failed = |error| Problem::from(enjamb_ledger::LedgerError::Output(error));
    let reply = Reply::bytes(200, Some(len), Box::new(move |out| out(&bytes).map_err(failed)));
    Ok(reply.header("content-type", "application/json").header("enjamb-bundle", artifact.to_string()))
}

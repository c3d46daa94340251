//! Runs: a message is posted and a model is asked what to say to it, by this process, for the owner of the store. Its
//! words are frames of its session, to be followed like any others.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{SyncSender, sync_channel};

use enjamb_core::StreamId;
use enjamb_service::{
    Actor, Config, Means, Provider, ProviderOptions, RunView, ServiceError, Toolbox, Turn, TurnEvent, Turned,
};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::call::{Call, Reply};
use crate::problem::{Problem, Result};
use crate::route::{Method, Route, Scope, at};
use crate::space::Space;
use crate::view;

pub fn routes() -> Vec<Route> {
    use Method::{Get, Post};
    vec![
        at(Post, "/v1/threads/{thread}/runs", "start_run", Scope::Owner, "Post a message, and ask a model")
            .status(202)
            .answers::<Start, view::Run>(start),
        at(Get, "/v1/threads/{thread}/runs/{run}", "run", Scope::Read, "What became of a run").json(show),
        at(Post, "/v1/threads/{thread}/runs/{run}/cancel", "cancel_run", Scope::Owner, "Call a run off")
            .status(202)
            .json(cancel),
    ]
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Start {
    thread: String,
    content: String,
    /// The run's id; a new one if not given
    run_id: Option<String>,
    /// The model to ask for, instead of the one of the settings
    model: Option<String>,
    /// Tokens that the run may take, instead of those of the settings
    budget_tokens: Option<u64>,
    /// Keep each request's body as an artifact
    #[serde(default)]
    dump_request: bool,
}

/// What a turn is taken with, by a thread of its own.
struct Job {
    space: Arc<Space>,
    thread: StreamId,
    turn: Turn,
    provider: Provider,
    tools: Toolbox,
    by: Actor,
}

/// What is known first of a turn.
enum First {
    Began {
        run: String,
    },
    /// It did not begin now.
    Over(Box<std::result::Result<Turned, ServiceError>>),
}

fn start(call: &Call, asked: Start) -> Result<Reply> {
    let runner = call.runner()?;
    let provider = provider(&runner.config, &asked)?;
    let thread = call.thread(&asked.thread)?;
    let workspace = call.store().thread(&thread)?.workspace.unwrap_or_default();
    let tools = runner.config.toolbox(Path::new(&workspace))?;
    let idempotency_key = call.headers.idempotency_key.clone();
    let turn = Turn { content: asked.content, run: asked.run_id, idempotency_key, ..Turn::default() };
    let job = Job { space: call.space.clone(), thread: thread.clone(), turn, provider, tools, by: call.actor() };
    let (tell, told) = sync_channel(1);
    let spawned = std::thread::Builder::new().name("enjamb-turn".into()).spawn(move || job.take(&tell));
    spawned.map_err(|source| ServiceError::File { path: "a thread".into(), source })?;
    let gone = |_| Problem::new(500, "internal", "the run ended before it began");
    let (status, run, replayed) = match told.recv().map_err(gone)? {
        First::Began { run } => (202, run, false),
        First::Over(turned) => (200, (*turned)?.run, true),
    };
    let view = call.store().run_view(&thread, &run)?;
    let location = format!("/v1/threads/{}/runs/{run}", thread.id);
    Ok(Reply::json(status, &view::Run::of(&thread.id, view, replayed)).header("location", location))
}

/// Whom to ask: the settings of whoever started this process, but for what a request may choose.
fn provider(config: &Config, asked: &Start) -> Result<Provider> {
    let mut config = config.clone();
    if let Some(budget) = asked.budget_tokens {
        config.set("provider.budget_tokens", "the request", &budget.to_string()).map_err(ServiceError::from)?;
    }
    let options = config.provider(&|name| std::env::var_os(name))?;
    let model = asked.model.clone().or(options.model);
    Ok(Provider::new(ProviderOptions { model, dump_requests: asked.dump_request, ..options })?)
}

impl Job {
    /// Takes the turn to its end, whether or not anybody waits for it.
    fn take(self, tell: &SyncSender<First>) {
        let cancel = Arc::new(AtomicBool::new(false));
        let means = Means { provider: &self.provider, tools: &self.tools, by: &self.by, cancel: &cancel };
        let mut began = None;
        let turned = self.space.store.take_turn(&self.thread, &self.turn, &means, &mut |event| {
            if let TurnEvent::Began { run, .. } = event {
                self.space.turns.began(run, &cancel);
                began = Some(run.to_owned());
                let _ = tell.send(First::Began { run: run.to_owned() });
            }
        });
        match began {
            Some(run) => {
                if let Err(error) = &turned {
                    tracing::error!(%run, %error, "a run could not be recorded");
                }
                self.space.turns.ended(&run);
            }
            None => drop(tell.send(First::Over(Box::new(turned)))),
        }
    }
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct One {
    thread: String,
    run: String,
}

fn view(call: &Call, asked: &One) -> Result<(StreamId, RunView)> {
    let thread = call.thread(&asked.thread)?;
    let view = call.store().run_view(&thread, &asked.run)?;
    Ok((thread, view))
}

fn show(call: &Call, asked: One) -> Result<view::Run> {
    let (thread, view) = view(call, &asked)?;
    Ok(view::Run::of(&thread.id, view, false))
}

fn cancel(call: &Call, asked: One) -> Result<view::Run> {
    let (thread, view) = view(call, &asked)?;
    if view.reason.is_none() && !call.space.turns.cancel(&asked.run) {
        return Err(Problem::new(409, "run-elsewhere", format!("run {} goes on in another process", asked.run))
            .help("whoever runs it can call it off"));
    }
    Ok(view::Run::of(&thread.id, view, false))
}

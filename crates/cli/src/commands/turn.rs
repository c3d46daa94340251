//! `enjamb thread post --run`: asking a model, and showing what it says as it says it.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::Args;
use enjamb_core::StreamId;
use enjamb_server::view;
use enjamb_service::{
    Config, Means, Prices, Provider, ProviderOptions, RunView, ServiceError, Store, Turn, TurnEvent, Turned,
};
use serde_json::{Value, json};

use super::Context;
use crate::failure::{Exit, Failure, Result};
use crate::text::count;

/// What a shell says of a command that was stopped with Ctrl-C.
pub const STOPPED: i32 = 130;

#[derive(Args)]
pub struct RunArgs {
    /// Whom to ask: Open Responses, OpenAI-compatible chat or Anthropic Messages [default: provider.endpoint]
    #[arg(long, value_name = "URL", requires = "run", help_heading = "With --run")]
    endpoint: Option<String>,
    /// The model to ask for [default: provider.model]
    #[arg(long, value_name = "NAME", requires = "run", help_heading = "With --run")]
    model: Option<String>,
    /// What the endpoint speaks [default: what the end of its path says]
    #[arg(long, value_name = "responses|chat|messages", requires = "run", help_heading = "With --run")]
    api: Option<String>,
    /// Tokens that the run may take, read and written: nobody is asked without a bound [default: provider.budget_tokens]
    #[arg(long, value_name = "TOKENS", requires = "run", help_heading = "With --run")]
    budget: Option<String>,
    /// Seconds that the provider may say nothing [default: 120]
    #[arg(long, value_name = "SECONDS", requires = "run", help_heading = "With --run")]
    timeout: Option<String>,
    /// Keep each request's body as an artifact
    #[arg(long, requires = "run", help_heading = "With --run")]
    dump_request: bool,
    /// Go on from the provider's own conversation where it has one
    #[arg(long, requires = "run", help_heading = "With --run")]
    use_cursor: bool,
    /// What a million tokens cost in dollars, read and written
    #[arg(long, value_name = "READ,WRITTEN", requires = "run", help_heading = "With --run")]
    prices: Option<String>,
}

/// Whom to ask, and what holds here.
pub struct Asked {
    pub provider: Provider,
    pub config: Config,
}

impl RunArgs {
    /// Whom to ask: what the configuration says, and flags over it.
    pub fn provider(&self, mut config: Config) -> Result<Provider> {
        for (key, flag, value) in [
            ("provider.endpoint", "--endpoint", &self.endpoint),
            ("provider.model", "--model", &self.model),
            ("provider.api", "--api", &self.api),
            ("provider.budget_tokens", "--budget", &self.budget),
            ("provider.idle_seconds", "--timeout", &self.timeout),
        ] {
            if let Some(text) = value {
                config.set(key, flag, text).map_err(ServiceError::from)?;
            }
        }
        let options = config.provider(&|name| std::env::var_os(name))?;
        let given = self.prices.as_deref().map(prices).transpose()?;
        let options = ProviderOptions {
            dump_requests: self.dump_request,
            use_cursor: options.use_cursor || self.use_cursor,
            prices: given.or(options.prices),
            ..options
        };
        Ok(Provider::new(options)?)
    }
}

impl RunArgs {
    /// What a server is asked for: whom it asks is its own to say.
    pub fn asked(&self, thread: &str, content: &str, run: Option<&str>) -> Result<Value> {
        let of_server = [
            ("--endpoint", self.endpoint.is_some()),
            ("--api", self.api.is_some()),
            ("--timeout", self.timeout.is_some()),
            ("--prices", self.prices.is_some()),
            ("--use-cursor", self.use_cursor),
        ];
        if let Some((flag, _)) = of_server.iter().find(|(_, is_given)| *is_given) {
            let message = format!("{flag} is for a store on this machine: a server asks whom its own settings name");
            return Err(Failure::Usage { message, help: Some("--model and --budget go through a server".into()) });
        }
        let expected = "a number of tokens";
        let bad = |text: &String| ServiceError::Invalid { what: "budget", text: text.clone(), expected };
        let budget = self.budget.as_ref().map(|text| text.parse::<u64>().map_err(|_| bad(text))).transpose()?;
        Ok(json!({
            "thread": thread, "content": content, "run_id": run, "model": self.model, "budget_tokens": budget,
            "dump_request": self.dump_request,
        }))
    }
}

fn prices(text: &str) -> Result<Prices> {
    let read = text
        .split_once(',')
        .and_then(|(input, output)| Some(Prices { input: Prices::parse(input)?, output: Prices::parse(output)? }));
    let expected = "two numbers of dollars, such as 3,15 or 0.25,1.5";
    Ok(read.ok_or(ServiceError::Invalid { what: "prices", text: text.to_owned(), expected })?)
}

pub fn run(context: &mut Context<'_>, store: &Store, thread: &StreamId, turn: &Turn, asked: &Asked) -> Result<Exit> {
    // Tools work where the thread does.
    let workspace = store.thread(thread)?.workspace.unwrap_or_default();
    let tools = asked.config.toolbox(Path::new(&workspace))?;
    let (by, cancel) = (context.actor(), stopped_by_signal()?);
    let means = Means { provider: &asked.provider, tools: &tools, by: &by, cancel: &cancel };
    let is_json = context.ui.is_json();
    let mut shown = context.ui.stored_writer();
    let mut failed = None;
    let turned = store.take_turn(thread, turn, &means, &mut |event| match event {
        TurnEvent::Text(text) if !is_json => {
            // Who closed the output still gets the run recorded to its end.
            failed = failed.take().or(shown.show_now(text.as_bytes()).err());
        }
        TurnEvent::Waiting { seconds, because } => shown.note(&format!("{because}; asking again in {seconds} s")),
        TurnEvent::ToolStarted { name } => shown.note(&format!("[{name}]")),
        TurnEvent::ToolEnded { name, is_error: true } => shown.note(&format!("[{name} failed]")),
        TurnEvent::Text(_) | TurnEvent::Began { .. } | TurnEvent::ToolEnded { .. } => {}
    })?;
    if !is_json {
        if turned.replayed {
            shown.show_now(turned.text.as_bytes())?;
        }
        shown.end_now(&turned.text)?;
    }
    failed.map_or(Ok(()), Err)?;
    report(context, thread, turned)
}

/// A first Ctrl-C ends the run in good order; a second one the process.
fn stopped_by_signal() -> Result<Arc<AtomicBool>> {
    let cancel = Arc::new(AtomicBool::new(false));
    let told = Arc::clone(&cancel);
    let stop = move || {
        if told.swap(true, Ordering::Relaxed) {
            std::process::exit(STOPPED);
        }
    };
    ctrlc::set_handler(stop).map_err(|error| Failure::usage(format!("signals cannot be handled: {error}")))?;
    Ok(cancel)
}

fn report(context: &mut Context<'_>, thread: &StreamId, turned: Turned) -> Result<Exit> {
    let ending = turned.ending.clone();
    let run = shown(thread, turned);
    if context.ui.is_json() {
        context.ui.json("thread_run", json!(run))?;
    } else {
        context.ui.note(&told(&run));
    }
    context.ui.flush()?;
    if ending.is_completed() {
        return Ok(Exit::Done);
    }
    Err(Failure::Service(ServiceError::Run { run: run.run, ending }))
}

fn shown(thread: &StreamId, turned: Turned) -> view::Run {
    let Turned { message, run, text, ending, usage, cost, requests, tool_calls, commit, replayed } = turned;
    let (reason, detail) = (Some(ending.reason.as_str().to_owned()), ending.detail);
    let seen = RunView { run, message, text, reason, detail, usage, cost, requests, tool_calls, commit };
    view::Run::of(&thread.id, seen, replayed)
}

/// One line about a run: what it took and where it is kept.
pub fn told(run: &view::Run) -> String {
    let usage = &run.usage;
    let read = usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens;
    let mut parts = vec![format!("run {}", run.run)];
    parts.push(format!("{} tokens read, {} written", count(read), count(usage.output_tokens)));
    parts.extend(run.cost_usd.as_ref().map(|cost| format!("${cost}")));
    parts.extend(run.commit.clone());
    parts.join(" · ")
}

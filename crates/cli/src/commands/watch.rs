//! `enjamb watch`

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use clap::Args;
use enjamb_core::Timestamp;
use enjamb_ledger::LedgerError;
use enjamb_service::{Env, Runtime, Store, WatchEvent, WatchOptions};
use serde_json::{Value, json};

use super::Context;
use super::import::{of_hooks, parse_runtime, places_at_home};
use crate::failure::{Exit, Failure, Result};
use crate::text::{bytes, plural};

#[derive(Args)]
#[command(after_help = "Example:\n  enjamb watch\n  enjamb watch --from codex --json\n  enjamb watch --once\n\n\
    Follows what agents write, and makes commits of turns as they end, until Ctrl-C. With hooks (enjamb capture on) turns \
    are taken in at once; without, shortly after they end. With --json, each event is a document on a line of its own.")]
pub struct Watch {
    /// Only what these runtimes write: claude-code, codex, gemini, opencode
    #[arg(long, value_delimiter = ',', value_name = "RUNTIME", value_parser = parse_runtime)]
    from: Vec<Runtime>,
    /// Take in what is there now, and end
    #[arg(long)]
    once: bool,
}

const INTERRUPTED: i32 = 130;

impl Watch {
    pub fn run(self, context: &mut Context<'_>) -> Result<Exit> {
        let store = Store::create(&context.store_dir()?, Env::system())?;
        let mut places = places_at_home();
        if !self.from.is_empty() {
            places.retain(|place| self.from.contains(&place.runtime));
        }
        let stops = Arc::new(AtomicUsize::new(0));
        let asked = stops.clone();
        let stop = move || {
            if asked.fetch_add(1, Ordering::Relaxed) > 0 {
                std::process::exit(INTERRUPTED);
            }
        };
        ctrlc::set_handler(stop).map_err(|error| Failure::usage(format!("signals cannot be handled: {error}")))?;
        let missed_at = super::missed_at(store.dir());
        let options = WatchOptions { places, import: of_hooks(), missed_at, once: self.once };
        let go_on = || stops.load(Ordering::Relaxed) == 0;
        let mut tell = |event| say(context, &event).map_err(|error| LedgerError::Output(error).into());
        store.watch(options, &go_on, &mut tell)?;
        Ok(Exit::Done)
    }
}

fn say(context: &mut Context<'_>, event: &WatchEvent) -> std::io::Result<()> {
    if context.ui.is_json() {
        context.ui.json("watch", event_json(event))?;
    } else {
        let now = Env::system().now();
        match event {
            WatchEvent::Failed { path, why } => context.ui.bad(&format!("{}: {why}", path.display()))?,
            event => context.ui.line(line(event, now))?,
        }
    }
    context.ui.flush_now()
}

fn line(event: &WatchEvent, now: Timestamp) -> String {
    match event {
        WatchEvent::Watching { dir } => format!("watching   {}", dir.display()),
        WatchEvent::Imported { path, commits, bytes: read, tip, .. } => {
            let tip = tip.map(|id| id.to_string()).unwrap_or_default();
            let (commits, name) = (plural(*commits, "commit"), path.file_name().unwrap_or_default().to_string_lossy());
            format!("{now}  {tip}  {commits}, {}  {name}", bytes(*read))
        }
        WatchEvent::Drained { events, commits } => {
            format!("{now}  {} of hooks, {}", plural(*events, "event"), plural(*commits, "commit"))
        }
        WatchEvent::Failed { path, why } => format!("{}: {why}", path.display()),
    }
}

fn event_json(event: &WatchEvent) -> Value {
    match event {
        WatchEvent::Watching { dir } => json!({"event": "watching", "path": dir.to_string_lossy()}),
        WatchEvent::Imported { path, runtime, commits, bytes, tip } => json!({
            "event": "imported", "path": path.to_string_lossy(), "runtime": runtime.as_str(), "commits": commits,
            "bytes": bytes, "tip": tip.map(|id| id.to_string()),
        }),
        WatchEvent::Drained { events, commits } => json!({"event": "drained", "events": events, "commits": commits}),
        WatchEvent::Failed { path, why } => json!({"event": "failed", "path": path.to_string_lossy(), "detail": why}),
    }
}

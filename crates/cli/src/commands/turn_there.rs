//! `enjamb thread post --run` through a server: the server asks the model with its own settings, and its words are followed
//! here. The run goes on when this command is gone.

use std::sync::atomic::{AtomicBool, Ordering};

use enjamb_server::{Client, view};
use enjamb_service::{EndReason, Ending, ServiceError};
use serde_json::{Value, json};

use super::Context;
use super::turn::{STOPPED, told};
use crate::failure::{Exit, Failure, Result};
use crate::ui::StoredWriter;

/// Asks for a run, shows what it says, and says how it ended.
pub fn run(context: &mut Context<'_>, client: &Client, asked: Value, key: Option<&str>) -> Result<Exit> {
    let headers: Vec<_> = key.map(|key| ("idempotency-key", key)).into_iter().collect();
    let started: view::Run = client.call_with("start_run", asked, &headers)?;
    if started.replayed {
        if !context.ui.is_json() {
            let mut shown = context.ui.stored_writer();
            shown.show_now(started.text.as_bytes())?;
            shown.end_now(&started.text)?;
        }
        return report(context, started);
    }
    stopped_by_signal(client, &started)?;
    show(context, client, &started)?;
    let one = json!({"thread": started.thread_id, "run": started.run});
    let ended: view::Run = client.call("run", one)?;
    report(context, ended)
}

/// A first Ctrl-C calls the run off; a second one ends this process and leaves the run alone.
fn stopped_by_signal(client: &Client, started: &view::Run) -> Result<()> {
    let (client, one) = (client.clone(), json!({"thread": started.thread_id, "run": started.run}));
    let told = AtomicBool::new(false);
    let stop = move || {
        // Whether it is heard is seen by the end of the run.
        if told.swap(true, Ordering::Relaxed) || client.call::<Value>("cancel_run", one.clone()).is_err() {
            std::process::exit(STOPPED);
        }
    };
    ctrlc::set_handler(stop).map_err(|error| Failure::usage(format!("signals cannot be handled: {error}")))
}

fn show(context: &mut Context<'_>, client: &Client, started: &view::Run) -> Result<()> {
    let is_json = context.ui.is_json();
    let mut follow = client.follow("follow", json!({"kind": "session", "id": started.run}), None);
    let mut shown = context.ui.stored_writer();
    let mut last = String::new();
    loop {
        let frame: Value = serde_json::from_str(&follow.wait()?.json).unwrap_or_default();
        match frame["type"].as_str().unwrap_or_default() {
            "output_text_delta" if !is_json => {
                last = frame["delta"].as_str().unwrap_or_default().to_owned();
                shown.show_now(last.as_bytes())?;
            }
            "session_ended" if is_json => return Ok(()),
            "session_ended" => return Ok(shown.end_now(&last)?),
            other => note(&mut shown, other, &frame),
        }
    }
}

fn note(shown: &mut StoredWriter<'_>, what: &str, frame: &Value) {
    match what {
        "tool_started" => shown.note(&format!("[{}]", frame["name"].as_str().unwrap_or_default())),
        "tool_failed" => shown.note(&format!("[failed: {}]", frame["error"].as_str().unwrap_or_default())),
        _ => {}
    }
}

fn report(context: &mut Context<'_>, run: view::Run) -> Result<Exit> {
    if context.ui.is_json() {
        context.ui.json("thread_run", json!(run))?;
    } else {
        context.ui.note(&told(&run));
    }
    context.ui.flush()?;
    let word = run.reason.unwrap_or_default();
    let reason = EndReason::ALL.iter().copied().find(|reason| reason.as_str() == word);
    match reason.unwrap_or(EndReason::Interrupted) {
        EndReason::Completed => Ok(Exit::Done),
        reason => Err(ServiceError::Run { run: run.run, ending: Ending { reason, detail: run.detail } }.into()),
    }
}

//! `enjamb summarize`

use clap::Args;
use enjamb_server::view;
use enjamb_service::{Endpoint, REMAINING_MAX, Stopped, Summarised};
use serde_json::{Value, json};

use super::Context;
use super::endpoint::EndpointArgs;
use crate::failure::{Exit, Failure, Result};
use crate::text::{count, plural};

#[derive(Args)]
#[command(after_help = "Example:\n  enjamb summarize\n  \
    enjamb summarize --endpoint https://models.example/v1/responses --model small --budget 50000\n\n\
    By rule: what was asked, else what was answered. No network, no model.\n\
    With an endpoint: the beginning and the end of each delta are sent to it. A key is read from ENJAMB_ENDPOINT_KEY and \
    kept nowhere. The budget is for this run and never exceeded: tokens read and written, as the provider counts them; \
    nothing is asked that might take more than is left. \
    Safe to stop and to run again.")]
pub struct Summarize {
    /// Write at most so many summaries
    #[arg(short = 'n', long, default_value_t = 10_000, value_name = "COUNT")]
    limit: u64,
    #[command(flatten)]
    endpoint: EndpointArgs,
}

/// What a run took of its budget.
struct Spent {
    budget: u64,
    used: u64,
}

impl Summarize {
    pub fn run(self, context: &mut Context<'_>) -> Result<Exit> {
        let Some(options) = self.endpoint.options() else {
            let asked = json!({"limit": self.limit});
            let view::Summaries { written, skipped, remaining } = context.operations()?.call("summarize", asked)?;
            return report(context, Summarised { written, skipped, remaining, stopped: None }, None);
        };
        let budget = options.budget_tokens;
        let asking = format!("asking {} for summaries, {} tokens at most", options.model, count(budget));
        let mut endpoint = Endpoint::new(options)?;
        let store = context.open()?;
        context.ui.note(&asking);
        let done = store.summarize(&mut endpoint, self.limit, &context.actor())?;
        report(context, done, Some(Spent { budget, used: endpoint.used_tokens() }))
    }
}

fn report(context: &mut Context<'_>, done: Summarised, spent: Option<Spent>) -> Result<Exit> {
    let stopped = match &done.stopped {
        None => None,
        Some(Stopped::Budget { .. }) => Some("budget"),
        Some(Stopped::Failed(_)) => Some("failure"),
    };
    if context.ui.is_json() {
        let tokens = spent.as_ref().map_or(Value::Null, |spent| json!({"budget": spent.budget, "used": spent.used}));
        let value = json!({
            "written": done.written, "skipped": done.skipped, "remaining": done.remaining, "tokens": tokens,
            "stopped": stopped,
        });
        context.ui.json("summarize", value)?;
    } else {
        for line in lines(&done, spent.as_ref()) {
            context.ui.line(line)?;
        }
    }
    match done.stopped {
        None => Ok(Exit::Done),
        Some(Stopped::Budget { .. }) => Ok(Exit::Partly),
        Some(Stopped::Failed(error)) => {
            context.ui.flush()?;
            Err(Failure::Service(error))
        }
    }
}

fn lines(done: &Summarised, spent: Option<&Spent>) -> Vec<String> {
    let written = plural(done.written, "summary").replace("summarys", "summaries");
    let mut lines = vec![format!("wrote {written}, {} had nothing to sum up", done.skipped)];
    if let Some(Spent { budget, used }) = spent {
        lines.push(format!("used {} of {} tokens", count(*used), count(*budget)));
    }
    if let Some(Stopped::Budget { needs, left }) = done.stopped {
        lines.push(format!("the next may take {} tokens, and {} are left", count(needs), count(left)));
    }
    if done.remaining > done.skipped {
        let at_least = if done.remaining == REMAINING_MAX as u64 { "at least " } else { "" };
        lines.push(format!("left without a summary: {at_least}{}", plural(done.remaining, "commit")));
    }
    lines
}

//! `enjamb job`

use clap::Subcommand;
use enjamb_server::view;
use serde_json::json;

use super::Context;
use super::compact_view::job_table;
use super::show::as_json;
use crate::failure::{Exit, Result};

#[derive(Subcommand)]
pub enum Job {
    /// List the jobs of a thread
    #[command(after_help = "Example:\n  enjamb job list 5d1c90ab")]
    List { thread: String },
    /// Run a job that was spawned and left
    #[command(after_help = "Example:\n  enjamb job run 5d1c90ab 77c0aa12")]
    Run {
        thread: String,
        job: String,
        /// A program that writes the summaries
        #[arg(long, value_name = "COMMAND")]
        cmd: Option<String>,
    },
    /// End a job that will not be run
    #[command(after_help = "Example:\n  enjamb job cancel 5d1c90ab 77c0aa12")]
    Cancel { thread: String, job: String },
}

impl Job {
    pub fn run(self, context: &mut Context<'_>) -> Result<Exit> {
        match self {
            Self::List { thread } => {
                let found: view::Jobs = context.operations()?.call("jobs", json!({"thread": thread}))?;
                if context.ui.is_json() {
                    context.ui.json("jobs", as_json(&found))?;
                } else {
                    context.ui.table(&job_table(&found.jobs))?;
                }
                Ok(Exit::Done)
            }
            Self::Run { thread, job, cmd } => {
                let done = run(context, &thread, &job, cmd)?;
                if context.ui.is_json() {
                    context.ui.json("job_run", as_json(&done))?;
                } else {
                    context.ui.answer(format!("{job}\t{}", done.status))?;
                }
                Ok(if done.error.is_some() { Exit::Partly } else { Exit::Done })
            }
            Self::Cancel { thread, job } => {
                let asked = json!({"thread": thread, "job": job});
                let _: view::Jobs = context.operations()?.call("cancel_job", asked)?;
                if context.ui.is_json() {
                    context.ui.json("job_cancel", json!({"job_id": job, "status": "cancelled"}))?;
                } else {
                    context.ui.answer(format!("{job}\tcancelled"))?;
                }
                Ok(Exit::Done)
            }
        }
    }
}

/// A program runs where the one who names it is, and so has to have the store there.
fn run(context: &Context<'_>, thread: &str, job: &str, cmd: Option<String>) -> Result<view::Compacted> {
    if cmd.is_none() {
        return Ok(context.operations()?.call("run_job", json!({"thread": thread, "job": job}))?);
    }
    let store = context.open()?;
    let thread = store.resolve_thread(thread)?;
    let done = store.run_job(&thread, job, super::compact::by_command(cmd), &context.actor())?;
    Ok(view::Compacted::of(&thread.id, &done))
}

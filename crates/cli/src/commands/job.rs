//! `enjamb job`

use clap::Subcommand;
use serde_json::json;

use super::Context;
use super::compact_view::{auto_json, job_json, job_table};
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
        let store = context.open()?;
        match self {
            Self::List { thread } => {
                let jobs = store.jobs(&store.resolve_thread(&thread)?)?;
                if context.ui.is_json() {
                    let rows: Vec<_> = jobs.iter().map(job_json).collect();
                    context.ui.json("jobs", json!({"jobs": rows}))?;
                } else {
                    context.ui.table(&job_table(&jobs))?;
                }
                Ok(Exit::Done)
            }
            Self::Run { thread, job, cmd } => {
                let thread = store.resolve_thread(&thread)?;
                let summarizer = super::compact::by_command(cmd);
                let done = store.run_job(&thread, &job, summarizer, &context.actor())?;
                if context.ui.is_json() {
                    context.ui.json("job_run", auto_json(&thread, &done))?;
                } else {
                    context.ui.answer(format!("{job}\t{}", done.status))?;
                }
                Ok(if done.error.is_some() { Exit::Partly } else { Exit::Done })
            }
            Self::Cancel { thread, job } => {
                store.cancel_job(&store.resolve_thread(&thread)?, &job, &context.actor())?;
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

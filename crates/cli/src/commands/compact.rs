//! `enjamb compact`, with `cuts`, `by-hand`, `schedule` and `status`

use std::sync::{Arc, Mutex};

use clap::{Args, Subcommand};
use enjamb_core::compact::STRIDE_DEFAULT;
use enjamb_core::{CommitId, StreamId};
use enjamb_service::{
    AutoCompact, ChainCompact, ChainSummary, Endpoint, Growth, ManualCompact, SchedulePolicy, ServiceError, Store,
    ThreadSummarizer, Writer,
};
use serde_json::json;

use super::Context;
use super::compact_view::{
    auto_json, checkpoint_json, cut_json, cut_table, print_score, scheduled_json, status_json, status_rows,
};
use super::endpoint::EndpointArgs;
use super::thread::At;
use crate::failure::{Exit, Failure, Result};
use crate::text::count;

#[derive(Args)]
#[command(args_conflicts_with_subcommands = true)]
#[command(after_help = "Example:\n  enjamb compact 5d1c90ab --stride 100\n  enjamb compact ctx-3f2a --keep 2\n  \
    enjamb compact ctx-3f2a --diff\n  enjamb compact 5d1c90ab --cmd 'llm -m small'\n  \
    enjamb compact 5d1c90ab --endpoint https://models.example/v1/responses --model small --budget 500000\n\nA thread gets a compaction \
    checkpoint by a job; a chain of commits gets a commit of the type compaction. What does not shrink is refused. Pins \
    stay: pinned messages, instructions, and commits tagged pin.")]
pub struct Compact {
    #[command(subcommand)]
    verb: Option<Verb>,
    /// A thread, or a commit
    target: Option<String>,
    /// Messages between two cuts of a thread
    #[arg(long, value_name = "MESSAGES", default_value_t = STRIDE_DEFAULT)]
    stride: u64,
    /// Checkpoints that the job makes at most
    #[arg(long, value_name = "COUNT", default_value_t = 1)]
    max_new: u32,
    /// Turns at the end of a chain that stay as they are
    #[arg(long, value_name = "TURNS", default_value_t = 1)]
    keep: usize,
    /// The summary of a chain, in words
    #[arg(long, value_name = "MARKDOWN")]
    summary: Option<String>,
    /// A program that writes the summary: it reads what was said, and its output is the summary
    #[arg(long, value_name = "COMMAND", conflicts_with = "summary")]
    cmd: Option<String>,
    #[command(flatten)]
    endpoint: EndpointArgs,
    /// Show what the summary lost
    #[arg(long)]
    diff: bool,
    /// Write nothing
    #[arg(long)]
    dry_run: bool,
}

#[derive(Subcommand)]
enum Verb {
    /// List where a thread may be cut, the last first
    #[command(after_help = "Example:\n  enjamb compact cuts 5d1c90ab --stride 100 -n 5")]
    Cuts {
        thread: String,
        #[arg(long, value_name = "MESSAGES", default_value_t = STRIDE_DEFAULT)]
        stride: u64,
        /// At most so many, and at most 32
        #[arg(short = 'n', long, default_value_t = 1, value_name = "COUNT")]
        limit: u64,
    },
    /// Record a summary that someone wrote
    #[command(after_help = "Example:\n  enjamb compact by-hand 5d1c90ab --at-seq 12 --summary 'two sleeps found'")]
    ByHand {
        thread: String,
        #[command(flatten)]
        at: At,
        #[arg(long, value_name = "MESSAGES", default_value_t = STRIDE_DEFAULT)]
        stride: u64,
        /// The summary, in words
        #[arg(long, value_name = "MARKDOWN")]
        summary: Option<String>,
        /// The summary, as an artifact that is stored
        #[arg(long, value_name = "ARTIFACT")]
        artifact: Option<String>,
    },
    /// Decide by policy whether a job runs, and record the decision
    #[command(after_help = "Example:\n  enjamb compact schedule 5d1c90ab --stride 100 --no-execute")]
    Schedule {
        thread: String,
        /// Messages between two cuts
        #[arg(long, value_name = "MESSAGES", default_value_t = STRIDE_DEFAULT)]
        stride: u64,
        /// Checkpoints that the job makes at most
        #[arg(long, value_name = "COUNT", default_value_t = 1)]
        max_new: u32,
        /// A program that writes the summary: it reads what was said, and its output is the summary
        #[arg(long, value_name = "COMMAND")]
        cmd: Option<String>,
        /// Go on although another job is in flight
        #[arg(long)]
        allow_inflight: bool,
        /// Leave the job for `enjamb job run`
        #[arg(long)]
        no_execute: bool,
        /// Write nothing
        #[arg(long)]
        dry_run: bool,
    },
    /// Show where the compaction of a thread stands
    #[command(after_help = "Example:\n  enjamb compact status 5d1c90ab --stride 100")]
    Status {
        thread: String,
        #[arg(long, value_name = "MESSAGES", default_value_t = STRIDE_DEFAULT)]
        stride: u64,
    },
}

/// What a word on the command line names.
pub enum Target {
    Thread(StreamId),
    Chain(CommitId),
}

impl Compact {
    pub fn run(self, context: &mut Context<'_>) -> Result<Exit> {
        let store = context.open()?;
        if let Some(verb) = self.verb {
            return verb.run(context, &store);
        }
        let Some(text) = self.target.as_deref() else {
            let help = Some("enjamb thread list    and enjamb log list what there is".into());
            return Err(Failure::Usage { message: "which thread or commit?".into(), help });
        };
        match (target(&store, text)?, self.diff) {
            (Target::Thread(thread), true) => {
                let (checkpoint, score) = store.thread_loss(&thread)?;
                print_score(context, &format!("{} of {}", checkpoint.checkpoint_id, thread.id), &score)
            }
            (Target::Thread(thread), false) => self.thread(context, &store, &thread),
            (Target::Chain(id), diff) => self.chain(context, &store, &id, diff),
        }
    }

    /// Who writes the summary, where no rule is to.
    fn writer(&self) -> Result<Option<Writer>> {
        match (&self.cmd, self.endpoint.options()) {
            (Some(_), Some(_)) => Err(Failure::usage("a program or an endpoint writes the summary: leave one out")),
            (Some(command), None) => Ok(Some(Writer::Command(command.clone()))),
            (None, Some(options)) => Ok(Some(Writer::Model(Arc::new(Mutex::new(Endpoint::new(options)?))))),
            (None, None) => Ok(None),
        }
    }

    fn thread(&self, context: &mut Context<'_>, store: &Store, thread: &StreamId) -> Result<Exit> {
        let request = AutoCompact {
            stride: self.stride,
            new_max: self.max_new,
            dry_run: self.dry_run,
            summarizer: self.writer()?.map_or(ThreadSummarizer::Rule, ThreadSummarizer::Written),
            growth: Growth::Refused,
        };
        let done = store.compact_auto(thread, &request, &context.actor())?;
        if context.ui.is_json() {
            context.ui.json("compact", auto_json(thread, &done))?;
        } else {
            for created in &done.created {
                context.ui.answer(format!(
                    "{}\t{}\tart-{}",
                    created.checkpoint_id, created.to_seq, created.summary_artifact_id
                ))?;
            }
            if let Some(error) = &done.error {
                context.ui.note(&format!("job {} failed: {error}", done.job_id.as_deref().unwrap_or_default()));
            } else if done.created.is_empty() {
                context.ui.note(&format!("nothing to do: {} planned", done.planned.len()));
            }
        }
        Ok(if done.error.is_some() { Exit::Partly } else { Exit::Done })
    }

    fn chain(&self, context: &mut Context<'_>, store: &Store, id: &CommitId, diff: bool) -> Result<Exit> {
        let commit = store.show(id)?;
        if diff && commit.link.kind == enjamb_core::chain::CommitKind::Compaction {
            let score = store.chain_loss(id)?;
            return print_score(context, &id.to_string(), &score);
        }
        let summary = match &self.summary {
            Some(words) => ChainSummary::Words(words.clone()),
            None => self.writer()?.map_or(ChainSummary::Rule, ChainSummary::Written),
        };
        let request = ChainCompact { keep_turns: self.keep, summary, dry_run: self.dry_run || diff };
        let done = store.compact_chain(id, &request)?;
        if diff {
            return print_score(context, &format!("{id}, if it were compacted"), &done.score);
        }
        let commit = done.commit.as_ref().map(|commit| commit.id.to_string());
        if context.ui.is_json() {
            let value = json!({
                "commit": commit, "parent": id.to_string(), "tokens_before": done.tokens_before,
                "tokens_after": done.tokens_after, "pinned": done.pinned, "score": done.score.percent,
                "summary": done.summary,
            });
            context.ui.json("compact_chain", value)?;
        } else {
            let (before, after) = (count(done.tokens_before), count(done.tokens_after));
            context
                .ui
                .line(format!("{before} tokens become {after}; {} % of the facts are kept", done.score.percent))?;
            context.ui.answer(commit.unwrap_or_else(|| "nothing was written".into()))?;
        }
        Ok(Exit::Done)
    }
}

/// A thread by its id, else a commit by its words.
pub fn target(store: &Store, text: &str) -> Result<Target> {
    if text.starts_with("ctx-") || text.starts_with('@') {
        return Ok(Target::Chain(store.revision(text)?));
    }
    let unknown = match store.resolve_thread(text) {
        Ok(thread) => return Ok(Target::Thread(thread)),
        Err(unknown @ (ServiceError::Unknown { .. } | ServiceError::Stream(_))) => unknown,
        Err(error) => return Err(error.into()),
    };
    match store.revision(text) {
        Ok(id) => Ok(Target::Chain(id)),
        // What is no word for a commit was meant as a thread.
        Err(ServiceError::Id(_)) => Err(unknown.into()),
        Err(error) => Err(error.into()),
    }
}

impl Verb {
    fn run(self, context: &mut Context<'_>, store: &Store) -> Result<Exit> {
        match self {
            Self::Cuts { thread, stride, limit } => {
                let points = store.cut_points(&store.resolve_thread(&thread)?, stride, limit)?;
                if context.ui.is_json() {
                    let cuts: Vec<_> = points.cuts.iter().map(cut_json).collect();
                    let value = json!({"stride_messages": points.stride, "message_count": points.messages, "cut_rule_id": points.rule, "cut_points": cuts});
                    context.ui.json("compact_cuts", value)?;
                } else {
                    context.ui.table(&cut_table(&points.cuts))?;
                }
            }
            Self::ByHand { thread, at, stride, summary, artifact } => {
                let artifact = artifact.map(|text| store.resolve_artifact(&text)).transpose()?;
                let growth = Growth::Refused;
                let request = ManualCompact { markdown: summary, artifact, at: at.selector()?, stride, growth };
                let thread = store.resolve_thread(&thread)?;
                let made = store.compact_by_hand(&thread, &request, &context.actor())?;
                if context.ui.is_json() {
                    let mut value = checkpoint_json(&made);
                    value["thread_id"] = thread.id.into();
                    context.ui.json("compact_by_hand", value)?;
                } else {
                    context.ui.answer(format!("{}\t{}", made.checkpoint_id, made.to_seq))?;
                }
            }
            Self::Schedule { thread, stride, max_new, cmd, allow_inflight, no_execute, dry_run } => {
                let summarizer = by_command(cmd);
                let growth = Growth::Refused;
                let request = AutoCompact { stride, new_max: max_new, dry_run, summarizer, growth };
                let thread = store.resolve_thread(&thread)?;
                let policy = SchedulePolicy { block_on_inflight: !allow_inflight, execute: !no_execute };
                let done = store.compact_schedule(&thread, &request, policy, &context.actor())?;
                if context.ui.is_json() {
                    context.ui.json("compact_schedule", scheduled_json(&thread, &done))?;
                } else {
                    let job = done.done.job_id.as_deref().or(done.inflight_job_id.as_deref()).unwrap_or("-");
                    context.ui.answer(format!("{}\t{job}", done.decision))?;
                    if let Some(error) = &done.done.error {
                        context.ui.note(&format!("job {job} failed: {error}"));
                    }
                }
                if done.done.error.is_some() {
                    return Ok(Exit::Partly);
                }
            }
            Self::Status { thread, stride } => {
                let thread = store.resolve_thread(&thread)?;
                let status = store.compaction_status(&thread, stride)?;
                if context.ui.is_json() {
                    context.ui.json("compact_status", status_json(&thread, &status))?;
                } else {
                    for (name, value) in status_rows(&status) {
                        context.ui.answer(format!("{name:12}{value}"))?;
                    }
                }
            }
        }
        Ok(Exit::Done)
    }
}

/// Summaries by a program, if one is named.
pub fn by_command(command: Option<String>) -> ThreadSummarizer {
    command.map_or(ThreadSummarizer::Rule, |command| ThreadSummarizer::Written(Writer::Command(command)))
}

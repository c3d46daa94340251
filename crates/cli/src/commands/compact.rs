//! `enjamb compact`, with `cuts`, `by-hand`, `schedule` and `status`

use std::sync::{Arc, Mutex};

use clap::{Args, Subcommand};
use enjamb_core::compact::STRIDE_DEFAULT;
use enjamb_server::view;
use enjamb_service::{
    AutoCompact, ChainCompact, ChainSummary, Endpoint, Growth, SchedulePolicy, ThreadSummarizer, Writer,
};
use serde_json::json;

use super::Context;
use super::compact_view::{cut_table, print_loss, status_rows};
use super::endpoint::EndpointArgs;
use super::show::as_json;
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

impl Compact {
    pub fn run(self, context: &mut Context<'_>) -> Result<Exit> {
        if let Some(verb) = self.verb {
            return verb.run(context);
        }
        let Some(text) = self.target.as_deref() else {
            let help = Some("enjamb thread list    and enjamb log list what there is".into());
            return Err(Failure::Usage { message: "which thread or commit?".into(), help });
        };
        let operations = context.operations()?;
        let named: view::Named = operations.call("find", json!({"name": text}))?;
        match (named.thread_id, named.context) {
            (Some(thread), _) if self.diff => {
                let loss: view::Loss = operations.call("thread_loss", json!({"thread": thread}))?;
                print_loss(context, &view::Loss { of: format!("{} of {thread}", loss.of), ..loss })
            }
            (Some(thread), _) => self.thread(context, &thread),
            (None, commit) => self.chain(context, &commit.unwrap_or_default()),
        }
    }

    /// Who writes the summary, where no rule is to. Such a one works here, so the store has to be here too.
    fn writer(&self) -> Result<Option<Writer>> {
        match (&self.cmd, self.endpoint.options()) {
            (Some(_), Some(_)) => Err(Failure::usage("a program or an endpoint writes the summary: leave one out")),
            (Some(command), None) => Ok(Some(Writer::Command(command.clone()))),
            (None, Some(options)) => Ok(Some(Writer::Model(Arc::new(Mutex::new(Endpoint::new(options)?))))),
            (None, None) => Ok(None),
        }
    }

    fn thread(&self, context: &mut Context<'_>, thread: &str) -> Result<Exit> {
        let done = match self.writer()? {
            Some(writer) => {
                let summarizer = ThreadSummarizer::Written(writer);
                let request = job(self.stride, self.max_new, self.dry_run, summarizer);
                let store = context.open()?;
                let done = store.compact_auto(&store.resolve_thread(thread)?, &request, &context.actor())?;
                view::Compacted::of(thread, &done)
            }
            None => {
                let asked = json!({
                    "thread": thread, "stride_messages": self.stride, "max_new_checkpoints": self.max_new,
                    "dry_run": self.dry_run,
                });
                context.operations()?.call("compact_auto", asked)?
            }
        };
        report(context, &done)
    }

    fn chain(&self, context: &mut Context<'_>, id: &str) -> Result<Exit> {
        let commit: view::Context = context.operations()?.call("show", json!({"context": id}))?;
        if self.diff && commit.kind == "compaction" {
            return print_loss(context, &context.operations()?.call("chain_loss", json!({"context": id}))?);
        }
        let done = self.compacted(context, id)?;
        if self.diff {
            return print_loss(context, &view::Loss { of: format!("{id}, if it were compacted"), ..done.loss });
        }
        let commit = done.commit.as_ref().map(|commit| commit.id.clone());
        if context.ui.is_json() {
            let value = json!({
                "commit": commit, "parent": id, "tokens_before": done.tokens_before,
                "tokens_after": done.tokens_after, "pinned": done.pinned, "score": done.score,
                "summary": done.summary,
            });
            context.ui.json("compact_chain", value)?;
        } else {
            let (before, after) = (count(done.tokens_before), count(done.tokens_after));
            context.ui.line(format!("{before} tokens become {after}; {} % of the facts are kept", done.score))?;
            context.ui.answer(commit.unwrap_or_else(|| "nothing was written".into()))?;
        }
        Ok(Exit::Done)
    }

    fn compacted(&self, context: &Context<'_>, id: &str) -> Result<view::CompactedChain> {
        let dry_run = self.dry_run || self.diff;
        let writer = if self.summary.is_some() { None } else { self.writer()? };
        let Some(writer) = writer else {
            let asked = json!({"context": id, "keep_turns": self.keep, "summary": self.summary, "dry_run": dry_run});
            return Ok(context.operations()?.call("compact_chain", asked)?);
        };
        let store = context.open()?;
        let request = ChainCompact { keep_turns: self.keep, summary: ChainSummary::Written(writer), dry_run };
        Ok(view::CompactedChain::from(&store.compact_chain(&store.revision(id)?, &request)?))
    }
}

fn job(stride: u64, new_max: u32, dry_run: bool, summarizer: ThreadSummarizer) -> AutoCompact {
    AutoCompact { stride, new_max, dry_run, summarizer, growth: Growth::Refused }
}

fn report(context: &mut Context<'_>, done: &view::Compacted) -> Result<Exit> {
    if context.ui.is_json() {
        context.ui.json("compact", as_json(done))?;
    } else {
        for created in &done.created {
            let (id, to_seq) = (&created.checkpoint_id, created.to_seq);
            context.ui.answer(format!("{id}\t{to_seq}\t{}", created.summary_artifact))?;
        }
        if let Some(error) = &done.error {
            context.ui.note(&format!("job {} failed: {error}", done.job_id.as_deref().unwrap_or_default()));
        } else if done.created.is_empty() {
            context.ui.note(&format!("nothing to do: {} planned", done.planned.len()));
        }
    }
    Ok(if done.error.is_some() { Exit::Partly } else { Exit::Done })
}

impl Verb {
    fn run(self, context: &mut Context<'_>) -> Result<Exit> {
        match self {
            Self::Cuts { thread, stride, limit } => {
                let asked = json!({"thread": thread, "stride_messages": stride, "limit": limit});
                let points: view::Cuts = context.operations()?.call("cut_points", asked)?;
                if context.ui.is_json() {
                    context.ui.json("compact_cuts", as_json(&points))?;
                } else {
                    context.ui.table(&cut_table(&points.cut_points))?;
                }
            }
            Self::ByHand { thread, at, stride, summary, artifact } => {
                let asked = json!({
                    "thread": thread, "to_message_id": at.at_message, "to_seq": at.at_seq, "stride_messages": stride,
                    "summary_markdown": summary, "summary_artifact": artifact,
                });
                let made: view::MadeCheckpoint = context.operations()?.call("compact", asked)?;
                if context.ui.is_json() {
                    context.ui.json("compact_by_hand", as_json(&made))?;
                } else {
                    context.ui.answer(format!("{}\t{}", made.checkpoint.checkpoint_id, made.checkpoint.to_seq))?;
                }
            }
            Self::Schedule { .. } => return self.schedule(context),
            Self::Status { thread, stride } => {
                let asked = json!({"thread": thread, "stride_messages": stride});
                let status: view::CompactionState = context.operations()?.call("compaction_status", asked)?;
                if context.ui.is_json() {
                    context.ui.json("compact_status", as_json(&status))?;
                } else {
                    for (name, value) in status_rows(&status) {
                        context.ui.answer(format!("{name:12}{value}"))?;
                    }
                }
            }
        }
        Ok(Exit::Done)
    }

    fn schedule(self, context: &mut Context<'_>) -> Result<Exit> {
        let Self::Schedule { thread, stride, max_new, cmd, allow_inflight, no_execute, dry_run } = self else {
            unreachable!("the other verbs were taken before")
        };
        let policy = SchedulePolicy { block_on_inflight: !allow_inflight, execute: !no_execute };
        let done = if cmd.is_some() {
            let store = context.open()?;
            let request = job(stride, max_new, dry_run, by_command(cmd));
            let thread = store.resolve_thread(&thread)?;
            view::Compacted::scheduled(
                &thread.id,
                &store.compact_schedule(&thread, &request, policy, &context.actor())?,
            )
        } else {
            let asked = json!({
                "thread": thread, "stride_messages": stride, "max_new_checkpoints": max_new, "dry_run": dry_run,
                "block_on_inflight": policy.block_on_inflight, "execute": policy.execute,
            });
            context.operations()?.call("compact_schedule", asked)?
        };
        report_scheduled(context, &done)
    }
}

fn report_scheduled(context: &mut Context<'_>, done: &view::Compacted) -> Result<Exit> {
    if context.ui.is_json() {
        context.ui.json("compact_schedule", as_json(done))?;
    } else {
        let schedule = done.schedule.as_ref();
        let inflight = schedule.and_then(|schedule| schedule.inflight_job_id.as_deref());
        let job = done.job_id.as_deref().or(inflight).unwrap_or("-");
        let decision = schedule.map(|schedule| schedule.decision.as_str()).unwrap_or_default();
        context.ui.answer(format!("{decision}\t{job}"))?;
        if let Some(error) = &done.error {
            context.ui.note(&format!("job {job} failed: {error}"));
        }
    }
    Ok(if done.error.is_some() { Exit::Partly } else { Exit::Done })
}

/// Summaries by a program, if one is named.
pub fn by_command(command: Option<String>) -> ThreadSummarizer {
    command.map_or(ThreadSummarizer::Rule, |command| ThreadSummarizer::Written(Writer::Command(command)))
}

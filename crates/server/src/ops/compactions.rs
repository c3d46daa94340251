//! Compaction of threads: where it may be cut, summaries by hand or by a job, and where all that stands.

use enjamb_core::thread::Selector;
use enjamb_service::{AutoCompact, Growth, ManualCompact, SchedulePolicy, ThreadSummarizer};
use schemars::JsonSchema;
use serde::Deserialize;

use super::threads::selector;
use crate::call::{Call, Reply};
use crate::problem::Result;
use crate::route::{Method, Route, Scope, at};
use crate::view;

/// Messages between two cuts when nobody says how many.
pub(super) const STRIDE: u64 = 10_000;

pub fn routes() -> Vec<Route> {
    use Method::{Delete, Get, Post};
    vec![
        at(Get, "/v1/threads/{thread}/cut-points", "cut_points", Scope::Read, "Where a thread may be cut")
            .json(cut_points),
        at(Get, "/v1/threads/{thread}/compaction", "compaction_status", Scope::Read, "Where its compaction stands")
            .json(status),
        at(
            Post,
            "/v1/threads/{thread}/compactions",
            "compact",
            Scope::Append,
            "Let a summary stand for a thread's beginning",
        )
        .status(201)
        .json(by_hand),
        at(Post, "/v1/threads/{thread}/compactions/auto", "compact_auto", Scope::Append, "Sum up by a job, now")
            .answers::<Auto, view::Compacted>(auto),
        at(
            Post,
            "/v1/threads/{thread}/compactions/schedule",
            "compact_schedule",
            Scope::Append,
            "Let a policy decide about a job",
        )
        .answers::<Scheduling, view::Compacted>(schedule),
        at(Get, "/v1/threads/{thread}/loss", "thread_loss", Scope::Read, "What the last summary lost").json(loss),
        at(Get, "/v1/threads/{thread}/jobs", "jobs", Scope::Read, "List jobs").json(jobs),
        at(Post, "/v1/threads/{thread}/jobs/{job}/run", "run_job", Scope::Append, "Run a job that was left").json(run),
        at(Delete, "/v1/threads/{thread}/jobs/{job}", "cancel_job", Scope::Append, "Call a job off").json(cancel),
    ]
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Points {
    thread: String,
    stride_messages: Option<u64>,
    /// 1 to 32
    limit: Option<u64>,
}

fn cut_points(call: &Call, asked: Points) -> Result<view::Cuts> {
    let thread = call.thread(&asked.thread)?;
    let points = call.store().cut_points(&thread, asked.stride_messages.unwrap_or(STRIDE), asked.limit.unwrap_or(1))?;
    Ok(view::Cuts::of(&thread.id, &points))
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Standing {
    thread: String,
    stride_messages: Option<u64>,
}

fn status(call: &Call, asked: Standing) -> Result<view::CompactionState> {
    let thread = call.thread(&asked.thread)?;
    let status = call.store().compaction_status(&thread, asked.stride_messages.unwrap_or(STRIDE))?;
    Ok(view::CompactionState::of(&thread.id, &status))
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ByHand {
    thread: String,
    summary_markdown: Option<String>,
    summary_artifact: Option<String>,
    to_message_id: Option<String>,
    to_seq: Option<u64>,
    stride_messages: Option<u64>,
}

fn by_hand(call: &Call, asked: ByHand) -> Result<view::MadeCheckpoint> {
    let store = call.store();
    let artifact = asked.summary_artifact.as_deref().map(|text| store.resolve_artifact(text)).transpose()?;
    let at: Selector = selector(asked.to_message_id, asked.to_seq)?;
    let stride = asked.stride_messages.unwrap_or(STRIDE);
    let request = ManualCompact { markdown: asked.summary_markdown, artifact, at, stride, growth: Growth::Refused };
    let thread = call.thread(&asked.thread)?;
    let made = store.compact_by_hand(&thread, &request, &call.actor())?;
    Ok(view::MadeCheckpoint { thread_id: thread.id, checkpoint: view::CompactionCheckpoint::from(&made) })
}

/// Jobs write by rule here: a command that a request names is never run.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Auto {
    thread: String,
    stride_messages: Option<u64>,
    /// 1 to 32
    max_new_checkpoints: Option<u32>,
    #[serde(default)]
    dry_run: bool,
}

pub(super) fn job(stride: Option<u64>, new_max: Option<u32>, dry_run: bool) -> AutoCompact {
    let (stride, new_max) = (stride.unwrap_or(STRIDE), new_max.unwrap_or(1));
    AutoCompact { stride, new_max, dry_run, summarizer: ThreadSummarizer::Rule, growth: Growth::Refused }
}

fn auto(call: &Call, asked: Auto) -> Result<Reply> {
    let thread = call.thread(&asked.thread)?;
    let request = job(asked.stride_messages, asked.max_new_checkpoints, asked.dry_run);
    let done = call.store().compact_auto(&thread, &request, &call.actor())?;
    Ok(Reply::json(if done.job_id.is_some() { 201 } else { 200 }, &view::Compacted::of(&thread.id, &done)))
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Scheduling {
    thread: String,
    stride_messages: Option<u64>,
    max_new_checkpoints: Option<u32>,
    #[serde(default)]
    dry_run: bool,
    /// No job while another is in flight
    #[serde(default = "yes")]
    block_on_inflight: bool,
    /// Run the job now; else it is left for someone to run
    #[serde(default = "yes")]
    execute: bool,
}

fn yes() -> bool {
    true
}

fn schedule(call: &Call, asked: Scheduling) -> Result<Reply> {
    let thread = call.thread(&asked.thread)?;
    let request = job(asked.stride_messages, asked.max_new_checkpoints, asked.dry_run);
    let policy = SchedulePolicy { block_on_inflight: asked.block_on_inflight, execute: asked.execute };
    let done = call.store().compact_schedule(&thread, &request, policy, &call.actor())?;
    let status = if done.done.job_id.is_some() { 201 } else { 200 };
    Ok(Reply::json(status, &view::Compacted::scheduled(&thread.id, &done)))
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct One {
    thread: String,
}

fn loss(call: &Call, asked: One) -> Result<view::Loss> {
    let (checkpoint, score) = call.store().thread_loss(&call.thread(&asked.thread)?)?;
    Ok(view::Loss::of(checkpoint.checkpoint_id, &score))
}

fn jobs(call: &Call, asked: One) -> Result<view::Jobs> {
    let jobs = call.store().jobs(&call.thread(&asked.thread)?)?;
    Ok(view::Jobs { jobs: jobs.iter().map(view::Job::from).collect() })
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct JobOf {
    thread: String,
    job: String,
}

fn run(call: &Call, asked: JobOf) -> Result<view::Compacted> {
    let thread = call.thread(&asked.thread)?;
    let done = call.store().run_job(&thread, &asked.job, ThreadSummarizer::Rule, &call.actor())?;
    Ok(view::Compacted::of(&thread.id, &done))
}

fn cancel(call: &Call, asked: JobOf) -> Result<view::Jobs> {
    let thread = call.thread(&asked.thread)?;
    call.store().cancel_job(&thread, &asked.job, &call.actor())?;
    let jobs = call.store().jobs(&thread)?;
    Ok(view::Jobs { jobs: jobs.iter().filter(|job| job.job_id == asked.job).map(view::Job::from).collect() })
}

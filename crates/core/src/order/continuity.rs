//! The rules of a thread: runs and jobs begin before they end, contexts are selected before they are compiled, and
//! compaction cuts at messages.

use super::{Case, MarkKey, Refusal, Rule};
use crate::frame::{CompactionCheckpointCreated, ContinuityBody, HandoffCreated, ToolSideEffects};

pub(super) fn check(case: &mut Case<'_>, body: &ContinuityBody) -> Result<(), Refusal> {
    match body {
        ContinuityBody::RunSpawned(run) => check_run_new(case, &run.run_session_id),
        ContinuityBody::SelectionDecided(run) => check_selection(case, &run.run_session_id),
        ContinuityBody::ContextCompiled(run) => check_run_alive(case, &run.run_session_id),
        ContinuityBody::RetrievalDecided(run) => check_run_alive(case, &run.run_session_id),
        ContinuityBody::RunEnded(run) => check_run_alive(case, &run.run_session_id),
        ContinuityBody::ProviderCursorUpdated(cursor) => match &cursor.run_session_id {
            Some(run) => check_run_alive(case, run),
            None => Ok(()),
        },
        ContinuityBody::ToolSideEffects(effects) => check_side_effects(case, effects),
        ContinuityBody::JobSpawned(job) => check_job_new(case, &job.job_id),
        ContinuityBody::JobEnded(job) => check_job_end(case, &job.job_id),
        ContinuityBody::CompactionCheckpointCreated(checkpoint) => check_compaction(case, checkpoint),
        ContinuityBody::HandoffCreated(handoff) => check_handoff(case, handoff),
        ContinuityBody::ThreadTagged(tags) => tags.add.iter().try_for_each(|name| case.check_name(name)),
        ContinuityBody::MessagePinned(pin) => check_message(case, &pin.message_id),
        ContinuityBody::ThreadCreated(_)
        | ContinuityBody::ThreadArchived(_)
        | ContinuityBody::MessageAppended(_)
        | ContinuityBody::CompactionScheduleDecided(_)
        | ContinuityBody::Branched(_)
        | ContinuityBody::ThreadReferenced(_) => Ok(()),
    }
}

fn check_message(case: &mut Case<'_>, message: &str) -> Result<(), Refusal> {
    let known = case.here(MarkKey::MessageId(message.to_owned())).is_some();
    case.require(known, Rule::MessageUnknown, || format!("this thread has no message {message}"))
}

fn check_run_new(case: &mut Case<'_>, run: &str) -> Result<(), Refusal> {
    let spawned = case.here(MarkKey::RunSpawned(run.to_owned()));
    case.require(spawned.is_none(), Rule::RunSpawnedTwice, || {
        format!("run {run} was spawned at seq {}", spawned.unwrap_or_default())
    })
}

fn check_run_alive(case: &mut Case<'_>, run: &str) -> Result<(), Refusal> {
    let spawned = case.here(MarkKey::RunSpawned(run.to_owned())).is_some();
    case.require(spawned, Rule::RunUnknown, || format!("run {run} was never spawned in this thread"))?;
    let ended = case.here(MarkKey::RunEnded(run.to_owned()));
    case.require(ended.is_none(), Rule::RunEnded, || {
        format!("run {run} has ended at seq {}", ended.unwrap_or_default())
    })
}

fn check_selection(case: &mut Case<'_>, run: &str) -> Result<(), Refusal> {
    check_run_alive(case, run)?;
    case.check_uncompiled(run)
}

fn check_side_effects(case: &mut Case<'_>, effects: &ToolSideEffects) -> Result<(), Refusal> {
    let ToolSideEffects { run_session_id: run, tool_id, .. } = effects;
    check_run_alive(case, run)?;
    let started = case.in_session(run, MarkKey::ToolStarted(tool_id.clone())).is_some();
    let ended = case.in_session(run, MarkKey::ToolEnded(tool_id.clone())).is_some();
    case.require(ended || !started, Rule::ToolStillRunning, || {
        format!("tool {tool_id} of session {run} has started and not ended")
    })
}

fn check_job_new(case: &mut Case<'_>, job: &str) -> Result<(), Refusal> {
    let spawned = case.here(MarkKey::JobSpawned(job.to_owned()));
    case.require(spawned.is_none(), Rule::JobSpawnedTwice, || {
        format!("job {job} was spawned at seq {}", spawned.unwrap_or_default())
    })
}

fn check_job_end(case: &mut Case<'_>, job: &str) -> Result<(), Refusal> {
    let spawned = case.here(MarkKey::JobSpawned(job.to_owned())).is_some();
    case.require(spawned, Rule::JobUnknown, || format!("job {job} was never spawned in this thread"))?;
    let ended = case.here(MarkKey::JobEnded(job.to_owned()));
    case.require(ended.is_none(), Rule::JobEndedTwice, || {
        format!("job {job} has ended at seq {}", ended.unwrap_or_default())
    })
}

fn check_compaction(case: &mut Case<'_>, checkpoint: &CompactionCheckpointCreated) -> Result<(), Refusal> {
    let CompactionCheckpointCreated { checkpoint_id: id, from_seq, to_seq, to_message_id, .. } = checkpoint;
    case.require(from_seq <= to_seq, Rule::RangeReversed, || {
        format!("compaction checkpoint {id} covers {from_seq} to {to_seq}: expected from_seq at most to_seq")
    })?;
    let Some(message) = case.here(MarkKey::Message(*to_seq)) else {
        let detail = format!("to_seq of compaction checkpoint {id} is {to_seq}, where this thread has no message");
        return Err(case.refuse(Rule::NotAMessage, detail));
    };
    let given = to_message_id.as_ref().unwrap_or(&message);
    case.require(*given == message, Rule::OtherMessage, || {
        format!(
            "to_message_id of compaction checkpoint {id} is {given:?}: expected {message:?}, the message at {to_seq}"
        )
    })
}

fn check_handoff(case: &Case<'_>, handoff: &HandoffCreated) -> Result<(), Refusal> {
    let says = handoff.summary_artifact_id.is_some() || handoff.summary_markdown.is_some();
    case.require(says, Rule::HandoffEmpty, || {
        let from = &handoff.from_thread_id;
        format!("the handoff from thread {from} has neither summary_artifact_id nor summary_markdown")
    })
}

//! The rules of a session: it ends once, its tools end once, and it sets files aside before it touches them.

use super::{Case, MarkKey, Refusal, Rule};
use crate::StreamKind;
use crate::frame::{CheckpointCreated, SessionBody};

/// Nothing may follow the end of a session, not even what this version does not know.
pub(super) fn check_open(case: &mut Case<'_>) -> Result<(), Refusal> {
    if case.frame.stream().kind != StreamKind::Session {
        return Ok(());
    }
    let ended = case.here(MarkKey::Ended);
    case.require(ended.is_none(), Rule::SessionEnded, || {
        format!("the session has ended at seq {}, and nothing follows that", ended.unwrap_or_default())
    })
}

pub(super) fn check(case: &mut Case<'_>, body: &SessionBody) -> Result<(), Refusal> {
    match body {
        SessionBody::ToolEnded(tool) => check_tool_end(case, &tool.tool_id),
        SessionBody::ToolFailed(tool) => check_tool_end(case, &tool.tool_id),
        SessionBody::CheckpointCreated(checkpoint) => check_checkpoint(case, checkpoint),
        SessionBody::SessionStarted(_)
        | SessionBody::OutputTextDelta(_)
        | SessionBody::SessionEnded(_)
        | SessionBody::ToolStarted(_)
        | SessionBody::ToolStdout(_)
        | SessionBody::ToolStderr(_)
        | SessionBody::ProviderEvent(_)
        | SessionBody::RequestDumped(_)
        | SessionBody::RequestStarted(_)
        | SessionBody::ResponseHeaders(_)
        | SessionBody::ResponseFirstByte(_)
        | SessionBody::CheckpointRewound(_)
        | SessionBody::CheckpointFailed(_)
        | SessionBody::SkillCatalogUpdated(_)
        | SessionBody::SkillLoaded(_)
        | SessionBody::SkillInvoked(_)
        | SessionBody::SkillWarning(_) => Ok(()),
    }
}

/// A tool that was denied fails without having started, so only the second end is wrong.
fn check_tool_end(case: &mut Case<'_>, tool_id: &str) -> Result<(), Refusal> {
    let ended = case.here(MarkKey::ToolEnded(tool_id.to_owned()));
    case.require(ended.is_none(), Rule::ToolEndedTwice, || {
        format!("tool {tool_id} has ended at seq {}", ended.unwrap_or_default())
    })
}

fn check_checkpoint(case: &mut Case<'_>, checkpoint: &CheckpointCreated) -> Result<(), Refusal> {
    let Some(name) = checkpoint.tool_name.as_ref().filter(|_| checkpoint.auto) else { return Ok(()) };
    let Some(tool_id) = case.here(MarkKey::RunningTool(name.clone())) else { return Ok(()) };
    let ended = case.here(MarkKey::ToolEnded(tool_id.clone()));
    case.require(ended.is_some(), Rule::CheckpointAfterStart, || {
        let id = &checkpoint.checkpoint_id;
        format!("tool {tool_id} ({name}) has started, and automatic checkpoint {id} had to come before that")
    })
}

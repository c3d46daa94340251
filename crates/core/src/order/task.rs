//! The rules of a task: spawned first, and silent after its last status.

use super::{Case, MarkKey, Refusal, Rule};
use crate::frame::TaskBody;

pub(super) fn check(case: &mut Case<'_>, body: &TaskBody) -> Result<(), Refusal> {
    check_place(case, body.task_id())?;
    match body {
        TaskBody::TaskSpawned(_) => check_new(case),
        TaskBody::TaskStatusChanged(_)
        | TaskBody::TaskCancelRequested(_)
        | TaskBody::TaskCancelled(_)
        | TaskBody::TaskOutputDelta(_)
        | TaskBody::TaskStdinWritten(_)
        | TaskBody::TaskResized(_)
        | TaskBody::TaskSignalled(_) => check_alive(case),
    }
}

fn check_place(case: &Case<'_>, task_id: &str) -> Result<(), Refusal> {
    let stream = &case.frame.stream().id;
    case.require(task_id == stream, Rule::TaskElsewhere, || {
        format!("task_id is {task_id:?}: expected {stream:?}, the id of the stream")
    })
}

fn check_new(case: &mut Case<'_>) -> Result<(), Refusal> {
    let spawned = case.here(MarkKey::TaskSpawned);
    case.require(spawned.is_none(), Rule::TaskSpawnedTwice, || {
        format!("the task was spawned at seq {}", spawned.unwrap_or_default())
    })
}

fn check_alive(case: &mut Case<'_>) -> Result<(), Refusal> {
    let spawned = case.here(MarkKey::TaskSpawned).is_some();
    case.require(spawned, Rule::TaskUnknown, || "the stream has to begin with tool_task_spawned".to_owned())?;
    let ended = case.here(MarkKey::TaskEnded);
    case.require(ended.is_none(), Rule::TaskEnded, || {
        format!("the task's last status was {:?}, and nothing follows that", ended.unwrap_or_default())
    })
}

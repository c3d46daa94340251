//! Frames of a task stream: one background tool task, from its spawning to its last status.

use super::catalogue::{frames, words};
use crate::json::Json;

words! {
    /// How a task's process is attached.
    ExecutionMode { Pipes = "pipes", Pty = "pty" }

    /// Where a task stands.
    TaskStatus {
        Queued = "queued",
        Running = "running",
        Exited = "exited",
        Cancelled = "cancelled",
        Failed = "failed",
    }

    /// Where a task's output came from.
    OutputStream { Stdout = "stdout", Stderr = "stderr", Pty = "pty" }
}

impl TaskStatus {
    /// Whether nothing follows.
    pub fn is_terminal(&self) -> bool {
        match self {
            Self::Exited | Self::Cancelled | Self::Failed => true,
            Self::Queued | Self::Running | Self::Other(_) => false,
        }
    }
}

frames! {
    /// What a task frame says.
    TaskBody in Task {
        "tool_task_spawned" => TaskSpawned {
            task_id: String,
            tool_name: String,
            args: Json,
            cwd: Option<String> = null,
            title: Option<String> = null,
            execution_mode: ExecutionMode,
            origin_session_id: Option<String> = null,
            artifacts: Option<Json> = null,
        }

        "tool_task_status" => TaskStatusChanged {
            task_id: String,
            status: TaskStatus,
            exit_code: Option<i32> = null,
            started_at_ms: Option<u64> = null,
            ended_at_ms: Option<u64> = null,
            artifacts: Option<Json> = null,
            error: Option<String> = null,
        }

        "tool_task_cancel_requested" => TaskCancelRequested { task_id: String, reason: String }

        /// The process was stopped; the last status follows.
        "tool_task_cancelled" => TaskCancelled { task_id: String, reason: String, wall_time_ms: Option<u64> = null }

        "tool_task_output_delta" => TaskOutputDelta {
            task_id: String,
            stream: OutputStream,
            chunk: String,
            artifacts: Option<Json> = null,
        }

        "tool_task_stdin_written" => TaskStdinWritten { task_id: String, chunk_b64: String }

        "tool_task_resized" => TaskResized { task_id: String, rows: u16, cols: u16 }

        "tool_task_signalled" => TaskSignalled { task_id: String, signal: String }
    }
}

impl TaskBody {
    pub fn task_id(&self) -> &str {
        match self {
            Self::TaskSpawned(frame) => &frame.task_id,
            Self::TaskStatusChanged(frame) => &frame.task_id,
            Self::TaskCancelRequested(frame) => &frame.task_id,
            Self::TaskCancelled(frame) => &frame.task_id,
            Self::TaskOutputDelta(frame) => &frame.task_id,
            Self::TaskStdinWritten(frame) => &frame.task_id,
            Self::TaskResized(frame) => &frame.task_id,
            Self::TaskSignalled(frame) => &frame.task_id,
        }
    }
}

//! Frames of a session stream: one run of a model, with its tools, its provider and its skills.

use super::catalogue::{frames, words};
use crate::json::Json;

words! {
    /// What a provider's stream gave.
    ProviderStatus { Event = "event", Done = "done", InvalidJson = "invalid_json" }

    /// What was being done with a workspace checkpoint.
    CheckpointAction { Create = "create", Rewind = "rewind" }

    /// Who called a skill.
    SkillMode { Manual = "manual", Auto = "auto" }
}

frames! {
    /// What a session frame says.
    SessionBody in Session {
        /// The run begins.
        "session_started" => SessionStarted { input was "prompt": String = blank }

        /// A piece of the model's answer.
        "output_text_delta" was "output" => OutputTextDelta { delta was "content": String }

        /// The run is over, and so is its stream.
        "session_ended" => SessionEnded { reason: String }

        "tool_started" => ToolStarted { tool_id: String, name: String, args: Json, timeout_ms: Option<u64> = null }

        "tool_stdout" => ToolStdout { tool_id: String, chunk: String }

        "tool_stderr" => ToolStderr { tool_id: String, chunk: String }

        "tool_ended" => ToolEnded {
            tool_id: String,
            exit_code: i32,
            duration_ms: u64,
            artifacts: Option<Json> = null,
        }

        "tool_failed" => ToolFailed { tool_id: String, error: String }

        /// One event of a provider's stream, kept so that replay needs no provider.
        "provider_event" => ProviderEvent {
            provider: String,
            status: ProviderStatus,
            event_name: Option<String> = null,
            data: Option<Json> = null,
            raw: Option<String> = null,
            errors: Vec<String>,
            response_errors: Vec<String>,
        }

        /// A request's body, written down on demand.
        "openresponses_request" => RequestDumped {
            endpoint: String,
            model: Option<String> = null,
            request_index: u64,
            kind: String,
            body_artifact_id: String,
            body_bytes: u64,
            total_bytes: u64,
            truncated: bool,
        }

        "openresponses_request_started" => RequestStarted {
            endpoint: String,
            model: Option<String> = null,
            request_index: u64,
            kind: String,
        }

        "openresponses_response_headers" => ResponseHeaders {
            request_index: u64,
            status: u16,
            request_id: Option<String> = null,
            content_type: Option<String> = null,
        }

        "openresponses_response_first_byte" => ResponseFirstByte { request_index: u64 }

        /// Files of the workspace were set aside. What is ours comes after the members of the contract: the whole of the
        /// workspace is in the manifest, and `files` tells what differs from the checkpoint before.
        "checkpoint_created" => CheckpointCreated {
            checkpoint_id: String,
            label: String,
            created_at_ms: u64,
            files: Vec<String>,
            auto: bool,
            tool_name: Option<String> = null,
            workspace: Option<String> = omit,
            manifest_artifact_id: Option<String> = omit,
            files_changed: Option<u64> = omit,
            actor_id: Option<String> = omit,
            origin: Option<String> = omit,
        }

        /// Files are as a checkpoint has them; what was there before is in another one.
        "checkpoint_rewound" => CheckpointRewound {
            checkpoint_id: String,
            label: String,
            files: Vec<String>,
            workspace: Option<String> = omit,
            saved_checkpoint_id: Option<String> = omit,
            files_changed: Option<u64> = omit,
            actor_id: Option<String> = omit,
            origin: Option<String> = omit,
        }

        "checkpoint_failed" => CheckpointFailed { action: CheckpointAction, error: String }

        "skill_catalog_updated" => SkillCatalogUpdated {
            count: u64,
            roots: Vec<String>,
            collisions: Option<Json> = omit,
        }

        "skill_loaded" => SkillLoaded {
            name: String,
            path: String,
            digest: String,
            frontmatter: Json,
            warnings: Option<Json> = omit,
        }

        "skill_invoked" => SkillInvoked {
            name: String,
            args: Option<Json> = omit,
            mode: SkillMode,
            effective_allowed_tools: Option<Json> = omit,
        }

        "skill_warning" => SkillWarning { name: Option<String> = omit, kind: String, detail: String }
    }
}

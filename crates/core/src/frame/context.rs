//! Frames of a context stream: a principal's timeline of commits, the words and names given to them, and the contexts
//! compiled from them.

use super::catalogue::{frames, words};
use crate::json::Json;

words! {
    /// What a commit's artifact holds.
    CommitType { Delta = "delta", Compaction = "compaction", Snapshot = "snapshot" }

    /// What made the commit happen.
    Trigger {
        TurnBoundary = "turn_boundary",
        ToolCall = "tool_call",
        Compaction = "compaction",
        SessionEnd = "session_end",
        Explicit = "explicit",
    }
}

frames! {
    /// What a context frame says.
    ContextBody in Context {
        /// A commit. It never changes: what is said of it later is a note.
        "context_committed" => ContextCommitted {
            commit_id: String,
            version: u64,
            parent: Option<String> = omit,
            commit_type: CommitType,
            artifact_ref: String,
            format: String,
            template: Option<String> = omit,
            principal: Option<String> = omit,
            machine: Option<String> = omit,
            agent_session_id: Option<String> = omit,
            checkpoint: Trigger,
            ticket_id: Option<String> = omit,
            thread_id: Option<String> = omit,
            summary: Option<String> = omit,
            message_count: u64,
            token_count: u64,
            token_method: Option<String> = omit,
            created_at: String,
            attributes: Option<Json> = omit,
        }

        /// New words about a commit. What is left out stays as it was; an empty text or list takes it away.
        "context_noted" => ContextNoted {
            commit_id: String,
            summary: Option<String> = omit,
            tags: Option<Vec<String>> = omit,
            actor_id: String,
            origin: String,
        }

        /// Which strategy was chosen to compile a chain for a run, and why. A chain has no thread to say so in.
        "context_selection_decided" => ChainSelectionDecided {
            run_session_id: String,
            commit_id: String,
            compiler_id: String,
            compiler_strategy: String,
            limits: Json,
            reason: Option<Json> = omit,
            actor_id: String,
            origin: String,
        }

        /// The bundle that a chain was compiled to; `from_seq` is how far the commit is from the first.
        "context_compiled" => ChainCompiled {
            run_session_id: String,
            commit_id: String,
            bundle_artifact_id: String,
            compiler_id: String,
            compiler_strategy: String,
            from_seq: u64,
            actor_id: String,
            origin: String,
        }

        /// A ref moved from `previous` to `commit_id`; to none when it was removed.
        "context_ref_moved" => ContextRefMoved {
            name: String,
            commit_id: Option<String> = null,
            previous: Option<String> = null,
            actor_id: String,
            origin: String,
        }
    }
}

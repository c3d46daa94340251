//! Frames of a continuity stream: a thread, its messages and runs, and what was decided about its context.

use super::catalogue::{frames, nested};
use crate::Digest;
use crate::json::Json;

nested! {
    /// A compaction checkpoint that a selection used.
    CheckpointRef { checkpoint_id: String, summary_kind: String, summary_artifact_id: String, to_seq: u64 }
}

nested! {
    /// An input that a selection set aside, and why.
    Reset { input: String, action: String, reason: String, reference as "ref": Option<Json> = omit }
}

nested! {
    /// A cut that scheduled compaction is to make.
    PlannedCut { target_message_ordinal: u64, to_seq: u64, to_message_id: String }
}

frames! {
    /// What a thread's frame says.
    ContinuityBody in Continuity {
        "continuity_created" => ThreadCreated { workspace: String, title: Option<String> = null }

        /// A message. Its id is the frame's id.
        "continuity_message_appended" => MessageAppended { actor_id: String, origin: String, content: String }

        "continuity_run_spawned" => RunSpawned {
            run_session_id: String,
            message_id: String,
            actor_id: Option<String> = omit,
            origin: Option<String> = omit,
        }

        /// Which strategy was chosen to compile a run's context, and why.
        "continuity_context_selection_decided" => SelectionDecided {
            run_session_id: String,
            message_id: String,
            compiler_id: String,
            compiler_strategy: String,
            limits: Json,
            compaction_checkpoint: Option<CheckpointRef> = omit,
            compaction_checkpoints: Vec<CheckpointRef> = empty,
            resets: Vec<Reset> = empty,
            reason: Option<Json> = omit,
            actor_id: String,
            origin: String,
        }

        /// The bundle that a run starts from.
        "continuity_context_compiled" => ContextCompiled {
            run_session_id: String,
            bundle_artifact_id: String,
            compiler_id: String,
            compiler_strategy: String,
            from_seq: u64,
            from_message_id: Option<String> = omit,
            actor_id: String,
            origin: String,
        }

        "continuity_provider_cursor_updated" => ProviderCursorUpdated {
            provider: String,
            endpoint: Option<String> = omit,
            model: Option<String> = omit,
            cursor: Option<Json> = null,
            action: String,
            reason: Option<String> = omit,
            run_session_id: Option<String> = omit,
            actor_id: String,
            origin: String,
        }

        /// Messages up to a cut, summarised.
        "continuity_compaction_checkpoint_created" => CompactionCheckpointCreated {
            checkpoint_id: String,
            cut_rule_id: String,
            summary_kind: String,
            summary_artifact_id: String,
            from_seq: u64,
            from_message_id: Option<String> = omit,
            to_seq: u64,
            to_message_id: Option<String> = omit,
            actor_id: String,
            origin: String,
        }

        "continuity_compaction_auto_schedule_decided" => CompactionScheduleDecided {
            decision_id: String,
            policy_id: String,
            decision: String,
            execute: bool,
            stride_messages: u64,
            max_new_checkpoints: u32,
            block_on_inflight: bool,
            message_count: u64,
            cut_rule_id: String,
            planned: Vec<PlannedCut>,
            job_id: Option<String> = omit,
            job_kind: Option<String> = omit,
            reason: Option<Json> = omit,
            actor_id: String,
            origin: String,
        }

        "continuity_job_spawned" => JobSpawned {
            job_id: String,
            job_kind: String,
            details: Option<Json> = omit,
            actor_id: String,
            origin: String,
        }

        "continuity_job_ended" => JobEnded {
            job_id: String,
            job_kind: String,
            status: String,
            result: Option<Json> = omit,
            error: Option<String> = omit,
            actor_id: String,
            origin: String,
        }

        "continuity_run_ended" => RunEnded {
            run_session_id: String,
            message_id: String,
            reason: String,
            actor_id: Option<String> = omit,
            origin: Option<String> = omit,
        }

        /// What a run's tool did to the workspace.
        "continuity_tool_side_effects" => ToolSideEffects {
            run_session_id: String,
            tool_id: String,
            tool_name: String,
            affected_paths: Option<Vec<String>> = null,
            checkpoint_id: Option<String> = null,
            actor_id: String,
            origin: String,
        }

        "continuity_branched" => Branched {
            parent_thread_id: String,
            parent_seq: u64,
            parent_message_id: Option<String> = omit,
            actor_id: String,
            origin: String,
        }

        "continuity_handoff_created" => HandoffCreated {
            from_thread_id: String,
            from_seq: u64,
            from_message_id: Option<String> = omit,
            summary_artifact_id: Option<String> = omit,
            summary_markdown: Option<String> = omit,
            actor_id: String,
            origin: String,
        }

        /// Something of another thread was brought in.
        "continuity_thread_referenced" => ThreadReferenced {
            from_thread_id: String,
            to_thread_id: String,
            selector: Json,
            extracted_artifact_id: Option<String> = null,
            actor_id: String,
            origin: String,
        }

        /// What was searched for on behalf of a run, and where the results are.
        "continuity_context_retrieval_decided" => RetrievalDecided {
            run_session_id: String,
            message_id: String,
            query: String,
            strategy_id: String,
            index_artifact_ids: Vec<String>,
            results_artifact_id: String,
            actor_id: String,
            origin: String,
        }

        /// The thread was put away, or taken out again.
        "continuity_archived" => ThreadArchived { archived: bool, actor_id: String, origin: String }

        "continuity_tagged" => ThreadTagged { add: Vec<String>, remove: Vec<String>, actor_id: String, origin: String }

        /// A message that every context is to hold, or need not hold any more.
        "continuity_message_pinned" => MessagePinned {
            message_id: String,
            pinned: bool,
            actor_id: String,
            origin: String,
        }
    }
}

impl ProviderCursorUpdated {
    /// By which the cursor of one provider, endpoint and model is found.
    pub(crate) fn key_digest(&self) -> String {
        let key = (&self.provider, &self.endpoint, &self.model);
        Digest::of(&serde_json::to_vec(&key).expect("texts are always written")).to_hex()
    }
}

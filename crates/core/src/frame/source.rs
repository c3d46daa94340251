//! Frames of a source stream: how far a file of a runtime was read, and what became of its bytes.

use super::catalogue::{frames, nested};
use crate::json::Json;

nested! {
    /// The next bytes of a source, and the commit that holds them.
    SourcePart { commit_id: String, artifact_id: String, bytes: u64 }
}

frames! {
    /// What a source frame says.
    SourceBody in Source {
        /// A source was read from `from` to `to`; what was known of it beyond `from` is no longer what it holds.
        /// The bytes after `to`, if any, are an artifact: a line that was not yet whole.
        "source_read" => SourceRead {
            path: String,
            runtime: String,
            format: String,
            machine: Option<String> = omit,
            agent_session_id: Option<String> = omit,
            from: u64,
            to: u64,
            lines: u64,
            parts: Vec<SourcePart>,
            tail_artifact_id: Option<String> = null,
            size: u64,
            modified_us: Option<i64> = omit,
            records: Json,
            problems: u64,
            secrets: Option<Json> = omit,
            actor_id: String,
            origin: String,
        }
    }
}

//! Frames of an artifact stream: what happened to stored bytes.

use super::catalogue::{frames, words};
use crate::json::Json;

words! {
    /// How long an artifact is kept, and where.
    Policy { Default = "default", Pin = "pin", Ephemeral = "ephemeral", Replicate = "replicate" }
}

frames! {
    /// What an artifact frame says.
    ArtifactBody in Artifact {
        "artifact_written" => ArtifactWritten {
            artifact_id: String,
            kind: String,
            bytes: u64,
            digest: String,
            preview: Option<String> = omit,
        }

        /// A tag moved from `previous` to `artifact_id`; to none when it was removed.
        "artifact_tagged" => ArtifactTagged {
            name: String,
            artifact_id: Option<String> = null,
            previous: Option<String> = null,
            actor_id: String,
            origin: String,
        }

        "artifact_policy_set" => ArtifactPolicySet {
            artifact_id: String,
            policy: Policy,
            ttl_ms: Option<u64> = null,
            actor_id: String,
            origin: String,
        }

        /// A context pack was made or taken in. What it says is in its artifact; what is to be said of it is here.
        "artifact_packed" => ArtifactPacked {
            pack_hash: String,
            artifact_id: String,
            pack_version: String,
            pack_session_id: String,
            title: Option<String> = null,
            message_count: u64,
            sources_count: u64,
            algorithm: String,
            sources_dropped: u64,
            packed_from: Option<String> = omit,
            redaction: Option<Json> = omit,
            actor_id: String,
            origin: String,
        }

        /// Nothing was found to need these. They go unless something mentions them first.
        "artifact_condemned" => ArtifactCondemned { artifact_ids: Vec<String>, actor_id: String, origin: String }

        /// The bytes are gone.
        "artifact_dropped" => ArtifactDropped { artifact_ids: Vec<String>, actor_id: String, origin: String }
    }
}

//! The state of a store, and of a server.

use enjamb_service::{Check, GcPlan, GcRun, Maintained, Status};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Stream;

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Disk {
    pub log: u64,
    pub index: u64,
    pub segments: u64,
    pub total: u64,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct StoreStatus {
    pub store_id: String,
    pub streams: u64,
    pub frames: u64,
    pub frame_bytes: u64,
    pub artifacts: u64,
    pub artifact_bytes: u64,
    pub disk: Disk,
    pub recent: Vec<Stream>,
}

impl From<&Status> for StoreStatus {
    fn from(status: &Status) -> Self {
        let (totals, disk) = (&status.totals, &status.disk);
        Self {
            store_id: status.store_id.clone(),
            streams: totals.streams,
            frames: totals.frames,
            frame_bytes: totals.frame_bytes,
            artifacts: totals.artifacts,
            artifact_bytes: totals.artifact_bytes,
            disk: Disk { log: disk.log, index: disk.index, segments: disk.segments, total: disk.total() },
            recent: status.recent.iter().map(Stream::from).collect(),
        }
    }
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct DoctorCheck {
    pub name: String,
    pub verdict: String,
    pub detail: String,
}

impl From<&Check> for DoctorCheck {
    fn from(check: &Check) -> Self {
        Self { name: check.name.to_owned(), verdict: check.verdict.as_str().to_owned(), detail: check.detail.clone() }
    }
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct DoctorReport {
    pub checks: Vec<DoctorCheck>,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Finding {
    pub code: String,
    pub what: String,
    pub detail: String,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Verified {
    pub ok: bool,
    pub findings: Vec<Finding>,
}

/// What a cycle of collection would do, or did.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct Collection {
    pub ran: bool,
    pub candidates: u64,
    pub waiting: u64,
    pub needed: u64,
    pub condemned: u64,
    pub dropped: u64,
    pub dropped_bytes: u64,
    pub files_bytes: u64,
}

impl From<&GcPlan> for Collection {
    fn from(plan: &GcPlan) -> Self {
        Self {
            candidates: plan.candidates.len() as u64,
            waiting: plan.waiting,
            needed: plan.needed,
            files_bytes: plan.unnamed_bytes,
            ..Self::default()
        }
    }
}

impl From<&GcRun> for Collection {
    fn from(run: &GcRun) -> Self {
        Self {
            ran: true,
            condemned: run.condemned,
            dropped: run.dropped,
            dropped_bytes: run.dropped_bytes,
            files_bytes: run.files_bytes,
            ..Self::default()
        }
    }
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Maintenance {
    pub bytes_before: u64,
    pub bytes_after: u64,
    pub swept_bytes: Option<u64>,
}

impl From<&Maintained> for Maintenance {
    fn from(done: &Maintained) -> Self {
        Self { bytes_before: done.bytes_before, bytes_after: done.bytes_after, swept_bytes: done.swept_bytes }
    }
}

/// What this server is.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Meta {
    pub name: String,
    pub version: String,
    pub api: String,
    pub store_id: String,
    /// The namespace of the caller; null for the store itself.
    pub namespace: Option<String>,
    pub principal: Option<String>,
    pub scopes: Vec<String>,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Health {
    /// `ok`
    pub status: String,
}

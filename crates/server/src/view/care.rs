//! The state of a store, and of a server.

use enjamb_ledger::Checked;
use enjamb_service::{Check, GcPlan, GcRun, Maintained, Status, Verdict};
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
    /// `good`, `warning` or `bad`
    pub verdict: String,
    pub detail: String,
    /// What to do about it.
    pub help: Option<String>,
}

impl From<&Check> for DoctorCheck {
    fn from(check: &Check) -> Self {
        let (name, verdict) = (check.name.to_owned(), check.verdict.as_str().to_owned());
        Self { name, verdict, detail: check.detail.clone(), help: check.help.clone() }
    }
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct DoctorReport {
    pub healthy: bool,
    pub checks: Vec<DoctorCheck>,
}

impl From<&[Check]> for DoctorReport {
    fn from(checks: &[Check]) -> Self {
        let healthy = checks.iter().all(|check| check.verdict == Verdict::Good);
        Self { healthy, checks: checks.iter().map(DoctorCheck::from).collect() }
    }
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Finding {
    pub code: String,
    pub subject: String,
    pub detail: String,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Verified {
    pub ok: bool,
    pub records: u64,
    pub frames: u64,
    pub artifacts: u64,
    pub segments: u64,
    pub bytes: u64,
    pub findings: Vec<Finding>,
}

impl From<&Checked> for Verified {
    fn from(checked: &Checked) -> Self {
        let finding = |finding: &enjamb_ledger::Finding| Finding {
            code: finding.code.to_owned(),
            subject: finding.subject.clone(),
            detail: finding.detail.clone(),
        };
        Self {
            ok: checked.findings.is_empty(),
            records: checked.records,
            frames: checked.frames,
            artifacts: checked.artifacts,
            segments: checked.segments,
            bytes: checked.bytes,
            findings: checked.findings.iter().map(finding).collect(),
        }
    }
}

/// An artifact that may go.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct CollectionCandidate {
    pub id: String,
    pub bytes: u64,
    /// An earlier cycle condemned it, so the next one drops it.
    pub condemned: bool,
}

/// What a cycle of collection would do.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct CollectionPlan {
    pub candidates: Vec<CollectionCandidate>,
    pub waiting: u64,
    pub needed: u64,
    pub unnamed_files: u64,
    pub unnamed_bytes: u64,
}

/// What a cycle of collection did.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct CollectionRun {
    pub condemned: u64,
    pub dropped: u64,
    pub dropped_bytes: u64,
    pub files_bytes: u64,
    pub sweep_skipped: bool,
}

/// What a cycle of collection would do, or did.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Collection {
    /// Nothing was changed: this is the plan.
    pub dry_run: bool,
    #[serde(flatten)]
    pub plan: Option<CollectionPlan>,
    #[serde(flatten)]
    pub run: Option<CollectionRun>,
}

impl From<&GcPlan> for Collection {
    fn from(plan: &GcPlan) -> Self {
        let candidate = |candidate: &enjamb_service::Candidate| CollectionCandidate {
            id: candidate.id.to_string(),
            bytes: candidate.len,
            condemned: candidate.condemned,
        };
        let plan = CollectionPlan {
            candidates: plan.candidates.iter().map(candidate).collect(),
            waiting: plan.waiting,
            needed: plan.needed,
            unnamed_files: plan.unnamed_files,
            unnamed_bytes: plan.unnamed_bytes,
        };
        Self { dry_run: true, plan: Some(plan), run: None }
    }
}

impl From<&GcRun> for Collection {
    fn from(run: &GcRun) -> Self {
        let run = CollectionRun {
            condemned: run.condemned,
            dropped: run.dropped,
            dropped_bytes: run.dropped_bytes,
            files_bytes: run.files_bytes,
            sweep_skipped: run.sweep_skipped,
        };
        Self { dry_run: false, plan: None, run: Some(run) }
    }
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Maintenance {
    pub sealed_records: u64,
    pub segments: u64,
    pub raw_bytes: u64,
    pub segment_bytes: u64,
    pub swept_bytes: Option<u64>,
    pub bytes_before: u64,
    pub bytes_after: u64,
    pub index_rebuilt: bool,
}

impl Maintenance {
    pub fn of(done: &Maintained, index_rebuilt: bool) -> Self {
        Self {
            sealed_records: done.sealed.records,
            segments: done.sealed.segments,
            raw_bytes: done.sealed.raw_bytes,
            segment_bytes: done.sealed.stored_bytes,
            swept_bytes: done.swept_bytes,
            bytes_before: done.bytes_before,
            bytes_after: done.bytes_after,
            index_rebuilt,
        }
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

//! Compiled contexts.

use enjamb_service::{Audit, Compiled, CompiledChain, ContextCandidate};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Something that could have been part of a context, whether it is, and by which rule.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Candidate {
    pub included: bool,
    pub tokens: u64,
    pub rule: String,
    pub source: String,
    pub reason: String,
}

impl From<&ContextCandidate> for Candidate {
    fn from(candidate: &ContextCandidate) -> Self {
        Self {
            included: candidate.included,
            tokens: candidate.tokens,
            rule: candidate.rule.to_owned(),
            source: candidate.source.clone(),
            reason: candidate.reason.clone(),
        }
    }
}

/// An input of the choice that was set aside.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Reset {
    pub input: String,
    pub action: String,
    pub reason: String,
}

/// A compiled context. What comes of a thread names it; what comes of a chain names its commit.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct CompiledContext {
    /// The artifact of the bundle.
    pub bundle: String,
    pub bytes: u64,
    pub items: u64,
    pub run: String,
    pub strategy: String,
    pub thread_id: Option<String>,
    pub commit: Option<String>,
    pub from_seq: u64,
    pub from_message_id: Option<String>,
    pub limits: Option<Value>,
    pub reason: Option<Value>,
    /// What the choice had to do without.
    #[serde(default)]
    pub resets: Vec<Reset>,
    /// The seq of the decision; null when nothing was written.
    pub decided_seq: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub candidates: Option<Vec<Candidate>>,
}

impl CompiledContext {
    pub fn of_thread(compiled: &Compiled, explain: bool) -> Self {
        let bundle = &compiled.bundle;
        Self {
            bundle: compiled.artifact.to_string(),
            bytes: compiled.bytes.len() as u64,
            items: bundle.items.len() as u64,
            run: bundle.provenance.run_session_id.clone(),
            strategy: bundle.compiler.strategy.clone(),
            thread_id: Some(bundle.source.thread_id.clone()),
            commit: None,
            from_seq: bundle.source.from_seq,
            from_message_id: bundle.source.from_message_id.clone(),
            limits: Some(compiled.limits.clone()),
            reason: Some(compiled.choice.reason.clone()),
            resets: compiled.choice.resets.iter().map(reset).collect(),
            decided_seq: compiled.decided_seq,
            candidates: explain.then(|| compiled.candidates.iter().map(Candidate::from).collect()),
        }
    }

    pub fn of_chain(tip: String, compiled: &CompiledChain, explain: bool) -> Self {
        let bundle = &compiled.bundle;
        Self {
            bundle: compiled.artifact.to_string(),
            bytes: compiled.bytes.len() as u64,
            items: bundle.items.len() as u64,
            run: bundle.provenance.run_session_id.clone(),
            strategy: bundle.compiler.strategy.clone(),
            thread_id: None,
            commit: Some(tip),
            from_seq: bundle.source.from_seq,
            from_message_id: None,
            limits: None,
            reason: None,
            resets: downgraded(compiled.downgraded).into_iter().collect(),
            decided_seq: compiled.decided_seq,
            candidates: explain.then(|| compiled.candidates.iter().map(Candidate::from).collect()),
        }
    }
}

fn downgraded(entries: usize) -> Option<Reset> {
    let reason = format!("entries that claim to be the system's or the developer's are given as the user's: {entries}");
    (entries > 0).then(|| Reset { input: "role".into(), action: "role_downgraded".into(), reason })
}

fn reset(reset: &enjamb_core::frame::Reset) -> Reset {
    Reset { input: reset.input.clone(), action: reset.action.clone(), reason: reset.reason.clone() }
}

/// Whether a bundle compiles to the same bytes again.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct AuditReport {
    pub bundle: String,
    pub recompiled: String,
    pub same: bool,
    pub differences: Vec<String>,
    pub other_choice: Option<String>,
}

impl From<&Audit> for AuditReport {
    fn from(audit: &Audit) -> Self {
        Self {
            bundle: audit.bundle.to_string(),
            recompiled: audit.recompiled.to_string(),
            same: audit.differences.is_empty(),
            differences: audit.differences.clone(),
            other_choice: audit.other_choice.clone(),
        }
    }
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct BundleDocument {
    pub artifact: String,
    pub bundle: Value,
}

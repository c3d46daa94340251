//! Chains for the benchmarks: long ones, wide ones, and questions about them.

use std::time::Instant;

use enjamb_core::frame::{Body, CommitType, ContextCommitted, Draft, Trigger};
use enjamb_core::{CommitId, StreamId, StreamKind, Timestamp, limits};
use enjamb_ledger::{Batch, Ledger, NewArtifact, NewFrame};
use enjamb_service::{PutOptions, ServiceError, Store};
use serde_json::{Value, json};

use crate::failure::Result;

const COMMITS_PER_BATCH: usize = 500;

/// Adds a commit and its delta to a batch, and returns its id.
pub(super) fn add(
    batch: &mut Batch,
    stream: &StreamId,
    parent: Option<String>,
    delta: Vec<u8>,
    created_at: Timestamp,
) -> Result<String> {
    let artifact = NewArtifact::from_bytes(delta);
    let artifact_ref = artifact.id.to_string();
    let created = created_at.to_string();
    let id = CommitId::derive(parent.as_deref().unwrap_or_default(), &artifact_ref, &created, &stream.id).to_string();
    let body: Body = ContextCommitted {
        commit_id: id.clone(),
        version: 1,
        parent,
        commit_type: CommitType::Delta,
        artifact_ref,
        format: "claude-code-v1".into(),
        template: Some(stream.id.clone()),
        principal: Some(stream.id.clone()),
        machine: Some("bench".into()),
        agent_session_id: Some("bench".into()),
        checkpoint: Trigger::TurnBoundary,
        ticket_id: None,
        thread_id: None,
        summary: Some("x".repeat(60)),
        message_count: 3,
        token_count: 1400,
        token_method: Some("bytes/2.8".into()),
        created_at: created,
        attributes: None,
    }
    .into();
    let draft = Draft::of(stream, &body).map_err(ServiceError::from)?;
    let timestamp_ms = (created_at.as_micros() / 1000) as u64;
    batch.frames.push(NewFrame {
        stream: stream.clone(),
        draft,
        id: id[4..].to_owned(),
        timestamp_ms,
        expected_seq: None,
    });
    batch.artifacts.push(artifact);
    Ok(id)
}

/// Commits one delta after the other.
pub(super) fn grow(store: &Store, deltas: &[Vec<u8>], principal: &str, parent: Option<CommitId>) -> Result<Value> {
    let stream = StreamId::new(StreamKind::Context, principal).map_err(ServiceError::from)?;
    let began = Instant::now();
    let first_ms = super::now_ms() as i64;
    let mut tip = parent.map(|id| id.to_string());
    for (turn, part) in deltas.chunks(COMMITS_PER_BATCH).enumerate() {
        let mut batch = Batch::default();
        for (at, delta) in part.iter().enumerate() {
            let created_at = Timestamp::from_millis(first_ms + (turn * COMMITS_PER_BATCH + at) as i64);
            tip = Some(add(&mut batch, &stream, tip.take(), delta.clone(), created_at)?);
            // A long delta is stored by itself, and named.
            if delta.len() > limits::ARTIFACT_INLINE_BYTES_MAX {
                store.put(&mut delta.as_slice(), &PutOptions::default())?;
                batch.artifacts.last_mut().into_iter().for_each(|artifact| artifact.bytes = None);
            }
        }
        store.ledger().append(batch)?;
    }
    Ok(json!({"seconds": began.elapsed().as_secs_f64(), "n": deltas.len(), "tip": tip}))
}

/// Commits that all have the same parent.
pub(super) fn fork(store: &Store, n: usize) -> Result<Value> {
    let root = grow(store, &[delta_of(0)], "bench/root", None)?;
    let root = root["tip"].as_str().map(str::to_owned);
    let began = Instant::now();
    let first_ms = super::now_ms() as i64;
    let mut last = None;
    for turn in (0..n).step_by(COMMITS_PER_BATCH) {
        let mut batch = Batch::default();
        for at in turn..n.min(turn + COMMITS_PER_BATCH) {
            let stream = StreamId::new(StreamKind::Context, format!("bench/{at}")).map_err(ServiceError::from)?;
            let created_at = Timestamp::from_millis(first_ms + at as i64);
            last = Some(add(&mut batch, &stream, root.clone(), delta_of(at + 1), created_at)?);
        }
        store.ledger().append(batch)?;
    }
    Ok(json!({"seconds": began.elapsed().as_secs_f64(), "n": n, "parent": root, "tip": last}))
}

/// Makes the commits where they are missing, and asks.
pub(super) fn resolve(store: &Store, n: usize, questions: usize) -> Result<Value> {
    const PRINCIPAL: &str = "bench/timeline";
    let stream = StreamId::new(StreamKind::Context, PRINCIPAL).map_err(ServiceError::from)?;
    let have = store.ledger().stream(&stream)?.map_or(0, |stream| stream.next_seq as usize);
    let mut tip: Option<String> = None;
    for turn in (have..n).step_by(COMMITS_PER_BATCH) {
        let mut batch = Batch::default();
        for at in turn..n.min(turn + COMMITS_PER_BATCH) {
            tip = Some(add(&mut batch, &stream, tip.take(), delta_of(at), Timestamp::from_millis(at as i64 * 10))?);
        }
        store.ledger().append(batch)?;
    }
    // The first question makes the index follow, and is not counted.
    store.resolve(PRINCIPAL, Timestamp::from_millis(0))?;
    let mut latencies = Vec::with_capacity(questions);
    let began = Instant::now();
    for question in 0..questions {
        let at = (question.wrapping_mul(7_919_777) % n) as i64 * 10 + 5;
        let asked = Instant::now();
        store.resolve(PRINCIPAL, Timestamp::from_millis(at))?;
        latencies.push(asked.elapsed().as_secs_f64());
    }
    let seconds = began.elapsed().as_secs_f64();
    latencies.sort_by(f64::total_cmp);
    let at = |part: f64| latencies.get((latencies.len() as f64 * part) as usize).copied().unwrap_or(0.0) * 1e6;
    Ok(json!({"seconds": seconds, "n": questions, "commits": n, "p50_us": at(0.5), "p99_us": at(0.99)}))
}

fn delta_of(at: usize) -> Vec<u8> {
    format!("{{\"type\":\"user\",\"uuid\":\"{at:032x}\",\"message\":{{\"role\":\"user\",\"content\":\"{at}\"}}}}\n")
        .into_bytes()
}

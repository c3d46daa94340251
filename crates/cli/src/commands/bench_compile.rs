//! `enjamb bench compile` and `bench replay`: what a context, and what reading it all, costs on a thread of any length.

use std::time::Instant;

use enjamb_core::frame::{Body, Draft, MessageAppended, RunEnded, RunSpawned};
use enjamb_core::{StreamId, StreamKind};
use enjamb_ledger::{Batch, Ledger, NewFrame};
use enjamb_service::{Actor, Compile, ServiceError, Store};
use serde_json::{Value, json};

use super::status::now_ms;
use crate::failure::Result;

const TURNS_PER_BATCH: u64 = 300;

/// Fills a thread up to so many messages, each answered, and compiles its context again and again.
pub fn compile(store: &Store, messages: u64, times: usize) -> Result<Value> {
    let thread = filled(store, messages)?;
    let request = Compile { dry_run: true, ..Compile::default() };
    let mut latencies = Vec::with_capacity(times);
    for _ in 0..times {
        let began = Instant::now();
        store.compile(&thread, &request, &Actor::default())?;
        latencies.push(began.elapsed().as_secs_f64());
    }
    latencies.sort_by(f64::total_cmp);
    let at = |part: f64| latencies.get((latencies.len() as f64 * part) as usize).copied().unwrap_or(0.0) * 1e6;
    let seconds: f64 = latencies.iter().sum();
    Ok(json!({"seconds": seconds, "n": times, "messages": messages, "p50_us": at(0.5), "p99_us": at(0.99)}))
}

/// Fills a thread as [`compile`] does, and reads every frame of it, its place in the chain checked and what it says decoded.
pub fn replay(store: &Store, messages: u64) -> Result<Value> {
    let thread = filled(store, messages)?;
    let began = Instant::now();
    let frames = store.replay(&thread, 0..u64::MAX, &mut |frame| {
        std::hint::black_box(frame);
        Ok(())
    })?;
    Ok(json!({"seconds": began.elapsed().as_secs_f64(), "n": frames}))
}

/// The thread of the benchmark with so many messages, and the index brought up: neither is what is measured.
fn filled(store: &Store, messages: u64) -> Result<StreamId> {
    let (thread, _) = store.ensure_thread("/bench", None)?;
    let mut done = store.thread(&thread)?.messages;
    while done < messages {
        let upto = (done + TURNS_PER_BATCH).min(messages);
        let turns = (done..upto).map(|at| turn(&thread, at)).collect::<std::result::Result<Vec<_>, ServiceError>>()?;
        store.ledger().append(Batch { frames: turns.into_iter().flatten().collect(), ..Batch::default() })?;
        done = upto;
    }
    store.thread(&thread)?;
    Ok(thread)
}

fn turn(thread: &StreamId, at: u64) -> std::result::Result<Vec<NewFrame>, ServiceError> {
    let (message, run) = (format!("m{at:08}"), format!("r{}", at % 64));
    let said = MessageAppended { actor_id: "user".into(), origin: "bench".into(), content: format!("message {at}") };
    let (run_session_id, message_id) = (format!("{run}-{at}"), message.clone());
    let spawned: Body = RunSpawned {
        run_session_id: run_session_id.clone(),
        message_id: message_id.clone(),
        actor_id: None,
        origin: None,
    }
    .into();
    let ended: Body = RunEnded {
        run_session_id: run_session_id.clone(),
        message_id,
        reason: "completed".into(),
        actor_id: None,
        origin: None,
    }
    .into();
    let session = StreamId::new(StreamKind::Session, run_session_id)?;
    let delta: Body = enjamb_core::frame::OutputTextDelta { delta: format!("answer {at}") }.into();
    let frame = |stream: &StreamId, body: &Body, id: String| -> std::result::Result<NewFrame, ServiceError> {
        let draft = Draft::of(stream, body)?;
        Ok(NewFrame { stream: stream.clone(), draft, id, timestamp_ms: now_ms(), expected_seq: None })
    };
    // Only the last of many turns are ever read, so only some have a session of their own.
    let mut frames = vec![
        frame(thread, &said.into(), message)?,
        frame(thread, &spawned, format!("s{at}"))?,
        frame(thread, &ended, format!("e{at}"))?,
    ];
    if at.is_multiple_of(10) {
        frames.push(frame(&session, &delta, format!("d{at}"))?);
    }
    Ok(frames)
}

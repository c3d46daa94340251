//! Histories for tests, told in words: `message m1; spawn r1; run-end r1`.
//!
//! Each word is one frame. Everything of a kind happens in one stream (session `r1`, task `k1`, thread `main`), artifacts
//! are single letters, and commits are named by their path: `ab` is the child of `a`. `key=value` at the end changes a
//! member; `key=!` takes it away.

use std::collections::HashMap;

use serde_json::{Value, json};

use super::{MarkKey, Refusal, Scope, admit, marks};
use crate::frame::{Frame, RawFrame};
use crate::{CommitId, Digest, StreamId};

/// What was admitted so far, and the marks it left.
#[derive(Default)]
pub(super) struct World {
    pub(super) frames: Vec<Frame>,
    marks: HashMap<(Scope, Vec<u8>), String>,
    heads: HashMap<StreamId, u64>,
}

impl World {
    /// Offers one frame; what is admitted becomes history.
    pub(super) fn offer(&mut self, step: &str) -> Result<(), Refusal> {
        let frame = self.frame(step);
        admit(&frame, &mut |scope, key| self.mark(scope, key))?;
        for mark in marks(&frame) {
            self.marks.insert((mark.scope, mark.key.encode()), mark.value);
        }
        *self.heads.entry(frame.stream().clone()).or_default() += 1;
        self.frames.push(frame.decode().unwrap());
        Ok(())
    }

    /// The frame that a step would be if it came next.
    pub(super) fn frame(&self, step: &str) -> RawFrame {
        let (words, changes): (Vec<&str>, Vec<&str>) = step.split_whitespace().partition(|word| !word.contains('='));
        let (stream, type_name, mut payload) = told(&words);
        let members = payload.as_object_mut().unwrap();
        for (key, value) in changes.iter().filter_map(|change| change.split_once('=')) {
            match value {
                "!" => members.remove(key),
                _ => members.insert(key.to_owned(), serde_json::from_str(value).unwrap_or_else(|_| json!(value))),
            };
        }
        let stream: StreamId = stream.parse().unwrap();
        let seq = self.heads.get(&stream).copied().unwrap_or(0);
        let id = if words[0] == "message" { words[1].to_owned() } else { format!("e{seq}") };
        members.extend([("id".into(), id.into()), ("stream_id".into(), stream.id.into()), ("seq".into(), seq.into())]);
        members.extend([("stream_kind".into(), stream.kind.as_str().into()), ("timestamp_ms".into(), 9.into())]);
        members.insert("type".into(), type_name.into());
        RawFrame::parse(payload.to_string()).unwrap()
    }

    pub(super) fn mark(&self, scope: &Scope, key: &MarkKey) -> Option<String> {
        self.marks.get(&(scope.clone(), key.encode())).cloned()
    }
}

/// The stream, the type and the payload of a step.
fn told(words: &[&str]) -> (&'static str, &'static str, Value) {
    let in_session = |type_name, payload| ("session/r1", type_name, payload);
    match words {
        ["text"] => in_session("output_text_delta", json!({"delta": "x"})),
        ["end"] => in_session("session_ended", json!({"reason": "completed"})),
        ["odd"] => in_session("dreamt", json!({})),
        ["tool", id, name] => in_session("tool_started", json!({"tool_id": id, "name": name, "args": {}})),
        ["tool-end", id] => in_session("tool_ended", json!({"tool_id": id, "exit_code": 0, "duration_ms": 1})),
        ["tool-fail", id] => in_session("tool_failed", json!({"tool_id": id, "error": "timeout"})),
        ["save", auto, tool] => in_session("checkpoint_created", workspace_checkpoint(*auto == "auto", tool)),
        ["task", ..] | ["status", _] | ["output"] | ["cancelled"] | ["task-odd"] => task(words),
        ["write", ..] | ["tag", ..] | ["policy", ..] | ["pack", _] | ["condemn", ..] | ["drop", ..] => artifact(words),
        ["source", ..] => source(words),
        ["commit", ..] | ["note", _] | ["ref", ..] => context(words),
        ["chain-decide", ..] | ["chain-compile", ..] => context(words),
        _ => thread(words),
    }
}

fn workspace_checkpoint(auto: bool, tool: &str) -> Value {
    json!({"checkpoint_id": "c", "label": "l", "created_at_ms": 1, "files": [], "auto": auto, "tool_name": tool})
}

fn task(words: &[&str]) -> (&'static str, &'static str, Value) {
    let in_task = |type_name, payload| ("task/k1", type_name, payload);
    match words {
        ["task"] => in_task(
            "tool_task_spawned",
            json!({"task_id": "k1", "tool_name": "bash", "args": {}, "execution_mode": "pipes"}),
        ),
        ["status", status] => in_task("tool_task_status", json!({"task_id": "k1", "status": status})),
        ["output"] => in_task("tool_task_output_delta", json!({"task_id": "k1", "stream": "stdout", "chunk": "x"})),
        ["cancelled"] => in_task("tool_task_cancelled", json!({"task_id": "k1", "reason": "user"})),
        ["task-odd"] => in_task("tool_task_dreamt", json!({})),
        _ => panic!("no such step: {words:?}"),
    }
}

fn thread(words: &[&str]) -> (&'static str, &'static str, Value) {
    let run = |id: &str, more: Value| merged(json!({"run_session_id": id, "message_id": "m1"}), more);
    let by = json!({"actor_id": "a", "origin": "test"});
    let (type_name, payload) = match words {
        ["message", _] => ("continuity_message_appended", json!({"content": "hi"})),
        ["mention", letter] => ("continuity_message_appended", json!({"content": format!("see art-{}", hex(letter))})),
        ["spawn", id] => ("continuity_run_spawned", run(id, json!({}))),
        ["decide", id] => ("continuity_context_selection_decided", run(id, compiler(json!({"limits": {}})))),
        ["compile", id] => {
            ("continuity_context_compiled", run(id, compiler(json!({"bundle_artifact_id": "b", "from_seq": 0}))))
        }
        ["retrieve", id] => ("continuity_context_retrieval_decided", run(id, retrieval())),
        ["run-end", id] => ("continuity_run_ended", run(id, json!({"reason": "completed"}))),
        ["effects", id, tool] => {
            ("continuity_tool_side_effects", json!({"run_session_id": id, "tool_id": tool, "tool_name": "write"}))
        }
        ["cursor", run @ ..] => {
            let payload = json!({"provider": "p", "action": "set", "run_session_id": run.first()});
            ("continuity_provider_cursor_updated", payload)
        }
        ["job", id] => ("continuity_job_spawned", json!({"job_id": id, "job_kind": "k"})),
        ["job-end", id] => ("continuity_job_ended", json!({"job_id": id, "job_kind": "k", "status": "completed"})),
        ["compact", from, to, message @ ..] => {
            ("continuity_compaction_checkpoint_created", compaction(from, to, message.first()))
        }
        ["pin", id] => ("continuity_message_pinned", json!({"message_id": id, "pinned": true})),
        ["label", name] => ("continuity_tagged", json!({"add": [name], "remove": ["old"]})),
        ["archive"] => ("continuity_archived", json!({"archived": true})),
        ["handoff"] => ("continuity_handoff_created", json!({"from_thread_id": "t", "from_seq": 0})),
        _ => panic!("no such step: {words:?}"),
    };
    ("continuity/main", type_name, merged(payload, by))
}

fn compiler(more: Value) -> Value {
    merged(json!({"compiler_id": "c", "compiler_strategy": "s"}), more)
}

fn retrieval() -> Value {
    json!({"query": "q", "strategy_id": "s", "index_artifact_ids": [], "results_artifact_id": "r"})
}

fn compaction(from: &str, to: &str, message: Option<&&str>) -> Value {
    let seq = |text: &str| text.parse::<u64>().unwrap();
    json!({
        "checkpoint_id": "k", "cut_rule_id": "manual_v1", "summary_kind": "cumulative_v1",
        "summary_artifact_id": "f", "from_seq": seq(from), "to_seq": seq(to), "to_message_id": message,
    })
}

fn artifact(words: &[&str]) -> (&'static str, &'static str, Value) {
    let named = |letter: &str| if letter == "-" { Value::Null } else { json!(hex(letter)) };
    let (type_name, payload) = match words {
        ["write", letter] => {
            ("artifact_written", json!({"artifact_id": hex(letter), "kind": "k", "bytes": 1, "digest": hex(letter)}))
        }
        ["tag", name, to, from] => {
            ("artifact_tagged", json!({"name": name, "artifact_id": named(to), "previous": named(from)}))
        }
        ["policy", letter, policy] => ("artifact_policy_set", json!({"artifact_id": hex(letter), "policy": policy})),
        ["pack", letter] => return ("artifact/packs", "artifact_packed", pack(letter)),
        ["condemn", letters @ ..] => ("artifact_condemned", json!({"artifact_ids": hexes(letters)})),
        ["drop", letters @ ..] => ("artifact_dropped", json!({"artifact_ids": hexes(letters)})),
        _ => panic!("no such step: {words:?}"),
    };
    ("artifact/store", type_name, merged(payload, json!({"actor_id": "a", "origin": "test"})))
}

fn pack(letter: &str) -> Value {
    json!({
        "pack_hash": hex(&format!("pack {letter}")), "artifact_id": hex(letter), "pack_version": "0.7.0",
        "pack_session_id": "s", "message_count": 1, "sources_count": 0, "algorithm": "x", "sources_dropped": 0,
        "actor_id": "a", "origin": "test",
    })
}

fn hexes(letters: &[&str]) -> Vec<String> {
    letters.iter().map(|letter| hex(letter)).collect()
}

/// The artifact of a letter.
pub(super) fn hex(letter: &str) -> String {
    Digest::of(letter.as_bytes()).to_hex()
}

fn context(words: &[&str]) -> (&'static str, &'static str, Value) {
    let named = |path: &str| if path == "-" { Value::Null } else { json!(commit_id(path)) };
    let by = json!({"actor_id": "a", "origin": "test"});
    let (type_name, payload) = match words {
        ["commit", path, commit_type] => ("context_committed", commit(path, commit_type)),
        ["note", path] => ("context_noted", merged(json!({"commit_id": commit_id(path)}), by)),
        ["ref", name, to, from] => {
            let payload = json!({"name": name, "commit_id": named(to), "previous": named(from)});
            ("context_ref_moved", merged(payload, by))
        }
        ["chain-decide", run, path] => {
            let payload = json!({"run_session_id": run, "commit_id": commit_id(path), "limits": {}});
            ("context_selection_decided", merged(compiler(payload), by))
        }
        ["chain-compile", run, path] => {
            let payload = json!({"run_session_id": run, "commit_id": commit_id(path), "bundle_artifact_id": "b"});
            ("context_compiled", merged(merged(compiler(payload), json!({"from_seq": 0})), by))
        }
        _ => panic!("no such step: {words:?}"),
    };
    ("context/dana", type_name, payload)
}

/// A read from one offset to another, all of it one commit's.
fn source(words: &[&str]) -> (&'static str, &'static str, Value) {
    let [_, path, from, to] = words else { panic!("no such step: {words:?}") };
    let (from, to): (u64, u64) = (from.parse().unwrap(), to.parse().unwrap());
    let parts = json!([{"commit_id": commit_id(path), "artifact_id": hex(path), "bytes": to.saturating_sub(from)}]);
    let payload = json!({
        "path": "/x", "runtime": "codex", "format": "codex-v1", "from": from, "to": to, "lines": 1, "parts": parts,
        "tail_artifact_id": null, "size": to, "records": {}, "problems": 0, "actor_id": "a", "origin": "test",
    });
    ("source/x", "source_read", payload)
}

const CREATED_AT: &str = "2026-11-15T09:12:00.000001Z";

fn commit(path: &str, commit_type: &str) -> Value {
    json!({
        "commit_id": commit_id(path), "version": 1, "parent": parent(path).map(commit_id), "commit_type": commit_type,
        "artifact_ref": hex(path), "format": "events-v1", "checkpoint": "explicit", "message_count": 1,
        "token_count": 1, "created_at": CREATED_AT,
    })
}

pub(super) fn commit_id(path: &str) -> String {
    let parent = parent(path).map(commit_id).unwrap_or_default();
    CommitId::derive(&parent, &hex(path), CREATED_AT, "").to_string()
}

fn parent(path: &str) -> Option<&str> {
    path.split_at_checked(path.len() - 1).map(|(parent, _)| parent).filter(|parent| !parent.is_empty())
}

fn merged(mut base: Value, more: Value) -> Value {
    base.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    base
}

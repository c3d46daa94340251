//! The laws of order, each in lines of what is admitted and what is not.

use std::collections::HashSet;

use proptest::prelude::*;

use super::history::{World, commit_id, hex};
use super::*;
use crate::frame::{
    ArtifactBody, ContextBody, ContinuityBody, Frame, SessionBody, SourceBody, TaskBody, TaskStatus, artifact_mentions,
};
use crate::{ArtifactId, CommitId, ErrorKind};

/// Every step but the last is admitted; the last is too (`ok`), or is refused by the rule of this code.
fn check(script: &str, expected: &str) {
    let mut world = World::default();
    let steps: Vec<&str> = script.split(';').map(str::trim).collect();
    let (last, before) = steps.split_last().unwrap();
    for step in before {
        world.offer(step).unwrap_or_else(|refusal| panic!("{script}: {refusal}"));
    }
    let code = world.offer(last).map_or_else(|refusal| refusal.code(), |()| "ok");
    assert_eq!(code, expected, "{script}");
}

#[test]
fn nothing_follows_the_end_of_a_session() {
    check("text; odd; end", "ok");
    check("end; text", "session-ended");
    check("end; end", "session-ended");
    check("end; odd", "session-ended");
    check("end reason=; text", "session-ended");
    check("end; message m1", "ok");
}

#[test]
fn a_tool_ends_once() {
    check("tool t1 bash; tool-end t1; tool t2 bash; tool-fail t2", "ok");
    check("tool t1 bash; tool-end t1; tool-end t1", "tool-ended-twice");
    check("tool t1 bash; tool-end t1; tool-fail t1", "tool-ended-twice");
    check("tool-fail tool_denied_1", "ok");
}

#[test]
fn an_automatic_checkpoint_comes_before_its_tool() {
    check("save auto write; tool t1 write; tool-end t1; save auto write", "ok");
    check("tool t1 write; save auto write", "checkpoint-after-start");
    check("tool t1 write; save mine write", "ok");
    check("tool t1 write; save auto apply_patch", "ok");
    check("tool t1 write; tool-fail t1; tool t2 write; save auto write", "checkpoint-after-start");
}

#[test]
fn a_task_is_spawned_first_and_once_in_its_own_stream() {
    check("task; status queued; status running; output; cancelled; status cancelled", "ok");
    check("output", "task-unknown");
    check("task; task", "task-spawned-twice");
    check("task task_id=k2", "task-elsewhere");
    check("task; output task_id=k2", "task-elsewhere");
    check("task-odd; task", "ok");
}

#[test]
fn nothing_follows_a_tasks_last_status() {
    for status in ["exited", "cancelled", "failed"] {
        check(&format!("task; status {status}; output"), "task-ended");
        check(&format!("task; status {status}; status exited"), "task-ended");
    }
    check("task; status paused; output", "ok");
    check("task; status exited; task", "task-spawned-twice");
}

#[test]
fn what_is_said_of_a_run_is_said_while_it_runs() {
    for step in ["decide r1", "compile r1", "retrieve r1", "effects r1 t1", "cursor r1", "run-end r1"] {
        check(step, "run-unknown");
        check(&format!("spawn r1; {step}"), "ok");
        check(&format!("spawn r1; run-end r1; {step}"), "run-ended");
        check(&format!("spawn r2; run-end r2; spawn r1; {step}"), "ok");
    }
    check("spawn r1; spawn r1", "run-spawned-twice");
    check("spawn r1; run-end r1; spawn r1", "run-spawned-twice");
    check("cursor", "ok");
}

#[test]
fn a_context_is_selected_before_it_is_compiled() {
    check("spawn r1; decide r1; compile r1; run-end r1", "ok");
    check("spawn r1; compile r1; decide r1", "selection-after-compiled");
    check("spawn r1; spawn r2; compile r1; decide r2", "ok");
}

#[test]
fn a_chain_is_compiled_as_it_was_decided_to_be() {
    check("commit a delta; chain-decide r1 a; chain-compile r1 a", "ok");
    check("commit a delta; chain-compile r1 a", "not-decided");
    check("commit a delta; chain-decide r1 a; chain-compile r2 a", "not-decided");
    check("commit a delta; chain-decide r1 a; chain-compile r1 a; chain-decide r1 a", "selection-after-compiled");
    check("chain-decide r1 a", "commit-unknown");
}

#[test]
fn side_effects_are_told_once_the_tool_has_ended() {
    check("spawn r1; tool t1 write; effects r1 t1", "tool-still-running");
    check("spawn r1; tool t1 write; tool-end t1; effects r1 t1", "ok");
    check("spawn r1; tool t1 write; tool-fail t1; effects r1 t1", "ok");
    check("spawn r2; tool t1 write; effects r2 t1", "ok");
}

#[test]
fn a_job_is_spawned_once_and_ends_once() {
    check("job j1; job j2; job-end j2; job-end j1", "ok");
    check("job-end j1", "job-unknown");
    check("job j1; job j1", "job-spawned-twice");
    check("job j1; job-end j1; job-end j1", "job-ended-twice");
    check("job j1; job-end j1; job j1", "job-spawned-twice");
}

#[test]
fn compaction_cuts_at_messages() {
    check("spawn r1; message m1; compact 0 1", "ok");
    check("spawn r1; message m1; compact 0 1 m1; compact 0 1", "ok");
    check("spawn r1; message m1; compact 0 0", "not-a-message");
    check("message m1; compact 0 1", "not-a-message");
    check("message m1; message m2; compact 0 1 m1", "other-message");
    check("message m1; message m2; compact 1 0", "range-reversed");
    check("message m1; message m2; compact 1 1", "ok");
}

#[test]
fn a_handoff_says_something() {
    check("handoff", "handoff-empty");
    check("handoff summary_markdown=x", "ok");
    check("handoff summary_artifact_id=x", "ok");
}

#[test]
fn a_tag_moves_from_where_it_is() {
    check("tag x a -; tag x b a; tag x - b; tag x a -", "ok");
    check("tag x a -; tag x b -", "tag-moved");
    check("tag x a b", "tag-moved");
    check("tag x a -; tag x - a; tag x b a", "tag-moved");
    check("tag x a -; tag y b -", "ok");
    check(&format!("tag x a -; tag x b a previous=art-{}", hex("a")), "ok");
    check("tag x a - artifact_id=short", "malformed-payload");
}

#[test]
fn names_can_be_shown_and_kept() {
    check("tag x a - name=", "bad-name");
    check(r#"tag x a - name="\u001b""#, "bad-name");
    check(&format!("tag {} a -", "x".repeat(512)), "ok");
    check(&format!("tag {} a -", "x".repeat(513)), "bad-name");
    check("ref main - - name=", "bad-name");
    check("spawn r1 run_session_id=", "bad-name");
    check("tool t1 write tool_id=", "bad-name");
    check(&format!("spawn {}", "x".repeat(512)), "ok");
    check(&format!("spawn {}", "x".repeat(513)), "bad-name");
}

#[test]
fn a_policy_is_known_and_its_artifact_is_here() {
    for policy in ["default", "pin", "replicate"] {
        check(&format!("policy a {policy}"), "ok");
        check(&format!("condemn a; drop a; policy a {policy}"), "artifact-gone");
    }
    check("policy a ephemeral", "ttl-missing");
    check("policy a ephemeral ttl_ms=5", "ok");
    check("policy a forever", "policy-unknown");
}

#[test]
fn a_pack_is_recorded_once() {
    check("pack a; pack b", "ok");
    check("pack a; pack a", "duplicate-pack");
    check("pack a; pack a artifact_id=x", "malformed-payload");
    check("pack a pack_hash=AB", "pack-malformed");
    check("condemn a; drop a; pack a", "artifact-gone");
    check("write a; condemn a; pack a; drop a", "not-condemned");
}

#[test]
fn only_what_stays_condemned_is_dropped() {
    check("condemn a b; drop a; drop b", "ok");
    check("drop a", "not-condemned");
    check("condemn a; drop a b", "not-condemned");
    for mention in ["mention a", "tag x a -", "write a", "policy a default", "odd anything=a", "commit a delta"] {
        let mention = mention.replace("=a", &format!("={}", hex("a")));
        check(&format!("condemn a b; {mention}; drop a"), "not-condemned");
        check(&format!("condemn a b; {mention}; drop b"), "ok");
        check(&format!("condemn a b; {mention}; condemn a; drop a"), "ok");
    }
}

#[test]
fn what_is_gone_is_gone() {
    check("condemn a; drop a; condemn a", "artifact-gone");
    check("condemn a; drop a; drop a", "not-condemned");
}

#[test]
fn a_commit_follows_its_parent() {
    check("commit a delta; commit ab compaction; commit abc snapshot; commit ac delta", "ok");
    check("commit ab delta", "missing-parent");
    check("commit a compaction", "compaction-without-parent");
    check("commit a snapshot", "ok");
    check("commit a delta parent=", "ok");
}

#[test]
fn a_commit_sent_again_is_told_from_another() {
    check("commit a delta; commit a delta", "duplicate-commit");
    check("commit a delta; commit ab delta; commit a delta", "duplicate-commit");
    check("commit a delta; commit a delta summary=other", "commit-conflict");
    check("commit a delta; commit a snapshot", "commit-conflict");
    check("commit a delta; commit a delta unheard_of=1", "commit-conflict");
}

#[test]
fn a_commit_is_what_it_says() {
    for (change, code) in [
        ("version=0", "commit-malformed"),
        ("version=2", "ok"),
        ("artifact_ref=\"\"", "commit-malformed"),
        ("created_at=yesterday", "commit-malformed"),
        ("created_at=2026-11-15T09:12:00+00:00", "commit-malformed"),
        ("attributes=[]", "commit-malformed"),
        ("attributes={\"cwd\":\"/\"}", "ok"),
        ("commit_type=guess", "commit-type-unknown"),
        ("checkpoint=whim", "trigger-unknown"),
        ("format=events", "format-malformed"),
        ("format=-v1", "format-malformed"),
        ("format=events-v", "format-malformed"),
        ("format=events-v1x", "format-malformed"),
        ("format=claude-code-v12", "ok"),
        ("template=t", "commit-id-wrong"),
        ("commit_id=ctx-1", "commit-id-wrong"),
        ("message_count=!", "malformed-payload"),
    ] {
        check(&format!("commit a delta {change}"), code);
    }
}

#[test]
fn notes_and_refs_are_of_commits() {
    check("commit a delta; note a; note a summary=x", "ok");
    check("note a", "commit-unknown");
    check("commit a delta; ref main a -; ref main - a; ref main a -", "ok");
    check("commit a delta; ref main a a", "ref-moved");
    check("commit a delta; commit b delta; ref main a -; ref main b -", "ref-moved");
    check("ref main a -", "commit-unknown");
}

#[test]
fn what_is_said_of_a_source_adds_up() {
    check("commit a delta; source a 0 5; source a 5 9; source a 2 3", "ok");
    check("source a 0 5", "commit-unknown");
    check("commit a delta; source a 5 0", "source-malformed");
    check("commit a delta; source a 0 5 to=4", "source-malformed");
    check("commit a delta; source a 0 5 size=9", "source-malformed");
    check(&format!("commit a delta; source a 0 5 size=9 tail_artifact_id={}", hex("t")), "ok");
    check(&format!("commit a delta; source a 0 5 tail_artifact_id={}", hex("t")), "source-malformed");
}

#[test]
fn a_payload_that_is_not_what_its_type_says_is_refused() {
    check("text delta=!", "malformed-payload");
    check("text delta=5", "malformed-payload");
    let refusal = World::default().offer("text delta=5").unwrap_err().to_string();
    assert!(refusal.contains("member delta of output_text_delta is wrong"), "{refusal}");
}

#[test]
fn a_refusal_is_one_sentence_that_names_everything() {
    let mut world = World::default();
    for step in ["message m1", "spawn r1", "run-end r1"] {
        world.offer(step).unwrap();
    }
    let refusal = world.offer("run-end r1").unwrap_err();
    let says =
        "continuity_run_ended is refused at seq 3 of continuity/main by rule run-ended: run r1 has ended at seq 2";
    assert_eq!((refusal.to_string().as_str(), refusal.kind()), (says, ErrorKind::Conflict));
    let id = "x".repeat(100_000);
    assert!(world.offer(&format!("run-end {id}")).unwrap_err().to_string().len() < 2_000);
}

#[test]
fn codes_and_tags_are_distinct() {
    let codes: HashSet<&str> = Rule::ALL.iter().map(|rule| rule.code()).collect();
    assert_eq!(codes.len(), Rule::ALL.len());
    assert_eq!(MarkKey::Message(258).encode(), [2, 0, 0, 0, 0, 0, 0, 1, 2]);
    assert_eq!(MarkKey::Tag("x".into()).encode(), [0x0f, b'x']);
    assert_ne!(MarkKey::RunSpawned("x".into()).encode(), MarkKey::RunEnded("x".into()).encode());
}

#[test]
fn keys_are_read_back_and_sort_by_what_they_count() {
    let artifact = ArtifactId::of(b"x");
    let run = |message: &str, seq| MarkKey::RunOf { message: message.into(), seq };
    let cut = |to_seq, seq| MarkKey::Compaction { to_seq, seq };
    let touched = |path: &str, thread: &str, seq| MarkKey::Touched { path: path.into(), thread: thread.into(), seq };
    let all = [
        MarkKey::Ended,
        MarkKey::Message(0x80ff),
        MarkKey::MessageId("m".into()),
        MarkKey::Policy(artifact),
        MarkKey::Commit(CommitId::from_bytes([7; 16])),
        run("m\0é", u64::MAX),
        cut(1, 2),
        MarkKey::Archived,
        MarkKey::Pinned("m".into()),
        MarkKey::Link(7),
        touched("src/é.rs", "t", 0x0a00),
    ];
    for key in all {
        assert_eq!(MarkKey::decode(&key.encode()), Some(key));
    }
    assert!(run("m", 9).encode() < run("m", 256).encode() && run("m", 256).encode() < run("n", 0).encode());
    assert!(cut(1, 900).encode() < cut(2, 3).encode());
    assert!(touched("a/b", "t", 900).encode() < touched("a0", "", 0).encode(), "what is below a path lies together");
    for wrong in [&[][..], &[0], &[0x02, 1], &[0x01, 1], &[0x15, 0, 9, b'm'], &[0x1e, b'p', 0, 0, 1], &[0xff]] {
        assert_eq!(MarkKey::decode(wrong), None, "{wrong:?}");
    }
}

#[test]
fn a_message_is_pinned_that_is_there() {
    check("pin m1", "message-unknown");
    check("message m1; pin m1; pin m1 pinned=false", "ok");
    check("label x; archive", "ok");
    check("label \u{1b}", "bad-name");
}

#[test]
fn marks_say_what_was_established() {
    let show = |step: &str| {
        let marks = marks(&World::default().frame(step));
        marks.into_iter().map(|mark| format!("{:?} = {}", mark.key, mark.value)).collect::<Vec<_>>().join("; ")
    };
    assert_eq!(show("message m1"), r#"Message(0) = m1; MessageId("m1") = 0"#);
    assert_eq!(show("tool t1 bash"), r#"ToolStarted("t1") = 0; RunningTool("bash") = t1"#);
    assert!(show("policy a ephemeral ttl_ms=5").ends_with(" = ephemeral:5:9"));
    assert!(show("tag x a -").ends_with(&format!(r#"Tag("x") = {}"#, hex("a"))));
    assert!(show("tag x - a").ends_with(r#"Tag("x") = "#));
    assert!(show("ref main a -").ends_with(&format!(r#"Ref("main") = {}"#, commit_id("a"))));
    assert_eq!(show("text delta=5"), "");
}

/// Steps over so few ids that random histories run into every rule.
const STEPS: &[&str] = &[
    "text",
    "odd",
    "end",
    "tool t1 write",
    "tool t2 write",
    "tool-end t1",
    "tool-fail t2",
    "save auto write",
    "task",
    "status running",
    "status exited",
    "output",
    "task-odd",
    "message m1",
    "message m2",
    "spawn r1",
    "spawn r2",
    "decide r1",
    "decide r2",
    "compile r1",
    "compile r2",
    "retrieve r1",
    "run-end r1",
    "run-end r2",
    "effects r1 t1",
    "effects r1 t2",
    "effects r2 t1",
    "cursor",
    "cursor r1",
    "job j1",
    "job j2",
    "job-end j1",
    "job-end j2",
    "compact 0 0",
    "compact 0 1 m1",
    "compact 0 2 m2",
    "compact 1 3",
    "pin m1",
    "pin m2",
    "label x",
    "archive",
    "handoff",
    "handoff summary_markdown=x",
    "write a",
    "mention a",
    "mention b",
    "tag x a -",
    "tag x b a",
    "tag x - b",
    "policy a pin",
    "pack a",
    "pack b",
    "condemn a",
    "condemn a b",
    "drop a",
    "drop b",
    "drop a b",
    "commit a delta",
    "commit a delta summary=x",
    "commit ab compaction",
    "commit abc delta",
    "commit ac compaction",
    "note ab",
    "chain-decide r1 a",
    "chain-decide r2 ab",
    "chain-compile r1 a",
    "chain-compile r2 ab",
    "source a 0 5",
    "source ab 5 9",
    "ref main a -",
    "ref main ab a",
    "ref main - ab",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn admission_agrees_with_reading_the_whole_history(steps in prop::collection::vec(prop::sample::select(STEPS), 0..80)) {
        let mut world = World::default();
        for step in steps {
            let next = world.frame(step).decode().unwrap();
            let legal = legal(&world.frames, &next);
            let admitted = world.offer(step);
            prop_assert_eq!(admitted.is_ok(), legal, "{} after {:#?}: {:?}", step, world.frames, admitted);
        }
    }
}

/// The same laws, by reading everything that happened.
fn legal(history: &[Frame], next: &Frame) -> bool {
    let here = || history.iter().filter(|frame| frame.stream == next.stream);
    let over = here().any(|frame| frame.body.type_name() == "session_ended");
    !over
        && match &next.body {
            Body::Session(body) => legal_in_session(&here().map(|frame| &frame.body).collect::<Vec<_>>(), body),
            Body::Task(body) => legal_in_task(&here().map(|frame| &frame.body).collect::<Vec<_>>(), body),
            Body::Continuity(body) => legal_in_thread(history, &here().collect::<Vec<_>>(), body),
            Body::Artifact(body) => legal_of_artifacts(history, body),
            Body::Context(body) => legal_of_commits(history, next, body),
            // The steps name commits that may not be there yet.
            Body::Source(SourceBody::SourceRead(read)) => {
                read.parts.iter().all(|part| has_commit(history, &part.commit_id))
            }
            Body::Unknown { .. } => true,
        }
}

fn has_commit(history: &[Frame], id: &str) -> bool {
    history.iter().any(|frame| match &frame.body {
        Body::Context(ContextBody::ContextCommitted(commit)) => commit.commit_id == id,
        _ => false,
    })
}

fn ended_tools<'a>(bodies: impl IntoIterator<Item = &'a Body>) -> Vec<&'a str> {
    let ended = bodies.into_iter().filter_map(|body| match body {
        Body::Session(SessionBody::ToolEnded(tool)) => Some(tool.tool_id.as_str()),
        Body::Session(SessionBody::ToolFailed(tool)) => Some(tool.tool_id.as_str()),
        _ => None,
    });
    ended.collect()
}

fn started_tools<'a>(bodies: impl IntoIterator<Item = &'a Body>) -> Vec<(&'a str, &'a str)> {
    let started = bodies.into_iter().filter_map(|body| match body {
        Body::Session(SessionBody::ToolStarted(tool)) => Some((tool.name.as_str(), tool.tool_id.as_str())),
        _ => None,
    });
    started.collect()
}

fn legal_in_session(here: &[&Body], next: &SessionBody) -> bool {
    let ended = ended_tools(here.iter().copied());
    match next {
        SessionBody::ToolEnded(tool) => !ended.contains(&tool.tool_id.as_str()),
        SessionBody::ToolFailed(tool) => !ended.contains(&tool.tool_id.as_str()),
        SessionBody::CheckpointCreated(checkpoint) => {
            let started = started_tools(here.iter().copied());
            let last = started.iter().rev().find(|(name, _)| Some(*name) == checkpoint.tool_name.as_deref());
            last.is_none_or(|(_, id)| ended.contains(id))
        }
        _ => true,
    }
}

fn legal_in_task(here: &[&Body], next: &TaskBody) -> bool {
    let count = |of: &dyn Fn(&TaskBody) -> bool| here.iter().any(|body| matches!(body, Body::Task(task) if of(task)));
    let spawned = count(&|task| matches!(task, TaskBody::TaskSpawned(_)));
    let ended = count(&|task| matches!(task, TaskBody::TaskStatusChanged(s) if s.status == TaskStatus::Exited));
    match next {
        TaskBody::TaskSpawned(_) => !spawned,
        _ => spawned && !ended,
    }
}

/// Which run or job a thread's frame is about, and what it says of it.
fn about(body: &Body) -> Option<(&str, &'static str)> {
    let Body::Continuity(body) = body else { return None };
    let id = match body {
        ContinuityBody::RunSpawned(run) => &run.run_session_id,
        ContinuityBody::RunEnded(run) => &run.run_session_id,
        ContinuityBody::SelectionDecided(run) => &run.run_session_id,
        ContinuityBody::ContextCompiled(run) => &run.run_session_id,
        ContinuityBody::RetrievalDecided(run) => &run.run_session_id,
        ContinuityBody::ToolSideEffects(run) => &run.run_session_id,
        ContinuityBody::ProviderCursorUpdated(cursor) => cursor.run_session_id.as_ref()?,
        ContinuityBody::JobSpawned(job) => &job.job_id,
        ContinuityBody::JobEnded(job) => &job.job_id,
        _ => return None,
    };
    Some((id, body.type_name()))
}

fn legal_in_thread(history: &[Frame], here: &[&Frame], next: &ContinuityBody) -> bool {
    let body = Body::Continuity(next.clone());
    if let Some((id, type_name)) = about(&body) {
        let said: Vec<&str> =
            here.iter().filter_map(|frame| about(&frame.body)).filter(|it| it.0 == id).map(|it| it.1).collect();
        return legal_of_runs(&said, type_name) && effects_are_done(history, next);
    }
    match next {
        ContinuityBody::CompactionCheckpointCreated(checkpoint) => here.iter().any(|frame| {
            let message = matches!(frame.body, Body::Continuity(ContinuityBody::MessageAppended(_)));
            let named = checkpoint.to_message_id.as_ref().is_none_or(|id| *id == frame.id);
            message && named && frame.seq == checkpoint.to_seq && checkpoint.from_seq <= checkpoint.to_seq
        }),
        ContinuityBody::HandoffCreated(handoff) => handoff.summary_markdown.is_some(),
        ContinuityBody::MessagePinned(pin) => here.iter().any(|frame| {
            frame.id == pin.message_id && matches!(frame.body, Body::Continuity(ContinuityBody::MessageAppended(_)))
        }),
        _ => true,
    }
}

fn legal_of_runs(said: &[&str], next: &str) -> bool {
    let has = |type_name: &str| said.contains(&type_name);
    match next {
        "continuity_run_spawned" => !has("continuity_run_spawned"),
        "continuity_job_spawned" => !has("continuity_job_spawned"),
        "continuity_job_ended" => has("continuity_job_spawned") && !has("continuity_job_ended"),
        "continuity_context_selection_decided" if has("continuity_context_compiled") => false,
        _ => has("continuity_run_spawned") && !has("continuity_run_ended"),
    }
}

fn effects_are_done(history: &[Frame], next: &ContinuityBody) -> bool {
    let ContinuityBody::ToolSideEffects(effects) = next else { return true };
    let session: Vec<&Body> = history
        .iter()
        .filter(|frame| frame.stream.to_string() == format!("session/{}", effects.run_session_id))
        .map(|frame| &frame.body)
        .collect();
    let id = effects.tool_id.as_str();
    let started = started_tools(session.iter().copied()).iter().any(|tool| tool.1 == id);
    !started || ended_tools(session).contains(&id)
}

fn legal_of_artifacts(history: &[Frame], next: &ArtifactBody) -> bool {
    match next {
        ArtifactBody::ArtifactWritten(_) => true,
        ArtifactBody::ArtifactTagged(tag) => {
            let last = history.iter().rev().find_map(|frame| match &frame.body {
                Body::Artifact(ArtifactBody::ArtifactTagged(then)) if then.name == tag.name => Some(&then.artifact_id),
                _ => None,
            });
            last.cloned().flatten() == tag.previous && tag.artifact_id.as_ref().is_none_or(|id| !is_gone(history, id))
        }
        ArtifactBody::ArtifactPolicySet(set) => !is_gone(history, &set.artifact_id),
        ArtifactBody::ArtifactPacked(pack) => {
            let is_it = |frame: &Frame| match &frame.body {
                Body::Artifact(ArtifactBody::ArtifactPacked(then)) => then.pack_hash == pack.pack_hash,
                _ => false,
            };
            !history.iter().any(is_it) && !is_gone(history, &pack.artifact_id)
        }
        ArtifactBody::ArtifactCondemned(these) => these.artifact_ids.iter().all(|id| !is_gone(history, id)),
        ArtifactBody::ArtifactDropped(these) => these.artifact_ids.iter().all(|id| is_condemned(history, id)),
    }
}

fn is_gone(history: &[Frame], id: &String) -> bool {
    history.iter().any(|frame| match &frame.body {
        Body::Artifact(ArtifactBody::ArtifactDropped(these)) => these.artifact_ids.contains(id),
        _ => false,
    })
}

fn is_condemned(history: &[Frame], id: &str) -> bool {
    let wanted: ArtifactId = id.parse().unwrap();
    let last = history.iter().rev().find(|frame| artifact_mentions(&frame.to_json()).contains(&wanted));
    last.is_some_and(|frame| frame.body.type_name() == "artifact_condemned")
}

fn legal_of_commits(history: &[Frame], next: &Frame, body: &ContextBody) -> bool {
    let has = |id: &String| {
        history.iter().any(|frame| match &frame.body {
            Body::Context(ContextBody::ContextCommitted(commit)) => commit.commit_id == *id,
            _ => false,
        })
    };
    match body {
        ContextBody::ContextCommitted(commit) => !has(&commit.commit_id) && commit.parent.as_ref().is_none_or(has),
        ContextBody::ContextNoted(note) => has(&note.commit_id),
        ContextBody::ChainSelectionDecided(run) => {
            has(&run.commit_id) && !chain_said(history, &run.run_session_id, true)
        }
        ContextBody::ChainCompiled(run) => has(&run.commit_id) && chain_said(history, &run.run_session_id, false),
        ContextBody::ContextRefMoved(moved) => {
            let last = history.iter().rev().find_map(|frame| match &frame.body {
                Body::Context(ContextBody::ContextRefMoved(then)) if frame.stream == next.stream => {
                    Some(&then.commit_id)
                }
                _ => None,
            });
            last.cloned().flatten() == moved.previous && moved.commit_id.as_ref().is_none_or(has)
        }
    }
}

/// Whether the context of a run from a chain was compiled, or decided on.
fn chain_said(history: &[Frame], run: &str, compiled: bool) -> bool {
    history.iter().any(|frame| match &frame.body {
        Body::Context(ContextBody::ChainSelectionDecided(said)) => !compiled && said.run_session_id == run,
        Body::Context(ContextBody::ChainCompiled(said)) => compiled && said.run_session_id == run,
        _ => false,
    })
}

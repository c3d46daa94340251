//! Frames and batches for tests, in as few words as possible.
//!
//! Payloads are JSON text; [`frame`] makes a frame of one, whose id and time are always the same, so that two ledgers
//! that are given the same frames hold the same bytes. Where a test cares, it sets the fields of [`NewFrame`] itself.

use enjamb_core::{ArtifactId, CommitId, Draft, StreamId};
use enjamb_ledger::{Appended, Batch, Ledger, LedgerError, NewArtifact, NewFrame, Result};

/// The time of frames that do not say another.
pub const AT_MS: u64 = 1_700_000_000_000;

/// Reads `kind/id`.
pub fn stream(name: &str) -> StreamId {
    name.parse().unwrap_or_else(|error| panic!("{error}"))
}

pub fn frame(stream: &StreamId, payload: &str) -> NewFrame {
    let draft = Draft::parse(payload).unwrap_or_else(|error| panic!("{payload}: {error}"));
    NewFrame { stream: stream.clone(), draft, id: "f1".to_owned(), timestamp_ms: AT_MS, expected_seq: None }
}

pub fn frames(frames: Vec<NewFrame>) -> Batch {
    Batch { frames, ..Batch::default() }
}

/// A batch of one frame.
pub fn one(stream: &StreamId, payload: &str) -> Batch {
    frames(vec![frame(stream, payload)])
}

/// A batch of nothing but bytes.
pub fn bytes(bytes: &[u8]) -> Batch {
    Batch { artifacts: vec![NewArtifact::from_bytes(bytes.to_vec())], ..Batch::default() }
}

/// Appends a batch that has to be accepted.
#[track_caller]
pub fn append(ledger: &dyn Ledger, batch: Batch) -> Appended {
    ledger.append(batch).unwrap_or_else(|error| panic!("an append was refused: {error}"))
}

/// Appends a batch that has to be refused, and returns how.
#[track_caller]
pub fn refused(ledger: &dyn Ledger, batch: Batch) -> LedgerError {
    match ledger.append(batch) {
        Ok(appended) => panic!("an append was accepted: {appended:?}"),
        Err(error) => error,
    }
}

/// Stores bytes, and returns their id.
#[track_caller]
pub fn stored(ledger: &dyn Ledger, content: &[u8]) -> ArtifactId {
    append(ledger, bytes(content));
    ArtifactId::of(content)
}

/// All bytes of an artifact.
pub fn read(ledger: &dyn Ledger, id: &ArtifactId) -> Result<Vec<u8>> {
    let mut out = Vec::new();
    ledger.read(id, None, &mut |part| {
        out.extend_from_slice(part);
        Ok(())
    })?;
    Ok(out)
}

/// What a session may say at any time.
pub fn output(text: &str) -> String {
    format!(r#"{{"type":"output_text_delta","delta":"{text}"}}"#)
}

pub fn session_ended() -> &'static str {
    r#"{"type":"session_ended","reason":"completed"}"#
}

/// What a thread may say at any time.
pub fn message(text: &str) -> String {
    format!(r#"{{"type":"continuity_message_appended","actor_id":"a","origin":"test","content":"{text}"}}"#)
}

pub fn job(type_name: &str, id: &str) -> String {
    let status = if type_name == "continuity_job_ended" { r#""status":"completed","# } else { "" };
    format!(r#"{{"type":"{type_name}","job_id":"{id}","job_kind":"k",{status}"actor_id":"a","origin":"test"}}"#)
}

pub fn compaction_checkpoint(to_seq: u64) -> String {
    format!(
        r#"{{"type":"continuity_compaction_checkpoint_created","checkpoint_id":"k","cut_rule_id":"manual_v1","summary_kind":"cumulative_v1","summary_artifact_id":"f","from_seq":0,"to_seq":{to_seq},"actor_id":"a","origin":"test"}}"#
    )
}

/// A tag moves from `previous` to `to`.
pub fn tagged(name: &str, to: Option<&ArtifactId>, previous: Option<&ArtifactId>) -> String {
    let text = |id: Option<&ArtifactId>| id.map_or_else(|| "null".to_owned(), |id| format!(r#""{id}""#));
    let (to, previous) = (text(to), text(previous));
    format!(
        r#"{{"type":"artifact_tagged","name":"{name}","artifact_id":{to},"previous":{previous},"actor_id":"a","origin":"test"}}"#
    )
}

pub fn condemned(id: &ArtifactId) -> String {
    format!(r#"{{"type":"artifact_condemned","artifact_ids":["{id}"],"actor_id":"a","origin":"test"}}"#)
}

pub fn dropped(id: &ArtifactId) -> String {
    format!(r#"{{"type":"artifact_dropped","artifact_ids":["{id}"],"actor_id":"a","origin":"test"}}"#)
}

pub fn written(id: &ArtifactId) -> String {
    let hex = id.to_hex();
    format!(r#"{{"type":"artifact_written","artifact_id":"{hex}","kind":"bundle","bytes":1,"digest":"{hex}"}}"#)
}

/// A commit of an artifact that need not be there. Its id follows from parent, artifact and time.
pub fn committed(parent: Option<&CommitId>, kind: &str, artifact: &str, created_at: &str) -> (CommitId, String) {
    let text = parent.map(CommitId::to_string).unwrap_or_default();
    let id = CommitId::derive(&text, artifact, created_at, "");
    let parent = if text.is_empty() { String::new() } else { format!(r#""parent":"{text}","#) };
    let payload = format!(
        r#"{{"type":"context_committed","commit_id":"{id}","version":1,{parent}"commit_type":"{kind}","artifact_ref":"{artifact}","format":"events-v1","checkpoint":"explicit","message_count":0,"token_count":0,"created_at":"{created_at}"}}"#
    );
    (id, payload)
}

/// New words about a commit.
pub fn noted(id: &CommitId, summary: &str) -> String {
    format!(r#"{{"type":"context_noted","commit_id":"{id}","summary":"{summary}","actor_id":"a","origin":"test"}}"#)
}

/// A ref moves from `previous` to `to`.
pub fn ref_moved(name: &str, to: Option<&CommitId>, previous: Option<&CommitId>) -> String {
    let text = |id: Option<&CommitId>| id.map_or_else(|| "null".to_owned(), |id| format!(r#""{id}""#));
    let (to, previous) = (text(to), text(previous));
    format!(
        r#"{{"type":"context_ref_moved","name":"{name}","commit_id":{to},"previous":{previous},"actor_id":"a","origin":"test"}}"#
    )
}

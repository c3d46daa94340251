//! The rules of commits: an id that follows from what they are, a parent that is there, and refs that move from where
//! they are.

use super::mark::payload_digest;
use super::{Case, MarkKey, Refusal, Rule};
use crate::frame::{CommitType, ContextBody, ContextCommitted, ContextRefMoved, Frame, Trigger};
use crate::{CommitId, Timestamp};

pub(super) fn check(case: &mut Case<'_>, frame: &Frame, body: &ContextBody) -> Result<(), Refusal> {
    match body {
        ContextBody::ContextCommitted(commit) => {
            let id = check_itself(case, commit)?;
            check_unique(case, frame, id)?;
            check_parent(case, commit)
        }
        ContextBody::ContextNoted(note) => check_exists(case, "commit_id", &note.commit_id),
        ContextBody::ContextRefMoved(moved) => check_ref(case, moved),
        ContextBody::ChainSelectionDecided(run) => {
            check_exists(case, "commit_id", &run.commit_id)?;
            case.check_uncompiled(&run.run_session_id)
        }
        ContextBody::ChainCompiled(run) => {
            check_exists(case, "commit_id", &run.commit_id)?;
            let decided = case.here(MarkKey::RunDecided(run.run_session_id.clone())).is_some();
            case.require(decided, Rule::NotDecided, || {
                format!("nothing was decided here for the context of run {}", run.run_session_id)
            })
        }
    }
}

/// What holds of a commit whatever else is here.
fn check_itself(case: &Case<'_>, commit: &ContextCommitted) -> Result<CommitId, Refusal> {
    check_fields(case, commit)?;
    check_words(case, commit)?;
    check_id(case, commit)
}

/// Whether a commit of another store, which is not here yet, may come.
pub(super) fn check_new(case: &mut Case<'_>, commit: &ContextCommitted) -> Result<(), Refusal> {
    check_itself(case, commit)?;
    check_parent(case, commit)
}

fn check_fields(case: &Case<'_>, commit: &ContextCommitted) -> Result<(), Refusal> {
    let bad = |holds: bool, detail: &str| case.require(holds, Rule::CommitMalformed, || detail.to_owned());
    bad(commit.version >= 1, "version is 0: expected 1 or more")?;
    bad(!commit.artifact_ref.is_empty(), "artifact_ref is empty: expected the id of an artifact")?;
    let utc = commit.created_at.ends_with('Z') && commit.created_at.parse::<Timestamp>().is_ok();
    bad(utc, "created_at is no RFC 3339 time in UTC: expected one such as 2026-11-15T09:12:00Z")?;
    bad(commit.attributes.as_ref().is_none_or(|json| json.is_object()), "attributes is no JSON object")
}

fn check_words(case: &Case<'_>, commit: &ContextCommitted) -> Result<(), Refusal> {
    if let CommitType::Other(word) = &commit.commit_type {
        let detail = format!("commit_type is {word:?}: expected delta, compaction or snapshot");
        return Err(case.refuse(Rule::CommitTypeUnknown, detail));
    }
    if let Trigger::Other(word) = &commit.checkpoint {
        let expected = "turn_boundary, tool_call, compaction, session_end or explicit";
        return Err(case.refuse(Rule::TriggerUnknown, format!("checkpoint is {word:?}: expected {expected}")));
    }
    case.require(is_format(&commit.format), Rule::FormatMalformed, || {
        format!("format is {:?}: expected a name and a version, such as claude-code-v1", commit.format)
    })
}

fn is_format(text: &str) -> bool {
    let Some((name, version)) = text.rsplit_once("-v") else { return false };
    let in_name = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-_.".contains(&byte);
    !name.is_empty() && name.bytes().all(in_name) && !version.is_empty() && version.bytes().all(|b| b.is_ascii_digit())
}

fn check_id(case: &Case<'_>, commit: &ContextCommitted) -> Result<CommitId, Refusal> {
    let text = |member: &Option<String>| member.clone().unwrap_or_default();
    let (parent, template) = (text(&commit.parent), text(&commit.template));
    let id = CommitId::derive(&parent, &commit.artifact_ref, &commit.created_at, &template);
    case.require(commit.commit_id == id.to_string(), Rule::CommitIdWrong, || {
        let given = &commit.commit_id;
        format!("commit_id is {given:?}: expected {id}, from parent, artifact_ref, created_at and template")
    })?;
    Ok(id)
}

fn check_unique(case: &mut Case<'_>, frame: &Frame, id: CommitId) -> Result<(), Refusal> {
    match case.in_store(MarkKey::Commit(id)) {
        None => Ok(()),
        Some(there) if there == payload_digest(frame) => {
            Err(case.refuse(Rule::DuplicateCommit, format!("commit {id} is already there, and is the same")))
        }
        Some(_) => Err(case.refuse(Rule::CommitConflict, format!("commit {id} is already there, and is another"))),
    }
}

fn check_parent(case: &mut Case<'_>, commit: &ContextCommitted) -> Result<(), Refusal> {
    let id = &commit.commit_id;
    let Some(parent) = commit.parent.as_ref().filter(|parent| !parent.is_empty()) else {
        let compaction = commit.commit_type == CommitType::Compaction;
        return case.require(!compaction, Rule::CompactionWithoutParent, || {
            format!("commit {id} is a compaction and has no parent to compact")
        });
    };
    let there = is_here(case, parent);
    case.require(there, Rule::MissingParent, || format!("parent {parent} of commit {id} is not here"))
}

fn check_ref(case: &mut Case<'_>, moved: &ContextRefMoved) -> Result<(), Refusal> {
    case.check_name(&moved.name)?;
    let current = case.in_store(MarkKey::Ref(moved.name.clone()));
    case.require(current == moved.previous, Rule::RefMoved, || {
        let show = |id: &Option<String>| id.clone().unwrap_or_else(|| "nothing".to_owned());
        format!("ref {:?} names {}, not {} as previous says", moved.name, show(&current), show(&moved.previous))
    })?;
    match &moved.commit_id {
        Some(id) => check_exists(case, "commit_id", id),
        None => Ok(()),
    }
}

fn check_exists(case: &mut Case<'_>, member: &str, id: &str) -> Result<(), Refusal> {
    let there = is_here(case, id);
    case.require(there, Rule::CommitUnknown, || format!("{member} is {id:?}, and no such commit is here"))
}

pub(super) fn is_here(case: &mut Case<'_>, id: &str) -> bool {
    id.parse().is_ok_and(|id| case.in_store(MarkKey::Commit(id)).is_some())
}

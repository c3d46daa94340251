//! The rules of sources: parts that add up, of commits that are here.

use super::{Case, MarkKey, Refusal, Rule};
use crate::frame::{SourceBody, SourcePart, SourceRead};
use crate::{ArtifactId, CommitId};

pub(super) fn check(case: &mut Case<'_>, body: &SourceBody) -> Result<(), Refusal> {
    let SourceBody::SourceRead(read) = body;
    check_ranges(case, read)?;
    read.parts.iter().try_for_each(|part| check_part(case, part))
}

fn check_ranges(case: &Case<'_>, read: &SourceRead) -> Result<(), Refusal> {
    let SourceRead { from, to, size, .. } = read;
    let sum = read.parts.iter().try_fold(*from, |sum, part| sum.checked_add(part.bytes));
    case.require(sum == Some(*to) && to <= size, Rule::SourceMalformed, || {
        format!("from is {from}, to is {to} and size is {size}: expected the parts to lie between from and to")
    })?;
    let tail = read.tail_artifact_id.as_deref();
    let tail_fits = if to < size { tail.is_some_and(|id| id.parse::<ArtifactId>().is_ok()) } else { tail.is_none() };
    case.require(tail_fits, Rule::SourceMalformed, || {
        format!("tail_artifact_id is {tail:?}: expected an artifact if and only if to is less than size")
    })
}

fn check_part(case: &mut Case<'_>, part: &SourcePart) -> Result<(), Refusal> {
    let SourcePart { commit_id, artifact_id, .. } = part;
    case.require(artifact_id.parse::<ArtifactId>().is_ok(), Rule::SourceMalformed, || {
        format!("artifact_id of a part is {artifact_id:?}: expected the id of an artifact")
    })?;
    let there = commit_id.parse::<CommitId>().is_ok_and(|id| case.in_store(MarkKey::Commit(id)).is_some());
    case.require(there, Rule::CommitUnknown, || format!("commit_id is {commit_id:?}, and no such commit is here"))
}

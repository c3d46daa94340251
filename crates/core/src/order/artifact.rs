//! The rules of artifacts: tags move from where they are, packs are recorded once, and only what stays condemned is
//! dropped.

use super::{Case, MarkKey, Refusal, Rule};
use crate::frame::{ArtifactBody, ArtifactPacked, ArtifactPolicySet, ArtifactTagged, Policy};
use crate::{ArtifactId, Digest, StreamId};

pub(super) fn check(case: &mut Case<'_>, body: &ArtifactBody) -> Result<(), Refusal> {
    match body {
        ArtifactBody::ArtifactWritten(_) => Ok(()),
        ArtifactBody::ArtifactTagged(tag) => check_tag(case, tag),
        ArtifactBody::ArtifactPolicySet(set) => check_policy(case, set),
        ArtifactBody::ArtifactPacked(pack) => check_pack(case, pack),
        ArtifactBody::ArtifactCondemned(these) => these.artifact_ids.iter().try_for_each(|id| {
            let id = parse(case, "artifact_ids", id)?;
            check_here(case, id)
        }),
        ArtifactBody::ArtifactDropped(these) => these.artifact_ids.iter().try_for_each(|id| {
            let id = parse(case, "artifact_ids", id)?;
            check_condemned(case, id)
        }),
    }
}

fn check_tag(case: &mut Case<'_>, tag: &ArtifactTagged) -> Result<(), Refusal> {
    case.check_name(&tag.name)?;
    if let Some(id) = parse_some(case, "artifact_id", tag.artifact_id.as_ref())? {
        check_here(case, id)?;
    }
    let previous = parse_some(case, "previous", tag.previous.as_ref())?.map(|id| id.to_hex());
    let current = case.in_store(MarkKey::Tag(tag.name.clone()));
    case.require(previous == current, Rule::TagMoved, || {
        let show = |id: Option<String>| id.map_or_else(|| "nothing".to_owned(), |hex| format!("art-{hex}"));
        format!("tag {:?} names {}, not {} as previous says", tag.name, show(current), show(previous))
    })
}

fn check_policy(case: &mut Case<'_>, set: &ArtifactPolicySet) -> Result<(), Refusal> {
    let id = parse(case, "artifact_id", &set.artifact_id)?;
    match &set.policy {
        Policy::Ephemeral if set.ttl_ms.is_none() => {
            Err(case
                .refuse(Rule::TtlMissing, "ttl_ms is null: expected milliseconds, as the policy is ephemeral".into()))
        }
        Policy::Default | Policy::Pin | Policy::Ephemeral | Policy::Replicate => check_here(case, id),
        Policy::Other(word) => {
            let detail = format!("policy is {word:?}: expected default, pin, ephemeral or replicate");
            Err(case.refuse(Rule::PolicyUnknown, detail))
        }
    }
}

fn check_pack(case: &mut Case<'_>, pack: &ArtifactPacked) -> Result<(), Refusal> {
    let id = parse(case, "artifact_id", &pack.artifact_id)?;
    let hash = &pack.pack_hash;
    case.require(Digest::from_hex(hash).is_some(), Rule::PackMalformed, || {
        format!("pack_hash is {hash:?}: expected 64 lower-case hex digits")
    })?;
    case.require(*case.frame.stream() == StreamId::packs(), Rule::PackMalformed, || {
        format!("packs are recorded in {}", StreamId::packs())
    })?;
    let known = case.in_store(MarkKey::Pack(hash.clone())).is_some();
    case.require(!known, Rule::DuplicatePack, || format!("pack {hash} is already there"))?;
    check_here(case, id)
}

fn check_here(case: &mut Case<'_>, id: ArtifactId) -> Result<(), Refusal> {
    let dropped = case.in_store(MarkKey::Dropped(id)).is_some();
    case.require(!dropped, Rule::ArtifactGone, || format!("artifact {id} was dropped"))
}

fn check_condemned(case: &mut Case<'_>, id: ArtifactId) -> Result<(), Refusal> {
    let condemned = case.in_store(MarkKey::Condemned(id)).is_some();
    case.require(condemned, Rule::NotCondemned, || {
        format!("artifact {id} is not condemned, or was mentioned since it was")
    })
}

fn parse(case: &Case<'_>, member: &str, text: &str) -> Result<ArtifactId, Refusal> {
    text.parse().map_err(|error| case.refuse(Rule::MalformedPayload, format!("member {member}: {error}")))
}

fn parse_some(case: &Case<'_>, member: &str, text: Option<&String>) -> Result<Option<ArtifactId>, Refusal> {
    text.map(|text| parse(case, member, text)).transpose()
}

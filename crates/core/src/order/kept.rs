//! The rules of branches: frames that follow one another as they do where they come from, under the name that follows
//! from the first of them.
//!
//! What a kept frame says is said elsewhere: it moves no tag and no ref here, and drops nothing. Only its commits are found,
//! as they are what other commits have as parents, and the artifacts that it mentions are needed.

use super::{Case, Mark, MarkKey, Refusal, Rule, Scope, context, mark};
use crate::frame::{Body, ContextBody, ContextCommitted, Kept, KeptContent, Linked, RawFrame};
use crate::{Digest, StreamId};

pub(super) fn check(case: &mut Case<'_>) -> Result<(), Refusal> {
    let malformed = |case: &Case<'_>, detail: &str| case.refuse(Rule::BranchMalformed, detail.to_owned());
    let kept = Kept::read(case.frame).ok_or_else(|| malformed(case, "a branch holds frames of type frame_kept"))?;
    check_link(case, &kept)?;
    if let KeptContent::Json(json) = &kept.content {
        let linked = linked(&kept, json);
        case.require(linked.chain() == kept.chain, Rule::BranchMalformed, || {
            format!("chain is not that of frame {} of {}", kept.of_seq, kept.of)
        })?;
        let first = case.frame.seq() == 0;
        case.require(!first || linked.branch() == *case.frame.stream(), Rule::BranchMalformed, || {
            format!("a branch that begins so is called {}", linked.branch())
        })?;
        let inner = kept.frame().ok_or_else(|| malformed(case, "what is kept is no frame"))?;
        let in_place = *inner.stream() == kept.of && inner.seq() == kept.of_seq;
        case.require(in_place, Rule::BranchMalformed, || "what is kept is of another stream or seq".to_owned())?;
        check_commit(case, &inner)?;
    }
    Ok(())
}

/// It follows what the branch holds.
fn check_link(case: &mut Case<'_>, kept: &Kept) -> Result<(), Refusal> {
    if case.frame.seq() == 0 {
        return Ok(());
    }
    let tip = case.here(MarkKey::KeptTip).unwrap_or_default();
    let follows = parse_tip(&tip) == kept.of_seq.checked_sub(1).map(|seq| (seq, kept.after));
    case.require(follows, Rule::BranchMalformed, || format!("it does not follow what the branch ends with: {tip}"))
}

fn linked(kept: &Kept, json: &[u8]) -> Linked {
    let Kept { of, of_seq, key, after, .. } = kept.clone();
    Linked { stream: of, seq: of_seq, key, after, json: json.to_vec() }
}

/// A commit that is new here has to be one: its id is what it says, and its parent is here.
fn check_commit(case: &mut Case<'_>, inner: &RawFrame) -> Result<(), Refusal> {
    match committed(inner) {
        Some(commit) if !context::is_here(case, &commit.commit_id) => context::check_new(case, &commit),
        _ => Ok(()),
    }
}

fn committed(inner: &RawFrame) -> Option<ContextCommitted> {
    match inner.decode().ok()?.body {
        Body::Context(ContextBody::ContextCommitted(commit)) => Some(commit),
        _ => None,
    }
}

/// What a kept frame establishes, besides what it mentions.
pub(super) fn marks(raw: &RawFrame) -> Vec<Mark> {
    let Some(kept) = Kept::read(raw) else { return Vec::new() };
    let branch = raw.stream();
    let tip = format!("{} {}", kept.of_seq, kept.chain.to_hex());
    let mut marks = vec![Mark { scope: Scope::Stream(branch.clone()), key: MarkKey::KeptTip, value: tip }];
    if raw.seq() == 0 {
        let key = MarkKey::branch_of(&kept.of, &branch.id, kept.of_seq);
        marks.push(Mark { scope: Scope::Store, key, value: kept.after.to_hex() });
    }
    let inner = kept.frame().and_then(|inner| inner.decode().ok());
    marks.extend(inner.as_ref().and_then(mark::commit_mark));
    marks
}

/// Where a branch ends, as its mark says it: the seq of the last frame in its own stream, and its chain.
pub fn parse_tip(value: &str) -> Option<(u64, Digest)> {
    let (seq, chain) = value.split_once(' ')?;
    Some((seq.parse().ok()?, Digest::from_hex(chain)?))
}

impl MarkKey {
    /// The mark of a branch of a stream. All branches of a stream lie between that of the empty id, and
    /// [`MarkKey::after_branches_of`].
    pub fn branch_of(of: &StreamId, branch: &str, from_seq: u64) -> Self {
        let of = Digest::of(of.to_string().as_bytes()).to_hex();
        Self::Branch { of, branch: branch.to_owned(), from_seq }
    }

    pub fn after_branches_of(of: &StreamId) -> Self {
        let of = format!("{}\u{1}", Digest::of(of.to_string().as_bytes()).to_hex());
        Self::Branch { of, branch: String::new(), from_seq: 0 }
    }
}

//! Laws of commits: chains that are walked, timelines that are searched, words and names that change.

use enjamb_core::chain::{CommitKind, Stop};
use enjamb_core::order::{MarkKey, Scope};
use enjamb_core::{ArtifactId, CommitId, ErrorKind, StreamId, Timestamp};
use enjamb_ledger::{Batch, Ledger, Link, NewArtifact, Span};

use super::batches::check_refused;
use crate::make::{self, append, committed, frame, noted, one, ref_moved, stream};

fn principal(name: &str) -> StreamId {
    stream(&format!("context/{name}"))
}

/// The instant so many seconds into a day, as commits write it.
fn at(second: u32) -> String {
    format!("2026-01-01T00:{:02}:{:02}Z", second / 60, second % 60)
}

/// Commits for a principal. The artifact's name makes commits differ that are otherwise the same.
#[track_caller]
fn commit(ledger: &dyn Ledger, by: &str, parent: Option<&CommitId>, kind: &str, second: u32, name: &str) -> CommitId {
    let (id, payload) = committed(parent, kind, name, &at(second));
    append(ledger, one(&principal(by), &payload));
    id
}

/// Commits a chain of these kinds, a second apart, each following the one before.
fn chain(ledger: &dyn Ledger, kinds: &[&str]) -> Vec<CommitId> {
    let mut ids: Vec<CommitId> = Vec::new();
    for (second, kind) in kinds.iter().enumerate() {
        ids.push(commit(ledger, "p", ids.last(), kind, second as u32, "art-1"));
    }
    ids
}

fn walked(ledger: &dyn Ledger, tip: &CommitId, stop: Stop, limit: usize) -> Vec<CommitId> {
    ledger.walk(tip, &stop, limit).unwrap().expect("a tip").iter().map(|link| link.id).collect()
}

pub(super) fn a_chain_is_walked_from_its_tip_to_the_stop(ledger: &dyn Ledger) {
    let ids = chain(ledger, &["delta", "delta", "compaction", "delta", "snapshot", "delta"]);
    let back = |range: std::ops::Range<usize>| ids[range].iter().rev().copied().collect::<Vec<_>>();
    assert_eq!(walked(ledger, &ids[5], Stop::Root, 99), back(0..6));
    assert_eq!(walked(ledger, &ids[5], Stop::Compaction, 99), back(4..6), "a snapshot ends it too");
    assert_eq!(walked(ledger, &ids[3], Stop::Compaction, 99), back(2..4));
    assert_eq!(walked(ledger, &ids[2], Stop::Compaction, 99), back(2..3), "the tip counts");
    assert_eq!(walked(ledger, &ids[1], Stop::Compaction, 99), back(0..2));
    assert_eq!(walked(ledger, &ids[5], Stop::At(ids[1]), 99), back(1..6));
    assert_eq!(walked(ledger, &ids[1], Stop::At(ids[5]), 99), back(0..2), "what is not met does not end it");
    assert_eq!(walked(ledger, &ids[5], Stop::Root, 2), back(4..6));
    assert_eq!(ledger.walk(&CommitId::from_bytes([7; 16]), &Stop::Root, 99).unwrap(), None);
    let links = ledger.walk(&ids[3], &Stop::Root, 2).unwrap().expect("a tip");
    let link = |at: usize, kind| Link {
        id: ids[at],
        parent: Some(ids[at - 1]),
        kind,
        generation: at as u64,
        created_at: self::at(at as u32).parse().expect("an instant"),
    };
    assert_eq!(links, [link(3, CommitKind::Delta), link(2, CommitKind::Compaction)]);
}

pub(super) fn any_commit_of_any_tree_leads_to_its_root(ledger: &dyn Ledger) {
    let mut random = 7u64;
    let mut below = |bound: usize| {
        random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (random >> 33) as usize % bound
    };
    let mut paths: Vec<Vec<CommitId>> = Vec::new();
    for number in 0..60 {
        let above = if number > 0 && below(10) > 0 { paths[below(number)].clone() } else { Vec::new() };
        let kind = ["delta", "snapshot"][usize::from(below(6) == 0)];
        let by = ["p", "q"][below(2)];
        let id = commit(ledger, by, above.last(), kind, below(9) as u32, &format!("art-{number}"));
        paths.push([above, vec![id]].concat());
    }
    for path in &paths {
        let (id, mut expected) = (path[path.len() - 1], path.clone());
        expected.reverse();
        assert_eq!(walked(ledger, &id, Stop::Root, 99), expected);
        let children: Vec<_> = paths.iter().filter(|other| other.iter().nth_back(1) == Some(&id)).collect();
        let children: Vec<_> = children.into_iter().map(|other| other[other.len() - 1]).collect();
        assert_eq!(ledger.children(&id).unwrap(), children);
    }
}

pub(super) fn children_are_listed_in_the_order_in_which_they_came(ledger: &dyn Ledger) {
    let root = commit(ledger, "p", None, "delta", 5, "art-1");
    let late = commit(ledger, "p", Some(&root), "delta", 9, "art-1");
    let early = commit(ledger, "q", Some(&root), "delta", 6, "art-1");
    commit(ledger, "q", Some(&late), "delta", 7, "art-1");
    assert_eq!(ledger.children(&root).unwrap(), [late, early], "stored first, whenever it was made");
    assert_eq!(ledger.children(&early).unwrap(), []);
    assert_eq!(ledger.children(&CommitId::from_bytes([7; 16])).unwrap(), []);
}

pub(super) fn of_commits_at_one_instant_the_one_stored_last_is_found(ledger: &dyn Ledger) {
    let found = |by: &str, text: &str| ledger.commit_at(&principal(by), text.parse().expect("an instant")).unwrap();
    let first = commit(ledger, "p", None, "delta", 10, "art-1");
    let second = commit(ledger, "p", None, "delta", 10, "art-0");
    let other = commit(ledger, "q", None, "delta", 10, "art-2");
    let earlier = commit(ledger, "p", None, "delta", 4, "art-3");
    assert_ne!(first, second);
    assert_eq!(found("p", &at(10)), Some(second));
    assert_eq!(found("p", "2026-01-01T01:00:10.5+01:00"), Some(second), "instants are compared, not texts");
    assert_eq!(found("p", "2026-01-01T00:00:09.999999Z"), Some(earlier));
    assert_eq!(found("p", &at(3)), None);
    assert_eq!(found("q", &at(99)), Some(other));
    assert_eq!(found("nobody", &at(99)), None);
}

pub(super) fn a_timeline_is_newest_first_and_goes_on_where_it_ended(ledger: &dyn Ledger) {
    let a = commit(ledger, "p", None, "delta", 1, "art-1");
    let b = commit(ledger, "p", Some(&a), "delta", 3, "art-1");
    let c = commit(ledger, "q", Some(&a), "delta", 2, "art-1");
    let d = commit(ledger, "q", Some(&b), "delta", 2, "art-1");
    append(ledger, one(&principal("q"), &noted(&c, "words are no commits")));
    let e = commit(ledger, "o", None, "delta", 2, "art-1");
    let check = |span: Span, limit: usize, expected: &[CommitId]| {
        assert_eq!(ledger.timeline(&span, limit).unwrap(), expected, "{span:?}");
    };
    let instant = |second| Some(at(second).parse::<Timestamp>().expect("an instant"));
    let all = Span::default;
    check(all(), 9, &[b, d, c, e, a]);
    check(all(), 2, &[b, d]);
    check(Span { before: Some(d), ..all() }, 9, &[c, e, a]);
    // Of several principals at one instant, the one whose name comes last.
    check(Span { principal: Some(principal("o")), before: Some(c), ..all() }, 9, &[e]);
    check(Span { principal: Some(principal("q")), before: Some(e), ..all() }, 9, &[]);
    check(Span { principal: Some(principal("p")), before: Some(c), ..all() }, 9, &[a]);
    check(Span { before: Some(a), ..all() }, 9, &[]);
    check(Span { before: Some(CommitId::from_bytes([7; 16])), ..all() }, 9, &[]);
    check(Span { principal: Some(principal("q")), ..all() }, 9, &[d, c]);
    check(Span { principal: Some(principal("q")), before: Some(b), ..all() }, 1, &[d]);
    check(Span { since: instant(2), until: instant(2), ..all() }, 9, &[d, c, e]);
    check(Span { since: instant(2), before: Some(d), ..all() }, 1, &[c]);
    check(Span { since: instant(4), ..all() }, 9, &[]);
    check(Span { principal: Some(principal("nobody")), ..all() }, 9, &[]);
    check(all(), 0, &[]);
}

pub(super) fn commits_without_a_summary_are_listed_until_they_have_one(ledger: &dyn Ledger) {
    let ids = chain(ledger, &["delta", "delta", "delta"]);
    let say = |at: usize, summary: &str| drop(append(ledger, one(&principal("p"), &noted(&ids[at], summary))));
    assert_eq!(ledger.unsummarised(None, 9).unwrap(), ids);
    assert_eq!(ledger.unsummarised(None, 2).unwrap(), ids[..2]);
    say(1, "found it");
    assert_eq!(ledger.unsummarised(None, 9).unwrap(), [ids[0], ids[2]]);
    say(0, "asks");
    say(1, "found it, twice");
    assert_eq!(ledger.unsummarised(None, 9).unwrap(), [ids[2]]);
    say(0, "");
    assert_eq!(ledger.unsummarised(None, 9).unwrap(), [ids[0], ids[2]], "an empty one takes it away");
    assert_eq!(ledger.unsummarised(Some(&ids[1]), 9).unwrap(), [ids[2]], "after one that has a summary as well");
    assert_eq!(ledger.unsummarised(Some(&ids[2]), 9).unwrap(), []);
    assert_eq!(ledger.unsummarised(Some(&CommitId::from_bytes([7; 16])), 9).unwrap(), []);
    let summary = |at: usize| ledger.commit(&ids[at]).unwrap().expect("a commit").summary;
    assert_eq!((summary(0), summary(1)), (None, Some("found it, twice".into())));
    let absent = CommitId::from_bytes([7; 16]);
    check_refused(ledger, one(&principal("p"), &noted(&absent, "of nothing")), "commit-unknown");
}

pub(super) fn refs_move_from_where_they_are(ledger: &dyn Ledger) {
    let ids = chain(ledger, &["delta", "delta"]);
    let of = principal("~refs");
    let named = || ledger.mark(&Scope::Store, &MarkKey::Ref("main".into())).unwrap();
    append(ledger, one(&of, &ref_moved("main", Some(&ids[0]), None)));
    let error = check_refused(ledger, one(&of, &ref_moved("main", Some(&ids[1]), None)), "ref-moved");
    assert_eq!(error.kind(), ErrorKind::Conflict);
    append(ledger, one(&of, &ref_moved("main", Some(&ids[1]), Some(&ids[0]))));
    assert_eq!(named(), Some(ids[1].to_string()));
    check_refused(ledger, one(&of, &ref_moved("side", Some(&CommitId::from_bytes([7; 16])), None)), "commit-unknown");
    append(ledger, one(&of, &ref_moved("main", None, Some(&ids[1]))));
    assert_eq!(ledger.marks(&Scope::Store, &MarkKey::Ref(String::new())).unwrap(), []);
    append(ledger, one(&of, &ref_moved("main", Some(&ids[0]), None)));
    assert_eq!(named(), Some(ids[0].to_string()));
}

pub(super) fn the_same_commit_twice_is_one_and_another_under_its_id_is_refused(ledger: &dyn Ledger) {
    let (id, payload) = committed(None, "delta", "art-1", &at(1));
    append(ledger, one(&principal("p"), &payload));
    let error = check_refused(ledger, one(&principal("p"), &payload), "duplicate-commit");
    assert!(error.is_duplicate_commit());
    let other = payload.replace("\"explicit\"", "\"tool_call\"");
    let error = check_refused(ledger, one(&principal("p"), &other), "commit-conflict");
    assert_eq!((error.kind(), error.is_duplicate_commit()), (ErrorKind::Conflict, false));
    assert_eq!(ledger.commits(&[0; 16], &[0xff; 16], 9).unwrap(), [id]);
}

pub(super) fn a_compaction_and_what_it_replaces_come_together_or_not_at_all(ledger: &dyn Ledger) {
    let root = commit(ledger, "p", None, "delta", 1, "art-1");
    let pair = |kind: &str| {
        let (before, first) = committed(Some(&root), "delta", "art-2", &at(2));
        let (compaction, second) = committed(Some(&before), kind, "art-3", &at(2));
        let of = principal("p");
        ([before, compaction], make::frames(vec![frame(&of, &first), frame(&of, &second)]))
    };
    check_refused(ledger, pair("contraction").1, "commit-type-unknown");
    let ([before, compaction], batch) = pair("compaction");
    append(ledger, batch);
    assert_eq!(walked(ledger, &compaction, Stop::Root, 9), [compaction, before, root]);
    assert_eq!(walked(ledger, &compaction, Stop::Compaction, 9), [compaction]);
    assert_eq!(ledger.commit_at(&principal("p"), at(2).parse().expect("an instant")).unwrap(), Some(compaction));
}

pub(super) fn a_commit_follows_one_that_is_there(ledger: &dyn Ledger) {
    let absent = CommitId::from_bytes([7; 16]);
    check_refused(
        ledger,
        one(&principal("p"), &committed(Some(&absent), "delta", "art-1", &at(1)).1),
        "missing-parent",
    );
    let (_, orphan) = committed(None, "compaction", "art-1", &at(1));
    check_refused(ledger, one(&principal("p"), &orphan), "compaction-without-parent");
}

pub(super) fn what_is_present_is_told_of_many_at_once(ledger: &dyn Ledger) {
    let ids = chain(ledger, &["delta", "delta"]);
    let (stranger, _) = committed(None, "delta", "art-2", &at(9));
    let [kept, missing] = [ArtifactId::of(b"kept"), ArtifactId::of(b"missing")];
    let artifacts = vec![NewArtifact::from_bytes(b"kept".to_vec())];
    append(ledger, Batch { artifacts, ..Batch::default() });
    let present = ledger.present(&[ids[1], stranger, ids[0]], &[missing, kept, missing]).unwrap();
    assert_eq!((present.commits, present.artifacts), (vec![true, false, true], vec![false, true, false]));
    let nothing = ledger.present(&[], &[]).unwrap();
    assert_eq!((nothing.commits, nothing.artifacts), (Vec::new(), Vec::new()));
}

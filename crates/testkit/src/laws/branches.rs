//! Branches: what other stores wrote is kept, its commits are found, and it changes nothing else here.

use enjamb_core::frame::{KeyUse, Linked};
use enjamb_core::order::{MarkKey, Rule, Scope};
use enjamb_core::{ArtifactId, CommitId, Digest, StreamId};
use enjamb_ledger::{Batch, Ledger, LedgerError, Span};

use crate::make::{self, append, committed, frame, one, refused, stored, stream};

/// Frames of a stream as another ledger has them, each after the other.
fn elsewhere(of: &StreamId, from: u64, after: Digest, payloads: &[String]) -> Vec<Linked> {
    let mut frames: Vec<Linked> = Vec::new();
    for (seq, payload) in (from..).zip(payloads) {
        let after = frames.last().map_or(after, Linked::chain);
        let envelope = format!(
            r#"{{"id":"e{seq}","session_id":"{0}","stream_kind":"{1}","stream_id":"{0}","timestamp_ms":5,"seq":{seq},"#,
            of.id,
            of.kind.as_str()
        );
        let json = format!("{envelope}{}", &payload[1..]).into_bytes();
        frames.push(Linked { stream: of.clone(), seq, key: None, after, json });
    }
    frames
}

fn keep(ledger: &dyn Ledger, frames: &[Linked]) {
    let branch = frames[0].branch();
    for (seq, kept) in (0..).zip(frames) {
        let json = kept.to_kept(&branch, seq).expect("a frame");
        append(ledger, one(&branch, std::str::from_utf8(&json).expect("text")));
    }
}

fn commit_of(parent: Option<&CommitId>, text: &str, at: &str) -> (CommitId, String) {
    committed(parent, "delta", &ArtifactId::of(text.as_bytes()).to_string(), at)
}

pub fn commits_of_a_branch_are_found_where_they_came_from(ledger: &dyn Ledger) {
    let dana = stream("context/dana");
    let (base, payload) = commit_of(None, "base", "2026-11-01T00:00:00Z");
    append(ledger, one(&dana, &payload));
    let start = ledger.stream(&dana).expect("a stream").expect("it is there");
    let (ours, payload) = commit_of(Some(&base), "ours", "2026-11-02T00:00:00Z");
    append(ledger, one(&dana, &payload));
    let (theirs, first) = commit_of(Some(&base), "theirs", "2026-11-03T00:00:00Z");
    let (last, second) = commit_of(Some(&theirs), "last", "2026-11-04T00:00:00Z");
    keep(ledger, &elsewhere(&dana, 1, start.chain, &[first, second]));
    let found = ledger.commit(&last).expect("a commit").expect("it is there");
    assert_eq!((found.stream, found.seq, found.link.parent), (dana.clone(), 2, Some(theirs)));
    assert_eq!(ledger.children(&base).expect("children"), [ours, theirs]);
    assert_eq!(ledger.timeline(&Span::default(), 9).expect("commits"), [last, theirs, ours, base]);
    let before = Span { before: Some(theirs), ..Span::default() };
    assert_eq!(ledger.timeline(&before, 9).expect("commits"), [ours, base]);
    let late = "2027-01-01T00:00:00Z".parse().expect("a time");
    assert_eq!(ledger.commit_at(&dana, late).expect("a commit"), Some(ours), "the stream is what was written here");
    let again = refused(ledger, one(&dana, &commit_of(Some(&base), "theirs", "2026-11-03T00:00:00Z").1));
    assert!(matches!(again, LedgerError::Refused(refusal) if refusal.rule == Rule::DuplicateCommit));
}

pub fn a_commit_that_is_here_stays_what_it_is(ledger: &dyn Ledger) {
    let (id, payload) = commit_of(None, "one", "2026-11-01T00:00:00Z");
    append(ledger, one(&stream("context/dana"), &payload));
    let other = payload.replace(r#""message_count":0"#, r#""message_count":7"#);
    keep(ledger, &elsewhere(&stream("context/lee"), 0, Digest::ZERO, std::slice::from_ref(&other)));
    let found = ledger.commit(&id).expect("a commit").expect("it is there");
    assert_eq!((found.stream, found.commit.message_count), (stream("context/dana"), 0));
    assert_eq!(ledger.timeline(&Span::default(), 9).expect("commits"), [id]);
    let again = refused(ledger, one(&stream("context/kim"), &other));
    assert!(matches!(again, LedgerError::Refused(refusal) if refusal.rule == Rule::CommitConflict));
}

pub fn what_a_branch_says_moves_nothing_here(ledger: &dyn Ledger) {
    let (ours, theirs) = (stored(ledger, b"ours"), stored(ledger, b"theirs"));
    let tags = StreamId::artifacts();
    append(ledger, one(&tags, &make::tagged("name", Some(&ours), None)));
    keep(ledger, &elsewhere(&tags, 0, Digest::ZERO, &[make::tagged("name", Some(&theirs), None)]));
    let tag = ledger.mark(&Scope::Store, &MarkKey::Tag("name".into())).expect("a mark");
    assert_eq!(tag, Some(ours.to_hex()));
    append(ledger, one(&tags, &make::condemned(&theirs)));
    keep(ledger, &elsewhere(&tags, 3, Digest::of(b"x"), &[make::tagged("other", Some(&theirs), None)]));
    let late = refused(ledger, one(&tags, &make::dropped(&theirs)));
    assert!(matches!(late, LedgerError::Refused(refusal) if refusal.rule == Rule::NotCondemned), "it is needed");
}

pub fn a_branch_holds_what_follows_and_nothing_else(ledger: &dyn Ledger) {
    let frames = elsewhere(&stream("session/s"), 0, Digest::ZERO, &[make::output("a"), make::output("b")]);
    let branch = frames[0].branch();
    let kept = |at: usize, seq| String::from_utf8(frames[at].to_kept(&branch, seq).expect("a frame")).expect("text");
    let is_refused = |payload: &str| {
        let error = refused(ledger, one(&branch, payload));
        assert!(matches!(error, LedgerError::Refused(refusal) if refusal.rule == Rule::BranchMalformed), "{payload}");
    };
    is_refused(&make::output("x"));
    is_refused(&kept(1, 0));
    is_refused(&kept(0, 0).replace("\"a\"", "\"c\""));
    append(ledger, one(&branch, &kept(0, 0)));
    is_refused(&kept(0, 0).replace("\"seq\":0,\"type\":\"frame_kept\"", "\"seq\":1,\"type\":\"frame_kept\""));
    append(ledger, one(&branch, &kept(1, 1)));
    assert_eq!(ledger.stream(&stream("session/s")).expect("no stream"), None);
}

pub fn a_key_of_elsewhere_is_kept_with_its_frame(ledger: &dyn Ledger) {
    let session = stream("session/s");
    let used = KeyUse { key: "k".into(), request: [7; 16], frames: 1 };
    let batch = Batch {
        former_keys: [(1, used.clone())].into(),
        ..make::frames(vec![frame(&session, &make::output("a")), frame(&session, &make::output("b"))])
    };
    append(ledger, batch);
    let keys: Vec<_> = ledger.frames(&session, 0, 9).expect("frames").into_iter().map(|frame| frame.key).collect();
    assert_eq!(keys, [None, Some(used)]);
    let other = Batch { idempotency_key: Some("k".into()), ..one(&session, &make::output("c")) };
    assert!(matches!(refused(ledger, other), LedgerError::KeyReused { seq: 1, .. }));
}

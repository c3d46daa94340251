//! The laws of taking what another store has: nothing is lost, nothing is mixed, and taking it twice changes nothing.

use enjamb_core::chain::Stop;
use enjamb_core::order::{MarkKey, Scope};
use enjamb_core::sync::Package;
use enjamb_core::{CommitId, StreamId};
use enjamb_ledger::{Ledger, Span};
use enjamb_testkit::home::Home;

use super::*;
use crate::{Actor, Append, Checkpoint, Content, DraftLine, Env, Expect, Materialize, PutOptions, ServiceError};

fn store(home: &Home, name: &str) -> Store {
    Store::create(&home.store_named(name), Env::system()).expect("a store")
}

/// Hands on all that one store has, page by page, as `server::sync` does by requests.
fn give(from: &Store, to: &Store) -> Received {
    let (mut after, mut total) = (0, Received::default());
    loop {
        let page = from.sync_frames(None, after).expect("frames");
        let ids: Vec<_> = page.needs.iter().map(|(id, _)| *id).collect();
        let missing = to.sync_missing(&ids).expect("what is missing");
        let mut package = Package::read(&from.sync_artifacts(&missing).expect("bytes")).expect("a package");
        package.frames = page.frames;
        let received = to.sync_receive(&package).expect("it is stored");
        total.appended += received.appended;
        total.kept += received.kept;
        total.artifacts += received.artifacts;
        if page.done {
            return total;
        }
        after = page.next;
    }
}

fn commit(store: &Store, parent: Option<CommitId>, text: &str) -> CommitId {
    let content = Content::Bytes(format!("{{\"role\":\"user\",\"content\":\"{text}\"}}\n").into_bytes());
    store.checkpoint(Checkpoint { parent, ..Checkpoint::new(content, "generic-v1", "dana") }).expect("a commit").id
}

fn say(store: &Store, stream: &str, json: &str, key: Option<&str>) {
    let lines = vec![DraftLine { line: 1, json: json.as_bytes().to_vec() }];
    let stream: StreamId = stream.parse().expect("a name");
    let append = Append { lines, stream: Some(stream), idempotency_key: key.map(str::to_owned), ..Append::default() };
    store.append(append).expect("it is appended");
}

fn conversation(store: &Store, tip: CommitId) -> String {
    let mut out = Vec::new();
    let request = Materialize { tip: Some(tip), stop: Stop::Root, format: None };
    let mut take = |part: &[u8]| {
        out.extend_from_slice(part);
        Ok(())
    };
    store.materialize(&request, &mut take).expect("a conversation");
    String::from_utf8(out).expect("text")
}

#[track_caller]
fn check_whole(store: &Store) {
    let checked = store.verify(false, &mut |_, _| {}).expect("it is checked");
    assert_eq!(checked.findings, Vec::new());
}

#[track_caller]
fn check_same(a: &Store, b: &Store) {
    assert_eq!(a.sync_root().expect("a root"), b.sync_root().expect("a root"));
    check_whole(a);
    check_whole(b);
}

#[test]
fn what_is_given_is_the_same_frame_by_frame_with_keys() {
    let home = Home::new();
    let (a, b) = (store(&home, "a"), store(&home, "b"));
    let first = commit(&a, None, "one");
    let second = commit(&a, Some(first), "two");
    say(&a, "session/s", r#"{"type":"odd","n":1.50}"#, Some("key-1"));
    let id = a.put(&mut b"named".as_slice(), &PutOptions::default()).expect("bytes").id;
    a.tag("name", Some(id), Expect::Anything, &Actor::default()).expect("a tag");
    say(&a, "audit/access", r#"{"type":"access_recorded"}"#, None);
    let received = give(&a, &b);
    assert_eq!((received.appended, received.kept, received.artifacts), (4, 0, 3));
    check_same(&a, &b);
    assert_eq!(conversation(&b, second), conversation(&a, second));
    assert_eq!(b.tagged("name").expect("a tag"), Some(id));
    let session: StreamId = "session/s".parse().expect("a name");
    assert_eq!(a.ledger.frames(&session, 0, 9).expect("frames"), b.ledger.frames(&session, 0, 9).expect("frames"));
    say(&b, "session/s", r#"{"type":"odd","n":1.50}"#, Some("key-1"));
    assert_eq!(b.ledger.stream(&session).expect("a stream").map(|stream| stream.next_seq), Some(1), "a retry is one");
    assert!(b.ledger.stream(&"audit/access".parse().expect("a name")).expect("no stream").is_none());
    assert_eq!(give(&a, &b), Received::default());
}

#[test]
fn with_a_private_thread_stay_its_runs_and_their_commits() {
    let home = Home::new();
    let (a, b) = (store(&home, "a"), store(&home, "b"));
    let by = Actor::default();
    let (thread, other) =
        (a.create_thread("/w", None).expect("a thread"), a.create_thread("/w", None).expect("a thread"));
    let spawned = r#"{"type":"continuity_run_spawned","run_session_id":"r1","message_id":"m"}"#;
    say(&a, &thread.to_string(), spawned, None);
    say(&a, "session/r1", r#"{"type":"odd","said":"a secret"}"#, None);
    say(&a, "session/r2", r#"{"type":"odd"}"#, None);
    let principal = format!("thread/{}", thread.id);
    let content = Content::Bytes(b"{\"role\":\"user\",\"content\":\"x\"}\n".to_vec());
    let id = a.checkpoint(Checkpoint::new(content, "generic-v1", &principal)).expect("a commit").id;
    let root = a.sync_root().expect("a root");
    assert!(a.mark_private(&thread, true, &by).expect("it is marked"));
    assert!(!a.mark_private(&thread, true, &by).expect("it is marked"), "once");
    assert_ne!(a.sync_root().expect("a root"), root);
    give(&a, &b);
    let names = |store: &Store| -> Vec<String> {
        let all = store.ledger.streams(None, enjamb_ledger::StreamOrder::Name, 99).expect("streams");
        all.into_iter().map(|summary| summary.stream.to_string()).collect()
    };
    assert_eq!(names(&b), [other.to_string(), "session/r2".to_owned()]);
    assert!(b.show(&id).is_err());
    check_same(&a, &b);
    // Whoever asks for it by name gets none of it either.
    let want = Want { stream: thread.clone(), have: Vec::new() };
    assert!(a.sync_frames(Some(&[want]), 0).expect("a page").frames.is_empty());
    assert!(a.mark_private(&thread, false, &by).expect("it is let go"));
    assert_eq!(a.sync_root().expect("a root"), root);
    give(&a, &b);
    assert!(b.show(&id).is_ok() && names(&b).len() == 5);
}

#[test]
fn what_both_wrote_is_kept_beside_and_both_come_to_the_same() {
    let home = Home::new();
    let (a, b, c) = (store(&home, "a"), store(&home, "b"), store(&home, "c"));
    let base = commit(&a, None, "base");
    give(&a, &b);
    let ours = commit(&a, Some(base), "ours");
    let theirs = commit(&b, Some(commit(&b, Some(base), "theirs")), "and more");
    assert_eq!(give(&b, &a), Received { kept: 2, artifacts: 2, ..Received::default() });
    assert_eq!(give(&b, &a), Received::default());
    assert_eq!(give(&a, &b), Received { kept: 1, artifacts: 1, ..Received::default() });
    check_same(&a, &b);
    for tip in [ours, theirs] {
        assert_eq!(conversation(&a, tip), conversation(&b, tip));
    }
    assert_eq!(a.ledger.timeline(&Span::default(), 9).expect("commits").len(), 4);
    assert_eq!(a.show(&theirs).expect("a commit").stream.to_string(), "context/dana");
    // Both go on, and a third store has all of it whichever it asks.
    commit(&a, Some(theirs), "ours again");
    commit(&b, Some(theirs), "theirs again");
    give(&a, &b);
    give(&b, &a);
    give(&b, &c);
    assert_eq!(give(&a, &c), Received::default());
    check_same(&a, &b);
    check_same(&b, &c);
}

#[test]
fn what_the_rules_refuse_here_is_kept_and_loses_nothing() {
    let home = Home::new();
    let (a, b) = (store(&home, "a"), store(&home, "b"));
    let ours = commit(&a, None, "ours");
    let content = Content::Bytes(b"{\"role\":\"user\",\"content\":\"lee\"}\n".to_vec());
    let theirs = b.checkpoint(Checkpoint::new(content, "generic-v1", "lee")).expect("a commit").id;
    for (store, id) in [(&a, ours), (&b, theirs)] {
        store.move_reference("main", Some(id), Expect::Anything, &Actor::default()).expect("a ref");
    }
    give(&a, &b);
    give(&b, &a);
    check_same(&a, &b);
    assert_eq!(a.ledger.mark(&Scope::Store, &MarkKey::Ref("main".into())).expect("a ref"), Some(ours.to_string()));
    assert_eq!(b.ledger.mark(&Scope::Store, &MarkKey::Ref("main".into())).expect("a ref"), Some(theirs.to_string()));
}

#[test]
fn nothing_is_dropped_because_another_store_did() {
    let home = Home::new();
    let (a, b) = (store(&home, "a"), store(&home, "b"));
    let options = PutOptions { ttl_ms: Some(0), ..PutOptions::default() };
    let id = a.put(&mut b"{\"role\":\"user\",\"content\":\"for a while\"}\n".as_slice(), &options).expect("bytes").id;
    give(&a, &b);
    let content = Content::Stored(id);
    b.checkpoint(Checkpoint::new(content, "generic-v1", "dana")).expect("a commit");
    let by = Actor::default();
    assert_eq!(a.gc_run(&by, &mut |_, _| {}).expect("a cycle").condemned, 1);
    assert_eq!(a.gc_run(&by, &mut |_, _| {}).expect("a cycle").dropped, 1);
    give(&a, &b);
    assert!(b.artifact(&id).is_ok(), "it is needed here");
    give(&b, &a);
    check_same(&a, &b);
}

#[test]
fn a_frame_that_follows_nothing_is_refused() {
    let home = Home::new();
    let (a, b) = (store(&home, "a"), store(&home, "b"));
    let base = commit(&a, None, "base");
    commit(&a, Some(base), "next");
    let mut frames = a.sync_frames(None, 0).expect("frames").frames;
    let package = Package { frames: frames.split_off(1), ..Package::default() };
    assert!(matches!(b.sync_receive(&package), Err(ServiceError::Sync(SyncError::Gap { seq: 1, .. }))));
    let mut changed = Package { frames, ..Package::default() };
    changed.frames[0].seq = 7;
    assert!(matches!(b.sync_receive(&changed), Err(ServiceError::Sync(SyncError::Misplaced { .. }))));
    changed.frames[0].stream = "audit/access".parse().expect("a name");
    assert!(matches!(b.sync_receive(&changed), Err(ServiceError::Sync(SyncError::Private(_)))));
    assert_eq!(b.ledger.position().expect("a number"), 0, "nothing was stored");
}

#[test]
fn the_way_back_from_a_tip_goes_through_branches() {
    let home = Home::new();
    let (a, b) = (store(&home, "a"), store(&home, "b"));
    let mut tip = None;
    for turn in 0..20 {
        tip = Some(commit(&a, tip, &format!("turn {turn}")));
    }
    give(&a, &b);
    for turn in 0..5 {
        commit(&b, tip, &format!("b {turn}"));
    }
    commit(&a, tip, "a");
    give(&b, &a);
    let stream: StreamId = "context/dana".parse().expect("a name");
    let end = b.ledger.stream(&stream).expect("a stream").expect("it is there");
    let tip = Point { stream, seq: end.next_seq - 1, chain: end.chain };
    let points = a.sync_points(&tip).expect("points");
    assert_eq!(points.iter().map(|point| point.seq).collect::<Vec<_>>(), [23, 22, 20, 16, 8]);
    assert_eq!(b.sync_known(&points).expect("what is known"), [true; 5]);
    assert_eq!(a.sync_points(&tip).expect("points"), b.sync_points(&tip).expect("points"));
}

#[test]
fn bytes_that_changed_on_the_way_are_refused_and_nothing_is_stored() {
    let home = Home::new();
    let (a, b) = (store(&home, "a"), store(&home, "b"));
    commit(&a, None, "one");
    let page = a.sync_frames(None, 0).expect("frames");
    let ids: Vec<_> = page.needs.iter().map(|(id, _)| *id).collect();
    let artifacts = Package::read(&a.sync_artifacts(&ids).expect("bytes")).expect("a package").artifacts;
    let mut package = Package { artifacts, frames: page.frames, needs: page.needs };
    package.artifacts[0][9] ^= 1;
    let refused = b.sync_receive(&package);
    assert!(matches!(refused, Err(ServiceError::Sync(SyncError::Incomplete(id))) if id == ids[0]), "{refused:?}");
    assert_eq!(b.ledger.position().expect("a number"), 0, "nothing was stored");
}

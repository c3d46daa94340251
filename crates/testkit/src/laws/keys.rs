//! Laws of idempotency keys: a retry is the same request, not another one.

use enjamb_core::{ErrorKind, StreamId, limits};
use enjamb_ledger::{Appended, Batch, Ledger, LedgerError, NewArtifact, NewFrame};

use super::batches::check_refused;
use crate::make::{self, append, frame, one, output, stream};
use crate::questions::{assert_same, fingerprint};

fn keyed(of: &StreamId, key: &str, texts: &[&str]) -> Batch {
    Batch {
        artifacts: vec![NewArtifact::from_bytes(b"bytes".to_vec())],
        frames: texts.iter().map(|text| frame(of, &output(text))).collect(),
        idempotency_key: Some(key.to_owned()),
        ..Batch::default()
    }
}

pub(super) fn a_retry_answers_the_same_and_writes_nothing(ledger: &dyn Ledger) {
    let session = stream("session/a");
    append(ledger, one(&session, &output("before")));
    let first = append(ledger, keyed(&session, "k", &["x", "y"]));
    assert!(!first.replayed);
    append(ledger, one(&session, &output("after")));
    let before = fingerprint(ledger);
    for _ in 0..2 {
        let again = append(ledger, keyed(&session, "k", &["x", "y"]));
        assert_eq!(again, Appended { replayed: true, ..first.clone() });
    }
    assert_same(&before, &fingerprint(ledger));
}

pub(super) fn a_retry_over_several_streams_answers_all_of_it(ledger: &dyn Ledger) {
    let (a, b, c) = (stream("session/a"), stream("session/b"), stream("session/c"));
    append(ledger, one(&b, &output("before")));
    let request = |streams: &[&StreamId]| Batch {
        frames: streams.iter().map(|of| frame(of, &output("x"))).collect(),
        idempotency_key: Some("k".into()),
        ..Batch::default()
    };
    let first = append(ledger, request(&[&a, &b, &a, &b]));
    append(ledger, one(&a, &output("after")));
    assert_eq!(append(ledger, request(&[&a, &b, &a, &b])), Appended { replayed: true, ..first });
    // The key is taken in each of the streams, whichever comes first.
    check_refused(ledger, request(&[&b]), "idempotency-key-reused");
    check_refused(ledger, request(&[&c, &b]), "idempotency-key-reused");
    assert!(!append(ledger, request(&[&c])).replayed);
}

pub(super) fn a_retry_may_have_another_id_and_time(ledger: &dyn Ledger) {
    let session = stream("session/a");
    let request = |id: &str, timestamp_ms| {
        let given = NewFrame { id: id.to_owned(), timestamp_ms, ..frame(&session, &output("x")) };
        Batch { frames: vec![given], idempotency_key: Some("k".into()), ..Batch::default() }
    };
    append(ledger, request("i1", 1));
    assert!(append(ledger, request("i2", 2)).replayed);
    assert_eq!(ledger.frames(&session, 0, 9).unwrap().len(), 1);
}

pub(super) fn a_key_belongs_to_one_request(ledger: &dyn Ledger) {
    let session = stream("session/a");
    append(ledger, one(&session, &output("before")));
    append(ledger, keyed(&session, "k", &["x"]));
    let mut other_bytes = keyed(&session, "k", &["x"]);
    other_bytes.artifacts = vec![NewArtifact::from_bytes(b"other".to_vec())];
    for other in [keyed(&session, "k", &["y"]), keyed(&session, "k", &["x", "x"]), other_bytes] {
        let error = check_refused(ledger, other, "idempotency-key-reused");
        assert_eq!(error.kind(), ErrorKind::Conflict);
        assert!(matches!(error, LedgerError::KeyReused { seq: 1, .. }), "{error:?}");
    }
    assert!(!append(ledger, keyed(&session, "k2", &["y"])).replayed);
}

pub(super) fn a_key_belongs_to_one_stream(ledger: &dyn Ledger) {
    let (a, b) = (stream("session/a"), stream("session/b"));
    append(ledger, keyed(&a, "k", &["x"]));
    assert!(!append(ledger, keyed(&b, "k", &["y"])).replayed);
    assert!(append(ledger, keyed(&a, "k", &["x"])).replayed);
    assert!(append(ledger, keyed(&b, "k", &["y"])).replayed);
}

pub(super) fn a_refused_request_leaves_its_key_free(ledger: &dyn Ledger) {
    let session = stream("session/a");
    let early = NewFrame { expected_seq: Some(1), ..frame(&session, &output("x")) };
    let batch = Batch { frames: vec![early], idempotency_key: Some("k".into()), ..Batch::default() };
    check_refused(ledger, batch, "seq-conflict");
    assert!(!append(ledger, keyed(&session, "k", &["y"])).replayed);
}

pub(super) fn a_key_is_short_and_visible(ledger: &dyn Ledger) {
    let session = stream("session/a");
    let longest = "k".repeat(limits::IDEMPOTENCY_KEY_BYTES_MAX);
    for key in ["", "a b", "tab\t", "é", "\0", &format!("{longest}k")] {
        let error = check_refused(ledger, keyed(&session, key, &["x"]), "bad-idempotency-key");
        assert_eq!(error.kind(), ErrorKind::Invalid);
    }
    assert!(!append(ledger, keyed(&session, &longest, &["x"])).replayed);
    assert!(append(ledger, keyed(&session, &longest, &["x"])).replayed);
    assert!(!make::append(ledger, keyed(&session, &longest[1..], &["x"])).replayed);
}

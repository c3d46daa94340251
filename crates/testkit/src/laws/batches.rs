//! Laws of batches: the unit of everything that is written.

use enjamb_core::{ArtifactId, ErrorKind, limits};
use enjamb_ledger::{Batch, FrameAt, Ledger, LedgerError, NewArtifact, NewFrame};

use crate::make::{self, append, frame, one, output, refused, stream};
use crate::questions::{assert_same, fingerprint};

/// Fails unless the batch is refused with this code and leaves no trace.
#[track_caller]
pub(super) fn check_refused(ledger: &dyn Ledger, batch: Batch, code: &str) -> LedgerError {
    let before = fingerprint(ledger);
    let error = refused(ledger, batch);
    assert_eq!(error.code(), code, "{error}");
    assert_same(&before, &fingerprint(ledger));
    error
}

pub(super) fn a_batch_is_all_or_nothing(ledger: &dyn Ledger) {
    let (a, b) = (stream("session/a"), stream("session/b"));
    append(ledger, one(&b, make::session_ended()));
    let batch = || Batch {
        artifacts: vec![NewArtifact::from_bytes(b"bytes".to_vec())],
        frames: vec![frame(&a, &output("x")), frame(&a, &output("y")), frame(&b, &output("too late"))],
        idempotency_key: Some("k".into()),
        ..Batch::default()
    };
    check_refused(ledger, batch(), "session-ended");
    assert_eq!(ledger.artifact(&ArtifactId::of(b"bytes")).unwrap(), None);
    assert_eq!(ledger.stream(&a).unwrap(), None);
    assert_eq!(append(ledger, one(&a, &output("x"))).frames[0].seq, 0);
}

pub(super) fn a_batch_may_span_streams(ledger: &dyn Ledger) {
    let (a, b) = (stream("session/a"), stream("continuity/b"));
    let frames = vec![frame(&a, &output("x")), frame(&b, &make::message("y")), frame(&a, &output("z"))];
    let at = |of: &enjamb_core::StreamId, seq| FrameAt { stream: of.clone(), seq };
    assert_eq!(append(ledger, make::frames(frames)).frames, [at(&a, 0), at(&b, 0), at(&a, 1)]);
    assert_eq!(ledger.frames(&a, 0, 9).unwrap().len(), 2);
    assert_eq!(ledger.frames(&b, 0, 9).unwrap().len(), 1);
}

pub(super) fn batches_that_come_together_are_answered_each_for_itself(ledger: &dyn Ledger) {
    let (a, b) = (stream("session/a"), stream("session/b"));
    let bad_key = Batch { idempotency_key: Some("no key".into()), ..one(&a, &output("never")) };
    let wrong = make::frames(vec![NewFrame { expected_seq: Some(7), ..frame(&a, &output("never")) }]);
    let batches = vec![one(&a, &output("x")), bad_key, wrong, one(&b, &output("y")), one(&a, &output("z"))];
    let told = ledger.append_all(batches).into_iter().map(|answer| match answer {
        Ok(appended) => format!("{} {}", appended.frames[0].stream, appended.frames[0].seq),
        Err(error) => error.code().to_owned(),
    });
    let told: Vec<_> = told.collect();
    assert_eq!(told, ["session/a 0", "bad-idempotency-key", "seq-conflict", "session/b 0", "session/a 1"]);
    assert_eq!(ledger.frames(&a, 0, 9).unwrap().len(), 2);
    assert!(ledger.append_all(Vec::new()).is_empty());
}

pub(super) fn an_expected_seq_that_is_not_next_is_a_conflict(ledger: &dyn Ledger) {
    let session = stream("session/a");
    let at = |seq| make::frames(vec![NewFrame { expected_seq: Some(seq), ..frame(&session, &output("x")) }]);
    append(ledger, at(0));
    append(ledger, at(1));
    for wrong in [0, 1, 3, u64::MAX] {
        let error = check_refused(ledger, at(wrong), "seq-conflict");
        assert_eq!(error.kind(), ErrorKind::Conflict);
        match error {
            LedgerError::SeqConflict { stream, expected, actual } => {
                assert_eq!((stream, expected, actual), (session.clone(), wrong, 2));
            }
            other => panic!("{other:?}"),
        }
    }
    append(ledger, at(2));
}

pub(super) fn a_drafts_own_seq_that_is_not_next_is_a_conflict(ledger: &dyn Ledger) {
    let session = stream("session/a");
    let at = |seq: u64| one(&session, &format!(r#"{{"type":"output_text_delta","delta":"x","seq":{seq}}}"#));
    append(ledger, at(0));
    for wrong in [0, 2, u64::MAX] {
        let error = check_refused(ledger, at(wrong), "seq-conflict");
        let named = matches!(error, LedgerError::SeqConflict { expected, actual: 1, .. } if expected == wrong);
        assert!(named, "{error:?}");
    }
    append(ledger, at(1));
}

pub(super) fn a_batch_has_at_most_so_many_frames(ledger: &dyn Ledger) {
    let session = stream("session/a");
    let many = |count: usize| make::frames((0..count).map(|_| frame(&session, &output("x"))).collect());
    let error = check_refused(ledger, many(limits::BATCH_FRAMES_MAX + 1), "too-large");
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert_eq!(append(ledger, many(limits::BATCH_FRAMES_MAX)).frames.len(), limits::BATCH_FRAMES_MAX);
}

pub(super) fn an_empty_batch_changes_nothing(ledger: &dyn Ledger) {
    append(ledger, one(&stream("session/a"), &output("x")));
    let before = fingerprint(ledger);
    assert_eq!(append(ledger, Batch::default()).frames, []);
    append(ledger, Batch { idempotency_key: Some("k".into()), ..Batch::default() });
    assert_same(&before, &fingerprint(ledger));
}

pub(super) fn a_frame_belongs_to_its_stream(ledger: &dyn Ledger) {
    let session = stream("session/a");
    append(ledger, one(&session, &output("x")));
    let elsewhere = r#"{"type":"output_text_delta","delta":"x","session_id":"b"}"#;
    check_refused(ledger, one(&session, elsewhere), "stream-mismatch");
    check_refused(ledger, one(&session, &make::message("in a session")), "stream-mismatch");
    check_refused(ledger, one(&stream("wild/a"), &output("x")), "stream-mismatch");
    append(ledger, one(&stream("wild/a"), r#"{"type":"from_the_future"}"#));
}

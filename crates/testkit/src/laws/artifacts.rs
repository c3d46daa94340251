//! Laws of artifacts: bytes under the digest of their bytes, until they are dropped.

use std::io;
use std::ops::Range;

use enjamb_core::order::{MarkKey, Scope};
use enjamb_core::{ArtifactId, ErrorKind, StreamId, limits};
use enjamb_ledger::{ArtifactSummary, Batch, Ledger, LedgerError, NewArtifact, Result};

use super::batches::check_refused;
use crate::make::{self, append, one, output, stored, stream};

fn part(ledger: &dyn Ledger, id: &ArtifactId, range: Range<u64>) -> Result<Vec<u8>> {
    let mut out = Vec::new();
    let mut sink = |bytes: &[u8]| {
        out.extend_from_slice(bytes);
        Ok(())
    };
    ledger.read(id, Some(range), &mut sink).map(|()| out)
}

pub(super) fn bytes_come_back(ledger: &dyn Ledger) {
    let long: Vec<u8> = (0..100_000u32).map(|at| (at * 7 / 3) as u8).collect();
    for content in [&b""[..], b"\0", b"hello", &long] {
        let id = stored(ledger, content);
        assert_eq!(make::read(ledger, &id).unwrap(), content);
        assert_eq!(ledger.artifact(&id).unwrap(), Some(ArtifactSummary { id, len: content.len() as u64 }));
    }
}

pub(super) fn equal_bytes_are_one_artifact(ledger: &dyn Ledger) {
    let twice = Batch {
        artifacts: vec![NewArtifact::from_bytes(b"same".to_vec()), NewArtifact::from_bytes(b"same".to_vec())],
        ..Batch::default()
    };
    append(ledger, twice);
    for _ in 0..2 {
        let id = stored(ledger, b"same");
        append(ledger, Batch { artifacts: vec![NewArtifact { id, bytes: None }], ..Batch::default() });
        assert_eq!(ledger.artifacts(&[0; 32], &[0xff; 32], 9).unwrap(), [ArtifactSummary { id, len: 4 }]);
    }
    let totals = ledger.totals().unwrap();
    assert_eq!((totals.artifacts, totals.artifact_bytes), (1, 4));
}

pub(super) fn ranges_are_cut_exactly(ledger: &dyn Ledger) {
    let id = stored(ledger, b"0123456789");
    for (range, expected) in [(0..10, &b"0123456789"[..]), (0..0, b""), (3..7, b"3456"), (9..10, b"9"), (10..10, b"")] {
        assert_eq!(part(ledger, &id, range).unwrap(), expected);
    }
}

pub(super) fn a_range_past_the_end_is_refused(ledger: &dyn Ledger) {
    let id = stored(ledger, b"0123456789");
    #[allow(clippy::reversed_empty_ranges, reason = "a caller may send one")]
    for range in [0..11, 11..11, 7..3, 0..u64::MAX, u64::MAX..u64::MAX] {
        let error = part(ledger, &id, range.clone()).unwrap_err();
        assert_eq!((error.kind(), error.code()), (ErrorKind::Invalid, "bad-range"));
        let named = matches!(error, LedgerError::BadRange { from, to, len: 10, .. } if (from..to) == range);
        assert!(named, "{error:?}");
    }
}

pub(super) fn what_is_not_there_is_not_found(ledger: &dyn Ledger) {
    stored(ledger, b"something");
    let id = ArtifactId::of(b"nothing");
    assert_eq!(ledger.artifact(&id).unwrap(), None);
    let error = make::read(ledger, &id).unwrap_err();
    assert_eq!((error.kind(), error.code()), (ErrorKind::NotFound, "artifact-not-found"));
    assert_eq!(part(ledger, &id, 5..9).unwrap_err().code(), "artifact-not-found");
}

pub(super) fn an_artifact_said_to_be_there_has_to_be(ledger: &dyn Ledger) {
    let known = |content: &[u8]| NewArtifact { id: ArtifactId::of(content), bytes: None };
    let batch = |artifacts| Batch { artifacts, ..one(&stream("session/a"), &output("x")) };
    let error = check_refused(ledger, batch(vec![known(b"absent")]), "artifact-gone");
    assert_eq!(error.kind(), ErrorKind::Conflict);
    append(ledger, batch(vec![NewArtifact::from_bytes(b"absent".to_vec()), known(b"absent")]));
    append(ledger, batch(vec![known(b"absent")]));
}

pub(super) fn an_inline_artifact_has_a_largest_size(ledger: &dyn Ledger) {
    let mut content = vec![7; limits::ARTIFACT_INLINE_BYTES_MAX + 1];
    check_refused(ledger, make::bytes(&content), "too-large");
    content.pop();
    let id = stored(ledger, &content);
    assert_eq!(make::read(ledger, &id).unwrap(), content);
}

pub(super) fn writing_about_bytes_does_not_touch_them(ledger: &dyn Ledger) {
    let id = stored(ledger, b"bytes");
    append(ledger, one(&StreamId::artifacts(), &make::written(&id)));
    append(ledger, one(&StreamId::artifacts(), &make::tagged("t", Some(&id), None)));
    assert_eq!(make::read(ledger, &id).unwrap(), b"bytes");
    assert_eq!(ledger.totals().unwrap().artifacts, 1);
}

fn condemn_and_drop(ledger: &dyn Ledger, id: &ArtifactId) {
    append(ledger, one(&StreamId::artifacts(), &make::condemned(id)));
    append(ledger, one(&StreamId::artifacts(), &make::dropped(id)));
}

pub(super) fn what_was_condemned_and_dropped_is_gone(ledger: &dyn Ledger) {
    let (id, other) = (stored(ledger, b"bytes"), stored(ledger, b"other"));
    append(ledger, one(&StreamId::artifacts(), &make::condemned(&id)));
    assert_eq!(make::read(ledger, &id).unwrap(), b"bytes", "the condemned are still here");
    assert_eq!(ledger.mark(&Scope::Store, &MarkKey::Condemned(id)).unwrap(), Some("1".into()));
    append(ledger, one(&StreamId::artifacts(), &make::dropped(&id)));
    assert_eq!(ledger.artifact(&id).unwrap(), None);
    assert_eq!(make::read(ledger, &id).unwrap_err().code(), "artifact-not-found");
    assert_eq!(ledger.artifacts(&[0; 32], &[0xff; 32], 9).unwrap(), [ArtifactSummary { id: other, len: 5 }]);
    assert_eq!(ledger.totals().unwrap().artifacts, 1);
    assert_eq!(ledger.totals().unwrap().artifact_bytes, 5);
    let relied_on = Batch { artifacts: vec![NewArtifact { id, bytes: None }], ..Batch::default() };
    check_refused(ledger, relied_on, "artifact-gone");
    check_refused(ledger, one(&StreamId::artifacts(), &make::condemned(&id)), "artifact-gone");
    check_refused(ledger, one(&StreamId::artifacts(), &make::dropped(&id)), "not-condemned");
}

pub(super) fn what_was_dropped_can_be_stored_again(ledger: &dyn Ledger) {
    let id = stored(ledger, b"bytes");
    for _ in 0..2 {
        condemn_and_drop(ledger, &id);
        assert_eq!(ledger.artifact(&id).unwrap(), None);
        stored(ledger, b"bytes");
        assert_eq!(make::read(ledger, &id).unwrap(), b"bytes");
        assert_eq!(ledger.totals().unwrap().artifacts, 1);
    }
}

pub(super) fn a_mention_spares_the_condemned(ledger: &dyn Ledger) {
    let session = stream("session/a");
    let id = stored(ledger, b"bytes");
    for mention in [id.to_hex(), id.to_string()] {
        append(ledger, one(&StreamId::artifacts(), &make::condemned(&id)));
        append(ledger, one(&session, &output(&format!("see {mention}."))));
        check_refused(ledger, one(&StreamId::artifacts(), &make::dropped(&id)), "not-condemned");
        assert_eq!(ledger.mark(&Scope::Store, &MarkKey::Condemned(id)).unwrap(), None);
    }
    let in_one_batch = vec![
        make::frame(&StreamId::artifacts(), &make::condemned(&id)),
        make::frame(&session, &output(&id.to_hex())),
        make::frame(&StreamId::artifacts(), &make::dropped(&id)),
    ];
    check_refused(ledger, make::frames(in_one_batch), "not-condemned");
    assert_eq!(make::read(ledger, &id).unwrap(), b"bytes");
}

pub(super) fn what_was_not_condemned_is_not_dropped(ledger: &dyn Ledger) {
    let id = stored(ledger, b"bytes");
    check_refused(ledger, one(&StreamId::artifacts(), &make::dropped(&id)), "not-condemned");
    assert_eq!(make::read(ledger, &id).unwrap(), b"bytes");
}

pub(super) fn a_closed_output_ends_the_reading(ledger: &dyn Ledger) {
    let id = stored(ledger, b"bytes");
    let error = ledger.read(&id, None, &mut |_| Err(io::ErrorKind::BrokenPipe.into())).unwrap_err();
    assert_eq!(error.code(), "output-closed");
    assert_eq!(make::read(ledger, &id).unwrap(), b"bytes");
}

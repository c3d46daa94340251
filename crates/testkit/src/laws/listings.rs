//! Laws of listings: complete, in order, and within what was asked for.

use enjamb_core::order::{MarkKey, Scope};
use enjamb_core::{ArtifactId, Digest};
use enjamb_ledger::{Ledger, NewFrame, StreamOrder, StreamSummary, Totals};

use crate::make::{self, append, frame, one, output, stored, stream};

pub(super) fn artifacts_are_listed_by_id_within_bounds(ledger: &dyn Ledger) {
    let mut ids: Vec<ArtifactId> = (0..20u8).map(|content| stored(ledger, &[content])).collect();
    ids.sort();
    let list = |low: &[u8], high: &[u8], limit| -> Vec<_> {
        ledger.artifacts(low, high, limit).unwrap().into_iter().map(|summary| summary.id).collect()
    };
    let key = |at: usize| *ids[at].digest().as_bytes();
    assert_eq!(list(&[0; 32], &[0xff; 32], 100), ids);
    assert_eq!(list(&[], &[0xff; 32], 7), ids[..7]);
    assert_eq!(list(&key(3), &key(8), 100), ids[3..=8], "both bounds are part of the range");
    assert_eq!(list(&key(3), &key(3), 100), ids[3..=3]);
    assert_eq!(list(&key(8), &key(3), 100), []);
    let first = key(5)[0];
    let expected: Vec<_> = ids.iter().filter(|id| id.digest().as_bytes()[0] == first).copied().collect();
    assert_eq!(list(&[first], &[first, 0xff, 0xff, 0xff, 0xff], 100), expected);
}

/// Appends a frame of this time to each stream, in order.
fn write_at(ledger: &dyn Ledger, writes: &[(&str, u64)]) {
    for (name, timestamp_ms) in writes {
        let of = stream(name);
        append(ledger, make::frames(vec![NewFrame { timestamp_ms: *timestamp_ms, ..frame(&of, r#"{"type":"odd"}"#) }]));
    }
}

fn list(ledger: &dyn Ledger, kind: Option<&str>, order: StreamOrder, limit: usize) -> Vec<String> {
    ledger.streams(kind, order, limit).unwrap().into_iter().map(|summary| summary.stream.to_string()).collect()
}

pub(super) fn streams_are_listed_by_recency(ledger: &dyn Ledger) {
    write_at(ledger, &[("session/a", 10), ("session/b", 30), ("wild/c", 20), ("session/a", 40), ("session/d", 30)]);
    assert_eq!(list(ledger, None, StreamOrder::Recent, 9), ["session/a", "session/d", "session/b", "wild/c"]);
    assert_eq!(list(ledger, None, StreamOrder::Recent, 2), ["session/a", "session/d"]);
    assert_eq!(list(ledger, Some("wild"), StreamOrder::Recent, 1), ["wild/c"]);
    // The clock may run backwards; the last frame counts, not the latest time.
    write_at(ledger, &[("session/a", 5)]);
    assert_eq!(list(ledger, None, StreamOrder::Recent, 9), ["session/d", "session/b", "wild/c", "session/a"]);
    write_at(ledger, &[("wild/c", u64::MAX), ("task/0", 0)]);
    assert_eq!(list(ledger, None, StreamOrder::Recent, 9), ["wild/c", "session/d", "session/b", "session/a", "task/0"]);
}

pub(super) fn streams_are_listed_by_name(ledger: &dyn Ledger) {
    let names =
        ["wild/a", "session/b", "session/a/b", "session/é", "session/a", "sess/z", "session.x/a", "session/a b"];
    write_at(ledger, &names.map(|name| (name, 1)));
    let expected =
        ["sess/z", "session/a", "session/a b", "session/a/b", "session/b", "session/é", "session.x/a", "wild/a"];
    assert_eq!(list(ledger, None, StreamOrder::Name, 99), expected);
    assert_eq!(list(ledger, None, StreamOrder::Name, 3), expected[..3]);
}

pub(super) fn streams_are_listed_by_kind(ledger: &dyn Ledger) {
    write_at(ledger, &[("session/a", 1), ("sess/a", 2), ("sessions/a", 3), ("session/b", 4), ("task/a", 5)]);
    assert_eq!(list(ledger, Some("session"), StreamOrder::Name, 9), ["session/a", "session/b"]);
    assert_eq!(list(ledger, Some("session"), StreamOrder::Recent, 9), ["session/b", "session/a"]);
    assert_eq!(list(ledger, Some("session"), StreamOrder::Recent, 1), ["session/b"]);
    for order in [StreamOrder::Name, StreamOrder::Recent] {
        assert_eq!(list(ledger, Some("absent"), order, 9), Vec::<String>::new());
        assert_eq!(list(ledger, Some(""), order, 9), Vec::<String>::new());
    }
}

pub(super) fn a_limit_of_none_lists_none(ledger: &dyn Ledger) {
    write_at(ledger, &[("session/a", 1), ("wild/a", 1)]);
    stored(ledger, b"bytes");
    for order in [StreamOrder::Name, StreamOrder::Recent] {
        assert_eq!(ledger.streams(None, order, 0).unwrap(), []);
        assert_eq!(ledger.streams(Some("wild"), order, 0).unwrap(), []);
    }
    assert_eq!(ledger.artifacts(&[0; 32], &[0xff; 32], 0).unwrap(), []);
    assert_eq!(ledger.frames(&stream("session/a"), 0, 0).unwrap(), []);
}

pub(super) fn totals_count_everything(ledger: &dyn Ledger) {
    assert_eq!(ledger.totals().unwrap(), Totals::default());
    stored(ledger, b"bytes");
    stored(ledger, b"");
    let names = [stream("session/a"), stream("session/b"), stream("session/a")];
    names.iter().for_each(|of| drop(append(ledger, one(of, &output("x")))));
    let frames = names[..2].iter().flat_map(|of| ledger.frames(of, 0, 9).unwrap());
    let frame_bytes = frames.map(|frame| frame.json.len() as u64).sum();
    let expected = Totals { streams: 2, frames: 3, frame_bytes, artifacts: 2, artifact_bytes: 5 };
    assert_eq!(ledger.totals().unwrap(), expected);
}

pub(super) fn summaries_say_where_a_stream_stands(ledger: &dyn Ledger) {
    let session = stream("session/a");
    write_at(ledger, &[("session/a", 50), ("session/b", 1), ("session/a", 40)]);
    let frames = ledger.frames(&session, 0, 9).unwrap();
    let expected = StreamSummary {
        stream: session.clone(),
        next_seq: 2,
        chain: frames[1].chain,
        first_ms: 50,
        last_ms: 40,
        bytes: frames.iter().map(|frame| frame.json.len() as u64).sum(),
        messages: 0,
    };
    assert_eq!(ledger.stream(&session).unwrap(), Some(expected.clone()));
    for order in [StreamOrder::Name, StreamOrder::Recent] {
        let listed = ledger.streams(None, order, 9).unwrap();
        assert!(listed.contains(&expected), "{listed:?}");
    }
}

pub(super) fn what_is_unknown_is_nothing(ledger: &dyn Ledger) {
    for _ in 0..2 {
        let absent = stream("session/absent");
        assert_eq!(ledger.stream(&absent).unwrap(), None);
        assert_eq!(ledger.mark(&Scope::Stream(absent.clone()), &MarkKey::Ended).unwrap(), None);
        assert_eq!(ledger.marks(&Scope::Stream(absent), &MarkKey::MessageId(String::new())).unwrap(), []);
        assert_eq!(ledger.mark(&Scope::Store, &MarkKey::Tag("absent".into())).unwrap(), None);
        assert_eq!(ledger.artifact(&ArtifactId::from_digest(Digest::ZERO)).unwrap(), None);
        write_at(ledger, &[("session/present", 1)]);
    }
}

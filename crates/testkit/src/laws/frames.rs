//! Laws of frames: what was appended is what is read.

use enjamb_core::{Digest, StreamId};
use enjamb_ledger::{Ledger, NewFrame};

use crate::make::{self, append, frame, one, output, stream};

pub(super) fn seq_starts_at_0_and_has_no_gaps(ledger: &dyn Ledger) {
    let (a, b) = (stream("session/a"), stream("session/b"));
    for turn in 0..4 {
        assert_eq!(append(ledger, one(&a, &output("x"))).frames[0].seq, turn);
        let two = append(ledger, make::frames(vec![frame(&b, &output("x")), frame(&b, &output("y"))]));
        assert_eq!(two.frames.iter().map(|at| at.seq).collect::<Vec<_>>(), [turn * 2, turn * 2 + 1]);
    }
    let seqs: Vec<_> = ledger.frames(&b, 0, 100).unwrap().iter().map(|frame| frame.seq).collect();
    assert_eq!(seqs, (0..8).collect::<Vec<_>>());
}

pub(super) fn frames_come_back_byte_for_byte(ledger: &dyn Ledger) {
    let texts = [
        // A type, and members of a known type, that no version knows.
        r#"{"id":"i","session_id":"x","timestamp_ms":5,"seq":0,"type":"from_the_future","deep":{"a":[1e400,null]}}"#,
        r#"{"type":"output_text_delta","delta":"d","id":"i","stream_id":"x","timestamp_ms":5,"seq":1,"more":"é😀"}"#,
        "{\r\n\t\"seq\" : 2 , \"id\":\"\\u0069\", \"session_id\":\"x\",\"type\":\"output_text_delta\",\"delta\":\"\",\n \"timestamp_ms\":0 }",
        r#"{"z":1.50,"z":2,"id":"i","session_id":"x","stream_kind":"session","timestamp_ms":18446744073709551615,"seq":3,"type":"odd"}"#,
    ];
    let session = stream("session/x");
    texts.iter().for_each(|text| drop(append(ledger, one(&session, text))));
    let stored = ledger.frames(&session, 0, 10).unwrap();
    let stored: Vec<_> = stored.iter().map(|frame| std::str::from_utf8(&frame.json).unwrap()).collect();
    assert_eq!(stored, texts);
}

pub(super) fn what_a_draft_leaves_out_is_filled_in(ledger: &dyn Ledger) {
    let session = stream("session/x");
    let given = NewFrame { id: "i7".into(), timestamp_ms: 7, ..frame(&session, &output("hi")) };
    append(ledger, make::frames(vec![given]));
    let stored = ledger.frames(&session, 0, 1).unwrap();
    assert_eq!(
        std::str::from_utf8(&stored[0].json).unwrap(),
        r#"{"id":"i7","session_id":"x","stream_kind":"session","stream_id":"x","timestamp_ms":7,"seq":0,"type":"output_text_delta","delta":"hi"}"#
    );
}

pub(super) fn frames_past_the_end_are_none(ledger: &dyn Ledger) {
    let session = stream("session/x");
    append(ledger, one(&session, &output("x")));
    for (from_seq, limit) in [(1, 5), (2, 5), (100, usize::MAX), (u64::MAX, 1), (u64::MAX, usize::MAX), (0, 0)] {
        assert_eq!(ledger.frames(&session, from_seq, limit).unwrap(), [], "{from_seq} {limit}");
    }
    assert_eq!(ledger.frames(&session, 0, usize::MAX).unwrap().len(), 1);
    assert_eq!(ledger.frames(&stream("session/absent"), 0, 5).unwrap(), []);
}

pub(super) fn pages_of_frames_add_up(ledger: &dyn Ledger) {
    let session = stream("session/x");
    for turn in 0..11 {
        append(ledger, one(&session, &output(&turn.to_string())));
    }
    let all = ledger.frames(&session, 0, 100).unwrap();
    for rows in [1, 3, 11] {
        let pages = (0..11).step_by(rows).map(|from| ledger.frames(&session, from, rows).unwrap());
        assert_eq!(pages.flatten().collect::<Vec<_>>(), all);
    }
}

fn chain_of(ledger: &dyn Ledger, stream: &StreamId) -> Digest {
    ledger.stream(stream).unwrap().unwrap().chain
}

pub(super) fn equal_histories_have_equal_chains(ledger: &dyn Ledger) {
    let session = stream("session/x");
    let model = enjamb_ledger::MemoryLedger::new();
    for turn in 0..3 {
        append(ledger, one(&stream("session/other"), &output("noise")));
        for each in [ledger, &model] {
            append(each, one(&session, &output(&turn.to_string())));
        }
        assert_eq!(chain_of(ledger, &session), chain_of(&model, &session));
    }
    assert_eq!(ledger.frames(&session, 0, 9).unwrap(), model.frames(&session, 0, 9).unwrap());
    assert_eq!(ledger.frames(&session, 0, 9).unwrap()[2].chain, chain_of(ledger, &session));
}

pub(super) fn a_chain_covers_every_byte(ledger: &dyn Ledger) {
    let chain = |name: &str, texts: [&str; 2]| {
        let of = stream(name);
        texts.iter().for_each(|text| drop(append(ledger, one(&of, &output(text)))));
        chain_of(ledger, &of)
    };
    let chains = [
        chain("session/a", ["x", "y"]),
        chain("session/b", ["x", "y"]),
        chain("session/c", ["y", "x"]),
        chain("session/d", ["x", "z"]),
    ];
    let distinct: std::collections::BTreeSet<_> = chains.into_iter().chain([Digest::ZERO]).collect();
    assert_eq!(distinct.len(), 5, "{chains:?}");
}

pub(super) fn the_log_is_walked_in_order(ledger: &dyn Ledger) {
    let (a, b) = (stream("session/a"), stream("session/b"));
    for turn in 0..3 {
        append(ledger, make::bytes(&[turn]));
        append(ledger, make::frames(vec![frame(&a, &output("x")), frame(&b, &output("y"))]));
    }
    let walk = |from: u64, most: usize| {
        let mut seen = Vec::new();
        let walked = ledger.each_frame(from, &mut |n, frame| {
            seen.push((n, format!("{} {}", frame.stream, frame.seq)));
            Ok(seen.len() < most)
        });
        walked.unwrap();
        seen
    };
    let all = walk(0, usize::MAX);
    let names: Vec<_> = all.iter().map(|(_, name)| name.as_str()).collect();
    assert_eq!(names, ["session/a 0", "session/b 0", "session/a 1", "session/b 1", "session/a 2", "session/b 2"]);
    assert!(all.is_sorted_by(|one, next| one.0 < next.0));
    assert_eq!(all[5].0, ledger.position().unwrap());
    assert_eq!(walk(all[2].0, usize::MAX), all[2..]);
    assert_eq!(walk(0, 2), all[..2]);
    assert_eq!(walk(all[5].0 + 1, usize::MAX), []);
}

pub(super) fn position_grows_with_every_append(ledger: &dyn Ledger) {
    let mut last = ledger.position().unwrap();
    assert_eq!(last, 0);
    for turn in 0..4u8 {
        let batch = if turn % 2 == 0 { one(&stream("session/x"), &output("x")) } else { make::bytes(&[turn]) };
        append(ledger, batch);
        let now = ledger.position().unwrap();
        assert!(now > last);
        last = now;
    }
    let early = r#"{"type":"tool_task_cancel_requested","task_id":"t","reason":"r"}"#;
    make::refused(ledger, one(&stream("task/t"), early));
    assert_eq!(ledger.position().unwrap(), last, "nothing was written");
}

//! Laws of order: every ledger asks the rules of `enjamb_core::order`, and what is refused leaves no trace.

use enjamb_core::order::{MarkKey, Scope};
use enjamb_core::{ArtifactId, ErrorKind, StreamId};
use enjamb_ledger::{Ledger, NewFrame, Walk};

use super::batches::check_refused;
use crate::make::{self, append, frame, job, message, one, output, stored, stream};

pub(super) fn nothing_follows_the_end_of_a_session(ledger: &dyn Ledger) {
    let session = stream("session/a");
    append(ledger, one(&session, &output("x")));
    append(ledger, one(&session, make::session_ended()));
    for late in [make::session_ended(), r#"{"type":"from_the_future"}"#] {
        let error = check_refused(ledger, one(&session, late), "session-ended");
        assert_eq!(error.kind(), ErrorKind::Conflict);
    }
    append(ledger, one(&stream("session/b"), make::session_ended()));
}

pub(super) fn a_job_ends_once(ledger: &dyn Ledger) {
    let (thread, other) = (stream("continuity/a"), stream("continuity/b"));
    let (spawned, ended) = (job("continuity_job_spawned", "j"), job("continuity_job_ended", "j"));
    check_refused(ledger, one(&thread, &ended), "job-unknown");
    append(ledger, one(&thread, &spawned));
    check_refused(ledger, one(&thread, &spawned), "job-spawned-twice");
    check_refused(ledger, one(&other, &ended), "job-unknown");
    append(ledger, one(&thread, &ended));
    check_refused(ledger, one(&thread, &ended), "job-ended-twice");
}

pub(super) fn a_compaction_cuts_at_a_message(ledger: &dyn Ledger) {
    let thread = stream("continuity/a");
    append(ledger, one(&thread, r#"{"type":"continuity_created","workspace":"/w","title":null}"#));
    append(ledger, one(&thread, &message("hi")));
    for wrong in [0, 2, 99] {
        check_refused(ledger, one(&thread, &make::compaction_checkpoint(wrong)), "not-a-message");
    }
    append(ledger, one(&thread, &make::compaction_checkpoint(1)));
}

pub(super) fn frames_of_one_batch_count_for_the_next(ledger: &dyn Ledger) {
    let thread = stream("continuity/a");
    let (spawned, ended) = (job("continuity_job_spawned", "j"), job("continuity_job_ended", "j"));
    let all = [spawned.as_str(), &ended, &message("hi"), &make::compaction_checkpoint(2)];
    append(ledger, make::frames(all.iter().map(|payload| frame(&thread, payload)).collect()));
    let twice = [job("continuity_job_spawned", "k"), job("continuity_job_spawned", "k")];
    let twice = twice.iter().map(|payload| frame(&thread, payload)).collect();
    check_refused(ledger, make::frames(twice), "job-spawned-twice");
}

pub(super) fn a_malformed_payload_is_refused(ledger: &dyn Ledger) {
    let error = check_refused(ledger, one(&stream("session/a"), r#"{"type":"session_ended"}"#), "malformed-payload");
    assert_eq!(error.kind(), ErrorKind::Invalid);
}

fn tag(ledger: &dyn Ledger, name: &str) -> Option<String> {
    ledger.mark(&Scope::Store, &MarkKey::Tag(name.to_owned())).unwrap()
}

pub(super) fn tags_move_from_where_they_are(ledger: &dyn Ledger) {
    let of = StreamId::artifacts();
    let [a, b] = [&b"a"[..], b"b"].map(|content| stored(ledger, content));
    let moves = |to: Option<&ArtifactId>, previous: Option<&ArtifactId>| one(&of, &make::tagged("t", to, previous));
    check_refused(ledger, moves(Some(&a), Some(&b)), "tag-moved");
    append(ledger, moves(Some(&a), None));
    assert_eq!(tag(ledger, "t"), Some(a.to_hex()));
    check_refused(ledger, moves(Some(&b), None), "tag-moved");
    append(ledger, moves(Some(&b), Some(&a)));
    check_refused(ledger, moves(None, Some(&a)), "tag-moved");
    append(ledger, moves(None, Some(&b)));
    assert_eq!(tag(ledger, "t"), None);
    append(ledger, moves(Some(&a), None));
    assert_eq!(tag(ledger, "t"), Some(a.to_hex()));
}

pub(super) fn tags_are_listed(ledger: &dyn Ledger) {
    let of = StreamId::artifacts();
    let id = stored(ledger, b"a");
    for name in ["release/2", "release/1", "é", "gone", "a"] {
        append(ledger, one(&of, &make::tagged(name, Some(&id), None)));
    }
    append(ledger, one(&of, &make::tagged("gone", None, Some(&id))));
    let listed = ledger.marks(&Scope::Store, &MarkKey::Tag(String::new())).unwrap();
    let expected = ["a", "release/1", "release/2", "é"].map(|name| (name.to_owned(), id.to_hex()));
    assert_eq!(listed, expected);
}

pub(super) fn marks_are_kept_per_stream(ledger: &dyn Ledger) {
    let (a, b) = (stream("continuity/a"), stream("continuity/b"));
    for (of, id) in [(&a, "m1"), (&b, "m2"), (&a, "m3")] {
        append(ledger, make::frames(vec![NewFrame { id: id.to_owned(), ..frame(of, &message("hi")) }]));
    }
    let mark = |of: &StreamId, key| ledger.mark(&Scope::Stream(of.clone()), &key).unwrap();
    assert_eq!(mark(&a, MarkKey::Message(1)), Some("m3".into()));
    assert_eq!(mark(&b, MarkKey::Message(1)), None);
    assert_eq!(mark(&a, MarkKey::MessageId("m2".into())), None);
    let listed = ledger.marks(&Scope::Stream(a), &MarkKey::MessageId(String::new())).unwrap();
    assert_eq!(listed, [("m1".to_owned(), "0".to_owned()), ("m3".to_owned(), "1".to_owned())]);
    assert_eq!(ledger.marks(&Scope::Store, &MarkKey::MessageId(String::new())).unwrap(), []);
}

/// More messages than one row of the index counts, with other frames between them.
pub(super) fn messages_are_found_by_seq_and_by_number(ledger: &dyn Ledger) {
    let thread = stream("continuity/a");
    let scope = Scope::Stream(thread.clone());
    let mut seqs = Vec::new();
    for turn in 0..150 {
        let job = make::job("continuity_job_spawned", &turn.to_string());
        let id = format!("m{turn}");
        let frames = vec![frame(&thread, &job), NewFrame { id, ..frame(&thread, &message("hi")) }];
        seqs.push(append(ledger, make::frames(frames)).frames[1].seq);
    }
    assert_eq!(ledger.stream(&thread).unwrap().unwrap().messages, 150);
    for ordinal in [1, 2, 63, 64, 65, 128, 149, 150] {
        let found = ledger.message_numbered(&thread, ordinal).unwrap();
        assert_eq!(found, Some(seqs[ordinal as usize - 1]), "{ordinal}");
    }
    assert_eq!([0, 151].map(|ordinal| ledger.message_numbered(&thread, ordinal).unwrap()), [None, None]);
    let walk = |from, to, walk, limit| {
        let marks = ledger.marks_in(&scope, &MarkKey::Message(from), &MarkKey::Message(to), walk, limit).unwrap();
        marks.into_iter().map(|(key, id)| (key.about(), id)).collect::<Vec<_>>()
    };
    let named = |pairs: &[(u64, &str)]| pairs.iter().map(|(seq, id)| (seq.to_string(), (*id).to_owned())).collect();
    let some: Vec<_> = named(&[(259, "m129"), (257, "m128"), (255, "m127")]);
    assert_eq!(walk(0, 260, Walk::Back, 3), some);
    let some: Vec<_> = named(&[(255, "m127"), (257, "m128")]);
    assert_eq!(walk(255, u64::MAX, Walk::Forward, 2), some);
    assert_eq!(walk(300, u64::MAX, Walk::Forward, 9), []);
    assert_eq!(walk(9, 3, Walk::Back, 9), []);
    assert_eq!(ledger.marks(&scope, &MarkKey::Message(0)).unwrap().len(), 150);
}

pub(super) fn messages_are_found_by_their_words(ledger: &dyn Ledger) {
    let (a, b) = (stream("continuity/a"), stream("continuity/b"));
    for (of, text) in [(&a, "retry the loop"), (&b, "retry"), (&a, "no word"), (&a, "Retry, RETRY")] {
        append(ledger, one(of, &message(text)));
    }
    let found = |of: &StreamId, word: &str, upto, limit| ledger.postings(of, word, upto, limit).unwrap();
    assert_eq!(found(&a, "retry", u64::MAX, 9), [(2, 2), (0, 1)]);
    assert_eq!(found(&a, "retry", u64::MAX, 1), [(2, 2)]);
    assert_eq!(found(&a, "retry", 1, 9), [(0, 1)]);
    assert_eq!(found(&b, "retry", 9, 9), [(0, 1)]);
    assert_eq!(found(&a, "retr", 9, 9), []);
    assert_eq!(found(&a, "the", 9, 9), [], "words that say nothing are not kept");
    assert_eq!(found(&stream("continuity/absent"), "retry", 9, 9), []);
    let words = |prefix: &str| {
        let words = ledger.words(prefix).unwrap().into_iter();
        words.map(|(word, thread)| format!("{word} {}", thread.id)).collect::<Vec<_>>().join(", ")
    };
    assert_eq!(words("ret"), "retry a, retry b");
    assert_eq!(words(""), "loop a, retry a, retry b, word a");
    assert_eq!(words("retrying"), "");
}

/// A word that comes in more messages than one row of any index holds.
pub(super) fn a_word_is_found_however_often_it_comes(ledger: &dyn Ledger) {
    let thread = stream("continuity/a");
    let text = |seq: u64| if seq.is_multiple_of(3) { "retry retry" } else { "retry" };
    for from in [0, 100, 200, 300] {
        let some = from..from + 100;
        append(ledger, make::frames(some.map(|seq| frame(&thread, &message(text(seq)))).collect()));
    }
    let counted = |seq: u64| (seq, if seq.is_multiple_of(3) { 2 } else { 1 });
    let found = |upto, limit| ledger.postings(&thread, "retry", upto, limit).unwrap();
    assert_eq!(found(u64::MAX, 999), (0..400).rev().map(counted).collect::<Vec<_>>());
    for upto in [0, 1, 190, 191, 192, 193, 250, 398, 399] {
        assert_eq!(found(upto, 999), (0..=upto).rev().map(counted).collect::<Vec<_>>(), "up to {upto}");
        assert_eq!(found(upto, 3), (0..=upto).rev().take(3).map(counted).collect::<Vec<_>>(), "three up to {upto}");
    }
}

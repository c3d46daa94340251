//! Laws of threads: whoever appends at the same time, what is stored is as if they had taken turns.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use enjamb_core::order::{MarkKey, Scope};
use enjamb_ledger::{Ledger, NewFrame, StoredFrame};

use super::batches::check_refused;
use crate::make::{self, append, frame, one, output, stream};

const THREADS: u64 = 8;
const TURNS: u64 = 12;

/// Runs `work` on all threads at once, and returns what they return.
fn at_once<T: Send>(work: impl Fn(u64) -> T + Sync) -> Vec<T> {
    thread::scope(|scope| {
        let work = &work;
        let running: Vec<_> = (0..THREADS).map(|number| scope.spawn(move || work(number))).collect();
        running.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

fn text(frame: &StoredFrame) -> String {
    let json = String::from_utf8(frame.json.clone()).unwrap();
    json.split(r#""delta":""#).nth(1).unwrap().trim_end_matches("\"}").to_owned()
}

pub(super) fn threads_share_a_stream_without_gaps(ledger: &dyn Ledger) {
    let session = stream("session/shared");
    let told = at_once(|thread| {
        let turns = (0..TURNS).map(|turn| {
            let name = format!("{thread}.{turn}");
            (append(ledger, one(&session, &output(&name))).frames[0].seq, name)
        });
        turns.collect::<Vec<_>>()
    });
    assert!(told.iter().all(|turns| turns.is_sorted()), "each thread's frames are in its own order");
    let mut told: Vec<_> = told.into_iter().flatten().collect();
    told.sort();
    let stored = ledger.frames(&session, 0, 1_000).unwrap();
    let stored: Vec<_> = stored.iter().map(|frame| (frame.seq, text(frame))).collect();
    assert_eq!(stored, told);
    assert_eq!(stored.last().unwrap().0, THREADS * TURNS - 1);
}

pub(super) fn threads_on_their_own_streams_lose_nothing(ledger: &dyn Ledger) {
    at_once(|thread| {
        let own = stream(&format!("session/{thread}"));
        let mut position = 0;
        for turn in 0..TURNS {
            let name = format!("{thread}.{turn}");
            let id = make::stored(ledger, name.as_bytes());
            assert_eq!(append(ledger, one(&own, &output(&name))).frames[0].seq, turn);
            assert_eq!(make::read(ledger, &id).unwrap(), name.as_bytes());
            assert_eq!(ledger.stream(&own).unwrap().unwrap().next_seq, turn + 1, "one's own writes are seen");
            let now = ledger.position().unwrap();
            assert!(now > position);
            position = now;
        }
        let stored: Vec<_> = ledger.frames(&own, 0, 100).unwrap().iter().map(text).collect();
        assert_eq!(stored, (0..TURNS).map(|turn| format!("{thread}.{turn}")).collect::<Vec<_>>());
    });
    let totals = ledger.totals().unwrap();
    assert_eq!((totals.streams, totals.frames, totals.artifacts), (THREADS, THREADS * TURNS, THREADS * TURNS));
    assert_eq!(ledger.position().unwrap(), 2 * THREADS * TURNS);
}

pub(super) fn threads_that_hand_in_several_at_a_time_lose_nothing(ledger: &dyn Ledger) {
    let shared = stream("session/shared");
    let several = 1 + THREADS / 2;
    let told = at_once(|thread| {
        let batches = |turn| (0..several).map(move |part| format!("{thread}.{turn}.{part}"));
        let turns = (0..TURNS).flat_map(|turn| {
            let all = batches(turn).map(|name| one(&shared, &output(&name))).collect();
            let answers = ledger.append_all(all).into_iter().map(|answer| answer.unwrap().frames[0].seq);
            // Some hand in one at a time, as others do.
            if thread % 2 == 0 {
                append(ledger, one(&stream("session/other"), &output("alone")));
            }
            answers.zip(batches(turn)).collect::<Vec<_>>()
        });
        turns.collect::<Vec<_>>()
    });
    assert!(told.iter().all(|turns| turns.is_sorted()), "each thread's frames are in its own order");
    let mut told = told.concat();
    told.sort();
    let stored = ledger.frames(&shared, 0, 1_000).unwrap();
    assert_eq!(stored.iter().map(|frame| (frame.seq, text(frame))).collect::<Vec<_>>(), told);
    assert_eq!(told.len() as u64, THREADS * TURNS * several);
}

pub(super) fn one_of_many_rivals_wins(ledger: &dyn Ledger) {
    let (session, thread) = (stream("session/a"), stream("continuity/a"));
    for seq in 0..3 {
        let won = at_once(|rival| {
            let rival = output(&rival.to_string());
            let bid = NewFrame { expected_seq: Some(seq), ..frame(&session, &rival) };
            ledger.append(make::frames(vec![bid])).map_err(|error| error.code())
        });
        assert_eq!(won.iter().filter(|bid| bid.is_ok()).count(), 1, "{won:?}");
        assert!(won.iter().all(|bid| bid.as_ref().map_or_else(|code| *code == "seq-conflict", |_| true)), "{won:?}");
        let job = make::job("continuity_job_spawned", &seq.to_string());
        let spawned = at_once(|_| ledger.append(one(&thread, &job)).is_ok());
        assert_eq!(spawned.iter().filter(|spawned| **spawned).count(), 1);
    }
    assert_eq!(ledger.stream(&session).unwrap().unwrap().next_seq, 3);
    check_refused(ledger, one(&thread, &make::job("continuity_job_spawned", "0")), "job-spawned-twice");
}

/// A batch is two frames and the bytes that they name: whoever sees one sees all.
pub(super) fn readers_see_whole_batches(ledger: &dyn Ledger) {
    let (a, b) = (stream("continuity/a"), stream("continuity/b"));
    let (begun, done) = (Barrier::new(2), AtomicBool::new(false));
    thread::scope(|scope| {
        let reader = scope.spawn(|| {
            begun.wait();
            loop {
                let is_last = done.load(Ordering::SeqCst);
                let first = ledger.frames(&b, 0, 100).unwrap().len();
                let second = ledger.frames(&a, 0, 100).unwrap().len();
                assert!(second >= first, "{second} frames of a batch after {first}");
                let marks = ledger.marks(&Scope::Stream(a.clone()), &MarkKey::JobSpawned(String::new())).unwrap();
                assert!(marks.len() >= second);
                if is_last {
                    return first;
                }
            }
        });
        begun.wait();
        for turn in 0..30 {
            let job = make::job("continuity_job_spawned", &turn.to_string());
            append(ledger, make::frames(vec![frame(&a, &job), frame(&b, &job)]));
        }
        done.store(true, Ordering::SeqCst);
        assert_eq!(reader.join().unwrap(), 30, "who looks afterwards sees all");
    });
}

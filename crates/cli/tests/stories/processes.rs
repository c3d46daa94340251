//! Several processes and one store: all write, none waits in vain, nothing is lost or out of order.

use std::collections::BTreeMap;
use std::io::Write;
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::runner::{Answer, Enjamb, finish};

const SECONDS_USUALLY: u64 = 2;
const LINES_AT_ONCE: u64 = 100;

fn seconds() -> Duration {
    let given = std::env::var("ENJAMB_SECONDS").ok().and_then(|seconds| seconds.parse().ok());
    Duration::from_secs(given.unwrap_or(SECONDS_USUALLY))
}

/// The `n`-th frame of a writer: every other one goes to a stream that all share.
fn frame(writer: &str, n: u64) -> String {
    let stream = if n.is_multiple_of(2) { "shared" } else { writer };
    format!(r#"{{"type":"x","stream_kind":"session","stream_id":"{stream}","id":"{writer}-{n}"}}"#)
}

/// Feeds one `append` for a while, and returns its answer with how many frames it was given.
fn write(enjamb: &Enjamb, writer: &str, until: Instant) -> (Answer, u64) {
    let mut command = enjamb.command(&["append", "--json"]);
    command.stdin(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    thread::scope(|scope| {
        let feeder = scope.spawn(move || {
            let mut n = 0;
            while Instant::now() < until {
                let lines: String = (n..n + LINES_AT_ONCE).map(|n| frame(writer, n) + "\n").collect();
                input.write_all(lines.as_bytes()).unwrap();
                n += LINES_AT_ONCE;
                thread::sleep(Duration::from_millis(5));
            }
            n
        });
        (finish(child), feeder.join().unwrap())
    })
}

/// Reads and checks the store over and over; all of it has to go well.
fn look(enjamb: &Enjamb, until: Instant) -> u64 {
    let mut looks = 0;
    while Instant::now() < until {
        enjamb.run(&["verify", "--quick"]).done();
        enjamb.run(&["streams"]).done();
        let frames = enjamb.run(&["frames", "session/shared", "-n", "50"]);
        assert!(matches!(frames.exit, Some(0 | 3)), "{}", frames.err());
        looks += 1;
    }
    looks
}

/// The ids of a stream's frames, in the order of their seqs, without a gap.
fn ids(enjamb: &Enjamb, stream: &str) -> Vec<String> {
    let out = enjamb.run(&["frames", &format!("session/{stream}")]).done().out();
    let frames = out.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()).enumerate();
    frames
        .map(|(seq, frame)| {
            assert_eq!(frame["seq"], seq as u64, "a gap in {stream}");
            frame["id"].as_str().unwrap().to_owned()
        })
        .collect()
}

/// Where a writer was told that its frames are.
fn told(answer: &Value) -> BTreeMap<String, Vec<u64>> {
    let mut told: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    for frame in answer["frames"].as_array().unwrap() {
        let stream = frame["stream"].as_str().unwrap().trim_start_matches("session/").to_owned();
        told.entry(stream).or_default().push(frame["seq"].as_u64().unwrap());
    }
    told
}

#[test]
fn two_writers_and_a_reader_share_a_store() {
    let enjamb = Enjamb::with_store();
    let until = Instant::now() + seconds();
    let ((a, a_count), (b, b_count), looks) = thread::scope(|scope| {
        let a = scope.spawn(|| write(&enjamb, "a", until));
        let b = scope.spawn(|| write(&enjamb, "b", until));
        let looks = scope.spawn(|| look(&enjamb, until));
        (a.join().unwrap(), b.join().unwrap(), looks.join().unwrap())
    });
    println!("{a_count} and {b_count} frames, {looks} looks meanwhile");
    assert!(looks > 0);
    let shared = ids(&enjamb, "shared");
    assert_eq!(shared.len() as u64, a_count.div_ceil(2) + b_count.div_ceil(2));
    for (writer, answer, count) in [("a", a.done(), a_count), ("b", b.done(), b_count)] {
        let told = told(&answer.document());
        let expected = |parity: u64| (0..count).filter(move |n| n % 2 == parity).map(|n| format!("{writer}-{n}"));
        let own = ids(&enjamb, writer);
        assert!(own.iter().cloned().eq(expected(1)), "all frames of {writer}, in the order in which they were given");
        let at =
            |stream: &[String], seqs: &[u64]| seqs.iter().map(|seq| stream[*seq as usize].clone()).collect::<Vec<_>>();
        assert!(at(&shared, &told["shared"]).into_iter().eq(expected(0)), "frames of {writer} are where it was told");
        assert!(at(&own, &told[writer]).into_iter().eq(expected(1)));
    }
    enjamb.run(&["verify"]).done();
}

#[test]
fn a_store_made_by_many_at_once_is_one_store() {
    let enjamb = Enjamb::new();
    thread::scope(|scope| {
        for n in 0..8 {
            let enjamb = &enjamb;
            scope.spawn(move || enjamb.append(&format!("session/s{n}"), r#"{"type":"x"}"#));
        }
    });
    assert_eq!(enjamb.run(&["streams"]).done().out().lines().count(), 8);
    enjamb.run(&["verify"]).done();
}

#[test]
fn tags_moved_by_many_at_once_move_one_after_the_other() {
    let enjamb = Enjamb::new();
    let ids: Vec<_> = (0..4).map(|n| enjamb.put(n.to_string())).collect();
    thread::scope(|scope| {
        for id in &ids {
            let enjamb = &enjamb;
            scope.spawn(move || (0..5).for_each(|_| drop(enjamb.run(&["tag", "head", id]).done())));
        }
    });
    let winners: u64 = thread::scope(|scope| {
        let each = ids.iter().map(|id| {
            let enjamb = &enjamb;
            scope.spawn(move || match enjamb.run(&["tag", "new", id, "--expect", "none"]).exit {
                Some(0) => 1,
                Some(5) => 0,
                other => panic!("exit {other:?}"),
            })
        });
        each.collect::<Vec<_>>().into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert_eq!(winners, 1, "one of them was first");
    enjamb.run(&["verify"]).done();
}

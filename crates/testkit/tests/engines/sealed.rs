//! Sealed frames are stored without their chain values: whoever reads gets the same ones, from wherever they begin.

use enjamb_ledger::{Ledger, SqliteLedger, StoredFrame};
use enjamb_testkit::make::{self, append, output, stream};

use crate::store;

/// More than two stations, and the last of the frames between two.
const FRAMES: u64 = 150;
const SESSION: &str = "session/long";

fn say(ledger: &SqliteLedger, turns: std::ops::Range<u64>) {
    for turn in turns {
        append(ledger, make::one(&stream(SESSION), &output(&format!("{turn} ").repeat(300))));
    }
}

fn frames_from(ledger: &SqliteLedger, seq: u64) -> Vec<StoredFrame> {
    ledger.frames(&stream(SESSION), seq, 1_000).expect("frames")
}

fn seal(ledger: &SqliteLedger) {
    assert_eq!(ledger.seal(&mut |_, _| {}).expect("sealing").segments, 1);
}

#[test]
fn chains_are_the_same_from_wherever_one_reads() {
    let dir = store::directory();
    let ledger = store::create(dir.path());
    say(&ledger, 0..FRAMES);
    let before = frames_from(&ledger, 0);
    seal(&ledger);
    // A second time, so that frames without chains are sealed again.
    say(&ledger, FRAMES..FRAMES * 2);
    let hot = frames_from(&ledger, FRAMES);
    seal(&ledger);
    let expected = [before, hot].concat();
    assert_eq!(expected.len() as u64, FRAMES * 2);
    store::delete_index(dir.path());
    for from in 0..FRAMES * 2 {
        assert_eq!(frames_from(&store::open(dir.path()), from), expected[from as usize..], "from {from}");
    }
    assert_eq!(ledger.verify_full(&mut |_, _| {}).expect("a verification").findings, []);
}

/// The other handle knew the stream's end as it was before; what was sealed since does not tell it the chain.
#[test]
fn another_handle_goes_on_after_frames_that_were_sealed_meanwhile() {
    let dir = store::directory();
    let (one, other) = (store::create(dir.path()), store::open(dir.path()));
    say(&other, 0..1);
    say(&one, 1..FRAMES);
    seal(&one);
    say(&other, FRAMES..FRAMES + 1);
    assert_eq!(frames_from(&one, 0).len() as u64, FRAMES + 1);
    assert_eq!(one.verify_full(&mut |_, _| {}).expect("a verification").findings, []);
}

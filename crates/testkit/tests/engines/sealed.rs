//! What sealing leaves as it was: chain values, though most are not stored, and whose files these are.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

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

/// The names of all that others than the owner could read or write.
fn open_to_others(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).expect("a directory").map(|entry| entry.expect("an entry")) {
        let about = entry.metadata().expect("its mode");
        if about.mode() & 0o077 != 0 {
            found.push(entry.path());
        }
        if about.is_dir() {
            open_to_others(&entry.path(), found);
        }
    }
}

#[test]
fn what_is_stored_is_for_its_owner_alone() {
    let above = store::directory();
    let (dir, copy) = (above.path().join("store"), above.path().join("copy"));
    let ledger = store::create(&dir);
    say(&ledger, 0..FRAMES);
    seal(&ledger);
    say(&ledger, FRAMES..FRAMES + 1);
    ledger.backup(&copy, &mut |_, _| {}).expect("a backup");
    let mut found = Vec::new();
    open_to_others(above.path(), &mut found);
    assert_eq!(found, Vec::<PathBuf>::new());
}

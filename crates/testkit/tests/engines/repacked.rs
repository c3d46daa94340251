//! What was written in a hurry is written anew when its record is sealed: the same artifacts, in less room, and nothing of
//! what was dropped.

use std::collections::HashMap;

use enjamb_core::{ArtifactId, Digest};
use enjamb_ledger::segment::{ChunkAt, Compression, SegmentOptions, SegmentWriter};
use enjamb_ledger::{Batch, Ledger, SegmentRecord, SqliteLedger};
use enjamb_testkit::make::{self, append, output, read, stream};

use crate::flips::mix;
use crate::store;

/// As an import writes.
const HURRIED: SegmentOptions = SegmentOptions {
    block_bytes: 1 << 20,
    compression: Compression { level: 1, window_log: 0 },
    record_chunk_bytes_min: SegmentOptions::RECORD_CHUNK_BYTES_MIN,
};

/// Lines that all texts have in common, in another order for each seed: too short to be chunks, and too far from each other
/// to be found by who looks back a megabyte.
fn text(seed: u64, len: usize) -> Vec<u8> {
    let line = |at: u64| {
        let line = mix(seed << 32 | at) % 10_000;
        (0..10).map(|word| format!("{:016x} ", mix(line << 8 | word))).collect::<String>().into_bytes()
    };
    (0..).flat_map(line).take(len).collect()
}

fn store_hurried(ledger: &SqliteLedger, contents: &[&[u8]], known: &HashMap<Digest, ChunkAt>) -> Digest {
    store_in_segment(ledger, HURRIED, contents, known)
}

/// Puts artifacts into one segment, but for chunks that are in `known`.
fn store_in_segment(
    ledger: &SqliteLedger,
    options: SegmentOptions,
    contents: &[&[u8]],
    known: &HashMap<Digest, ChunkAt>,
) -> Digest {
    let mut new = ledger.segments().create().expect("a new segment");
    let find = |digest: &Digest| known.get(digest).copied();
    let mut writer = SegmentWriter::new(new.writer(), options, find).expect("a writer");
    let artifacts = contents.iter().map(|content| {
        let mut sink = writer.artifact();
        sink.write(content).expect("room");
        sink.finish().expect("an artifact")
    });
    let artifacts = artifacts.collect();
    let (_, summary, _) = writer.finish().expect("a segment");
    ledger.segments().publish(new, &summary.digest).expect("the segment is published");
    let record = SegmentRecord { segment: summary.digest, bytes: summary.bytes, artifacts };
    append(ledger, Batch { segments: vec![record], ..Batch::default() });
    summary.digest
}

fn chunks_of(ledger: &SqliteLedger, segment: Digest) -> HashMap<Digest, ChunkAt> {
    ledger.segments().segment(&segment).expect("a segment").footer().own_chunks(segment).collect()
}

/// Enough for the log to be worth sealing.
fn say(ledger: &SqliteLedger) {
    append(ledger, make::one(&stream("session/long"), &output(&"word ".repeat(20_000))));
}

fn maintain(ledger: &SqliteLedger) -> u64 {
    let sealed = ledger.seal(&mut |_, _| {}).expect("sealing");
    ledger.sweep().expect("sweeping").expect("nobody writes a segment");
    sealed.segments
}

fn stored_bytes(ledger: &SqliteLedger) -> u64 {
    ledger.segments().files().expect("files").iter().map(|file| file.bytes).sum()
}

#[track_caller]
fn check_holds(ledger: &SqliteLedger, contents: &[&[u8]]) {
    for (at, content) in contents.iter().enumerate() {
        assert!(read(ledger, &ArtifactId::of(content)).expect("the artifact") == *content, "artifact {at}");
    }
    assert_eq!(ledger.verify_full(&mut |_, _| {}).expect("a verification").findings, []);
}

#[test]
fn artifacts_take_less_room_and_are_the_same() {
    let dir = store::directory();
    let ledger = store::create(dir.path());
    let (first, second, third) = (text(1, 3 << 20), text(2, 2 << 20), [text(3, 1 << 20), text(1, 3 << 20)].concat());
    let before = store_hurried(&ledger, &[&first, &second], &HashMap::new());
    let after = store_hurried(&ledger, &[&third], &chunks_of(&ledger, before));
    let hurried_bytes = stored_bytes(&ledger);
    say(&ledger);
    assert_eq!(maintain(&ledger), 2, "one of records, and one for all artifacts");
    let files = ledger.segments().files().expect("files");
    assert!(files.iter().all(|file| file.digest != Some(before) && file.digest != Some(after)), "{files:?}");
    assert!(stored_bytes(&ledger) < hurried_bytes * 2 / 3, "{} of {hurried_bytes}", stored_bytes(&ledger));
    let all = [&first[..], &second, &third];
    check_holds(&ledger, &all);
    drop(ledger);
    store::delete_index(dir.path());
    let ledger = store::open(dir.path());
    check_holds(&ledger, &all);
    // Sealed once more together with what came since, and what was written anew stays as it is.
    let files = |ledger: &SqliteLedger| ledger.segments().files().expect("files").into_iter().map(|file| file.digest);
    let kept: Vec<_> = files(&ledger).collect();
    say(&ledger);
    assert_eq!(maintain(&ledger), 1);
    assert_eq!(files(&ledger).filter(|digest| kept.contains(digest)).count(), 1);
    check_holds(&ledger, &all);
}

#[test]
fn an_artifact_that_is_read_by_range_stays_where_it_is() {
    let dir = store::directory();
    let ledger = store::create(dir.path());
    let content = text(4, 3 << 20);
    let segment = store_in_segment(&ledger, SegmentOptions::RANGES, &[&content], &HashMap::new());
    say(&ledger);
    assert_eq!(maintain(&ledger), 1);
    assert!(ledger.segments().path(&segment).is_file());
    check_holds(&ledger, &[&content]);
}

/// What was dropped frees its bytes when its record is sealed, and takes nothing along of what lay beside it.
#[test]
fn of_a_segment_with_several_artifacts_one_can_be_dropped() {
    let dir = store::directory();
    let ledger = store::create(dir.path());
    let (kept, gone) = (text(5, 2 << 20), text(6, 2 << 20));
    let segment = store_hurried(&ledger, &[&kept, &gone], &HashMap::new());
    drop_artifact(&ledger, &ArtifactId::of(&gone));
    check_holds(&ledger, &[&kept]);
    say(&ledger);
    maintain(&ledger);
    assert!(!ledger.segments().path(&segment).is_file());
    let bytes = stored_bytes(&ledger);
    check_holds(&ledger, &[&kept]);
    // Once more, out of what was written anew.
    drop_artifact(&ledger, &ArtifactId::of(&kept));
    ledger.sweep().expect("sweeping");
    assert!(stored_bytes(&ledger) < bytes / 2);
    check_holds(&ledger, &[]);
}

fn drop_artifact(ledger: &SqliteLedger, id: &ArtifactId) {
    let store = stream("artifact/store");
    append(ledger, make::one(&store, &make::condemned(id)));
    let place = ledger.place(id).expect("an answer").expect("a place");
    append(ledger, make::one(&store, &make::dropped(id)));
    ledger.erase(&[place], &mut |_, _| {}).expect("erasing");
    assert!(read(ledger, id).is_err());
}

/// The reader has begun with a segment, and the rest of the artifact is in another one, which is not there any more.
#[test]
fn who_reads_goes_on_where_the_bytes_are_moved_to() {
    let dir = store::directory();
    let (ledger, other) = (store::create(dir.path()), store::open(dir.path()));
    let (first, second) = (text(7, 2 << 20), [text(8, 2 << 20), text(7, 2 << 20)].concat());
    let segment = store_hurried(&ledger, &[&first], &HashMap::new());
    store_hurried(&ledger, &[&second], &chunks_of(&ledger, segment));
    say(&ledger);
    drop(ledger);
    let ledger = store::open(dir.path());
    let (mut got, mut maintained) = (Vec::new(), 0);
    let read = ledger.read(&ArtifactId::of(&second), None, &mut |part| {
        if got.is_empty() {
            maintained = maintain(&other);
        }
        got.extend_from_slice(part);
        Ok(())
    });
    read.expect("the artifact");
    assert_eq!(maintained, 2);
    assert!(got == second);
}

#[test]
fn a_backup_over_an_earlier_one_keeps_nothing_that_the_store_let_go_of() {
    let dir = store::directory();
    let (ledger, to) = (store::create(&dir.path().join("store")), dir.path().join("backup"));
    let content = text(9, 3 << 20);
    store_hurried(&ledger, &[&content], &HashMap::new());
    say(&ledger);
    let back_up = || ledger.backup(&to, &mut |_, _| {}).expect("a backup");
    back_up();
    maintain(&ledger);
    assert_eq!(back_up().files, 3, "the log, records and artifacts");
    assert_eq!(std::fs::read_dir(to.join("segments")).expect("a directory").count(), 2);
    let restored = dir.path().join("restored");
    SqliteLedger::restore(&to, &restored, &mut |_, _| {}).expect("the backup is whole");
    check_holds(&store::open(&restored), &[&content]);
}

/// A segment that nobody can read any more keeps no others from being sealed: `verify` tells of it.
#[test]
fn what_is_damaged_stays_as_it_is_and_all_else_is_sealed() {
    let dir = store::directory();
    let ledger = store::create(dir.path());
    let (rotten, sound) = (text(10, 2 << 20), text(11, 2 << 20));
    let damaged = store_hurried(&ledger, &[&rotten], &HashMap::new());
    // It counts on the damaged one for half of its bytes.
    let half = [&text(12, 2 << 20)[..], &rotten].concat();
    let leaning = store_hurried(&ledger, &[&half], &chunks_of(&ledger, damaged));
    let whole = store_hurried(&ledger, &[&sound], &HashMap::new());
    say(&ledger);
    let path = ledger.segments().path(&damaged);
    let mut bytes = std::fs::read(&path).expect("a segment");
    bytes[5_000] ^= 1;
    std::fs::write(&path, bytes).expect("a segment");
    assert_eq!(maintain(&ledger), 2);
    let is_there = |segment| ledger.segments().path(segment).is_file();
    assert!(is_there(&damaged) && is_there(&leaning) && !is_there(&whole));
    assert!(read(&ledger, &ArtifactId::of(&sound)).expect("the artifact") == sound);
    assert!(read(&ledger, &ArtifactId::of(&rotten)).is_err());
    assert_ne!(ledger.verify_full(&mut |_, _| {}).expect("a verification").findings, []);
}

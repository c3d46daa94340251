//! Bit rot: one bit of one file is another one. Whatever is asked then is answered as before, or not at all.

use std::collections::BTreeMap;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::time::Instant;

use enjamb_core::StreamId;
use enjamb_ledger::segment::{SegmentOptions, SegmentWriter};
use enjamb_ledger::{Batch, Ledger, NewFrame, SegmentRecord, SqliteLedger, SqliteOptions};
use enjamb_testkit::make::{self, append, output, stream};
use enjamb_testkit::questions::{Question, questions};
use tempfile::TempDir;

use crate::store;

/// Text that does not compress to nothing.
fn noise(seed: u64, len: usize) -> String {
    (0..len as u64).map(|at| char::from(b'a' + (mix(seed << 32 | at) % 26) as u8)).collect()
}

/// The finaliser of SplitMix64.
fn mix(word: u64) -> u64 {
    let word = word.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let word = (word ^ (word >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let word = (word ^ (word >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    word ^ (word >> 31)
}

/// Frames of several streams, bytes, tags, marks and keys, in as many rows as it takes for the index to be a tree.
fn fill(ledger: &SqliteLedger, from: u64, to: u64) {
    let thread = stream("continuity/thread");
    for turn in from..to {
        let session = stream(&format!("session/{}", turn % 3));
        let id = make::stored(ledger, noise(turn, 200 + turn as usize * 53 % 2_000).as_bytes());
        let said = output(&noise(turn, turn as usize * 211 % 3_000));
        append(ledger, Batch { idempotency_key: Some(format!("key-{turn}")), ..make::one(&session, &said) });
        let message = NewFrame { id: format!("m{turn}"), timestamp_ms: turn, ..make::frame(&thread, &make::message("hi")) };
        append(ledger, make::frames(vec![message]));
        match turn % 4 {
            0 => drop(append(ledger, make::one(&StreamId::artifacts(), &make::tagged(&format!("t{turn}"), Some(&id), None)))),
            1 => drop(append(ledger, make::one(&StreamId::artifacts(), &make::condemned(&id)))),
            _ => drop(append(ledger, make::one(&thread, &make::job("continuity_job_spawned", &format!("j{turn}"))))),
        }
    }
}

/// Puts an artifact into a segment of its own.
fn store_in_segment(ledger: &SqliteLedger, content: &[u8]) {
    let mut new = ledger.segments().create().expect("a new segment");
    let mut writer = SegmentWriter::new(new.writer(), SegmentOptions::RANGES, |_| None).expect("a writer");
    let mut sink = writer.artifact();
    sink.write(content).expect("room");
    let (id, len) = sink.finish().expect("an artifact");
    let (_, summary, _) = writer.finish().expect("a segment");
    ledger.segments().publish(new, &summary.digest).expect("the segment is published");
    let record = SegmentRecord { segment: summary.digest, bytes: summary.bytes, artifacts: vec![(id, len)] };
    append(ledger, Batch { segments: vec![record], ..Batch::default() });
}

/// A store whose older records are sealed in a segment, closed cleanly.
fn sample() -> TempDir {
    let dir = store::directory();
    let ledger = store::create(dir.path());
    fill(&ledger, 0, 30);
    assert!(ledger.seal(&mut |_, _| {}).expect("sealing").segments > 0);
    fill(&ledger, 30, 60);
    store_in_segment(&ledger, noise(1, 150_000).as_bytes());
    fill(&ledger, 60, 64);
    drop(ledger);
    store::open(dir.path()).totals().expect("totals");
    dir
}

/// The files of a store as they should be, and a copy in which to change them.
struct Rot {
    files: BTreeMap<PathBuf, Vec<u8>>,
    copy: TempDir,
}

impl Rot {
    fn new(of: &Path) -> Self {
        let mut files = BTreeMap::new();
        for dir in ["", "segments"] {
            for entry in fs::read_dir(of.join(dir)).expect("a directory").map(|entry| entry.expect("an entry").path()) {
                if entry.is_file() {
                    let name = entry.strip_prefix(of).expect("below").to_owned();
                    files.insert(name, fs::read(&entry).expect("a file"));
                }
            }
        }
        let copy = store::directory();
        fs::create_dir(copy.path().join("segments")).expect("a directory");
        let rot = Self { files, copy };
        rot.files.keys().for_each(|name| rot.restore(name));
        rot
    }

    fn restore(&self, name: &Path) {
        fs::write(self.copy.path().join(name), &self.files[name]).expect("a file is written");
    }

    /// Flips one bit, calls `look`, and puts everything back.
    fn with_flip<T>(&self, flip: &Flip, look: impl FnOnce(&Path) -> T) -> T {
        let mut bytes = self.files[&flip.file].clone();
        bytes[flip.bit / 8] ^= 1 << (flip.bit % 8);
        fs::write(self.copy.path().join(&flip.file), bytes).expect("a file is written");
        let seen = look(self.copy.path());
        for entry in fs::read_dir(self.copy.path()).expect("a directory").map(|entry| entry.expect("an entry").path()) {
            if entry.is_file() {
                fs::remove_file(entry).expect("a file is removed");
            }
        }
        let touched = self.files.keys().filter(|name| name.components().count() == 1 || **name == flip.file);
        touched.for_each(|name| self.restore(name));
        seen
    }

    /// Flip number `turn`: spread over the files, and half of them at the beginnings of pages, where SQLite keeps
    /// what holds a page together.
    fn flip(&self, turn: u64) -> Flip {
        let names: Vec<_> = self.files.iter().filter(|(_, bytes)| !bytes.is_empty()).map(|(name, _)| name).collect();
        let (databases, segments): (Vec<_>, Vec<_>) =
            names.into_iter().partition(|name| name.extension().is_some_and(|extension| extension == "db"));
        let among = if turn % 5 == 4 { &segments } else { &databases };
        let file = among[(mix(turn) % among.len() as u64) as usize].clone();
        let bits = self.files[&file].len() as u64 * 8;
        let anywhere = mix(turn ^ 1 << 40) % bits;
        let bit = if turn % 2 == 0 { anywhere } else { anywhere / PAGE_BITS * PAGE_BITS + anywhere % (24 * 8) };
        Flip { file, bit: bit as usize }
    }
}

/// Of the index; a page of the log is a multiple of it.
const PAGE_BITS: u64 = 4096 * 8;

#[derive(Debug)]
struct Flip {
    file: PathBuf,
    bit: usize,
}

/// What became of the flips.
#[derive(Debug, Default)]
struct Tally {
    flips: u64,
    /// At least one question was answered with an error.
    detected: u64,
    /// All answers were right, and the index was made anew to give them.
    repaired: u64,
    /// All answers were right.
    harmless: u64,
    /// Answers that were wrong, and panics.
    silent: Vec<String>,
}

/// The answers of a sound store.
struct Truth {
    answers: Vec<(Question, String)>,
    next_seq: u64,
}

/// What is asked of every damaged store: an append, and everything there is to know, in either order.
fn ask_all(dir: &Path, truth: &Truth, append_first: bool) -> Result<bool, String> {
    let Ok(ledger) = SqliteLedger::open(dir, SqliteOptions::default()) else { return Ok(false) };
    let mut all_answered = true;
    if append_first {
        all_answered &= check_append(&ledger, truth)?;
        return Ok(all_answered);
    }
    for (question, expected) in &truth.answers {
        match question.ask(&ledger) {
            Ok(answer) if answer == *expected => {}
            Ok(answer) => return Err(format!("{question:?} is {answer:?}, not {expected:?}")),
            Err(_) => all_answered = false,
        }
    }
    Ok(all_answered)
}

/// The next frame of a stream has the next seq, or there is none; the retry of a request is known as one.
fn check_append(ledger: &SqliteLedger, truth: &Truth) -> Result<bool, String> {
    let session = stream("session/0");
    let retry = Batch {
        idempotency_key: Some("key-3".to_owned()),
        ..make::one(&session, &output(&noise(3, 3 * 211)))
    };
    let retried = match ledger.append(retry) {
        Ok(appended) if !appended.replayed => return Err("a retry was taken for another request".to_owned()),
        retried => retried.is_ok(),
    };
    match ledger.append(make::one(&session, &output("next"))) {
        Ok(appended) if appended.frames[0].seq != truth.next_seq => {
            Err(format!("the next frame got seq {}, not {}", appended.frames[0].seq, truth.next_seq))
        }
        appended => Ok(retried && appended.is_ok()),
    }
}

fn identity_of(path: &Path) -> Option<u64> {
    use std::os::unix::fs::MetadataExt;
    fs::metadata(path).ok().map(|found| found.ino())
}

fn check_flips(rot: &Rot, truth: &Truth, flips: u64) -> Tally {
    let mut tally = Tally::default();
    for turn in 0..flips {
        let flip = rot.flip(turn);
        let (seen, rebuilt) = rot.with_flip(&flip, |dir| {
            let index = dir.join("index.db");
            let before = identity_of(&index);
            let seen = catch_unwind(AssertUnwindSafe(|| ask_all(dir, truth, turn % 8 == 7)));
            (seen.unwrap_or_else(|_| Err("a panic".to_owned())), identity_of(&index) != before)
        });
        tally.flips += 1;
        match seen {
            Ok(false) => tally.detected += 1,
            Ok(true) if rebuilt => tally.repaired += 1,
            Ok(true) => tally.harmless += 1,
            Err(said) => tally.silent.push(format!("flip {turn}, {flip:?}: {said}")),
        }
    }
    tally
}

#[test]
#[allow(clippy::print_stderr, reason = "the counts are what one runs this with --nocapture for")]
fn no_flipped_bit_changes_an_answer() {
    let dir = sample();
    let ledger = store::open(dir.path());
    let asked = questions(&ledger).expect("questions");
    let answers: Vec<_> = asked.into_iter().filter_map(|question| Some((question.clone(), question.ask(&ledger).ok()?))).collect();
    let next_seq = ledger.stream(&stream("session/0")).expect("a summary").expect("a stream").next_seq;
    let truth = Truth { answers, next_seq };
    drop(ledger);
    let rot = Rot::new(dir.path());
    let began = Instant::now();
    let tally = check_flips(&rot, &truth, store::setting("ENJAMB_FLIPS", 2_000));
    let sizes: Vec<_> = rot.files.iter().map(|(name, bytes)| format!("{} {}", name.display(), bytes.len())).collect();
    eprintln!(
        "{} questions, {:?}; {} flips in {:?}: {} detected, {} repaired, {} harmless, {} silent",
        truth.answers.len(), sizes, tally.flips, began.elapsed(), tally.detected, tally.repaired, tally.harmless, tally.silent.len()
    );
    let shown: String = tally.silent.iter().take(60).map(|said| format!("\n{}", &said[..said.len().min(130)])).collect();
    assert!(tally.silent.is_empty(), "{} silent:{shown}", tally.silent.len());
}

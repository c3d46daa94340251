//! Bit rot: one bit of one file is another one. Whatever is asked then is answered as before, or not at all.

use std::collections::BTreeMap;
use std::fs;
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::time::Instant;

use enjamb_core::StreamId;
use enjamb_ledger::segment::{SegmentOptions, SegmentWriter};
use enjamb_ledger::{Batch, Ledger, NewFrame, SegmentRecord, SqliteLedger, SqliteOptions};
use enjamb_testkit::make::{self, append, output, stream};
use enjamb_testkit::questions::{Question, fingerprint};
use tempfile::TempDir;

use crate::store;

/// Text that does not compress to nothing.
fn noise(seed: u64, len: usize) -> String {
    (0..len as u64).map(|at| char::from(b'a' + (mix(seed << 32 | at) % 26) as u8)).collect()
}

/// The finaliser of SplitMix64.
pub(super) fn mix(word: u64) -> u64 {
    let word = word.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let word = (word ^ (word >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let word = (word ^ (word >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    word ^ (word >> 31)
}

/// Frames of several streams, bytes, tags, marks and keys, in as many rows as it takes for the index to be a tree.
fn fill(ledger: &SqliteLedger, turns: Range<u64>) {
    let (thread, store) = (stream("continuity/thread"), StreamId::artifacts());
    for turn in turns {
        let session = stream(&format!("session/{}", turn % 3));
        append(ledger, keyed(&session, turn));
        let said = make::frame(&thread, &make::message("hi"));
        append(ledger, make::frames(vec![NewFrame { id: format!("m{turn}"), timestamp_ms: turn, ..said }]));
        append(ledger, make::one(&thread, &make::job("continuity_job_spawned", &format!("j{turn}"))));
        if turn % 5 == 0 {
            let id = make::stored(ledger, noise(turn, 200 + turn as usize * 97 % 3_000).as_bytes());
            append(ledger, make::one(&store, &make::tagged(&format!("t{turn}"), Some(&id), None)));
            append(ledger, make::one(&store, &make::condemned(&id)));
        }
        if turn % 15 == 0 {
            let (_, commit) = make::committed(None, "delta", "art-1", &format!("2026-01-01T00:00:{turn:02}Z"));
            append(ledger, make::one(&stream("context/agent"), &commit));
        }
    }
}

fn keyed(session: &StreamId, turn: u64) -> Batch {
    let said = output(&noise(turn, turn as usize * 211 % 3_000));
    Batch { idempotency_key: Some(format!("key-{turn}")), ..make::one(session, &said) }
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
    fill(&ledger, 0..45);
    assert!(ledger.seal(&mut |_, _| {}).expect("sealing").segments > 0);
    fill(&ledger, 45..56);
    store_in_segment(&ledger, noise(1, 150_000).as_bytes());
    fill(&ledger, 56..60);
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
        let bit =
            if turn.is_multiple_of(2) { anywhere } else { anywhere / PAGE_BITS * PAGE_BITS + anywhere % (24 * 8) };
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

impl Flip {
    /// The name of a database, or what all segments have in common.
    fn kind(&self) -> String {
        let name = self.file.file_name().unwrap_or_default().to_string_lossy();
        if name.ends_with(".seg") { "segment".to_owned() } else { name.into_owned() }
    }
}

/// What became of the flips of one kind of file.
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

/// How a damaged store did: whether it answered everything, or what it got wrong.
type Seen = Result<bool, String>;

/// Tries many flips, and counts what came of them by kind of file.
fn try_flips(rot: &Rot, flips: u64, ask: impl Fn(&Path, u64) -> Seen) -> BTreeMap<String, Tally> {
    let mut tallies: BTreeMap<String, Tally> = BTreeMap::new();
    for turn in 0..flips {
        let flip = rot.flip(turn);
        let (seen, rebuilt) = rot.with_flip(&flip, |dir| {
            let index = dir.join("index.db");
            let before = identity_of(&index);
            let seen = catch_unwind(AssertUnwindSafe(|| ask(dir, turn)));
            (seen.unwrap_or_else(|_| Err("a panic".to_owned())), identity_of(&index) != before)
        });
        let tally = tallies.entry(flip.kind()).or_default();
        tally.flips += 1;
        match seen {
            Ok(false) => tally.detected += 1,
            Ok(true) if rebuilt => tally.repaired += 1,
            Ok(true) => tally.harmless += 1,
            Err(said) => tally.silent.push(format!("flip {turn}, {flip:?}: {said}")),
        }
    }
    tallies
}

fn identity_of(path: &Path) -> Option<u64> {
    fs::metadata(path).ok().map(|found| found.ino())
}

/// The answers of a sound store.
struct Truth {
    answers: Vec<(Question, String)>,
    next_seq: u64,
}

impl Truth {
    fn of(dir: &Path) -> Self {
        let ledger = store::open(dir);
        let answers = fingerprint(&ledger).into_iter().collect();
        let next_seq = ledger.stream(&stream("session/0")).expect("a summary").expect("a stream").next_seq;
        Self { answers, next_seq }
    }

    /// Asks everything there is to know, beginning somewhere else every time: who asks first meets the damage.
    fn check_answers(&self, ledger: &SqliteLedger, turn: u64) -> Seen {
        let mut all_answered = true;
        let first = turn as usize % self.answers.len();
        for (question, expected) in self.answers[first..].iter().chain(&self.answers[..first]) {
            match question.ask(ledger).map_err(|error| format!("{:?} {}", error.kind(), error.code())) {
                Ok(answer) | Err(answer) if answer == *expected => {}
                Ok(answer) => return Err(format!("{question:?} is {answer:?}, not {expected:?}")),
                Err(_) => all_answered = false,
            }
        }
        Ok(all_answered)
    }

    /// The next frame of a stream has the next seq, and a retry is known as one. Who meets a damaged index first is told;
    /// by the next time it has been made anew.
    fn check_appends(&self, ledger: &SqliteLedger) -> Seen {
        let session = stream("session/0");
        let retry = || ledger.append(keyed(&session, 3));
        let retried = match retry().or_else(|_| retry()) {
            Ok(appended) if !appended.replayed => return Err("a retry was taken for another request".to_owned()),
            retried => retried.is_ok(),
        };
        let next = || ledger.append(make::one(&session, &output("next")));
        match next().or_else(|_| next()).map(|appended| appended.frames[0].seq) {
            Ok(seq) if seq != self.next_seq => Err(format!("the next frame got seq {seq}, not {}", self.next_seq)),
            appended => Ok(retried && appended.is_ok()),
        }
    }
}

/// Every fourth time the damage is met by a writer first.
fn ask_ledger(truth: &Truth, dir: &Path, turn: u64) -> Seen {
    let Ok(ledger) = SqliteLedger::open(dir, SqliteOptions::default()) else { return Ok(false) };
    if turn / 5 % 4 == 3 { truth.check_appends(&ledger) } else { truth.check_answers(&ledger, turn) }
}

#[test]
#[allow(clippy::print_stderr, reason = "the counts are what one runs this with --nocapture for")]
fn no_flipped_bit_changes_an_answer() {
    let dir = sample();
    let truth = Truth::of(dir.path());
    let rot = Rot::new(dir.path());
    let began = Instant::now();
    let tallies = try_flips(&rot, store::setting("ENJAMB_FLIPS", 2_000), |dir, turn| ask_ledger(&truth, dir, turn));
    eprintln!("{} questions, {:?}", truth.answers.len(), began.elapsed());
    for (kind, tally) in &tallies {
        let Tally { flips, detected, repaired, harmless, silent } = tally;
        eprintln!("{kind}: {flips} flips, {detected} detected, {repaired} repaired, {harmless} harmless");
        let shown: String = silent.iter().take(9).map(|said| format!("\n{said:.300}")).collect();
        assert!(silent.is_empty(), "{} silent in {kind} files:{shown}", silent.len());
    }
    assert_eq!(tallies["index.db"].detected, 0, "a damaged index is made anew");
}

/// The harness is not blind: whoever reads records without checking them is misled.
#[test]
fn canary_who_does_not_check_is_misled() {
    let dir = sample();
    let bodies = |dir: &Path| -> rusqlite::Result<Vec<Vec<u8>>> {
        let log = rusqlite::Connection::open(dir.join("log.db"))?;
        let mut rows = log.prepare("SELECT body FROM records ORDER BY n")?;
        rows.query_map([], |row| row.get(0))?.collect()
    };
    let expected = bodies(dir.path()).expect("a sound log");
    let tallies = try_flips(&Rot::new(dir.path()), 200, |dir, _| match bodies(dir) {
        Ok(found) if found == expected => Ok(true),
        Ok(_) => Err("other bytes".to_owned()),
        Err(_) => Ok(false),
    });
    assert!(tallies["log.db"].silent.len() > 9, "{tallies:?}");
}

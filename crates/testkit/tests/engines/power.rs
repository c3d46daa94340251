//! Power loss: whatever is left of the writes that were under way, what was acknowledged is there.

use std::path::Path;
use std::thread;
use std::time::Instant;

use enjamb_ledger::{Ledger, LedgerError, SqliteLedger, SqliteOptions};
use enjamb_testkit::faulty::{Action, CrashPlan, Image, Keep, Op, Profile, ReplayKey, Stage, images, replay};
use enjamb_testkit::make::{self, stream};
use rusqlite::{Connection, OpenFlags};

use crate::entries::{LARGE, SHARED, STREAMS, batch, batches_in, numbers_in};
use crate::lab::Lab;
use crate::store;

/// Writes in groups, reads so that the index follows, checkpoints, closes and opens again; marks every
/// acknowledgement.
fn run_workload(lab: &Lab, turns: u64) -> Vec<Op> {
    let mut ledger = lab.create();
    for turn in 0..turns {
        thread::scope(|scope| {
            for thread in 0..STREAMS {
                let (ledger, number) = (&ledger, turn * STREAMS + thread);
                scope.spawn(move || {
                    make::append(ledger, batch(number));
                    lab.vfs.recorder().mark("stored", number);
                });
            }
        });
        if turn % 3 == 1 {
            let totals = ledger.totals().expect("totals");
            assert_eq!(totals.frames, (turn + 1) * STREAMS * 2);
        }
        if turn % 5 == 3 {
            checkpoint(lab, if turn % 2 == 0 { "PASSIVE" } else { "RESTART" });
        }
        if turn % 8 == 6 {
            drop(ledger);
            ledger = lab.open().expect("the store opens");
        }
    }
    drop(ledger);
    lab.vfs.recorder().ops()
}

/// What SQLite does by itself after a thousand pages.
fn checkpoint(lab: &Lab, mode: &str) {
    for name in ["log.db", "index.db"] {
        let path = lab.path().join(name);
        let db = Connection::open_with_flags_and_vfs(path, OpenFlags::SQLITE_OPEN_READ_WRITE, lab.vfs.name());
        let db = db.expect("the file is a database");
        let done: rusqlite::Result<i64> = db.query_row(&format!("PRAGMA wal_checkpoint({mode})"), (), |row| row.get(0));
        done.expect("a checkpoint");
    }
}

/// What is appended after a crash.
const NEXT: u64 = 9_999;

/// What is wrong with what was found after a crash.
fn inspect(dir: &Path, acknowledged: &[u64]) -> Result<(), String> {
    let said = |error: LedgerError| error.to_string();
    let options = SqliteOptions::default();
    // A crash while the store is made leaves something that is no store yet, and making it again is the remedy.
    let ledger = match acknowledged {
        [] => SqliteLedger::create(dir, options, "store-1"),
        _ => SqliteLedger::open(dir, options),
    };
    let ledger = ledger.map_err(said)?;
    let found = batches_in(&ledger)?;
    if let Some(lost) = acknowledged.iter().find(|number| !found.contains(number)) {
        return Err(format!("batch {lost} is lost"));
    }
    let next = ledger.append(batch(NEXT)).map_err(said)?.frames[1].seq;
    if next != found.len() as u64 {
        return Err(format!("the next frame got seq {next}"));
    }
    let last = ledger.frames(&stream(SHARED), next, 2).map_err(said)?;
    if last.len() == 1 { Ok(()) } else { Err("what was appended after the crash is not there".to_owned()) }
}

#[derive(Default)]
struct Verdicts {
    images: u64,
    faults: Vec<String>,
}

impl Verdicts {
    /// Recovers from an image, and writes down what is wrong with it.
    fn judge(&mut self, stage: &mut Stage, image: &Image) {
        let acknowledged: Vec<u64> = image.marks().iter().map(|mark| mark.value).collect();
        let dir = stage.lay(image).expect("an image can be laid out");
        self.images += 1;
        if let Err(fault) = inspect(dir, &acknowledged) {
            self.faults.push(format!("{}: {fault}", image.key));
        }
    }

    #[track_caller]
    fn assert_spotless(&self) {
        let shown = self.faults.iter().take(10).map(|fault| format!("\n{fault}")).collect::<String>();
        assert!(self.faults.is_empty(), "{} of {} images:{shown}", self.faults.len(), self.images);
    }
}

/// Judges images of one workload after another until there were enough.
fn explore(lab: &mut Lab, first_seed: u64, images_max: u64) -> Verdicts {
    let mut verdicts = Verdicts::default();
    let mut stage = Stage::new().expect("a place for images");
    let mut seed = first_seed;
    while verdicts.images < images_max {
        lab.begin_anew();
        let ops = run_workload(lab, 9);
        let plan = CrashPlan { randoms: 2, prefixes_max: 4, seed, ..CrashPlan::default() };
        // Neighbouring images are much alike: of a short run every few, of a long one all.
        let left = images_max - verdicts.images;
        let stride = (IMAGES_PER_WORKLOAD / left).max(1) as usize;
        let chosen = images(&ops, plan).skip(seed as usize % stride).step_by(stride);
        chosen.take(left as usize).for_each(|image| verdicts.judge(&mut stage, &image));
        seed += 1;
    }
    verdicts
}

/// About as many as one workload gives.
const IMAGES_PER_WORKLOAD: u64 = 2_500;

/// `ENJAMB_CRASH_IMAGES` asks for more images than a normal run has time for.
#[test]
#[allow(clippy::print_stderr, reason = "the rate is what one runs this with --nocapture for")]
fn what_was_acknowledged_survives_a_power_loss() {
    let images_max = store::setting("ENJAMB_CRASH_IMAGES", 1_500);
    let began = Instant::now();
    let workers = if images_max > 10_000 { thread::available_parallelism().map_or(1, usize::from) } else { 1 };
    let verdicts = thread::scope(|scope| {
        let explore = |worker: usize| explore(&mut Lab::new(), worker as u64 * 1_000_000, images_max / workers as u64);
        let running: Vec<_> = (0..workers).map(|worker| scope.spawn(move || explore(worker))).collect();
        running.into_iter().map(|thread| thread.join().expect("a worker panicked")).collect::<Vec<_>>()
    });
    let images: u64 = verdicts.iter().map(|verdicts| verdicts.images).sum();
    let rate = images as f64 / began.elapsed().as_secs_f64();
    eprintln!("{images} images, {rate:.0}/s");
    verdicts.iter().for_each(Verdicts::assert_spotless);
}

/// So much is written that SQLite takes in the write-ahead log by itself, and begins it anew.
#[test]
fn what_was_acknowledged_survives_while_the_log_is_taken_in() {
    let lab = Lab::new();
    let ledger = lab.create();
    for number in LARGE..LARGE + 20 {
        make::append(&ledger, batch(number));
        lab.vfs.recorder().mark("stored", number);
    }
    let ops = lab.vfs.recorder().ops();
    let is_database = |op: &&Op| matches!(&op.action, Action::Sync { path, .. } if path.ends_with("log.db"));
    assert!(ops.iter().filter(is_database).count() > 1, "the log was never taken in");
    let mut stage = Stage::new().expect("a place for images");
    let mut verdicts = Verdicts::default();
    let plan = CrashPlan { prefixes_max: 2, randoms: 1, ..CrashPlan::default() };
    images(&ops, plan).step_by(8).for_each(|image| verdicts.judge(&mut stage, &image));
    assert!(verdicts.images > 15, "{} images", verdicts.images);
    verdicts.assert_spotless();
}

/// The harness is not blind: on a disk that says it has synced and has not, it finds that things are lost.
#[test]
fn canary_a_disk_that_lies_is_found_out() {
    let lab = Lab::new();
    lab.vfs.swallow_syncs();
    let ops = run_workload(&lab, 4);
    let mut stage = Stage::new().expect("a place for images");
    let mut verdicts = Verdicts::default();
    for op in (0..=ops.len() as u64).step_by(5) {
        let key = ReplayKey { op, profile: Profile::OrderedAppend, keep: Keep::Random, seed: 1 };
        verdicts.judge(&mut stage, &replay(&ops, key));
    }
    let is_loss = |fault: &&String| fault.contains("is lost");
    assert!(verdicts.faults.iter().filter(is_loss).count() > 2, "{} images: {:?}", verdicts.images, verdicts.faults);
}

/// A process dies before its sync, the next one finds its writes in the page cache and serves them, and then the power
/// goes: what was served is there all the same.
#[test]
fn what_was_served_after_a_crash_survives_the_next_one() {
    let mut lab = Lab::new();
    let mut stage = Stage::new().expect("a place for images");
    let mut verdicts = Verdicts::default();
    let ops = run_workload(&lab, 4);
    let is_log_sync = |op: &&Op| matches!(&op.action, Action::Sync { path, .. } if path.ends_with("log.db-wal"));
    let before_syncs: Vec<u64> = ops.iter().filter(is_log_sync).map(|op| op.number - 1).collect();
    for killed_at in before_syncs {
        let killed = replay(&ops, ReplayKey { op: killed_at, profile: Profile::Torn512, keep: Keep::Kill, seed: 0 });
        lab.begin_anew();
        killed.write_to(lab.path()).expect("an image can be laid out");
        let history = renumbered([&ops[..killed_at as usize], &served(&lab)].concat());
        for op in (killed_at + 1..=history.len() as u64).step_by(2) {
            let keep = if op % 3 == 0 { Keep::Random } else { Keep::Nothing };
            let key = ReplayKey { op, profile: Profile::OrderedAppend, keep, seed: op };
            verdicts.judge(&mut stage, &replay(&history, key));
        }
    }
    assert!(verdicts.images > 50, "{} images", verdicts.images);
    verdicts.assert_spotless();
}

/// Opens what a killed process left behind, and marks all that it is given to see.
fn served(lab: &Lab) -> Vec<Op> {
    lab.vfs.watch(lab.path()).expect("the directory can be read");
    if let Ok(ledger) = lab.open() {
        for number in numbers_in(&ledger, &stream(SHARED)).expect("what is there is right") {
            lab.vfs.recorder().mark("served", number);
        }
    }
    // What was there is told by the history before, with what of it was durable.
    let is_new = |op: &Op| !matches!(op.action, Action::Existing { .. } | Action::Directory { .. });
    lab.vfs.recorder().ops().into_iter().filter(is_new).collect()
}

fn renumbered(ops: Vec<Op>) -> Vec<Op> {
    (1..).zip(ops).map(|(number, op)| Op { number, ..op }).collect()
}

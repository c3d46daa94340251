//! A toy engine, right and wrong, that shows the harness to be neither blind nor unfair.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use rusqlite::{Connection, ErrorCode, OpenFlags};
use tempfile::TempDir;

use super::*;

const DATABASE: &str = "toy.db";

/// A watched directory with a shim of its own.
struct Lab {
    vfs: Arc<FaultyVfs>,
    directory: TempDir,
}

impl Lab {
    fn new() -> Self {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let vfs = FaultyVfs::register(&format!("faulty-{}", COUNT.fetch_add(1, Ordering::Relaxed))).unwrap();
        let memory = Path::new("/dev/shm");
        let directory = if memory.is_dir() { TempDir::new_in(memory) } else { TempDir::new() }.unwrap();
        vfs.watch(directory.path()).unwrap();
        Self { vfs, directory }
    }

    fn open(&self, journal: &str, synchronous: &str) -> rusqlite::Result<Connection> {
        let path = self.directory.path().join(DATABASE);
        let db = Connection::open_with_flags_and_vfs(path, OpenFlags::default(), self.vfs.name())?;
        db.pragma_update(None, "journal_mode", journal)?;
        db.pragma_update(None, "synchronous", synchronous)?;
        // Few pages, so that a short run crosses many checkpoints and restarts of the log.
        db.pragma_update(None, "wal_autocheckpoint", 24)?;
        db.execute_batch("CREATE TABLE IF NOT EXISTS entry (id INTEGER PRIMARY KEY, body BLOB, digest INTEGER)")?;
        Ok(db)
    }

    /// Stores one row and acknowledges it.
    fn store(&self, db: &Connection, id: i64) -> rusqlite::Result<()> {
        let body = body(id);
        db.execute_batch("BEGIN IMMEDIATE")?;
        let stored = db
            .execute("INSERT INTO entry VALUES (?1, ?2, ?3)", (id, &body, digest(&body)))
            .and_then(|_| db.execute_batch("COMMIT"));
        if stored.is_err() && !db.is_autocommit() {
            db.execute_batch("ROLLBACK").ok();
        }
        stored?;
        self.vfs.recorder().mark("stored", id as u64);
        Ok(())
    }

    fn ops(&self) -> Vec<Op> {
        self.vfs.recorder().ops()
    }
}

fn body(id: i64) -> Vec<u8> {
    let length = 50 + (id as usize * 977) % 9000;
    (0..length).map(|position| (position as i64 * 31 + id * 7) as u8).collect()
}

fn digest(bytes: &[u8]) -> i64 {
    let mut hasher = DefaultHasher::new();
    bytes.hash(&mut hasher);
    hasher.finish() as i64
}

/// Runs the toy with a reader beside the writer, reopening half way, so that the log is also deleted and made again.
fn run_toy(journal: &str, synchronous: &str, rows: i64) -> Vec<Op> {
    let lab = Lab::new();
    for half in [0..rows / 2, rows / 2..rows] {
        let writer = lab.open(journal, synchronous).unwrap();
        let reader = lab.open(journal, synchronous).unwrap();
        for id in half {
            lab.store(&writer, id).unwrap();
            let seen: i64 = reader.query_row("SELECT count(*) FROM entry", (), |row| row.get(0)).unwrap();
            assert_eq!(seen, id + 1);
        }
    }
    lab.ops()
}

#[derive(Debug, Default)]
struct Verdicts {
    images: u64,
    lost: Vec<ReplayKey>,
    corrupt: Vec<ReplayKey>,
}

impl Verdicts {
    #[track_caller]
    fn assert_spotless(&self, context: &str) {
        let worst = self.corrupt.first().or(self.lost.first()).map(ReplayKey::to_string);
        let (lost, corrupt) = (self.lost.len(), self.corrupt.len());
        assert_eq!(worst, None, "{context}: {lost} lost, {corrupt} corrupt of {}", self.images);
    }
}

/// Recovers from every image of the plan.
fn explore(ops: &[Op], plan: CrashPlan) -> Verdicts {
    let mut stage = Stage::new().unwrap();
    let mut verdicts = Verdicts::default();
    for image in images(ops, plan) {
        verdicts.images += 1;
        match rows_of(stage.lay(&image).unwrap()) {
            Ok(found) if is_acceptable(&image, &found) => {}
            Ok(_) => verdicts.lost.push(image.key),
            Err(_) => verdicts.corrupt.push(image.key),
        }
    }
    verdicts
}

/// All that was acknowledged, and at most the one row that was under way.
fn is_acceptable(image: &Image, found: &BTreeSet<u64>) -> bool {
    let acknowledged: BTreeSet<u64> = image.marks().iter().map(|mark| mark.value).collect();
    found.is_superset(&acknowledged) && found.len() <= acknowledged.len() + 1
}

fn rows_of(directory: &Path) -> rusqlite::Result<BTreeSet<u64>> {
    let path = directory.join(DATABASE);
    if !path.exists() {
        return Ok(BTreeSet::new());
    }
    let db = Connection::open(path)?;
    let tables: i64 = db.query_row("SELECT count(*) FROM sqlite_schema", (), |row| row.get(0))?;
    if tables == 0 {
        return Ok(BTreeSet::new());
    }
    let report: String = db.query_row("PRAGMA integrity_check", (), |row| row.get(0))?;
    if report != "ok" {
        return Err(rusqlite::Error::InvalidQuery);
    }
    let mut rows = db.prepare("SELECT id, body, digest FROM entry")?;
    let rows = rows.query_map((), |row| {
        let (id, body, stored): (i64, Vec<u8>, i64) = (row.get(0)?, row.get(1)?, row.get(2)?);
        if stored == digest(&body) { Ok(id as u64) } else { Err(rusqlite::Error::InvalidQuery) }
    })?;
    rows.collect()
}

#[test]
#[allow(clippy::print_stderr, reason = "the rate is what one runs this with --nocapture for")]
fn full_synchronous_wal_loses_nothing() {
    let ops = run_toy("WAL", "FULL", 40);
    let began = Instant::now();
    let made = images(&ops, CrashPlan::default()).count();
    let making = began.elapsed().as_secs_f64();

    let began = Instant::now();
    let verdicts = explore(&ops, CrashPlan::default());
    let all = began.elapsed().as_secs_f64();
    eprintln!(
        "{} ops, {made} images: {:.0}/s made, {:.0}/s made and recovered",
        ops.len(),
        made as f64 / making,
        made as f64 / all
    );
    assert!(verdicts.images > 2_000, "{} images", verdicts.images);
    verdicts.assert_spotless("FULL");
}

#[test]
fn full_synchronous_wal_loses_nothing_at_any_op() {
    let plan = CrashPlan { points: Points::EveryOp, prefixes_max: 3, randoms: 1, seed: 99, ..CrashPlan::default() };
    let verdicts = explore(&run_toy("WAL", "FULL", 12), plan);
    verdicts.assert_spotless("FULL");
}

#[test]
fn canary_without_syncs_rows_are_lost_and_the_file_is_torn() {
    let verdicts = explore(&run_toy("WAL", "OFF", 20), CrashPlan::default());
    assert!(!verdicts.lost.is_empty() && !verdicts.corrupt.is_empty(), "{verdicts:?}");
}

#[test]
fn canary_normal_synchronous_wal_loses_rows_but_stays_whole() {
    let verdicts = explore(&run_toy("WAL", "NORMAL", 20), CrashPlan::default());
    assert!(!verdicts.lost.is_empty());
    assert_eq!(verdicts.corrupt, vec![]);
}

/// The deletion of the journal is the commit, and only `EXTRA` syncs the directory after it.
#[test]
fn canary_rollback_journal_needs_its_directory_synced() {
    let full = explore(&run_toy("DELETE", "FULL", 12), CrashPlan::default());
    assert!(!full.lost.is_empty());
    assert_eq!(full.corrupt, vec![]);
    let extra = explore(&run_toy("DELETE", "EXTRA", 12), CrashPlan::default());
    extra.assert_spotless("EXTRA");
}

#[test]
fn a_killed_process_loses_nothing_even_without_syncs() {
    let ops = run_toy("WAL", "OFF", 12);
    let mut stage = Stage::new().unwrap();
    for op in 1..=ops.len() as u64 {
        let image = replay(&ops, ReplayKey { op, profile: Profile::Torn512, keep: Keep::Kill, seed: 0 });
        let found = rows_of(stage.lay(&image).unwrap()).unwrap();
        assert!(is_acceptable(&image, &found), "{}", image.key);
    }
}

/// Crashes again at each point of the recovery from a crash.
#[test]
fn recovery_may_crash_too() {
    let lab = Lab::new();
    let ops = run_toy("WAL", "FULL", 16);
    for first in images(&ops, CrashPlan { randoms: 1, prefixes_max: 1, ..CrashPlan::default() }).step_by(40) {
        let directory = TempDir::new_in(lab.directory.path().parent().unwrap()).unwrap();
        first.write_to(directory.path()).unwrap();
        lab.vfs.watch(directory.path()).unwrap();
        for mark in first.marks() {
            lab.vfs.recorder().mark(mark.label.clone(), mark.value);
        }
        let path = directory.path().join(DATABASE);
        let db = Connection::open_with_flags_and_vfs(path, OpenFlags::default(), lab.vfs.name()).unwrap();
        db.execute_batch("PRAGMA synchronous = FULL; PRAGMA wal_checkpoint(TRUNCATE);").unwrap();
        drop(db);
        let second = explore(&lab.ops(), CrashPlan::default());
        second.assert_spotless(&first.key.to_string());
    }
}

#[test]
fn keys_replay_to_the_same_image() {
    let ops = run_toy("WAL", "FULL", 6);
    for image in images(&ops, CrashPlan::default()) {
        let key: ReplayKey = image.key.to_string().parse().unwrap();
        assert_eq!(key, image.key);
        assert!(replay(&ops, key).files().eq(image.files()), "{key}");
    }
    assert!("op=1 profile=Torn512 seed=7 keep=random".parse::<ReplayKey>().is_err());
}

#[test]
fn the_kill_image_at_the_end_is_the_directory() {
    let lab = Lab::new();
    let db = lab.open("WAL", "FULL").unwrap();
    (0..10).for_each(|id| lab.store(&db, id).unwrap());
    let key = ReplayKey { op: lab.ops().len() as u64, profile: Profile::Torn512, keep: Keep::Kill, seed: 0 };
    let image = replay(&lab.ops(), key);
    for name in [DATABASE, "toy.db-wal"] {
        assert_eq!(image.file(name).unwrap(), std::fs::read(lab.directory.path().join(name)).unwrap(), "{name}");
    }
    assert_eq!(image.files().count(), 2);
}

/// Fails the nth call, for every n until there is no nth, once and forever; what was acknowledged must survive the
/// errors, and the power loss that follows them.
fn check_every_nth(op: OpKind, error: FaultError, expected: ErrorCode, times: Times) {
    for nth in 1.. {
        let lab = Lab::new();
        let db = lab.open("WAL", "FULL").unwrap();
        lab.store(&db, 0).unwrap();
        lab.vfs.fail(Fault { op, file_suffix: None, nth, times, error });
        let mut failures = 0;
        let mut next = 1;
        for _ in 0..8 {
            match lab.store(&db, next) {
                Ok(()) => next += 1,
                Err(failure) => {
                    assert_eq!(failure.sqlite_error_code(), Some(expected), "nth={nth}: {failure}");
                    failures += 1;
                }
            }
        }
        if lab.vfs.tripped() == 0 {
            assert!(nth > 8, "the fault was hardly tried");
            return;
        }
        // A failed checkpoint does not fail the commit that set it off, so not every fault is seen.
        assert!(times == Times::Forever || failures <= 1, "nth={nth}: one fault, {failures} failures");
        drop(db);
        // One in four keeps this to seconds: neighbouring calls leave neighbouring images.
        if nth % 4 == 1 {
            let profiles = vec![Profile::Torn512];
            let plan = CrashPlan { profiles, randoms: 2, prefixes_max: 1, seed: nth, ..CrashPlan::default() };
            explore(&lab.ops(), plan).assert_spotless(&format!("{op:?} nth={nth}"));
        }
    }
}

#[test]
fn a_failed_sync_fails_the_commit() {
    let lab = Lab::new();
    let db = lab.open("WAL", "FULL").unwrap();
    let fault =
        Fault { op: OpKind::Sync, file_suffix: Some("-wal"), nth: 2, times: Times::Once, error: FaultError::Eio };
    lab.store(&db, 0).unwrap();
    lab.vfs.fail(fault);
    lab.store(&db, 1).unwrap();
    let failure = lab.store(&db, 2).unwrap_err();
    let code = failure.sqlite_error().unwrap().extended_code;
    assert_eq!(code, rusqlite::ffi::SQLITE_IOERR_FSYNC);
    lab.store(&db, 2).unwrap();

    lab.vfs.fail(Fault { nth: 1, times: Times::Forever, ..fault });
    assert!((0..3).all(|_| lab.store(&db, 3).is_err()));
    lab.vfs.clear_faults();
    lab.store(&db, 3).unwrap();
}

#[test]
fn eio_on_any_sync_is_survived() {
    check_every_nth(OpKind::Sync, FaultError::Eio, ErrorCode::SystemIoFailure, Times::Once);
    check_every_nth(OpKind::Sync, FaultError::Eio, ErrorCode::SystemIoFailure, Times::Forever);
}

#[test]
fn a_full_disk_at_any_write_is_survived() {
    check_every_nth(OpKind::Write, FaultError::Enospc, ErrorCode::DiskFull, Times::Once);
    check_every_nth(OpKind::Write, FaultError::Enospc, ErrorCode::DiskFull, Times::Forever);
    check_every_nth(OpKind::Write, FaultError::ShortWrite, ErrorCode::DiskFull, Times::Once);
}

#[test]
fn reads_opens_and_deletes_fail_with_their_own_codes() {
    let lab = Lab::new();
    drop(lab.open("WAL", "FULL").unwrap());
    let once = |op| Fault { op, file_suffix: Some(".db"), nth: 1, times: Times::Once, error: FaultError::Eio };
    let code = |result: rusqlite::Result<Connection>| result.unwrap_err().sqlite_error().unwrap().extended_code;

    lab.vfs.fail(once(OpKind::Open));
    assert_eq!(code(lab.open("WAL", "FULL")), rusqlite::ffi::SQLITE_CANTOPEN);
    lab.vfs.fail(once(OpKind::Read));
    assert_eq!(code(lab.open("WAL", "FULL")), rusqlite::ffi::SQLITE_IOERR_READ);
    let db = lab.open("DELETE", "FULL").unwrap();
    lab.vfs.fail(Fault { file_suffix: Some("-journal"), ..once(OpKind::Delete) });
    let failure = lab.store(&db, 0).unwrap_err();
    assert_eq!(failure.sqlite_error().unwrap().extended_code, rusqlite::ffi::SQLITE_IOERR_DELETE);
    assert!(lab.vfs.check(OpKind::Write, Path::new("segment")).is_ok());
}

/// How much of the rite of publishing a file is observed.
#[derive(Clone, Copy, PartialEq)]
enum Rite {
    Whole,
    FileNotSynced,
    DirectoryNotSynced,
    /// The sync failed, and was tried again with success.
    SyncRetried,
}

/// Images in which an acknowledged segment is missing or wrong.
fn lost_segments(rite: Rite) -> usize {
    let directory = TempDir::new().unwrap();
    let recorder = Recorder::default();
    recorder.watch(directory.path()).unwrap();
    recorder.note_dir_created(Path::new("segments"));
    let content = |number: u64| vec![number as u8 + 1; 5000];
    for number in 0..4 {
        let (draft, path) = (directory.path().join("segments/draft"), format!("segments/{number}"));
        recorder.note_file_written(&draft, &content(number));
        if rite == Rite::SyncRetried {
            recorder.note_sync_failed(&draft);
        }
        if rite != Rite::FileNotSynced {
            recorder.note_file_synced(&draft);
        }
        recorder.note_renamed(&draft, Path::new(&path));
        if rite != Rite::DirectoryNotSynced {
            recorder.note_dir_synced(Path::new("segments"));
        }
        recorder.mark("segment", number);
    }
    let ops = recorder.ops();
    let is_whole = |image: &Image, mark: &Mark| {
        image.file(format!("segments/{}", mark.value)).is_some_and(|bytes| *bytes == content(mark.value))
    };
    let all = images(&ops, CrashPlan { points: Points::EveryOp, ..CrashPlan::default() });
    all.filter(|image| !image.marks().iter().all(|mark| is_whole(image, mark))).count()
}

#[test]
fn plain_files_survive_only_the_whole_rite() {
    assert_eq!(lost_segments(Rite::Whole), 0);
    assert!(lost_segments(Rite::FileNotSynced) > 0);
    assert!(lost_segments(Rite::DirectoryNotSynced) > 0);
    assert!(lost_segments(Rite::SyncRetried) > 0);
}

/// Contents of a durable file of `old` after `writes` that were never synced, over many images of one profile.
fn contents_after(profile: Profile, old: &[u8], writes: &[(u64, &[u8])]) -> Vec<Vec<u8>> {
    let directory = TempDir::new().unwrap();
    std::fs::write(directory.path().join("file"), old).unwrap();
    let recorder = Recorder::default();
    recorder.watch(directory.path()).unwrap();
    for (offset, bytes) in writes {
        recorder.note_written_at(Path::new("file"), *offset, bytes);
    }
    let plan = CrashPlan { profiles: vec![profile], randoms: 200, tears: 50, kill: false, ..CrashPlan::default() };
    images(&recorder.ops(), plan).map(|image| image.file("file").unwrap().to_vec()).collect()
}

#[test]
fn a_write_is_torn_as_its_profile_says() {
    let (old, new) = ([1; 3 * 4096], [2; 3 * 4096]);
    let is_uniform = |piece: &[u8]| piece.iter().all(|byte| *byte == piece[0] && (1..=2).contains(byte));
    let is_mixed = |content: &Vec<u8>| content.contains(&1) && content.contains(&2);

    let blocks = contents_after(Profile::Atomic4k, &old, &[(0, &new)]);
    assert!(blocks.iter().all(|content| content.chunks(4096).all(is_uniform)));
    assert!(blocks.iter().any(|content| is_mixed(content) && content[0] == 2 && content[8192] == 2));

    let ordered = contents_after(Profile::OrderedAppend, &old, &[(0, &new)]);
    assert!(ordered.iter().all(|content| content.is_sorted_by(|one, next| one >= next)));
    assert!(ordered.iter().any(is_mixed));

    let sectors = contents_after(Profile::Torn512, &old, &[(0, &new)]);
    let has_sector = |wanted: &dyn Fn(&[u8]) -> bool| sectors.iter().any(|content| content.chunks(512).any(wanted));
    assert!(has_sector(&|sector| sector.iter().all(|byte| *byte == 0)));
    assert!(has_sector(&|sector| sector.iter().any(|byte| *byte > 2)));
    assert!(sectors.iter().any(|content| is_mixed(content) && !content.chunks(4096).all(is_uniform)));
}

#[test]
fn writes_to_one_block_are_reordered_as_their_profile_says() {
    let writes: [(u64, &[u8]); 2] = [(0, &[1; 10]), (10, &[2; 10])];
    let has_later_alone = |profile| {
        let contents = contents_after(profile, b"", &writes);
        contents.iter().any(|content| content.get(10) == Some(&2) && content[0] == 0)
    };
    assert!(has_later_alone(Profile::Torn512));
    assert!(!has_later_alone(Profile::Atomic4k));
    assert!(!has_later_alone(Profile::OrderedAppend));
}

#[test]
fn a_file_may_grow_ahead_of_its_bytes_unless_appends_are_ordered() {
    let has_zeros = |profile| contents_after(profile, b"", &[(0, &[7; 2000])]).contains(&vec![0; 2000]);
    assert!(has_zeros(Profile::Torn512) && has_zeros(Profile::Atomic4k));
    assert!(!has_zeros(Profile::OrderedAppend));
}

#[test]
fn writers_on_several_threads_lose_nothing() {
    let lab = Lab::new();
    drop(lab.open("WAL", "FULL").unwrap());
    std::thread::scope(|scope| {
        for thread in 0..3 {
            let lab = &lab;
            scope.spawn(move || {
                let db = lab.open("WAL", "FULL").unwrap();
                (0..10).for_each(|turn| lab.store(&db, turn * 3 + thread).unwrap());
            });
        }
    });
    let ops = lab.ops();
    let mut stage = Stage::new().unwrap();
    for image in images(&ops, CrashPlan { randoms: 3, prefixes_max: 6, ..CrashPlan::default() }) {
        let found = rows_of(stage.lay(&image).unwrap()).unwrap();
        let lost = image.marks().iter().find(|mark| !found.contains(&mark.value));
        assert_eq!(lost, None, "{}", image.key);
    }
}

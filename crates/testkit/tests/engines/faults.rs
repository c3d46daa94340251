//! Disks that fail: every write and every sync in turn, once and for good.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::thread;

use enjamb_core::ErrorKind;
use enjamb_ledger::{Batch, Ledger, LedgerError, Outcome, SqliteLedger};
use enjamb_testkit::faulty::{Action, Fault, FaultError, Op, OpKind, Times};
use enjamb_testkit::make;

use crate::entries::{self, batches_in};
use crate::lab::Lab;
use crate::store;

/// Batches that are stored before anything fails.
const BEFORE: u64 = 2;
/// Batches that are tried while the fault is armed.
const TRIED: u64 = 7;

fn batch(number: u64) -> Batch {
    Batch { idempotency_key: Some(number.to_string()), ..entries::batch(number) }
}

/// A store with a few batches, to be copied.
fn template() -> tempfile::TempDir {
    let dir = store::directory();
    let ledger = store::create(dir.path());
    (0..BEFORE).for_each(|number| drop(make::append(&ledger, batch(number))));
    ledger.totals().expect("totals");
    drop(ledger);
    dir
}

fn copy(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).expect("a directory").map(|entry| entry.expect("an entry")) {
        if entry.path().is_file() {
            fs::copy(entry.path(), to.join(entry.file_name())).expect("a copy");
        }
    }
}

/// What came of the batches that were tried.
#[derive(Default)]
struct Tried {
    acknowledged: BTreeSet<u64>,
    /// A commit may or may not have been stored, so the handle writes no more.
    poisoned: bool,
}

impl Tried {
    fn note(&mut self, fault: Fault, number: u64, answer: Result<bool, LedgerError>) {
        match answer {
            Ok(_) => {
                assert!(!self.poisoned, "{fault:?}: batch {number} was accepted after a failed sync");
                self.acknowledged.insert(number);
            }
            Err(error) => {
                let code = match fault.error {
                    _ if self.poisoned => "storage-poisoned",
                    FaultError::Eio => "storage-error",
                    FaultError::Enospc | FaultError::ShortWrite => "storage-full",
                };
                assert_eq!((error.kind(), error.code()), (ErrorKind::Unavailable, code), "{fault:?}: {error}");
                self.poisoned |= error.outcome() == Outcome::Indeterminate;
            }
        }
    }
}

/// Appends and reads while the fault is armed.
fn try_all(ledger: &SqliteLedger, fault: Fault) -> Tried {
    let mut tried = Tried { acknowledged: (0..BEFORE).collect(), poisoned: false };
    for number in BEFORE..BEFORE + TRIED {
        tried.note(fault, number, ledger.append(batch(number)).map(|appended| appended.replayed));
        if number % 2 == 1 {
            check_reads(ledger, fault, &tried);
        }
    }
    tried
}

/// A full disk keeps nobody from reading; a broken one may, but does not make anyone read something else.
fn check_reads(ledger: &SqliteLedger, fault: Fault, tried: &Tried) {
    match (batches_in(ledger), fault.error) {
        (Ok(found), _) => assert!(found.is_superset(&tried.acknowledged), "{fault:?}: {found:?}"),
        (Err(said), FaultError::Enospc | FaultError::ShortWrite) => panic!("{fault:?}: {said}"),
        (Err(said), FaultError::Eio) => assert!(said.contains("disk"), "{fault:?}: {said}"),
    }
}

/// After a restart on a sound disk everything is there, and whoever asks again is told so or served once.
fn check_after(dir: &Path, fault: Fault, tried: &Tried) {
    let ledger = store::open(dir);
    let found = batches_in(&ledger).unwrap_or_else(|said| panic!("{fault:?}: {said}"));
    assert!(found.is_superset(&tried.acknowledged), "{fault:?}: {found:?} of {:?}", tried.acknowledged);
    for number in 0..BEFORE + TRIED {
        let appended = make::append(&ledger, batch(number));
        assert_eq!(appended.replayed, found.contains(&number), "{fault:?}: batch {number}");
    }
    assert_eq!(batches_in(&ledger), Ok((0..BEFORE + TRIED).collect()), "{fault:?}");
    assert_eq!(ledger.verify_full(&mut |_, _| {}).expect("a verification").findings, [], "{fault:?}");
}

/// Fails the nth call for every n until there is no nth.
fn check_every_nth(op: OpKind, error: FaultError, times: Times) {
    let template = template();
    let mut lab = Lab::new();
    for nth in 1.. {
        let fault = Fault { op, file_suffix: None, nth, times, error };
        lab.begin_anew();
        copy(template.path(), lab.path());
        lab.vfs.watch(lab.path()).expect("the directory can be read");
        let ledger = lab.open().expect("the store opens");
        lab.vfs.fail(fault);
        let tried = try_all(&ledger, fault);
        let tripped = lab.vfs.tripped();
        drop(ledger);
        lab.vfs.clear_faults();
        check_after(lab.path(), fault, &tried);
        if tripped == 0 {
            assert!(nth > TRIED, "the fault was hardly tried");
            return;
        }
    }
}

#[test]
fn a_write_that_fails_once_is_survived() {
    check_every_nth(OpKind::Write, FaultError::Eio, Times::Once);
}

#[test]
fn a_disk_that_writes_no_more_is_survived() {
    check_every_nth(OpKind::Write, FaultError::Eio, Times::Forever);
}

#[test]
fn a_disk_that_is_full_for_a_moment_is_survived() {
    check_every_nth(OpKind::Write, FaultError::Enospc, Times::Once);
    check_every_nth(OpKind::Write, FaultError::ShortWrite, Times::Once);
}

#[test]
fn a_disk_that_is_full_can_still_be_read() {
    check_every_nth(OpKind::Write, FaultError::Enospc, Times::Forever);
}

#[test]
fn a_sync_that_fails_ends_writing_until_a_restart() {
    check_every_nth(OpKind::Sync, FaultError::Eio, Times::Once);
    check_every_nth(OpKind::Sync, FaultError::Eio, Times::Forever);
}

/// A failed sync leaves bytes that no later sync vouches for, so nobody may write after it, not even those who were in
/// the queue already.
#[test]
fn nobody_writes_after_a_failed_sync() {
    let mut lab = Lab::new();
    for nth in 1..8 {
        lab.begin_anew();
        let ledger = lab.create();
        lab.vfs.fail(Fault {
            op: OpKind::Sync,
            file_suffix: Some("log.db-wal"),
            nth,
            times: Times::Once,
            error: FaultError::Eio,
        });
        thread::scope(|scope| {
            for thread in 0..6 {
                let ledger = &ledger;
                scope.spawn(move || (0..16).for_each(|turn| drop(ledger.append(batch(thread * 16 + turn)))));
            }
        });
        let on_log = |op: &Op| match &op.action {
            Action::Sync { path, .. } if path.ends_with("log.db-wal") => Some(true),
            Action::SyncFailed { path } if path.ends_with("log.db-wal") => Some(false),
            _ => None,
        };
        let synced: Vec<bool> = lab.vfs.recorder().ops().iter().filter_map(on_log).collect();
        assert_eq!(synced.last(), Some(&false), "{synced:?}");
        assert_eq!(ledger.append(batch(99)).map_err(|error| error.code()), Err("storage-poisoned"));
    }
}

/// The store has no index yet, so that opening it for writing already fails: whoever leads the group says so to all.
#[test]
fn all_who_wait_for_a_full_disk_are_told_so() {
    let template = template();
    store::delete_index(template.path());
    let mut lab = Lab::new();
    lab.begin_anew();
    copy(template.path(), lab.path());
    let ledger = lab.open().expect("the store opens");
    let fault = |op| Fault { op, file_suffix: None, nth: 1, times: Times::Forever, error: FaultError::Enospc };
    lab.vfs.fail(fault(OpKind::Write));
    thread::scope(|scope| {
        for thread in 0..8 {
            let ledger = &ledger;
            scope.spawn(move || {
                for turn in 0..20 {
                    let answer = ledger.append(batch(thread * 100 + turn)).map_err(|error| error.code());
                    assert_eq!(answer, Err("storage-full"));
                }
            });
        }
    });
    lab.vfs.clear_faults();
    make::append(&ledger, batch(BEFORE));
    assert_eq!(batches_in(&ledger), Ok((0..=BEFORE).collect()));
}

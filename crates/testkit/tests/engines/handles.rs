//! Several handles on one store, as several processes have them.

use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Barrier;
use std::thread;

use enjamb_ledger::{Ledger, SqliteLedger};
use enjamb_testkit::make::{self, stream};

use crate::entries::{SHARED, batch, batches_in};
use crate::store;

const HANDLES: u64 = 4;
const TURNS: u64 = 5;

/// All open the store at the same moment, when it has no index, and write to the same stream.
#[test]
fn handles_that_open_together_share_what_they_find() {
    for round in 0..25 {
        let dir = store::directory();
        let ledger = store::create(dir.path());
        (0..round % 4).for_each(|number| drop(make::append(&ledger, batch(1_000 + number))));
        drop(ledger);
        store::delete_index(dir.path());
        let together = Barrier::new(HANDLES as usize);
        thread::scope(|scope| {
            for handle in 0..HANDLES {
                let (dir, together) = (dir.path(), &together);
                scope.spawn(move || {
                    together.wait();
                    let ledger = store::open(dir);
                    for turn in 0..TURNS {
                        make::append(&ledger, batch(handle * TURNS + turn));
                        if turn % 2 == handle % 2 {
                            ledger.totals().expect("totals");
                        }
                    }
                });
            }
        });
        let expected: BTreeSet<u64> = (0..HANDLES * TURNS).chain((0..round % 4).map(|number| 1_000 + number)).collect();
        assert_eq!(batches_in(&store::open(dir.path())), Ok(expected), "round {round}");
    }
}

/// One handle makes the index anew, over and over, while the others use it.
#[test]
fn an_index_may_be_made_anew_while_others_use_it() {
    for round in 0..6 {
        let dir = store::directory();
        drop(store::create(dir.path()));
        thread::scope(|scope| {
            for handle in 0..HANDLES {
                let dir = dir.path();
                scope.spawn(move || {
                    let mut ledger = store::open(dir);
                    for turn in 0..TURNS * 2 {
                        let number = handle * TURNS * 2 + turn;
                        make::append(&ledger, batch(number));
                        match (handle, turn % 3) {
                            (0, _) => ledger.rebuild_index().expect("the index is made anew"),
                            (_, 0) => ledger = store::open(dir),
                            _ => check_sees(&ledger, number),
                        }
                    }
                });
            }
        });
        let ledger = store::open(dir.path());
        assert_eq!(batches_in(&ledger), Ok((0..HANDLES * TURNS * 2).collect()), "round {round}");
        assert_eq!(ledger.verify_full(&mut |_, _| {}).expect("a verification").findings, [], "round {round}");
    }
}

/// One's own frame is there, wherever others have written in the meantime.
fn check_sees(ledger: &SqliteLedger, number: u64) {
    let frames = ledger.frames(&stream(SHARED), 0, 1_000).expect("frames");
    let begins = format!(r#""delta":"{number} "#);
    assert!(frames.iter().any(|frame| String::from_utf8_lossy(&frame.json).contains(&begins)), "batch {number}");
}

#[test]
fn a_store_that_several_make_at_once_is_one_store() {
    for round in 0..20 {
        let dir = store::directory();
        let path = dir.path().join("store");
        let together = Barrier::new(HANDLES as usize);
        thread::scope(|scope| {
            for handle in 0..HANDLES {
                let (path, together) = (&path, &together);
                scope.spawn(move || {
                    together.wait();
                    make::append(&store::create(path), batch(handle));
                });
            }
        });
        assert_eq!(batches_in(&store::open(&path)), Ok((0..HANDLES).collect()), "round {round}");
    }
}

/// Whether this process has a lock on a file, as Linux lists them. The list is read piece by piece while other processes
/// lock and unlock, and one that is there all the time may be passed over: one that is there is found when looked for again.
fn is_locked(path: &Path) -> bool {
    let inode = format!(":{} ", std::fs::metadata(path).expect("the file").ino());
    let own = format!(" {} ", std::process::id());
    let is_ours = |line: &str| line.contains("POSIX") && line.contains(&own) && line.contains(&inode);
    (0..100).any(|_| std::fs::read_to_string("/proc/locks").expect("a list of locks").lines().any(is_ours))
}

/// Whoever closes a file, however it was opened, gives up all locks of the process on it; SQLite then takes the log for
/// unused. So nothing but SQLite opens it.
#[test]
fn opening_a_store_again_gives_up_no_lock() {
    let dir = store::directory();
    let ledger = store::create(dir.path());
    make::append(&ledger, batch(1));
    ledger.totals().expect("totals");
    for name in ["log.db", "index.db"] {
        assert!(is_locked(&dir.path().join(name)), "{name}");
        drop(store::create(dir.path()));
        let other = store::open(dir.path());
        make::append(&other, batch(2));
        other.totals().expect("totals");
        drop(other);
        // What a checkpoint in passing holds for a moment may be among them: it is their being gone that matters.
        assert!(is_locked(&dir.path().join(name)), "{name}");
    }
}

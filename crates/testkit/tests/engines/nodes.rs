//! Several nodes on one database: one is killed, the server is killed. What was acknowledged is there, once.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use enjamb_core::StreamId;
use enjamb_ledger::{Batch, Ledger, NewArtifact, Outcome, PostgresLedger, PostgresOptions};
use enjamb_testkit::database::{Database, Schema, Server, Stop};
use enjamb_testkit::make::{self, stream};

/// Where a child process finds the store to write to.
const NODE: &str = "ENJAMB_TEST_NODE";

/// All nodes write to this one, and each to one of its own.
fn shared() -> StreamId {
    stream("session/shared")
}

fn batch(name: &str, number: u64) -> Batch {
    let text = make::output(&format!("{name} {number}"));
    make::frames(vec![make::frame(&shared(), &text), make::frame(&stream(&format!("session/{name}")), &text)])
}

/// The texts of a stream, checked to have no gaps.
fn texts(ledger: &dyn Ledger, stream: &StreamId) -> Vec<String> {
    let (mut texts, mut next) = (Vec::new(), 0);
    loop {
        let page = ledger.frames(stream, next, 500).expect("frames");
        if page.is_empty() {
            return texts;
        }
        for frame in page {
            assert_eq!(frame.seq, next);
            next += 1;
            texts.push(String::from_utf8(frame.json).expect("text"));
        }
    }
}

/// Each is there once; so are those that nobody was told of, if they are there.
fn check_acknowledged(ledger: &dyn Ledger, acknowledged: &BTreeSet<String>) {
    let all = texts(ledger, &shared());
    for text in acknowledged {
        let times = all.iter().filter(|found| found.contains(&format!("\"{text}\""))).count();
        assert_eq!(times, 1, "{text} is there {times} times");
    }
    let said: BTreeSet<_> = all.iter().filter_map(|text| text.split("\"delta\":\"").nth(1)).collect();
    assert_eq!(said.len(), all.len(), "nothing is there twice");
}

/// Not a test by itself: a node, in a process that can be killed. It says what was acknowledged.
#[test]
fn a_node() {
    let Ok(told) = std::env::var(NODE) else { return };
    let (address, dir) = told.split_once(' ').expect("an address and a directory");
    let ledger = PostgresLedger::open(address, &PostgresOptions::at(dir.as_ref())).expect("the store opens");
    for number in 0.. {
        ledger.append(batch("child", number)).expect("it is stored");
        println!("ACK child {number}");
    }
}

fn child(schema: &Schema) -> std::process::Child {
    let dir = schema.options().dir;
    Command::new(std::env::current_exe().expect("this program"))
        .args(["nodes::a_node", "--exact", "--nocapture"])
        .env(NODE, format!("{} {}", schema.address(), dir.display()))
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("a process")
}

#[test]
fn of_two_nodes_one_is_killed_and_the_other_goes_on() {
    let Some(database) = Database::find() else { return };
    let schema = database.schema();
    let ledger = schema.create();
    let mut acknowledged = BTreeSet::new();
    let mut number = 0;
    for _ in 0..3 {
        let mut node = child(&schema);
        let mut lines = BufReader::new(node.stdout.take().expect("its output")).lines();
        for _ in 0..60 {
            ledger.append(batch("parent", number)).expect("it is stored");
            acknowledged.insert(format!("parent {number}"));
            number += 1;
        }
        let first = lines.by_ref().map_while(Result::ok).find(|line| line.contains("ACK"));
        assert!(first.is_some(), "the node wrote something");
        thread::sleep(Duration::from_millis(50));
        node.kill().expect("it is killed");
        node.wait().expect("it ended");
        let rest = first.into_iter().chain(lines.map_while(Result::ok));
        // What each child acknowledges has the same names: count it by child.
        let own = rest.filter(|line| line.contains("ACK")).count();
        assert!(own > 0);
        ledger.append(batch("parent", number)).expect("whoever is left goes on");
        acknowledged.insert(format!("parent {number}"));
        number += 1;
        let stored = texts(&ledger, &stream("session/child")).len();
        assert!(stored >= own, "{own} were acknowledged, and {stored} are there");
    }
    let parent = texts(&ledger, &stream("session/parent"));
    assert_eq!(parent.len() as u64, number);
    let total = texts(&ledger, &shared()).len();
    assert_eq!(total, parent.len() + texts(&ledger, &stream("session/child")).len(), "batches are whole");
}

/// A batch of a node that has seen none of what others stored, each part of which leans on some of it.
#[test]
fn a_batch_may_lean_on_much_that_another_node_stored() {
    const MANY: u64 = 300;
    let Some(database) = Database::find() else { return };
    let schema = database.schema();
    let (one, other) = (schema.create(), schema.open());
    let contents: Vec<_> = (0..MANY).map(|n| NewArtifact::from_bytes(format!("content {n}").into_bytes())).collect();
    let commit =
        |n: u64| make::committed(None, "delta", "art-1", &format!("2026-01-01T00:{:02}:{:02}Z", n / 60, n % 60));
    let frames = |json: &dyn Fn(u64) -> String| -> Vec<_> {
        (0..MANY).map(|n| make::frame(&stream("context/a"), &json(n))).collect()
    };
    let all = Batch { artifacts: contents.clone(), frames: frames(&|n| commit(n).1), ..Batch::default() };
    one.append(all).expect("it is stored");
    let named = contents.into_iter().map(|artifact| NewArtifact { bytes: None, ..artifact }).collect();
    let notes = frames(&|n| make::noted(&commit(n).0, "so"));
    let leaning = Batch { artifacts: named, frames: notes, ..Batch::default() };
    assert_eq!(other.append(leaning).expect("it is stored").frames.len() as u64, MANY);
    assert_eq!(one.totals().expect("totals").frames, 2 * MANY);
}

/// Fails if somebody holds the log for seconds. The server would end who does nothing with it after 20.
const IS_FREE: &str = "DO $$ BEGIN
    PERFORM set_config('lock_timeout', '5s', true);
    LOCK TABLE {schema}.head IN ACCESS EXCLUSIVE MODE;
END $$";

#[test]
fn a_write_that_failed_keeps_nobody_waiting() {
    let Some(database) = Database::find() else { return };
    let schema = database.schema();
    drop(schema.create().append(batch("a", 0)).expect("it is stored"));
    schema.execute("UPDATE {schema}.kv SET v = '\\x00'");
    let one = schema.open();
    let failed = one.append(batch("a", 1)).expect_err("its rows are damaged");
    assert!(failed.to_string().contains("the index"), "{failed}");
    schema.execute(IS_FREE);
    one.rebuild_index().expect("it is made anew");
    one.append(batch("a", 1)).expect("it is stored");
}

/// Waits until the server has counted what was done, and fails if it read any of it from end to end.
const NO_SCANS: &str = "DO $$ DECLARE rows bigint; scanned bigint; BEGIN
    FOR attempt IN 1..200 LOOP
        PERFORM pg_stat_clear_snapshot();
        SELECT coalesce(sum(n_tup_ins), 0), coalesce(sum(seq_tup_read), 0) INTO rows, scanned FROM pg_stat_all_tables
            WHERE schemaname = '{schema}' AND relname IN ('kv', 'records');
        EXIT WHEN rows >= 5000;
        PERFORM pg_sleep(0.1);
    END LOOP;
    IF rows < 5000 OR scanned > 0 THEN RAISE EXCEPTION '% rows were read of %', scanned, rows; END IF;
END $$";

#[test]
fn appends_read_no_table_from_end_to_end() {
    let Some(database) = Database::find() else { return };
    let schema = database.schema();
    let ledger = schema.create();
    for group in 0..40 {
        let texts = (0..64).map(|n| make::frame(&stream(&format!("session/{n}")), &make::output(&format!("{group}"))));
        ledger.append(make::frames(texts.collect())).expect("it is stored");
    }
    // The server counts what a connection did when that ends, at the latest.
    drop(ledger);
    schema.execute(NO_SCANS);
}

#[test]
fn a_server_that_is_killed_under_load_loses_nothing_that_was_acknowledged() {
    let Some(server) = Server::start() else { return eprintln!("skipped: PostgreSQL is not installed") };
    let schema = Schema::new(&server.address());
    let ledger = schema.create();
    let over = AtomicBool::new(false);
    let acknowledged = thread::scope(|scope| {
        let write = |name: &'static str| {
            let (ledger, over) = (&ledger, &over);
            scope.spawn(move || {
                let mut stored = BTreeSet::new();
                for number in 0.. {
                    if over.load(Ordering::SeqCst) {
                        break;
                    }
                    match ledger.append(batch(name, number)) {
                        Ok(_) => drop(stored.insert(format!("{name} {number}"))),
                        // Nobody was told that it is there; it may be.
                        Err(error) => assert!(matches!(error.outcome(), Outcome::None | Outcome::Indeterminate)),
                    }
                }
                stored
            })
        };
        let writers = [write("a"), write("b"), write("c")];
        for stop in [Stop::Killed, Stop::Orderly, Stop::Killed] {
            thread::sleep(Duration::from_millis(300));
            server.stop(stop);
            server.run();
        }
        thread::sleep(Duration::from_millis(300));
        over.store(true, Ordering::SeqCst);
        writers.into_iter().flat_map(|writer| writer.join().expect("a writer ends")).collect::<BTreeSet<_>>()
    });
    assert!(acknowledged.len() > 10, "{} writes", acknowledged.len());
    check_acknowledged(&schema.open(), &acknowledged);
}

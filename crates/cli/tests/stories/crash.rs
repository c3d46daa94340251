//! A process that is killed at any instant has lost nothing that it acknowledged.
//!
//! The child is this very test binary: four threads append frames and bytes with group commit, say so on stderr after
//! each answer, and are killed. `ENJAMB_KILLS` says how often; `cargo xtask crash` asks for many.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::str::FromStr;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use enjamb_core::{ArtifactId, Draft, StreamId};
use enjamb_ledger::{Batch, Ledger, NewArtifact, NewFrame};
use enjamb_service::{Actor, Env, PutOptions, Store};

const STORE: &str = "ENJAMB_CRASH_STORE";
const ROUND: &str = "ENJAMB_CRASH_ROUND";
const KILLS_USUALLY: u64 = 40;
const THREADS: u64 = 4;
/// A child that nobody kills ends by itself.
const CHILD_LIFE: Duration = Duration::from_secs(20);

/// Something that a child wrote, from which its bytes follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Item {
    round: u64,
    thread: u64,
    n: u64,
}

impl Item {
    fn is_large(self) -> bool {
        self.n % 16 == 7
    }

    /// Every fourth frame of every thread goes to one stream, the others to a stream of the thread.
    fn stream(self) -> StreamId {
        let name =
            if self.n.is_multiple_of(4) { "session/shared".to_owned() } else { format!("session/t{}", self.thread) };
        name.parse().expect("a stream")
    }

    /// Bytes that no other item has.
    fn bytes(self) -> Vec<u8> {
        let len = if self.is_large() { 1_200_000 } else { 200 + (self.n * 977 % 20_000) as usize };
        let line = format!("{self:?}: what a tool printed, at some length\n");
        line.repeat(len / line.len() + 1).into_bytes()
    }

    fn draft(self) -> String {
        let Self { round, thread, n } = self;
        let artifact = ArtifactId::of(&self.bytes());
        format!(
            r#"{{"type":"output_text_delta","id":"{round}-{thread}-{n}","timestamp_ms":{n},"delta":"see {artifact}"}}"#
        )
    }

    /// The frame as it has to be stored.
    fn frame(self, seq: u64) -> String {
        let (stream, Self { round, thread, n }) = (self.stream().id, self);
        let artifact = ArtifactId::of(&self.bytes());
        format!(
            r#"{{"id":"{round}-{thread}-{n}","session_id":"{stream}","stream_kind":"session","stream_id":"{stream}","timestamp_ms":{n},"seq":{seq},"type":"output_text_delta","delta":"see {artifact}"}}"#
        )
    }
}

/// What a child says: one line each, written at once.
#[derive(Debug)]
enum Word {
    Stored(Item, u64),
    Begin,
    End,
}

impl FromStr for Word {
    type Err = String;

    fn from_str(line: &str) -> Result<Self, String> {
        let unknown = || format!("the child said {line:?}");
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        let numbers: Vec<u64> = rest.split_whitespace().filter_map(|number| number.parse().ok()).collect();
        match (word, numbers.as_slice()) {
            ("stored", &[round, thread, n, seq]) => Ok(Self::Stored(Item { round, thread, n }, seq)),
            ("begin", []) => Ok(Self::Begin),
            ("end", []) => Ok(Self::End),
            _ => Err(unknown()),
        }
    }
}

// The child.

#[test]
fn child() {
    let Some(dir) = std::env::var_os(STORE) else { return };
    let round = std::env::var(ROUND).ok().and_then(|round| round.parse().ok()).expect("a round");
    let store = Store::create(Path::new(&dir), Env::system()).expect("the store opens");
    let over = Instant::now() + CHILD_LIFE;
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let store = &store;
            scope.spawn(move || write(store, round, thread, over));
        }
        scope.spawn(|| tidy_up(&store, round, over));
    });
}

fn write(store: &Store, round: u64, thread: u64, over: Instant) {
    let mut n = 0;
    while Instant::now() < over {
        let item = Item { round, thread, n };
        let seq = store_item(store, item);
        say(&format!("stored {round} {thread} {n} {seq}"));
        n += 1;
    }
}

/// Stores an item's bytes and a frame that names them; small ones together, large ones before.
fn store_item(store: &Store, item: Item) -> u64 {
    let mut batch = Batch::default();
    if item.is_large() {
        store.put(&mut item.bytes().as_slice(), &PutOptions::default()).expect("bytes are put");
    } else {
        batch.artifacts.push(NewArtifact::from_bytes(item.bytes()));
    }
    let (stream, draft) = (item.stream(), Draft::parse(item.draft()).expect("a draft"));
    batch.frames.push(NewFrame { stream, draft, id: "unused".into(), timestamp_ms: 0, expected_seq: None });
    store.ledger().append(batch).expect("a batch is appended").frames[0].seq
}

/// In two of three rounds the store is sealed or collected meanwhile.
fn tidy_up(store: &Store, round: u64, over: Instant) {
    while Instant::now() < over && !round.is_multiple_of(3) {
        let passing = format!("passing {round} {:?}", Instant::now());
        let options = PutOptions { ttl_ms: Some(0), ..PutOptions::default() };
        store.put(&mut passing.as_bytes(), &options).expect("passing bytes are put");
        say("begin");
        if round % 3 == 1 {
            store.maintain(&mut |_, _| {}).expect("the store is sealed");
        } else {
            store.gc_run(&Actor::default(), &mut |_, _| {}).expect("the store is collected");
        }
        say("end");
    }
}

/// One write a line, so that the parent never sees half of one.
fn say(line: &str) {
    let mut whole = line.to_owned();
    whole.push('\n');
    std::io::stderr().write_all(whole.as_bytes()).expect("the parent listens");
}

// The parent.

/// Instants drawn from a seed that is printed.
struct Chance(u64);

impl Chance {
    fn new() -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self(now.as_nanos() as u64 | 1)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

#[derive(Default)]
struct Tally {
    acks: BTreeMap<Item, u64>,
    kills: u64,
    /// Kills that landed while the store was sealed or collected.
    while_tidying: u64,
    before_any_ack: u64,
}

/// Starts a child, kills it after a while, and notes what it had acknowledged.
fn kill_one(dir: &Path, round: u64, after: Duration, tally: &mut Tally) {
    let mut child = Command::new(std::env::current_exe().expect("this test"))
        .args(["crash::child", "--exact", "--nocapture", "--test-threads=1"])
        .env(STORE, dir)
        .env(ROUND, round.to_string())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the child starts");
    let stderr = child.stderr.take().expect("a pipe");
    let (speaks, spoken) = mpsc::channel();
    let listener = thread::spawn(move || {
        let lines = BufReader::new(stderr).lines().map_while(Result::ok);
        // Once the parent knows, nobody receives.
        lines.inspect(|_| _ = speaks.send(())).collect::<Vec<_>>()
    });
    // One kill in four may land while the store is opened; the others wait until the child is at work.
    if !round.is_multiple_of(4) {
        let _ = spoken.recv_timeout(CHILD_LIFE);
    }
    drop(spoken);
    thread::sleep(after);
    child.kill().expect("the child is there to be killed");
    child.wait().expect("the child ends");
    let lines = listener.join().expect("the listener ends");
    let before = tally.acks.len();
    let mut tidying = false;
    for line in &lines {
        match line.parse() {
            Ok(Word::Stored(item, seq)) => _ = tally.acks.insert(item, seq),
            Ok(Word::Begin) => tidying = true,
            Ok(Word::End) => tidying = false,
            Err(complaint) => panic!("{complaint}, and in all:\n{}", lines.join("\n")),
        }
    }
    tally.kills += 1;
    tally.while_tidying += u64::from(tidying);
    tally.before_any_ack += u64::from(tally.acks.len() == before);
}

fn check_acks(store: &Store, acks: &BTreeMap<Item, u64>, round: Option<u64>) {
    for (item, seq) in acks.iter().filter(|(item, _)| round.is_none_or(|round| item.round == round)) {
        let frames = store.frames(&item.stream(), *seq, 1).expect("the stream is there");
        let found = frames.first().map(|frame| String::from_utf8_lossy(&frame.json).into_owned());
        assert_eq!(found, Some(item.frame(*seq)), "an acknowledged frame is lost");
        let bytes = item.bytes();
        let mut found = Vec::new();
        let read = store.get(&ArtifactId::of(&bytes), None, &mut |part| {
            found.extend_from_slice(part);
            Ok(())
        });
        read.unwrap_or_else(|error| panic!("the bytes of {item:?} are lost: {error}"));
        assert!(found == bytes, "the bytes of {item:?} are others");
    }
}

/// Every seq of every stream is there, each chained to the one before, and none is there twice.
fn check_streams(store: &Store) {
    for stream in store.streams(None, enjamb_ledger::StreamOrder::Name, 1_000).expect("streams") {
        let mut next = 0;
        loop {
            let frames = store.frames(&stream.stream, next, 1_000).expect("a stream that is listed");
            if frames.is_empty() {
                break;
            }
            for frame in frames {
                assert_eq!(frame.seq, next, "a gap in {}", stream.stream);
                next += 1;
            }
        }
        assert_eq!(next, stream.next_seq, "{}", stream.stream);
    }
}

fn check_whole(store: &Store) {
    let checked = store.verify(false, &mut |_, _| {}).expect("the store can be verified");
    let mut report = String::new();
    checked.findings.iter().for_each(|finding| _ = writeln!(report, "{finding:?}"));
    assert!(report.is_empty(), "{report}");
}

#[test]
fn a_killed_process_has_lost_nothing_it_acknowledged() {
    let kills = std::env::var("ENJAMB_KILLS").ok().and_then(|kills| kills.parse().ok()).unwrap_or(KILLS_USUALLY);
    let home = tempfile::tempdir().expect("a temporary directory");
    let dir = home.path().join("store");
    let mut chance = Chance::new();
    println!("seed {}", chance.0);
    let mut tally = Tally::default();
    // Checking everything costs as much as there is: ten times, however often someone is killed.
    let rounds_a_check = (kills / 10).max(1);
    for round in 0..kills {
        kill_one(&dir, round, Duration::from_micros(chance.below(100_000)), &mut tally);
        // A child that is killed early enough has not made a store.
        let Ok(store) = Store::open(&dir, Env::system()) else {
            assert!(tally.acks.is_empty(), "the store cannot be opened");
            continue;
        };
        check_acks(&store, &tally.acks, Some(round));
        if round % rounds_a_check == rounds_a_check - 1 {
            check_streams(&store);
            check_whole(&store);
        }
        // Children rarely live long enough to seal all there is.
        if round % 25 == 24 {
            store.maintain(&mut |_, _| {}).expect("the store is sealed");
        }
    }
    let store = Store::open(&dir, Env::system()).expect("the store opens");
    check_streams(&store);
    check_whole(&store);
    check_acks(&store, &tally.acks, None);
    let Tally { kills, while_tidying, before_any_ack, acks } = tally;
    println!(
        "{kills} kills, {while_tidying} of them while sealing or collecting, {before_any_ack} before any answer; {} \
         acknowledgements, none lost",
        acks.len()
    );
    assert!(!acks.is_empty(), "no child lived long enough");
}

#[test]
#[should_panic(expected = "an acknowledged frame is lost")]
fn a_lost_frame_would_be_noticed() {
    let home = tempfile::tempdir().expect("a temporary directory");
    let store = Store::create(&home.path().join("store"), Env::system()).expect("a store");
    let item = |n| Item { round: 0, thread: 0, n };
    let acks: BTreeMap<_, _> = [1, 2].map(|n| (item(n), store_item(&store, item(n)))).into();
    check_acks(&store, &acks, None);
    check_acks(&store, &[(item(3), 2)].into(), None);
}

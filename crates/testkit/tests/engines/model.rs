//! Engines against the model: the same requests, the same answers, whatever happens in between.

use std::collections::BTreeMap;

use enjamb_core::{ArtifactId, CommitId, ErrorKind, StreamId};
use enjamb_ledger::{
    Appended, Batch, Ledger, LedgerError, MemoryLedger, NewArtifact, NewFrame, PostgresLedger, SqliteLedger,
};
use enjamb_testkit::database::{Database, Schema};
use enjamb_testkit::make::{self, stream};
use enjamb_testkit::questions::{Question, assert_same, fingerprint};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use tempfile::TempDir;

use crate::store;

/// Something that happens to a store.
#[derive(Clone, Debug)]
enum Step {
    Append {
        handle: usize,
        request: Request,
    },
    /// Sends an earlier request again, as it was.
    Retry {
        handle: usize,
        which: usize,
    },
    Reopen {
        handle: usize,
    },
    RebuildIndex {
        handle: usize,
    },
    /// Closes the store and takes its index away.
    LoseIndex,
    /// Reading brings the index up to the log, so that later steps start from there.
    Read {
        handle: usize,
    },
}

#[derive(Clone, Debug)]
struct Request {
    artifacts: Vec<(u8, bool)>,
    frames: Vec<FrameOf>,
    key: Option<u8>,
}

#[derive(Clone, Debug)]
struct FrameOf {
    payload: Payload,
    /// Which of the streams of its kind.
    stream: u8,
    id: u8,
    time: u8,
    expected_seq: Option<u8>,
}

#[derive(Clone, Debug)]
enum Payload {
    Output(u8),
    SessionEnded,
    Message(u8),
    JobSpawned(u8),
    JobEnded(u8),
    Compaction(u8),
    Tagged(u8, Option<u8>, Option<u8>),
    Condemned(u8),
    Dropped(u8),
    Written(u8),
    Mention(u8),
    Committed(u8),
    Noted(u8, bool),
    RefMoved(u8, Option<u8>, Option<u8>),
    OwnSeq(u8),
    Unknown,
    Malformed,
    Elsewhere,
}

fn content(number: u8) -> Vec<u8> {
    vec![number; usize::from(number) * 700]
}

fn id(number: u8) -> ArtifactId {
    ArtifactId::of(&content(number))
}

/// Parent and kind of each commit. The fourth has one that is never there.
const COMMITS: [(Option<u8>, &str); 6] = [
    (None, "delta"),
    (Some(0), "delta"),
    (Some(1), "compaction"),
    (Some(9), "delta"),
    (Some(1), "snapshot"),
    (None, "compaction"),
];

fn committed(number: u8) -> (CommitId, String) {
    let (parent, kind) = COMMITS.get(usize::from(number)).copied().unwrap_or((None, "delta"));
    let parent = parent.map(|parent| committed(parent).0);
    make::committed(parent.as_ref(), kind, "art-1", &format!("2026-01-01T00:00:0{}Z", number % 3))
}

impl Payload {
    fn json(&self) -> String {
        match self {
            Self::Output(text) => make::output(&"x".repeat(usize::from(*text) * 300)),
            Self::SessionEnded => make::session_ended().to_owned(),
            Self::Message(text) => make::message(&text.to_string()),
            Self::JobSpawned(job) => make::job("continuity_job_spawned", &job.to_string()),
            Self::JobEnded(job) => make::job("continuity_job_ended", &job.to_string()),
            Self::Compaction(to_seq) => make::compaction_checkpoint(u64::from(*to_seq)),
            Self::Tagged(name, to, previous) => {
                make::tagged(&name.to_string(), to.map(id).as_ref(), previous.map(id).as_ref())
            }
            Self::Condemned(number) => make::condemned(&id(*number)),
            Self::Dropped(number) => make::dropped(&id(*number)),
            Self::Written(number) => make::written(&id(*number)),
            Self::Mention(number) => make::output(&id(*number).to_hex()),
            Self::Committed(number) => committed(*number).1,
            Self::Noted(number, with_words) => make::noted(&committed(*number).0, if *with_words { "so" } else { "" }),
            Self::RefMoved(name, to, previous) => {
                let id = |number: &Option<u8>| number.map(|number| committed(number).0);
                make::ref_moved(&name.to_string(), id(to).as_ref(), id(previous).as_ref())
            }
            Self::OwnSeq(seq) => format!(r#"{{"type":"odd", "seq":{seq}}}"#),
            Self::Unknown => r#"{ "type":"from_the_future","x":[1.0]}"#.to_owned(),
            Self::Malformed => r#"{"type":"session_ended"}"#.to_owned(),
            Self::Elsewhere => r#"{"type":"odd","stream_id":"elsewhere"}"#.to_owned(),
        }
    }

    fn stream(&self, number: u8) -> StreamId {
        match self {
            Self::Message(_) | Self::JobSpawned(_) | Self::JobEnded(_) | Self::Compaction(_) => {
                stream(&format!("continuity/{number}"))
            }
            Self::Tagged(..) | Self::Condemned(_) | Self::Dropped(_) | Self::Written(_) => StreamId::artifacts(),
            Self::Committed(_) | Self::Noted(..) | Self::RefMoved(..) => stream(&format!("context/{number}")),
            Self::Unknown => stream(&format!("wild/{number}")),
            Self::Output(_)
            | Self::SessionEnded
            | Self::Mention(_)
            | Self::OwnSeq(_)
            | Self::Malformed
            | Self::Elsewhere => stream(&format!("session/{number}")),
        }
    }
}

impl Request {
    fn batch(&self) -> Batch {
        let artifact = |(number, with_bytes): &(u8, bool)| NewArtifact {
            id: id(*number),
            bytes: with_bytes.then(|| content(*number)),
        };
        Batch {
            artifacts: self.artifacts.iter().map(artifact).collect(),
            frames: self.frames.iter().map(FrameOf::frame).collect(),
            idempotency_key: self.key.map(|key| key.to_string()),
            ..Batch::default()
        }
    }
}

impl FrameOf {
    fn frame(&self) -> NewFrame {
        NewFrame {
            id: format!("id{}", self.id),
            timestamp_ms: u64::from(self.time),
            expected_seq: self.expected_seq.map(u64::from),
            ..make::frame(&self.payload.stream(self.stream), &self.payload.json())
        }
    }
}

fn payloads() -> impl Strategy<Value = Payload> {
    let few = || 0..4u8;
    prop_oneof![
        6 => few().prop_map(Payload::Output),
        1 => Just(Payload::SessionEnded),
        3 => few().prop_map(Payload::Message),
        2 => few().prop_map(Payload::JobSpawned),
        2 => few().prop_map(Payload::JobEnded),
        2 => few().prop_map(Payload::Compaction),
        4 => (0..2u8, proptest::option::of(0..2u8), proptest::option::of(0..2u8))
            .prop_map(|(name, to, previous)| Payload::Tagged(name, to, previous)),
        4 => few().prop_map(Payload::Condemned),
        4 => few().prop_map(Payload::Dropped),
        1 => few().prop_map(Payload::Written),
        1 => few().prop_map(Payload::Mention),
        6 => (0..6u8).prop_map(Payload::Committed),
        2 => (0..6u8, any::<bool>()).prop_map(|(number, with_words)| Payload::Noted(number, with_words)),
        2 => (0..2u8, proptest::option::of(0..2u8), proptest::option::of(0..2u8))
            .prop_map(|(name, to, previous)| Payload::RefMoved(name, to, previous)),
        1 => few().prop_map(Payload::OwnSeq),
        2 => Just(Payload::Unknown),
        1 => Just(Payload::Malformed),
        1 => Just(Payload::Elsewhere),
    ]
}

fn requests() -> impl Strategy<Value = Request> {
    let rarely_seq = proptest::option::weighted(0.1, 0..6u8);
    let frame = (payloads(), 0..3u8, 0..6u8, 0..6u8, rarely_seq)
        .prop_map(|(payload, stream, id, time, expected_seq)| FrameOf { payload, stream, id, time, expected_seq })
        .boxed();
    let frames = prop_oneof![
        4 => proptest::collection::vec(frame.clone(), 1),
        1 => proptest::collection::vec(frame, 0..6),
    ];
    let artifacts = proptest::collection::vec((0..4u8, proptest::bool::weighted(0.9)), 0..3);
    let key = proptest::option::weighted(0.3, 0..3u8);
    (artifacts, frames, key).prop_map(|(artifacts, frames, key)| Request { artifacts, frames, key })
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let handle = || 0..2usize;
    let step = prop_oneof![
        20 => (handle(), requests()).prop_map(|(handle, request)| Step::Append { handle, request }),
        4 => (handle(), 0..40usize).prop_map(|(handle, which)| Step::Retry { handle, which }),
        1 => handle().prop_map(|handle| Step::Reopen { handle }),
        1 => handle().prop_map(|handle| Step::RebuildIndex { handle }),
        1 => Just(Step::LoseIndex),
        3 => handle().prop_map(|handle| Step::Read { handle }),
    ];
    proptest::collection::vec(step, 1..50)
}

/// A store of some engine, several of whose handles may be open at once.
trait Place {
    type Engine: Ledger;
    /// Makes it an empty store.
    fn clear(&self);
    fn open(&self) -> Self::Engine;
    fn rebuild_index(engine: &Self::Engine);
    /// Takes the index away while nobody has the store open.
    fn lose_index(&self);
    /// The store finds no fault with itself.
    fn check(engine: &Self::Engine);
}

/// In a directory.
struct Directory(TempDir);

impl Place for Directory {
    type Engine = SqliteLedger;

    fn clear(&self) {
        for entry in std::fs::read_dir(self.0.path()).expect("a directory").flatten() {
            let is_dir = entry.file_type().is_ok_and(|kind| kind.is_dir());
            let removed =
                if is_dir { std::fs::remove_dir_all(entry.path()) } else { std::fs::remove_file(entry.path()) };
            removed.expect("what is left of the last script goes");
        }
        drop(store::create(self.0.path()));
    }

    fn open(&self) -> SqliteLedger {
        store::open(self.0.path())
    }

    fn rebuild_index(engine: &SqliteLedger) {
        engine.rebuild_index().expect("the index is rebuilt");
    }

    fn lose_index(&self) {
        store::delete_index(self.0.path());
    }

    fn check(engine: &SqliteLedger) {
        assert_eq!(engine.verify_full(&mut |_, _| {}).expect("a verification").findings, []);
    }
}

/// In a database.
impl Place for Schema {
    type Engine = PostgresLedger;

    /// Rows go quicker than tables. Whoever remembers some is told by the epoch.
    fn clear(&self) {
        self.execute(
            "DELETE FROM {schema}.records; DELETE FROM {schema}.kv; DELETE FROM {schema}.batches;
             UPDATE {schema}.head SET n = 0, epoch = epoch + 1",
        );
    }

    fn open(&self) -> PostgresLedger {
        Self::open(self)
    }

    fn rebuild_index(engine: &PostgresLedger) {
        engine.rebuild_index().expect("the index is rebuilt");
    }

    fn lose_index(&self) {
        self.execute("DELETE FROM {schema}.kv; UPDATE {schema}.meta SET value = '0' WHERE name = 'index_format'");
    }

    fn check(engine: &PostgresLedger) {
        let before = fingerprint(engine);
        engine.rebuild_index().expect("the index is rebuilt");
        assert_same(&before, &fingerprint(engine));
    }
}

/// A model, and two handles on the one store that has to agree with it.
struct Bench<'p, P: Place> {
    handles: [Option<P::Engine>; 2],
    place: &'p P,
    model: MemoryLedger,
    sent: Vec<Request>,
}

impl<'p, P: Place> Bench<'p, P> {
    fn new(place: &'p P) -> Self {
        let handles = [0, 1].map(|_| Some(place.open()));
        Self { handles, place, model: MemoryLedger::new(), sent: Vec::new() }
    }

    fn handle(&self, number: usize) -> &P::Engine {
        self.handles[number].as_ref().expect("open between steps")
    }

    fn take(&mut self, step: Step) {
        match step {
            Step::Append { handle, request } => {
                self.send(handle, &request);
                self.sent.push(request);
            }
            Step::Retry { handle, which } => {
                if let Some(request) = self.sent.get(which % self.sent.len().max(1)).cloned() {
                    self.send(handle, &request);
                }
            }
            Step::Reopen { handle } => {
                self.handles[handle] = None;
                self.handles[handle] = Some(self.place.open());
            }
            Step::RebuildIndex { handle } => P::rebuild_index(self.handle(handle)),
            Step::LoseIndex => {
                self.handles = [None, None];
                self.place.lose_index();
                self.handles = [0, 1].map(|_| Some(self.place.open()));
            }
            Step::Read { handle } => {
                assert_eq!(self.handle(handle).totals().expect("totals"), self.model.totals().expect("totals"));
            }
        }
    }

    fn send(&self, handle: usize, request: &Request) {
        let answered = told(self.handle(handle).append(request.batch()));
        assert_eq!(answered, told(self.model.append(request.batch())), "{request:?}");
    }

    /// Everything is the same for both handles and the model, and the store finds no fault with itself.
    fn compare(&self) {
        let expected = comparable(&self.model);
        assert_same(&expected, &comparable(self.handle(0)));
        assert_same(&expected, &comparable(self.handle(1)));
        P::check(self.handle(0));
    }
}

fn comparable(ledger: &dyn Ledger) -> BTreeMap<Question, String> {
    let mut all = fingerprint(ledger);
    all.remove(&Question::Position);
    all
}

fn told(answer: Result<Appended, LedgerError>) -> Result<Appended, (ErrorKind, &'static str)> {
    answer.map_err(|error| (error.kind(), error.code()))
}

/// The same scripts in every run and for every engine, so that what agrees with the model agrees with each other. They
/// are told in several places at once: most of the time an engine waits.
fn check_scripts<P: Place>(cases: u64, make: impl Fn() -> P + Sync) {
    const TELLERS: u64 = 4;
    std::thread::scope(|scope| {
        for teller in 0..TELLERS {
            let make = &make;
            scope.spawn(move || tell_scripts(teller as u8, cases.div_ceil(TELLERS), make()));
        }
    });
}

fn tell_scripts<P: Place>(seed: u8, cases: u64, place: P) {
    let config =
        Config { cases: cases as u32, failure_persistence: None, max_shrink_iters: 2_000, ..Config::default() };
    let mut runner = TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &[seed; 32]));
    let outcome = runner.run(&steps(), |steps| {
        place.clear();
        let mut bench = Bench::new(&place);
        steps.into_iter().for_each(|step| bench.take(step));
        bench.compare();
        Ok(())
    });
    outcome.unwrap_or_else(|failure| panic!("{failure}"));
}

/// `ENJAMB_CASES` asks for more of them.
#[test]
fn whatever_happens_the_embedded_engine_answers_as_the_model() {
    check_scripts(store::setting("ENJAMB_CASES", 250), || Directory(store::directory()));
}

/// Each handle is a node. `ENJAMB_TEAM_CASES` asks for more scripts.
#[test]
fn whatever_happens_the_engine_for_teams_answers_as_the_model() {
    let Some(database) = Database::find() else { return };
    check_scripts(store::setting("ENJAMB_TEAM_CASES", 100), || {
        let schema = database.schema();
        drop(schema.create());
        schema
    });
}

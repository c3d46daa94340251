//! Segments of a store in a database live in an object store, which may misbehave: never wrong bytes, never a reference to
//! what is not there.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use enjamb_core::chain::Stop;
use enjamb_core::{ArtifactId, CommitId};
use enjamb_ledger::segment::{SegmentOptions, SegmentWriter};
use enjamb_ledger::{
    Batch, ConditionalPuts, Engine, Ledger, NewArtifact, ObjectsAddress, PostgresLedger, PostgresOptions, Result,
    SegmentRecord,
};
use enjamb_testkit::bucket::{Asked, Bucket, Misdeed};
use enjamb_testkit::database::{Database, Schema};
use enjamb_testkit::make;
use proptest::prelude::Rng;
use proptest::test_runner::{RngAlgorithm, TestRng};
use tempfile::TempDir;

use crate::store::setting;

/// A store in a database with a bucket of its own.
struct Team {
    bucket: Bucket,
    schema: Schema,
    _database: Database,
}

/// One machine of a team, with a directory of its own.
struct Node {
    engine: Engine,
    dir: TempDir,
}

impl Team {
    fn new() -> Option<Self> {
        let database = Database::find()?;
        let (bucket, schema) = (Bucket::new(), database.schema());
        let team = Self { bucket, schema, _database: database };
        let address = team.address("");
        drop(PostgresLedger::create(
            &team.schema.address(),
            &team.options(&TempDir::new().unwrap(), &address),
            "store-1",
        ));
        Some(team)
    }

    fn address(&self, more: &str) -> String {
        format!("{}{more}", self.bucket.address())
    }

    fn options(&self, dir: &TempDir, objects: &str) -> PostgresOptions {
        PostgresOptions { objects: Some(ObjectsAddress::parse(objects).unwrap()), ..PostgresOptions::at(dir.path()) }
    }

    /// A machine that was told nothing but the address of the database.
    fn node(&self) -> Node {
        let dir = TempDir::new().unwrap();
        let ledger = PostgresLedger::open(&self.schema.address(), &PostgresOptions::at(dir.path()));
        Node { engine: ledger.expect("the store opens").into(), dir }
    }

    fn small_node(&self) -> Node {
        let dir = TempDir::new().unwrap();
        let options = self.options(&dir, &self.address("&cache_mib=0"));
        Node { engine: PostgresLedger::open(&self.schema.address(), &options).expect("the store opens").into(), dir }
    }

    /// Lets a day and more go by for whoever decides what may go.
    fn wait_two_days(&self) {
        self.schema
            .execute("UPDATE {schema}.segments SET at = at - interval '2 days', doomed = doomed - interval '2 days'");
    }
}

impl Node {
    fn seal(&self) -> Result<u64> {
        self.engine.seal(&mut |_, _| {}).map(|sealed| sealed.segments)
    }

    fn copies(&self) -> usize {
        std::fs::read_dir(self.dir.path().join("segments")).unwrap().flatten().filter(is_segment).count()
    }

    fn check_whole(&self) {
        let checked = self.engine.verify_full(&mut |_, _| {}).expect("a verification");
        assert_eq!(checked.findings, []);
    }
}

fn is_segment(entry: &std::fs::DirEntry) -> bool {
    entry.path().extension().is_some_and(|extension| extension == "seg")
}

/// Text that does not repeat itself.
fn delta(number: u64, bytes: usize) -> Vec<u8> {
    let mut rng = TestRng::from_seed(RngAlgorithm::ChaCha, &[number.to_le_bytes(), [7; 8], [1; 8], [2; 8]].concat());
    (0..bytes / 8).flat_map(|_| format!("{:08x}", rng.next_u32()).into_bytes()).collect()
}

/// A chain of commits with their deltas, after what is there.
fn commit_after(ledger: &dyn Ledger, mut tip: Option<CommitId>, numbers: Range<u64>, bytes: usize) -> CommitId {
    let stream = make::stream("context/ann");
    let next = |number| {
        let content = delta(number, bytes);
        let artifact = ArtifactId::of(&content).to_string();
        let at = format!("2026-01-01T{:02}:{:02}:{:02}Z", number / 3_600, number / 60 % 60, number % 60);
        let (id, payload) = make::committed(tip.as_ref(), "delta", &artifact, &at);
        tip = Some(id);
        Batch { artifacts: vec![NewArtifact::from_bytes(content)], ..make::one(&stream, &payload) }
    };
    let batches: Vec<_> = numbers.map(next).collect();
    for appended in ledger.append_all(batches) {
        appended.expect("a commit");
    }
    tip.expect("at least one")
}

fn commit(ledger: &dyn Ledger, count: u64, bytes: usize) -> CommitId {
    commit_after(ledger, None, 0..count, bytes)
}

/// All deltas of a chain, one after another.
fn materialized(ledger: &dyn Ledger, tip: &CommitId) -> Result<Vec<u8>> {
    let mut parts = ledger.parts(tip, &Stop::Root, usize::MAX)?.expect("the tip is there");
    parts.reverse();
    let mut out = Vec::new();
    ledger.read_parts(&parts, &mut |_, bytes| {
        out.extend_from_slice(bytes);
        Ok(())
    })?;
    Ok(out)
}

fn expected(count: u64, bytes: usize) -> Vec<u8> {
    (0..count).flat_map(|number| delta(number, bytes)).collect()
}

/// Stores bytes in a segment of their own, as large ones are.
fn put_large(engine: &Engine, content: &[u8]) -> Result<ArtifactId> {
    put_together(engine, &[content])?;
    Ok(ArtifactId::of(content))
}

/// Stores artifacts in one segment.
fn put_together(engine: &Engine, contents: &[&[u8]]) -> Result<()> {
    let mut new = engine.segments().create()?;
    let mut writer = SegmentWriter::new(new.writer(), SegmentOptions::RANGES, |_: &_| None)?;
    let mut artifacts = Vec::new();
    for content in contents {
        let mut sink = writer.artifact();
        sink.write(content)?;
        artifacts.push(sink.finish()?);
    }
    let (_, summary, _) = writer.finish()?;
    engine.segments().publish(new, &summary.digest)?;
    let record = SegmentRecord { segment: summary.digest, bytes: summary.bytes, artifacts };
    engine.append(Batch { segments: vec![record], ..Batch::default() }).map(drop)
}

#[test]
fn of_a_segment_with_several_artifacts_one_can_be_dropped() {
    let Some(team) = Team::new() else { return };
    let node = team.node();
    let (kept, gone) = (delta(1, 2 << 20), delta(2, 2 << 20));
    put_together(&node.engine, &[&kept, &gone]).unwrap();
    let (store, id) = (make::stream("artifact/store"), ArtifactId::of(&gone));
    make::append(&node.engine, make::one(&store, &make::condemned(&id)));
    let place = node.engine.place(&id).unwrap().unwrap();
    make::append(&node.engine, make::one(&store, &make::dropped(&id)));
    node.engine.erase(&[place], &mut |_, _| {}).unwrap();
    assert!(make::read(&node.engine, &id).is_err());
    assert!(make::read(&team.node().engine, &ArtifactId::of(&kept)).unwrap() == kept);
    node.check_whole();
}

#[test]
fn what_one_node_sealed_another_reads_and_needs_no_more_than_the_address() {
    let Some(team) = Team::new() else { return };
    let node = team.node();
    let tip = commit(&node.engine, 100, 4_000);
    let large = put_large(&node.engine, &delta(1_000, 3 << 20)).unwrap();
    assert_eq!(node.seal().unwrap(), 1);
    assert_eq!(node.seal().unwrap(), 0, "there is nothing left to seal");
    let other = team.node();
    let place = other.engine.place(&ArtifactId::of(&delta(5, 4_000))).unwrap().expect("it is there");
    assert!(place.sealed);
    assert_eq!(materialized(&other.engine, &tip).unwrap(), expected(100, 4_000));
    assert_eq!(make::read(&other.engine, &large).unwrap(), delta(1_000, 3 << 20));
    assert_eq!(other.engine.frames(&make::stream("context/ann"), 0, 1_000).unwrap().len(), 100);
    assert_eq!(team.bucket.names().len(), 2);
    assert!(team.bucket.names().iter().all(|name| name.starts_with("prefix/store-1/")), "{:?}", team.bucket.names());
    other.check_whole();
    other.engine.rebuild_index().unwrap();
    other.check_whole();
    commit(&other.engine, 1, 8);
}

#[test]
fn a_chain_of_a_thousand_commits_takes_few_requests() {
    let Some(team) = Team::new() else { return };
    let node = team.node();
    let half = commit(&node.engine, 600, 12_000);
    node.seal().unwrap();
    // Half of it is in another segment.
    let tip = commit_after(&node.engine, Some(half), 600..1_000, 12_000);
    node.seal().unwrap();
    let cold = team.node();
    team.bucket.take_asked();
    assert_eq!(materialized(&cold.engine, &tip).unwrap(), expected(1_000, 12_000));
    let asked = team.bucket.take_asked();
    assert!((1..=20).contains(&asked.len()), "{} requests", asked.len());
    assert_eq!(materialized(&cold.engine, &tip).unwrap().len(), 12_000_000);
    assert_eq!(team.bucket.take_asked().len(), 0, "what was fetched once is here");
    let crowd = team.node();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| assert_eq!(materialized(&crowd.engine, &tip).unwrap().len(), 12_000_000));
        }
    });
    let asked = team.bucket.take_asked();
    assert!(asked.len() <= 40, "{} requests of four who read at once", asked.len());
}

/// Everything that a bucket may do, for ever.
fn misdeeds() -> Vec<Misdeed> {
    let statuses = [400, 403, 404, 409, 412, 416, 500, 503].map(Misdeed::Status);
    let others = [Misdeed::Partial, Misdeed::Wrong, Misdeed::Lost, Misdeed::Torn, Misdeed::Silent];
    statuses.into_iter().chain(others).collect()
}

#[test]
fn a_bucket_that_never_stores_leaves_everything_where_it_was() {
    let Some(team) = Team::new() else { return };
    let node = team.node();
    let tip = commit(&node.engine, 40, 4_000);
    for (number, misdeed) in (1_000..).zip(misdeeds()) {
        let bad = misdeed.clone();
        make::stored(&node.engine, &delta(number, 100_000));
        team.bucket.misbehave(move |asked: &Asked| (asked.method != "GET").then(|| bad.clone()));
        let sealed = node.seal();
        let large = put_large(&node.engine, &delta(number, 2 << 20));
        // Some misdeeds leave the object in its place all the same.
        let may_be_well = matches!(misdeed, Misdeed::Partial | Misdeed::Wrong | Misdeed::Silent);
        assert!(sealed.is_err() || may_be_well, "{misdeed:?}: {sealed:?}");
        assert!(large.is_err() || may_be_well, "{misdeed:?}");
        if let Err(error) = &sealed {
            assert!(["objects-unavailable", "store-denied"].contains(&error.code()), "{misdeed:?}: {error}");
            assert!(error.to_string().contains("s3://bucket/prefix"), "{misdeed:?}: {error}");
        }
        team.bucket.behave();
        let cold = team.node();
        assert_eq!(materialized(&cold.engine, &tip).unwrap(), expected(40, 4_000), "{misdeed:?}");
        cold.check_whole();
    }
}

#[test]
fn a_bucket_that_answers_wrongly_is_not_believed() {
    let Some(team) = Team::new() else { return };
    let node = team.node();
    let tip = commit(&node.engine, 40, 4_000);
    let large = put_large(&node.engine, &delta(9, 6 << 20)).unwrap();
    node.seal().unwrap();
    for misdeed in misdeeds() {
        let cold = team.node();
        let bad = misdeed.clone();
        team.bucket.misbehave(move |_| Some(bad.clone()));
        let is_harmless = matches!(misdeed, Misdeed::Lost | Misdeed::Torn);
        match materialized(&cold.engine, &tip) {
            Ok(found) => assert!(is_harmless && found == expected(40, 4_000), "{misdeed:?}"),
            Err(error) => {
                assert!(!is_harmless, "{misdeed:?}: {error}");
                assert!(["objects-unavailable", "corrupt"].contains(&error.code()), "{misdeed:?}: {error}");
            }
        }
        match make::read(&cold.engine, &large) {
            Ok(found) => assert!(is_harmless && found == delta(9, 6 << 20), "{misdeed:?}"),
            Err(_) => assert!(!is_harmless, "{misdeed:?}"),
        }
        team.bucket.behave();
        assert_eq!(materialized(&cold.engine, &tip).unwrap(), expected(40, 4_000), "{misdeed:?}: it got over it");
        assert_eq!(make::read(&cold.engine, &large).unwrap(), delta(9, 6 << 20));
    }
}

#[test]
fn a_bucket_that_stumbles_now_and_then_is_not_noticed() {
    let Some(team) = Team::new() else { return };
    team.bucket.ignore_conditions();
    let node = team.node();
    let tip = commit(&node.engine, 40, 4_000);
    let count = Arc::new(AtomicU64::new(0));
    let bad = misdeeds();
    let slow = Misdeed::Slow(Duration::from_millis(30));
    team.bucket.misbehave(move |_| {
        let at = count.fetch_add(1, Ordering::Relaxed) as usize;
        let all: Vec<_> = bad.iter().filter(|bad| **bad != Misdeed::Status(403)).chain([&slow]).collect();
        at.is_multiple_of(3).then(|| all[at / 3 % all.len()].clone())
    });
    node.seal().unwrap();
    let large = put_large(&node.engine, &delta(9, 6 << 20)).unwrap();
    let cold = team.node();
    assert_eq!(materialized(&cold.engine, &tip).unwrap(), expected(40, 4_000));
    assert_eq!(make::read(&cold.engine, &large).unwrap(), delta(9, 6 << 20));
    cold.check_whole();
}

/// Whatever a bucket does, and whenever: what was stored is read back or refused, and once the bucket behaves all is there.
#[test]
fn random_misdeeds_cost_nothing_but_time() {
    let Some(team) = Team::new() else { return };
    for script in 0..setting("ENJAMB_OBJECT_SCRIPTS", 15) {
        let mut rng =
            TestRng::from_seed(RngAlgorithm::ChaCha, &[script.to_le_bytes(), [3; 8], [1; 8], [4; 8]].concat());
        let (rate, seed) = (u64::from(rng.next_u32() % 60), rng.next_u64());
        let node = if script.is_multiple_of(2) { team.node() } else { team.small_node() };
        let count = Arc::new(AtomicU64::new(0));
        let bad = misdeeds();
        team.bucket.misbehave(move |_| {
            let roll = seed.wrapping_mul(count.fetch_add(1, Ordering::Relaxed) * 2 + 1).rotate_left(23) % 10_007;
            (roll % 100 < rate).then(|| bad[roll as usize / 100 % bad.len()].clone())
        });
        let content = delta(script + 100_000, 70_000);
        let small = make::stored(&node.engine, &content);
        let large = put_large(&node.engine, &delta(script + 200_000, 1_100_000));
        let _ = node.seal();
        if script % 5 == 4 {
            team.wait_two_days();
            let _ = node.engine.sweep();
        }
        let check = |engine: &Engine| {
            if let Ok(found) = make::read(engine, &small) {
                assert!(found == content, "script {script}");
            }
            if let Some(Ok(found)) = large.as_ref().ok().map(|id| make::read(engine, id)) {
                assert!(found == delta(script + 200_000, 1_100_000), "script {script}");
            }
        };
        check(&node.engine);
        check(&team.node().engine);
        team.bucket.behave();
        let cold = team.node();
        assert_eq!(make::read(&cold.engine, &small).unwrap(), content, "script {script}");
        if let Ok(id) = &large {
            assert_eq!(make::read(&cold.engine, id).unwrap(), delta(script + 200_000, 1_100_000), "script {script}");
        }
    }
    team.node().check_whole();
}

#[test]
fn what_nothing_names_goes_after_two_days_and_what_is_wanted_again_stays() {
    let Some(team) = Team::new() else { return };
    let node = team.node();
    let large = put_large(&node.engine, &delta(1, 2 << 20)).unwrap();
    for numbers in [1_000..1_020, 2_000..2_200] {
        for number in numbers {
            make::stored(&node.engine, &delta(number, 4_000));
        }
        assert_eq!(node.seal().unwrap(), 1);
    }
    assert_eq!(team.bucket.names().len(), 3, "a small segment was taken in by the second");
    assert_eq!(node.engine.sweep().unwrap(), Some(0));
    assert_eq!(node.engine.unnamed_files().unwrap().len(), 0, "it is not old enough");
    team.wait_two_days();
    assert_eq!(node.engine.unnamed_files().unwrap().len(), 1);
    assert_eq!(node.engine.sweep().unwrap(), Some(0), "the first finds it");
    team.wait_two_days();
    assert!(node.engine.sweep().unwrap().unwrap() > 0, "the second takes it away");
    assert_eq!(team.bucket.names().len(), 2);
    // A segment that is doomed and put again is spared.
    for policy in [make::condemned(&large), make::dropped(&large)] {
        make::append(&node.engine, make::one(&make::stream("artifact/store"), &policy));
    }
    node.engine.erase(&[], &mut |_, _| {}).unwrap();
    team.wait_two_days();
    node.engine.sweep().unwrap();
    let again = put_large(&node.engine, &delta(1, 2 << 20)).unwrap();
    team.schema.execute("UPDATE {schema}.segments SET doomed = doomed - interval '2 days'");
    node.engine.sweep().unwrap();
    assert_eq!(make::read(&team.node().engine, &again).unwrap(), delta(1, 2 << 20));
    team.node().check_whole();
}

#[test]
fn a_batch_that_names_what_is_not_there_is_refused() {
    let Some(team) = Team::new() else { return };
    let node = team.node();
    let segment = enjamb_core::Digest::of(b"nowhere");
    let record = SegmentRecord { segment, bytes: 9, artifacts: vec![(ArtifactId::of(b"x"), 1)] };
    let refused = make::refused(&node.engine, Batch { segments: vec![record], ..Batch::default() });
    assert_eq!(refused.code(), "segment-gone");
}

#[test]
fn copies_go_when_they_are_too_many_but_for_what_is_pinned() {
    let Some(team) = Team::new() else { return };
    let node = team.small_node();
    let pinned = put_large(&node.engine, &delta(1, 2 << 20)).unwrap();
    let policy = format!(
        r#"{{"type":"artifact_policy_set","artifact_id":"{}","policy":"pin","ttl_ms":null,"actor_id":"a","origin":"test"}}"#,
        pinned.to_hex()
    );
    make::append(&node.engine, make::one(&make::stream("artifact/store"), &policy));
    make::read(&node.engine, &pinned).unwrap();
    let other = put_large(&node.engine, &delta(2, 2 << 20)).unwrap();
    make::read(&node.engine, &other).unwrap();
    node.engine.totals().unwrap();
    assert_eq!(node.copies(), 1, "the pinned one stays");
    team.bucket.take_asked();
    assert_eq!(make::read(&node.engine, &pinned).unwrap(), delta(1, 2 << 20));
    assert_eq!(team.bucket.take_asked().len(), 0);
    // Nothing goes that is not safely elsewhere.
    let cold = team.small_node();
    make::read(&cold.engine, &other).unwrap();
    team.bucket.misbehave(|asked| (asked.method == "HEAD").then_some(Misdeed::Status(404)));
    make::read(&cold.engine, &pinned).unwrap();
    cold.engine.totals().unwrap();
    assert!(cold.copies() >= 1, "the bucket says that it has none");
}

#[test]
fn a_copy_that_is_damaged_here_is_fetched_again() {
    let Some(team) = Team::new() else { return };
    let node = team.node();
    let tip = commit(&node.engine, 40, 4_000);
    node.seal().unwrap();
    for entry in std::fs::read_dir(node.dir.path().join("segments")).unwrap().flatten().filter(is_segment) {
        let mut bytes = std::fs::read(entry.path()).unwrap();
        bytes.iter_mut().skip(20).step_by(11).for_each(|byte| *byte ^= 4);
        std::fs::write(entry.path(), bytes).unwrap();
    }
    let dir = node.dir;
    let again = PostgresLedger::open(&team.schema.address(), &PostgresOptions::at(dir.path())).unwrap();
    assert_eq!(materialized(&again, &tip).unwrap(), expected(40, 4_000));
    team.bucket.spoil(|bytes| bytes[30] ^= 1);
    assert_eq!(materialized(&team.node().engine, &tip).unwrap_err().code(), "corrupt");
    assert_eq!(materialized(&again, &tip).unwrap(), expected(40, 4_000), "the copy is whole");
    // What is lost upstream is found, and put again by whoever has it.
    team.bucket.clear();
    let again = Engine::from(again);
    assert_eq!(again.verify_full(&mut |_, _| {}).unwrap().findings.len(), 1);
    again.seal(&mut |_, _| {}).unwrap();
    assert_eq!(materialized(&team.node().engine, &tip).unwrap(), expected(40, 4_000));
    team.node().check_whole();
}

#[test]
fn where_segments_live_is_said_once() {
    let Some(team) = Team::new() else { return };
    let dir = TempDir::new().unwrap();
    let elsewhere = team.options(&dir, "s3://another-bucket");
    let error = PostgresLedger::open(&team.schema.address(), &elsewhere).err().expect("it is refused");
    assert_eq!(error.code(), "objects-differ");
}

/// A store that was made before there were objects, by a version that knew no table of segments.
#[test]
fn a_store_of_before_is_brought_up_and_what_only_one_machine_had_goes_upstream() {
    let Some(database) = Database::find() else { return };
    let (schema, bucket, dir) = (database.schema(), Bucket::new(), TempDir::new().unwrap());
    let before = PostgresLedger::create(&schema.address(), &PostgresOptions::at(dir.path()), "store-1").unwrap();
    let before = Engine::from(before);
    let large = put_large(&before, &delta(1, 2 << 20)).unwrap();
    assert_eq!(before.seal(&mut |_, _| {}).unwrap_err().code(), "not-in-database");
    schema.execute(
        "DROP TABLE {schema}.segments, {schema}.jobs; UPDATE {schema}.meta SET value = '1' WHERE name = 'format'",
    );
    let objects = Some(ObjectsAddress::parse(&bucket.address()).unwrap());
    let options = PostgresOptions { objects, ..PostgresOptions::at(dir.path()) };
    let now = Engine::from(PostgresLedger::open(&schema.address(), &options).unwrap());
    assert_eq!(now.seal(&mut |_, _| {}).unwrap().segments, 0);
    assert_eq!(bucket.names().len(), 1);
    let elsewhere = TempDir::new().unwrap();
    let other = PostgresLedger::open(&schema.address(), &PostgresOptions::at(elsewhere.path())).unwrap();
    assert_eq!(make::read(&other, &large).unwrap(), delta(1, 2 << 20));
}

/// A store in a directory, with a bucket as a second place for its segments.
fn embedded(dir: &TempDir, address: &str) -> Engine {
    enjamb_ledger::link_objects(dir.path(), address).unwrap();
    Engine::open(dir.path()).unwrap()
}

fn with_policy(engine: &Engine, id: &ArtifactId, policy: &str) {
    let id = id.to_hex();
    let set = format!(
        r#"{{"type":"artifact_policy_set","artifact_id":"{id}","policy":"{policy}","ttl_ms":null,"actor_id":"a","origin":"test"}}"#
    );
    make::append(engine, make::one(&make::stream("artifact/store"), &set));
}

#[test]
fn what_is_to_be_replicated_goes_to_the_bucket_after_it_is_here() {
    let (bucket, dir) = (Bucket::new(), TempDir::new().unwrap());
    drop(Engine::create(dir.path(), "store-1").unwrap());
    let engine = embedded(&dir, &bucket.address());
    let small = make::stored(&engine, &delta(1, 2_000));
    let large = put_large(&engine, &delta(2, 2 << 20)).unwrap();
    assert_eq!(engine.replicate(&mut |_, _| {}).unwrap(), 0);
    assert_eq!(bucket.take_asked().len(), 0, "nobody wanted anything to be there");
    for id in [&small, &large] {
        with_policy(&engine, id, "replicate");
    }
    bucket.misbehave(|_| Some(Misdeed::Lost));
    assert_eq!(engine.replicate(&mut |_, _| {}).unwrap_err().code(), "objects-unavailable");
    assert_eq!(make::read(&engine, &small).unwrap(), delta(1, 2_000));
    bucket.behave();
    assert_eq!(engine.replicate(&mut |_, _| {}).unwrap(), 2);
    assert_eq!((bucket.names().len(), engine.replicate(&mut |_, _| {}).unwrap()), (2, 0));
    bucket.clear();
    assert_eq!(engine.replicate(&mut |_, _| {}).unwrap(), 2, "what was lost there is put again");
    assert_eq!(engine.verify_full(&mut |_, _| {}).unwrap().findings, []);
}

#[test]
fn a_small_disk_keeps_what_was_used_last_and_what_is_pinned() {
    let (bucket, dir) = (Bucket::new(), TempDir::new().unwrap());
    drop(Engine::create(dir.path(), "store-1").unwrap());
    let engine = embedded(&dir, &format!("{}&cache_mib=3", bucket.address()));
    let ids: Vec<_> = (0..5).map(|number| put_large(&engine, &delta(number, 2 << 20)).unwrap()).collect();
    with_policy(&engine, &ids[0], "pin");
    bucket.misbehave(|_| Some(Misdeed::Torn));
    engine.replicate(&mut |_, _| {}).unwrap_err();
    assert_eq!(engine.segments().files().unwrap().len(), 5, "what is not safely elsewhere stays");
    bucket.behave();
    engine.replicate(&mut |_, _| {}).unwrap();
    let files = engine.segments().files().unwrap();
    assert!(files.len() < 5 && files.iter().map(|file| file.bytes).sum::<u64>() <= 3 << 20, "{files:?}");
    bucket.take_asked();
    assert_eq!(make::read(&engine, &ids[0]).unwrap(), delta(0, 2 << 20));
    assert_eq!(bucket.take_asked().len(), 0, "the pinned one is here");
    for (number, id) in (0..).zip(&ids) {
        assert_eq!(make::read(&engine, id).unwrap(), delta(number, 2 << 20));
    }
    engine.replicate(&mut |_, _| {}).unwrap();
    let copy = TempDir::new().unwrap();
    engine.backup(&copy.path().join("b"), &mut |_, _| {}).unwrap();
    assert_eq!(engine.sweep().unwrap(), Some(0), "nothing that is needed is swept");
    assert_eq!(engine.verify_full(&mut |_, _| {}).unwrap().findings, []);
}

#[test]
fn a_directory_is_as_good_as_a_bucket() {
    let Some(database) = Database::find() else { return };
    let (schema, shared) = (database.schema(), TempDir::new().unwrap());
    let open = |dir: &TempDir| {
        let objects = Some(ObjectsAddress::parse(shared.path().to_str().unwrap()).unwrap());
        let options = PostgresOptions { objects, ..PostgresOptions::at(dir.path()) };
        Engine::from(PostgresLedger::create(&schema.address(), &options, "store-1").unwrap())
    };
    let (one, other) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let node = open(&one);
    let tip = commit(&node, 40, 4_000);
    node.seal(&mut |_, _| {}).unwrap();
    assert_eq!(materialized(&open(&other), &tip).unwrap(), expected(40, 4_000));
    assert_eq!(std::fs::read_dir(shared.path().join("store-1")).unwrap().count(), 1);
}

#[test]
fn what_a_bucket_makes_of_conditions_is_told() {
    let Some(team) = Team::new() else { return };
    let Engine::Database(ledger) = team.node().engine else { panic!("it is in a database") };
    let probe = || ledger.objects().expect("it has a bucket").probe().unwrap();
    assert_eq!(probe(), ConditionalPuts::Honoured);
    team.bucket.ignore_conditions();
    assert_eq!(probe(), ConditionalPuts::Ignored);
    assert_eq!(team.bucket.names(), Vec::<String>::new());
}

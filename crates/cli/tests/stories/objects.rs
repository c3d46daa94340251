//! A store in PostgreSQL whose segments live in a bucket: a real one, and one that is away.

use std::path::{Path, PathBuf};
use std::process::Command;

use enjamb_testkit::bucket::{Bucket, Misdeed};
use enjamb_testkit::database::{Database, Schema};
use enjamb_testkit::gateway::Gateway;
use serde_json::Value;

use crate::expect::check;
use crate::runner::{Answer, Enjamb, answer};

/// A machine that is told where the store is, and where its segments live.
struct Team {
    enjamb: Enjamb,
    schema: Schema,
    environment: Vec<(&'static str, String)>,
    database: Database,
}

impl Team {
    fn new(environment: Vec<(&'static str, String)>) -> Option<Self> {
        let database = Database::find()?;
        Some(Self { enjamb: Enjamb::new(), schema: database.schema(), environment, database })
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.enjamb.command(arguments);
        command.env("ENJAMB_STORE", self.schema.address()).envs(self.environment.iter().cloned());
        command
    }

    fn run(&self, arguments: &[&str]) -> Answer {
        answer(self.command(arguments), b"")
    }

    fn put(&self, bytes: &str) -> String {
        answer(self.command(&["put"]), bytes.as_bytes()).done().line()
    }

    fn json(&self, arguments: &[&str]) -> Value {
        self.run(&[arguments, &["--json"]].concat()).document()
    }

    /// Forgets all that this machine has of the store.
    fn forget(&self) {
        std::fs::remove_dir_all(self.enjamb.home().join("data")).expect("a directory");
    }
}

/// Text that does not compress to nothing.
fn text(seed: u64, bytes: usize) -> String {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        format!("{:08x}", state >> 32)
    };
    (0..bytes / 8).map(|_| next()).collect()
}

#[test]
fn segments_live_in_a_real_bucket() {
    let Some(gateway) = Gateway::find() else {
        eprintln!("skipped: Ceph's gateway is not installed");
        return;
    };
    let Some(team) = Team::new(gateway.environment().to_vec()) else { return };
    let bucket = format!("s3://{}/team", gateway.bucket());
    team.run(&["--objects", &bucket, "init"]).done();
    let small: Vec<_> = (0..40).map(|seed| team.put(&text(seed, 8_000))).collect();
    // Larger than one part of an upload.
    let large = text(99, 24 << 20);
    let large_id = team.put(&large);
    check(&team.run(&["maintain"]).done().out(), "sealed [..] of [..] into [..]\nstore  [..]\n");
    team.forget();
    assert_eq!(team.run(&["get", &small[7]]).done().out(), text(7, 8_000));
    assert!(team.run(&["get", &large_id]).done().out() == large);
    assert_eq!(team.json(&["verify"])["findings"], Value::Array(Vec::new()));
    let told = String::from_utf8_lossy(&team.run(&["doctor"]).stdout).into_owned();
    assert!(told.contains(&format!("{bucket}/")) && told.contains("honours conditional puts"), "{told}");
    let other = team.run(&["--objects", "s3://another-bucket", "status"]);
    let told = String::from_utf8_lossy(&other.stderr).into_owned();
    assert!(told.contains("the segments of postgres://") && told.contains(&bucket), "{told}");
    team.run(&["status"]).done();
}

#[test]
fn wrong_keys_are_told_from_a_bucket_that_is_away() {
    let Some(gateway) = Gateway::find() else {
        eprintln!("skipped: Ceph's gateway is not installed");
        return;
    };
    let mut environment = gateway.environment().to_vec();
    environment.push(("AWS_SECRET_ACCESS_KEY", "wrong".into()));
    let Some(team) = Team::new(environment) else { return };
    team.run(&["--objects", &format!("s3://{}", gateway.bucket()), "init"]).done();
    let denied = answer(team.command(&["put"]), text(1, 2 << 20).as_bytes());
    let told = String::from_utf8_lossy(&denied.stderr).into_owned();
    assert!(denied.exit != Some(0) && told.contains("cannot be used"), "{told}");
}

#[test]
fn a_bucket_that_is_away_is_named_and_costs_nothing_that_is_stored() {
    let bucket = Bucket::new();
    let environment = [("AWS_ENDPOINT_URL", bucket.endpoint()), ("AWS_ACCESS_KEY_ID", "a".into())];
    let secret = ("AWS_SECRET_ACCESS_KEY", "not-a-secret".to_owned());
    let objects = ("ENJAMB_OBJECTS", "s3://team-bucket/x".to_owned());
    let Some(team) = Team::new([environment.to_vec(), vec![secret, objects]].concat()) else { return };
    let small = team.put("hello\n");
    bucket.misbehave(|_| Some(Misdeed::Status(503)));
    let refused = answer(team.command(&["put", "--json"]), text(1, 2 << 20).as_bytes());
    let told = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(told.contains("objects-unavailable") && told.contains("s3://team-bucket/x"), "{told}");
    assert!(!told.contains("not-a-secret"), "{told}");
    assert_eq!(team.run(&["get", &small]).done().out(), "hello\n");
    bucket.behave();
    let large = team.put(&text(1, 2 << 20));
    assert_eq!(team.run(&["get", &large]).done().out(), text(1, 2 << 20));
}

#[test]
fn a_directory_may_be_named_in_the_settings() {
    let Some(team) = Team::new(Vec::new()) else { return };
    let shared: PathBuf = team.enjamb.home().join("shared");
    let settings = team.enjamb.home().join(".config/enjamb");
    std::fs::create_dir_all(&settings).expect("a directory");
    let line = format!("[objects]\nurl = \"file://{}\"\n", shared.display());
    std::fs::write(settings.join("config.toml"), line).expect("a file");
    let id = team.put(&text(3, 2 << 20));
    assert_eq!(std::fs::read_dir(&shared).expect("it was made").count(), 1);
    team.forget();
    assert_eq!(team.run(&["get", &id]).done().out(), text(3, 2 << 20));
}

#[test]
fn a_store_in_a_directory_may_have_some_of_its_segments_there_as_well() {
    let enjamb = Enjamb::new();
    let shared = enjamb.home().join("shared");
    let objects = ["--objects", shared.to_str().expect("a path")];
    let early = enjamb.run(&[&objects[..], &["status"]].concat());
    assert_eq!(early.exit, Some(2));
    assert!(String::from_utf8_lossy(&early.stderr).contains("there is no store at"));
    let id = enjamb.put("to be kept in two places\n");
    enjamb.run(&["pin", "--policy", "replicate", &id]).done();
    enjamb.run(&[&objects[..], &["maintain"]].concat()).done();
    assert_eq!(std::fs::read_dir(&shared).expect("it was made").count(), 1);
    let told = enjamb.run(&["doctor"]).done().out();
    assert!(told.contains("can be written and read"), "{told}");
    assert_eq!(enjamb.run(&["get", &id]).done().out(), "to be kept in two places\n");
    let refused = enjamb.run(&["--objects", "gs://bucket", "status"]);
    assert!(String::from_utf8_lossy(&refused.stderr).contains("gs:// is not known"));
}

/// Runs a program of PostgreSQL's own on the team's database.
fn of_postgres(team: &Team, program: &str, arguments: &[&str]) {
    let server = format!("--dbname={}", team.database.address());
    let ran = Command::new(program).arg(server).args(arguments).output().expect("PostgreSQL's clients are installed");
    assert!(ran.status.success(), "{program}: {}", String::from_utf8_lossy(&ran.stderr));
}

fn copy_all(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("a directory");
    for entry in std::fs::read_dir(from).expect("a directory").flatten() {
        match entry.file_type().expect("its type").is_dir() {
            true => copy_all(&entry.path(), &to.join(entry.file_name())),
            false => drop(std::fs::copy(entry.path(), to.join(entry.file_name())).expect("a copy")),
        }
    }
}

/// As docs/guide/teams.md says.
#[test]
fn a_backup_is_a_dump_and_then_a_copy_of_the_objects() {
    let Some(mut team) = Team::new(Vec::new()) else { return };
    let (shared, copy) = (team.enjamb.home().join("shared"), team.enjamb.home().join("copy"));
    let dump = team.enjamb.home().join("dump.sql");
    team.environment = vec![("ENJAMB_OBJECTS", shared.display().to_string())];
    let small: Vec<_> = (0..20).map(|seed| team.put(&text(seed, 8_000))).collect();
    let large = team.put(&text(99, 2 << 20));
    team.run(&["maintain"]).done();
    let late = team.put("not sealed yet\n");
    let (schema, file) = (team.schema.name().to_owned(), dump.display().to_string());
    of_postgres(&team, "pg_dump", &["--schema", &schema, "--file", &file]);
    // What comes after the dump is not in it, and does no harm.
    let after = team.put(&text(100, 2 << 20));
    copy_all(&shared, &copy);

    std::fs::remove_dir_all(&shared).expect("the objects are lost");
    team.schema.execute("DROP SCHEMA {schema} CASCADE");
    team.forget();
    of_postgres(&team, "psql", &["--quiet", "--set=ON_ERROR_STOP=1", "--file", &file]);
    let moved = format!("UPDATE {{schema}}.meta SET value = 'file://{}' WHERE name = 'objects'", copy.display());
    team.schema.execute(&moved);
    team.environment.clear();
    assert_eq!(team.json(&["verify"])["findings"], Value::Array(Vec::new()));
    assert_eq!(team.run(&["get", &small[3]]).done().out(), text(3, 8_000));
    assert_eq!(team.run(&["get", &large]).done().out(), text(99, 2 << 20));
    assert_eq!(team.run(&["get", &late]).done().out(), "not sealed yet\n");
    assert_ne!(team.run(&["get", &after]).exit, Some(0));
}

//! A store in PostgreSQL: nothing but the address is another one.

use enjamb_testkit::database::{Database, Schema};
use serde_json::Value;

use crate::expect::check;
use crate::runner::{Answer, Enjamb, answer};

/// A home, and a schema that its commands are told to use.
struct Team {
    enjamb: Enjamb,
    schema: Schema,
    _database: Database,
}

impl Team {
    fn new() -> Option<Self> {
        let database = Database::find()?;
        Some(Self { enjamb: Enjamb::new(), schema: database.schema(), _database: database })
    }

    fn run(&self, arguments: &[&str]) -> Answer {
        self.run_with(arguments, "")
    }

    fn run_with(&self, arguments: &[&str], stdin: &str) -> Answer {
        let mut command = self.enjamb.command(arguments);
        command.env("ENJAMB_STORE", self.schema.address());
        answer(command, stdin.as_bytes())
    }

    fn json(&self, arguments: &[&str]) -> Value {
        self.run(&[arguments, &["--json"]].concat()).document()
    }
}

#[test]
fn a_store_in_a_database_is_made_once_and_shown_without_its_password() {
    let Some(team) = Team::new() else { return };
    check(&team.run(&["init"]).done().out(), "made a store  postgres://127.0.0.1:[..]/postgres?schema=test_[..]\n");
    let again = team.run(&["init"]).done().out();
    check(&again, "store is there already  postgres://127.0.0.1:[..]/postgres?schema=test_[..]\n");
    let status = team.json(&["status"]);
    assert_eq!(status["path"].as_str().map(|path| path.starts_with("postgres://127.0.0.1:")), Some(true), "{status}");
    assert!(!status.to_string().contains("secret"), "{status}");
}

#[test]
fn frames_and_artifacts_are_stored_and_read_back() {
    let Some(team) = Team::new() else { return };
    let said = team.run_with(&["append", "session/s1", "--json"], r#"{"type":"session_started","input":"hi"}"#);
    assert_eq!(said.document()["frames"][0]["seq"], 0);
    let id = team.run_with(&["put"], "hello\n").done().line();
    assert_eq!(team.run(&["get", &id]).done().out(), "hello\n");
    let frames = team.run(&["frames", "session/s1"]).done().out();
    assert!(frames.contains(r#""input":"hi""#), "{frames}");
    let verified = team.json(&["verify"]);
    assert_eq!((&verified["frames"], &verified["findings"]), (&1.into(), &Value::Array(Vec::new())), "{verified}");
}

#[test]
fn large_artifacts_are_in_segments() {
    let Some(team) = Team::new() else { return };
    let large = "0123456789abcdef".repeat(200_000);
    let id = team.run_with(&["put"], &large).done().line();
    assert_eq!(team.run(&["get", &id]).done().out(), large);
    assert_eq!(team.json(&["verify"])["findings"], Value::Array(Vec::new()));
}

#[test]
fn contexts_are_committed_and_materialized() {
    let Some(team) = Team::new() else { return };
    let checkpoint = |more: &[&str], line: &str| {
        let words = ["checkpoint", "--format", "generic-v1", "--principal", "ann", "--json"];
        let made = team.run_with(&[&words, more].concat(), line).document();
        made["commits"][0]["id"].as_str().expect("a commit").to_owned()
    };
    let first = checkpoint(&[], "{\"role\":\"user\",\"content\":\"one\"}\n");
    let second = checkpoint(&["--parent", &first], "{\"role\":\"user\",\"content\":\"two\"}\n");
    let context = team.run(&["materialize", &second]).done().out();
    assert!(context.contains("one") && context.contains("two"), "{context}");
    let log = team.run(&["log", &second]).done().out();
    assert!(log.contains(&first[..12]) && log.contains(&second[..12]), "{log}");
}

#[test]
fn what_is_not_for_a_database_says_what_to_use() {
    let Some(team) = Team::new() else { return };
    team.run(&["init"]).done();
    let backup = team.run(&["backup", "copy"]);
    assert_ne!(backup.exit, Some(0));
    let told = String::from_utf8_lossy(&backup.stderr).into_owned();
    assert!(told.contains("not for a store in a database") && told.contains("pg_dump"), "{told}");
}

#[test]
fn doctor_looks_at_the_server() {
    let Some(team) = Team::new() else { return };
    team.run(&["init"]).done();
    let answer = team.run(&["doctor"]);
    assert_eq!(answer.exit, Some(1), "a server without a standby is worth a warning");
    let told = String::from_utf8_lossy(&answer.stdout).into_owned();
    assert!(
        told.contains("syncs what it acknowledges") && told.contains("no commit waits for a second server"),
        "{told}"
    );
}

#[test]
fn an_address_that_is_none_and_a_server_that_is_away_are_told_apart() {
    let enjamb = Enjamb::new();
    let tell = |address: &str| {
        let answer = enjamb.run(&["--store", address, "status"]);
        assert_ne!(answer.exit, Some(0));
        let told = String::from_utf8_lossy(&answer.stderr).into_owned();
        assert!(!told.contains("secret"), "{told}");
        told
    };
    assert!(tell("postgres://ann:secret@127.0.0.1:1/db?schema=No").contains("is no address of a database"));
    assert!(tell("postgres://ann:secret@127.0.0.1:1/db").contains("cannot be reached"));
}

//! Commits and chains: `checkpoint`, `log`, `show`, `materialize`, `fork`, `refs`, `diff`, `note`, `resolve`, `summarize`.

use serde_json::json;

use crate::expect::{check, check_json};
use crate::runner::Enjamb;

pub fn said(role: &str, text: &str) -> String {
    format!("{{\"role\":\"{role}\",\"content\":\"{text}\"}}\n")
}

/// Commits text as a delta of `generic-v1` and returns the commit's id.
#[track_caller]
pub fn commit(enjamb: &Enjamb, delta: &str, more: &[&str]) -> String {
    let arguments = [&["checkpoint", "--format", "generic-v1", "--principal", "agent/a"], more].concat();
    enjamb.run_with(&arguments, delta).done().line()
}

/// Two turns, a compaction of them, and a turn after it.
pub fn chain(enjamb: &Enjamb) -> [String; 4] {
    let first = commit(enjamb, &said("user", "why is checkout slow?"), &["--at", "2026-01-01T00:00:01Z"]);
    let second =
        commit(enjamb, &said("assistant", "two sleeps"), &["--parent", &first, "--at", "2026-01-01T00:00:02Z"]);
    let more = ["--type", "compaction", "--trigger", "compaction", "--parent", &second, "--at", "2026-01-01T00:00:03Z"];
    let third = commit(enjamb, &said("user", "earlier: two sleeps found"), &more);
    let fourth = commit(enjamb, &said("user", "cap it at 3"), &["--parent", &third, "--at", "2026-01-01T00:00:04Z"]);
    [first, second, third, fourth]
}

#[test]
fn a_checkpoint_is_the_same_for_the_same_inputs() {
    let enjamb = Enjamb::new();
    let [first, ..] = chain(&enjamb);
    let again = commit(&enjamb, &said("user", "why is checkout slow?"), &["--at", "2026-01-01T00:00:01Z"]);
    assert_eq!(again, first);
    let delta = enjamb.file("delta", said("user", "more"));
    let expected = json!({
        "schema": "enjamb.cli.checkpoint/1",
        "commits": [{
            "id": "ctx-[..]", "artifact": "art-[..]", "messages": 1,
            "tokens": {"value": 1, "method": "o200k_base"}, "known": false,
        }],
    });
    check_json(&enjamb.json(&["checkpoint", &delta, "--format", "generic-v1", "--parent", "@"]), &expected);
}

#[test]
fn a_compaction_is_stored_though_what_it_replaces_was_there() {
    let enjamb = Enjamb::new();
    let [first, ..] = chain(&enjamb);
    let rest = enjamb.file("rest", said("user", "the rest"));
    let at = ["--parent", &first, "--at", "2026-01-05T00:00:00Z"];
    let alone = commit(&enjamb, &said("user", "the rest"), &[&at[..], &["--trigger", "compaction"]].concat());
    let pair = [&at[..], &["--trigger", "compaction", "--type", "compaction", "--before", &rest, "--json"]].concat();
    for known in [false, true] {
        let arguments = [&["checkpoint", "--format", "generic-v1", "--principal", "agent/a"], &pair[..]].concat();
        let made = enjamb.run_with(&arguments, said("user", "in short")).document();
        let [before, compaction] = [0, 1].map(|at| made["commits"][at].clone());
        assert_eq!((&before["id"], &before["known"]), (&json!(alone), &json!(true)));
        assert_eq!(compaction["known"], known);
        let id = compaction["id"].as_str().unwrap_or_default();
        assert_eq!(enjamb.json(&["show", id])["parent"], alone);
    }
}

#[test]
fn what_cannot_be_a_commit_is_refused_by_name() {
    let enjamb = Enjamb::with_store();
    let generic = ["checkpoint", "--format", "generic-v1"];
    let refused = |more: &[&str], stdin: &str, exit: i32, says: &str| {
        let answer = enjamb.run_with(&[&generic, more].concat(), stdin).exits(exit);
        assert!(answer.err().contains(says), "{}", answer.err());
    };
    let delta = said("user", "x");
    refused(&[], "not json\n", 2, "generic-v1");
    refused(&["--parent", "ctx-00000000"], &delta, 3, "no commit ctx-00000000");
    refused(&["--type", "compaction"], &delta, 2, "compaction");
    refused(&["--trigger", "mood"], &delta, 2, "mood");
    let answer = enjamb.run_with(&["checkpoint", "--format", "generic"], &delta).exits(2);
    assert!(answer.err().contains("such as claude-code-v1"), "{}", answer.err());
}

#[test]
fn materialize_begins_at_the_compaction_or_at_the_root() {
    let enjamb = Enjamb::new();
    let [_, second, _, fourth] = chain(&enjamb);
    let read = |arguments: &[&str]| enjamb.run(&[&["materialize"], arguments].concat()).done().out();
    let summary = said("user", "earlier: two sleeps found");
    let (asked, found, cap) =
        (said("user", "why is checkout slow?"), said("assistant", "two sleeps"), said("user", "cap it at 3"));
    assert_eq!(read(&[&fourth]), [summary.as_str(), &cap].concat());
    assert_eq!(read(&[&fourth, "--stop", "root"]), [asked.as_str(), &found, &cap].concat());
    assert_eq!(read(&[&fourth, "--stop", &second]), [found.as_str(), &cap].concat());
    assert_eq!(read(&["--none"]), "");
    let answer = enjamb.run(&["materialize", &second, "--stop", &fourth]).exits(2);
    assert!(answer.err().contains("is not an ancestor"), "{}", answer.err());
    let expected = json!({
        "schema": "enjamb.cli.materialize/1", "tier": "native", "format": "generic-v1", "commits": 2,
        "bytes": summary.len() + cap.len(), "messages": 2, "tokens": 11, "ledger": null,
    });
    check_json(&enjamb.json(&["materialize", &fourth]), &expected);
    assert!(read(&[&fourth, "--format", "narrative-v1"]).contains("cap it at 3"));
    let translated = enjamb.json(&["materialize", &fourth, "--format", "openai-chat-v1"]);
    assert_eq!(translated["tier"], "mapped");
}

#[test]
fn who_only_read_leaves_the_files_beside_the_database_and_who_wrote_does_not() {
    let enjamb = Enjamb::new();
    let [.., tip] = chain(&enjamb);
    let log = enjamb.store().join("log.db-wal");
    assert!(!log.exists(), "what was written was taken in");
    let read = || enjamb.run(&["materialize", &tip]).done().out();
    let before = read();
    assert_eq!(std::fs::metadata(&log).unwrap().len(), 0);
    assert_eq!(read(), before);
    enjamb.run(&["note", &tip, "--summary", "capped"]).done();
    assert!(!log.exists(), "what was written was taken in again");
    assert_eq!(read(), before);
    enjamb.run(&["verify"]).done();
}

#[test]
fn history_is_read_by_revision_words() {
    let enjamb = Enjamb::new();
    let [first, second, third, fourth] = chain(&enjamb);
    let id = |revision: &str| enjamb.json(&["show", revision])["id"].as_str().unwrap_or_default().to_owned();
    assert_eq!((id("@"), id("@-"), id("@~3")), (fourth.clone(), third.clone(), first.clone()));
    assert_eq!(id(&second[..10]), second);
    assert_eq!(id("agent/a@2026-01-01T00:00:02.5Z"), second);
    enjamb.run(&["show", "@~4"]).exits(3);
    check(&enjamb.run(&["resolve", "agent/a", "--at", "2026-01-01T00:00:01Z"]).done().out(), &format!("{first}\n"));
    enjamb.run(&["resolve", "agent/a", "--at", "2025-01-01T00:00:00Z"]).exits(3);
    let expected = format!(
        "○\t{fourth}\t2026-01-01T00:00:04.000000Z\tagent/a\t5\t\n◆\t{third}\t2026-01-01T00:00:03.000000Z\tagent/a\t[..]\t\n"
    );
    check(&enjamb.run(&["log", "-n", "2"]).done().out(), &expected);
}

#[test]
fn a_fork_is_a_name_and_what_follows_it_a_branch() {
    let enjamb = Enjamb::new();
    let [first, second, _, fourth] = chain(&enjamb);
    enjamb.run(&["fork", &second, "-n", "side"]).done();
    let answer = enjamb.run(&["fork", &first, "-n", "side"]).exits(5);
    check(
        &answer.err(),
        &format!("error: ref side names {second}, not nothing\nhelp:  enjamb refs    shows what each names now\n"),
    );
    let branch = commit(
        &enjamb,
        &said("user", "on purpose?"),
        &["--parent", "side", "-m", "asks", "--at", "2026-01-02T00:00:00Z"],
    );
    let graph = enjamb.run(&["log", &branch, "--graph"]).done().out();
    assert!(graph.contains("├─╯") && graph.contains(&fourth[..12]), "{graph}");
    assert!(graph.contains("2026-01-02T00:00:00"), "a program is told the time, not how long ago it was: {graph}");
    let diff = enjamb.json(&["diff", &branch, &fourth]);
    assert_eq!((&diff["shared"], &diff["a"]["commits"], &diff["b"]["commits"]), (&json!(second), &json!(1), &json!(2)));
    enjamb.run(&["diff", &branch, &fourth, "--exit-code"]).exits(1);
    check(&enjamb.run(&["refs"]).done().out(), &format!("side\t{second}\n"));
    check(&enjamb.run(&["refs", "--delete", "side"]).done().out(), "");
}

#[test]
fn notes_are_words_that_change_and_stay_in_the_log() {
    let enjamb = Enjamb::new();
    let [first, ..] = chain(&enjamb);
    check(&enjamb.run(&["summarize"]).done().out(), "wrote 4 summaries, 0 had nothing to sum up\n");
    check(&enjamb.run(&["summarize"]).done().out(), "wrote 0 summaries, 0 had nothing to sum up\n");
    assert_eq!(enjamb.json(&["show", &first])["summary"], "why is checkout slow?");
    enjamb.run(&["note", &first, "-m", "finds it", "--tag", "slow"]).done();
    let shown = enjamb.json(&["show", &first]);
    assert_eq!((&shown["summary"], &shown["tags"]), (&json!("finds it"), &json!(["slow"])));
    enjamb.run(&["note", &first]).exits(2);
    let frames = enjamb.run(&["frames", "context/agent/a"]).done().out();
    assert_eq!(frames.matches("context_noted").count(), 5);
    enjamb.run(&["maintain", "--rebuild-index"]).done();
    assert_eq!(enjamb.json(&["show", &first])["summary"], "finds it");
    enjamb.run(&["verify"]).done();
}

#[test]
fn a_snapshot_is_a_place_to_begin_that_changes_no_conversation() {
    let enjamb = Enjamb::new();
    let [_, second, _, fourth] = chain(&enjamb);
    let read = |arguments: &[&str]| enjamb.run(&[&["materialize"], arguments].concat()).done().out();
    let (recent, whole) = (read(&[&fourth]), read(&[&fourth, "--stop", "root"]));
    let snapshot = enjamb.run(&["checkpoint", "--snapshot", &fourth, "-m", "so far"]).done().line();
    let shown = enjamb.json(&["show", &snapshot]);
    let about = ["type", "parent", "principal", "format", "messages", "summary"].map(|member| shown[member].clone());
    let expected = [json!("snapshot"), json!(fourth), json!("agent/a"), json!("generic-v1"), json!(2), json!("so far")];
    assert_eq!(about, expected);
    assert_eq!((read(&[&snapshot]), read(&[&snapshot, "--stop", "root"])), (recent.clone(), whole.clone()));
    let later = said("user", "and then?");
    let next = commit(&enjamb, &later, &["--parent", &snapshot]);
    assert_eq!(read(&[&next]), recent + &later);
    assert_eq!(read(&[&next, "--stop", "root"]), whole.clone() + &later);
    assert_eq!(enjamb.json(&["materialize", &next])["commits"], 2, "the walk ends at the snapshot");
    let root = enjamb.run(&["checkpoint", "--snapshot", &fourth, "--stop", "root"]).done().line();
    assert_eq!(read(&[&root]), whole);
    enjamb.run(&["maintain", "--rebuild-index"]).done();
    assert_eq!(
        read(&[&next, "--stop", &second]),
        said("assistant", "two sleeps") + &said("user", "cap it at 3") + &later
    );
    enjamb.run(&["verify"]).done();
}

#[test]
fn a_snapshot_says_what_it_cannot_be_made_of() {
    let enjamb = Enjamb::new();
    let [.., fourth] = chain(&enjamb);
    let chat = r#"[{"role":"user","content":"in another format"}]"#;
    let other = enjamb.run_with(&["checkpoint", "--format", "openai-chat-v1", "--parent", &fourth], chat).done().line();
    let artifacts = enjamb.json(&["artifacts"]);
    let answer = enjamb.run(&["checkpoint", "--snapshot", &other]).exits(2);
    assert!(
        answer.err().contains("openai-chat-v1 and generic-v1") && answer.err().contains("--format"),
        "{}",
        answer.err()
    );
    assert_eq!(enjamb.json(&["artifacts"]), artifacts, "nothing was stored");
    enjamb.run(&["checkpoint", "--snapshot", "@", "--template", "x"]).exits(2);
    enjamb.run(&["checkpoint", "--snapshot", "ctx-00000000"]).exits(3);
    enjamb.run(&["checkpoint", "--stop", "root", "--format", "generic-v1"]).exits(2);
    enjamb.run(&["checkpoint"]).exits(2);
}

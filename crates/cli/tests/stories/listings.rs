//! Which commits there are: `log` with filters, `children`, `tips`, `merge-base`.

use serde_json::{Value, json};

use crate::commits::{chain, said};
use crate::expect::{check, check_json};
use crate::runner::Enjamb;

/// Commits a line with these flags, and returns the commit's id.
#[track_caller]
fn commit(enjamb: &Enjamb, text: &str, flags: &[&str]) -> String {
    let arguments = [&["checkpoint", "--format", "generic-v1"], flags].concat();
    enjamb.run_with(&arguments, said("user", text)).done().line()
}

/// The ids that a list shows, and where it goes on.
#[track_caller]
fn listed(enjamb: &Enjamb, arguments: &[&str]) -> (Vec<String>, Value) {
    let answer = enjamb.json(arguments);
    let rows = answer["contexts"].as_array().expect("a list");
    let ids = rows.iter().map(|row| row["id"].as_str().expect("an id").to_owned()).collect();
    (ids, answer["next"].clone())
}

/// Checks which commits a list shows, in order.
#[track_caller]
fn lists(enjamb: &Enjamb, arguments: &[&str], expected: &[&String]) {
    let ids = listed(enjamb, arguments).0;
    assert_eq!(ids.iter().collect::<Vec<_>>(), expected, "{arguments:?}");
}

/// Three principals at work, one of them twice in the same second.
fn crowd(enjamb: &Enjamb) -> [String; 4] {
    let at = |second: u32| format!("2026-02-01T00:00:0{second}Z");
    let a = commit(enjamb, "a", &["--principal", "agent/a", "--at", &at(1), "--template", "dev", "--ticket", "tkt-1"]);
    let b = commit(enjamb, "b", &["--principal", "agent/b", "--at", &at(3), "--session", "s-1", "-m", "asks"]);
    let c = commit(enjamb, "c", &["--principal", "agent/c", "--at", &at(2), "--thread", "thr-1", "--parent", &a]);
    let d = commit(enjamb, "d", &["--principal", "agent/c", "--at", &at(2), "--template", "dev", "--parent", &b]);
    [a, b, c, d]
}

#[test]
fn all_commits_are_listed_newest_first_and_by_what_they_are() {
    let enjamb = Enjamb::new();
    let [a, b, c, d] = crowd(&enjamb);
    let list = |filter: &[&str], expected: &[&String]| lists(&enjamb, &[&["log"], filter].concat(), expected);
    // Of two at one instant, the one stored last.
    list(&["--all"], &[&b, &d, &c, &a]);
    list(&["--principal", "agent/c"], &[&d, &c]);
    list(&["--template", "dev"], &[&d, &a]);
    list(&["--template", "dev", "--principal", "agent/a"], &[&a]);
    list(&["--session", "s-1"], &[&b]);
    list(&["--ticket", "tkt-1"], &[&a]);
    list(&["--thread", "thr-1"], &[&c]);
    list(&["--format", "generic-v1", "--since", "2026-02-01T00:00:02Z"], &[&b, &d, &c]);
    list(&["--until", "2026-02-01T00:00:02Z"], &[&d, &c, &a]);
    list(&["--until", "1s", "--since", "2026-02-01T00:00:03Z"], &[&b]);
    // The oldest first: what is to be done next.
    list(&["--no-summary"], &[&a, &c, &d]);
    // A history is filtered too.
    list(&[&c, "--template", "dev"], &[&a]);
    list(&["--principal", "agent/nobody"], &[]);
    list(&["--format", "codex-v1"], &[]);
}

#[test]
fn a_list_goes_on_where_it_ended() {
    let enjamb = Enjamb::new();
    let [a, b, c, d] = crowd(&enjamb);
    let (first, next) = listed(&enjamb, &["log", "--all", "-n", "2"]);
    assert_eq!((first, &next), (vec![b.clone(), d.clone()], &json!(d)));
    assert_eq!(listed(&enjamb, &["log", "--all", "-n", "2", "--after", &d]), (vec![c.clone(), a.clone()], Value::Null));
    assert_eq!(listed(&enjamb, &["log", &d, "-n", "1"]), (vec![d.clone()], json!(d)));
    assert_eq!(listed(&enjamb, &["log", &d, "--after", &d]), (vec![b], Value::Null));
    let (first, next) = listed(&enjamb, &["log", "--no-summary", "-n", "2"]);
    assert_eq!((first, &next), (vec![a.clone(), c.clone()], &json!(c)));
    enjamb.run(&["note", &c, "-m", "done since"]).done();
    let rest = listed(&enjamb, &["log", "--no-summary", "-n", "2", "--after", &c]);
    assert_eq!(rest, (vec![d.clone()], Value::Null), "it goes on after a commit that has left the list");
    let answer = enjamb.run(&["log", "--all", "-n", "1"]).done();
    assert!(answer.err().contains("there may be more: --after ctx-"), "{}", answer.err());
}

#[test]
fn what_a_list_cannot_do_it_says() {
    let enjamb = Enjamb::new();
    crowd(&enjamb);
    for (arguments, says) in [
        (&["log", "--since", "soon"][..], "\"soon\" is not a time"),
        (&["log", "--graph", "--template", "dev"], "whole branches"),
        (&["tips", "@", "--template", "dev"], "filters go with all tips"),
    ] {
        let answer = enjamb.run(arguments).exits(2);
        assert!(answer.err().contains(says), "{}", answer.err());
    }
    enjamb.run(&["log", "--after", "ctx-00000000"]).exits(3);
}

#[test]
fn children_tips_and_where_histories_part() {
    let enjamb = Enjamb::new();
    let [first, second, third, fourth] = chain(&enjamb);
    let side = commit(&enjamb, "on purpose?", &["--parent", &second, "--principal", "agent/b"]);
    lists(&enjamb, &["children", &second], &[&third, &side]);
    lists(&enjamb, &["children", &side], &[]);
    check(&enjamb.run(&["children", &first]).done().out(), &format!("○\t{second}\t[..]\tagent/a\t[..]\t\n"));
    lists(&enjamb, &["tips"], &[&side, &fourth]);
    lists(&enjamb, &["tips", "--principal", "agent/a"], &[&fourth]);
    lists(&enjamb, &["tips", &third], &[&fourth]);
    let answer = enjamb.run(&["tips", &first, "-n", "1"]).done();
    assert!(answer.err().contains("there may be more"), "{}", answer.err());
    check(&enjamb.run(&["merge-base", &side, &fourth]).done().out(), &format!("{second}\n"));
    check_json(&enjamb.json(&["merge-base", "@", &first]), &json!({"schema": "enjamb.cli.merge_base/1", "id": first}));
    let apart = commit(&enjamb, "elsewhere", &["--principal", "agent/c"]);
    check(&enjamb.run(&["merge-base", &apart, &first]).exits(1).out(), "");
}

//! What becomes of bytes that nobody needs: `gc`, and everything that keeps bytes from it.

use serde_json::json;

use crate::expect::{check, check_json};
use crate::runner::Enjamb;

/// A store with one artifact whose time is over at once.
fn over() -> (Enjamb, String) {
    let enjamb = Enjamb::new();
    let id = enjamb.run_with(&["put", "--ttl", "0s"], "passing\n").done().line();
    (enjamb, id)
}

fn cycle(enjamb: &Enjamb) -> (u64, u64) {
    let run = enjamb.json(&["gc", "--run"]);
    (run["condemned"].as_u64().unwrap(), run["dropped"].as_u64().unwrap())
}

const NOTHING_ELSE: &str = "1 artifact would go; 0 kept until their time is over, 0 because something needs them";

#[test]
fn what_is_over_is_condemned_then_dropped_then_gone() {
    let (enjamb, id) = over();
    let plan = enjamb.run(&["gc"]).done();
    check(&plan.out(), &format!("would condemn  {id}  8 B\n{NOTHING_ELSE}\n"));
    assert_eq!(plan.err(), "nothing was changed: enjamb gc --run\n");
    let run = "dropped 0 artifacts of 0 B, condemned 1 for the next cycle, removed 0 B of unnamed files\n";
    check(&enjamb.run(&["gc", "--run"]).done().out(), run);
    assert_eq!(enjamb.run(&["get", &id]).done().out(), "passing\n", "it is there until it is dropped");
    check(&enjamb.run(&["gc", "--dry-run"]).done().out(), &format!("would drop  {id}  8 B\n{NOTHING_ELSE}\n"));
    let run = "dropped 1 artifact of 8 B, condemned 0 for the next cycle, removed 0 B of unnamed files\n";
    check(&enjamb.run(&["gc", "--run"]).done().out(), run);
    check(&enjamb.run(&["get", &id]).exits(3).err(), &format!("error: no artifact {id}\nhelp:  enjamb artifacts\n"));
    enjamb.run(&["maintain"]).done();
    enjamb.run(&["verify"]).done();
}

#[test]
fn programs_are_told_the_same() {
    let (enjamb, id) = over();
    let expected = json!({
        "schema": "enjamb.cli.gc/1", "dry_run": true, "waiting": 0, "needed": 0, "unnamed_files": 0, "unnamed_bytes": 0,
        "candidates": [{"id": id, "bytes": 8, "condemned": false}],
    });
    check_json(&enjamb.json(&["gc"]), &expected);
    let expected = json!({
        "schema": "enjamb.cli.gc/1", "dry_run": false, "condemned": 1, "dropped": 0, "dropped_bytes": 0,
        "files_bytes": 0, "sweep_skipped": false,
    });
    check_json(&enjamb.json(&["gc", "--run"]), &expected);
}

#[test]
fn what_was_dropped_can_be_put_again_and_stays() {
    let (enjamb, id) = over();
    assert_eq!((cycle(&enjamb), cycle(&enjamb)), ((1, 0), (0, 1)));
    assert_eq!(enjamb.put("passing\n"), id);
    assert_eq!((cycle(&enjamb), cycle(&enjamb)), ((0, 0), (0, 0)), "this time it was put for good");
    assert_eq!(enjamb.run(&["get", &id]).done().out(), "passing\n");
    enjamb.run(&["verify"]).done();
}

/// Whatever is done between condemnation and the next cycle keeps the bytes from being dropped.
#[track_caller]
fn check_spared(act: impl Fn(&Enjamb, &str)) {
    let (enjamb, id) = over();
    assert_eq!(cycle(&enjamb), (1, 0));
    act(&enjamb, &id);
    let (_, dropped) = cycle(&enjamb);
    assert_eq!(dropped, 0);
    assert_eq!(cycle(&enjamb).1, 0, "and stays so");
    assert_eq!(enjamb.run(&["get", &id]).done().out(), "passing\n");
}

#[test]
fn a_mention_in_a_frame_spares_what_is_condemned() {
    check_spared(|enjamb, id| {
        enjamb.append("session/s1", &format!(r#"{{"type":"anything","see":"as in {id}, above"}}"#));
    });
}

#[test]
fn a_tag_spares_what_is_condemned() {
    check_spared(|enjamb, id| drop(enjamb.run(&["tag", "keep", id]).done()));
}

#[test]
fn a_pin_spares_what_is_condemned() {
    check_spared(|enjamb, id| drop(enjamb.run(&["pin", id]).done()));
}

#[test]
fn a_second_put_spares_what_is_condemned() {
    check_spared(|enjamb, id| assert_eq!(enjamb.put("passing\n"), id));
}

#[test]
fn a_put_with_a_time_never_shortens_the_stay_of_what_is_here() {
    let enjamb = Enjamb::new();
    let id = enjamb.put("passing\n");
    enjamb.run_with(&["put", "--ttl", "0s"], "passing\n").done();
    assert_eq!(enjamb.json(&["get", &id])["policy"], "default");
    let expires = |ttl: &str| {
        let other = enjamb.run_with(&["put", "--ttl", ttl], "other\n").done().line();
        enjamb.json(&["artifacts", &other])["artifacts"][0]["expires_ms"].as_u64().unwrap()
    };
    let long = expires("30d");
    assert_eq!(expires("1s"), long);
    assert!(expires("60d") > long);
}

#[test]
fn what_waits_or_is_needed_is_counted() {
    let enjamb = Enjamb::new();
    enjamb.run_with(&["put", "--ttl", "1h"], "later\n").done();
    enjamb.run_with(&["put", "--ttl", "0s", "--tag", "named"], "named\n").done();
    enjamb.put("for good\n");
    let expected = "0 artifacts would go; 1 kept until their time is over, 1 because something needs them\n";
    check(&enjamb.run(&["gc"]).done().out(), expected);
    assert_eq!(cycle(&enjamb), (0, 0));
}

#[test]
fn large_bytes_give_their_room_back() {
    let enjamb = Enjamb::new();
    let id = enjamb.run_with(&["put", "--ttl", "0s"], vec![7; 3 << 20]).done().line();
    let segments = || enjamb.json::<&str>(&[])["disk"]["segments"].as_u64().unwrap();
    assert!(segments() > 0);
    assert_eq!((cycle(&enjamb), cycle(&enjamb)), ((1, 0), (0, 1)));
    cycle(&enjamb);
    assert_eq!(segments(), 0);
    enjamb.run(&["get", &id]).exits(3);
    enjamb.run(&["verify"]).done();
}

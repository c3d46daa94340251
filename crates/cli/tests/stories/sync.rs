//! Several stores: naming them, sending, taking, copying, and what happens when both were written to.

use std::process::Command;

use serde_json::json;

use crate::expect::{check, check_json};
use crate::imports::turns;
use crate::remote::Served;
use crate::runner::{Answer, Enjamb, answer};

/// Runs on a store of the same home: its own, or another one in a directory.
fn on(enjamb: &Enjamb, store: &str, arguments: &[&str], stdin: &str) -> Answer {
    let mut command: Command = enjamb.command(arguments);
    if store != "store" {
        command.env("ENJAMB_STORE", enjamb.path(store));
    }
    answer(command, stdin.as_bytes())
}

/// The home's own store, as a remote.
fn own(enjamb: &Enjamb) -> String {
    enjamb.store().to_str().expect("a temporary path is text").to_owned()
}

fn commit(enjamb: &Enjamb, store: &str, parent: Option<&str>, text: &str) -> String {
    let mut arguments = vec!["checkpoint", "--format", "generic-v1", "--principal", "dana"];
    arguments.extend(parent.iter().flat_map(|parent| ["--parent", parent]));
    on(enjamb, store, &arguments, &format!("{{\"role\":\"user\",\"content\":\"{text}\"}}\n")).done().line()
}

#[test]
fn remotes_have_names_in_the_settings() {
    let enjamb = Enjamb::new();
    let config = enjamb.home().join(".config/enjamb/config.toml");
    std::fs::create_dir_all(config.parent().unwrap()).unwrap();
    std::fs::write(&config, "# mine\n[run]\nevery_turns = 2\n").unwrap();
    let added = enjamb.run(&["remote", "add", "desk", "./desk"]).done();
    check(&added.out(), "desk is [..]/desk\n");
    assert!(added.err().contains("enjamb push desk"), "{}", added.err());
    enjamb.run(&["remote", "add", "team", "https://ctx.acme.dev", "--token-file", "/t"]).done();
    check(
        &enjamb.run(&["remote", "list"]).done().out(),
        "desk\t[..]/desk\t[..]:6\nteam\thttps://ctx.acme.dev\t[..]:9\n",
    );
    let again = enjamb.run(&["remote", "add", "desk", "./other"]).exits(5);
    assert!(again.err().contains("there is a remote desk already"), "{}", again.err());
    let bad = enjamb.run(&["remote", "add", "a b", "./other"]).exits(2);
    assert!(bad.err().contains("letters, digits"), "{}", bad.err());
    enjamb.run(&["remote", "remove", "desk"]).done();
    let listed = enjamb.json(&["remote", "list"]);
    assert_eq!(listed["remotes"][0]["name"], "team");
    assert_eq!(listed["remotes"][0]["token_file"], "/t");
    let gone = enjamb.run(&["remote", "remove", "desk"]).exits(3);
    assert!(gone.err().contains("there are: team"), "{}", gone.err());
    assert!(std::fs::read_to_string(&config).unwrap().starts_with("# mine\n[run]\nevery_turns = 2\n"));
}

#[test]
fn the_first_push_shows_and_asks_and_the_second_sends_what_is_new() {
    let enjamb = Enjamb::with_store();
    on(&enjamb, "desk", &["init"], "").done();
    let first = commit(&enjamb, "store", None, "one");
    enjamb.run(&["remote", "add", "desk", &enjamb.path("desk")]).done();
    let refused = enjamb.run(&["push"]).exits(2);
    let expected = "
to desk
  sends    1 stream, 1 commit, 1 frame, 1 artifact, [..]
  masked   nothing: bytes travel as they are; no secret was found in it
  private  who used this store (audit), bytes that no frame names, settings and tokens stay here
";
    check(&refused.out(), expected);
    assert!(refused.err().contains("nothing was sent") && refused.err().contains("--yes"), "{}", refused.err());
    let shown = enjamb.json(&["push", "--dry-run"]);
    assert_eq!((&shown["sent"], &shown["commits"], &shown["secrets"]), (&json!(false), &json!(1), &json!({})));
    let expected = "
sent   1 stream, 1 commit, 1 frame, 1 artifact, [..]
✓ desk has [..] = here [..]
";
    check(&enjamb.run(&["push", "--yes"]).done().out(), expected);
    check(&enjamb.run(&["push"]).done().out(), "sent   nothing: all of it is there\n✓ desk has [..] = here [..]\n");
    commit(&enjamb, "store", Some(&first), "two");
    let sent = enjamb.json(&["push", "desk"]);
    let expected = json!({
        "schema": "enjamb.cli.push/1", "remote": "desk", "sent": true, "streams": 1, "frames": 1, "commits": 1,
        "artifacts": 1, "bytes": "[..]", "kept_beside": 0, "root": "[..]", "remote_root": "[..]", "same": true,
        "more_there": 0, "requests": "[..]",
    });
    check_json(&sent, &expected);
    assert_eq!(sent["root"], sent["remote_root"]);
    on(&enjamb, "desk", &["verify"], "").done();
}

#[test]
fn a_clone_has_everything_and_knows_where_it_came_from() {
    let enjamb = Enjamb::with_store();
    let tip = commit(&enjamb, "store", Some(&commit(&enjamb, "store", None, "one")), "two");
    let id = enjamb.run_with(&["put", "--tag", "bytes"], vec![9; 3 << 20]).done().line();
    let cloned = enjamb.run(&["clone", &own(&enjamb), &enjamb.path("copy")]).done();
    check(&cloned.out(), "took   2 streams, 2 commits, 3 frames, 3 artifacts, [..]\n✓ [..] has [..] = here [..]\n");
    assert_eq!(enjamb.json(&["remote", "list"])["remotes"][0]["name"], "origin");
    on(&enjamb, "copy", &["verify"], "").done();
    for arguments in [&["materialize", &tip][..], &["get", &id], &["get", "bytes"], &["log"]] {
        assert_eq!(on(&enjamb, "copy", arguments, "").done().stdout, enjamb.run(arguments).done().stdout);
    }
    commit(&enjamb, "store", Some(&tip), "three");
    let pulled = on(&enjamb, "copy", &["pull"], "").done().out();
    check(&pulled, "took   1 stream, 1 commit, 1 frame, 1 artifact, [..]\n✓ origin has [..] = here [..]\n");
    let again = enjamb.run(&["clone", &own(&enjamb), &enjamb.path("copy")]).exits(2);
    assert!(again.err().contains("already") && again.err().contains("pull"), "{}", again.err());
}

#[test]
fn what_was_imported_is_given_back_by_a_clone_byte_for_byte() {
    let enjamb = Enjamb::with_store();
    let transcript = [turns(0, 4), "{ torn".into()].concat();
    let path = enjamb.file("session.jsonl", &transcript);
    enjamb.run(&["import", "--from", "claude-code", &path]).done();
    enjamb.run(&["clone", &own(&enjamb), &enjamb.path("copy")]).done();
    let exported = on(&enjamb, "copy", &["export", "--source", &path], "").done();
    assert!(exported.out() == transcript, "{}", exported.out());
    let known = on(&enjamb, "copy", &["import", "--from", "claude-code", &path, "--json"], "").document();
    let pulled = on(&enjamb, "copy", &["pull"], "").done().out();
    assert!(pulled.contains("= here"), "a file that is known adds nothing: {pulled}\n{known}");
}

#[test]
fn stores_behind_servers_are_asked_the_same_way() {
    let enjamb = Enjamb::with_store();
    let base = commit(&enjamb, "store", None, "base");
    let served = Served::begin(&enjamb);
    let with_token = |arguments: &[&str]| {
        let mut command = enjamb.command(arguments);
        command.env("ENJAMB_STORE", enjamb.path("copy")).env("ENJAMB_REMOTE_TOKEN", &served.token);
        answer(command, b"").done().out()
    };
    let cloned = with_token(&["clone", &served.url, &enjamb.path("copy")]);
    assert!(cloned.contains("1 commit") && cloned.contains("= here"), "{cloned}");
    let next = commit(&enjamb, "copy", Some(&base), "next");
    assert!(with_token(&["push", "--yes"]).contains("= here"));
    // By its directory it is asked by the socket in it, and so is the store here if a server has it.
    commit(&enjamb, "store", Some(&next), "last");
    assert!(on(&enjamb, "copy", &["pull", &served.unix()], "").done().out().contains("1 commit"));
    let pushed = enjamb.run(&["push", &enjamb.path("copy"), "--yes"]).done().out();
    check(&pushed, "sent   nothing: all of it is there\n✓ [..] has [..] = here [..]\n");
    let mut wrong = enjamb.command(&["pull", &served.url]);
    wrong.env("ENJAMB_STORE", enjamb.path("copy"));
    assert!(answer(wrong, b"").exits(7).err().contains("token"));
}

#[test]
fn what_both_wrote_is_kept_side_by_side() {
    let enjamb = Enjamb::with_store();
    let base = commit(&enjamb, "store", None, "base");
    enjamb.run(&["clone", &own(&enjamb), &enjamb.path("copy")]).done();
    let ours = commit(&enjamb, "store", Some(&base), "ours");
    let theirs = commit(&enjamb, "copy", Some(&base), "theirs");
    let pulled = on(&enjamb, "copy", &["pull"], "").done();
    let expected = "
took   1 stream, 1 commit, 1 frame, 1 artifact, [..]
beside 1 frame of streams that both stores wrote to are kept as branches
root   origin has [..], here [..]
";
    check(&pulled.out(), expected);
    assert!(pulled.err().contains("enjamb push origin"), "{}", pulled.err());
    let pushed = on(&enjamb, "copy", &["push", "--yes"], "").done().out();
    assert!(pushed.contains("✓ origin has"), "{pushed}");
    for store in ["store", "copy"] {
        for commit in [&ours, &theirs] {
            let shown = on(&enjamb, store, &["show", commit, "--json"], "").document();
            assert_eq!((&shown["parent"], &shown["stream"]), (&json!(base), &json!("context/dana")));
        }
        assert_eq!(
            on(&enjamb, store, &["log", "--all", "--json"], "").document()["contexts"].as_array().unwrap().len(),
            3
        );
        on(&enjamb, store, &["verify"], "").done();
        let next = commit(&enjamb, store, Some(&theirs), &format!("after theirs in {store}"));
        assert_eq!(on(&enjamb, store, &["show", &next, "--json"], "").document()["parent"], theirs);
    }
}

#[test]
fn what_is_private_stays_and_is_said_so() {
    let enjamb = Enjamb::with_store();
    on(&enjamb, "desk", &["init"], "").done();
    let key = ["ghp_", "k3Zq9vLm2XwT7bYc1NdR5fHs8JpG4aUe6ViQ"].concat();
    commit(&enjamb, "store", None, &format!("the key is {key}"));
    enjamb.append("session/open", r#"{"type":"x"}"#);
    let expected = "
to [..]/desk
  sends    2 streams, 1 commit, 2 frames, 1 artifact, [..]
  masked   nothing: bytes travel as they are; 1 secret in it: 1 [..]
           1 in context/dana    enjamb private context/dana keeps it here
  private  who used this store (audit), bytes that no frame names, settings and tokens stay here
";
    check(&enjamb.run(&["push", &enjamb.path("desk"), "--dry-run"]).done().out(), expected);
    check(&enjamb.run(&["private", "context/dana"]).done().out(), "context/dana stays here\n");
    check(&enjamb.run(&["private", "context/dana"]).done().out(), "context/dana stays here already\n");
    let expected = "
to [..]/desk
  sends    1 stream, 0 commits, 1 frame, 0 artifacts, [..]
  masked   nothing: bytes travel as they are; no secret was found in it
  private  1 stream marked private, who used this store (audit), bytes that no frame names, settings and tokens stay here
";
    check(&enjamb.run(&["push", &enjamb.path("desk"), "--dry-run"]).done().out(), expected);
    enjamb.run(&["push", &enjamb.path("desk"), "--yes"]).done();
    on(&enjamb, "desk", &["streams"], "").done().out().lines().for_each(|line| {
        assert!(line.starts_with("session/open"), "{line}");
    });
    let listed = json!({"schema": "enjamb.cli.private/1", "marked": ["context/dana"], "with_them": []});
    check_json(&enjamb.json(&["private"]), &listed);
    check(&enjamb.run(&["private", "context/dana", "--off"]).done().out(), "context/dana travels\n");
    let sent = enjamb.run(&["push", &enjamb.path("desk"), "--yes"]).done().out();
    assert!(sent.contains("1 commit") && sent.contains("= here"), "{sent}");
    assert_eq!(enjamb.run(&["private", "context/nobody", "--json"]).exits(3).problem()["code"], "not-found");
}

#[test]
fn a_store_that_is_not_there_is_named() {
    let enjamb = Enjamb::with_store();
    let none = enjamb.run(&["push"]).exits(2);
    assert!(none.err().contains("enjamb remote add"), "{}", none.err());
    let unknown = enjamb.run(&["pull", "desk"]).exits(3);
    assert!(unknown.err().contains("no remote desk"), "{}", unknown.err());
    let nowhere = enjamb.path("nowhere");
    for verb in ["pull", "push"] {
        let refused = enjamb.run(&[verb, &nowhere]).exits(3).err();
        check(
            &refused,
            &format!("error: no enjamb store at {nowhere}\nhelp:  enjamb --store {nowhere} init    makes one there\n"),
        );
    }
    let silent = enjamb.run(&["push", "http://127.0.0.1:1", "--yes"]).exits(8);
    assert!(silent.err().contains("http://127.0.0.1:1"), "{}", silent.err());
    let copy = enjamb.path("copy");
    enjamb.run(&["clone", "http://127.0.0.1:1", &copy]).exits(8);
    assert!(!std::path::Path::new(&copy).exists(), "nothing is made for a store that is not there");
}

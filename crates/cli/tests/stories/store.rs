//! A store from its first minute: `init`, `status`, `doctor`, `demo`, and the pages that come with the command.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use serde_json::json;

use crate::expect::{check, check_json};
use crate::runner::Enjamb;

#[test]
fn init_makes_a_store_once() {
    let enjamb = Enjamb::new();
    let shown = enjamb.shown_store();
    check(&enjamb.run(&["init"]).done().out(), &format!("made a store  {shown}\n"));
    check(&enjamb.run(&["init"]).done().out(), &format!("store is there already  {shown}\n"));
    let expected = json!({
        "schema": "enjamb.cli.init/1", "created": false, "path": shown, "store_id": "[..]-[..]-[..]-[..]-[..]",
    });
    check_json(&enjamb.json(&["init"]), &expected);
    let mode = fs::metadata(enjamb.store()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700, "transcripts are for their owner alone");
}

#[test]
fn without_a_store_the_bare_command_says_how_to_begin() {
    let enjamb = Enjamb::new();
    let shown = enjamb.shown_store();
    let expected = &format!(
        "
enjamb 0.1.0  nothing stored yet in {shown}

  enjamb demo      see what it does, in a store that is thrown away
  enjamb init      make a store
  enjamb --help    all commands
"
    );
    check(&enjamb.run::<&str>(&[]).done().out(), expected);
    check(&enjamb.run(&["status"]).done().out(), expected);
    let expected = json!({"schema": "enjamb.cli.status/1", "path": shown, "store_id": null, "found": {}, "missed": 0});
    check_json(&enjamb.json(&["status"]), &expected);
    assert!(!enjamb.store().join("log.db").exists(), "looking makes nothing");
}

#[test]
fn status_counts_what_is_stored() {
    let enjamb = Enjamb::new();
    enjamb.append("session/s1", r#"{"type":"session_started","input":"hi"}"#);
    enjamb.append("session/s2", r#"{"type":"session_started","input":"ho"}"#);
    enjamb.put("hello\n");
    let expected = &format!(
        "
enjamb 0.1.0  {}
  2 streams  2 frames  1 artifact
  [..] B of content in [..] kB on disk

session/s2\t1\t[..]\t[..]Z
session/s1\t1\t[..]\t[..]Z
",
        enjamb.shown_store()
    );
    check(&enjamb.run::<&str>(&[]).done().out(), expected);
    let stream = |name: &str| {
        json!({
            "stream": format!("session/{name}"), "kind": "session", "id": name, "frames": 1, "bytes": "[..]",
            "chain": "[..]", "first_at": "[..]Z", "last_at": "[..]Z",
        })
    };
    let expected = json!({
        "schema": "enjamb.cli.status/1", "path": enjamb.shown_store(), "store_id": "[..]",
        "streams": 2, "frames": 2, "frame_bytes": "[..]", "artifacts": 1, "artifact_bytes": 6,
        "disk": {"log": "[..]", "index": "[..]", "segments": 0, "total": "[..]"},
        "recent": [stream("s2"), stream("s1")],
        "delivery": {
            "runtimes": {}, "waiting": 0, "damaged": 0, "failure": null, "healthy": true,
            "missed": {"count": 0, "last": null, "why": null},
        },
    });
    check_json(&enjamb.json::<&str>(&[]), &expected);
}

#[test]
fn without_the_variable_the_store_is_where_programs_keep_data() {
    let enjamb = Enjamb::new();
    let mut command = enjamb.command(&["init"]);
    command.env_remove("ENJAMB_STORE");
    assert!(command.status().unwrap().success());
    assert!(enjamb.home().join("data/enjamb/log.db").is_file(), "under XDG_DATA_HOME");
    command.env_remove("XDG_DATA_HOME");
    assert!(command.status().unwrap().success());
    assert!(enjamb.home().join(".local/share/enjamb/log.db").is_file(), "else under HOME");
}

#[test]
fn doctor_finds_nothing_wrong_with_a_new_store() {
    let enjamb = Enjamb::with_store();
    let expected = "
✓ directory        [..]/store is for its owner alone
✓ records          the last 0 records and 0 segments are whole
✓ files            every segment file is in use
✓ space            [..] MiB left on this disk
✓ write-ahead log  [..] KiB
✓ writing          the log can be locked for writing
";
    check(&enjamb.run(&["doctor"]).done().out(), expected);
    let document = enjamb.json(&["doctor"]);
    assert_eq!(document["healthy"], true);
    let first =
        json!({"name": "directory", "verdict": "good", "detail": "[..]/store is for its owner alone", "help": null});
    check_json(&document["checks"][0], &first);
}

#[test]
fn doctor_says_what_to_do_about_trouble_and_exits_with_1() {
    let enjamb = Enjamb::with_store();
    fs::set_permissions(enjamb.store(), fs::Permissions::from_mode(0o755)).unwrap();
    fs::write(enjamb.store().join("segments/tmp-1-1"), "left behind").unwrap();
    let answer = enjamb.run(&["doctor"]).exits(1).out();
    let expected = "
✗ directory        [..]/store has mode 755: others on this machine may read transcripts
  help: chmod 700 [..]/store
✓ records          the last 0 records and 0 segments are whole
✗ files            1 [..] that nothing names, 11 bytes
  help: enjamb gc --run
✓ space            [..] MiB left on this disk
✓ write-ahead log  [..] KiB
✓ writing          the log can be locked for writing
";
    check(&answer, expected);
    let document = enjamb.run(&["doctor", "--json"]).exits(1).document();
    assert_eq!(document["healthy"], false);
}

#[test]
fn the_demo_tells_the_whole_story_and_leaves_nothing() {
    let enjamb = Enjamb::new();
    let temporary = enjamb.home().join("tmp");
    fs::create_dir(&temporary).unwrap();
    let mut command = enjamb.command(&["demo"]);
    command.env("TMPDIR", &temporary);
    let expected = "

A recorded conversation comes in: a thread, and the runs that answered it.
✓ 29 frames on disk, in order, each chained to the one before
✓ and given back byte for byte

What was said, from the log alone:
    1  dana  The gateway bans us for a minute whenever checkout is slow. Why?
    4  dana  Cap retries at 3 and add jitter. The docs say five attempts in 30 s is a ban.
    7  dana  Is the double sleep gone everywhere?

The streams it became:
continuity/payments\t10\t3002\t[..]Z
session/run-1\t8\t1903\t[..]Z
session/run-2\t8\t1792\t[..]Z
session/run-3\t3\t666\t[..]Z

Bytes are kept under their digest, and named:
  why-three  art-a8421e48cb545e1661011d8a05daa23fd5708562038ed209004782edf7be6a2a
✓ the same bytes again cost nothing
✓ a name does not move from where someone else has put it

Nothing is taken on trust:
✓ [..] records of [..] kB read again, every digest matches
✓ the index, thrown away and made anew from the log, says the same

One bit of a backup flips:
✓ noticed, and named: log.db

That store is gone now. For one of your own:  enjamb init
";
    check(&crate::runner::answer(command, b"").done().out(), expected);
    assert_eq!(fs::read_dir(&temporary).unwrap().count(), 0, "nothing is left of it");
    assert!(!enjamb.store().exists(), "and one's own store is not touched");
    let held = enjamb.json(&["demo"])["held"].as_array().map(Vec::len);
    assert_eq!(held, Some(7));
}

#[test]
fn completions_are_scripts_for_each_shell() {
    let enjamb = Enjamb::new();
    for (shell, word) in [
        ("bash", "complete -F _enjamb"),
        ("zsh", "#compdef enjamb"),
        ("fish", "complete -c enjamb"),
        ("elvish", "edit:completion"),
        ("powershell", "Register-ArgumentCompleter"),
    ] {
        let script = enjamb.run(&["completions", shell]).done().out();
        assert!(script.contains(word) && script.contains("artifacts"), "{shell}");
        let document = enjamb.json(&["completions", shell]);
        assert_eq!((&document["shell"], &document["script"]), (&json!(shell), &json!(script)));
    }
}

#[test]
fn man_prints_one_page_or_writes_them_all() {
    let enjamb = Enjamb::new();
    let page = enjamb.run(&["man"]).done().out();
    assert!(page.contains(".TH enjamb 1"), "{page}");
    assert_eq!(enjamb.json(&["man"])["page"], page);
    let dir = enjamb.path("man");
    check(&enjamb.run(&["man", "--dir", &dir]).done().out(), "wrote the pages to [..]/man\n");
    let pages = fs::read_dir(&dir).unwrap().count();
    assert!(pages >= 20, "{pages} pages");
    let expected = json!({"schema": "enjamb.cli.man/1", "path": "[..]/man"});
    check_json(&enjamb.json(&["man", "--dir", &dir]), &expected);
}

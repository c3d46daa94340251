//! Files of a workspace: kept, compared, rewound, and forked together with what an agent knew.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use serde_json::json;

use crate::expect::{check, check_json};
use crate::runner::{Answer, Enjamb, answer, finish};

/// Writes a file of the workspace `w`.
fn write(enjamb: &Enjamb, name: &str, text: &str) {
    let path = enjamb.home().join("w").join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

fn read(enjamb: &Enjamb, name: &str) -> String {
    fs::read_to_string(enjamb.home().join("w").join(name)).unwrap()
}

/// Runs `enjamb workspace …` in the workspace.
fn workspace(enjamb: &Enjamb, arguments: &[&str]) -> Answer {
    let mut command = enjamb.command(&[&["workspace"], arguments].concat());
    command.current_dir(enjamb.home().join("w"));
    answer(command, b"")
}

fn checkpoint(enjamb: &Enjamb, label: &str) -> String {
    workspace(enjamb, &["checkpoint", "-m", label]).done().line()
}

#[test]
fn files_are_kept_compared_and_rewound() {
    let enjamb = Enjamb::new();
    write(&enjamb, "a", "one\n");
    write(&enjamb, "d/b", "two\n");
    symlink("a", enjamb.home().join("w/l")).unwrap();
    let answer = workspace(&enjamb, &["checkpoint", "-m", "first"]).done();
    let first = answer.line();
    check(&answer.err(), "3 files, 9 B; 4 changed\n");
    check(&workspace(&enjamb, &["list"]).done().out(), &format!("{first}\t[..]\t4\tfirst\n"));
    check(&workspace(&enjamb, &["diff"]).done().out(), "");
    write(&enjamb, "a", "changed\n");
    fs::remove_file(enjamb.home().join("w/d/b")).unwrap();
    write(&enjamb, "new", "n");
    let lines = "--- a/a\n+++ b/a\n@@ -1 +1 @@\n-one\n+changed\n--- a/d/b\n+++ /dev/null\n@@ -1 +0,0 @@\n-two\n\
        --- /dev/null\n+++ b/new\n@@ -0,0 +1 @@\n+n\n\\ No newline at end of file\n";
    check(&workspace(&enjamb, &["diff"]).exits(1).out(), lines);
    let diff = workspace(&enjamb, &["diff", "--stat"]).exits(1);
    check(&diff.out(), "changed\ta\t4 B 644\t8 B 644\nremoved\td/b\t4 B 644\t\nadded\tnew\t\t1 B 644\n");
    check(&workspace(&enjamb, &["diff", "--stat", "--", "d"]).exits(1).out(), "removed\td/b\t4 B 644\t\n");
    let plan = workspace(&enjamb, &["rewind", &first[..8], "--dry-run"]).done();
    let told =
        "rewrite  a\nrestore  d/b\nremove   new\n3 paths would change; what is there now is kept first    [..] first\n";
    check(&plan.out(), told);
    let refused = workspace(&enjamb, &["rewind", &first[..8]]).exits(2);
    check(&refused.err(), "error: nothing was changed: nobody is there to agree to it\nhelp:  add --yes to do it\n");
    assert_eq!(read(&enjamb, "a"), "changed\n");
    let rewound = workspace(&enjamb, &["rewind", &first[..8], "--yes"]).done();
    check(&rewound.out(), "rewound 3 paths to [..]\nundo with  enjamb workspace rewind [..]\n");
    assert_eq!((read(&enjamb, "a"), read(&enjamb, "d/b")), ("one\n".into(), "two\n".into()));
    let undo = rewound.line().rsplit(' ').next().unwrap().to_owned();
    workspace(&enjamb, &["rewind", &undo, "--yes"]).done();
    assert_eq!((read(&enjamb, "a"), read(&enjamb, "new")), ("changed\n".into(), "n".into()));
}

#[test]
fn what_has_no_lines_is_named() {
    let enjamb = Enjamb::new();
    write(&enjamb, "bytes", "\0");
    write(&enjamb, "mode", "m\n");
    symlink("bytes", enjamb.home().join("w/link")).unwrap();
    let first = checkpoint(&enjamb, "first");
    write(&enjamb, "bytes", "\0\0");
    fs::set_permissions(enjamb.home().join("w/mode"), fs::Permissions::from_mode(0o755)).unwrap();
    fs::remove_file(enjamb.home().join("w/link")).unwrap();
    symlink("mode", enjamb.home().join("w/link")).unwrap();
    fs::create_dir(enjamb.home().join("w/dir")).unwrap();
    write(&enjamb, "long", &"x\n".repeat(600_000));
    let told = "changed bytes: 1 B 644 → 2 B 644\nadded dir: nothing → dir 755\n--- a/link\n+++ b/link\n@@ -1 +1 @@\n-bytes\n\
        \\ No newline at end of file\n+mode\n\\ No newline at end of file\nadded long: nothing → 1.2 MB 644\n\
        mode mode: 2 B 644 → 2 B 755\n";
    check(&workspace(&enjamb, &["diff"]).exits(1).out(), told);
    let second = checkpoint(&enjamb, "second");
    check(&workspace(&enjamb, &["diff", &first, &second]).exits(1).out(), told);
    check(
        &workspace(&enjamb, &["diff", &second, &first, "--", "bytes"]).exits(1).out(),
        "changed bytes: 2 B 644 → 1 B 644\n",
    );
}

#[test]
fn programs_get_documents() {
    let enjamb = Enjamb::new();
    write(&enjamb, "a", "one\n");
    let made = workspace(&enjamb, &["checkpoint", "--json"]).document();
    let expected = json!({
        "schema": "enjamb.cli.workspace_checkpoint/1", "checkpoint": "[..]", "stream": "session/workspace-[..]", "seq": 0,
        "manifest": "art-[..]", "files": 1, "bytes": 4, "changed": ["a"], "commit": null,
    });
    check_json(&made, &expected);
    let id = made["checkpoint"].as_str().unwrap();
    let listed = workspace(&enjamb, &["list", "--json"]).document();
    let expected = json!({
        "schema": "enjamb.cli.workspace_list/1",
        "checkpoints": [{
            "checkpoint": id, "label": "", "created_at": "[..]", "auto": false, "tool": null, "workspace": "[..]/w",
            "manifest": "art-[..]", "changed": 1, "stream": "session/workspace-[..]", "seq": 0,
        }],
    });
    check_json(&listed, &expected);
    write(&enjamb, "a", "changed");
    let file = |bytes| json!({"kind": "file", "mode": "644", "bytes": bytes, "artifact": "[..]"});
    let change = |from, to| json!({"path": "a", "what": "changed", "from": file(from), "to": file(to)});
    let diff = workspace(&enjamb, &["diff", "--json"]).exits(1).document();
    let expected = json!({
        "schema": "enjamb.cli.workspace_diff/1", "from": id, "to": null, "changes": [change(4, 7)],
    });
    check_json(&diff, &expected);
    let rewound = workspace(&enjamb, &["rewind", id, "--yes", "--json"]).document();
    let expected = json!({
        "schema": "enjamb.cli.workspace_rewind/1", "dry_run": false, "checkpoint": id, "saved": "[..]",
        "changes": [change(7, 4)],
    });
    check_json(&rewound, &expected);
}

#[test]
fn what_cannot_be_meant_is_refused_with_a_code() {
    let enjamb = Enjamb::with_store();
    write(&enjamb, "a", "one\n");
    let code = |arguments: &[&str]| {
        let answer = workspace(&enjamb, &[arguments, &["--json"]].concat());
        (answer.exit.unwrap_or(-1), answer.problem()["code"].as_str().unwrap_or_default().to_owned())
    };
    let is = |exit: i32, code: &str| (exit, code.to_owned());
    assert_eq!(code(&["diff"]), is(3, "not-found"), "there is no checkpoint");
    assert_eq!(code(&["rewind", "feedbeef", "--yes"]), is(3, "not-found"));
    assert_eq!(code(&["rewind", "--continue", "--yes"]), is(5, "no-interrupted-rewind"));
    let id = checkpoint(&enjamb, "first");
    assert_eq!(code(&["checkpoint", "--also", "../x"]), is(2, "outside-workspace"));
    let absolute = ["rewind", &id, "--yes", "--json", "--", "/etc/passwd"];
    assert_eq!(workspace(&enjamb, &absolute).exits(2).problem()["code"], "outside-workspace");
    assert_eq!(code(&["checkpoint", "--root", "absent"]), is(3, "file-error"));
    assert_eq!(code(&["checkpoint", "--root", "a"]), is(2, "not-a-directory"));
    assert_eq!(enjamb.run(&["workspace", "checkpoint", "--json"]).exits(2).problem()["code"], "workspace-too-wide");
    assert_eq!(workspace(&enjamb, &["list"]).done().out().lines().count(), 1, "none of these left anything behind");
}

#[test]
fn a_checkpoint_made_elsewhere_has_no_files_here() {
    let enjamb = Enjamb::with_store();
    write(&enjamb, "a", "one\n");
    let frame = r#"{"type":"checkpoint_created","checkpoint_id":"theirs-1","label":"x","created_at_ms":1,"files":["a"],"auto":false,"tool_name":null}"#;
    enjamb.append("session/theirs", frame);
    let answer = workspace(&enjamb, &["rewind", "theirs-1", "--yes"]).exits(2);
    check(&answer.err(), "error: workspace checkpoint theirs-1 was made elsewhere, and its files are not here\n");
}

/// Kills a rewind after a while. Whether it was cut short.
fn killed_rewind(enjamb: &Enjamb, id: &str, after: Duration) -> bool {
    let mut command = enjamb.command(&["workspace", "rewind", id, "--yes"]);
    command.current_dir(enjamb.home().join("w")).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    thread::sleep(after);
    child.kill().unwrap();
    finish(child).exit.is_none()
}

#[test]
fn a_rewind_that_was_killed_goes_on_or_back() {
    const FILES: usize = 300;
    let enjamb = Enjamb::new();
    let fill =
        |text: &str| (0..FILES).for_each(|n| write(&enjamb, &format!("d{}/f{n}", n % 7), &format!("{text} {n}")));
    let state = || (0..FILES).map(|n| read(&enjamb, &format!("d{}/f{n}", n % 7))).collect::<Vec<_>>();
    fill("one");
    let (first, one) = (checkpoint(&enjamb, "one"), state());
    fill("two");
    let two = state();
    checkpoint(&enjamb, "two");
    for (round, way) in ["--continue", "--undo", "--continue", "--undo", "--continue"].iter().enumerate() {
        fill("two");
        killed_rewind(&enjamb, &first, Duration::from_millis(30 + 60 * round as u64));
        let answer = workspace(&enjamb, &["rewind", way, "--yes"]);
        let now = state();
        // It was killed before it began, or after it had ended: then files are of one state, and nothing is open.
        if answer.exit == Some(5) {
            assert!(now == one || now == two, "round {round}");
            continue;
        }
        let answer = answer.done();
        assert!(now == if *way == "--continue" { one.clone() } else { two.clone() }, "round {round}: {}", answer.out());
        workspace(&enjamb, &["checkpoint"]).done();
    }
}

fn git(enjamb: &Enjamb, arguments: &[&str]) -> String {
    let mut command = Command::new("git");
    enjamb.settle(&mut command);
    command.args(["-c", "user.name=n", "-c", "user.email=n@example.org", "-C"]).arg(enjamb.home().join("w"));
    command.args(arguments);
    answer(command, b"").done().out()
}

#[test]
fn a_fork_with_a_worktree_has_the_files_too() {
    let enjamb = Enjamb::with_store();
    write(&enjamb, "a", "committed\n");
    git(&enjamb, &["init", "-q"]);
    git(&enjamb, &["add", "a"]);
    git(&enjamb, &["commit", "-q", "-m", "one"]);
    write(&enjamb, "a", "edited\n");
    write(&enjamb, "untracked", "u\n");
    let delta = enjamb.file("delta", "{\"role\":\"user\",\"content\":\"hi\"}\n");
    let commit = enjamb.run(&["checkpoint", &delta, "--format", "generic-v1"]).done().line();
    let problem = enjamb.run(&["fork", &commit, "-n", "x", "--worktree", "wt", "--json"]).exits(3).problem();
    assert_eq!(problem["code"], "no-workspace-checkpoint");
    let id = workspace(&enjamb, &["checkpoint", "--commit", &commit]).done().line();
    assert_eq!(enjamb.json(&["show", &commit])["tags"], json!([format!("workspace:{id}")]));
    write(&enjamb, "a", "edited since\n");
    let forked = enjamb.json(&["fork", &commit, "-n", "x", "--worktree", "wt"]);
    let head = git(&enjamb, &["rev-parse", "HEAD"]).trim().to_owned();
    let expected = json!({
        "schema": "enjamb.cli.fork/1", "name": "x", "commit": commit, "previous": null, "worktree": "[..]/wt",
        "checkpoint": id, "git": head, "files": 2,
    });
    check_json(&forked, &expected);
    let of = |name: &str| fs::read_to_string(enjamb.home().join("wt").join(name)).unwrap();
    assert_eq!((of("a"), of("untracked")), ("edited\n".into(), "u\n".into()));
    assert_eq!(read(&enjamb, "a"), "edited since\n", "the workspace itself is left alone");
    assert!(git(&enjamb, &["worktree", "list"]).contains("/wt "));
    check(&enjamb.run(&["refs"]).done().out(), &format!("x\t{commit}\n"));
    assert_eq!(
        enjamb.run(&["fork", &commit, "-n", "x", "--worktree", "wt2", "--json"]).exits(5).problem()["code"],
        "ref-moved"
    );
    assert_eq!(
        enjamb.run(&["fork", &commit, "-n", "y", "--worktree", "wt", "--json"]).exits(5).problem()["code"],
        "file-error"
    );
    assert!(!enjamb.home().join("wt2").exists(), "what is refused leaves nothing");
}

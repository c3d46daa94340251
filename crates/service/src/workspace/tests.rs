//! Checkpoints and rewinds of real directories.

mod rewinding;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use enjamb_ledger::Ledger;
use enjamb_testkit::home::Home;

use super::*;
use crate::Env;

/// A store, and a workspace beside it.
pub(super) struct Desk {
    home: Home,
    pub store: Store,
}

impl Desk {
    pub fn new() -> Self {
        let home = Home::new();
        fs::create_dir(home.path().join("w")).unwrap();
        let store = Store::create(&home.store(), Env::system()).unwrap();
        Self { home, store }
    }

    pub fn root(&self) -> PathBuf {
        self.home.path().join("w")
    }

    pub fn write(&self, name: &str, text: impl AsRef<[u8]>) {
        let path = self.root().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    pub fn request(&self, label: &str) -> WorkspaceCheckpoint {
        WorkspaceCheckpoint { root: self.root(), label: label.into(), ..WorkspaceCheckpoint::default() }
    }

    pub fn save(&self, label: &str) -> WorkspaceCheckpointed {
        self.store.workspace_checkpoint(&self.request(label), &Actor::default()).unwrap()
    }

    pub fn rewind(&self, to: RewindTo) -> Result<Rewound> {
        let request = Rewind { root: self.root(), to, paths: Vec::new() };
        self.store.rewind(&request, &Actor::default(), &mut |_, _| Ok(()))
    }

    pub fn rewind_to(&self, id: &str) -> Rewound {
        self.rewind(RewindTo::Checkpoint(id.into())).unwrap()
    }

    /// Everything that is in the workspace, in a form that can be compared.
    pub fn state(&self) -> BTreeMap<Vec<u8>, String> {
        let mut all = BTreeMap::new();
        look(&self.root(), &self.root(), &mut all);
        all
    }
}

fn look(root: &Path, dir: &Path, all: &mut BTreeMap<Vec<u8>, String>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let meta = path.symlink_metadata().unwrap();
        let mode = meta.mode() & 0o7777;
        let what = if meta.is_symlink() {
            format!("-> {:?}", fs::read_link(&path).unwrap())
        } else if meta.is_dir() {
            look(root, &path, all);
            format!("dir {mode:o}")
        } else {
            format!("{mode:o} {:?}", escape(&fs::read(&path).unwrap()))
        };
        all.insert(path.strip_prefix(root).unwrap().as_os_str().as_bytes().to_vec(), what);
    }
}

fn paths(made: &WorkspaceCheckpointed) -> Vec<&str> {
    made.changed.iter().map(String::as_str).collect()
}

#[test]
fn a_checkpoint_tells_what_changed_since_the_one_before() {
    let desk = Desk::new();
    desk.write("a", "1");
    desk.write("d/b", "22");
    symlink("a", desk.root().join("l")).unwrap();
    let first = desk.save("first");
    assert_eq!((paths(&first), first.files, first.bytes), (vec!["a", "d", "d/b", "l"], 3, 4));
    let again = desk.save("again");
    assert_eq!((paths(&again), again.manifest), (vec![], first.manifest), "nothing changed");
    desk.write("d/b", "33");
    fs::remove_file(desk.root().join("a")).unwrap();
    desk.write("c", "new");
    fs::set_permissions(desk.root().join("d"), fs::Permissions::from_mode(0o700)).unwrap();
    assert_eq!(paths(&desk.save("third")), ["a", "c", "d", "d/b"]);
}

#[test]
fn a_write_that_leaves_size_and_times_as_they_were_is_seen() {
    let desk = Desk::new();
    desk.write("a", "one");
    desk.save("first");
    // Written in the same tick as the checkpoint: nothing but the bytes tells.
    desk.write("a", "two");
    let times = fs::metadata(desk.root().join("a")).unwrap();
    fs::File::options()
        .write(true)
        .open(desk.root().join("a"))
        .unwrap()
        .set_modified(times.modified().unwrap())
        .unwrap();
    assert_eq!(paths(&desk.save("second")), ["a"]);
}

#[test]
fn a_file_that_was_not_written_to_is_not_read_again() {
    let desk = Desk::new();
    desk.write("a", "one");
    desk.save("first");
    std::thread::sleep(std::time::Duration::from_millis(40));
    desk.save("settled");
    let root = Root::open(&desk.root()).unwrap();
    let noted = desk.store.noted(&desk.store.workspace_place(&root).unwrap()).unwrap();
    let scan = scan::scan(&root, &Scope::default()).unwrap();
    assert!(noted.entries[0].known(&scan.found[0]).is_some());
    desk.write("a", "two");
    let scan = scan::scan(&root, &Scope::default()).unwrap();
    assert!(noted.entries[0].known(&scan.found[0]).is_none());
}

#[test]
fn what_is_noted_may_be_lost_or_broken() {
    let desk = Desk::new();
    desk.write("a", "one");
    let first = desk.save("first");
    let root = Root::open(&desk.root()).unwrap();
    let stats = desk.store.workspace_place(&root).unwrap().stats();
    fs::write(&stats, "rubbish").unwrap();
    assert_eq!(desk.save("second").manifest, first.manifest);
    fs::remove_file(&stats).unwrap();
    assert_eq!(desk.save("third").manifest, first.manifest);
}

#[test]
fn what_version_control_ignores_is_left_out_unless_asked_for() {
    let desk = Desk::new();
    for name in [".git/config", "a.log", "sub/b.log", "sub/keep.log", "src/x", "build/out"] {
        desk.write(name, name);
    }
    desk.write(".gitignore", "*.log\n/build/\n");
    desk.write("sub/.gitignore", "!keep.log\n");
    let made = desk.save("plain");
    assert_eq!(paths(&made), [".gitignore", "src", "src/x", "sub", "sub/.gitignore", "sub/keep.log"]);
    let named = WorkspaceCheckpoint { also: vec!["build".into(), "a.log".into()], ..desk.request("named") };
    let made = desk.store.workspace_checkpoint(&named, &Actor::default()).unwrap();
    assert_eq!(paths(&made), ["a.log", "build", "build/out"]);
    let all = WorkspaceCheckpoint { ignored: true, ..desk.request("all") };
    let made = desk.store.workspace_checkpoint(&all, &Actor::default()).unwrap();
    assert_eq!(paths(&made), ["sub/b.log"], "never what is in .git");
}

#[test]
fn what_git_tracks_is_kept_though_rules_ignore_it() {
    let desk = Desk::new();
    for name in ["a.log", "b.log", "build/out", "build/other"] {
        desk.write(name, name);
    }
    desk.write(".gitignore", "*.log\n/build/\n");
    let git = |words: &[&str]| {
        let done = std::process::Command::new("git").arg("-C").arg(desk.root()).args(words).output().unwrap();
        assert!(done.status.success(), "{words:?}: {}", String::from_utf8_lossy(&done.stderr));
    };
    git(&["init", "-q"]);
    git(&["add", "-f", "a.log", "build/out", "b.log"]);
    git(&["rm", "-q", "--cached", "b.log"]);
    let first = desk.save("first");
    assert_eq!(paths(&first), [".gitignore", "a.log", "build", "build/out"], "b.log and build/other are not tracked");
    desk.write("a.log", "changed");
    fs::remove_file(desk.root().join("build/out")).unwrap();
    assert_eq!(paths(&desk.save("second")), ["a.log", "build", "build/out"]);
    desk.rewind_to(&first.id);
    let read = |name: &str| fs::read_to_string(desk.root().join(name)).unwrap();
    assert_eq!(
        (read("a.log"), read("build/out"), read("build/other")),
        ("a.log".into(), "build/out".into(), "build/other".into())
    );
    // What is tracked and has become a directory is no file to keep.
    fs::remove_file(desk.root().join("a.log")).unwrap();
    desk.write("a.log/within", "x");
    assert!(!paths(&desk.save("third")).contains(&"a.log/within"));
}

#[test]
fn large_files_and_many_go_to_a_segment() {
    let desk = Desk::new();
    let large: Vec<u8> = (0..3u32 << 20).map(|n| (n.wrapping_mul(2_654_435_761) >> 11) as u8).collect();
    desk.write("large", &large);
    desk.write("twice", &large);
    for n in 0..200 {
        desk.write(&format!("many/{n}"), vec![n as u8; 20_000]);
    }
    let made = desk.save("first");
    fs::remove_dir_all(desk.root()).unwrap();
    fs::create_dir(desk.root()).unwrap();
    desk.write("other", "x");
    desk.rewind_to(&made.id);
    assert_eq!(fs::read(desk.root().join("large")).unwrap(), large);
    assert_eq!(fs::read(desk.root().join("twice")).unwrap(), large);
    assert_eq!(fs::read(desk.root().join("many/7")).unwrap(), vec![7; 20_000]);
    assert!(!desk.root().join("other").exists());
}

#[test]
fn the_frame_goes_to_the_session_that_asked() {
    let desk = Desk::new();
    desk.write("a", "1");
    let request = WorkspaceCheckpoint::before_tool(&desk.root(), "run-1", "write", vec!["a".into()]);
    let made = desk.store.workspace_checkpoint(&request, &Actor::default()).unwrap();
    assert_eq!((made.stream.to_string(), made.seq), ("session/run-1".into(), 0));
    let view = desk.store.workspace_checkpoint_named(&made.id[..8]).unwrap();
    assert_eq!((view.label.as_str(), view.auto, view.tool_name.as_deref()), ("auto:write", true, Some("write")));
    let frames = desk.store.ledger.frames(&made.stream, 0, 9).unwrap();
    let frame = String::from_utf8(frames[0].json.clone()).unwrap();
    assert!(frame.contains(&format!("\"id\":\"{}\"", made.id)), "the frame has the id of the checkpoint: {frame}");
}

#[test]
fn a_checkpoint_that_cannot_be_made_is_told_of_in_its_session() {
    let desk = Desk::new();
    let request = WorkspaceCheckpoint::before_tool(&desk.root(), "run-1", "write", vec!["../x".into()]);
    let error = desk.store.workspace_checkpoint(&request, &Actor::default()).unwrap_err();
    assert_eq!(error.code(), "outside-workspace");
    let frames = desk.store.ledger.frames(&session_stream("run-1").unwrap(), 0, 9).unwrap();
    let frame = String::from_utf8(frames[0].json.clone()).unwrap();
    assert!(frame.contains(r#""type":"checkpoint_failed","action":"create""#), "{frame}");
}

#[test]
fn what_is_named_may_be_the_whole_but_not_a_repositorys_own() {
    let desk = Desk::new();
    desk.write(".gitignore", "*.log\n");
    desk.write("a.log", "1");
    desk.write(".git/config", "x");
    let request = |path: &str| WorkspaceCheckpoint { also: vec![path.into()], ..desk.request("named") };
    for path in [".git", ".git/config", "sub/.GIT/x", "/etc/passwd", ".."] {
        let error = desk.store.workspace_checkpoint(&request(path), &Actor::default()).unwrap_err();
        assert_eq!(error.code(), "outside-workspace", "{path}");
    }
    let made = desk.store.workspace_checkpoint(&request("."), &Actor::default()).unwrap();
    assert_eq!(paths(&made), [".gitignore", "a.log"]);
    desk.rewind_to(&made.id);
}

#[test]
fn checkpoints_made_at_once_are_all_there() {
    let desk = Desk::new();
    desk.write("a", "1");
    std::thread::scope(|scope| {
        for n in 0..6 {
            let desk = &desk;
            scope.spawn(move || desk.save(&n.to_string()));
        }
    });
    assert_eq!(desk.store.workspace_checkpoints(Some(&desk.root()), 9).unwrap().len(), 6);
}

#[test]
fn a_store_within_the_workspace_is_no_part_of_it() {
    let home = Home::new();
    fs::write(home.path().join("a"), "1").unwrap();
    let store = Store::create(&home.store(), Env::system()).unwrap();
    let request = WorkspaceCheckpoint { root: home.path().into(), ignored: true, ..WorkspaceCheckpoint::default() };
    assert_eq!(paths(&store.workspace_checkpoint(&request, &Actor::default()).unwrap()), ["a"]);
}

#[test]
fn what_a_checkpoint_needs_is_not_collected() {
    let desk = Desk::new();
    let by = Actor::default();
    let options = crate::PutOptions { ttl_ms: Some(0), ..crate::PutOptions::default() };
    let put = desk.store.put(&mut &b"one"[..], &options).unwrap();
    desk.write("a", "one");
    desk.save("first");
    assert_eq!(desk.store.policy(&put.id).unwrap().expires_ms(), None, "a checkpoint keeps it for good");
    desk.store.set_policy(&put.id, "ephemeral", Some(0), &by).unwrap();
    std::thread::sleep(std::time::Duration::from_millis(2));
    let plan = desk.store.gc_plan().unwrap();
    assert_eq!((plan.candidates.len(), plan.needed), (0, 1), "and is a reason not to collect it");
}

#[test]
fn checkpoints_are_listed_newest_first_and_by_workspace() {
    let desk = Desk::new();
    desk.write("a", "1");
    let (first, second) = (desk.save("first"), desk.save("second"));
    let other = desk.root().join("sub");
    fs::create_dir(&other).unwrap();
    let request = WorkspaceCheckpoint { root: other.clone(), label: "other".into(), ..WorkspaceCheckpoint::default() };
    desk.store.workspace_checkpoint(&request, &Actor::default()).unwrap();
    let labels = |root: Option<&Path>, limit| -> Vec<String> {
        desk.store.workspace_checkpoints(root, limit).unwrap().into_iter().map(|view| view.label).collect()
    };
    assert_eq!(labels(Some(&desk.root()), 9), ["second", "first"]);
    assert_eq!(labels(Some(&other), 9), ["other"]);
    assert_eq!(labels(None, 9).len(), 3);
    assert_eq!(labels(None, 2).len(), 2);
    let diff = desk.store.workspace_diff(
        desk.store.workspace_checkpoint_named(&first.id).unwrap(),
        Some(desk.store.workspace_checkpoint_named(&second.id).unwrap()),
        &desk.root(),
        &[],
    );
    assert!(diff.unwrap().changes.is_empty());
    assert_eq!(desk.store.workspace_checkpoint_named("feedbeef").unwrap_err().code(), "not-found");
}

/// A name that is no UTF-8.
pub(super) fn odd_name() -> std::ffi::OsString {
    std::ffi::OsString::from_vec(b"odd \xff\n%name".to_vec())
}

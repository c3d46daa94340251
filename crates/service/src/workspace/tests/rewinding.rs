//! Rewinds: exact, also of random trees, and whatever step they are cut short at.

use enjamb_testkit::home::times;
use proptest::prelude::*;
use proptest::sample::select;

use super::*;

#[test]
fn a_rewind_restores_everything_and_can_be_taken_back() {
    let desk = Desk::new();
    desk.write("a", "1");
    desk.write("d/e/b", "22");
    desk.write("gone", "x");
    fs::write(desk.root().join(odd_name()), "odd").unwrap();
    symlink("/etc/passwd", desk.root().join("l")).unwrap();
    fs::create_dir(desk.root().join("empty")).unwrap();
    fs::set_permissions(desk.root().join("a"), fs::Permissions::from_mode(0o751)).unwrap();
    let (before, first) = (desk.state(), desk.save("first"));
    desk.write("a", "changed");
    fs::set_permissions(desk.root().join("a"), fs::Permissions::from_mode(0o600)).unwrap();
    fs::remove_dir_all(desk.root().join("d")).unwrap();
    desk.write("d", "now a file");
    fs::remove_file(desk.root().join("gone")).unwrap();
    desk.write("gone/now/a/dir", "y");
    fs::remove_file(desk.root().join(odd_name())).unwrap();
    fs::remove_dir(desk.root().join("empty")).unwrap();
    desk.write("new/file", "z");
    let after = desk.state();
    let rewound = desk.rewind_to(&first.id);
    assert_eq!(desk.state(), before);
    assert_eq!(rewound.changes.iter().filter(|change| change.what == "removed").count(), 5);
    desk.rewind_to(&rewound.saved.id);
    assert_eq!(desk.state(), after);
    assert!(desk.rewind_to(&rewound.saved.id).changes.is_empty(), "once more is nothing more");
}

#[test]
fn a_plan_changes_nothing_and_says_what_a_rewind_does() {
    let desk = Desk::new();
    desk.write("a", "1");
    desk.write("b", "1");
    let first = desk.save("first");
    desk.write("a", "2");
    desk.write("c", "3");
    let before = desk.state();
    let request = Rewind { root: desk.root(), to: RewindTo::Checkpoint(first.id.clone()), paths: vec![b"a".to_vec()] };
    let plan = desk.store.rewind_plan(&request).unwrap();
    assert_eq!(plan.changes.iter().map(|c| (c.path.as_str(), c.what)).collect::<Vec<_>>(), [("a", "changed")]);
    assert_eq!(desk.state(), before);
    let rewound = desk.store.rewind(&request, &Actor::default(), &mut |_, _| Ok(())).unwrap();
    assert_eq!(rewound.changes, plan.changes);
    assert_eq!(fs::read(desk.root().join("c")).unwrap(), b"3", "only what was named is rewound");
}

#[test]
fn what_is_ignored_is_neither_lost_nor_touched() {
    let desk = Desk::new();
    desk.write(".gitignore", "*.log\n");
    desk.write("a", "1");
    desk.write("then.log", "ignored then");
    let first = desk.save("first");
    desk.write(".gitignore", "a\nsub/\n");
    desk.write("a", "ignored now");
    desk.write("sub/x", "in the way of nothing");
    let rewound = desk.rewind_to(&first.id);
    assert_eq!(fs::read(desk.root().join("a")).unwrap(), b"1");
    assert_eq!(fs::read(desk.root().join("then.log")).unwrap(), b"ignored then", "it was there then");
    assert_eq!(fs::read(desk.root().join("sub/x")).unwrap(), b"in the way of nothing");
    desk.rewind_to(&rewound.saved.id);
    assert_eq!(fs::read(desk.root().join("a")).unwrap(), b"ignored now", "what was written over was kept");
}

#[test]
fn a_directory_of_ignored_files_in_the_way_is_kept_first() {
    let desk = Desk::new();
    desk.write("out", "a file");
    let first = desk.save("first");
    fs::remove_file(desk.root().join("out")).unwrap();
    desk.write(".gitignore", "out/\n");
    desk.write("out/deep/x", "ignored");
    let rewound = desk.rewind_to(&first.id);
    assert_eq!(fs::read(desk.root().join("out")).unwrap(), b"a file");
    desk.rewind_to(&rewound.saved.id);
    assert_eq!(fs::read(desk.root().join("out/deep/x")).unwrap(), b"ignored");
}

#[test]
fn links_are_restored_and_never_followed() {
    let desk = Desk::new();
    let outside = desk.home.path().join("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("x"), "theirs").unwrap();
    desk.write("d/x", "ours");
    let first = desk.save("first");
    fs::remove_dir_all(desk.root().join("d")).unwrap();
    symlink(&outside, desk.root().join("d")).unwrap();
    let rewound = desk.rewind_to(&first.id);
    assert_eq!(fs::read(desk.root().join("d/x")).unwrap(), b"ours");
    assert_eq!(fs::read(outside.join("x")).unwrap(), b"theirs");
    desk.rewind_to(&rewound.saved.id);
    assert_eq!(fs::read_link(desk.root().join("d")).unwrap(), outside);
    assert_eq!(fs::read(outside.join("x")).unwrap(), b"theirs");
}

#[test]
fn a_tree_that_leads_out_is_refused_before_anything_is_touched() {
    let desk = Desk::new();
    desk.write("a", "1");
    let by = Actor::default();
    let put = |bytes: &[u8]| desk.store.put(&mut &bytes[..], &crate::PutOptions::default()).unwrap().id;
    let file = put(b"evil");
    let tree = put(format!("enjamb tree 1\nf 644 4 {} ..%2fescaped\n", file.to_hex()).as_bytes());
    let manifest = Manifest::new("/w".into(), tree.digest(), (1, 4), false, None);
    let manifest = put(&manifest.to_json());
    let frame = serde_json::json!({
        "type": "checkpoint_created", "checkpoint_id": "evil-checkpoint", "label": "x", "created_at_ms": 1, "files": [],
        "auto": false, "tool_name": null, "workspace": "/w", "manifest_artifact_id": manifest.to_hex(),
    });
    let line = crate::DraftLine { line: 1, json: frame.to_string().into_bytes() };
    let stream = Some(session_stream("s").unwrap());
    desk.store.append(crate::Append { lines: vec![line], stream, ..crate::Append::default() }).unwrap();
    let request = Rewind { root: desk.root(), to: RewindTo::Checkpoint("evil-checkpoint".into()), paths: Vec::new() };
    let error = desk.store.rewind(&request, &by, &mut |_, _| Ok(())).unwrap_err();
    assert_eq!(error.code(), "checkpoint-damaged");
    assert!(error.to_string().contains("leads elsewhere"), "{error}");
    assert_eq!(desk.state().len(), 1);
    assert!(!desk.home.path().join("escaped").exists());
}

#[test]
fn what_somebody_writes_meanwhile_is_not_lost() {
    let desk = Desk::new();
    desk.write("a", "1");
    let first = desk.save("first");
    desk.write("a", "2");
    let request = Rewind { root: desk.root(), to: RewindTo::Checkpoint(first.id.clone()), paths: Vec::new() };
    let error = desk.store.rewind(&request, &Actor::default(), &mut |done, _| {
        if done == 2 {
            desk.write("a", "written meanwhile");
        }
        Ok(())
    });
    assert_eq!(error.unwrap_err().code(), "workspace-changed");
    assert_eq!(fs::read(desk.root().join("a")).unwrap(), b"written meanwhile");
    let rewound = desk.rewind(RewindTo::Continue).unwrap();
    assert_eq!(fs::read(desk.root().join("a")).unwrap(), b"1");
    desk.rewind_to(&rewound.saved.id);
    assert_eq!(fs::read(desk.root().join("a")).unwrap(), b"written meanwhile");
}

/// A workspace with something of every kind to change, before and after.
fn two_states(desk: &Desk) -> (String, BTreeMap<Vec<u8>, String>) {
    desk.write("a", "1");
    desk.write("d/b", "22");
    desk.write("file-then-dir", "x");
    symlink("a", desk.root().join("l")).unwrap();
    let (first, before) = (desk.save("first"), desk.state());
    desk.write("a", "2");
    fs::remove_dir_all(desk.root().join("d")).unwrap();
    fs::remove_file(desk.root().join("file-then-dir")).unwrap();
    desk.write("file-then-dir/y", "y");
    fs::remove_file(desk.root().join("l")).unwrap();
    symlink("b", desk.root().join("l")).unwrap();
    desk.write("new", "n");
    (first.id, before)
}

/// Cuts a rewind short at a step. `None` when it has no such step.
fn cut_short(desk: &Desk, first: &str, at: u64) -> Option<()> {
    let request = Rewind { root: desk.root(), to: RewindTo::Checkpoint(first.to_owned()), paths: Vec::new() };
    let died = || ServiceError::File { path: "the power".into(), source: std::io::ErrorKind::Interrupted.into() };
    let result =
        desk.store.rewind(&request, &Actor::default(), &mut |done, _| if done == at { Err(died()) } else { Ok(()) });
    result.err().map(|error| assert!(error.to_string().contains("the power"), "{error}"))
}

#[test]
fn a_rewind_cut_short_anywhere_goes_on_or_back() {
    for way in [RewindTo::Continue, RewindTo::Undo] {
        let mut at = 1;
        loop {
            let desk = Desk::new();
            let (first, before) = two_states(&desk);
            let after = desk.state();
            if cut_short(&desk, &first, at).is_none() {
                break;
            }
            let refused = desk.store.workspace_checkpoint(&desk.request("no"), &Actor::default()).unwrap_err();
            assert_eq!(refused.code(), "rewind-interrupted");
            let expected = if way == RewindTo::Continue { before } else { after };
            desk.rewind(way.clone()).unwrap();
            assert_eq!(desk.state(), expected, "{way:?} after step {at}");
            assert_eq!(desk.rewind(way.clone()).unwrap_err().code(), "no-interrupted-rewind");
            desk.save("all is well");
            at += 1;
        }
        assert!(at > 10, "only {at} steps");
    }
}

/// What may stand at a path.
#[derive(Clone, Debug)]
enum Thing {
    File(Vec<u8>, u32),
    Link(Vec<u8>),
    Dir(u32),
}

fn names() -> impl Strategy<Value = Vec<u8>> {
    const NAMES: &[&[u8]] = &[
        b"a",
        b"b",
        b"a-b",
        b"a.b",
        "žluť".as_bytes(),
        "e\u{301}".as_bytes(),
        b"sp ace",
        b"\xff\xfe",
        b"new\nline",
        b"%25",
    ];
    select(NAMES).prop_map(<[u8]>::to_vec)
}

fn things() -> impl Strategy<Value = Thing> {
    let bytes = prop::collection::vec(any::<u8>(), 0..200);
    prop_oneof![
        4 => (bytes, 0o400..0o1000u32).prop_map(|(bytes, mode)| Thing::File(bytes, mode)),
        1 => names().prop_map(Thing::Link),
        1 => (0o700..0o1000u32).prop_map(Thing::Dir),
    ]
}

type Tree = Vec<(Vec<Vec<u8>>, Thing)>;

fn trees() -> impl Strategy<Value = Tree> {
    prop::collection::vec((prop::collection::vec(names(), 1..4), things()), 0..14)
}

/// Makes the workspace what a tree says; whatever is in the way of what comes later goes.
fn lay_out(root: &Path, tree: &Tree) {
    for (names, thing) in tree {
        let mut path = root.to_owned();
        for name in &names[..names.len() - 1] {
            path.push(std::ffi::OsStr::from_bytes(name));
            if !path.symlink_metadata().is_ok_and(|meta| meta.is_dir()) {
                let _ = fs::remove_file(&path);
                fs::create_dir(&path).unwrap();
            }
        }
        path.push(std::ffi::OsStr::from_bytes(&names[names.len() - 1]));
        if path.symlink_metadata().is_ok_and(|meta| meta.is_dir()) {
            fs::remove_dir_all(&path).unwrap();
        } else {
            let _ = fs::remove_file(&path);
        }
        let mode = |mode: u32| fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        match thing {
            Thing::File(bytes, bits) => {
                fs::write(&path, bytes).unwrap();
                mode(*bits);
            }
            Thing::Link(target) => symlink(std::ffi::OsStr::from_bytes(target), &path).unwrap(),
            Thing::Dir(bits) => {
                fs::create_dir(&path).unwrap();
                mode(*bits);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: times(60) as u32, ..ProptestConfig::default() })]

    #[test]
    fn any_tree_is_restored_from_any_other(first in trees(), second in trees(), cut in 0u64..40, fresh in any::<bool>()) {
        let desk = Desk::new();
        lay_out(&desk.root(), &first);
        let (one, state_one) = (desk.save("one"), desk.state());
        if fresh {
            fs::remove_dir_all(desk.root()).unwrap();
            fs::create_dir(desk.root()).unwrap();
        }
        lay_out(&desk.root(), &second);
        let (two, state_two) = (desk.save("two"), desk.state());
        desk.rewind_to(&one.id);
        prop_assert_eq!(desk.state(), state_one.clone());
        desk.rewind_to(&two.id);
        prop_assert_eq!(desk.state(), state_two.clone());
        if cut_short(&desk, &one.id, cut).is_some() {
            let way = if cut % 2 == 0 { RewindTo::Continue } else { RewindTo::Undo };
            let expected = if cut % 2 == 0 { state_one } else { state_two };
            desk.rewind(way).unwrap();
            prop_assert_eq!(desk.state(), expected);
        }
    }
}

//! Laws of names, trees and changes.

use proptest::collection::{btree_map, vec};
use proptest::prelude::*;

use super::*;

fn node(kind: NodeKind, word: &str) -> Node {
    Node { kind, mode: 0o644, size: word.len() as u64, id: Digest::of(word.as_bytes()) }
}

/// A listing from `path kind word`, one a line.
fn listing(text: &str) -> Vec<Item> {
    let item = |line: &str| {
        let mut words = line.split(' ');
        let path = words.next().unwrap().as_bytes().to_vec();
        let kind = match words.next().unwrap() {
            "f" => NodeKind::File,
            "l" => NodeKind::Link,
            _ => NodeKind::Dir,
        };
        Item { path, node: node(kind, words.next().unwrap_or_default()) }
    };
    let mut items: Vec<_> = text.split("; ").filter(|line| !line.is_empty()).map(item).collect();
    items.sort_by(|a, b| order(&a.path, &b.path));
    items
}

#[test]
fn a_directory_comes_right_before_what_is_in_it() {
    let items = listing("a d; a-b f x; a/b f y; a.c f z; b f w");
    let paths: Vec<_> = items.iter().map(|item| escape(&item.path)).collect();
    assert_eq!(paths, ["a", "a/b", "a-b", "a.c", "b"]);
}

#[test]
fn trees_name_what_directories_hold() {
    let mut items = listing("a d; a/b f y; c l t");
    let trees = forest(&mut items);
    let paths: Vec<_> = trees.iter().map(|tree| escape(&tree.path)).collect();
    assert_eq!(paths, ["a", ""]);
    let root = String::from_utf8(trees[1].bytes.clone()).unwrap();
    let (a, c) = (trees[0].id, Digest::of(b"t"));
    assert_eq!(root, format!("enjamb tree 1\nd 644 0 {a} a\nl 644 1 {c} c\n"));
    assert_eq!(items[0].node.id, a, "the directory has the id of its tree");
}

#[test]
fn what_leads_out_of_a_tree_is_refused() {
    let id = Digest::ZERO;
    for (name, fault) in [
        ("..", "leads elsewhere"),
        (".", "leads elsewhere"),
        ("a/b", "leads elsewhere"),
        ("%2e%2e", "leads elsewhere"),
        ("a%00b", "leads elsewhere"),
        ("", "is empty"),
        (".git", "belongs to a repository"),
        (".GIT", "belongs to a repository"),
        (&"x".repeat(256), "is longer than 255 bytes"),
    ] {
        let text = format!("enjamb tree 1\nf 644 0 {id} {name}\n");
        let error = decode_tree(text.as_bytes()).unwrap_err().to_string();
        assert_eq!(error, format!("the name in line 2 {fault}"), "{name}");
    }
}

#[test]
fn what_is_no_tree_is_refused() {
    let id = Digest::ZERO;
    for (text, problem) in [
        ("", "it does not begin with"),
        ("enjamb tree 2\n", "it does not begin with"),
        ("enjamb tree 1\nf 644 0 abc a\n", "line 2 is not"),
        ("enjamb tree 1\ns 644 0 {id} a\n", "line 2 is not"),
        ("enjamb tree 1\nf 20000 0 {id} a\n", "line 2 is not"),
        ("enjamb tree 1\nf 644 0 {id} a%\n", "line 2 is not"),
        ("enjamb tree 1\nf 644 0 {id} b\nf 644 0 {id} a\n", "line 3 does not follow"),
        ("enjamb tree 1\nf 644 0 {id} a\nf 644 0 {id} a\n", "line 3 does not follow"),
    ] {
        let text = text.replace("{id}", &id.to_hex());
        let error = decode_tree(text.as_bytes()).unwrap_err().to_string();
        assert!(error.contains(problem), "{text}: {error}");
    }
}

#[test]
fn changes_say_what_comes_and_goes() {
    let from = listing("a d; a/b f old; gone f x; same f y");
    let to = listing("a d; a/b f new; come f z; same f y");
    let shown: Vec<_> = changes(&from, &to)
        .iter()
        .map(|change| format!("{} {}{}", escape(&change.path), change.from.is_some() as u8, change.to.is_some() as u8))
        .collect();
    assert_eq!(shown, ["a/b 11", "come 01", "gone 10"]);
}

fn names() -> impl Strategy<Value = Vec<u8>> {
    vec(any::<u8>(), 1..12).prop_filter("a name", |name| check_name(name).is_ok())
}

fn nodes() -> impl Strategy<Value = Node> {
    (any::<u64>(), 0..0o10000u32, any::<[u8; 32]>(), any::<bool>()).prop_map(|(size, mode, id, link)| Node {
        kind: if link { NodeKind::Link } else { NodeKind::File },
        mode,
        size,
        id: Digest::from_bytes(id),
    })
}

proptest! {
    #[test]
    fn names_are_read_back_as_written(name in vec(any::<u8>(), 0..40)) {
        let text = escape(&name);
        prop_assert!(!text.contains(char::is_control));
        prop_assert_eq!(unescape(&text), Some(name));
    }

    #[test]
    fn trees_are_read_back_as_written(entries in btree_map(names(), nodes(), 0..20)) {
        let mut items: Vec<_> =
            entries.iter().map(|(name, node)| Item { path: name.clone(), node: *node }).collect();
        let trees = forest(&mut items);
        let read = decode_tree(&trees.last().unwrap().bytes).unwrap();
        let read: Vec<_> = read.into_iter().map(|entry| (entry.name, entry.node)).collect();
        prop_assert_eq!(read, entries.into_iter().collect::<Vec<_>>());
    }
}

//! The law of importing: however a file comes to be what it is, it is given back as it is, and read no more than it has to.

use std::fs;
use std::path::Path;

use enjamb_ledger::Ledger;
use enjamb_testkit::home::Home;

use super::importer::RETRIES_MAX;
use super::*;
use crate::Env;

/// Numbers that look random and are the same in every run.
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % end.max(1)
    }

    /// A line as files have them: a prompt, an answer, a compaction, a line that is long, or none at all.
    fn line(&mut self) -> Vec<u8> {
        let (n, parent) = (self.below(1 << 20), self.below(1 << 20));
        let long = "x".repeat(self.below(9_000));
        let line = match self.below(8) {
            0 | 1 => {
                format!(r#"{{"type":"user","uuid":"{n}","parentUuid":"{parent}","message":{{"content":"ask {n}"}}}}"#)
            }
            2 | 3 => format!(r#"{{"type":"assistant","uuid":"{n}","message":{{"id":"m{n}","content":"{long}"}}}}"#),
            4 => format!(r#"{{"type":"system","subtype":"compact_boundary","uuid":"{n}"}}"#),
            5 => format!(r#"{{"type":"user","isCompactSummary":true,"message":{{"content":"so {n}"}}}}"#),
            6 => "\u{0}\u{0}{ not json \r".to_owned(),
            _ => String::new(),
        };
        [line.as_bytes(), b"\n"].concat()
    }

    /// Changes a file as runtimes, people and crashes do.
    fn change(&mut self, bytes: &mut Vec<u8>) {
        let at = self.below(bytes.len() + 1);
        match self.below(8) {
            0 => bytes.truncate(at),
            1 => bytes.splice(at..at, b"\xff\xfe".iter().copied()).for_each(drop),
            2 => bytes.retain(|byte| *byte != b'7'),
            _ => {
                let lines = self.below(30);
                (0..lines).for_each(|_| bytes.extend(self.line()));
                let torn = self.below(3) * self.below(40);
                bytes.truncate(bytes.len().saturating_sub(torn));
            }
        }
    }
}

/// Bounds so small that every one of them is met.
const SMALL: ImportBounds = ImportBounds { window_bytes: 4_096, group_frames: 20 };

fn options(bounds: ImportBounds) -> ImportOptions {
    ImportOptions { principal: "p".into(), machine: None, by: Actor::default(), bounds, started: None }
}

fn import(store: &Store, path: &Path, bounds: ImportBounds) -> Imported {
    store.import(files_in(path).unwrap(), &options(bounds), &mut |_, _, _| {}).unwrap()
}

fn exported(store: &Store, path: &Path) -> Vec<u8> {
    let mut bytes = Vec::new();
    let source = store.source_at(path).unwrap();
    let collect = &mut |part: &[u8]| {
        bytes.extend_from_slice(part);
        Ok(())
    };
    store.export(&source, collect).unwrap();
    bytes
}

fn commits(store: &Store, path: &Path) -> Vec<String> {
    store.source_at(path).unwrap().parts.iter().map(|part| part.commit.to_string()).collect()
}

#[test]
fn a_file_that_changes_in_any_way_is_always_given_back() {
    for seed in 0..4 {
        let home = Home::new();
        let store = Store::create(&home.store(), Env::system()).unwrap();
        let (path, mut dice, mut bytes) = (home.path().join("s.jsonl"), Dice(seed), b"{\"sessionId\":1}\n".to_vec());
        for round in 0..20 {
            dice.change(&mut bytes);
            fs::write(&path, &bytes).unwrap();
            import(&store, &path, SMALL);
            assert!(exported(&store, &path) == bytes, "seed {seed}, round {round}");
            let position = store.ledger().position().unwrap();
            import(&store, &path, SMALL);
            assert_eq!(store.ledger().position().unwrap(), position, "seed {seed}, round {round}: nothing is new");
        }
        store.rebuild_index().unwrap();
        assert!(exported(&store, &path) == bytes, "seed {seed}");
        assert_eq!(store.verify(false, &mut |_, _| {}).unwrap().findings, []);
    }
}

#[test]
fn an_import_that_is_broken_off_anywhere_goes_on_to_the_same_commits() {
    let home = Home::new();
    let path = home.path().join("s.jsonl");
    let mut dice = Dice(7);
    let bytes: Vec<u8> = (0..1_200).flat_map(|_| dice.line()).collect();
    fs::write(&path, [&b"{\"sessionId\":1}\n"[..], &bytes].concat()).unwrap();
    let whole = Store::create(&home.store_named("a"), Env::system()).unwrap();
    import(&whole, &path, SMALL);
    assert!(whole.status(0).unwrap().disk.segments > 0, "it is large enough for a segment");
    let broken = Store::create(&home.store_named("b"), Env::system()).unwrap();
    let mut times = 0;
    while !break_off(&broken, &path, 20 + times) {
        times += 1;
    }
    assert!(times > 5, "it was broken off {times} times");
    assert_eq!(commits(&broken, &path), commits(&whole, &path));
    assert!(exported(&broken, &path) == fs::read(&path).unwrap());
}

#[test]
fn what_another_group_of_the_same_import_has_is_not_stored_again() {
    let home = Home::new();
    let mut dice = Dice(3);
    let image: String = (0..1_500_000).map(|_| char::from(b'A' + dice.below(26) as u8)).collect();
    fs::create_dir(home.path().join("all")).unwrap();
    for n in 0..6 {
        let line = format!(r#"{{"type":"user","uuid":"{n}","sessionId":"{n}","message":{{"content":"{n} {image}"}}}}"#);
        fs::write(home.path().join(format!("all/{n}.jsonl")), line + "\n").unwrap();
    }
    let store = Store::create(&home.store(), Env::system()).unwrap();
    import(&store, &home.path().join("all"), ImportBounds { window_bytes: 8 << 20, group_frames: 1 });
    let stored = store.status(0).unwrap().disk.segments;
    assert!((500_000..2_000_000).contains(&stored), "six times the same, in six groups: {stored}");
    for n in 0..6 {
        let path = home.path().join(format!("all/{n}.jsonl"));
        assert!(exported(&store, &path) == fs::read(&path).unwrap(), "{n}");
    }
    store.gc_run(&Actor::default(), &mut |_, _| {}).unwrap();
    assert_eq!(store.verify(false, &mut |_, _| {}).unwrap().findings, []);
}

#[test]
fn what_the_group_before_is_about_to_store_is_known() {
    let home = Home::new();
    let mut dice = Dice(5);
    let lines: Vec<u8> = (0..400).flat_map(|_| dice.line()).collect();
    fs::create_dir(home.path().join("all")).unwrap();
    for n in 0..12 {
        let path = home.path().join(format!("all/{n}.jsonl"));
        fs::write(&path, &lines).unwrap();
        // Lines that bear no time are taken to be as old as their file.
        let long_ago = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_700_000_000);
        fs::File::options().write(true).open(&path).unwrap().set_modified(long_ago).unwrap();
    }
    let store = Store::create(&home.store(), Env::system()).unwrap();
    let report = import(&store, &home.path().join("all"), ImportBounds { window_bytes: 8 << 20, group_frames: 1 });
    assert!(report.commits > 50, "{} commits", report.commits);
    assert_eq!(report.known, 11 * report.commits, "eleven are copies of the first");
    for n in 0..12 {
        assert!(exported(&store, &home.path().join(format!("all/{n}.jsonl"))) == lines, "{n}");
    }
}

/// Later groups count on what segments of earlier ones hold, wherever `maintain` has put it by then.
#[test]
fn what_is_maintained_while_an_import_goes_on_is_there_for_the_rest_of_it() {
    let home = Home::new();
    let all = home.path().join("all");
    fs::create_dir(&all).unwrap();
    let mut dice = Dice(17);
    let common: Vec<u8> = (0..600).flat_map(|_| dice.line()).collect();
    let whole: Vec<Vec<u8>> = (0..6).map(|_| [dice.line(), common.clone(), dice.line()].concat()).collect();
    for (n, bytes) in whole.iter().enumerate() {
        fs::write(all.join(format!("{n}.jsonl")), bytes).unwrap();
    }
    let store = Store::create(&home.store(), Env::system()).unwrap();
    let bounds = ImportBounds { window_bytes: 1 << 20, group_frames: 1 };
    let mut seen = 0;
    let mut progress = |_: &Path, _, _| {
        seen += 1;
        // In a database that has no place for segments there is nothing to maintain.
        let swept = store.maintain(&mut |_, _| {}).map_or(None, |done| done.swept_bytes);
        assert_eq!(swept.unwrap_or_default(), 0, "what an import counts on is nobody's to sweep");
    };
    let report = store.import(files_in(&all).unwrap(), &options(bounds), &mut progress).unwrap();
    assert!(report.failed.is_empty() && seen >= 6, "{seen} times, {:?}", report.failed);
    let _ = store.maintain(&mut |_, _| {});
    for (n, bytes) in whole.iter().enumerate() {
        assert!(exported(&store, &all.join(format!("{n}.jsonl"))) == *bytes, "{n}");
    }
    assert_eq!(store.verify(false, &mut |_, _| {}).unwrap().findings, []);
}

#[test]
fn two_who_import_the_same_at_once_end_with_one_of_each() {
    let home = Home::new();
    let all = home.path().join("all");
    fs::create_dir(&all).unwrap();
    let mut dice = Dice(11);
    let mut whole = Vec::new();
    // One of them begins again for each file at most, and not more often than it may.
    for n in 0..RETRIES_MAX - 1 {
        let lines: Vec<u8> = (0..200).flat_map(|_| dice.line()).collect();
        fs::write(all.join(format!("{n}.jsonl")), &lines).unwrap();
        whole.push(lines);
    }
    let store = Store::create(&home.store(), Env::system()).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| import(&store, &all, ImportBounds { window_bytes: 1 << 20, group_frames: 50 }));
        }
    });
    for (n, lines) in whole.iter().enumerate() {
        assert!(exported(&store, &all.join(format!("{n}.jsonl"))) == *lines, "{n}");
    }
    assert_eq!(store.verify(false, &mut |_, _| {}).unwrap().findings, []);
}

#[test]
fn an_import_that_gets_on_may_lose_any_number_of_races() {
    let home = Home::new();
    let all = home.path().join("all");
    fs::create_dir(&all).unwrap();
    let mut dice = Dice(13);
    for n in 0..2 * (RETRIES_MAX + 2) {
        let lines: Vec<u8> = (0..40).flat_map(|_| dice.line()).collect();
        fs::write(all.join(format!("{n}.jsonl")), lines).unwrap();
    }
    let store = Store::create(&home.store(), Env::system()).unwrap();
    let bounds = ImportBounds { window_bytes: 1 << 20, group_frames: 1 };
    let mut seen = Vec::new();
    // Every second file is imported by somebody else while it is read.
    let mut progress = |path: &Path, _, _| {
        if !seen.iter().any(|before| before == path) {
            seen.push(path.to_owned());
            if seen.len().is_multiple_of(2) {
                import(&store, path, bounds);
            }
        }
    };
    let report = store.import(files_in(&all).unwrap(), &options(bounds), &mut progress).unwrap();
    assert_eq!(seen.len(), 2 * (RETRIES_MAX + 2));
    assert!(report.failed.is_empty(), "{:?}", report.failed);
    for path in seen {
        assert!(exported(&store, &path) == fs::read(&path).unwrap(), "{}", path.display());
    }
}

/// Imports until so many windows were read, as if the process had ended there; true if all was done before.
fn break_off(store: &Store, path: &Path, windows: usize) -> bool {
    let mut left = windows;
    let mut progress = |_: &Path, _, _| {
        left = left.checked_sub(1).expect("broken off");
    };
    let options = options(SMALL);
    let files = files_in(path).unwrap();
    let run = std::panic::AssertUnwindSafe(|| store.import(files, &options, &mut progress).unwrap());
    std::panic::catch_unwind(run).is_ok()
}

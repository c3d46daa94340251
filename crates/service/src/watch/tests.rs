//! A watch over directories that grow, vanish and come back.

use std::cell::RefCell;
use std::fs;
use std::io::Write;

use enjamb_testkit::home::Home;

use super::*;
use crate::{Actor, Env, ImportBounds};

fn turn(n: usize) -> String {
    let asks = format!(r#"{{"type":"user","uuid":"u{n}","sessionId":"s","message":{{"content":"ask {n}"}}}}"#);
    let answers = format!(
        r#"{{"type":"assistant","uuid":"a{n}","message":{{"id":"m{n}","content":"so","stop_reason":"end_turn"}}}}"#
    );
    format!("{asks}\n{answers}\n")
}

fn options(dir: &Path, once: bool) -> WatchOptions {
    let (principal, by, bounds) = ("p".to_owned(), Actor::default(), ImportBounds::default());
    let places = vec![Place { runtime: Runtime::ClaudeCode, dir: dir.to_owned() }];
    let missed_at = MissedAt::new(dir, Vec::new());
    WatchOptions {
        places,
        import: ImportOptions { principal, machine: None, by, bounds, started: None },
        missed_at,
        once,
    }
}

/// Does one thing after another while a watch goes on, each once what the one before led to was seen.
fn follow(steps: &mut dyn Iterator<Item = (Box<dyn Fn() + '_>, usize)>, store: &Store, dir: &Path) -> Vec<WatchEvent> {
    let seen = RefCell::new(Vec::new());
    let wanted = std::cell::Cell::new(0);
    let steps = RefCell::new(steps);
    let began = Instant::now();
    let go_on = || {
        assert!(began.elapsed() < Duration::from_secs(60), "nothing more came: {:?}", seen.borrow());
        if seen.borrow().len() < wanted.get() {
            return true;
        }
        let Some((act, more)) = steps.borrow_mut().next() else { return false };
        act();
        wanted.set(seen.borrow().len() + more);
        true
    };
    let mut tell = |event| {
        seen.borrow_mut().push(event);
        Ok(())
    };
    store.watch(options(dir, false), &go_on, &mut tell).unwrap();
    seen.take()
}

#[test]
fn turns_are_taken_in_as_they_end_and_directories_come_and_go() {
    let home = Home::new();
    let store = Store::create(&home.store(), Env::system()).unwrap();
    let dir = home.path().join("projects");
    let path = dir.join("-shop/s.jsonl");
    let append = |text: String| {
        let mut file = fs::OpenOptions::new().append(true).create(true).open(&path).unwrap();
        file.write_all(text.as_bytes()).unwrap();
    };
    let steps: Vec<(Box<dyn Fn()>, usize)> = vec![
        (Box::new(|| fs::create_dir_all(path.parent().unwrap()).unwrap()), 1),
        (Box::new(|| append(turn(0))), 1),
        (Box::new(|| append(turn(1) + &turn(2))), 1),
        (Box::new(|| fs::remove_dir_all(&dir).unwrap()), 0),
        (Box::new(|| std::thread::sleep(Duration::from_millis(500))), 0),
        (
            Box::new(|| {
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                append(turn(7));
            }),
            2,
        ),
    ];
    let seen = follow(&mut steps.into_iter(), &store, &dir);
    let commits: Vec<_> = seen
        .iter()
        .filter_map(|event| match event {
            WatchEvent::Imported { commits, .. } => Some(*commits),
            _ => None,
        })
        .collect();
    assert_eq!(commits, [1, 2, 1], "{seen:?}");
    assert_eq!(seen.iter().filter(|event| matches!(event, WatchEvent::Watching { .. })).count(), 2);
    assert_eq!(store.source_at(&path).unwrap().size, turn(7).len() as u64);
}

#[test]
fn once_takes_in_what_is_there_whether_or_not_a_turn_is_over() {
    let home = Home::new();
    let store = Store::create(&home.store(), Env::system()).unwrap();
    let dir = home.path().join("projects");
    fs::create_dir(&dir).unwrap();
    fs::write(dir.join("s.jsonl"), turn(0).lines().next().unwrap()).unwrap();
    let mut seen = Vec::new();
    let mut tell = |event| {
        seen.push(event);
        Ok(())
    };
    store.watch(options(&dir, true), &|| true, &mut tell).unwrap();
    store.watch(options(&dir, true), &|| true, &mut tell).unwrap();
    assert!(matches!(seen[..], [WatchEvent::Imported { files: 1, commits: 1, tip: Some(_), .. }]), "{seen:?}");
}

#[test]
fn many_files_are_taken_in_at_once() {
    let home = Home::new();
    let store = Store::create(&home.store(), Env::system()).unwrap();
    let dir = home.path().join("projects");
    fs::create_dir(&dir).unwrap();
    (0..GROUP_FILES).for_each(|n| fs::write(dir.join(format!("{n}.jsonl")), turn(n)).unwrap());
    let mut seen = Vec::new();
    let mut tell = |event| {
        seen.push(event);
        Ok(())
    };
    store.watch(options(&dir, true), &|| true, &mut tell).unwrap();
    let [WatchEvent::Imported { path, files, commits, tip: None, .. }] = &seen[..] else { panic!("{seen:?}") };
    assert_eq!((path, *files, *commits), (&dir, GROUP_FILES as u64, GROUP_FILES as u64));
}

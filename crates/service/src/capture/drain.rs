//! Draining the spool: the transcripts that events name are imported, and the events are remembered.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::delivery::Delivery;
use super::event::Event;
use super::record::{Record, Records, records};
use super::{spool, spool_dir};
use crate::import::named_files;
use crate::{ImportOptions, Result, Runtime, ServiceError, SourceFile, Store};

/// How much a drain may do.
#[derive(Clone, Copy, Debug)]
pub struct DrainBounds {
    /// Bytes of the transcripts that are read; what is beyond stays for whoever has more time.
    pub bytes_max: u64,
}

impl DrainBounds {
    /// For a command that was asked for something else.
    pub const IN_PASSING: Self = Self { bytes_max: 32 << 20 };
    pub const ALL: Self = Self { bytes_max: u64::MAX };
}

/// What a drain came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Drained {
    pub events: u64,
    /// Events that wait for another time.
    pub kept: u64,
    pub commits: u64,
    pub bytes: u64,
    /// Files that could not be read, and why.
    pub failed: Vec<(PathBuf, String)>,
}

impl Store {
    /// Imports what events tell of. When that fails, the events stay where they are.
    pub fn drain(&self, options: &ImportOptions, bounds: DrainBounds) -> Result<Drained> {
        let dir = spool_dir(self.dir());
        let mut drained = self.drain_taken(&dir, options, bounds)?;
        // What was taken may have been left over from an attempt that was broken off.
        if drained.events > 0 && spool::has_events(&dir) {
            let more = self.drain_taken(&dir, options, bounds)?;
            drained.events += more.events;
            drained.kept = more.kept;
            drained.commits += more.commits;
            drained.bytes += more.bytes;
            drained.failed.extend(more.failed);
        }
        Ok(drained)
    }

    fn drain_taken(&self, dir: &Path, options: &ImportOptions, bounds: DrainBounds) -> Result<Drained> {
        let failed = |source| ServiceError::File { path: dir.to_owned(), source };
        let Some(taken) = spool::take(dir).map_err(failed)? else { return Ok(Drained::default()) };
        let Records { whole, damaged } = records(&taken.bytes);
        let mut delivery = Delivery::read(dir);
        delivery.damaged += damaged;
        let mut plan = Plan::new(self, bounds);
        for record in &whole {
            let event = Event::read(&record.payload);
            delivery.learn(record, &event);
            plan.add(record, &event)?;
        }
        let imported = self.import(plan.files, options, &mut |_, _, _| {}).inspect_err(|error| {
            delivery.failure = Some(error.to_string());
            // Whoever asks for the state is told why events stay; the error itself goes to whoever drains.
            let _ = delivery.write(dir);
        })?;
        delivery.failure = imported.failed.first().map(|(path, why)| format!("{}: {why}", path.display()));
        delivery.write(dir).map_err(failed)?;
        let kept: Vec<u8> = plan.kept.values().flatten().copied().collect();
        taken.keep(&kept).map_err(failed)?;
        Ok(Drained {
            events: whole.len() as u64 - plan.kept.len() as u64,
            kept: plan.kept.len() as u64,
            commits: imported.commits,
            bytes: imported.bytes,
            failed: imported.failed,
        })
    }

    /// What hooks delivered, and how many events wait in the spool.
    pub fn delivery(&self) -> (Delivery, u64) {
        let dir = spool_dir(self.dir());
        let mut delivery = Delivery::read(&dir);
        let Records { whole, damaged } = records(&spool::waiting(&dir));
        delivery.damaged += damaged;
        whole.iter().for_each(|record| delivery.learn(record, &Event::read(&record.payload)));
        (delivery, whole.len() as u64)
    }
}

/// Which files are read now, and which events wait.
struct Plan<'s> {
    store: &'s Store,
    bytes_left: u64,
    seen: BTreeSet<(Runtime, PathBuf)>,
    waiting: BTreeSet<PathBuf>,
    files: Vec<SourceFile>,
    /// The last record for each set of transcripts: those before it tell nothing else.
    kept: BTreeMap<Vec<PathBuf>, Vec<u8>>,
}

impl<'s> Plan<'s> {
    fn new(store: &'s Store, bounds: DrainBounds) -> Self {
        let (seen, waiting) = (BTreeSet::new(), BTreeSet::new());
        Self { store, bytes_left: bounds.bytes_max, seen, waiting, files: Vec::new(), kept: BTreeMap::new() }
    }

    fn add(&mut self, record: &Record, event: &Event) -> Result<()> {
        if event.is_foreign {
            return Ok(());
        }
        let mut waits = false;
        for path in &event.transcripts {
            waits |= !self.add_files(record.runtime, path)?;
        }
        if waits {
            self.kept.insert(event.transcripts.clone(), record.encode());
        }
        Ok(())
    }

    /// Whether all that is new beside a transcript is read now.
    fn add_files(&mut self, runtime: Runtime, path: &Path) -> Result<bool> {
        if !self.seen.insert((runtime, path.to_owned())) {
            return Ok(!self.waiting.contains(path));
        }
        for file in named_files(runtime, path) {
            if self.store.is_imported(&file)? {
                continue;
            }
            match self.bytes_left.checked_sub(file.size) {
                Some(left) => self.bytes_left = left,
                None => {
                    self.waiting.insert(path.to_owned());
                    continue;
                }
            }
            self.files.push(file);
        }
        Ok(!self.waiting.contains(path))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write;

    use serde_json::json;

    use super::super::{HookCall, MissedAt, hook};
    use enjamb_testkit::home::Home;

    use super::*;
    use crate::{Actor, Env, ImportBounds};

    fn options() -> ImportOptions {
        ImportOptions {
            principal: "p".into(),
            machine: None,
            by: Actor::default(),
            bounds: ImportBounds::default(),
            started: None,
        }
    }

    fn say(store: &Store, at_ms: u64, event: &str, transcript: &Path) {
        let agent = transcript.with_extension("").join("subagents/agent-1.jsonl");
        let said = json!({"session_id": "s", "transcript_path": transcript, "agent_transcript_path": agent,
            "hook_event_name": event})
        .to_string();
        let missed_at = MissedAt::new(store.dir(), Vec::new());
        let call = HookCall { runtime: "claude-code", store: store.dir(), missed_at: &missed_at, at_ms };
        let (reader, mut writer) = std::io::pipe().unwrap();
        writer.write_all(said.as_bytes()).unwrap();
        drop(writer);
        hook(&call, reader);
    }

    fn turn(n: usize) -> String {
        format!("{{\"type\":\"user\",\"uuid\":\"{n}\",\"sessionId\":\"s\",\"message\":{{\"content\":\"ask {n}\"}}}}\n")
    }

    #[test]
    fn an_event_brings_in_the_tail_of_its_transcript() {
        let home = Home::new();
        let store = Store::create(&home.store(), Env::system()).unwrap();
        let path = home.path().join("s.jsonl");
        say(&store, 1, "SessionStart", &path);
        let drained = store.drain(&options(), DrainBounds::ALL).unwrap();
        assert_eq!((drained.events, drained.commits), (1, 0), "it is not there yet");
        fs::write(&path, turn(0)).unwrap();
        fs::create_dir_all(home.path().join("s/subagents")).unwrap();
        fs::write(home.path().join("s/subagents/agent-1.jsonl"), turn(7)).unwrap();
        say(&store, 2, "Stop", &path);
        say(&store, 3, "Stop", &path);
        let (delivery, waiting) = store.delivery();
        assert_eq!((delivery.last(Runtime::ClaudeCode).unwrap().at_ms, waiting), (3, 2));
        assert_eq!(store.drain(&options(), DrainBounds::ALL).unwrap().commits, 2);
        fs::write(&path, turn(0) + &turn(1)).unwrap();
        say(&store, 4, "SessionEnd", &path);
        let drained = store.drain(&options(), DrainBounds::ALL).unwrap();
        assert_eq!((drained.commits, drained.bytes), (1, turn(1).len() as u64));
        let (delivery, waiting) = store.delivery();
        let last = delivery.last(Runtime::ClaudeCode).unwrap();
        assert_eq!((last.at_ms, last.event.as_deref(), waiting), (4, Some("SessionEnd"), 0));
        assert_eq!(store.drain(&options(), DrainBounds::ALL).unwrap(), Drained::default());
    }

    #[test]
    fn what_is_too_much_in_passing_waits_and_nothing_else_does() {
        let home = Home::new();
        let store = Store::create(&home.store(), Env::system()).unwrap();
        let (large, small) = (home.path().join("large.jsonl"), home.path().join("small.jsonl"));
        fs::write(&large, turn(0).repeat(9)).unwrap();
        fs::write(&small, turn(0)).unwrap();
        for (at_ms, path) in [(1, &large), (2, &small), (3, &large)] {
            say(&store, at_ms, "Stop", path);
        }
        let bounds = DrainBounds { bytes_max: 300 };
        let drained = store.drain(&options(), bounds).unwrap();
        assert_eq!((drained.events, drained.kept, drained.commits), (2, 1, 1), "the last of its kind waits");
        let drained = store.drain(&options(), bounds).unwrap();
        assert_eq!((drained.events, drained.kept), (0, 1), "it is still there");
        let drained = store.drain(&options(), DrainBounds::ALL).unwrap();
        assert_eq!((drained.events, drained.kept), (1, 0));
        assert!(drained.commits > 0);
    }

    #[test]
    fn what_is_no_transcript_is_not_read_whoever_names_it() {
        let home = Home::new();
        let store = Store::create(&home.store(), Env::system()).unwrap();
        let secret = home.path().join("id_rsa");
        fs::write(&secret, turn(0)).unwrap();
        let foreign = home.path().join(".cursor/s.jsonl");
        fs::create_dir_all(home.path().join(".cursor")).unwrap();
        fs::write(&foreign, turn(0)).unwrap();
        [&secret, &foreign, &PathBuf::from("s.jsonl")].into_iter().for_each(|path| say(&store, 1, "Stop", path));
        let drained = store.drain(&options(), DrainBounds::ALL).unwrap();
        assert_eq!((drained.events, drained.commits), (3, 0));
    }

    #[test]
    fn when_storing_fails_the_events_stay() {
        let home = Home::new();
        let store = Store::create(&home.store(), Env::system()).unwrap();
        let path = home.path().join("s.jsonl");
        fs::write(&path, turn(0)).unwrap();
        say(&store, 1, "Stop", &path);
        let bad = ImportOptions { principal: "not\u{0}a name".into(), ..options() };
        assert!(store.drain(&bad, DrainBounds::ALL).is_err());
        let (delivery, waiting) = store.delivery();
        assert!(waiting == 1 && delivery.failure.is_some(), "{delivery:?}");
        assert_eq!(store.drain(&options(), DrainBounds::ALL).unwrap().commits, 1);
        assert_eq!(store.delivery().0.failure, None);
    }
}

//! What the agent knows that asks: the last commit of its session, as of now.
//!
//! Runtimes tell their tools which session they are in. Where they do not, it is the session that was last written to by
//! an agent in the same directory.

use std::path::{Path, PathBuf};

use enjamb_core::frame::Json;
use enjamb_core::{CommitId, Timestamp};
use enjamb_ledger::StoredCommit;

use crate::import::path_text;
use crate::wrap::ask_run;
use crate::{Filter, ImportOptions, Place, Result, Runtime, ServiceError, Source, SourceFile, Store};

/// Who asks, as far as its surroundings tell.
#[derive(Clone, Debug)]
pub struct Agent {
    /// Where whoever started it answers which commit it is at.
    pub run_socket: Option<PathBuf>,
    /// What it was told to call its context: any word for a commit.
    pub context: Option<String>,
    /// The sessions that its environment names. An agent that was started by another has both.
    pub sessions: Vec<(Runtime, String)>,
    pub cwd: Option<PathBuf>,
    /// Where runtimes keep their transcripts.
    pub places: Vec<Place>,
}

/// How it was told who asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CurrentBy {
    Run,
    Context,
    Session,
    Directory,
}

impl CurrentBy {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Run => "run",
            Self::Context => "context",
            Self::Session => "session",
            Self::Directory => "directory",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Current {
    pub id: CommitId,
    pub by: CurrentBy,
}

/// The variable that says which session of a runtime a program runs in.
const SESSION_VARIABLES: [(Runtime, &str); 3] = [
    (Runtime::ClaudeCode, "CLAUDE_CODE_SESSION_ID"),
    (Runtime::Codex, "CODEX_THREAD_ID"),
    (Runtime::Codex, "CODEX_SESSION_ID"),
];
/// How old what is found by directory may be: whoever works there now has said something since.
const DIRECTORY_AGE_MS: u64 = 24 * 60 * 60 * 1000;
/// Transcripts that are brought up to date to find who works in a directory.
const DIRECTORY_FILES: usize = 8;
/// Commits that are looked at to find one of a directory.
const DIRECTORY_COMMITS: usize = 2_000;

impl Agent {
    /// `variable` answers what the environment says.
    pub fn of(variable: &dyn Fn(&str) -> Option<String>, cwd: Option<PathBuf>, places: Vec<Place>) -> Self {
        let named = |(runtime, name): (Runtime, &str)| variable(name).map(|session| (runtime, session));
        let mut sessions: Vec<_> = SESSION_VARIABLES.into_iter().filter_map(named).collect();
        sessions.dedup();
        let run_socket = variable("ENJAMB_RUN_SOCKET").map(PathBuf::from);
        Self { run_socket, context: variable("ENJAMB_CONTEXT_ID"), sessions, cwd, places }
    }
}

impl Store {
    /// The commit of the agent that asks. The end of its transcript is imported first.
    pub fn current(&self, agent: &Agent, options: &ImportOptions) -> Result<Current> {
        if let Some(answer) = agent.run_socket.as_deref().and_then(ask_run) {
            let name = "of this run: nothing of it is stored yet".to_owned();
            let id = answer.ok_or(ServiceError::Unknown { what: "context", name })?;
            return Ok(Current { id, by: CurrentBy::Run });
        }
        if let Some(context) = &agent.context {
            return Ok(Current { id: self.revision(context)?, by: CurrentBy::Context });
        }
        if let Some(id) = self.of_session(agent, options)? {
            return Ok(Current { id, by: CurrentBy::Session });
        }
        if let Some(id) = self.of_directory(agent, options)? {
            return Ok(Current { id, by: CurrentBy::Directory });
        }
        let name = match (agent.sessions.first(), &agent.cwd) {
            (Some((runtime, session)), _) => format!("of session {session} of {}", runtime.as_str()),
            (None, Some(cwd)) => format!("of an agent in {}", cwd.display()),
            (None, None) => "of whoever asks".to_owned(),
        };
        Err(ServiceError::Unknown { what: "context", name })
    }

    /// The tip of the session whose transcript was written last, of those that the environment names.
    fn of_session(&self, agent: &Agent, options: &ImportOptions) -> Result<Option<CommitId>> {
        let mut files: Vec<SourceFile> = agent
            .sessions
            .iter()
            .flat_map(|(runtime, session)| transcripts(&agent.places, *runtime, session))
            .collect();
        files.sort_by_key(|file| std::cmp::Reverse(file.modified));
        for file in files {
            if let Some(tip) = self.brought_up_to_date(file, options)? {
                return Ok(Some(tip));
            }
        }
        // Its transcript is not where it should be, or is gone; what was imported of it is here.
        for (_, session) in &agent.sessions {
            let filter = Filter { session: Some(session.clone()), ..Filter::default() };
            if let Some(stored) = self.list(Source::Store, &filter, None, 1)?.commits.pop() {
                return Ok(Some(stored.link.id));
            }
        }
        Ok(None)
    }

    fn of_directory(&self, agent: &Agent, options: &ImportOptions) -> Result<Option<CommitId>> {
        // Whoever names its session is not somebody else who works in the same directory.
        let Some(cwd) = agent.cwd.as_deref().filter(|_| agent.sessions.is_empty()) else { return Ok(None) };
        let since_ms = self.env.now().as_millis().saturating_sub(DIRECTORY_AGE_MS);
        let mut files: Vec<SourceFile> = agent.places.iter().flat_map(Place::files).collect();
        files.retain(|file| file.modified.is_some_and(|at| at.as_millis() >= since_ms));
        files.sort_by_key(|file| std::cmp::Reverse(file.modified));
        for file in files.into_iter().take(DIRECTORY_FILES) {
            self.brought_up_to_date(file, options)?;
        }
        let since = Timestamp::from_millis(since_ms.min(i64::MAX as u64) as i64);
        let filter = Filter { since: Some(since), ..Filter::default() };
        let page = self.list(Source::Store, &filter, None, DIRECTORY_COMMITS)?;
        Ok(page.commits.iter().find(|stored| is_in(stored, cwd)).map(|stored| stored.link.id))
    }

    /// Imports what is new in a transcript, and returns its last commit.
    fn brought_up_to_date(&self, file: SourceFile, options: &ImportOptions) -> Result<Option<CommitId>> {
        let path = path_text(&file.path);
        if !self.is_imported(&file)? {
            self.import(vec![file], options, &mut |_, _, _| {})?;
        }
        Ok(self.source(&path)?.and_then(|source| source.tip()))
    }
}

/// The transcripts of a session, told from the names of files.
pub(crate) fn transcripts(places: &[Place], runtime: Runtime, session: &str) -> Vec<SourceFile> {
    let is_its = |file: &SourceFile| {
        let stem = file.path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
        match runtime {
            Runtime::ClaudeCode => stem == session,
            _ => stem.strip_suffix(session).is_some_and(|rest| rest.ends_with('-')),
        }
    };
    let of_runtime = places.iter().filter(|place| place.runtime == runtime);
    of_runtime.flat_map(Place::files).filter(|file| !session.is_empty() && is_its(file)).collect()
}

/// Whether a commit was made by an agent in a directory, or in one that it lies in.
fn is_in(stored: &StoredCommit, cwd: &Path) -> bool {
    let attributes = stored.commit.attributes.as_ref().map(Json::get).unwrap_or_default();
    let attributes: serde_json::Value = serde_json::from_str(attributes).unwrap_or_default();
    attributes["cwd"].as_str().is_some_and(|there| !there.is_empty() && cwd.starts_with(there))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use enjamb_testkit::home::Home;

    use super::*;
    use crate::{Actor, Env, ImportBounds};

    const SESSION: &str = "5d1c90ab-0000-4000-8000-000000000001";

    struct Bench {
        home: Home,
        store: Store,
    }

    impl Bench {
        fn new() -> Self {
            let home = Home::new();
            let store = Store::create(&home.store(), Env::system()).unwrap();
            Self { home, store }
        }

        /// Writes a session of Claude Code with so many turns, all of them a moment ago.
        fn session(&self, name: &str, cwd: &str, turns: usize) -> PathBuf {
            let dir = self.home.path().join(".claude/projects/-x");
            fs::create_dir_all(&dir).unwrap();
            let at = self.store.env.now();
            let line = |n| {
                format!(
                    "{{\"type\":\"user\",\"uuid\":\"{name}{n}\",\"sessionId\":\"{name}\",\"cwd\":\"{cwd}\",\"timestamp\":\"{at}\",\"message\":{{\"content\":\"ask {n}\"}}}}\n"
                )
            };
            let path = dir.join(format!("{name}.jsonl"));
            fs::write(&path, (0..turns).map(line).collect::<String>()).unwrap();
            path
        }

        fn ask(&self, variables: &[(&str, &str)], cwd: &str) -> Result<Current> {
            let variable =
                |name: &str| variables.iter().find(|(key, _)| *key == name).map(|(_, value)| value.to_string());
            let places = crate::known_places(self.home.path(), &|_| None);
            let agent = Agent::of(&variable, Some(cwd.into()), places);
            let (principal, by, bounds) = ("p".to_owned(), Actor::default(), ImportBounds::default());
            self.store.current(&agent, &ImportOptions { principal, machine: None, by, bounds, started: None })
        }

        fn tip(&self, path: &Path) -> CommitId {
            self.store.source_at(path).unwrap().tip().unwrap()
        }
    }

    #[test]
    fn a_session_is_answered_as_of_now() {
        let bench = Bench::new();
        let path = bench.session(SESSION, "/shop", 1);
        bench.session("another", "/shop", 3);
        let ask = || bench.ask(&[("CLAUDE_CODE_SESSION_ID", SESSION)], "/elsewhere").unwrap();
        let first = ask();
        assert_eq!(first, Current { id: bench.tip(&path), by: CurrentBy::Session });
        bench.session(SESSION, "/shop", 2);
        let second = ask();
        assert_ne!(second.id, first.id);
        fs::remove_file(&path).unwrap();
        assert_eq!(ask(), second, "what was imported is still here");
        let named =
            bench.ask(&[("ENJAMB_CONTEXT_ID", &first.id.to_string()), ("CLAUDE_CODE_SESSION_ID", SESSION)], "/");
        assert_eq!(named.unwrap(), Current { id: first.id, by: CurrentBy::Context });
    }

    #[test]
    fn of_two_sessions_the_one_that_was_written_last_asks() {
        let bench = Bench::new();
        let outer = bench.session(SESSION, "/shop", 1);
        let dir = bench.home.path().join(".codex/sessions/2026/11/16");
        fs::create_dir_all(&dir).unwrap();
        let inner = dir.join("rollout-2026-11-16T00-00-00-01a1.jsonl");
        fs::write(
            &inner,
            "{\"timestamp\":\"2026-11-16T00:00:00Z\",\"type\":\"session_meta\",\"payload\":{\"id\":\"01a1\"}}\n",
        )
        .unwrap();
        let earlier = std::time::SystemTime::now() - std::time::Duration::from_secs(9);
        fs::File::open(&outer).unwrap().set_modified(earlier).unwrap();
        let both = [("CLAUDE_CODE_SESSION_ID", SESSION), ("CODEX_THREAD_ID", "01a1"), ("CODEX_SESSION_ID", "01a1")];
        let found = bench.ask(&both, "/").unwrap();
        assert_eq!(found.id, bench.tip(&inner));
    }

    #[test]
    fn without_a_session_the_directory_tells_and_nothing_is_made_up() {
        let bench = Bench::new();
        let path = bench.session(SESSION, "/shop", 2);
        bench.session("another", "/bakery", 3);
        let found = bench.ask(&[], "/shop/src").unwrap();
        assert_eq!(found, Current { id: bench.tip(&path), by: CurrentBy::Directory });
        for (variables, cwd) in [(&[][..], "/nowhere"), (&[("CODEX_THREAD_ID", "gone")], "/shop"), (&[], "/shopping")] {
            assert_eq!(bench.ask(variables, cwd).unwrap_err().code(), "not-found", "{variables:?} {cwd}");
        }
    }
}

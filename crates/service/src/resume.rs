//! Resuming: a chain as a session that a runtime finds and loads itself.
//!
//! The chain is gone through twice: once to learn how everything stands, once to write it into a file that was not there.
//! The file is read back, gets its name, and is told to the store, so that what the runtime adds to it is known to follow
//! from the chain. At no time is more than an outline of it in memory.

mod error;
mod make;
mod memory;
mod place;
mod plant;
mod replant;
mod tell;

use std::path::{Path, PathBuf};

use enjamb_core::CommitId;
use enjamb_core::chain::Stop;
use enjamb_formats::session::{self, Identity, Looked};
use enjamb_formats::{FidelityLedger, Format, Problem, Tier};

use crate::{Actor, Result, Runtime, ServiceError, Store};
use make::Made;
use memory::Gathered;

pub use error::ResumeError;
pub use place::{RuntimeHomes, project_slug};
pub use replant::{FileState, Replanted, ReplantedFile};

/// What to go on from, and where.
#[derive(Clone, Debug)]
pub struct Resume {
    pub tip: CommitId,
    /// `None` is the runtime whose the chain is.
    pub runtime: Option<Runtime>,
    /// How far back memory reaches; `None` is all that the runtime itself would have.
    pub stop: Option<Stop>,
    /// The most tokens that may travel, counted as the commits say.
    pub budget_tokens: Option<u64>,
    /// The directory to go on in; `None` is where it was, if that is here.
    pub cwd: Option<PathBuf>,
    /// Where whoever asks is.
    pub here: PathBuf,
    /// The least faithful that is accepted.
    pub tier_min: Tier,
    pub homes: RuntimeHomes,
    /// Write nothing.
    pub dry_run: bool,
    pub by: Actor,
}

/// A session that a runtime can go on with.
#[derive(Clone, Debug)]
pub struct Resumed {
    pub tip: CommitId,
    /// What the last commit is in.
    pub format: String,
    pub runtime: Runtime,
    pub tier: Tier,
    /// What became of each block.
    pub ledger: FidelityLedger,
    pub travels: Travels,
    pub left: LeftBehind,
    /// Calls without a result that got one which says so.
    pub interrupted: u64,
    /// What the runtime or its provider may object to.
    pub problems: Vec<Problem>,
    pub session: String,
    pub path: PathBuf,
    pub bytes: u64,
    pub cwd: PathBuf,
    /// Where it was, if it goes on elsewhere.
    pub moved_from: Option<String>,
    /// What has to be run in `cwd` before, for a runtime that takes sessions in by itself.
    pub before: Option<Vec<String>>,
    /// The program and its arguments, to be run in `cwd`.
    pub command: Vec<String>,
    /// `false` when nothing was asked to be written.
    pub written: bool,
}

/// What the model will have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Travels {
    pub turns: u64,
    pub messages: u64,
    pub calls: u64,
    /// Calls that have their results.
    pub answered: u64,
    pub images: u64,
    pub commits: u64,
    pub tokens: u64,
}

/// What the stop or the budget left out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeftBehind {
    pub commits: u64,
    pub tokens: u64,
}

/// A session before it is written: what it is of, whose it will be, and where.
struct Plan {
    format: String,
    runtime: Runtime,
    target: &'static dyn Format,
    gathered: Gathered,
    looked: Looked,
    identity: Identity,
    cwd: PathBuf,
    path: PathBuf,
}

impl Store {
    /// Makes a session of a chain.
    pub fn resume(&self, request: &Resume) -> Result<Resumed> {
        let plan = self.plan(request)?;
        if request.dry_run {
            let made = self.make(&plan, request.tier_min, &mut std::io::sink())?;
            return Ok(plan.resumed(request, made));
        }
        let made = plant::write(
            &plan.path,
            |file| self.make(&plan, request.tier_min, file),
            |file, made| made.check_back(&plan, file),
        )?;
        let lines = made.lines;
        let resumed = plan.resumed(request, made);
        // What opencode adds it keeps elsewhere.
        if resumed.runtime != Runtime::OpenCode {
            self.tell_planted(&resumed, lines, &request.by)?;
        }
        Ok(resumed)
    }

    fn plan(&self, request: &Resume) -> Result<Plan> {
        let format = self.show(&request.tip)?.commit.format;
        let runtime = request.runtime.or(Runtime::of_format(&format));
        let runtime = runtime.ok_or(ResumeError::NoRuntime { tip: request.tip })?;
        let target = native_format(runtime)?;
        let gathered = self.gather(request, target.id())?;
        let looked = self.look(&gathered, target)?.ok_or(ResumeError::CannotWrite { runtime })?;
        let was = looked.cwd().filter(|dir| dir.starts_with('/'));
        let (cwd, moved_from) = directory(request, was.as_deref())?;
        let identity = Identity {
            session: place::session_id(runtime, &self.env.new_id(), self.env.now()),
            cwd: cwd.to_string_lossy().into_owned(),
            moved_from,
            at: self.env.now(),
        };
        let path = match runtime {
            // It takes sessions in from documents, wherever they are.
            Runtime::OpenCode => std::path::absolute(self.dir().join("planted"))
                .map_err(|source| ServiceError::File { path: self.dir().to_owned(), source })?
                .join(format!("{}.json", identity.session)),
            _ => request.homes.session_path(runtime, &cwd, &identity.session, identity.at),
        };
        Ok(Plan { format, runtime, target, gathered, looked, identity, cwd, path })
    }
}

impl Plan {
    fn resumed(self, request: &Resume, made: Made) -> Resumed {
        let held = made.written.held();
        Resumed {
            tip: request.tip,
            format: self.format,
            runtime: self.runtime,
            tier: made.tier,
            travels: Travels {
                turns: held.turns,
                messages: held.messages,
                calls: held.calls,
                answered: held.answered,
                images: held.images,
                commits: self.gathered.commits,
                tokens: self.gathered.tokens,
            },
            left: self.gathered.left,
            interrupted: made.session.interrupted,
            ledger: made.session.ledger,
            problems: made.written.problems(),
            before: place::before(self.runtime, &self.path),
            path: self.path,
            command: place::command(self.runtime, &self.identity.session),
            session: self.identity.session,
            bytes: made.bytes,
            cwd: self.cwd,
            moved_from: self.identity.moved_from,
            written: !request.dry_run,
        }
    }
}

fn native_format(runtime: Runtime) -> Result<&'static dyn Format> {
    let format = enjamb_formats::by_id(runtime.format()).filter(|format| session::is_loaded(format.id()));
    format.ok_or_else(|| ResumeError::CannotWrite { runtime }.into())
}

/// Where the session goes on, and where it was if that is elsewhere.
fn directory(request: &Resume, was: Option<&str>) -> Result<(PathBuf, Option<String>)> {
    let there = was.map(Path::new).filter(|dir| dir.is_dir());
    let cwd = match (&request.cwd, there) {
        (Some(dir), _) => dir.canonicalize().map_err(|source| ServiceError::File { path: dir.clone(), source })?,
        (None, Some(dir)) => dir.to_owned(),
        (None, None) => request.here.clone(),
    };
    let moved_from = was.filter(|was| Path::new(was) != cwd).map(str::to_owned);
    Ok((cwd, moved_from))
}

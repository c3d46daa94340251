//! Resuming: a chain as a session that a runtime finds and loads itself.
//!
//! Everything is put together and checked in memory; then one file is written that was not there, read back, and told
//! to the store, so that what the runtime adds to it is known to follow from the chain.

mod error;
mod memory;
mod place;
mod plant;
mod replant;

use std::path::{Path, PathBuf};

use enjamb_core::CommitId;
use enjamb_core::chain::Stop;
use enjamb_core::conversation::{Block, Conversation, Standing, attribute};
use enjamb_formats::session::{self, Identity, Session};
use enjamb_formats::{FidelityLedger, Format, Problem, Tier};

use crate::{Actor, Result, Runtime, ServiceError, Store};
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

impl Store {
    /// Makes a session of a chain.
    pub fn resume(&self, request: &Resume) -> Result<Resumed> {
        let (mut resumed, composed) = self.composed(request)?;
        if resumed.tier > request.tier_min {
            return Err(
                ResumeError::TierTooLow { tip: request.tip, runtime: resumed.runtime, tier: resumed.tier }.into()
            );
        }
        if !request.dry_run {
            plant::write(&resumed.path, &composed.bytes, |read| check_back(&resumed, &composed, read))?;
            // What opencode adds it keeps elsewhere.
            if resumed.runtime != Runtime::OpenCode {
                self.tell_planted(&resumed, composed.bytes, &request.by)?;
            }
            resumed.written = true;
        }
        Ok(resumed)
    }

    fn composed(&self, request: &Resume) -> Result<(Resumed, Session)> {
        let commit = self.show(&request.tip)?;
        let from = Runtime::of_format(&commit.commit.format);
        let runtime = request.runtime.or(from).ok_or(ResumeError::NoRuntime { tip: request.tip })?;
        let target = native_format(runtime)?;
        let gathered = self.gather(request, target.id())?;
        let (cwd, moved_from) = directory(request, gathered.cwd().as_deref())?;
        let identity = Identity {
            session: place::session_id(runtime, &self.env.new_id(), self.env.now()),
            cwd: cwd.to_string_lossy().into_owned(),
            moved_from: moved_from.clone(),
            at: self.env.now(),
        };
        let composed = gathered.compose(target, &identity)?;
        let reading = target.read(&session::lines(target, &composed.bytes))?;
        let mut problems = target.check(&reading);
        problems.extend(reading.findings.iter().cloned());
        let path = match runtime {
            // It takes sessions in from documents, wherever they are.
            Runtime::OpenCode => std::path::absolute(self.dir().join("planted"))
                .map_err(|source| ServiceError::File { path: self.dir().to_owned(), source })?
                .join(format!("{}.json", identity.session)),
            _ => request.homes.session_path(runtime, &cwd, &identity.session, identity.at),
        };
        let resumed = Resumed {
            tip: request.tip,
            format: commit.commit.format.clone(),
            runtime,
            tier: gathered.tier(&composed.ledger),
            ledger: composed.ledger.clone(),
            travels: travels(&reading.conversation, &gathered),
            left: gathered.left,
            interrupted: composed.interrupted,
            problems,
            before: place::before(runtime, &path),
            path,
            command: place::command(runtime, &identity.session),
            session: identity.session,
            bytes: composed.bytes.len() as u64,
            cwd,
            moved_from,
            written: false,
        };
        Ok((resumed, composed))
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

fn travels(conversation: &Conversation, gathered: &Gathered) -> Travels {
    let current = || conversation.entries.iter().filter(|entry| entry.standing == Standing::Context);
    let results: std::collections::HashSet<&str> =
        current().flat_map(|entry| entry.tool_results()).map(|result| result.call_id.as_str()).collect();
    let calls = || current().flat_map(|entry| entry.tool_calls()).filter(|call| !call.server);
    let is_image = |block: &&Block| matches!(block, Block::Image(_));
    Travels {
        turns: current().filter(|entry| entry.is_prompt()).count() as u64,
        messages: current().filter(|entry| entry.is_message()).count() as u64,
        calls: calls().count() as u64,
        answered: calls().filter(|call| results.contains(call.id.as_str())).count() as u64,
        images: current().flat_map(|entry| &entry.blocks).filter(is_image).count() as u64,
        commits: gathered.commits,
        tokens: gathered.tokens,
    }
}

/// What was read back is what was to be written, and says what the chain says.
fn check_back(resumed: &Resumed, composed: &Session, read: &[u8]) -> Result<()> {
    let differs = |detail: String| ResumeError::NotReadBack { path: resumed.path.clone(), detail };
    if read != composed.bytes {
        return Err(differs("the bytes are not those that were written".into()).into());
    }
    let target = native_format(resumed.runtime)?;
    let found = session::said(&target.decode(&session::lines(target, read))?);
    match session::missing(&composed.said, &found) {
        None => Ok(()),
        Some(said) => {
            let shown: String = format!("{said:?}").chars().take(120).collect();
            Err(differs(format!("it does not say {shown}")).into())
        }
    }
}

/// The directory that a conversation was last in.
fn last_cwd(conversation: &Conversation) -> Option<String> {
    let told = conversation.entries.iter().rev().filter_map(|entry| entry.attribute(attribute::CWD));
    told.map(str::to_owned).next()
}

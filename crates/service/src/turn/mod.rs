//! A turn: a message is posted, a model is asked what to say to it, and everything on the way is a frame.
//!
//! The order of frames: message and run in the thread; the session begins; the context is decided on and compiled; requests
//! and every event of their answers, with what the model said after each; tools; where the provider's conversation stands;
//! the session ends, a commit is made, the run ends. What ends a run early ends it with a reason, and what came is kept.

mod answer;
mod ask;
mod budget;
mod commit;
mod drive;
mod ending;
mod journal;
mod options;
mod recorder;
mod recover;
mod scrub;
mod session;
mod tools;
mod view;

#[cfg(test)]
mod tests;

use std::sync::atomic::AtomicBool;

use enjamb_core::conversation::Usage;
use enjamb_core::{CommitId, StreamId};

pub(crate) use commit::principal as principal_of;
pub use ending::{EndReason, Ending};
pub use options::{Prices, Provider, ProviderOptions};
pub use recover::EndedRun;
pub use tools::{CommandTool, Denial, Effect, McpServer, ToolLimits, Toolbox};
pub use view::RunView;

use self::drive::Drive;
use self::journal::Journal;
use self::recorder::Recorder;
use self::session::{Session, Spent};
use crate::{Actor, Compile, Post, Result, RunId, ServiceError, Store};

/// What to say, and how the context of the answer is made.
#[derive(Clone, Debug, Default)]
pub struct Turn {
    pub content: String,
    /// The run's id; without it, a fresh one.
    pub run: Option<String>,
    /// Strategy and budget of the context; whom it is for is filled in.
    pub compile: Compile,
    pub idempotency_key: Option<String>,
}

/// What a turn is taken with.
pub struct Means<'m> {
    pub provider: &'m Provider,
    pub tools: &'m Toolbox,
    pub by: &'m Actor,
    /// Set by whoever calls the run off.
    pub cancel: &'m AtomicBool,
}

/// What happens, for whoever watches.
#[derive(Debug)]
pub enum TurnEvent<'e> {
    Began {
        message: &'e str,
        run: &'e str,
    },
    Text(&'e str),
    ToolStarted {
        name: &'e str,
    },
    ToolEnded {
        name: &'e str,
        is_error: bool,
    },
    /// The provider asks to come back later.
    Waiting {
        seconds: u64,
        because: &'e str,
    },
}

/// What a turn came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Turned {
    pub message: String,
    pub run: String,
    pub text: String,
    pub ending: Ending,
    pub usage: Usage,
    /// In dollars, where prices were given.
    pub cost: Option<String>,
    pub requests: u64,
    pub tool_calls: u64,
    pub commit: Option<CommitId>,
    /// The post was made before, and nothing was run now.
    pub replayed: bool,
}

impl Store {
    /// Posts a message and asks a model for the answer. An error is one of the store; what goes wrong with the provider
    /// is how the run ended.
    pub fn take_turn(
        &self,
        thread: &StreamId,
        turn: &Turn,
        means: &Means<'_>,
        watch: &mut dyn FnMut(TurnEvent<'_>),
    ) -> Result<Turned> {
        self.thread_summary(thread)?;
        let run = turn.run.clone().unwrap_or_else(|| self.id_of_post(thread, turn.idempotency_key.as_deref(), "run"));
        check_run_id(&run)?;
        let mut journal = Journal::begin(self.dir(), &run, &thread.id)?;
        let post = Post {
            content: turn.content.clone(),
            run: Some(RunId::Given(run.clone())),
            idempotency_key: turn.idempotency_key.clone(),
        };
        let posted = match self.post(thread, post, means.by) {
            Ok(posted) => posted,
            Err(error) => {
                journal.remove();
                return Err(error);
            }
        };
        if posted.replayed {
            journal.remove();
            return self.turn_again(thread, posted);
        }
        let session = Session::begin(self, thread, posted, &turn.content, means.by)?;
        watch(TurnEvent::Began { message: &session.message.id, run: &run });
        let (spent, ending) = self.driven(&session, turn, means, &mut journal, watch)?;
        let turned = session.end(Some(means.provider), spent, ending)?;
        journal.remove();
        Ok(turned)
    }

    /// Runs a session until it is to end, with its frames on disk.
    fn driven(
        &self,
        session: &Session<'_>,
        turn: &Turn,
        means: &Means<'_>,
        journal: &mut Journal,
        watch: &mut dyn FnMut(TurnEvent<'_>),
    ) -> Result<(Spent, Ending)> {
        std::thread::scope(|scope| {
            let recorder = Recorder::start(scope, self, session.stream.clone());
            let mut drive = Drive {
                session,
                means,
                recorder: &recorder,
                journal,
                watch,
                spent: Spent::default(),
                is_budgeted: false,
            };
            let ending = drive.run(turn);
            let spent = drive.spent;
            recorder.finish()?;
            Ok((spent, ending?))
        })
    }
}

/// A run's id names its stream and its journal.
fn check_run_id(run: &str) -> Result<()> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if (1..=128).contains(&run.len()) && run.chars().all(is_plain) {
        return Ok(());
    }
    Err(ServiceError::Invalid { what: "run", text: run.to_owned(), expected: "letters, digits, - and _" })
}

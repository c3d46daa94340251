//! What enjamb does, one file an operation. Surfaces parse, call and render; they decide nothing.

mod address;
mod append;
mod artifact;
mod branch;
mod cache;
mod capture;
mod care;
mod check;
mod checkpoint;
mod commits;
mod compact;
mod compile;
mod config;
mod current;
mod cursor;
mod database;
mod diff;
mod doctor;
mod env;
mod error;
mod exchange;
mod export;
mod gc;
pub mod http;
mod import;
mod link;
mod list;
mod materialize;
mod naming;
mod pack;
mod policy;
mod read;
mod render;
mod repair;
mod replay;
mod request;
mod resume;
mod revision;
mod sample;
mod secrets;
mod snapshot;
mod status;
mod summarize;
mod sync;
mod tag;
mod task;
mod thread;
mod thread_error;
mod thread_search;
mod timeline;
mod translate;
mod turn;
mod watch;
mod workspace;
mod wrap;

use std::path::Path;

use enjamb_ledger::{Engine, SqliteLedger};

use cache::Cache;
use request::Door;

pub use append::{Append, DraftLine};
pub use artifact::{ArtifactView, PutOptions, Stored};
pub use branch::{Handoff, Referenced, ThreadChild, ThreadCut};
pub use capture::{
    CapturePlan, Delivery, DeliveryReport, DrainBounds, Drained, HookCall, HookCommand, HookFile, HooksFound,
    LastEvent, Miss, Missed, MissedAt, RuntimeDelivery, hook, hook_files, missed_elsewhere,
};
pub use care::Maintained;
pub use check::{CheckContext, Diagnosis, Located};
pub use checkpoint::{Checkpoint, Checkpointed, Content};
pub use commits::{Note, Tips};
pub use compact::{
    AutoCompact, AutoCompacted, ChainCompact, ChainCompacted, ChainSummary, CheckpointView, CompactionStatus, CutPoint,
    CutPoints, Growth, JobView, ManualCompact, SchedulePolicy, Scheduled, ThreadSummarizer, Writer,
};
pub use compile::{Audit, Budget, Compile, Compiled, CompiledChain, ContextCandidate};
pub use config::{
    CheckpointWhen, Config, ConfigError, ConfigPlaces, Driver, Origin, RemoteSetting, RunSettings, ServeSettings,
    Setting, SettingValue, Template, Trust,
};
pub use current::{Agent, Current, CurrentBy};
pub use cursor::{CursorFilter, CursorView};
pub use database::{database_dir, is_database, make_database_dir, objects_of, shown_store};
pub use diff::{Difference, Side};
pub use doctor::{Check, Verdict};
pub use env::Env;
pub use error::ServiceError;
pub use exchange::{Import, ImportProblem};
pub use gc::{Candidate, GcPlan, GcRun};
pub use import::{
    ImportBounds, ImportIssue, ImportOptions, ImportProgress, Imported, KnownPart, Place, Runtime, SourceFile,
    SourceSecrets, SourceState, Started, arrange, files_in, known_places,
};
pub use link::{tags_of, tickets_of};
pub use list::{Filter, Page, Source};
pub use materialize::{Materialize, Materialized, NARRATIVE};
pub use naming::Expect;
pub use pack::{Exported, PackFrom, PackRecord, PackRequest, PackWarning, Packed};
pub use policy::{Policy, parse_ttl};
pub use read::Follow;
pub use repair::{RepairContext, RepairedContext};
pub use request::Request;
pub use resume::{
    FileState, LeftBehind, Replanted, ReplantedFile, Resume, ResumeError, Resumed, RuntimeHomes, Travels, project_slug,
};
pub use revision::RefView;
pub use sample::SAMPLE_THREAD;
pub use secrets::SecretPlace;
pub use snapshot::{Reach, Snapshot};
pub use status::{DiskUse, Status};
pub use summarize::{Endpoint, EndpointOptions, Key, REMAINING_MAX, Rule, Stopped, Summarised, Summarizer, Summary};
pub use sync::{AUDIT_KIND, FramePage, Received, SyncError, Want};
pub use tag::TagView;
pub use task::{
    TASK_OUTPUT_BYTES_MAX, TaskCommand, TaskError, TaskLog, TaskOrder, TaskRequest, TaskSignal, TaskSpec, TaskView,
};
pub use thread::{Post, Posted, RunId, ThreadOrigin, ThreadView};
pub use thread_error::ThreadError;
pub use thread_search::{HitPlace, ThreadEdge, ThreadHit, ThreadQuery};
pub use turn::{
    CommandTool, Denial, Effect, EndReason, EndedRun, Ending, McpServer, Means, Prices, Provider, ProviderOptions,
    RunView, ToolLimits, Toolbox, Turn, TurnEvent, Turned,
};
pub use watch::{WatchEvent, WatchOptions, WatchTell};
pub use workspace::{
    Forked, Interrupted, Rewind, RewindPlan, RewindTo, Rewound, Root, WorkspaceChange, WorkspaceCheckpoint,
    WorkspaceCheckpointed, WorkspaceContent, WorkspaceDiff, WorkspaceError, WorkspaceView,
};
pub use wrap::{Attendance, Wrap, Wrapped};

pub use enjamb_core::provider::Dialect;
pub use enjamb_ledger::Outcome;

pub type Result<T> = std::result::Result<T, ServiceError>;

/// A store that is open, and everything that can be done with it.
pub struct Store {
    ledger: Door,
    env: Env,
    cache: Cache,
}

/// Who does something, as frames record it.
#[derive(Clone, Debug)]
pub struct Actor {
    pub actor_id: String,
    pub origin: String,
}

/// The store itself, where nobody asked.
impl Default for Actor {
    fn default() -> Self {
        Self { actor_id: "enjamb".into(), origin: "enjamb".into() }
    }
}

impl Store {
    /// Opens the store in a directory.
    pub fn open(dir: &Path, env: Env) -> Result<Self> {
        Ok(Self { ledger: Engine::open(dir)?.into(), env, cache: Cache::of(dir) })
    }

    /// Opens the store in a directory, making it if there is none.
    pub fn create(dir: &Path, env: Env) -> Result<Self> {
        let ledger = Engine::create(dir, &env.new_id())?.into();
        Ok(Self { ledger, env, cache: Cache::of(dir) })
    }

    /// A store on an engine that is open already.
    pub fn over(ledger: SqliteLedger, env: Env) -> Self {
        let cache = Cache::of(ledger.dir());
        Self { ledger: Engine::from(ledger).into(), env, cache }
    }

    pub fn dir(&self) -> &Path {
        self.ledger.dir()
    }

    /// For a process that is about to end: leaves as it is what the next one would make again.
    pub fn leave(&self) {
        self.ledger.leave();
    }

    /// The engine underneath, for what measures or tests it.
    pub fn ledger(&self) -> &Engine {
        &self.ledger
    }
}

#[test]
fn what_is_left_out_on_postgres_is_there() {
    enjamb_testkit::home::check_left_out("enjamb-service");
}

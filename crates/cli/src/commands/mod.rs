//! The commands, one file each, and what they share: flags, the store, who is asking.

mod append;
mod artifacts;
mod backup;
mod bench;
mod bench_compile;
mod borrow;
mod bundle;
mod capture;
mod check;
mod checkpoint;
mod children;
mod clone;
mod compact;
mod compact_view;
mod compile;
mod completions;
mod config;
mod current;
mod cursor;
mod delivery;
mod demo;
mod diff;
mod discuss;
mod doctor;
mod endpoint;
mod export;
mod file;
mod filter;
mod fork;
mod frames;
mod gc;
mod get;
pub mod hook;
mod import;
mod init;
mod job;
mod link;
mod log;
mod maintain;
mod man;
mod materialize;
mod mcp;
mod merge_base;
mod note;
mod often;
mod pack;
mod partner;
mod pin;
mod private;
mod pull;
mod push;
mod put;
mod redact;
mod remote;
mod remotes;
mod render;
mod repair;
mod replant;
mod resolve;
mod restore;
mod resume;
mod resume_view;
mod run;
mod serve;
mod show;
mod status;
mod stores;
mod streams;
mod summarize;
mod sync_view;
mod tag;
mod task;
mod task_view;
mod thread;
mod thread_view;
mod tips;
mod token;
mod tool;
mod turn;
mod turn_there;
mod unpack;
mod upkeep;
mod verify;
mod watch;
mod workspace;
mod workspace_diff;
mod workspace_view;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::error::ErrorKind as ClapErrorKind;
use clap::{Args, Parser, Subcommand};
use enjamb_service::{
    Actor, Config, ConfigPlaces, DrainBounds, Env, MissedAt, ServiceError, Store, database_dir, is_database,
    make_database_dir, objects_of,
};

use crate::failure::{Exit, Failure, Result};
use crate::text::safe;
use crate::ui::{Output, Ui};

pub use often::often;

/// Keeps what your agents knew: durable, resumable, forkable, auditable.
#[derive(Parser)]
#[command(name = "enjamb", version, max_term_width = 100, disable_help_subcommand = true)]
#[command(
    after_help = "Without a command, enjamb shows the state of the store.\nTry it without touching anything: enjamb demo"
)]
pub struct Cli {
    #[command(flatten)]
    pub global: Global,
    #[command(subcommand)]
    pub command: Option<Command>,
}

/// Flags that mean the same everywhere.
#[derive(Args, Clone)]
pub struct Global {
    /// The store's directory, the server that has it (http://…, https://…, unix://…), or the database that it is in
    /// (postgres://…) [default: $ENJAMB_STORE,
    /// $XDG_DATA_HOME/enjamb or ~/.local/share/enjamb]
    #[arg(long, global = true, value_name = "DIR", display_order = 900)]
    pub store: Option<PathBuf>,
    /// Where the segments of a store in a database live, or those of another one as well: s3://bucket/prefix, or a
    /// directory. Said once, it is remembered [default, in a database: $ENJAMB_OBJECTS, objects.url]
    #[arg(long, global = true, value_name = "URL", display_order = 900)]
    pub objects: Option<String>,
    /// Print one JSON document, with a schema member
    #[arg(long, global = true, display_order = 901)]
    pub json: bool,
    /// Print only the answer
    #[arg(long, short, global = true, display_order = 902)]
    pub quiet: bool,
    /// Who does this, as frames record it
    #[arg(long, global = true, env = "ENJAMB_ACTOR", value_name = "NAME", default_value = "user", hide = true)]
    pub actor: String,
    /// Through what it is done, as frames record it
    #[arg(long, global = true, env = "ENJAMB_ORIGIN", value_name = "NAME", default_value = "cli", hide = true)]
    pub origin: String,
}

/// The arguments of a command are made when it is asked for: those of all others would be a quarter of what a short
/// command costs.
#[derive(Subcommand)]
#[command(defer = true)]
pub enum Command {
    /// Make a store
    Init(init::Init),
    /// Show the state of the store
    Status(status::Status),
    /// Copy in what agents wrote: every byte, as commits
    Import(import::Import),
    /// Give an imported file back as it was
    Export(export::Export),
    /// See which secrets are in what was imported
    Redact(redact::Redact),
    /// Have runtimes tell of new work as it is done
    #[command(subcommand)]
    #[command(after_help = "Example:\n  enjamb capture on\n  enjamb capture status\n  enjamb capture off")]
    Capture(capture::Capture),
    /// Take in what agents write, as they write it
    Watch(watch::Watch),
    /// Print the commit of the agent that asks
    Current(current::Current),
    /// Link a commit to a ticket, or list links
    Link(link::Link),
    /// Commit what an agent knows now
    Checkpoint(checkpoint::Checkpoint),
    /// Show history, newest first
    Log(log::Log),
    /// Show one commit
    Show(show::Show),
    /// List the commits that follow one
    Children(children::Children),
    /// List commits that none follows: the ends of branches
    Tips(tips::Tips),
    /// Find the commit where two histories part
    MergeBase(merge_base::MergeBase),
    /// Write the conversation that a chain of commits holds
    Materialize(materialize::Materialize),
    /// Go on from a commit in an agent: write a session that it loads
    Resume(resume::Resume),
    /// Start an agent from a context, and keep what it does as it does it
    Run(run::Run),
    /// Start the agent of a ticket from what it understood
    Discuss(discuss::Discuss),
    /// Say why a context would not load
    Check(check::Check),
    /// Write a fork of a context that loads
    Repair(repair::Repair),
    /// Put a session back that its runtime deleted
    Replant(replant::Replant),
    /// Name a commit to go on from
    Fork(fork::Fork),
    /// List names of commits
    Refs(fork::Refs),
    /// Files of a workspace: keep them, compare them, rewind them
    #[command(subcommand)]
    #[command(after_help = "Example:\n  enjamb workspace checkpoint\n  enjamb workspace diff\n  enjamb workspace list")]
    Workspace(workspace::Workspace),
    /// Commands in the background: run them, read them, end them
    #[command(subcommand)]
    #[command(after_help = "Example:\n  enjamb task run -- cargo test\n  enjamb task output 5d1c90ab --follow")]
    Task(task::Task),
    /// Compare two contexts
    Diff(diff::Diff),
    /// Say something about a commit
    Note(note::Note),
    /// Find what someone knew at some time
    Resolve(resolve::Resolve),
    /// Sum up commits that have no summary
    Summarize(summarize::Summarize),
    /// Threads: post to them, branch them, hand them over
    #[command(subcommand)]
    #[command(after_help = "Example:\n  enjamb thread ensure\n  enjamb thread post 5d1c90ab 'why is checkout slow?'")]
    Thread(thread::Thread),
    /// Compile what a run starts from
    Compile(compile::Compile),
    /// Write a compiled context as a provider takes it
    Render(render::Render),
    /// Look at compiled contexts
    #[command(subcommand)]
    #[command(after_help = "Example:\n  enjamb bundle show art-3f2a91")]
    Bundle(bundle::Bundle),
    /// Let a summary stand for what came before
    Compact(compact::Compact),
    /// Look at jobs, run them, or call them off
    #[command(subcommand)]
    #[command(after_help = "Example:\n  enjamb job list 5d1c90ab")]
    Job(job::Job),
    /// Look at providers' cursors, or drop them
    #[command(subcommand)]
    #[command(after_help = "Example:\n  enjamb cursor status 5d1c90ab")]
    Cursor(cursor::Cursor),
    /// Tools that models may call in runs
    #[command(subcommand)]
    #[command(after_help = "Example:\n  enjamb tool list")]
    Tool(tool::Tool),
    /// Pack sessions: messages and sources under one hash; list, show, verify and compare packs
    Pack(pack::Pack),
    /// Take in a pack that someone else made
    Unpack(unpack::Unpack),
    /// Append frames to a stream
    Append(append::Append),
    /// Read a stream, follow it, or exchange frames as files
    Frames(frames::Frames),
    /// List streams
    Streams(streams::Streams),
    /// Store bytes
    Put(put::Put),
    /// Get bytes back
    Get(get::Get),
    /// List artifacts
    Artifacts(artifacts::Artifacts),
    /// Name an artifact, or list names
    Tag(tag::Tag),
    /// Say how long an artifact is kept
    Pin(pin::Pin),
    /// Check every byte and every rule
    Verify(verify::Verify),
    /// Collect what nobody needs (shows the plan unless told to run)
    Gc(gc::Gc),
    /// Move cold bytes into compressed segments
    Maintain(maintain::Maintain),
    /// Copy the store while it is in use
    Backup(backup::Backup),
    /// Make a store from a backup
    Restore(restore::Restore),
    #[command(flatten)]
    Stores(stores::Stores),
    /// Serve the store: HTTP on this machine, and a unix socket
    Serve(serve::Serve),
    /// Tools for an agent, over stdin and stdout
    Mcp(mcp::Mcp),
    /// Tokens for those who use the server
    #[command(subcommand)]
    #[command(after_help = "Example:\n  enjamb token create --scope read")]
    Token(token::Token),
    /// Settings, and where they come from
    #[command(subcommand)]
    #[command(after_help = "Example:\n  enjamb config list --show-origin")]
    Config(config::Config),
    /// Look for trouble
    Doctor(doctor::Doctor),
    /// The whole story on a sample, in a store that is thrown away
    Demo(demo::Demo),
    /// Print shell completions
    Completions(completions::Completions),
    /// Print the manual page
    Man(man::Man),
    /// Spool what a runtime says (called by runtimes)
    #[command(hide = true)]
    Hook(hook::Hook),
    /// Measure (for the benchmark harness)
    #[command(hide = true)]
    Bench(bench::Bench),
}

/// What every command is given.
pub struct Context<'u> {
    pub ui: &'u mut Ui,
    pub global: Global,
}

impl Global {
    pub fn output(&self) -> Output {
        Output { json: self.json, quiet: self.quiet }
    }
}

impl Context<'_> {
    /// The store that was named, here or by the environment: a directory or an address.
    pub fn named_store(&self) -> Option<PathBuf> {
        self.global.store.clone().or_else(|| environment("ENJAMB_STORE"))
    }

    /// Where the store is, on this machine.
    pub fn store_dir(&self) -> Result<PathBuf> {
        if self.address().is_some() {
            return Err(Failure::Usage {
                message: "this works on a store on this machine, not through a server".into(),
                help: Some("run it where the store is, with --store DIR".into()),
            });
        }
        let homeless = || Failure::Usage {
            message: "there is no home directory to keep a store in".into(),
            help: Some("enjamb --store DIR …".into()),
        };
        let named = store_dir(self.global.store.clone()).ok_or_else(homeless)?;
        match named.to_str().filter(|text| is_database(text)) {
            None => {
                let is_said = self.global.objects.as_deref().map(|objects| objects_of(&named, objects)).transpose()?;
                match is_said {
                    Some(false) => Err(Failure::Usage {
                        message: format!("there is no store at {} that could have objects elsewhere", named.display()),
                        help: Some("enjamb init, and then the same again".into()),
                    }),
                    Some(true) | None => Ok(named),
                }
            }
            Some(address) => {
                let home = usual_store_dir().ok_or_else(homeless)?;
                let objects = match &self.global.objects {
                    Some(objects) => Some(objects.clone()),
                    None => self.config()?.objects(),
                };
                Ok(make_database_dir(&home, address, objects.as_deref())?)
            }
        }
    }

    /// The store, which must be there, with what hooks have spooled for it.
    pub fn open(&self) -> Result<Store> {
        let store = Store::open(&self.store_dir()?, Env::system())?;
        self.drain_in_passing(&store);
        Ok(store)
    }

    /// The store, made if it is not there: a first write needs nothing set up.
    pub fn open_or_create(&self) -> Result<Store> {
        let store = Store::create(&self.store_dir()?, Env::system())?;
        self.drain_in_passing(&store);
        Ok(store)
    }

    /// Takes in what little hooks have spooled. Whoever runs a command asked for something else: what fails stays in the
    /// spool, and `status` shows it.
    fn drain_in_passing(&self, store: &Store) {
        let _ = store.drain(&import::of_hooks(), DrainBounds::IN_PASSING);
        let _ = store.settle_runs(&Actor { actor_id: "enjamb".into(), origin: "run".into() });
        self.end_dead_runs(store);
        // So do tasks whose supervisors were killed: what cannot be recorded now is found again.
        let _ = store.end_lost_tasks();
    }

    /// The settings that hold here.
    pub fn config(&self) -> Result<Config> {
        let config = Config::load(&Self::config_places()?, &|name| std::env::var_os(name));
        Ok(config.map_err(ServiceError::from)?)
    }

    /// Where settings are looked for.
    pub fn config_places() -> Result<ConfigPlaces> {
        let here = std::env::current_dir().map_err(|source| ServiceError::File { path: ".".into(), source })?;
        Ok(ConfigPlaces::of(&environment, here))
    }

    /// Ends runs whose process is gone, and says so. What fails is tried again by the next command.
    fn end_dead_runs(&self, store: &Store) {
        for ended in store.end_dead_runs().unwrap_or_default() {
            self.ui.aside(&format!("run {} was cut off: it is ended as interrupted, and what came is kept", ended.run));
        }
    }

    pub fn actor(&self) -> Actor {
        let or = |given: &str, other: &str| if given.is_empty() { other.to_owned() } else { given.to_owned() };
        Actor { actor_id: or(&self.global.actor, "user"), origin: or(&self.global.origin, "cli") }
    }
}

/// Where the store is: as given, as the environment says, or in the home directory.
fn store_dir(given: Option<PathBuf>) -> Option<PathBuf> {
    given.or_else(|| environment("ENJAMB_STORE")).or_else(usual_store_dir)
}

/// As given, or the directory of the database whose address was given.
fn resolved(store: PathBuf) -> Option<PathBuf> {
    match store.to_str().filter(|text| is_database(text)) {
        None => Some(store),
        Some(address) => database_dir(&usual_store_dir()?, address).ok(),
    }
}

/// Where the store is if nobody says.
fn usual_store_dir() -> Option<PathBuf> {
    let data = environment("XDG_DATA_HOME").or_else(|| Some(environment("HOME")?.join(".local/share")));
    Some(data?.join("enjamb"))
}

/// A variable of the environment that says something.
fn environment(name: &str) -> Option<PathBuf> {
    std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from)
}

/// Where hooks of a store note what they missed.
fn missed_at(store: &Path) -> MissedAt {
    MissedAt::new(store, enjamb_service::missed_elsewhere(&environment, &std::env::temp_dir()))
}

pub fn run(cli: Cli, ui: &mut Ui) -> Result<Exit> {
    let mut context = Context { ui, global: cli.global };
    let context = &mut context;
    match cli.command.unwrap_or(Command::Status(status::Status::default())) {
        Command::Init(init) => init.run(context),
        Command::Status(status) => status.run(context),
        Command::Import(import) => import.run(context),
        Command::Export(export) => export.run(context),
        Command::Redact(redact) => redact.run(context),
        Command::Capture(capture) => capture.run(context),
        Command::Watch(watch) => watch.run(context),
        Command::Current(current) => current.run(context),
        Command::Link(link) => link.run(context),
        Command::Checkpoint(checkpoint) => checkpoint.run(context),
        Command::Log(log) => log.run(context),
        Command::Show(show) => show.run(context),
        Command::Children(children) => children.run(context),
        Command::Tips(tips) => tips.run(context),
        Command::MergeBase(merge_base) => merge_base.run(context),
        Command::Materialize(materialize) => materialize.run(context),
        Command::Check(check) => check.run(context),
        Command::Repair(repair) => repair.run(context),
        Command::Resume(resume) => resume.run(context),
        Command::Run(run) => run.run(context),
        Command::Discuss(discuss) => discuss.run(context),
        Command::Replant(replant) => replant.run(context),
        Command::Fork(fork) => fork.run(context),
        Command::Refs(refs) => refs.run(context),
        Command::Workspace(workspace) => workspace.run(context),
        Command::Task(task) => task.run(context),
        Command::Diff(diff) => diff.run(context),
        Command::Note(note) => note.run(context),
        Command::Resolve(resolve) => resolve.run(context),
        Command::Summarize(summarize) => summarize.run(context),
        Command::Thread(thread) => thread.run(context),
        Command::Compile(compile) => compile.run(context),
        Command::Render(render) => render.run(context),
        Command::Bundle(bundle) => bundle.run(context),
        Command::Compact(compact) => compact.run(context),
        Command::Job(job) => job.run(context),
        Command::Cursor(cursor) => cursor.run(context),
        Command::Tool(tool) => tool.run(context),
        Command::Pack(pack) => pack.run(context),
        Command::Unpack(unpack) => unpack.run(context),
        Command::Append(append) => append.run(context),
        Command::Frames(frames) => frames.run(context),
        Command::Streams(streams) => streams.run(context),
        Command::Put(put) => put.run(context),
        Command::Get(get) => get.run(context),
        Command::Artifacts(artifacts) => artifacts.run(context),
        Command::Tag(tag) => tag.run(context),
        Command::Pin(pin) => pin.run(context),
        Command::Verify(verify) => verify.run(context),
        Command::Gc(gc) => gc.run(context),
        Command::Maintain(maintain) => maintain.run(context),
        Command::Backup(backup) => backup.run(context),
        Command::Restore(restore) => restore.run(context),
        Command::Stores(stores) => stores.run(context),
        Command::Serve(serve) => serve.run(context),
        Command::Mcp(mcp) => mcp.run(context),
        Command::Token(token) => token.run(context),
        Command::Config(config) => config.run(context),
        Command::Doctor(doctor) => doctor.run(context),
        Command::Demo(demo) => demo.run(context),
        Command::Completions(completions) => completions.run(context),
        Command::Man(man) => man.run(context),
        Command::Hook(hook) => hook.run(context),
        Command::Bench(bench) => bench.run(context),
    }
}

/// What clap has to say: help and version are answers, anything else is a mistake.
pub fn usage(error: &clap::Error) -> ExitCode {
    let text = error.render().to_string();
    let shown = safe(&text);
    let is_answer = matches!(error.kind(), ClapErrorKind::DisplayHelp | ClapErrorKind::DisplayVersion);
    if !is_answer && std::env::args_os().any(|argument| argument == "--json") {
        return mistake(&text).report(&Ui::new(Output { json: true, quiet: false }));
    }
    // What was typed is said again, and may be hostile. Nobody is left to tell if the output is closed.
    let _ = if shown == text { error.print() } else { writeln!(anstream::stderr(), "{}", shown.trim_end()) };
    if is_answer { ExitCode::SUCCESS } else { ExitCode::from(2) }
}

/// A mistake as a failure: clap's first paragraph says what it is, and its tips what to do.
fn mistake(text: &str) -> Failure {
    let paragraph: Vec<_> = text.lines().take_while(|line| !line.is_empty()).map(str::trim).collect();
    let tip = text.lines().find_map(|line| line.trim_start().strip_prefix("tip: "));
    let message = paragraph.join(" ");
    let message = message.strip_prefix("error: ").unwrap_or(&message).to_owned();
    Failure::Usage { message, help: tip.map(str::to_owned) }
}

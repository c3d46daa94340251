//! `enjamb thread`, with its verbs

use std::io::Read;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use enjamb_core::thread::Selector;
use enjamb_service::{Handoff, Post, RunId, ServiceError, Store, ThreadError, ThreadQuery, Turn};
use serde_json::{Value, json};

use super::Context;
use super::thread_view::{
    child_json, decision_json, decision_table, edge_json, edge_table, hit_json, hit_table, print_thread, thread_json,
    thread_table,
};
use super::turn::{self, RunArgs};
use crate::failure::{Exit, Failure, Result};

#[derive(Subcommand)]
pub enum Thread {
    /// The thread of a workspace, made if there is none
    #[command(after_help = "Example:\n  enjamb thread ensure\n  enjamb thread ensure --workspace ~/src/shop")]
    Ensure(Begin),
    /// Begin a thread
    #[command(after_help = "Example:\n  enjamb thread create --title 'slow checkout'")]
    Create(Begin),
    /// List threads in the order in which they were begun
    #[command(after_help = "Example:\n  enjamb thread list\n  enjamb thread list --tag urgent --archived")]
    List {
        /// Also those put away
        #[arg(long)]
        archived: bool,
        /// Only those with this tag
        #[arg(long)]
        tag: Option<String>,
    },
    /// Show one thread
    #[command(after_help = "Example:\n  enjamb thread get 5d1c90ab")]
    Get { thread: String },
    /// Post a message
    #[command(after_help = "Example:\n  enjamb thread post 5d1c90ab 'why is checkout slow?'\n  \
        enjamb thread post 5d1c90ab --run - < question.md\n\n\
        With --run the thread is compiled, the provider is asked, and its answer is shown as it comes and kept as frames. \
        A key is read from ENJAMB_ENDPOINT_KEY and kept nowhere. Ctrl-C ends the run; what came is kept.")]
    Post(PostArgs),
    /// Print a thread's frames, or follow them
    #[command(after_help = "Example:\n  enjamb thread events 5d1c90ab\n  enjamb thread events 5d1c90ab --follow")]
    Events {
        thread: String,
        /// Begin at this seq
        #[arg(long, default_value_t = 0, value_name = "SEQ")]
        from: u64,
        /// At most so many
        #[arg(short = 'n', long, value_name = "COUNT")]
        limit: Option<u64>,
        /// Go on as the thread grows
        #[arg(long, short)]
        follow: bool,
    },
    /// Go on from a thread in a new one; nothing is copied
    #[command(after_help = "Example:\n  enjamb thread branch 5d1c90ab --at-seq 12 --title 'other way'")]
    Branch {
        thread: String,
        #[command(flatten)]
        at: At,
        #[arg(long)]
        title: Option<String>,
    },
    /// Begin a thread with what another hands over
    #[command(after_help = "Example:\n  enjamb thread handoff 5d1c90ab --summary 'two sleeps, cap retries at 3'")]
    Handoff {
        thread: String,
        #[command(flatten)]
        at: At,
        #[arg(long)]
        title: Option<String>,
        /// What is handed over, in words
        #[arg(long, value_name = "MARKDOWN")]
        summary: Option<String>,
        /// What is handed over, as a handoff bundle that is stored
        #[arg(long, value_name = "ARTIFACT")]
        artifact: Option<String>,
    },
    /// Bring messages of another thread into this one
    #[command(after_help = "Example:\n  enjamb thread reference 5d1c90ab 77c0aa12 --last 4")]
    Reference {
        /// The thread that refers
        thread: String,
        /// The thread referred to
        other: String,
        #[command(flatten)]
        at: At,
        /// So many messages, up to where it is cut
        #[arg(long, default_value_t = 16, value_name = "COUNT")]
        last: usize,
    },
    /// Put a thread away
    #[command(after_help = "Example:\n  enjamb thread archive 5d1c90ab\n  enjamb thread archive 5d1c90ab --undo")]
    Archive {
        thread: String,
        /// Take it out again
        #[arg(long)]
        undo: bool,
    },
    /// Tag a thread
    #[command(after_help = "Example:\n  enjamb thread tag 5d1c90ab urgent shop --remove new")]
    Tag {
        thread: String,
        add: Vec<String>,
        /// Tags to take away
        #[arg(long, value_name = "TAG")]
        remove: Vec<String>,
    },
    /// Pin a message, so that contexts with a budget always hold it
    #[command(after_help = "Example:\n  enjamb thread pin 5d1c90ab 1b6eecb2\n  enjamb thread pin 5d1c90ab")]
    Pin {
        thread: String,
        /// The message; without it, all pins are listed
        message: Option<String>,
        /// Let it go
        #[arg(long, requires = "message")]
        undo: bool,
    },
    /// Find messages by how their words begin, or threads by the files that were touched
    #[command(after_help = "Example:\n  enjamb thread search retry jitter\n  enjamb thread search --file src/pay")]
    Search {
        #[arg(required_unless_present = "file", conflicts_with = "file")]
        words: Vec<String>,
        /// A file or a directory that tools changed
        #[arg(long, value_name = "PATH")]
        file: Option<String>,
        /// At most so many
        #[arg(short = 'n', long, default_value_t = 50, value_name = "COUNT")]
        limit: usize,
    },
    /// List what was decided for the contexts of runs, the last first
    #[command(after_help = "Example:\n  enjamb thread decisions 5d1c90ab -n 3")]
    Decisions {
        thread: String,
        /// At most so many, and at most 50
        #[arg(short = 'n', long, default_value_t = 10, value_name = "COUNT")]
        limit: usize,
    },
    /// Show how threads hang together
    #[command(after_help = "Example:\n  enjamb thread map --json")]
    Map,
}

#[derive(Args)]
pub struct Begin {
    /// Where the work is [default: the current directory]
    #[arg(long, value_name = "DIR")]
    workspace: Option<PathBuf>,
    #[arg(long)]
    title: Option<String>,
}

#[derive(Args)]
pub struct PostArgs {
    thread: String,
    /// What to say; - or nothing reads stdin
    message: Option<String>,
    /// Also ask a model for an answer; the run has this id or a fresh one
    #[arg(long, value_name = "ID", num_args = 0..=1, require_equals = true)]
    run: Option<Option<String>>,
    /// Also say that a run starts for it elsewhere, under this id or a fresh one
    #[arg(long, value_name = "ID", num_args = 0..=1, require_equals = true, conflicts_with = "run")]
    spawn: Option<Option<String>>,
    /// Makes a retry of this post answer as the first did
    #[arg(long, value_name = "KEY")]
    key: Option<String>,
    #[command(flatten)]
    with: RunArgs,
}

/// Where a thread is cut.
#[derive(Args)]
pub struct At {
    /// After this message and what its runs came to
    #[arg(long, value_name = "ID")]
    at_message: Option<String>,
    /// After this frame
    #[arg(long, value_name = "SEQ")]
    at_seq: Option<u64>,
}

impl At {
    pub fn selector(self) -> Result<Selector> {
        Ok(Selector::of(self.at_message, self.at_seq).ok_or(ServiceError::Thread(ThreadError::BothSelectors))?)
    }
}

impl Thread {
    pub fn run(self, context: &mut Context<'_>) -> Result<Exit> {
        match self {
            Self::Ensure(begin) => begin.run(context, true),
            Self::Create(begin) => begin.run(context, false),
            Self::List { archived, tag } => list(context, archived, tag.as_deref()),
            Self::Get { thread } => {
                let store = context.open()?;
                let view = store.thread(&store.resolve_thread(&thread)?)?;
                print_thread(context, "thread", &view)
            }
            Self::Post(post) => post.run(context),
            Self::Events { thread, from, limit, follow } => {
                let store = context.open()?;
                let stream = store.resolve_thread(&thread)?;
                super::frames::read_stream(context, &store, &stream, from, limit, follow)
            }
            Self::Search { words, file, limit } => search(context, &words, file, limit),
            Self::Decisions { thread, limit } => decisions(context, &thread, limit),
            Self::Map => map(context),
            other => other.change(context),
        }
    }

    /// Verbs that say something of a thread that is there.
    fn change(self, context: &mut Context<'_>) -> Result<Exit> {
        let store = context.open()?;
        let by = context.actor();
        match self {
            Self::Branch { thread, at, title } => {
                let child = store.branch_thread(&store.resolve_thread(&thread)?, &at.selector()?, title, &by)?;
                answer(context, "thread_branch", child_json(&child), &child.thread.id)
            }
            Self::Handoff { thread, at, title, summary, artifact } => {
                let artifact = artifact.map(|text| store.resolve_artifact(&text)).transpose()?;
                let handoff = Handoff { markdown: summary, artifact };
                let thread = store.resolve_thread(&thread)?;
                let child = store.handoff_thread(&thread, &at.selector()?, title, handoff, &by)?;
                answer(context, "thread_handoff", child_json(&child), &child.thread.id)
            }
            Self::Reference { thread, other, at, last } => {
                let (thread, other) = (store.resolve_thread(&thread)?, store.resolve_thread(&other)?);
                let done = store.reference_thread(&thread, &other, &at.selector()?, last, &by)?;
                let extract = done.extract.to_string();
                let value = json!({"thread_id": thread.id, "to_thread_id": other.id, "seq": done.seq, "extract": extract, "messages": done.messages});
                answer(context, "thread_reference", value, &extract)
            }
            Self::Archive { thread, undo } => {
                let view = store.archive_thread(&store.resolve_thread(&thread)?, !undo, &by)?;
                print_thread(context, "thread", &view)
            }
            Self::Tag { thread, add, remove } => {
                if add.is_empty() && remove.is_empty() {
                    return Err(Failure::usage("which tags? name some, or --remove some"));
                }
                let view = store.tag_thread(&store.resolve_thread(&thread)?, add, remove, &by)?;
                print_thread(context, "thread", &view)
            }
            Self::Pin { thread, message, undo } => pin(context, &store, &thread, message, undo),
            _ => unreachable!("the other verbs were taken before"),
        }
    }
}

impl Begin {
    fn run(self, context: &mut Context<'_>, ensure: bool) -> Result<Exit> {
        let workspace = match self.workspace {
            Some(dir) => dir,
            None => std::env::current_dir().map_err(|source| ServiceError::File { path: ".".into(), source })?,
        };
        let workspace = workspace.to_string_lossy();
        let store = context.open_or_create()?;
        let (stream, made) = if ensure {
            store.ensure_thread(&workspace, self.title)?
        } else {
            (store.create_thread(&workspace, self.title)?, true)
        };
        let mut value = thread_json(&store.thread(&stream)?);
        value["created"] = made.into();
        answer(context, "thread", value, &stream.id)
    }
}

impl PostArgs {
    fn run(self, context: &mut Context<'_>) -> Result<Exit> {
        // Whom to ask is known before anything is read or posted.
        let provider = self.run.is_some().then(|| self.with.provider()).transpose()?;
        let store = context.open()?;
        let thread = store.resolve_thread(&self.thread)?;
        let content = match self.message.filter(|message| message != "-") {
            Some(message) => message,
            None => read_words()?,
        };
        if let Some(provider) = provider {
            let (run, idempotency_key) = (self.run.flatten(), self.key);
            let turn = Turn { content, run, idempotency_key, ..Turn::default() };
            return turn::run(context, &store, &thread, &turn, &provider);
        }
        let run = self.spawn.map(|run| run.map_or(RunId::New, RunId::Given));
        let posted = store.post(&thread, Post { content, run, idempotency_key: self.key }, &context.actor())?;
        let value = json!({
            "thread_id": thread.id, "message_id": posted.message, "seq": posted.seq, "run": posted.run,
            "replayed": posted.replayed,
        });
        let text = match &posted.run {
            Some(run) => format!("{}\t{}\t{run}", posted.message, posted.seq),
            None => format!("{}\t{}", posted.message, posted.seq),
        };
        answer(context, "thread_post", value, &text)
    }
}

/// Words from stdin, without the line break at their end.
pub fn read_words() -> Result<String> {
    let mut text = String::new();
    let read = std::io::stdin().lock().read_to_string(&mut text);
    read.map_err(|source| ServiceError::File { path: "the input".into(), source })?;
    Ok(text.strip_suffix('\n').unwrap_or(&text).to_owned())
}

/// One line for a person, one document for a program.
fn answer(context: &mut Context<'_>, schema: &str, value: Value, text: &str) -> Result<Exit> {
    if context.ui.is_json() {
        context.ui.json(schema, value)?;
    } else {
        context.ui.answer(text)?;
    }
    Ok(Exit::Done)
}

fn list(context: &mut Context<'_>, archived: bool, tag: Option<&str>) -> Result<Exit> {
    let mut threads = context.open()?.threads()?;
    threads.retain(|view| archived || !view.archived);
    threads.retain(|view| tag.is_none_or(|tag| view.tags.iter().any(|name| name == tag)));
    if context.ui.is_json() {
        let rows: Vec<_> = threads.iter().map(thread_json).collect();
        context.ui.json("threads", json!({"threads": rows}))?;
    } else {
        context.ui.table(&thread_table(&threads))?;
    }
    Ok(Exit::Done)
}

fn pin(context: &mut Context<'_>, store: &Store, thread: &str, message: Option<String>, undo: bool) -> Result<Exit> {
    let thread = store.resolve_thread(thread)?;
    if let Some(message) = message {
        store.pin_message(&thread, &message, !undo, &context.actor())?;
    }
    let pinned = store.pinned_messages(&thread)?;
    if context.ui.is_json() {
        context.ui.json("thread_pins", json!({"thread_id": thread.id, "pinned": pinned}))?;
    } else {
        for message in pinned {
            context.ui.answer(message)?;
        }
    }
    Ok(Exit::Done)
}

fn search(context: &mut Context<'_>, words: &[String], file: Option<String>, limit: usize) -> Result<Exit> {
    let query = file.map_or_else(|| ThreadQuery::Text(words.join(" ")), ThreadQuery::File);
    let hits = context.open()?.search_threads(&query, limit)?;
    if context.ui.is_json() {
        let rows: Vec<_> = hits.iter().map(hit_json).collect();
        context.ui.json("thread_search", json!({"hits": rows}))?;
    } else {
        context.ui.table(&hit_table(&hits))?;
    }
    Ok(if hits.is_empty() { Exit::No } else { Exit::Done })
}

fn decisions(context: &mut Context<'_>, thread: &str, limit: usize) -> Result<Exit> {
    let store = context.open()?;
    let thread = store.resolve_thread(thread)?;
    let decisions = store.decisions(&thread, limit)?;
    if context.ui.is_json() {
        let rows: Vec<_> = decisions.iter().map(decision_json).collect();
        context.ui.json("thread_decisions", json!({"thread_id": thread.id, "decisions": rows}))?;
    } else {
        context.ui.table(&decision_table(&decisions))?;
    }
    Ok(Exit::Done)
}

fn map(context: &mut Context<'_>) -> Result<Exit> {
    let store = context.open()?;
    let edges = store.thread_edges()?;
    if context.ui.is_json() {
        let nodes: Vec<_> = store.threads()?.iter().map(thread_json).collect();
        let edges: Vec<_> = edges.iter().map(edge_json).collect();
        context.ui.json("thread_map", json!({"threads": nodes, "edges": edges}))?;
    } else {
        context.ui.table(&edge_table(&edges))?;
    }
    Ok(Exit::Done)
}

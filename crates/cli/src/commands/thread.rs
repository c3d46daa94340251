//! `enjamb thread`, with its verbs

use std::io::Read;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use enjamb_core::limits;
use enjamb_server::{Operations, view};
use enjamb_service::{ServiceError, Turn};
use serde_json::{Value, json};

use super::Context;
use super::show::as_json;
use super::thread_view::{decision_table, edge_table, hit_table, print_thread, thread_table};
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
        enjamb thread post 5d1c90ab --run --budget 20000 - < question.md\n\n\
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
    pub at_message: Option<String>,
    /// After this frame
    #[arg(long, value_name = "SEQ")]
    pub at_seq: Option<u64>,
}

impl Thread {
    pub fn run(self, context: &mut Context<'_>) -> Result<Exit> {
        match self {
            Self::Ensure(begin) => begin.run(context, true),
            Self::Create(begin) => begin.run(context, false),
            Self::List { archived, tag } => list(context, archived, tag.as_deref()),
            Self::Get { thread } => {
                let found: view::Thread = context.operations()?.call("thread", json!({"thread": thread}))?;
                print_thread(context, &found)
            }
            Self::Post(post) => post.run(context),
            Self::Events { thread, from, limit, follow } => {
                let found: view::Thread = context.operations()?.call("thread", json!({"thread": thread}))?;
                let stream = format!("continuity/{}", found.thread_id).parse().map_err(ServiceError::Stream)?;
                super::frames::read_stream(context, &stream, from, limit, follow)
            }
            Self::Search { words, file, limit } => search(context, &words, file, limit),
            Self::Decisions { thread, limit } => decisions(context, &thread, limit),
            Self::Map => map(context),
            other => other.change(context),
        }
    }

    /// Verbs that say something of a thread that is there.
    fn change(self, context: &mut Context<'_>) -> Result<Exit> {
        let operations = context.operations()?;
        match self {
            Self::Branch { thread, at, title } => {
                let asked =
                    json!({"thread": thread, "title": title, "from_message_id": at.at_message, "from_seq": at.at_seq});
                let child: view::Child = operations.call("branch", asked)?;
                answer(context, "thread_branch", as_json(&child), &child.thread_id)
            }
            Self::Handoff { thread, at, title, summary, artifact } => {
                let asked = json!({
                    "thread": thread, "title": title, "from_message_id": at.at_message, "from_seq": at.at_seq,
                    "summary_markdown": summary, "summary_artifact": artifact,
                });
                let child: view::Child = operations.call("handoff", asked)?;
                answer(context, "thread_handoff", as_json(&child), &child.thread_id)
            }
            Self::Reference { thread, other, at, last } => {
                let asked = json!({
                    "thread": thread, "other": other, "from_message_id": at.at_message, "from_seq": at.at_seq,
                    "last": last,
                });
                let done: view::Reference = operations.call("reference", asked)?;
                answer(context, "thread_reference", as_json(&done), &done.extract)
            }
            Self::Archive { thread, undo } => {
                let view = operations.call("update_thread", json!({"thread": thread, "archived": !undo}))?;
                print_thread(context, &view)
            }
            Self::Tag { thread, add, remove } => {
                if add.is_empty() && remove.is_empty() {
                    return Err(Failure::usage("which tags? name some, or --remove some"));
                }
                let asked = json!({"thread": thread, "add_tags": add, "remove_tags": remove});
                print_thread(context, &operations.call("update_thread", asked)?)
            }
            Self::Pin { thread, message, undo } => pin(context, &operations, &thread, message, undo),
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
        let asked = json!({"workspace": workspace.to_string_lossy(), "title": self.title, "ensure": ensure});
        let made: view::Thread = context.operations_or_create()?.call("create_thread", asked)?;
        answer(context, "thread", as_json(&made), &made.thread_id)
    }
}

impl PostArgs {
    fn run(self, context: &mut Context<'_>) -> Result<Exit> {
        if self.run.is_some() {
            return self.take_turn(context);
        }
        let operations = context.operations()?;
        let content = match self.message.filter(|message| message != "-") {
            Some(message) => message,
            None => read_words()?,
        };
        let asked = json!({
            "thread": self.thread, "content": content, "run": self.spawn.is_some(), "run_id": self.spawn.flatten(),
        });
        let headers: Vec<_> = self.key.as_deref().map(|key| ("idempotency-key", key)).into_iter().collect();
        let posted: view::PostedMessage = operations.call_with("post", asked, &headers)?;
        let text = match &posted.run {
            Some(run) => format!("{}\t{}\t{run}", posted.message_id, posted.seq),
            None => format!("{}\t{}", posted.message_id, posted.seq),
        };
        answer(context, "thread_post", as_json(&posted), &text)
    }

    /// Posts, and asks a model here. Whom to ask is known before anything is read or posted.
    fn take_turn(self, context: &mut Context<'_>) -> Result<Exit> {
        let config = context.config()?;
        let provider = self.with.provider(config.clone())?;
        let store = context.open()?;
        let thread = store.resolve_thread(&self.thread)?;
        let content = match self.message.filter(|message| message != "-") {
            Some(message) => message,
            None => read_words()?,
        };
        let turn = Turn { content, run: self.run.flatten(), idempotency_key: self.key, ..Turn::default() };
        turn::run(context, &store, &thread, &turn, &turn::Asked { provider, config })
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
    let operations = context.operations()?;
    let mut threads = Vec::new();
    let mut cursor: Option<String> = None;
    loop {
        let asked = json!({"archived": archived, "tag": tag, "limit": limits::PAGE_ROWS_MAX, "cursor": cursor});
        let page: view::Threads = operations.call("threads", asked)?;
        threads.extend(page.threads);
        cursor = page.next;
        if cursor.is_none() {
            break;
        }
    }
    if context.ui.is_json() {
        context.ui.json("threads", json!({"threads": threads}))?;
    } else {
        context.ui.table(&thread_table(&threads))?;
    }
    Ok(Exit::Done)
}

fn pin(
    context: &mut Context<'_>,
    operations: &Operations,
    thread: &str,
    message: Option<String>,
    undo: bool,
) -> Result<Exit> {
    let operation = match (&message, undo) {
        (None, _) => "pins",
        (Some(_), false) => "pin_message",
        (Some(_), true) => "unpin_message",
    };
    let pins: view::Pins = operations.call(operation, json!({"thread": thread, "message": message}))?;
    if context.ui.is_json() {
        context.ui.json("thread_pins", as_json(&pins))?;
    } else {
        for message in pins.pinned {
            context.ui.answer(message)?;
        }
    }
    Ok(Exit::Done)
}

fn search(context: &mut Context<'_>, words: &[String], file: Option<String>, limit: usize) -> Result<Exit> {
    let words = file.is_none().then(|| words.join(" "));
    let operations = context.operations()?;
    let mut found = view::Hits { hits: Vec::new(), next: None };
    loop {
        let left = limit.saturating_sub(found.hits.len()).min(limits::PAGE_ROWS_MAX);
        let asked = json!({"q": words, "file": file, "limit": left, "cursor": found.next});
        let page: view::Hits = operations.call("search_threads", asked)?;
        found.hits.extend(page.hits);
        found.next = page.next;
        if found.next.is_none() || found.hits.len() >= limit {
            break;
        }
    }
    if context.ui.is_json() {
        context.ui.json("thread_search", as_json(&found))?;
    } else {
        context.ui.table(&hit_table(&found.hits))?;
    }
    Ok(if found.hits.is_empty() { Exit::No } else { Exit::Done })
}

fn decisions(context: &mut Context<'_>, thread: &str, limit: usize) -> Result<Exit> {
    let asked = json!({"thread": thread, "limit": limit});
    let found: view::Decisions = context.operations()?.call("decisions", asked)?;
    if context.ui.is_json() {
        context.ui.json("thread_decisions", as_json(&found))?;
    } else {
        context.ui.table(&decision_table(&found.decisions))?;
    }
    Ok(Exit::Done)
}

fn map(context: &mut Context<'_>) -> Result<Exit> {
    let map: view::ThreadMap =
        context.operations()?.call("thread_map", json!({"edges_only": !context.ui.is_json()}))?;
    if context.ui.is_json() {
        context.ui.json("thread_map", as_json(&map))?;
    } else {
        context.ui.table(&edge_table(&map.edges))?;
    }
    Ok(Exit::Done)
}

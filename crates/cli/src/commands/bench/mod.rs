//! `enjamb bench`: our side of the benchmark harness. The last line is JSON with `seconds`, `n` and latencies.

mod chain;
mod follow;
mod load;
mod server;
mod turn;
mod workspace;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::{Args, Subcommand};
use enjamb_core::frame::Draft;
use enjamb_core::{StreamId, StreamKind, Timestamp};
use enjamb_ledger::{Batch, Ledger, NewFrame};
use enjamb_service::{ServiceError, Store};
use serde_json::json;

use super::Context;
use super::status::now_ms;
use crate::failure::{Exit, Failure, Result};
use turn::cpu_seconds;

#[derive(Args)]
pub struct Bench {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Durable commits, one after the other in each chain: delta and metadata with one sync
    Append {
        /// A file of deltas, each after its length as u32 little-endian
        #[arg(long)]
        frames: PathBuf,
        #[arg(long)]
        n: usize,
        #[arg(long, default_value_t = 1)]
        writers: usize,
        /// Each as one frame that says the delta, instead of a commit
        #[arg(long)]
        plain: bool,
    },
    /// A chain of deltas, or one that goes on from a commit; prints its tip
    Chain {
        /// A file of deltas, each after its length as u32 little-endian
        #[arg(long)]
        frames: PathBuf,
        #[arg(long, default_value_t = usize::MAX)]
        n: usize,
        #[arg(long, default_value = "bench")]
        principal: String,
        #[arg(long)]
        parent: Option<String>,
    },
    /// Many commits on one parent
    Fork {
        #[arg(long, default_value_t = 10_000)]
        n: usize,
    },
    /// What a principal with many commits knew at some instant, asked again and again
    Resolve {
        #[arg(long, default_value_t = 1_000_000)]
        n: usize,
        #[arg(long, default_value_t = 10_000)]
        questions: usize,
    },
    /// Small frames in many streams, to see what listings cost
    Fill {
        #[arg(long, default_value_t = 1_000_000)]
        frames: u64,
        #[arg(long, default_value_t = 10_000)]
        streams: u64,
    },
    /// Contexts of a long thread
    Compile {
        #[arg(long, default_value_t = 1_000_000)]
        messages: u64,
        #[arg(long, default_value_t = 200)]
        times: usize,
    },
    /// Clients of a server that append 1 KB durably
    Serve {
        #[arg(long, default_value_t = 64)]
        clients: usize,
        #[arg(long, default_value_t = 20)]
        seconds: u64,
        /// A server that is there already, instead of one of ours
        #[arg(long, value_name = "ADDRESS:PORT")]
        at: Option<String>,
    },
    /// How soon followers of a server know, and what they cost
    Follow {
        #[arg(long, default_value_t = 2_000)]
        followers: usize,
        /// So many of them take nothing
        #[arg(long, default_value_t = 200)]
        stuck: usize,
    },
    /// Turns with a provider that sends many events
    Run {
        #[arg(long)]
        endpoint: String,
        #[arg(long, default_value_t = 100_000)]
        events: u64,
        #[arg(long, default_value_t = 1)]
        turns: u64,
    },
    /// Checkpoints of a workspace of which few files change
    Workspace {
        /// An empty directory for the workspace
        #[arg(long)]
        dir: PathBuf,
        #[arg(long, default_value_t = 50_000)]
        files: usize,
        #[arg(long, default_value_t = 10)]
        changed: usize,
        #[arg(long, default_value_t = 21)]
        times: usize,
    },
    /// Every frame of a long thread, checked and decoded
    Replay {
        #[arg(long, default_value_t = 333_333)]
        messages: u64,
    },
}

impl Bench {
    pub fn run(self, context: &mut Context<'_>) -> Result<Exit> {
        let store = context.open_or_create()?;
        let result = match &self.what {
            What::Append { frames, n, writers, plain } => {
                let write = if *plain { write_frames } else { write_chain };
                append(&store, &read_deltas(frames)?, *n, *writers, write)?
            }
            What::Chain { frames, n, principal, parent } => {
                let deltas = read_deltas(frames)?;
                let parent = parent.as_deref().map(|word| store.revision(word)).transpose()?;
                chain::grow(&store, &deltas[..deltas.len().min(*n)], principal, parent)?
            }
            What::Fork { n } => chain::fork(&store, *n)?,
            What::Resolve { n, questions } => chain::resolve(&store, *n, *questions)?,
            What::Fill { frames, streams } => fill(&store, *frames, *streams)?,
            What::Compile { messages, times } => super::bench_compile::compile(&store, *messages, *times)?,
            What::Serve { clients, seconds, at } => {
                let ours = || server::Serving::start(store.dir());
                let serving = at.as_deref().map_or_else(ours, |at| Ok(server::Serving::at(at)))?;
                load::run(&serving, *clients, *seconds)?
            }
            What::Follow { followers, stuck } => follow::run(store.dir(), *followers, *stuck)?,
            What::Run { endpoint, events, turns } => turn::run(&store, endpoint, *events, *turns)?,
            What::Workspace { dir, files, changed, times } => {
                workspace::checkpoints(&store, dir, *files, *changed, *times)?
            }
            What::Replay { messages } => super::bench_compile::replay(&store, *messages)?,
        };
        context.ui.answer(result.to_string())?;
        Ok(Exit::Done)
    }
}

fn read_deltas(path: &Path) -> Result<Vec<Vec<u8>>> {
    let bytes = fs::read(path).map_err(|source| ServiceError::File { path: path.to_owned(), source })?;
    let mut rest = bytes.as_slice();
    let mut deltas = Vec::new();
    while let Some((len, tail)) = rest.split_first_chunk::<4>() {
        let len = u32::from_le_bytes(*len) as usize;
        let (delta, tail) =
            tail.split_at_checked(len).ok_or_else(|| Failure::usage("the file of deltas is cut short"))?;
        deltas.push(delta.to_vec());
        rest = tail;
    }
    Ok(deltas)
}

/// Writes so many of the deltas in a stream of its own, and says how long each took.
type Write = fn(&Store, &[Vec<u8>], usize, &str) -> Result<Vec<f64>>;

fn append(store: &Store, deltas: &[Vec<u8>], n: usize, writers: usize, write: Write) -> Result<serde_json::Value> {
    // The first write opens the log; that is not what is measured.
    store.ledger().append(Batch::default())?;
    let run = format!("{}-{}", now_ms(), std::process::id());
    let run = run.as_str();
    let (began, used) = (Instant::now(), cpu_seconds()?);
    let each: Vec<Result<Vec<f64>>> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..writers)
            .map(|writer| scope.spawn(move || write(store, deltas, n / writers, &format!("bench/{run}-{writer}"))))
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|_| Err(Failure::usage("a writer died"))))
            .collect()
    });
    let (seconds, cpu_seconds) = (began.elapsed().as_secs_f64(), cpu_seconds()? - used);
    let mut latencies = each.into_iter().collect::<Result<Vec<_>>>()?.concat();
    latencies.sort_by(f64::total_cmp);
    let at = |part: f64| latencies.get((latencies.len() as f64 * part) as usize).copied().unwrap_or(0.0) * 1e6;
    let (p50_us, p99_us) = (at(0.5), at(0.99));
    let n = latencies.len();
    Ok(json!({"seconds": seconds, "n": n, "p50_us": p50_us, "p99_us": p99_us, "cpu_seconds": cpu_seconds}))
}

fn write_frames(store: &Store, deltas: &[Vec<u8>], n: usize, name: &str) -> Result<Vec<f64>> {
    let stream = StreamId::new(StreamKind::Session, name).map_err(ServiceError::from)?;
    let mut latencies = Vec::with_capacity(n);
    for (index, delta) in deltas.iter().cycle().take(n).enumerate() {
        let text: String = delta.iter().map(|byte| char::from(b'a' + byte % 26)).collect();
        let json = json!({"type": "output_text_delta", "delta": text}).to_string();
        let began = Instant::now();
        let draft = Draft::parse(json.into_bytes()).map_err(ServiceError::from)?;
        let id = format!("{name}-{index}");
        let frame = NewFrame { stream: stream.clone(), draft, id, timestamp_ms: now_ms(), expected_seq: None };
        store.ledger().append(Batch { frames: vec![frame], ..Batch::default() })?;
        latencies.push(began.elapsed().as_secs_f64());
    }
    Ok(latencies)
}

fn write_chain(store: &Store, deltas: &[Vec<u8>], n: usize, principal: &str) -> Result<Vec<f64>> {
    let stream = StreamId::new(StreamKind::Context, principal).map_err(ServiceError::from)?;
    let mut parent = None;
    let mut latencies = Vec::with_capacity(n);
    for index in 0..n {
        let mut delta = deltas[index % deltas.len()].clone();
        // No two deltas alike: bytes that are found in the store already would not be written.
        let unique = format!("{principal}#{index}#");
        let len = unique.len().min(delta.len());
        delta[..len].copy_from_slice(&unique.as_bytes()[..len]);
        let began = Instant::now();
        let (batch, id) = commit(&stream, parent.take(), delta, index as i64)?;
        store.ledger().append(batch)?;
        latencies.push(began.elapsed().as_secs_f64());
        parent = Some(id);
    }
    Ok(latencies)
}

fn commit(stream: &StreamId, parent: Option<String>, delta: Vec<u8>, index: i64) -> Result<(Batch, String)> {
    let now = now_ms();
    let created_at = Timestamp::from_micros(now as i64 * 1000 + index % 1000);
    let mut batch = Batch::default();
    let id = chain::add(&mut batch, stream, parent, delta, created_at)?;
    Ok((batch, id))
}

fn fill(store: &Store, frames: u64, streams: u64) -> Result<serde_json::Value> {
    const PER_BATCH: u64 = 1_000;
    let began = Instant::now();
    let mut done = 0;
    while done < frames {
        let count = PER_BATCH.min(frames - done);
        let mut batch = Batch::default();
        for index in done..done + count {
            let stream =
                StreamId::new(StreamKind::Session, format!("s{}", index % streams)).map_err(ServiceError::from)?;
            let json = br#"{"type":"output_text_delta","delta":"a word or two of what the model said"}"#;
            let draft = Draft::parse(json.to_vec()).map_err(ServiceError::from)?;
            let id = format!("{index:032x}");
            batch.frames.push(NewFrame { stream, draft, id, timestamp_ms: now_ms(), expected_seq: None });
        }
        store.ledger().append(batch)?;
        done += count;
    }
    Ok(json!({"seconds": began.elapsed().as_secs_f64(), "n": frames}))
}

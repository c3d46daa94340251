//! `enjamb frames`, with `import` and `export`

use std::io::{BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use enjamb_core::{StreamId, limits};
use enjamb_ledger::StoredFrame;
use enjamb_service::{Import, Store};
use serde_json::{Value, json};

use super::Context;
use super::remote::Remote;
use crate::failure::{Exit, Failure, Result};
use crate::text::{bytes, plural};

#[derive(Args)]
#[command(args_conflicts_with_subcommands = true)]
#[command(after_help = "Example:\n  enjamb frames session/s1\n  enjamb frames session/s1 --from 10 -n 5\n  \
    enjamb frames continuity/main --follow\n\nWith --json, each frame is a document on a line of its own.")]
pub struct Frames {
    #[command(subcommand)]
    exchange: Option<Exchange>,
    /// The stream, such as session/s1
    stream: Option<StreamId>,
    /// Begin at this seq
    #[arg(long, default_value_t = 0, value_name = "SEQ")]
    from: u64,
    /// At most so many
    #[arg(short = 'n', long, value_name = "COUNT")]
    limit: Option<u64>,
    /// Go on as the stream grows
    #[arg(long, short)]
    follow: bool,
}

#[derive(Subcommand)]
enum Exchange {
    /// Take in a file of frames, one JSON object a line; every byte of it can be given back
    #[command(after_help = "Example:\n  enjamb frames import events.jsonl")]
    Import {
        /// The file, or - for stdin
        file: PathBuf,
    },
    /// Give back an imported file as it was, or all frames of the store
    #[command(
        after_help = "Example:\n  enjamb frames export art-3f2a91 -o events.jsonl\n  enjamb frames export > all.jsonl"
    )]
    Export {
        /// What `frames import` answered: an artifact or a tag; without it, all frames in the order of the log
        import: Option<String>,
        /// Where to write [default: stdout]
        #[arg(short, long, value_name = "FILE")]
        output: Option<PathBuf>,
    },
}

impl Frames {
    pub fn run(self, context: &mut Context<'_>) -> Result<Exit> {
        match self.exchange {
            Some(Exchange::Import { file }) => import(context, &file),
            Some(Exchange::Export { import, output }) => export(context, import.as_deref(), output),
            None => self.read(context),
        }
    }

    fn read(self, context: &mut Context<'_>) -> Result<Exit> {
        let Some(stream) = self.stream.as_ref() else {
            let help = Some("enjamb streams    lists them".into());
            return Err(Failure::Usage { message: "which stream?".into(), help });
        };
        read_stream(context, stream, self.from, self.limit, self.follow)
    }
}

/// Prints frames of a stream, and goes on as it grows if asked to.
pub fn read_stream(
    context: &mut Context<'_>,
    stream: &StreamId,
    from: u64,
    limit: Option<u64>,
    follows: bool,
) -> Result<Exit> {
    let left = limit.unwrap_or(u64::MAX);
    match (context.remote()?, follows) {
        (Some(remote), true) => follow_remote(context, &remote, stream, from, left),
        (Some(remote), false) => read_remote(context, &remote, stream, from, left),
        (None, _) => read_here(context, stream, from, left, follows),
    }
}

fn read_here(context: &mut Context<'_>, stream: &StreamId, from: u64, limit: u64, follows: bool) -> Result<Exit> {
    let store = context.open()?;
    let mut left = limit;
    let mut next = from;
    if !follows {
        store.stream(stream)?;
    }
    let mut follow = store.follow(stream, next);
    while left > 0 {
        let page = left.min(limits::PAGE_ROWS_MAX as u64) as usize;
        let mut frames = if follows { follow.next(&|| true)? } else { store.frames(stream, next, page)? };
        frames.truncate(page);
        let Some(last) = frames.last() else { break };
        next = last.seq + 1;
        left -= frames.len() as u64;
        print(context, &frames)?;
        if follows {
            context.ui.flush()?;
        }
    }
    Ok(Exit::Done)
}

fn read_remote(context: &mut Context<'_>, remote: &Remote, stream: &StreamId, from: u64, limit: u64) -> Result<Exit> {
    print_from(context, remote, stream, from, limit)?;
    Ok(Exit::Done)
}

/// Prints up to `limit` frames, and says how many there were.
fn print_from(context: &mut Context<'_>, remote: &Remote, stream: &StreamId, from: u64, limit: u64) -> Result<u64> {
    let mut printed = 0;
    while printed < limit {
        let page = (limit - printed).min(limits::PAGE_ROWS_MAX as u64) as usize;
        let frames = remote.frames(stream, from + printed, page)?;
        if frames.is_empty() {
            break;
        }
        printed += frames.len() as u64;
        for frame in &frames {
            print_one(context, frame.seq, &frame.chain, frame.frame.get().as_bytes())?;
        }
    }
    Ok(printed)
}

fn follow_remote(context: &mut Context<'_>, remote: &Remote, stream: &StreamId, from: u64, limit: u64) -> Result<Exit> {
    let asked = json!({"kind": stream.kind.as_str(), "id": stream.id});
    let mut follow = remote.0.follow("follow", asked, from.checked_sub(1));
    let (mut next, mut left) = (from, limit);
    // Events tell that there are frames, without their secrets; what is stored is read where it is asked for.
    while left > 0 {
        let seq: u64 = follow.wait()?.id.parse().unwrap_or_default();
        if seq < next {
            continue;
        }
        let read = print_from(context, remote, stream, next, left.min(seq + 1 - next))?;
        (next, left) = (next + read, left - read);
        context.ui.flush()?;
    }
    Ok(Exit::Done)
}

fn print_one(context: &mut Context<'_>, seq: u64, chain: &str, json: &[u8]) -> Result<()> {
    if context.ui.is_json() {
        let value: Value = serde_json::from_slice(json).unwrap_or(Value::Null);
        context.ui.json("frame", json!({"seq": seq, "chain": chain, "frame": value}))?;
    } else {
        context.ui.stored(&[json, b"\n".as_slice()].concat())?;
    }
    Ok(())
}

fn print(context: &mut Context<'_>, frames: &[StoredFrame]) -> Result<()> {
    frames.iter().try_for_each(|frame| print_one(context, frame.seq, &frame.chain.to_hex(), &frame.json))
}

fn import(context: &mut Context<'_>, file: &Path) -> Result<Exit> {
    let report = if file.as_os_str() == "-" {
        context.open_or_create()?.import_frames(&mut std::io::stdin().lock())?
    } else {
        let source = super::file::open(file)?;
        let store = context.open_or_create()?;
        store.import_frames(&mut BufReader::with_capacity(1 << 20, source))?
    };
    show_import(context, &report)?;
    Ok(if report.problems.is_empty() { Exit::Done } else { Exit::Partly })
}

fn show_import(context: &mut Context<'_>, report: &Import) -> Result<()> {
    let id = report.manifest.map(|id| id.to_string()).unwrap_or_default();
    if context.ui.is_json() {
        let problems: Vec<_> =
            report.problems.iter().map(|problem| json!({"line": problem.line, "detail": problem.detail})).collect();
        context.ui.json(
            "frames_import",
            json!({
                "import": id, "lines": report.lines, "appended": report.appended, "known": report.known,
                "bytes": report.bytes, "digest": report.digest.map(|digest| digest.to_hex()), "problems": problems,
                "repeated_members": report.repeated,
            }),
        )?;
        return Ok(());
    }
    for problem in &report.problems {
        context.ui.note(&format!("line {}: kept, not appended: {}", problem.line, problem.detail));
    }
    for (member, frames) in &report.repeated {
        context.ui.note(&format!("member {member} is given more than once in {}: kept so", plural(*frames, "frame")));
    }
    context.ui.line(format!(
        "{} of {}: {} appended, {} here already",
        plural(report.lines, "line"),
        bytes(report.bytes),
        report.appended,
        report.known
    ))?;
    context.ui.answer(id)?;
    Ok(())
}

fn export(context: &mut Context<'_>, import: Option<&str>, output: Option<PathBuf>) -> Result<Exit> {
    let store = context.open()?;
    match output {
        None => write_export(&store, import, &mut BufWriter::new(context.ui.stored_writer()))?,
        Some(path) => {
            super::file::create(&path, |out| write_export(&store, import, out))?;
            if context.ui.is_json() {
                context.ui.json("frames_export", json!({"path": path.to_string_lossy()}))?;
            } else {
                context.ui.line(format!("wrote {}", path.display()))?;
            }
        }
    }
    Ok(Exit::Done)
}

fn write_export(store: &Store, import: Option<&str>, out: &mut dyn Write) -> Result<()> {
    match import {
        Some(text) => store.export_import(&store.resolve_artifact(text)?, out).map(drop)?,
        None => store.export_frames(out).map(drop)?,
    }
    Ok(out.flush()?)
}

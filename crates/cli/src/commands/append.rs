//! `enjamb append`

use std::io::{BufRead, Read};

use clap::Args;
use enjamb_core::frame::FrameError;
use enjamb_core::{StreamId, limits};
use enjamb_ledger::Appended;
use enjamb_service::{DraftLine, ServiceError, Store};
use serde_json::{Value, json};

use super::Context;
use super::remote::Remote;
use crate::failure::{Exit, Failure, Result};
use crate::text::plural;

/// Frames that are stored with one sync, and the bytes after which they are no more collected.
const FRAMES_PER_BATCH: usize = 500;
const BYTES_PER_BATCH: usize = 8 << 20;

#[derive(Args)]
#[command(after_help = "Example:\n  enjamb append session/s1 --type session_started --data '{\"input\":\"hi\"}'\n  \
    cat frames.jsonl | enjamb append\n\nWhat a frame leaves out (id, seq, timestamp_ms, stream) is filled in. Frames read \
    from stdin are one a line.")]
pub struct Append {
    /// Where frames go that name no stream themselves, such as session/s1
    stream: Option<StreamId>,
    /// Append one frame of this type, instead of reading stdin
    #[arg(long = "type", value_name = "TYPE")]
    frame_type: Option<String>,
    /// Its members, as a JSON object
    #[arg(long, value_name = "JSON", requires = "frame_type")]
    data: Option<String>,
    /// Fail unless the first frame gets this seq
    #[arg(long, value_name = "SEQ")]
    expect_seq: Option<u64>,
    /// A retry with the same key answers as the first try did, and stores nothing twice
    #[arg(long, value_name = "KEY")]
    key: Option<String>,
}

/// The store that frames go to.
enum Target {
    Here(Box<Store>),
    Remote(Remote),
}

impl Append {
    pub fn run(self, context: &mut Context<'_>) -> Result<Exit> {
        let one = self.frame_type.as_ref().map(|kind| one_frame(kind, self.data.as_deref())).transpose()?;
        let target = match context.remote()? {
            Some(remote) => Target::Remote(remote),
            None => Target::Here(Box::new(context.open_or_create()?)),
        };
        let all = match one {
            Some(json) => vec![self.send(&target, vec![DraftLine { line: 1, json }], true)?],
            None => self.append_lines(&target)?,
        };
        report(context, &all)
    }

    fn send(&self, target: &Target, lines: Vec<DraftLine>, is_first: bool) -> Result<Appended> {
        let request = enjamb_service::Append {
            lines,
            stream: self.stream.clone(),
            expected_seq: self.expect_seq.filter(|_| is_first),
            idempotency_key: self.key.clone(),
        };
        match target {
            Target::Here(store) => Ok(store.append(request)?),
            Target::Remote(remote) => remote.append(&request),
        }
    }

    fn append_lines(&self, target: &Target) -> Result<Vec<Appended>> {
        let mut source = std::io::stdin().lock();
        let mut all = Vec::new();
        let mut lines = Vec::new();
        let (mut number, mut bytes) = (0, 0);
        while let Some(json) = read_frame_line(&mut source, number + 1)? {
            number += 1;
            if json.iter().all(u8::is_ascii_whitespace) {
                continue;
            }
            if lines.len() == FRAMES_PER_BATCH || bytes >= BYTES_PER_BATCH {
                if self.key.is_some() {
                    let help = "send at most 500 frames, and at most 8 MiB, with one key".into();
                    return Err(Failure::Usage { message: "--key is for one batch".into(), help: Some(help) });
                }
                all.push(self.send(target, std::mem::take(&mut lines), all.is_empty())?);
                bytes = 0;
            }
            bytes += json.len();
            lines.push(DraftLine { line: number, json });
        }
        if !lines.is_empty() {
            all.push(self.send(target, lines, all.is_empty())?);
        }
        Ok(all)
    }
}

fn one_frame(frame_type: &str, data: Option<&str>) -> Result<Vec<u8>> {
    let bad = |detail: &str| Failure::usage(format!("--data is not a JSON object: {detail}"));
    let mut members: Value = serde_json::from_str(data.unwrap_or("{}")).map_err(|error| bad(&error.to_string()))?;
    let object = members.as_object_mut().ok_or_else(|| bad("it is another kind of value"))?;
    object.insert("type".into(), frame_type.into());
    Ok(members.to_string().into_bytes())
}

/// Reads a line no longer than a frame may be, so that endless input is refused and not kept in memory.
fn read_frame_line(source: &mut dyn BufRead, line: u64) -> Result<Option<Vec<u8>>> {
    let mut json = Vec::new();
    let limit = limits::FRAME_BYTES_MAX as u64 + 1;
    let read = source.take(limit + 1).read_until(b'\n', &mut json);
    let read = read.map_err(|source| ServiceError::File { path: "the input".into(), source })?;
    if json.last() == Some(&b'\n') {
        json.pop();
    }
    if json.len() > limits::FRAME_BYTES_MAX {
        let too_large = FrameError::TooLarge { bytes: json.len(), limit: limits::FRAME_BYTES_MAX };
        return Err(ServiceError::Line { line, source: Box::new(too_large.into()) }.into());
    }
    Ok((read > 0).then_some(json))
}

fn report(context: &mut Context<'_>, all: &[Appended]) -> Result<Exit> {
    let frames: Vec<_> = all.iter().flat_map(|appended| &appended.frames).collect();
    if context.ui.is_json() {
        let rows: Vec<_> = frames.iter().map(|at| json!({"stream": at.stream.to_string(), "seq": at.seq})).collect();
        let replayed = all.iter().any(|appended| appended.replayed);
        context.ui.json("append", json!({"frames": rows, "replayed": replayed, "durable": true}))?;
        return Ok(Exit::Done);
    }
    match (frames.first(), frames.last()) {
        (Some(first), Some(_)) if frames.len() == 1 => {
            context.ui.answer(format!("{}\t{}", first.stream, first.seq))?;
        }
        (Some(_), Some(last)) => {
            let total = plural(frames.len() as u64, "frame");
            context.ui.answer(format!("{total}, the last is {} {}", last.stream, last.seq))?;
        }
        _ => context.ui.note("no frames on stdin"),
    }
    Ok(Exit::Done)
}

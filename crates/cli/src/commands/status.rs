//! `enjamb` and `enjamb status`

use std::time::{SystemTime, UNIX_EPOCH};

use clap::Args;
use enjamb_core::Timestamp;
use enjamb_ledger::{LedgerError, StreamSummary};
use enjamb_service::ServiceError;
use serde_json::{Value, json};

use super::{Context, delivery};
use crate::failure::{Exit, Failure, Result};
use crate::text::{ago, bytes, count, plural};
use crate::ui::{Cell, Table};

#[derive(Args, Default)]
#[command(after_help = "Example:\n  enjamb\n  enjamb status --json\n  enjamb status --exit-code\n\n\
    For runtimes with hooks, it shows what arrived: the last event, not what was set up.")]
pub struct Status {
    /// Exit with 1 when something that should arrive does not
    #[arg(long)]
    exit_code: bool,
}

const RECENT_STREAMS: usize = 5;

impl Status {
    pub fn run(self, context: &mut Context<'_>) -> Result<Exit> {
        // What arrives on this machine is told of its own store, whoever else has it open.
        if let Some(remote) = context.address().is_some().then(|| context.remote()).transpose()?.flatten() {
            return remote_status(context, &remote);
        }
        let store = match context.open() {
            Err(Failure::Service(ServiceError::Ledger(LedgerError::NoStore(_)))) => return nothing_yet(context),
            opened => opened?,
        };
        let status = store.status(RECENT_STREAMS)?;
        let delivery = delivery::report(&store)?;
        let exit = if self.exit_code && !delivery.is_healthy() { Exit::No } else { Exit::Done };
        let (totals, disk) = (status.totals, status.disk);
        if context.ui.is_json() {
            let recent: Vec<_> = status.recent.iter().map(stream_json).collect();
            context.ui.json(
                "status",
                json!({
                    "path": store.location(), "store_id": status.store_id,
                    "streams": totals.streams, "frames": totals.frames, "frame_bytes": totals.frame_bytes,
                    "artifacts": totals.artifacts, "artifact_bytes": totals.artifact_bytes,
                    "disk": {"log": disk.log, "index": disk.index, "segments": disk.segments, "total": disk.total()},
                    "recent": recent, "delivery": delivery::as_json(&delivery),
                }),
            )?;
            return Ok(exit);
        }
        let ui = &mut context.ui;
        ui.line(format!("enjamb {}  {}", env!("CARGO_PKG_VERSION"), store.location()))?;
        ui.line(format!(
            "  {}  {}  {}",
            plural(totals.streams, "stream"),
            plural(totals.frames, "frame"),
            plural(totals.artifacts, "artifact")
        ))?;
        let raw = totals.frame_bytes + totals.artifact_bytes;
        ui.line(format!("  {} of content in {} on disk", bytes(raw), bytes(disk.total())))?;
        if !context.global.quiet {
            delivery::show(context, &delivery)?;
        }
        let ui = &mut context.ui;
        if !status.recent.is_empty() {
            ui.line("")?;
            ui.table(&stream_table(&status.recent))?;
        }
        Ok(exit)
    }
}

fn remote_status(context: &mut Context<'_>, remote: &super::remote::Remote) -> Result<Exit> {
    let status: enjamb_server::view::StoreStatus = remote.0.call("status", json!({"recent": RECENT_STREAMS}))?;
    let at = context.named_store().map(|at| at.to_string_lossy().into_owned()).unwrap_or_default();
    if context.ui.is_json() {
        let mut value = serde_json::to_value(&status).unwrap_or_default();
        value["path"] = at.into();
        context.ui.json("status", value)?;
        return Ok(Exit::Done);
    }
    let ui = &mut context.ui;
    ui.line(format!("enjamb {}  {at}", env!("CARGO_PKG_VERSION")))?;
    let (streams, frames) = (plural(status.streams, "stream"), plural(status.frames, "frame"));
    ui.line(format!("  {streams}  {frames}  {}", plural(status.artifacts, "artifact")))?;
    ui.line(format!(
        "  {} of content in {} on disk",
        bytes(status.frame_bytes + status.artifact_bytes),
        bytes(status.disk.total)
    ))?;
    let recent: Vec<_> = status.recent.iter().filter_map(enjamb_server::view::Stream::summary).collect();
    if !recent.is_empty() {
        ui.line("")?;
        ui.table(&stream_table(&recent))?;
    }
    Ok(Exit::Done)
}

fn nothing_yet(context: &mut Context<'_>) -> Result<Exit> {
    let dir = context.store_dir()?;
    let missed = super::missed_at(&dir).read();
    let shown = enjamb_service::shown_store(&dir)?;
    if context.ui.is_json() {
        let found = super::import::found_at_home();
        let mut by_runtime = serde_json::Map::new();
        for file in &found {
            let row = by_runtime.entry(file.runtime.as_str()).or_insert_with(|| json!({"files": 0, "bytes": 0}));
            row["files"] = (row["files"].as_u64().unwrap_or(0) + 1).into();
            row["bytes"] = (row["bytes"].as_u64().unwrap_or(0) + file.size).into();
        }
        context
            .ui
            .json("status", json!({"path": shown, "store_id": null, "found": by_runtime, "missed": missed.count}))?;
        return Ok(Exit::Done);
    }
    let ui = &mut context.ui;
    ui.line(format!("enjamb {}  nothing stored yet in {}", env!("CARGO_PKG_VERSION"), shown))?;
    if missed.count > 0 {
        ui.bad(&format!("{} of hooks missed: there is no store", plural(missed.count, "event")))?;
    }
    ui.line("")?;
    let found = super::import::found_at_home();
    if !found.is_empty() {
        let now = Timestamp::from_millis(now_ms().min(i64::MAX as u64) as i64);
        super::import::summary(context, &found, now)?;
        let ui = &mut context.ui;
        ui.line("")?;
        ui.line("Claude Code deletes transcripts after 30 days. Importing copies them; nothing of theirs is changed.")?;
        ui.line("")?;
        ui.line("  enjamb import    copy everything, what is about to be deleted first")?;
    }
    let ui = &mut context.ui;
    ui.line("  enjamb demo      see what it does, in a store that is thrown away")?;
    ui.line("  enjamb init      make a store")?;
    ui.line("  enjamb --help    all commands")?;
    Ok(Exit::Done)
}

pub fn stream_json(stream: &StreamSummary) -> Value {
    json!({
        "stream": stream.stream.to_string(),
        "kind": stream.stream.kind.as_str(),
        "id": stream.stream.id,
        "frames": stream.next_seq,
        "bytes": stream.bytes,
        "first_at": iso(stream.first_ms),
        "last_at": iso(stream.last_ms),
        "chain": stream.chain.to_hex(),
    })
}

pub fn stream_table(streams: &[StreamSummary]) -> Table {
    let now = now_ms();
    let mut table = Table::new(&["stream", "frames", "size", "last"]);
    for stream in streams {
        table.row([
            stream.stream.to_string().into(),
            Cell::new(count(stream.next_seq), stream.next_seq),
            Cell::new(bytes(stream.bytes), stream.bytes),
            Cell::new(format!("{} ago", ago(now, stream.last_ms)), iso(stream.last_ms)),
        ]);
    }
    table
}

pub fn iso(ms: u64) -> String {
    Timestamp::from_millis(ms.min(i64::MAX as u64) as i64).to_string()
}

/// The milliseconds of an instant that is told as text.
pub fn millis(at: &str) -> u64 {
    at.parse::<Timestamp>().map_or(0, Timestamp::as_millis)
}

pub fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as u64
}

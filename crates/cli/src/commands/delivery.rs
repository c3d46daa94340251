//! What hooks deliver, as `enjamb` and `enjamb capture status` show it.

use enjamb_core::Timestamp;
use enjamb_service::{DeliveryReport, HookFile, HooksFound, RuntimeDelivery, Store, hook_files};
use serde_json::{Value, json};

use super::import::places_at_home;
use super::status::{iso, now_ms};
use super::{Context, environment, missed_at};
use crate::failure::Result;
use crate::text::{ago, plural};
use crate::ui::{Cell, Table};

/// The settings of the runtimes that have hooks.
pub fn files_at_home() -> Vec<HookFile> {
    environment("HOME").map(|home| hook_files(&home, &environment)).unwrap_or_default()
}

pub fn report(store: &Store) -> Result<DeliveryReport> {
    Ok(store.delivery_report(files_at_home(), &places_at_home(), &missed_at(store.dir()))?)
}

pub fn as_json(report: &DeliveryReport) -> Value {
    let mut runtimes = serde_json::Map::new();
    for row in report.runtimes.iter().filter(|row| row.is_of_interest()) {
        let last = row
            .last
            .as_ref()
            .map(|last| json!({"at": iso(last.at_ms), "event": last.event, "session_id": last.session_id}));
        let value = json!({
            "hooks": row.hooks.as_str(), "settings": row.file.path.to_string_lossy(), "last": last,
            "unheard_since": row.unheard_ms.map(iso), "healthy": row.is_healthy(),
        });
        runtimes.insert(row.file.runtime.as_str().to_owned(), value);
    }
    let why = report.missed.last.map(|(_, miss)| miss.as_str());
    json!({
        "runtimes": runtimes, "waiting": report.waiting, "damaged": report.damaged, "failure": report.failure,
        "missed": {"count": report.missed.count, "last": report.missed.last.map(|(at_ms, _)| iso(at_ms)), "why": why},
        "healthy": report.is_healthy(),
    })
}

/// A line for each runtime, and one for each thing that is not as it should be.
pub fn show(context: &mut Context<'_>, report: &DeliveryReport) -> Result<()> {
    let mut table = Table::new(&["runtime", "", "last event", "session", ""]);
    for row in report.runtimes.iter().filter(|row| row.is_of_interest()) {
        let (state, note) = state(row);
        let last = row.last.as_ref();
        let when = last.map_or_else(
            || Cell::from(""),
            |last| Cell::new(format!("{} ago", ago(now_ms(), last.at_ms)), iso(last.at_ms)),
        );
        let session = last.and_then(|last| last.session_id.clone()).unwrap_or_default();
        let short = session.chars().take(8).collect::<String>();
        table.row([row.file.runtime.as_str().into(), state.into(), when, Cell::new(short, session), note.into()]);
    }
    context.ui.table(&table)?;
    if report.waiting > 0 {
        context.ui.line(format!("spool      {} to be taken in    enjamb import", plural(report.waiting, "event")))?;
    }
    if let Some((at_ms, miss)) = report.missed.last {
        let missed = plural(report.missed.count, "event");
        let when = Timestamp::from_millis(at_ms.min(i64::MAX as u64) as i64);
        let text = format!("{missed} missed, the last at {when}: {}    enjamb import makes up for it", miss.sentence());
        context.ui.bad(&text)?;
    }
    if report.damaged > 0 {
        context.ui.line(format!("damaged    {} of the spool", plural(report.damaged, "record")))?;
    }
    if let Some(failure) = &report.failure {
        context.ui.bad(failure)?;
    }
    Ok(())
}

fn state(row: &RuntimeDelivery) -> (&'static str, String) {
    let (runtime, path) = (row.file.runtime.as_str(), row.file.path.display());
    let again = format!("enjamb capture on {runtime}");
    match row.hooks {
        HooksFound::Off => ("○ off", again),
        HooksFound::Missing => ("✗ hooks missing", format!("{path} was changed    {again}")),
        HooksFound::NoProgram => ("✗ cannot call", format!("the program that {path} names is gone    {again}")),
        HooksFound::On if row.unheard_ms.is_some() => {
            let at = row.unheard_ms.map(iso).unwrap_or_default();
            ("✗ silent", format!("a session was written at {at} and no event came    enjamb import"))
        }
        HooksFound::On if row.last.is_some() => ("● live", String::new()),
        HooksFound::On => ("○ waiting", "for its first event".to_owned()),
    }
}

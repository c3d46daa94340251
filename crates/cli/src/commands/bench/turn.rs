//! `enjamb bench run`: what it costs to take an answer of many events, and how soon a first word is shown.

use std::sync::atomic::AtomicBool;
use std::time::{SystemTime, UNIX_EPOCH};

use enjamb_service::{Actor, Means, Provider, ProviderOptions, ServiceError, Store, Toolbox, Turn, TurnEvent};
use serde_json::{Value, json};

use crate::failure::{Failure, Result};

/// Ticks of the clock by which Linux counts a process's time.
const TICKS_PER_SECOND: f64 = 100.0;

/// Takes turns with a provider that sends so many events, and whose first word is the time at which it was sent.
pub fn run(store: &Store, endpoint: &str, events: u64, turns: u64) -> Result<Value> {
    let thread = store.create_thread("/bench", None)?;
    let options =
        ProviderOptions { model: Some(format!("events-{events}")), ..ProviderOptions::new(endpoint, u64::MAX) };
    let provider = Provider::new(options)?;
    let (tools, by, cancel) = (Toolbox::none(), Actor::default(), AtomicBool::new(false));
    let means = Means { provider: &provider, tools: &tools, by: &by, cancel: &cancel };
    let mut late = Vec::new();
    let before = cpu_seconds()?;
    for turn in 0..turns {
        let turn = Turn { content: format!("question {turn}"), ..Turn::default() };
        let mut is_first = true;
        let turned = store.take_turn(&thread, &turn, &means, &mut |event| {
            if let TurnEvent::Text(text) = event
                && std::mem::take(&mut is_first)
            {
                late.extend(lateness(text));
            }
        })?;
        if !turned.ending.is_completed() {
            return Err(Failure::Service(ServiceError::Run { run: turned.run, ending: turned.ending }));
        }
    }
    // What the index has to catch up with is part of the cost.
    store.thread(&thread)?;
    let seconds = cpu_seconds()? - before;
    late.sort_by(f64::total_cmp);
    let at = |part: f64| late.get((late.len() as f64 * part) as usize).copied().unwrap_or(f64::NAN) * 1e6;
    let first: f64 = late.iter().sum::<f64>() / late.len().max(1) as f64;
    Ok(json!({
        "seconds": seconds, "n": events * turns, "p50_us": at(0.5), "p99_us": at(0.99), "first_seconds": first,
    }))
}

/// Seconds since the time that a provider said it was.
fn lateness(text: &str) -> Option<f64> {
    let sent: u128 = text.strip_prefix('@')?.split_whitespace().next()?.parse().ok()?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).ok()?.as_nanos();
    Some(now.saturating_sub(sent) as f64 / 1e9)
}

/// What this process has taken of the processors, in all its threads.
pub(super) fn cpu_seconds() -> Result<f64> {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let after_name = stat.rsplit_once(") ").map_or("", |(_, rest)| rest);
    let ticks: Vec<f64> = after_name.split(' ').skip(11).take(2).filter_map(|word| word.parse().ok()).collect();
    match ticks.as_slice() {
        [user, system] => Ok((user + system) / TICKS_PER_SECOND),
        _ => Err(Failure::usage("the time that this process took is only known on Linux")),
    }
}

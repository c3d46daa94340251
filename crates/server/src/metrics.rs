//! Counters of the server, and of the store, as Prometheus reads them.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Mutex;
use std::time::Duration;

use crate::call::Call;
use crate::problem::Result;

/// Upper bounds of the latencies that are counted together, in seconds.
const BOUNDS: [f64; 10] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 2.5, 10.0];

/// What was asked for, how it ended and how long it took.
#[derive(Default)]
pub struct Metrics(Mutex<BTreeMap<&'static str, Operation>>);

#[derive(Clone, Default)]
struct Operation {
    by_status: BTreeMap<u16, u64>,
    buckets: [u64; BOUNDS.len()],
    count: u64,
    seconds: f64,
}

impl Metrics {
    pub fn note(&self, operation: &'static str, status: u16, took: Duration) {
        let mut all = self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let one = all.entry(operation).or_default();
        let seconds = took.as_secs_f64();
        *one.by_status.entry(status).or_default() += 1;
        one.count += 1;
        one.seconds += seconds;
        for (bucket, bound) in one.buckets.iter_mut().zip(BOUNDS) {
            *bucket += u64::from(seconds <= bound);
        }
    }

    fn write(&self, out: &mut String) {
        let all = self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).clone();
        head(out, "enjamb_requests_total", "counter", "Requests by operation and status.");
        for (operation, one) in &all {
            for (status, count) in &one.by_status {
                line(out, "enjamb_requests_total", &format!("operation=\"{operation}\",status=\"{status}\""), count);
            }
        }
        head(out, "enjamb_request_seconds", "histogram", "How long requests took.");
        for (operation, one) in &all {
            for (bucket, bound) in one.buckets.iter().zip(BOUNDS) {
                let labels = format!("operation=\"{operation}\",le=\"{bound}\"");
                line(out, "enjamb_request_seconds_bucket", &labels, bucket);
            }
            let labels = format!("operation=\"{operation}\"");
            line(out, "enjamb_request_seconds_bucket", &format!("{labels},le=\"+Inf\""), &one.count);
            line(out, "enjamb_request_seconds_sum", &labels, &one.seconds);
            line(out, "enjamb_request_seconds_count", &labels, &one.count);
        }
    }
}

fn head(out: &mut String, name: &str, kind: &str, help: &str) {
    let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}");
}

fn line(out: &mut String, name: &str, labels: &str, value: &impl std::fmt::Display) {
    // Writing to a string never fails.
    let _ = match labels {
        "" => writeln!(out, "{name} {value}"),
        labels => writeln!(out, "{name}{{{labels}}} {value}"),
    };
}

/// The counters of the server and of the caller's store.
pub fn text(call: &Call) -> Result<String> {
    let mut out = String::new();
    call.metrics.write(&mut out);
    let status = call.store().status(0)?;
    let gauges = [
        ("enjamb_streams", "Streams in the store.", status.totals.streams),
        ("enjamb_frames", "Frames in the store.", status.totals.frames),
        ("enjamb_artifacts", "Artifacts in the store.", status.totals.artifacts),
        ("enjamb_disk_bytes", "Bytes on disk.", status.disk.total()),
        ("enjamb_followers", "Followers of events.", call.space.hub.followers() as u64),
    ];
    for (name, help, value) in gauges {
        head(&mut out, name, "gauge", help);
        line(&mut out, name, "", &value);
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_hold_all_that_was_quicker() {
        let metrics = Metrics::default();
        metrics.note("append", 201, Duration::from_micros(1500));
        metrics.note("append", 409, Duration::from_secs(20));
        let mut out = String::new();
        metrics.write(&mut out);
        for wanted in [
            "enjamb_requests_total{operation=\"append\",status=\"201\"} 1\n",
            "enjamb_request_seconds_bucket{operation=\"append\",le=\"0.001\"} 0\n",
            "enjamb_request_seconds_bucket{operation=\"append\",le=\"0.0025\"} 1\n",
            "enjamb_request_seconds_bucket{operation=\"append\",le=\"+Inf\"} 2\n",
            "enjamb_request_seconds_count{operation=\"append\"} 2\n",
        ] {
            assert!(out.contains(wanted), "{wanted} in {out}");
        }
    }
}

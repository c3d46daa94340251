//! Spans for OpenTelemetry: one a request, sent as OTLP over HTTP in JSON to a collector, if one is named.
//!
//! A request never waits for it: spans are handed to a thread, which sends many at a time. What a collector does not take
//! soon enough is dropped, and the log says how much.

use std::sync::Mutex;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

const WAITING_MAX: usize = 4_096;
const TOGETHER_MAX: usize = 512;
const GATHER: Duration = Duration::from_secs(1);
const SEND_WITHIN: Duration = Duration::from_secs(5);
/// OTLP's numbers for a server's span and for one that failed.
const KIND_SERVER: u8 = 2;
const STATUS_ERROR: u8 = 2;

/// Where a request comes from, as `traceparent` says it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parent {
    trace: String,
    span: String,
    /// Whoever asked wants it to be told of.
    sampled: bool,
}

impl Parent {
    /// `00-TRACE-SPAN-FLAGS`; anything else is none.
    pub fn parse(header: &str) -> Option<Self> {
        let parts: Vec<&str> = header.trim().split('-').collect();
        let is_hex = |text: &str, len: usize| {
            text.len() == len && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
        };
        let is_set = |text: &str| text.bytes().any(|byte| byte != b'0');
        let [version, trace, span, flags, ..] = parts.as_slice() else { return None };
        let fits = is_hex(version, 2) && *version != "ff" && is_hex(trace, 32) && is_hex(span, 16) && is_hex(flags, 2);
        let sampled = u8::from_str_radix(flags, 16).is_ok_and(|flags| flags & 1 == 1);
        (fits && is_set(trace) && is_set(span)).then(|| Self {
            trace: (*trace).to_owned(),
            span: (*span).to_owned(),
            sampled,
        })
    }
}

/// What is told of one request.
#[derive(Clone, Debug)]
pub struct Span {
    pub parent: Option<Parent>,
    pub method: &'static str,
    pub route: &'static str,
    pub operation: &'static str,
    pub request_id: String,
    pub status: u16,
    pub ended: SystemTime,
    pub took: Duration,
}

/// Sends spans to a collector.
pub struct Exporter(Mutex<Option<Writer>>);

struct Writer {
    spans: SyncSender<Span>,
    thread: JoinHandle<()>,
}

impl Exporter {
    /// `endpoint` is the collector's address without a path, such as `http://127.0.0.1:4318`.
    pub fn start(endpoint: &str) -> Self {
        let url = format!("{}/v1/traces", endpoint.trim_end_matches('/'));
        let (spans, waiting) = sync_channel(WAITING_MAX);
        let thread = std::thread::spawn(move || send_all(&url, &waiting));
        Self(Mutex::new(Some(Writer { spans, thread })))
    }

    pub fn note(&self, span: Span) {
        if span.parent.as_ref().is_some_and(|parent| !parent.sampled) {
            return;
        }
        let writer = self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        // One that there is no room for is dropped: requests do not wait for a collector.
        if let Some(writer) = writer.as_ref() {
            let _ = writer.spans.try_send(span);
        }
    }

    /// Sends what waits.
    pub fn finish(&self) {
        let writer = self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).take();
        if let Some(Writer { spans, thread }) = writer {
            drop(spans);
            // It has said itself what went wrong.
            let _ = thread.join();
        }
    }
}

fn send_all(url: &str, waiting: &Receiver<Span>) {
    let mut agent = ureq::Agent::config_builder().timeout_global(Some(SEND_WITHIN));
    if url.starts_with("https://") {
        agent = agent.tls_config(enjamb_service::http::tls());
    }
    let agent = agent.build().new_agent();
    while let Ok(first) = waiting.recv() {
        let spans = gathered(first, waiting);
        let sent = agent.post(url).content_type("application/json").send(document(&spans).to_string());
        if let Err(error) = sent {
            tracing::warn!(%error, spans = spans.len(), "the collector of spans did not take them");
        }
    }
}

/// A span and those that come soon after it.
fn gathered(first: Span, waiting: &Receiver<Span>) -> Vec<Span> {
    let (mut spans, until) = (vec![first], Instant::now() + GATHER);
    while spans.len() < TOGETHER_MAX {
        match waiting.recv_timeout(until.saturating_duration_since(Instant::now())) {
            Ok(span) => spans.push(span),
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => break,
        }
    }
    spans
}

/// Spans as OTLP has them.
fn document(spans: &[Span]) -> Value {
    let service = attribute("service.name", json!({"stringValue": "enjamb"}));
    let version = attribute("service.version", json!({"stringValue": env!("CARGO_PKG_VERSION")}));
    json!({"resourceSpans": [{
        "resource": {"attributes": [service, version]},
        "scopeSpans": [{"scope": {"name": "enjamb"}, "spans": spans.iter().map(told).collect::<Vec<_>>()}],
    }]})
}

fn told(span: &Span) -> Value {
    let text = |value: &str| json!({"stringValue": value});
    let ended = span.ended.duration_since(UNIX_EPOCH).unwrap_or_default();
    let nanos = |at: Duration| at.as_nanos().to_string();
    let mut value = json!({
        "traceId": span.parent.as_ref().map_or_else(|| random(16), |parent| parent.trace.clone()),
        "spanId": random(8),
        "name": format!("{} {}", span.method, span.route),
        "kind": KIND_SERVER,
        "startTimeUnixNano": nanos(ended.saturating_sub(span.took)),
        "endTimeUnixNano": nanos(ended),
        "attributes": [
            attribute("http.request.method", text(span.method)),
            attribute("http.route", text(span.route)),
            attribute("http.response.status_code", json!({"intValue": span.status.to_string()})),
            attribute("enjamb.operation", text(span.operation)),
            attribute("enjamb.request_id", text(&span.request_id)),
        ],
        "status": if span.status >= 500 { json!({"code": STATUS_ERROR}) } else { json!({}) },
    });
    if let Some(parent) = &span.parent {
        value["parentSpanId"] = parent.span.clone().into();
    }
    value
}

fn attribute(key: &str, value: Value) -> Value {
    json!({"key": key, "value": value})
}

fn random(bytes: usize) -> String {
    let mut some = [0; 16];
    // Without random bytes spans merely share an id.
    let _ = getrandom::fill(&mut some[..bytes]);
    some[..bytes].iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";

    #[test]
    fn a_parent_is_what_the_header_says_and_nothing_else() {
        let parent = Parent::parse(&format!("00-{TRACE}-00f067aa0ba902b7-01")).unwrap();
        assert_eq!((parent.trace.as_str(), parent.span.as_str(), parent.sampled), (TRACE, "00f067aa0ba902b7", true));
        for bad in [
            "",
            "00",
            "ff-",
            &format!("00-{TRACE}-0000000000000000-01"),
            &format!("00-{}-00f067aa0ba902b7-01", &TRACE[1..]),
        ] {
            assert_eq!(Parent::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_span_is_told_as_otlp_has_it() {
        let span = Span {
            parent: Parent::parse(&format!("00-{TRACE}-00f067aa0ba902b7-01")),
            method: "POST",
            route: "/v1/frames",
            operation: "append_any",
            request_id: "req-1".into(),
            status: 503,
            ended: UNIX_EPOCH + Duration::from_secs(2),
            took: Duration::from_millis(500),
        };
        let mut told = document(&[span])["resourceSpans"][0]["scopeSpans"][0]["spans"][0].take();
        assert_eq!(told["spanId"].take().as_str().map(str::len), Some(16));
        assert_eq!(
            (&told["traceId"], &told["parentSpanId"], &told["name"]),
            (&json!(TRACE), &json!("00f067aa0ba902b7"), &json!("POST /v1/frames"))
        );
        assert_eq!(
            (&told["startTimeUnixNano"], &told["endTimeUnixNano"], &told["status"]["code"]),
            (&json!("1500000000"), &json!("2000000000"), &json!(2))
        );
    }
}

//! One event as a frame. What does not fit a frame is an artifact that the frame names, so that nothing is lost.

use serde_json::json;

use super::{Dialect, SseEvent};
use crate::frame::{Body, OutputTextDelta, ProviderEvent, ProviderStatus, is_storable};
use crate::json::Json;
use crate::{ArtifactId, limits};

/// Bytes of a text that always fit a frame, however they are escaped.
const TEXT_BYTES_MAX: usize = limits::FRAME_BYTES_MAX / 8;
/// Bytes of a value that fits a frame beside the other members.
const VALUE_BYTES_MAX: usize = limits::FRAME_BYTES_MAX - (64 << 10);
const NAME_CHARS_MAX: usize = 200;

/// An event as it is kept: the frame, and bytes that it names.
pub(super) struct KeptEvent {
    pub event: ProviderEvent,
    pub artifact: Option<Vec<u8>>,
}

/// The frame of an event, and whether its data is an object to be read.
pub(super) fn keep(dialect: Dialect, event: &SseEvent) -> (KeptEvent, bool) {
    let mut kept = ProviderEvent {
        provider: dialect.provider().to_owned(),
        status: ProviderStatus::Event,
        event_name: event.name.as_deref().map(named),
        data: None,
        raw: None,
        errors: event.fault.iter().map(|fault| fault.as_str().to_owned()).collect(),
        response_errors: Vec::new(),
    };
    let text = event.data.as_str();
    if text.trim() == "[DONE]" {
        (kept.status, kept.raw) = (ProviderStatus::Done, Some(text.to_owned()));
        return (KeptEvent { event: kept, artifact: None }, false);
    }
    let parsed = Json::parse(on_one_line(text));
    match parsed {
        Ok(data) if !data.is_object() => {
            kept.errors.push("the event is JSON, but no object".into());
            (keep_raw(kept, text), false)
        }
        Ok(data) if data.get().len() <= VALUE_BYTES_MAX && is_storable(data.get()) => {
            kept.data = Some(data);
            (KeptEvent { event: kept, artifact: None }, true)
        }
        Ok(_) => (keep_aside(kept, text), true),
        Err(error) => {
            kept.status = ProviderStatus::InvalidJson;
            kept.errors.push(error.to_string());
            (keep_raw(kept, text), false)
        }
    }
}

/// An answer that is no stream of events, as one event.
pub fn whole_body(dialect: Dialect, body: &[u8], errors: Vec<String>) -> (Body, Option<Vec<u8>>) {
    let text = String::from_utf8_lossy(body).into_owned();
    let (kept, _) = keep(dialect, &SseEvent { name: None, data: text, fault: None });
    let mut event = kept.event;
    event.errors = [errors, event.errors].concat();
    (event.into(), kept.artifact)
}

/// The artifact that holds an event which did not fit its frame.
pub fn overlong_kept(event: &ProviderEvent) -> Option<ArtifactId> {
    let data: serde_json::Value = serde_json::from_str(event.data.as_ref()?.get()).ok()?;
    (data["type"] == ASIDE).then(|| data["artifact_id"].as_str()?.parse().ok()).flatten()
}

const ASIDE: &str = "enjamb.event_kept_aside";

fn keep_raw(mut kept: ProviderEvent, text: &str) -> KeptEvent {
    if text.len() > TEXT_BYTES_MAX {
        return keep_aside(kept, text);
    }
    kept.raw = Some(text.to_owned());
    KeptEvent { event: kept, artifact: None }
}

fn keep_aside(mut kept: ProviderEvent, text: &str) -> KeptEvent {
    let bytes = text.as_bytes().to_vec();
    let id = ArtifactId::of(&bytes).to_hex();
    kept.data = Some(Json::from(json!({"type": ASIDE, "artifact_id": id, "bytes": bytes.len()})));
    kept.errors.push(format!("the event has {} bytes or too many levels: artifact art-{id} holds it", bytes.len()));
    KeptEvent { event: kept, artifact: Some(bytes) }
}

/// Text as frames, each of which fits.
pub(super) fn deltas(text: &str) -> Vec<Body> {
    let mut frames = Vec::with_capacity(1);
    let mut rest = text;
    while !rest.is_empty() {
        let end =
            (0..=rest.len().min(TEXT_BYTES_MAX)).rev().find(|at| rest.is_char_boundary(*at)).unwrap_or(rest.len());
        let (delta, later) = rest.split_at(end);
        frames.push(OutputTextDelta { delta: delta.to_owned() }.into());
        rest = later;
    }
    frames
}

/// Data may come in several lines, and frames are written on one. In JSON a line break is never part of a text.
fn on_one_line(text: &str) -> String {
    if text.contains(['\n', '\r']) { text.replace(['\n', '\r'], " ") } else { text.to_owned() }
}

fn named(name: &str) -> String {
    name.chars().take(NAME_CHARS_MAX).collect()
}

//! Server-sent events: a stream, a principal's timeline or everything, from any place on, as it grows.
//!
//! A follower first reads the log page by page, then listens to the hub. One that falls behind the hub's ring reads the
//! log again; one that takes nothing for long, or is far behind, is told so (`event: lagged`) and cut off. So what a
//! follower costs is bounded, and no frame is left out or sent twice.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use enjamb_core::redact::mask_bytes;
use enjamb_core::{RawFrame, StreamId, StreamKind};
use enjamb_ledger::Ledger;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{broadcast, mpsc, watch};
use tokio::time::{Instant, interval_at, timeout};

use crate::hub::{Batch, Live};
use crate::problem::{Problem, Result};
use crate::space::Space;

/// Frames that are read at once.
const PAGE: usize = 64;
/// Bytes that are sent at once, as far as whole frames allow. Who takes nothing holds up a few of these.
const PAGE_BYTES: usize = 32 << 10;

/// What is followed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    Stream(StreamId),
    /// Every stream; those that tell who did what only for who may see them.
    Everything {
        with_audit: bool,
    },
}

/// A wish to follow.
#[derive(Clone, Debug)]
pub struct Follow {
    pub subject: Subject,
    /// The first seq wanted; of everything, the first record.
    pub next: u64,
    /// Only frames of these types; none is all.
    pub types: Vec<String>,
    /// As the seed project sends events: data alone.
    pub seed: bool,
}

/// How long followers are waited for.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    pub heartbeat: Duration,
    /// A follower that takes nothing for so long is cut off.
    pub stuck: Duration,
    /// A follower so many frames behind is cut off.
    pub behind_max: u64,
}

impl Default for Pace {
    fn default() -> Self {
        Self { heartbeat: Duration::from_secs(15), stuck: Duration::from_secs(10), behind_max: 100_000 }
    }
}

/// Where a follower goes on, from what it says it has seen last.
pub fn after(last_event_id: Option<&str>, after: Option<u64>, first: u64, end: u64) -> Result<u64> {
    let seen = match last_event_id {
        Some(text) => Some(text.parse::<u64>().map_err(|_| Problem::bad_cursor(text))?),
        None => after,
    };
    match seen {
        None => Ok(first),
        Some(seen) if seen >= end => {
            let title = format!("{seen} was never sent: the next is {end}");
            Err(Problem::new(409, "cursor-ahead", title).with("next", end))
        }
        Some(seen) => Ok(seen + 1),
    }
}

/// One event. Newlines between the members of a frame become lines of data.
pub fn event(id: &str, kind: &str, json: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(json.len() + kind.len() + 48);
    out.extend_from_slice(b"id: ");
    out.extend_from_slice(id.as_bytes());
    // A type is stored as it was given: what would end the line is not part of an event's name.
    if !kind.is_empty() && !kind.contains(['\n', '\r']) {
        out.extend_from_slice(b"\nevent: ");
        out.extend_from_slice(kind.as_bytes());
    }
    out.push(b'\n');
    data(&mut out, json);
    out
}

/// What followers are shown has no secrets in it; what is stored is read as frames.
fn data(out: &mut Vec<u8>, json: &[u8]) {
    let json = &*mask_bytes(json);
    for line in json.split(|byte| matches!(byte, b'\n' | b'\r')) {
        out.extend_from_slice(b"data: ");
        out.extend_from_slice(line);
        out.push(b'\n');
    }
    out.push(b'\n');
}

/// Somebody who follows.
pub struct Follower {
    pub space: Arc<Space>,
    pub follow: Follow,
    pub pace: Pace,
    pub out: mpsc::Sender<std::io::Result<Bytes>>,
    /// Whether the caller may still listen.
    pub allowed: Box<dyn Fn() -> bool + Send + Sync>,
    pub ending: watch::Receiver<bool>,
}

/// Why following ended.
enum End {
    /// The other side is gone, or we are.
    Quiet,
    /// Too slow.
    Lagged,
}

type Step<T> = std::result::Result<T, End>;

impl Follower {
    /// Follows until one side has enough.
    pub async fn run(mut self) {
        if !self.follow.seed && self.send(Bytes::from_static(b"retry: 2000\n\n")).await.is_err() {
            return;
        }
        if let Err(End::Lagged) = self.follow_on().await {
            let last = self.follow.next.saturating_sub(1);
            let told = format!("event: lagged\ndata: {{\"last_id\":{last}}}\n\n");
            // Whoever takes nothing does not take this either.
            let _ = timeout(Duration::from_secs(1), self.out.send(Ok(Bytes::from(told)))).await;
        }
    }

    async fn follow_on(&mut self) -> Step<()> {
        loop {
            while self.read_page().await? {
                self.check_behind()?;
            }
            let hub = self.space.hub.clone();
            let listening = tokio::task::spawn_blocking(move || hub.listen()).await;
            let Ok(Ok(mut live)) = listening else { return Err(End::Quiet) };
            // What came between the last page and the listening.
            if !self.read_page().await? {
                self.listen(&mut live).await?;
            }
        }
    }

    /// Sends what the hub tells. Returns when the log has to be read again.
    async fn listen(&mut self, live: &mut broadcast::Receiver<Batch>) -> Step<()> {
        let mut beat = interval_at(Instant::now() + self.pace.heartbeat, self.pace.heartbeat);
        let mut check = interval_at(Instant::now() + Duration::from_secs(1), Duration::from_secs(1));
        loop {
            tokio::select! {
                told = live.recv() => match told {
                    Ok(batch) => self.send_batch(&batch).await?,
                    Err(RecvError::Lagged(_)) => {
                        self.check_behind()?;
                        return Ok(());
                    }
                    Err(RecvError::Closed) => return Err(End::Quiet),
                },
                _ = beat.tick() => self.send(Bytes::from_static(b": ping\n\n")).await?,
                _ = check.tick() => if !(self.allowed)() { return Err(End::Quiet) },
                _ = self.ending.changed() => return Err(End::Quiet),
                () = self.out.closed() => return Err(End::Quiet),
            }
        }
    }

    fn check_behind(&self) -> Step<()> {
        let ledger = self.space.store.ledger();
        let end = match &self.follow.subject {
            Subject::Everything { .. } => ledger.position().ok(),
            Subject::Stream(stream) => ledger.stream(stream).ok().flatten().map(|stream| stream.next_seq),
        };
        // Replaying a long history is no sign of being slow: only who is pushed out of the ring is looked at.
        let behind = end.unwrap_or(0).saturating_sub(self.follow.next);
        if self.pace.behind_max > 0 && behind > self.pace.behind_max && self.out.capacity() == 0 {
            return Err(End::Lagged);
        }
        Ok(())
    }

    async fn send_batch(&mut self, batch: &Batch) -> Step<()> {
        let mut out = Vec::new();
        for live in batch.iter() {
            let Some(at) = self.place(live) else { continue };
            self.follow.next = at + 1;
            if self.wants(&live.kind) {
                self.write(&mut out, live);
            }
        }
        if out.is_empty() { Ok(()) } else { self.send(Bytes::from(out)).await }
    }

    fn write(&self, out: &mut Vec<u8>, live: &Live) {
        match &self.follow.subject {
            _ if self.follow.seed => data(out, &live.json),
            Subject::Stream(_) => out.extend_from_slice(&live.event),
            Subject::Everything { .. } => {
                out.extend_from_slice(&event(&live.number.to_string(), &live.kind, &live.json))
            }
        }
    }

    /// Where a frame is in what is followed; `None` when it is no part of it, or was sent.
    fn place(&self, live: &Live) -> Option<u64> {
        let at = match &self.follow.subject {
            Subject::Stream(stream) if *stream == live.stream => live.seq,
            Subject::Stream(_) => return None,
            Subject::Everything { with_audit } if *with_audit || !is_audit(&live.stream) => live.number,
            Subject::Everything { .. } => return None,
        };
        (at >= self.follow.next).then_some(at)
    }

    fn wants(&self, kind: &str) -> bool {
        self.follow.types.is_empty() || self.follow.types.iter().any(|wanted| wanted == kind)
    }

    /// Sends a page of what is in the log, and says whether there may be more.
    async fn read_page(&mut self) -> Step<bool> {
        let (space, follow) = (self.space.clone(), self.follow.clone());
        let (frames, more) = {
            let Ok(_turn) = self.space.replays.acquire().await else { return Err(End::Quiet) };
            let read = tokio::task::spawn_blocking(move || page(&space, &follow)).await;
            let Ok(Ok(read)) = read else {
                tracing::error!(subject = ?self.follow.subject, "cannot read the log for a follower");
                return Err(End::Quiet);
            };
            read
        };
        self.send_batch(&Arc::new(frames)).await?;
        if *self.ending.borrow() { Err(End::Quiet) } else { Ok(more) }
    }

    async fn send(&self, bytes: Bytes) -> Step<()> {
        match timeout(self.pace.stuck, self.out.send(Ok(bytes))).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) => Err(End::Quiet),
            Err(_) => Err(End::Lagged),
        }
    }
}

/// Whether a stream tells who did what, which is not for everybody.
pub fn is_audit(stream: &StreamId) -> bool {
    matches!(&stream.kind, StreamKind::Other(kind) if kind == crate::audit::KIND)
}

/// The next frames of what is followed, at most a page of them, and whether there may be more.
fn page(space: &Space, follow: &Follow) -> Result<(Vec<Live>, bool)> {
    let ledger = space.store.ledger();
    let mut found: Vec<Live> = Vec::new();
    let mut bytes = 0;
    match &follow.subject {
        Subject::Everything { .. } => {
            ledger.each_frame(follow.next, &mut |number, frame| {
                bytes += frame.json.len();
                found.push(Live::of(number, frame));
                Ok(found.len() < PAGE && bytes < PAGE_BYTES)
            })?;
        }
        Subject::Stream(stream) => {
            for frame in ledger.frames(stream, follow.next, PAGE)? {
                if bytes >= PAGE_BYTES {
                    break;
                }
                bytes += frame.json.len();
                let kind =
                    RawFrame::parse(frame.json.clone()).map(|raw| raw.type_name().to_owned()).unwrap_or_default();
                let event = Bytes::from(event(&frame.seq.to_string(), &kind, &frame.json));
                let json = Bytes::from(frame.json);
                found.push(Live { number: 0, stream: stream.clone(), seq: frame.seq, kind, json, event });
            }
        }
    }
    let more = found.len() >= PAGE || bytes >= PAGE_BYTES;
    Ok((found, more))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_its_id_its_type_and_its_lines() {
        let text = |kind, json: &str| String::from_utf8(event("7", kind, json.as_bytes())).unwrap();
        assert_eq!(text("note", r#"{"a":1}"#), "id: 7\nevent: note\ndata: {\"a\":1}\n\n");
        assert_eq!(text("x\ny", "{\n}"), "id: 7\ndata: {\ndata: }\n\n");
    }

    #[test]
    fn a_follower_goes_on_after_what_it_saw() {
        assert_eq!(after(None, None, 0, 5).unwrap(), 0);
        assert_eq!(after(Some("3"), Some(1), 0, 5).unwrap(), 4);
        assert_eq!(after(None, Some(4), 0, 5).unwrap(), 5);
        assert_eq!(after(Some("5"), None, 0, 5).unwrap_err().code, "cursor-ahead");
        for garbage in ["", "x", "-1", "1.5", "99999999999999999999"] {
            assert_eq!(after(Some(garbage), None, 0, 5).unwrap_err().code, "bad-cursor", "{garbage}");
        }
    }
}

//! Server-sent events: what can be followed, from where on, and how frames look on the wire.

use axum::body::Bytes;
use enjamb_core::redact::mask_bytes;
use enjamb_core::{RawFrame, StreamId, StreamKind};
use enjamb_ledger::FrameRecord;

use crate::problem::{Problem, Result};

/// What is followed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
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
    pub filter: Filter,
    /// The first seq wanted; of everything, the first record.
    pub next: u64,
}

/// Which frames are wanted, and how they are written. Followers with equal ones are sent the same bytes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Filter {
    pub subject: Subject,
    /// Only frames of these types; none is all.
    pub types: Vec<String>,
    /// As the seed project sends events: data alone.
    pub seed: bool,
}

/// A frame on its way to followers.
#[derive(Clone, Debug)]
pub struct Live {
    /// The number of its record in the log.
    pub number: u64,
    pub stream: StreamId,
    pub seq: u64,
    pub kind: String,
    pub json: Bytes,
}

impl Live {
    pub fn of(number: u64, frame: &FrameRecord) -> Self {
        Self::new(number, frame.stream.clone(), frame.seq, frame.json.clone())
    }

    pub fn new(number: u64, stream: StreamId, seq: u64, json: Vec<u8>) -> Self {
        let raw = RawFrame::parse(json.clone());
        let kind = raw.map(|raw| raw.type_name().to_owned()).unwrap_or_default();
        Self { number, stream, seq, kind, json: Bytes::from(json) }
    }
}

/// Events to be sent together.
#[derive(Clone, Debug, Default)]
pub struct Piece {
    /// The place of the first frame and of the last one that are part of what is followed, wanted or not.
    pub first: Option<u64>,
    pub last: Option<u64>,
    pub events: Bytes,
}

impl Filter {
    /// What some frames are to whoever has everything before a place.
    pub fn cut(&self, frames: &[Live], next: u64) -> Piece {
        let (mut piece, mut events) = (Piece::default(), Vec::new());
        for live in frames {
            let Some(at) = self.place(live).filter(|at| *at >= next) else { continue };
            piece.first.get_or_insert(at);
            piece.last = Some(at);
            if self.wants(&live.kind) {
                self.write(&mut events, live);
            }
        }
        piece.events = Bytes::from(events);
        piece
    }

    /// Where a frame is in what is followed; `None` when it is no part of it.
    fn place(&self, live: &Live) -> Option<u64> {
        match &self.subject {
            Subject::Stream(stream) => (*stream == live.stream).then_some(live.seq),
            Subject::Everything { with_audit } => (*with_audit || !is_audit(&live.stream)).then_some(live.number),
        }
    }

    fn wants(&self, kind: &str) -> bool {
        self.types.is_empty() || self.types.iter().any(|wanted| wanted == kind)
    }

    fn write(&self, out: &mut Vec<u8>, live: &Live) {
        let id = match &self.subject {
            Subject::Stream(_) => live.seq,
            Subject::Everything { .. } => live.number,
        };
        if self.seed { data(out, &live.json) } else { event(out, id, &live.kind, &live.json) }
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
fn event(out: &mut Vec<u8>, id: u64, kind: &str, json: &[u8]) {
    out.extend_from_slice(format!("id: {id}").as_bytes());
    // A type is stored as it was given: what would end the line is not part of an event's name.
    if !kind.is_empty() && !kind.contains(['\n', '\r']) {
        out.extend_from_slice(b"\nevent: ");
        out.extend_from_slice(kind.as_bytes());
    }
    out.push(b'\n');
    data(out, json);
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

/// Whether a stream tells who did what, which is not for everybody.
pub fn is_audit(stream: &StreamId) -> bool {
    matches!(&stream.kind, StreamKind::Other(kind) if kind == crate::audit::KIND)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_its_id_its_type_and_its_lines() {
        let text = |kind, json: &str| {
            let mut out = Vec::new();
            event(&mut out, 7, kind, json.as_bytes());
            String::from_utf8(out).unwrap()
        };
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

    #[test]
    fn a_piece_holds_what_is_wanted_and_says_how_far_it_goes() {
        let live = |number, stream: &str, seq, kind: &str| {
            let json = Bytes::from_static(b"{}");
            Live { number, stream: stream.parse().unwrap(), seq, kind: kind.to_owned(), json }
        };
        let frames = [live(10, "note/a", 4, "x"), live(11, "audit/access", 0, "x"), live(12, "note/a", 5, "y")];
        let check = |subject: Subject, types: &[&str], next, expected: (Option<u64>, Option<u64>, &[&str])| {
            let types = types.iter().map(|kind| (*kind).to_owned()).collect();
            let piece = Filter { subject, types, seed: false }.cut(&frames, next);
            let text = String::from_utf8(piece.events.to_vec()).unwrap();
            let ids: Vec<_> = text.lines().filter_map(|line| line.strip_prefix("id: ")).collect();
            assert_eq!((piece.first, piece.last, ids.as_slice()), expected);
        };
        let stream = || Subject::Stream("note/a".parse().unwrap());
        check(stream(), &[], 0, (Some(4), Some(5), &["4", "5"]));
        check(stream(), &[], 5, (Some(5), Some(5), &["5"]));
        check(stream(), &["x"], 0, (Some(4), Some(5), &["4"]));
        check(Subject::Everything { with_audit: false }, &[], 0, (Some(10), Some(12), &["10", "12"]));
        check(Subject::Everything { with_audit: true }, &["x"], 0, (Some(10), Some(12), &["10", "11"]));
        check(Subject::Stream("note/b".parse().unwrap()), &[], 0, (None, None, &[]));
    }
}
